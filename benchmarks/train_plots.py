"""The plot of `bench_train.py`: epoch times beside the peers, and how our epoch grows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

AXES = {"n": "n, at b = 2", "b": "b, at n = 200", "paths": "paths, at b = 2, m = 25"}


def plot_results(results: dict[str, Any], stem: Path) -> None:
    """Write `stem`.png and `stem`.svg."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (bars, *growth) = pyplot.subplots(1, 4, figsize=(17, 4.2), width_ratios=(2, 1, 1, 1), layout="constrained")
    runs = [run for run in (*results["peers"], *results["ours"]) if "epoch_seconds" in run and run["threads"] == 1]
    names = [f"{run['label']}, batch {run['batch_size']}" for run in runs]
    bars.barh(names, [run["epoch_seconds"] for run in runs], color="#4c72b0")
    bars.bar_label(bars.containers[0], fmt="%.3g s", padding=3)
    bars.set_xscale("log")
    bars.margins(x=0.2)
    bars.invert_yaxis()
    bars.set_xlabel("seconds per epoch of WN11's 112,581 edges, one thread")
    for axis, (name, points) in zip(growth, results["growth"].items(), strict=True):
        line = results["growth_lines"][name]
        x = [point[0] for point in points]
        axis.plot(x, [point[1] for point in points], "o", color="#4c72b0")
        axis.plot(x, [line["start"] + line["slope"] * value for value in x], color="#999999")
        axis.set_title(f"R² = {line['r_squared']:.4f}", fontsize=10)
        axis.set_xlabel(AXES[name])
        axis.set_ylabel("processor seconds per epoch, one thread")
        axis.set_ylim(bottom=0)
    for suffix in (".png", ".svg"):
        figure.savefig(stem.with_suffix(suffix), dpi=130)
    pyplot.close(figure)
