"""The paper's two figures from the records: classification accuracy as bars, run time against n."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from blockhole.errors import MissingExtra
from blockhole.evaluation.plots import COLOURS
from blockhole.graph.replacing import replacing
from blockhole.paper.summary import Summary, look_up
from blockhole.paper.timing_plan import BLOCKS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_BARS = ("blockhole-2x25", "blockhole-2x50", "rescal-50", "distmult-50", "complex-50")
_TRAININGS = {"": "the paper's training", "-corrupted": "with path-corrupting negatives"}

Data = dict[str, Any]


def classification_data(summary: Summary) -> Data | None:
    """Accuracy and deviation by data set, training and column, None where missing; None if all are."""
    bars = {
        data: {
            suffix: {
                column: [
                    look_up(summary, "classification", data, f"{column}{suffix}", name)
                    for name in ("accuracy", "accuracy_deviation")
                ]
                for column in _BARS
            }
            for suffix in _TRAININGS
        }
        for data in ("wn11", "fb13")
    }
    seen = any(bar[0] is not None for each in bars.values() for training in each.values() for bar in training.values())
    return bars if seen else None


def time_data(summary: Summary) -> Data | None:
    """Points (n, seconds) of each curve, and its line; None if there are none."""
    curves = {column: summary["time"]["wn11"][column] for column in BLOCKS if column in summary["time"].get("wn11", {})}
    return {
        column: {
            "n": sorted(int(n) for n in curve["by_dimension"]),
            "seconds": [curve["by_dimension"][str(n)]["seconds"] for n in sorted(map(int, curve["by_dimension"]))],
            "line": [curve["intercept"], curve["slope"]],
        }
        for column, curve in curves.items()
    } or None


def digest(data: Data) -> str:
    """What a figure carries to tell which data it shows."""
    return "sha256:" + hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


def write_figures(summary: Summary, folder: Path) -> list[Path]:
    """Draw what there are records for, as SVG; a figure whose records are gone is removed."""
    written = []
    for name, (gather, draw) in FIGURES.items():
        file, data = folder / f"{name}.svg", gather(summary)
        if data is None:
            file.unlink(missing_ok=True)
            continue
        with _settled_svg():
            figure = draw(data)
            with replacing(file) as temporary:
                figure.savefig(temporary, format="svg", metadata={"Date": None, "Description": digest(data)})
        written.append(file)
    return written


@contextmanager
def _settled_svg() -> Iterator[None]:
    """Names inside the file are drawn from a fixed salt, so that the same data give the same bytes."""
    try:
        import matplotlib
    except ImportError:
        raise MissingExtra("drawing figures", "paper") from None
    with matplotlib.rc_context({"svg.hashsalt": "blockhole"}):
        yield


def _draw_classification(data: Data) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4), layout="constrained")
    panels = figure.subplots(1, len(data), sharey=True)
    for axes, (name, trainings) in zip(panels, data.items(), strict=True):
        for i, (suffix, bars) in enumerate(trainings.items()):
            known = [(place, *bar) for place, bar in enumerate(bars.values()) if bar[0] is not None]
            if not known:
                continue
            place, height, error = zip(*known, strict=True)
            axes.bar(
                [each + 0.4 * i - 0.2 for each in place],
                height,
                0.38,
                yerr=[each or 0.0 for each in error],
                capsize=2,
                color=COLOURS[i],
                label=_TRAININGS[suffix],
            )
        axes.set_xticks(range(len(_BARS)), [column.replace("-", "\n", 1) for column in _BARS])
        axes.set(title=name.upper(), xlim=(-0.6, len(_BARS) - 0.4), ylim=(0, 100))
        axes.axhline(50, color="grey", linewidth=0.8, linestyle=":")
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("accuracy (%)")
    shown = {label: bar for axes in panels for bar, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    panels[0].legend(shown.values(), shown.keys(), frameon=False, loc="upper right")
    return figure


def _draw_time(data: Data) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4), layout="constrained")
    lines, powers = figure.subplots(1, 2)
    for colour, (column, curve) in zip(COLOURS, data.items(), strict=False):
        powers.plot(curve["n"], curve["seconds"], "o-", color=colour, label=column, linewidth=1)
        if column != "rescal":
            intercept, slope = curve["line"]
            lines.plot(curve["n"], curve["seconds"], "o", color=colour, label=column)
            lines.plot(curve["n"], [intercept + slope * n for n in curve["n"]], color=colour, linewidth=1)
    lines.set(title="BlockHolE, with lines of least squares", ylim=(0, None), xlim=(0, None))
    powers.set(title="RESCAL beside them, both axes logarithmic", xscale="log", yscale="log")
    timed = sorted({n for curve in data.values() for n in curve["n"]})
    powers.set_xticks(timed, [str(n) for n in timed])
    powers.minorticks_off()
    powers.yaxis.set_major_formatter("{x:g}")
    for axes in (lines, powers):
        axes.set(xlabel="n", ylabel="seconds per epoch")
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.3)
        axes.legend(frameon=False)
    return figure


FIGURES = {"classification": (classification_data, _draw_classification), "time": (time_data, _draw_time)}
"""Each figure of docs/figures: what it shows, and how it is drawn."""
