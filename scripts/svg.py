"""SVG files that tell which data they show, so that a test can say when one is stale."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from blockhole.evaluation.plots import COLOURS
from experiments.document import digest, write_svg

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BLUE, ORANGE, GREEN, PINK, YELLOW = COLOURS[:5]


def write_or_check(file: Path, data: Any, draw: Callable[[Any], Figure]) -> None:
    """Draw `data`, the same bytes each time; with --check on the command line, only see whether they are drawn."""
    if "--check" not in sys.argv:
        write_svg(file, data, draw)
    elif not file.is_file() or digest(data) not in file.read_text(encoding="utf-8"):
        sys.exit(f"{file.name} is stale; run: make reference")
