"""Missing uncles, cousins and in-laws in twenty generated families: the engine beside the composed vector alone.

Each family has 120 people (`blockhole data family`), its edges held out at random, and is trained without settings. An
answer is missing where it follows from all facts and not from those of train; it is ranked among all entities that are
no answers. What is measured is MRR over the missing answers of a family, how probable the likeliest second father is of
anyone whose father is known, and how many fathers, their probabilities added up, anyone else is expected to have.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, Final

import numpy as np

from blockhole.answering.engine import Engine
from blockhole.answering.sweep import Sweep
from blockhole.data.dataset import DataSet
from blockhole.data.family_tree import generate_family
from blockhole.evaluation.query_ranking import rank_answers
from blockhole.evaluation.report import Table, mean_intervals
from blockhole.fitting import train
from blockhole.queries.exact import answers
from blockhole.queries.language import encode_path
from blockhole.queries.plans import Plan
from blockhole.saving import write_file
from experiments.records import Commit

PEOPLE: Final = 120
SEEDS: Final = tuple(range(140, 160))
"""Seeds of the families, and of their trainings; none of these families was looked at while the engine was made."""

KINDS: Final[Mapping[str, tuple[str, ...]]] = {
    "uncle": ("^fatherOf/^brotherOf", "^motherOf/^brotherOf"),
    "cousin": (
        "^fatherOf/^brotherOf/fatherOf",
        "^fatherOf/^sisterOf/motherOf",
        "^motherOf/^brotherOf/fatherOf",
        "^motherOf/^sisterOf/motherOf",
    ),
    "in-law": ("spouseOf/^fatherOf", "spouseOf/^motherOf", "spouseOf/^brotherOf", "spouseOf/^sisterOf"),
}
"""The paths that are asked from every person."""


def measure_family(engine: Engine, data: DataSet) -> dict[str, Any]:
    """The MRR of missing answers by kind, by the composed vector and by the engine, and what is said of fathers."""
    figures: dict[str, Any] = {}
    truth, sweep = data.split.graph("train", "valid", "test"), Sweep(engine, "all")
    for kind, paths in KINDS.items():
        ranks: dict[str, list[float]] = {"composed": [], "engine": []}
        for path in (encode_path(text, engine.graph.relations) for text in paths):
            for person in range(PEOPLE):
                known = engine.known.answers(person, path)
                missing = np.setdiff1d(answers(truth, person, path), known)
                if len(missing):
                    plan, ids = Plan.of_chain(person, path), np.array([[person, *path]], dtype=np.int32)
                    (bounds,) = sweep.bounds(plan.steps, ids, [missing])
                    vector = engine.vectors.query(person, path)[0]
                    scores = engine.vectors.candidates(np.arange(engine.graph.num_entities)) @ vector
                    for name, (low, high) in {"composed": (scores, scores), "engine": bounds}.items():
                        worst, _ = rank_answers(low, high, missing, known)
                        ranks[name] += (1 / worst.rank("half")).tolist()
        found = {name: fmean(each) for name, each in ranks.items() if each}
        figures[kind] = {"answers": len(ranks["engine"]), **found}
    return figures | {"second_father": second_father(engine), "fathers": most_fathers(engine)}


def second_father(engine: Engine) -> float:
    """How probable the likeliest one is of anyone whose father is known, asked for from either end."""
    father = engine.graph.relations.id("fatherOf")
    back, most = engine.graph.inverse(father), 0.0
    for child in engine.known.candidates(father).tolist():
        others = np.ones(engine.graph.num_entities, dtype=bool)
        others[engine.known.answers(child, [back])] = False
        by_child = engine.hops.values(np.array([child]), engine.hops.columns(back))[0]
        by_father = engine.hops.into(child, father)
        most = max(most, float(by_child[others].max()), float(by_father[others].max()))
    return most


def most_fathers(engine: Engine) -> float:
    """How many fathers anyone whose father is not known is expected to have at most."""
    father = engine.graph.relations.id("fatherOf")
    back = engine.graph.inverse(father)
    fatherless = np.setdiff1d(np.arange(engine.graph.num_entities), engine.known.candidates(father))
    rows = engine.hops.values(fatherless, engine.hops.columns(back))
    return float(rows.sum(axis=1, dtype=np.float64).max(initial=0.0))


def record_families(seeds: Sequence[int], records: Path, commit: Commit, say: Callable[[str], None]) -> None:
    """Train and measure the families that have no figures yet, and keep each as it comes."""
    for seed in seeds:
        if str(seed) in read_families(records):
            continue
        began = time.process_time()
        data = DataSet(f"family-{seed}", generate_family(PEOPLE, seed))
        run = train(data, seed=seed, device="cpu")
        figures = measure_family(Engine.open(run, calibrated=True), data)
        figures |= {"choice": run.config.choice, "cpu_seconds": round(time.process_time() - began, 1)}
        kept = read_families(records) | {str(seed): figures | {"commit": commit.hash, "dirty": commit.dirty}}
        write_file(_file(records), (json.dumps(kept, indent=1) + "\n").encode())
        say(f"family {seed}: " + ", ".join(f"{kind} {_arrow(figures[kind])}" for kind in KINDS))


def read_families(records: Path) -> dict[str, Any]:
    """The figures of every family that has some, by its seed."""
    file = _file(records)
    kept: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    return kept


def _file(records: Path) -> Path:
    return records / "families" / f"people-{PEOPLE}.json"


def _arrow(figures: Mapping[str, Any]) -> str:
    return f"{figures['composed']:.3f} → {figures['engine']:.3f}" if figures["answers"] else "none is missing"


def families_table(records: Path, seeds: Sequence[int]) -> Table:
    """A row for each kind: means over families, whose interval is that of the difference; the title has the fathers."""
    kept = [each for seed, each in read_families(records).items() if int(seed) in seeds]
    rows: list[tuple[str, ...]] = []
    for kind in KINDS:
        own = [each[kind] for each in kept if each[kind]["answers"]]
        if own:
            composed, engine = (np.array([each[name] for each in own]) for name in ("composed", "engine"))
            low, high = mean_intervals({"mrr": engine - composed}, 0)["mrr"]
            means = f"{composed.mean():.3f}", f"{engine.mean():.3f}", f"{low:+.3f} to {high:+.3f}"
            rows.append((kind, *means, str(sum(each["answers"] for each in own)), str(len(own))))
    second, fathers = (max((each[name] for each in kept), default=0.0) for name in ("second_father", "fathers"))
    title = (
        f"MRR of missing answers; the likeliest second father has {100 * second:.1f} %, "
        f"and nobody is expected to have more than {fathers:.2f} fathers"
    )
    header = ("queries", "composed vector", "engine", "95 % of the difference", "missing answers", "families")
    return Table(title, header, tuple(rows))
