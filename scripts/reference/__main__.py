"""The generated pages of docs/reference, from the program itself.

`python -m scripts.reference` writes them anew; with `--check` it only says which are stale, and exits with 1 if any is.
"""

from __future__ import annotations

import sys
from pathlib import Path

from scripts.reference.commands import commands_page
from scripts.reference.python_names import python_page
from scripts.reference.settings import settings_page

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "reference"


def pages() -> dict[str, str]:
    return {"commands.md": commands_page(), "settings.md": settings_page(), "python.md": python_page()}


def main() -> None:
    stale = []
    for name, text in pages().items():
        file = FOLDER / name
        if not file.is_file() or file.read_text(encoding="utf-8") != text:
            stale.append(name)
            if "--check" not in sys.argv:
                file.write_text(text, encoding="utf-8")
    if "--check" in sys.argv and stale:
        sys.exit(f"stale in docs/reference: {', '.join(stale)}; run: python -m scripts.reference")


if __name__ == "__main__":
    main()
