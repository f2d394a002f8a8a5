"""What every evaluation hands back: a dictionary for JSON, tables for people, and the values behind its means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, final

import numpy as np
from numpy.typing import NDArray

from blockhole.evaluation.bootstrap import Interval, intervals
from blockhole.memory import peak_bytes

Cell = str | int | float | None


@final
@dataclass(frozen=True, slots=True)
class Table:
    """A titled table; floats are shown with `digits` decimals, None as a dash."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    digits: int = 1

    def text(self) -> list[list[str]]:
        """The cells as they are shown."""
        return [[self._show(cell) for cell in row] for row in self.rows]

    def _show(self, cell: Cell) -> str:
        if cell is None:
            return "–"
        if isinstance(cell, float):
            return f"{cell:.{self.digits}f}"
        return f"{cell:,}" if isinstance(cell, int) else cell


class Report(Protocol):
    """The outcome of one task on one split."""

    @property
    def metrics(self) -> dict[str, NDArray[np.float64]]:
        """The values whose means are the figures, one for each query that counts, in the order of the queries."""

    def to_dict(self) -> dict[str, Any]:
        """Everything, as JSON takes it."""

    def tables(self) -> list[Table]:
        """The same for people, the main table first."""


@final
@dataclass(frozen=True, slots=True)
class Timing:
    """How long an evaluation took over how many queries, and the most memory the process held."""

    queries: int
    seconds: float

    def to_dict(self) -> dict[str, float]:
        """seconds, queries_per_second and peak_rss_mb."""
        return {
            "seconds": round(self.seconds, 3),
            "queries_per_second": round(self.queries / max(self.seconds, 1e-9), 1),
            "peak_rss_mb": round(peak_bytes() / 2**20, 1),
        }


def mean(values: NDArray[np.float64] | NDArray[np.bool_]) -> float | None:
    """The mean; of nothing there is none."""
    return float(values.mean()) if len(values) else None


def mean_intervals(metrics: Mapping[str, NDArray[np.float64]], seed: int = 0) -> dict[str, Interval]:
    """The bootstrap interval of each metric's mean; metrics over the same queries share their draws."""
    found: dict[str, Interval] = {}
    for count in {len(values) for values in metrics.values()} - {0}:
        names = [name for name, values in metrics.items() if len(values) == count]
        found |= zip(names, intervals(np.column_stack([metrics[name] for name in names]), seed), strict=True)
    return {name: found[name] for name in metrics if name in found}


def markdown(tables: Sequence[Table]) -> str:
    """The tables as Markdown."""
    return "\n".join(_markdown_table(table) for table in tables)


def _markdown_table(table: Table) -> str:
    lines = [f"## {table.title}", "", _line(table.header), _line(["---"] + ["---:"] * (len(table.header) - 1))]
    return "\n".join([*lines, *map(_line, table.text()), ""])


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def spell_interval(interval: Interval | None, digits: int = 1) -> str | None:
    """An interval as tables show it."""
    return None if interval is None else f"{interval[0]:.{digits}f}–{interval[1]:.{digits}f}"
