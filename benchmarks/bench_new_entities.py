"""New entities without retraining: hold entities out of WN11, train without them, place them by some of their facts.

python -m benchmarks.bench_new_entities --run FOLDER trains into FOLDER (or uses the run there) and prints JSON: the
mean quantile of the facts that were kept back, over type-matching candidates, beside the 50 of chance.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from blockhole.answering.engine import Engine
from blockhole.answering.new_facts import with_facts
from blockhole.answering.vectors import Vectors
from blockhole.data.dataset import load
from blockhole.evaluation.ranking import TOLERANCE
from blockhole.evaluation.truth import truth_of
from blockhole.fitting import train
from blockhole.graph.knowledge_graph import KnowledgeGraph, SplitGraph
from blockhole.graph.vocabulary import Vocabulary
from blockhole.queries.paths import PathQueries
from blockhole.runs.run import Run, is_run

_MOST_HELD_OUT = 500
_FEWEST_FACTS = 3


def hold_out(split: SplitGraph, seed: int) -> tuple[SplitGraph, KnowledgeGraph, KnowledgeGraph]:
    """The split without 500 entities of three facts or more, or a tenth of them where that is less.

    Half of their facts are to place them by, half to ask for.
    """
    facts = np.unique(split.train, axis=0)
    rng = np.random.default_rng(seed)
    degree = np.bincount(facts[:, [0, 2]].ravel(), minlength=len(split.entities))
    eligible = np.flatnonzero(degree >= _FEWEST_FACTS)
    held = rng.choice(eligible, min(_MOST_HELD_OUT, max(1, len(eligible) // 10)), replace=False)
    is_held = np.isin(np.arange(len(split.entities)), held)
    touches = is_held[facts[:, [0, 2]]]
    order = np.concatenate([np.flatnonzero(~is_held), held])
    new_id = np.empty(len(order), dtype=np.int32)
    new_id[order] = np.arange(len(order))
    names = Vocabulary([split.entities[int(entity)] for entity in order])

    def renumber(triples: NDArray[np.int32]) -> NDArray[np.int32]:
        return np.column_stack([new_id[triples[:, 0]], triples[:, 1], new_id[triples[:, 2]]]).astype(np.int32)

    kept = renumber(facts[~touches.any(axis=1)])
    own = renumber(facts[touches.sum(axis=1) == 1])  # facts between two new entities place neither
    shuffled = own[rng.permutation(len(own))]
    entity = np.where(shuffled[:, 0] >= len(order) - len(held), shuffled[:, 0], shuffled[:, 2])
    by_entity = np.argsort(entity, kind="stable")
    ordered = entity[by_entity]
    place = np.arange(len(ordered)) - np.searchsorted(ordered, ordered)
    given = np.empty(len(own), dtype=bool)
    given[by_entity] = place % 2 == 0
    known = Vocabulary(names.names[: len(order) - len(held)])
    reduced = SplitGraph(known, split.relations, train=kept)
    return (
        reduced,
        KnowledgeGraph(names, split.relations, shuffled[given]),
        KnowledgeGraph(names, split.relations, shuffled[~given]),
    )


def mean_quantile(engine: Engine, asked: NDArray[np.int32], truth: KnowledgeGraph) -> tuple[float, int]:
    """MQ in per cent of facts [T, 3], a tie counting half, and how many have negatives."""
    typed = truth_of(truth)
    quantiles = []
    for relation in np.unique(asked[:, 1]).tolist():
        candidates = typed.candidates(relation)
        table = engine.vectors.candidates(candidates)  # once for all facts of a relation, of which WN11 has thousands
        own = asked[asked[:, 1] == relation]
        for (source, _, target), vector in zip(
            own.tolist(), engine.vectors.queries(PathQueries.from_triples(own)), strict=True
        ):
            scores = table @ vector
            negative = ~np.isin(candidates, truth.adjacency.neighbours(source, relation))
            if negative.any():
                lead = scores[candidates == target] - scores[negative]
                slack = TOLERANCE * np.abs(scores).max()
                quantiles.append(np.mean((lead > slack) + 0.5 * (np.abs(lead) <= slack)))
    return 100 * float(np.mean(quantiles)), len(quantiles)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--data", default="wn11")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=2)
    options = parser.parse_args()
    split = load(options.data).split
    reduced, given, asked = hold_out(split, options.seed)
    if is_run(options.run):
        run = Run.open(options.run)
    else:
        run = train(reduced, preset="fast", settings={"training.epochs": options.epochs}, out=options.run)
    engine = Engine(Vectors.of(run), reduced.graph("train"))
    began = perf_counter()
    extended = with_facts(engine, given)
    seconds = perf_counter() - began
    everything = np.concatenate([reduced.train, given.triples, asked.triples])
    truth = KnowledgeGraph(given.entities, split.relations, everything)
    new = asked.triples[:, 0] >= len(reduced.entities)
    inverse = asked.triples[:, ::-1] + np.array([0, len(split.relations), 0], dtype=np.int32)
    from_new = np.where(new[:, None], asked.triples, inverse)
    to_new = np.where(new[:, None], inverse, asked.triples)
    about, counted = mean_quantile(extended, from_new, truth)
    leading, _ = mean_quantile(extended, to_new, truth)
    report = {
        "data": options.data,
        "new_entities": len(given.entities) - len(reduced.entities),
        "facts_given": len(given),
        "facts_asked": counted,
        "milliseconds_per_entity": round(1000 * seconds / (len(given.entities) - len(reduced.entities)), 3),
        "mq_asking_about_new_entities": round(about, 2),
        "mq_new_entities_as_answers": round(leading, 2),
        "chance": 50.0,
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
