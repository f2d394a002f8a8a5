"""Run the notebooks of examples/ and keep their outputs, without what differs from run to run.

`python scripts/run_notebooks.py [NAME …]` writes them anew.
"""

from __future__ import annotations

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
SECONDS = 1200
"""Patience with one cell; on a quiet machine a notebook takes well under a minute."""


def run(path: Path, folder: Path) -> NotebookNode:
    """The notebook with the outputs of a fresh run in `folder`; a cell that fails raises."""
    book = nbformat.read(path, as_version=4)
    for cell in book.cells:
        if cell.cell_type == "code":
            cell.outputs = []
    client = NotebookClient(
        book, timeout=SECONDS, kernel_name="python3", record_timing=False, resources={"metadata": {"path": str(folder)}}
    )
    return clean(client.execute())


def clean(book: NotebookNode) -> NotebookNode:
    """The same without what says when and by which interpreter it was run; what a cell prints is in one piece."""
    book.metadata = NotebookNode(
        kernelspec=NotebookNode(display_name="Python 3", language="python", name="python3"),
        language_info=NotebookNode(name="python"),
    )
    for cell in book.cells:
        cell.metadata = NotebookNode()
        if cell.cell_type == "code":
            cell.outputs = _joined(cell.outputs)
    return book


def _joined(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """The outputs, texts of one stream that follow each other put together: where they are cut depends on the clock."""
    joined: list[NotebookNode] = []
    for output in outputs:
        if joined and output.output_type == joined[-1].output_type == "stream" and output.name == joined[-1].name:
            joined[-1].text += output.text
        else:
            joined.append(output)
    return joined


def main() -> None:
    names = sys.argv[1:] or [path.stem for path in sorted(EXAMPLES.glob("*.ipynb"))]
    for name in names:
        path = EXAMPLES / f"{name}.ipynb"
        nbformat.write(run(path, EXAMPLES), path)
        sys.stderr.write(f"wrote {path}\n")


if __name__ == "__main__":
    main()
