"""Tables, plot and cost model of docs/scaling.md, made from the JSON files in benchmarks/results.

    python -m benchmarks.scale_report [--write]

prints them, or writes them into docs/scaling.md between its two marks, and docs/images/scaling.svg beside it. A test
compares what is written with what is made.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from textwrap import fill
from typing import Any

from benchmarks.scale_model import (
    WIKIDATA,
    Fit,
    Prediction,
    epoch_fit,
    epoch_sizes,
    gpu_fit,
    pack_fit,
    predict,
    predictions,
)
from blockhole.training.distributed.mesh import MeshShape

RESULTS = Path(__file__).parent / "results"
DOCS = Path(__file__).parents[1] / "docs"
PAGE, PLOT = DOCS / "scaling.md", DOCS / "images" / "scaling.svg"
BEGIN, END = "<!-- made by benchmarks/scale_report.py -->\n", "<!-- end of what is made -->\n"

EPOCH_COST = "an epoch, processor µs per fact"

Record = dict[str, Any]


def read(name: str) -> Any:
    return json.loads((RESULTS / name).read_text(encoding="utf-8"))


def making_a_fact(records: Sequence[Record]) -> float:
    """Seconds of a processor that a fact of a batch takes, in the largest graph for which it was measured."""
    largest = max((record for record in records if "batches" in record), key=lambda record: record["edges"])
    return float(1e-6 * largest["batches"]["processor_microseconds_per_fact"])


def report() -> str:
    """All of it as Markdown."""
    records, gpu = read("scale.json"), read("scale_gpu.json")
    parts = [
        *_packing(records),
        *_names(read("scale_names.json")),
        *_epochs(records),
        *_processes(read("processes.json")),
        *_gpu(gpu),
        *_costs(records, gpu),
        *_wikidata(gpu, making_a_fact(records)),
    ]
    return "\n".join(parts) + "\n"


def _text(words: str) -> str:
    return fill(" ".join(words.split()), 118, break_long_words=False, break_on_hyphens=False)


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    lines = [head, ["---"] * len(head), *rows]
    return ["", *("| " + " | ".join(map(str, line)) + " |" for line in lines), ""]


def _gigabytes(mebibytes: float) -> str:
    return f"{mebibytes * 2**20 / 1e9:.2f} GB"


def _packing(records: Sequence[Record]) -> list[str]:
    head = ("edges", "entities", "from", "packed", "time", "processor", "peak RSS", "of its own", "walks / s", "load")
    rows = []
    for record in records:
        if not {"pack", "walks"} & record.keys():
            continue
        packing = ["not measured"] * 6
        if "pack" in record:
            pack = record["pack"]
            packing = [
                f"{record['format']}, {pack['file_mb']:,} MB",
                f"{pack['packed_mb']:,} MB",
                f"{pack['seconds']:.0f} s",
                f"{pack['cpu_seconds']:.1f} s",
                _gigabytes(pack["peak_rss_mb"]),
                _gigabytes(pack["peak_own_mb"]),
            ]
        walks = f"{record['walks']['paths_per_cpu_second'] / 1e6:.2f} M" if "walks" in record else "not measured"
        load = record["pack" if "pack" in record else "walks"]["load"]
        rows.append((f"{record['edges']:,}", f"{record['entities']:,}", *packing, walks, load))
    text = """Peak RSS is the kernel's mark for the whole process, and counts mapped files, such as its libraries; *of
        its own* is what no file backs. Walks are paths per second of processor time, one thread, over the mapped
        graph in the page cache. Load is how many processes wanted the two cores when a measurement began: above
        2, go by processor time."""
    missing = "200,000,000 edges of 20,000,000 entities have not been packed since names left the memory."
    aimed_at = any(record["edges"] >= 200_000_000 for record in records if "pack" in record)
    return ["### Packing and walks", "", _text(text), *_table(head, rows), *([] if aimed_at else [missing, ""])]


def _ratio(records: Sequence[Record]) -> list[str]:
    """How much more a fact costs with ten times the entities, at the sizes that were aimed at."""
    cost = {
        (record["edges"], record["entities"], record["width"]): record["train"]["processor_microseconds_per_positive"]
        for record in records
        if "train" in record
    }
    small, large = (10_000_000, 1_000_000, 32), (100_000_000, 10_000_000, 32)
    if small not in cost or large not in cost:
        return ["An epoch over 100,000,000 facts of 10,000,000 entities has not been run to its end.", ""]
    times = cost[large] / cost[small]
    text = f"With ten million entities a fact takes {times:.2f} times the processor time it takes with one million."
    return [text, ""]


def _names(names: Sequence[Record]) -> list[str]:
    rows = [
        (
            "packing" if row["packed"] else "reading into memory",
            f"{row['names']:,}",
            row["letters"],
            row["bytes_per_name"],
            f"{row['bytes_per_name'] / 10:.1f} GB",
        )
        for row in names
    ]
    text = """Memory for the table of names (`python -m benchmarks.scale_names`):"""
    return [text, *_table(("while", "names", "letters each", "bytes per name", "100 million names"), rows)]


def _epochs(records: Sequence[Record]) -> list[str]:
    head = (
        "facts",
        "entities",
        "w",
        "threads",
        "per fact",
        "processor, per fact",
        "peak RSS",
        "stated: held + mapped",
        "load",
    )
    rows = []
    for record in records:
        if "train" not in record:
            continue
        train = record["train"]
        rows.append(
            (
                f"{record['edges']:,}",
                f"{record['entities']:,}",
                record["width"],
                train["threads"],
                f"{train['microseconds_per_positive']:.2f} µs",
                f"{train['processor_microseconds_per_positive']:.2f} µs",
                _gigabytes(train["peak_rss_mb"]),
                f"{_gigabytes(train['stated_mb'])} + {_gigabytes(train['stated_mapped_mb'])}",
                train["load"],
            )
        )
    text = """One whole epoch over the facts of a packed graph, BlockHolE with b = 2 (w = 4m), logistic loss with 5
        negatives, row-wise Adagrad, batches of 8,192; memory is that of all of `blockhole train`."""
    return ["### One epoch on a CPU", "", _text(text), *_table(head, rows), *_ratio(records)]


def _processes(report: Record) -> list[str]:
    rows = [
        (
            mesh,
            f"{found['facts_per_second']:,}",
            f"{found['making_ms']:.1f} ms",
            f"{found['step_ms']:.0f} ms",
            f"{found['sent_mb_per_step']:.1f} MB",
            f"{found['peak_rss_mb']:,} MiB",
        )
        for mesh, found in report["meshes"].items()
    ]
    text = f"""Steps of the same loss over a packed graph of {report["entities"]:,} entities, w = {report["width"]},
        batches of {report["batch_size"]:,}, by processes of one thread over gloo on {report["cores"]} cores; memory is
        that of the process that held most, of which the program takes {report["meshes"]["1x1"]["before_mb"]} MiB
        before there is a table. Four processes share the cores, so their times show what they cost, not what four
        hosts gain. This is the stepper of several processes; one alone is better served by the fused one of the
        table above."""
    head = ("mesh", "facts per second", "batch made in", "step", "sent per step", "peak RSS")
    return ["### Processes", "", _text(text), *_table(head, rows)]


def _gpu(gpu: Record) -> list[str]:
    epochs = [
        (
            f"{epoch['loss']}, {epoch['negatives']} negatives",
            f"{epoch['edges_per_second']:,}",
            f"{epoch['gpu_used_mb']:,} MiB",
            f"{epoch['stated_gpu_mb']:,} MiB",
        )
        for epoch in gpu["epochs"]
    ]
    steps = [
        (kind, found["steps"], *(f"{loss:.6f}" for loss in found["last"]), f"{found['largest_difference']:.1e}")
        for kind, found in gpu["steps_beside_one_process"].items()
    ]
    text = f"""{gpu["device"]}, torch {gpu["torch"]}: one epoch over {gpu["edges"]:,} facts of {gpu["entities"]:,}
        entities, w = {gpu["width"]}, row-wise Adagrad, batches of {gpu["batch_size"]:,}. Memory is all that the driver
        counts."""
    beside = "The stepper of several processes, one process by torchrun over NCCL, beside that of one process:"
    return [
        "### One GPU",
        "",
        _text(text),
        *_table(("loss", "edges per second", "GPU memory", "stated"), epochs),
        beside,
        *_table(("loss", "steps", "last loss, one process", "torchrun", "largest difference"), steps),
    ]


def _formula(model: Fit) -> str:
    terms = zip(model.coefficients, model.terms, strict=True)
    return " + ".join(f"{value:.3g}" if term == "1" else f"{value:.3g} · {term}" for value, term in terms if value)


def _costs(records: Sequence[Record], gpu: Record) -> list[str]:
    models = {
        "packing Parquet, processor seconds": pack_fit(records),
        "an epoch on a CPU, processor µs per fact": epoch_fit(records),
        "a step on one GPU, seconds": gpu_fit(gpu),
    }
    rows = [
        (
            name,
            _formula(model),
            len(model.errors),
            f"{100 * model.errors.mean():.0f} %",
            f"{100 * model.errors.max():.0f} %",
        )
        for name, model in models.items()
    ]
    text = """T facts, E entities of w numbers each, a table of so many MiB, q queries in a batch. The error is that of
        each measurement under a model fitted to the others."""
    return [
        "### The cost model",
        "",
        _text(text),
        *_table(("cost", "fitted", "measurements", "mean error", "largest"), rows),
        "![measured costs, and the fitted model as lines](images/scaling.svg)",
        "",
    ]


def _wikidata(gpu: Record, making: float) -> list[str]:
    task, step = WIKIDATA, gpu_fit(gpu)
    rows: list[list[str]] = []
    for gpus in (8, 64):
        found = [prediction for prediction in predictions(task, gpus, step, making) if prediction.fits]
        best = min(found, key=lambda prediction: prediction.epoch_seconds)
        rows += [_prediction(prediction, gpus, prediction is best) for prediction in found]
    head = ("GPUs", "mesh", "held", "sent per step", "batch made in", "computing", "sending", "an epoch")
    text = f"""{task.entities:,} entities, {task.edges:,} edges, {task.relations:,} relations; BlockHolE b =
        {task.blocks}, m = {task.block_size} (w = {task.width}), logistic loss with {task.negatives} negatives,
        row-wise Adagrad, {task.queries:,} queries in a process' part of a batch. Per GPU:"""
    (epoch,) = (epoch for epoch in gpu["epochs"] if epoch["negatives"] == task.negatives)
    same = replace(task, entities=gpu["entities"], relations=gpu["relations"], edges=gpu["edges"])
    alone, steps = predict(same, MeshShape(1, 1), step, making), gpu["edges"] / gpu["batch_size"]
    notes = f"""Measured: a step on one H200, with two million entities and up to 131,072 queries, and the
        {1e6 * making:.2f} µs that a fact of a batch takes a host process to make, work that the processes share. The
        two are added up: so counted, the epoch of the table above takes {alone.epoch_seconds:.1f} s, overlapped
        {steps * max(alone.making, alone.computing):.1f} s, and {epoch["epoch_seconds"]:.1f} s were measured, by the
        host of that GPU. In bold the fastest mesh.
        Counted: the bytes sent, by `benchmarks/volume.py`, which two gloo processes exceed by 2 % at most.
        From data sheets: 450 GB/s from a GPU to the 7 others of its host, 50 GB/s to those of other hosts, and 141 GB
        of memory. Assumed: sending does not overlap with computing, and processes along the entities divide nothing
        but memory and the making of batches. Nothing was run on several GPUs."""
    return ["### Wikidata, predicted", "", _text(text), *_table(head, rows), _text(notes)]


def _prediction(found: Prediction, gpus: int, best: bool) -> list[str]:
    mark = "**" if best else ""
    return [
        str(gpus),
        f"{mark}{found.mesh.data}x{found.mesh.entities}{mark}",
        f"{found.held / 1e9:.1f} GB",
        f"{found.sent / 1e6:,.0f} MB",
        f"{1e3 * found.making:.1f} ms",
        f"{1e3 * found.computing:.1f} ms",
        f"{1e3 * found.sending:.1f} ms",
        f"{found.epoch_seconds / 60:.1f} min",
    ]


# The plot: what was measured as points, the fitted cost model as lines.


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


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--write", action="store_true")
    if not parser.parse_args().write:
        print(report(), end="")
        return
    before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
    _, after = rest.split(END)
    PAGE.write_text(before + BEGIN + report() + END + after, encoding="utf-8")
    plot(read("scale.json"), read("scale_gpu.json"), read("distributed.json"), read("processes.json"), PLOT)


if __name__ == "__main__":
    main()
