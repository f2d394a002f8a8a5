"""SVG files that tell which data they show, so that a test can say when one is stale."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib

from blockhole.evaluation.plots import COLOURS
from experiments.document import digest

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BLUE, ORANGE, GREEN, PINK, YELLOW = COLOURS[:5]


def write_svg(file: Path, data: Any, draw: Callable[[Any], Figure]) -> None:
    """Draw `data`, the same bytes each time; with --check on the command line, only see whether they are drawn."""
    if "--check" in sys.argv:
        if not file.is_file() or digest(data) not in file.read_text(encoding="utf-8"):
            sys.exit(f"{file.name} is stale; run: make reference")
        return
    with matplotlib.rc_context({"svg.hashsalt": "blockhole", "font.size": 10}):
        draw(data).savefig(file, format="svg", metadata={"Date": None, "Description": digest(data)})
