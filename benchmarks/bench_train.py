"""Training speed on the CPU, beside the peers, in one run: epoch times, losses, memory, and how time grows.

    BLOCKHOLE_DATA=folder python -m benchmarks.bench_train [--peers .venv-peers/bin/python] [--quick]

prints one JSON object, and writes it with a plot to benchmarks/results/train_cpu.{json,svg}. Every run is a process
of its own. An epoch is one pass over WN11's train facts with five object negatives each, the logistic loss and Adagrad
at 0.1; its time is the best of several, wall and processor. All models start at the same scale. The loss after ten
epochs is computed for all by one function here, over one fixed draw of negatives.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

RESULTS = Path(__file__).parent / "results"
PEERS = Path(__file__).parent / "peers"
NEGATIVES, RATE, EPOCHS = 5, 0.1, 10
RUN_SECONDS = 300
COMPLEX_50 = ("--model", "complex", "--dim", "50")
RESCAL_50 = ("--model", "rescal", "--dim", "50")
RESCAL_100 = ("--model", "rescal", "--dim", "100")
B2_M25 = ("--blocks", "2", "--block-size", "25")
OURS = "BlockHolE b=2 m=25"
AXES = {"n": "n, at b = 2", "b": "b, at n = 200", "paths": "paths, at b = 2, m = 25"}

Result = dict[str, Any]


@dataclass
class Bench:
    """Runs measurements one after the other, and says on standard error what it does."""

    positives: Path
    paths: Path
    many_relations: Path
    folder: Path
    peers: Path | None
    quick: bool
    started: float = field(default_factory=time.perf_counter)

    def run(self, label: str, command: list[str], *, epochs: int, batch: int, threads: int, loss: bool) -> Result:
        """One measurement: best epoch, loss if asked, peak memory; or the error that kept it from running."""
        epochs = min(epochs, 2) if self.quick else epochs
        print(
            f"[{time.perf_counter() - self.started:5.0f} s] {label}, batch {batch}, {threads} thread(s)",
            file=sys.stderr,
        )
        weights = self.folder / "weights.npz"
        settings = {"batch-size": batch, "epochs": epochs, "threads": threads, "rate": RATE, "negatives": NEGATIVES}
        command = [*command, *(str(word) for name, value in settings.items() for word in (f"--{name}", value))]
        result: Result = {"label": label, "batch_size": batch, "threads": threads}
        environment = os.environ | {"OMP_NUM_THREADS": str(threads), "PYTHONWARNINGS": "ignore"}
        try:
            done = subprocess.run(
                [*command, *(["--weights", str(weights)] if loss else [])],
                capture_output=True, text=True, timeout=RUN_SECONDS, env=environment, check=True,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return result | {"error": f"stopped after {RUN_SECONDS} s"}
        except subprocess.CalledProcessError as failure:
            return result | {"error": failure.stderr.strip().splitlines()[-1:]}
        figures = json.loads(done.stdout.splitlines()[-1])
        wall, processor = min(figures.pop("epochs"))
        result |= figures | {"epoch_seconds": wall, "epoch_processor_seconds": processor}
        if loss:
            saved = np.load(weights)
            result[f"loss_after_{epochs}_epochs"] = common_loss(self.positives, saved["entity"], saved["relation"])
        print(f"          {wall:.3f} s wall, {processor:.3f} s processor", file=sys.stderr)
        return result

    def ours(
        self,
        label: str,
        *words: str,
        batch: int = 8192,
        threads: int = 1,
        epochs: int = EPOCHS,
        loss: bool = False,
        paths: int = 0,
        file: Path | None = None,
    ) -> Result:
        """A run of our engines over the facts, over the first `paths` path queries, or over those of another `file`."""
        data = ["--positives", str(file or (self.paths if paths else self.positives))]
        data += ["--count", str(paths)] if paths else []
        command = [sys.executable, "-m", "benchmarks.train_epochs", *data, *words]
        return self.run(label, command, epochs=epochs, batch=batch, threads=threads, loss=loss)

    def peer(
        self, label: str, script: str, *words: str, batch: int, threads: int = 1, epochs: int, loss: bool = False
    ) -> Result:
        """A run of a peer in its own environment."""
        command = [str(self.peers), str(PEERS / script), "--positives", str(self.positives), *words]
        return self.run(label, command, epochs=epochs, batch=batch, threads=threads, loss=loss)


def common_loss(positives: Path, entity: NDArray[np.float32], relation: NDArray[np.float32]) -> float:
    """Mean over the train facts of Σ log(1 + exp(-yφ)) over the fact and five negatives, the same for every model.

    The geometry follows from the widths: rows of n numbers with n² per relation are RESCAL, with n (no blocks) ComplEx,
    with 2n BlockHolE with b = 2.
    """
    data = np.load(positives)
    source, r, target = data["source"], data["path"][:, 0], data["target"]
    negatives = np.random.default_rng(0).integers(len(entity), size=(len(source), NEGATIVES))
    width = entity.shape[1]
    total = 0.0
    for start in range(0, len(source), 8192):
        part = slice(start, start + 8192)
        e, w = entity[source[part]], relation[r[part]]
        if relation.shape[1] == width * width:
            query = np.einsum("xi,xij->xj", e, w.reshape(-1, width, width))
        else:
            blocks = relation.shape[1] // width
            parts = e.reshape(len(e), 2, blocks, -1), w.reshape(len(e), 2, blocks, blocks, -1)
            vector, operator = (x[:, 0] + 1j * x[:, 1] for x in parts)
            moved = np.einsum("xif,xijf->xjf", vector, operator)
            query = np.stack([moved.real, moved.imag], axis=1).reshape(len(e), width)
        objects = np.concatenate([target[part, None], negatives[part]], axis=1)
        scores = np.einsum("xc,xoc->xo", query, entity[objects])
        scores[:, 0] *= -1
        total += float(np.logaddexp(0, scores).sum())
    return total / len(source)


def write_data(folder: Path) -> tuple[Path, Path, Path]:
    """WN11's train facts and train paths in random order, and walks over FB15k-237, for every environment to read."""
    from blockhole.data.dataset import load
    from blockhole.queries.paths import PathQueries
    from blockhole.queries.walks import sample_walks

    data = load("wn11")
    shuffled = np.random.default_rng(0).permutation(len(data.paths("train")))
    many = load("fb15k-237").split
    written = (
        (folder / "facts.npz", data.split, PathQueries.from_triples(data.split.train)),
        (folder / "paths.npz", data.split, data.paths("train").take(shuffled)),
        (folder / "many_relations.npz", many, sample_walks(many.graph("train"), 200_000, lengths=(1, 5), seed=0)),
    )
    for file, split, queries in written:
        np.savez(
            file,
            source=queries.source,
            path=queries.path,
            length=queries.length,
            target=queries.target,
            sizes=np.array([len(split.entities), len(split.relations)]),
        )
    facts, paths, walks = (file for file, _, _ in written)
    return facts, paths, walks


def measure_ours(bench: Bench) -> list[Result]:
    runs = []
    for optimizer in ("adagrad", "rowwise_adagrad"):
        for batch in (1024, 8192, 16384):
            for threads in (1, 2):
                words = (*B2_M25, "--optimizer", optimizer)
                runs.append(bench.ours(f"{OURS}, {optimizer}", *words, batch=batch, threads=threads, loss=threads == 1))
    return [*runs, bench.ours("ComplEx-50 in our engine", *COMPLEX_50, loss=True)]


def measure_rescal(bench: Bench) -> list[Result]:
    """b=2 m=25 beside RESCAL of the same n (50), in both engines, and of as many numbers an entity (100)."""
    runs = []
    for name, words in (("b=2 m=25", B2_M25), ("RESCAL-50", RESCAL_50), ("RESCAL-100", RESCAL_100)):
        runs.append(bench.ours(f"{name}, fused, facts", *words, epochs=6))
        runs.append(bench.ours(f"{name}, fused, paths", *words, epochs=3, paths=400_000))
        for hops in (1, 5):
            single = (*words, "--hops", str(hops))
            runs.append(bench.ours(f"{name}, fused, {hops} hops", *single, epochs=4, paths=400_000))
            label = f"{name}, fused, {hops} hops, 237 relations"
            runs.append(bench.ours(label, *single, epochs=4, file=bench.many_relations, batch=1024))
    for name, words in (("b=2 m=25", B2_M25), ("RESCAL-50", RESCAL_50)):
        autograd = (*words, "--engine", "autograd")
        runs.append(bench.ours(f"{name}, autograd, facts", *autograd, epochs=2))
        runs += [
            bench.ours(f"{name}, autograd, paths", *autograd, epochs=2, paths=50_000, batch=batch)
            for batch in (1024, 8192)
        ]
    return runs


def measure_peers(bench: Bench) -> list[Result]:
    if bench.peers is None:
        return []
    return [
        bench.peer("PyG ComplEx-50", "run_pyg.py", "--dim", "50", batch=1024, epochs=3),
        bench.peer("PyG ComplEx-50", "run_pyg.py", "--dim", "50", batch=8192, epochs=EPOCHS, loss=True),
        bench.peer("PyKEEN ComplEx-50", "run_pykeen.py", *COMPLEX_50, batch=1024, epochs=3),
        bench.peer("PyKEEN ComplEx-50", "run_pykeen.py", *COMPLEX_50, batch=8192, epochs=EPOCHS, loss=True),
        bench.peer("PyKEEN RESCAL-50", "run_pykeen.py", *RESCAL_50, batch=8192, epochs=2),
    ]


def measure_growth(bench: Bench) -> dict[str, list[list[float]]]:
    """Processor seconds of an epoch against n at b = 2, b at n = 200, and the number of paths; one thread."""

    def seconds(blocks: int, block_size: int, paths: int = 0) -> float:
        words = ("--blocks", str(blocks), "--block-size", str(block_size))
        result = bench.ours(f"growth, b={blocks} m={block_size}", *words, epochs=4, paths=paths)
        return float(result["epoch_processor_seconds"])

    return {
        "n": [[2 * m, seconds(2, m)] for m in (25, 50, 100, 200)],
        "b": [[b, seconds(b, 200 // b, paths=100_000)] for b in (1, 2, 4, 8)],
        "paths": [[count, seconds(2, 25, paths=count)] for count in (250_000, 500_000, 1_000_000, 2_000_000)],
    }


def fit_line(points: list[list[float]]) -> dict[str, float]:
    """A line through the points, and the share of the variance it explains."""
    x, y = np.array(points).T
    slope, start = np.polyfit(x, y, 1)
    rest = ((y - slope * x - start) ** 2).sum() / ((y - y.mean()) ** 2).sum()
    return {"slope": float(slope), "start": float(start), "r_squared": float(1 - rest)}


def compare(runs: list[Result], pairs: dict[str, tuple[str, str]], figure: str, threads: int = 1) -> dict[str, float]:
    """How many times the first label of a pair takes as long as the second, each at its better batch size."""

    def best(label: str) -> float:
        wanted = [run for run in runs if run["label"] == label and run["threads"] == threads and "error" not in run]
        return min((run[figure] for run in wanted), default=float("nan"))

    ratios = {name: best(slow) / best(fast) for name, (slow, fast) in pairs.items()}
    return {name: ratio for name, ratio in ratios.items() if np.isfinite(ratio)}


def promised_ratios(runs: list[Result]) -> Result:
    """By wall time, and by processor time, which a busy machine disturbs less."""
    ours = {"": f"{OURS}, adagrad", ", row-wise": f"{OURS}, rowwise_adagrad"}
    pairs = {
        f"{peer} over ours{suffix}": (peer, label)
        for peer in ("PyKEEN ComplEx-50", "PyG ComplEx-50", "PyKEEN RESCAL-50")
        for suffix, label in ours.items()
    }
    kinds = ["fused, facts", "fused, paths", "autograd, facts", "autograd, paths"]
    kinds += [f"fused, {hops} hops{place}" for hops in (1, 5) for place in ("", ", 237 relations")]
    for kind in kinds:
        for rescal in ("RESCAL-50", "RESCAL-100"):
            pairs[f"{rescal} over b=2 m=25, {kind}"] = (f"{rescal}, {kind}", f"b=2 m=25, {kind}")
    wall, processor = (compare(runs, pairs, figure) for figure in ("epoch_seconds", "epoch_processor_seconds"))
    for suffix, label in ours.items():
        one, two = (
            min(
                (run["epoch_seconds"] for run in runs if run["label"] == label and run["threads"] == threads),
                default=np.nan,
            )
            for threads in (1, 2)
        )
        if np.isfinite(one / two):
            wall[f"one thread over two{suffix}"] = one / two
    return {"wall": wall, "processor": processor}


def plot_results(results: Result, path: Path) -> None:
    """Draw epoch times beside the peers, and how our epoch grows."""
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
    figure.savefig(path)
    pyplot.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--peers", type=Path, help="the Python of the environment that has PyKEEN and PyG; absent: no peers"
    )
    parser.add_argument("--quick", action="store_true", help="two epochs a run, to see that all works; write nothing")
    parser.add_argument("--rescal", action="store_true", help="print the comparison with RESCAL alone, write nothing")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bench = Bench(*write_data(folder), folder, options.peers, options.quick)
        # The first process compiles the loops, so that no measurement pays for it in memory.
        bench.ours("compiling", *B2_M25, epochs=1)
        if options.rescal:
            alone = measure_rescal(bench)
            print(json.dumps({"ratios": promised_ratios(alone), "rescal": alone}))
            return
        ours, rescal, peers = measure_ours(bench), measure_rescal(bench), measure_peers(bench)
        growth = measure_growth(bench)
    results: Result = {
        "ratios": promised_ratios([*ours, *rescal, *peers]),
        "ours": ours,
        "rescal": rescal,
        "peers": peers,
        "growth": growth,
        "growth_lines": {name: fit_line(points) for name, points in growth.items()},
        "processors": os.cpu_count(),
    }
    if not options.quick:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "train_cpu.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        plot_results(results, RESULTS / "train_cpu.svg")
    print(json.dumps(results))


if __name__ == "__main__":
    main()
