"""Figures of evaluations: quantile by path length, reliability, training curves, searches; each as SVG and PNG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from blockhole.errors import MissingExtra
from blockhole.saving import replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from blockhole.evaluation.classification import ClassificationReport, Measured
    from blockhole.evaluation.path_ranking import RankingReport
    from blockhole.evaluation.report import Report

Bins = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]
"""said, true and size of a Reliability."""
Metrics = Sequence[Mapping[str, float | int | str | None]]
"""The lines of a run's metrics.jsonl."""

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
"""Okabe and Ito's colours, which colour-blind readers can tell apart."""


def check_drawing() -> None:
    """Refuse to draw where matplotlib is missing; callers ask before they measure for minutes what is to be drawn."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        raise MissingExtra("drawing plots", "plots") from None


def _figure(width: float = 6.4, panels: int = 1) -> tuple[Figure, list[Axes]]:
    check_drawing()
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * panels, 4.2), layout="constrained")
    axes = list(np.atleast_1d(figure.subplots(1, panels)))
    for each in axes:
        each.spines[["top", "right"]].set_visible(False)
        each.grid(axis="y", alpha=0.3)
    return figure, axes


def plot_quantile_by_length(reports: Mapping[str, RankingReport]) -> Figure:
    """MQ against path length with 95 % intervals, one line for each model."""
    figure, (axes,) = _figure()
    for i, (name, report) in enumerate(reports.items()):
        parts = {length: part for length, part in report.by_length.items() if part.mq is not None}
        mq = np.array([part.mq for part in parts.values()], dtype=np.float64)
        bounds = np.array([part.intervals["mq"] for part in parts.values()]).reshape(-1, 2)
        # Models side by side rather than on top of each other.
        place = np.array(list(parts), dtype=np.float64) + 0.06 * (i - (len(reports) - 1) / 2)
        error = np.abs(bounds.T - mq)
        colour = COLOURS[i % len(COLOURS)]
        axes.errorbar(place, mq, error, label=name, color=colour, marker="o", markersize=5, capsize=3)
    first = next(iter(reports.values()))
    axes.set_xticks(sorted({length for report in reports.values() for length in report.by_length}))
    axes.set(xlabel="path length", ylabel="mean quantile (%)", title=f"Mean quantile by path length, {first.split}")
    axes.legend(frameon=False)
    return figure


def plot_reliability(reports: Mapping[str, ClassificationReport]) -> Figure:
    """How often queries are true against how probable the logistic loss says they are, and how many there are."""
    from blockhole.evaluation.classification import reliability

    first = next(iter(reports.values()))
    curves = {
        name: reliability(0.5 * (1 + np.tanh(report.score / 2)), report.label) for name, report in reports.items()
    }
    return plot_bins(curves, said="σ(φ)", counted="queries", title=f"Reliability of σ(φ), {first.split}")


def plot_bins(curves: Mapping[str, Bins], *, said: str, counted: str, title: str) -> Figure:
    """The share that is true against what was said, and how many there are of each; one line for each name."""
    figure, (axes, counts) = _figure(5.0, panels=2)
    axes.plot([0, 1], [0, 1], color="0.6", linestyle="--", linewidth=1, label="perfectly calibrated")
    for i, (name, (mean, true, size)) in enumerate(curves.items()):
        colour = COLOURS[i % len(COLOURS)]
        axes.plot(mean, true, label=name, color=colour, marker="o", markersize=5, clip_on=False)
        counts.plot(mean, size, label=name, color=colour, marker="o", markersize=5, clip_on=False)
    axes.set(xlabel=said, ylabel="share that is true", title=title, xlim=(0, 1), ylim=(0, 1))
    axes.legend(frameon=False)
    counts.set(xlabel=said, ylabel=counted, title="How many there are", xlim=(0, 1), yscale="log")
    return figure


def plot_reliability_by_type(curves: Mapping[str, Mapping[str, Measured]], title: str) -> Figure:
    """What is true against what was said, a panel for each type of query and in it a line for each name."""
    check_drawing()
    from matplotlib.figure import Figure

    types = list(dict.fromkeys(type_ for measured in curves.values() for type_ in measured))
    columns = min(len(types), 5)
    rows = -(-len(types) // columns)
    figure = Figure(figsize=(2.6 * columns + 0.4, 2.75 * rows + 0.7), layout="constrained")
    panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel()
    for panel, type_ in zip(panels, types, strict=False):
        panel.plot([0, 1], [0, 1], color="0.6", linestyle="--", linewidth=1)
        errors = []
        for i, (name, measured) in enumerate(curves.items()):
            if type_ in measured:
                bins = measured[type_].bins
                colour = COLOURS[i % len(COLOURS)]
                panel.plot(bins.said, bins.true, label=name, color=colour, marker="o", markersize=3, linewidth=1)
                errors.append(f"{bins.error:.3f}")
        panel.set_title(f"{type_}: ECE {' and '.join(errors)}", fontsize=9)
        panel.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
        panel.spines[["top", "right"]].set_visible(False)
        panel.grid(alpha=0.3)
    for above, panel in zip(panels[len(types) - columns :], panels[len(types) :], strict=False):
        panel.set_visible(False)
        above.tick_params(labelbottom=True)  # the panel below would have had them
    figure.supxlabel("probability", fontsize=10)
    figure.supylabel("share that is true", fontsize=10)
    figure.suptitle(title, fontsize=11)
    if len(curves) > 1:
        lines = {str(line.get_label()): line for panel in panels for line in panel.lines[1:]}
        figure.legend(list(lines.values()), list(lines), loc="outside lower right", frameon=False, ncols=len(lines))
    return figure


def plot_training_curves(runs: Mapping[str, Metrics]) -> Figure:
    """Loss against epochs, and beside it MQ on validation queries where it was measured."""
    measured = {name: _curve(metrics, "validation", "mq") for name, metrics in runs.items()}
    panels = 2 if any(len(epochs) for epochs, _ in measured.values()) else 1
    figure, axes = _figure(5.0, panels)
    for i, (name, metrics) in enumerate(runs.items()):
        curves = (_curve(metrics, "epoch", "loss"), measured[name])
        for panel, (epochs, values) in zip(axes, curves, strict=False):
            panel.plot(epochs, values, label=name, color=COLOURS[i % len(COLOURS)], marker="o", markersize=3)
    axes[0].set(xlabel="epoch", ylabel="loss", title="Training loss")
    axes[0].legend(frameon=False)
    if panels == 2:
        axes[1].set(xlabel="epoch", ylabel="mean quantile (%)", title="Validation MQ")
    for each in axes:
        each.locator_params(axis="x", integer=True)
    return figure


def _curve(metrics: Metrics, event: str, figure: str) -> tuple[list[float], list[float]]:
    """The epochs and values at which an event logged a figure."""
    lines = [line for line in metrics if line.get("event") == event and isinstance(line.get(figure), int | float)]
    epochs = [float(line["epoch"] or 0) for line in lines]
    return epochs, [float(line[figure] or 0) for line in lines]


def draw_reports(folder: Path, reports: Mapping[str, Report], runs: Mapping[str, Metrics]) -> None:
    """Draw what there is to draw of some reports, and of the metrics of their runs."""
    from blockhole.evaluation.classification import ClassificationReport
    from blockhole.evaluation.path_ranking import RankingReport
    from blockhole.evaluation.query_ranking import QueryReport

    ranked = {name: report for name, report in reports.items() if isinstance(report, RankingReport)}
    judged = {name: report for name, report in reports.items() if isinstance(report, ClassificationReport)}
    said = {
        name: report.reliability
        for name, report in reports.items()
        if isinstance(report, QueryReport) and report.reliability
    }
    logged = {name: metrics for name, metrics in runs.items() if metrics}
    if ranked:
        save_figure(plot_quantile_by_length(ranked), folder, "quantile-by-length")
    if judged:
        save_figure(plot_reliability(judged), folder, "reliability")
    if said:
        title = "Reliability of the ten best predicted answers, by type of query"
        save_figure(plot_reliability_by_type(said, title), folder, "reliability")
    if logged:
        save_figure(plot_training_curves(logged), folder, "training-curves")


def draw_search(folder: Path, trials: Sequence[Mapping[str, Any]], importances: Mapping[str, float]) -> None:
    """Draw a search for settings: its figures by trial, what mattered, and the figures by each setting."""
    save_figure(plot_search(trials), folder, "search")
    if importances:
        save_figure(plot_importances(importances), folder, "importances")
    keys = list(importances) or list(trials[0]["settings"])
    save_figure(plot_settings(trials, keys[:6]), folder, "settings")


def plot_search(trials: Sequence[Mapping[str, Any]]) -> Figure:
    """MRR of every trial that came to its end, those that were stopped along the foot, and the best so far."""
    figure, (axes,) = _figure()
    ended = [(trial["number"], trial["mrr"]) for trial in trials if trial["mrr"] is not None]
    number, mrr = np.array(ended, dtype=np.float64).reshape(-1, 2).T
    stopped = [trial["number"] for trial in trials if trial["mrr"] is None]
    axes.plot(number, mrr, "o", color=COLOURS[0], markersize=5, label="trial")
    axes.step(number, np.maximum.accumulate(mrr), where="post", color=COLOURS[1], label="best so far")
    if stopped:
        foot = np.full(len(stopped), mrr.min())
        axes.plot(stopped, foot, "x", color="0.5", markersize=5, label="stopped on the way")
    axes.set(xlabel="trial", ylabel="MRR of validation facts", title="The search")
    axes.locator_params(axis="x", integer=True)
    axes.legend(frameon=False)
    return figure


def plot_importances(importances: Mapping[str, float]) -> Figure:
    """How much each setting sets the best trials apart; the most important on top."""
    figure, (axes,) = _figure()
    keys = list(importances)[::-1]
    axes.barh(keys, [importances[key] for key in keys], color=COLOURS[0])
    axes.grid(axis="y", visible=False)
    axes.grid(axis="x", alpha=0.3)
    axes.set(xlabel="share of what sets the best trials apart", title="What mattered")
    return figure


def plot_settings(trials: Sequence[Mapping[str, Any]], keys: Sequence[str]) -> Figure:
    """MRR against the values of each setting, one panel each."""
    figure, axes = _figure(3.2, panels=len(keys))
    ended = [trial for trial in trials if trial["mrr"] is not None]
    for panel, key in zip(axes, keys, strict=True):
        values = [trial["settings"][key] for trial in ended]
        distinct = sorted(set(values), key=lambda value: (str(type(value)), value))
        numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
        if not numbers or len(distinct) <= min(5, len(values) - 1):  # choices, which recur
            place = [float(distinct.index(value)) for value in values]
            panel.set_xticks(range(len(distinct)), [f"{each:.4g}" if numbers else str(each) for each in distinct])
            panel.set_xlim(-0.5, len(distinct) - 0.5)
        else:
            place = [float(value) for value in values]
            if min(place) > 0 and max(place) > 10 * min(place):
                panel.set_xscale("log")
        panel.plot(place, [trial["mrr"] for trial in ended], "o", color=COLOURS[0], markersize=4, alpha=0.7)
        panel.set(xlabel=key)
    axes[0].set(ylabel="MRR of validation facts")
    return figure


def save_figure(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write name.svg and name.png into `folder`; their paths."""
    paths = [folder / f"{name}.{kind}" for kind in ("svg", "png")]
    for path in paths:
        with replacing(path) as temporary:
            figure.savefig(temporary, format=path.suffix[1:], dpi=150)
    return paths
