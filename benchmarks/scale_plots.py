"""The plot of docs/scaling.md: what was measured as points, the fitted cost model as lines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.scale_model import epoch_fit, epoch_sizes, gpu_fit, pack_fit

Record = dict[str, Any]
EPOCH_COST = "an epoch, processor µs per fact"


def plot(records: Sequence[Record], gpu: Record, softmax: Record, processes: Record, path: Path) -> None:
    """Write the figure: packing against edges, epochs against entities and width, steps against queries, processes."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "scaling"
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(2, 4, figsize=(19, 7.6), layout="constrained")
    packing, entities, width, meshes, memory, steps, shards, held = axes.ravel()
    _plot_packing(packing, memory, records)
    _plot_epochs(entities, width, records)
    model = gpu_fit(gpu)
    for size in sorted({row["width"] for row in gpu["steps"]}):
        points = sorted((row["batch_size"], row["seconds"]) for row in gpu["steps"] if row["width"] == size)
        _draw(steps, points, f"w = {size}", [model(1, q, q * size) for q, _ in points])
    _label(steps, "queries in a step", "a step on one GPU, seconds")
    runs = {name: run["paths_per_second"] for name, run in softmax.items() if isinstance(run, dict)}
    _bars(meshes, runs, "paths per second on a CPU, WN11, full softmax")
    found = processes["meshes"]
    _bars(shards, {mesh: run["facts_per_second"] for mesh, run in found.items()}, "facts per second, logistic loss")
    _bars(held, {mesh: run["peak_rss_mb"] for mesh, run in found.items()}, "peak RSS of a process, MiB")
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def _bars(axes: Any, values: dict[str, float], label: str) -> None:
    axes.barh([name.replace(", ", ",\n") for name in values], list(values.values()))
    axes.invert_yaxis()
    axes.set_xlabel(label)


def _plot_packing(packing: Any, memory: Any, records: Sequence[Record]) -> None:
    rows = sorted(
        (row for row in records if "pack" in row and row["format"] == "parquet"), key=lambda row: row["edges"]
    )
    model = pack_fit(records)
    packing.loglog([row["edges"] for row in rows], [row["pack"]["cpu_seconds"] for row in rows], "o")
    fitted = [model(1, row["edges"], row["entities"]) for row in rows]
    packing.loglog([row["edges"] for row in rows], fitted, "--", color="#999999")
    _label(packing, "edges", "packing, processor seconds")
    memory.loglog([row["edges"] for row in rows], [row["pack"]["peak_rss_mb"] for row in rows], "o", label="packing")
    trained = [row for row in records if "train" in row]
    memory.loglog(
        [row["edges"] for row in trained], [row["train"]["peak_rss_mb"] for row in trained], "s", label="epoch"
    )
    memory.legend()
    _label(memory, "edges", "peak RSS, MiB")


def _plot_epochs(entities: Any, width: Any, records: Sequence[Record]) -> None:
    model = epoch_fit(records)
    rows = [
        (row["entities"], row["width"], row["train"]["processor_microseconds_per_positive"])
        for row in records
        if "train" in row
    ]
    for size in sorted({w for _, w, _ in rows}):
        points = sorted((e, cost) for e, w, cost in rows if w == size)
        _draw(entities, points, f"w = {size}", [model(*epoch_sizes(e, size)) for e, _ in points])
    _label(entities, "entities", EPOCH_COST)
    for count in sorted({e for e, _, _ in rows}):
        points = sorted((w, cost) for e, w, cost in rows if e == count)
        if len({w for w, _ in points}) > 1:
            _draw(width, points, f"E = {count:,}", [model(*epoch_sizes(count, w)) for w, _ in points])
    _label(width, "numbers per entity, w", EPOCH_COST)


def _draw(axis: Any, points: Sequence[tuple[float, float]], label: str, fitted: Sequence[float]) -> None:
    x = [point[0] for point in points]
    (drawn,) = axis.loglog(x, [point[1] for point in points], "o", label=label)
    axis.loglog(x, fitted, "--", color=drawn.get_color())
    axis.legend()


def _label(axis: Any, x: str, y: str) -> None:
    axis.set_xlabel(x)
    axis.set_ylabel(y)
