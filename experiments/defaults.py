"""How good `train` without settings is, on eight generated graphs and two published ones.

Beside it stand chance, counting, and on the generated graphs a search of 30 trials.

Each graph leaves a record, `records/defaults/GRAPH.json`; what it has is not done again. Every figure is the filtered
MRR of the test facts, both sides, with F* = all facts. The search chooses by validation facts, and its best is measured
once.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from blockhole.data.dataset import DataSet, load
from blockhole.evaluation.completion import both_sides, evaluate_completion, inverted
from blockhole.evaluation.report import Table, mean_intervals
from blockhole.evaluation.truth import truth_of
from blockhole.fitting import train
from blockhole.models.contract import Model
from blockhole.queries.exact import answer_sets
from blockhole.saving import write_file
from blockhole.tuning import tune
from experiments.graphs import TUNING, generate
from experiments.records import Commit

PUBLISHED: Final = ("kinship", "umls")
TRIALS: Final = 30
SEARCH_STEPS: Final = 300
"""Steps of a trial: a third of what `train` may take, and what the best settings are then trained for is the whole."""


def reciprocal_ranks(data: DataSet, scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """1 / rank of the test answers, tails then heads, where every query is given `scores` [2R, E] by its relation."""
    split = data.split
    queries = both_sides(split.test, len(split.relations))
    graph = split.graph("train", "valid", "test")
    reciprocal = np.empty(len(queries))
    for part in answer_sets(graph, queries):
        for row in range(len(part.indptr) - 1):
            place = part.first + row
            given, target = scores[queries.path[place, 0]], queries.target[place]
            rivals = np.ones(len(given), dtype=bool)
            rivals[part[row]] = False
            rivals[target] = False
            better, tied = (given[rivals] > given[target]).sum(), (given[rivals] == given[target]).sum()
            reciprocal[place] = 1 / (1 + better + tied / 2)
    return reciprocal


def counting(data: DataSet) -> NDArray[np.float64]:
    """How often each relation, inverses included, has each object in train: [2R, E]."""
    split, relations = data.split, len(data.split.relations)
    counts = np.zeros((2 * relations, len(split.entities)))
    for _, relation, target in np.concatenate([split.train, inverted(split.train, relations)]).tolist():
        counts[relation, target] += 1
    return counts


def chance(data: DataSet, draws: int = 20) -> float:
    """MRR of random scores."""
    split = data.split
    draw = np.random.default_rng(0)
    shape = (2 * len(split.relations), len(split.entities))
    return fmean(float(reciprocal_ranks(data, draw.random(shape)).mean()) for _ in range(draws))


def completed(model: Model, data: DataSet) -> NDArray[np.float64]:
    """1 / rank of the test answers under a model."""
    split = data.split
    return evaluate_completion(model, split.test, truth_of(split.graph("train", "valid", "test"))).metrics["mrr"]


def record_graph(
    name: str, seeds: Sequence[int], records: Path, commit: Commit, say: Callable[[str], None], *, search: bool = True
) -> None:
    """Measure what the record of a graph has not yet, and keep each figure as it comes."""
    file = records / "defaults" / f"{name}.json"
    record: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}

    purpose = "published" if name in PUBLISHED else "tuning" if name in TUNING else "confirmation"

    def keep(**figures: Any) -> None:
        record.update(figures, graph=name, purpose=purpose, commit=commit.hash)
        write_file(file, (json.dumps(record, indent=1) + "\n").encode())
        say(f"{name}: {', '.join(figures)}")

    data = load(name) if name in PUBLISHED else generate(name)
    if "counting" not in record:
        keep(chance=chance(data), counting=float(reciprocal_ranks(data, counting(data)).mean()))
    for seed in seeds:
        if str(seed) not in record.get("defaults", {}):
            started = time.process_time()
            run = train(data, seed=seed, device="cpu")
            ranks = completed(run.model, data)
            figures = {
                "mrr": float(ranks.mean()),
                "interval": list(mean_intervals({"mrr": ranks}, 0)["mrr"]),
                "choice": run.config.choice,
                "cpu_seconds": round(time.process_time() - started, 1),
            }
            keep(defaults={**record.get("defaults", {}), str(seed): figures})
    if search and name not in PUBLISHED and "search" not in record:
        with tempfile.TemporaryDirectory() as folder:
            found = tune(data, Path(folder), trials=TRIALS, settings={"training.steps": SEARCH_STEPS})
            settings = json.loads(found.config.read_text(encoding="utf-8"))
        del settings["training"]["steps"], settings["choice"]
        best = train(data, preset="small", settings=_flat(settings), seed=0, device="cpu")
        figure = float(completed(best.model, data).mean())
        keep(search={"mrr": figure, "valid": found.best, "settings": found.settings, "trials": len(found.trials)})


def _flat(settings: dict[str, Any]) -> dict[str, Any]:
    """Sections as dotted keys."""
    return {
        f"{section}.{key}": value
        for section, values in settings.items()
        if isinstance(values, dict)
        for key, value in values.items()
    }


def defaults_table(records: Path, names: Sequence[str]) -> Table:
    """A row for each graph that has a record."""
    rows = []
    for name in names:
        file = records / "defaults" / f"{name}.json"
        if not file.is_file():
            continue
        record = json.loads(file.read_text(encoding="utf-8"))
        runs = list(record.get("defaults", {}).values())
        mean = fmean(run["mrr"] for run in runs) if runs else None
        bounds = " to ".join(f"{bound:.3f}" for bound in runs[0]["interval"]) if runs else ""
        shown = [record.get("chance"), record.get("counting"), mean, record.get("search", {}).get("mrr")]
        cells = ["–" if value is None else f"{value:.3f}" for value in shown]
        rows.append((name, record["purpose"], *cells[:3], bounds, str(len(runs)), cells[3]))
    header = ("graph", "for", "chance", "counting", "defaults", "95 % of seed 0", "seeds", f"best of {TRIALS} trials")
    return Table("Filtered MRR of test facts", header, tuple(rows))
