"""Print every module with the first line of its docstring, as docs/architecture.md lists them.

`python scripts/list_modules.py --write` puts the list into the document.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCUMENT = ROOT / "docs" / "architecture.md"
HEADING = "## Modules\n"


def module_list() -> str:
    """A Markdown table: module, what it is."""
    package = ROOT / "src" / "blockhole"
    lines = ["| module | what it is |", "|---|---|"]
    for path in sorted(package.rglob("*.py")):
        docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
        if docstring is None:
            raise SystemExit(f"{path} has no docstring")
        first = docstring.partition("\n")[0].replace("|", "\\|")
        lines.append(f"| `{path.relative_to(package).as_posix()}` | {first} |")
    return "\n".join(lines) + "\n"


def document() -> str:
    """docs/architecture.md with the list as it is now."""
    return DOCUMENT.read_text(encoding="utf-8").partition(HEADING)[0] + HEADING + "\n" + module_list()


if __name__ == "__main__":
    if "--write" in sys.argv:
        DOCUMENT.write_text(document(), encoding="utf-8")
    else:
        sys.stdout.write(module_list())
