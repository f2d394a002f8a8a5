"""How many of the best rules a run's matrices propose, how precise they are, and whether order tells rules apart.

    python -m benchmarks.bench_rules RUN … [--length 2] [--sample 1.0]

All runs are over one graph. The yardstick is every body of that length which the graph has, or a random part of them
(--sample), counted by the same loops. Precision is over test facts: of the pairs that rules newly say about subjects
with test facts of the head, the share that are such facts; of the rules that are most alike, and of those listed first,
by PCA confidence as `blockhole rules` lists them, where the model proposes a few bodies for each head.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import blockhole
from blockhole.answering.mining import CANDIDATES, MIN_SUPPORT, Matrices, proposed
from blockhole.answering.vectors import Vectors
from blockhole.queries.bodies import Bodies, Body

Floats = NDArray[np.float32]

BEST = 1000
PROPOSED = (10, 30, 100)
"""Bodies for each head that a list is made of."""
A_RULE = 0.5
"""PCA confidence from which a body counts as a rule where orders are compared; below a fifth of it, as none."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--length", type=int, default=2, choices=(1, 2, 3))
    parser.add_argument("--candidates", type=int, default=CANDIDATES, help="bodies proposed for each head")
    parser.add_argument("--sample", type=float, default=1.0, help="share of the bodies that the yardstick counts")
    options = parser.parse_args()
    data = blockhole.Run.open(options.runs[0]).load_data()
    assert data is not None
    graph = data.split.graph("train")
    bodies = Bodies(graph, data.split.test)
    heads = np.arange(graph.num_relations)

    wall, cpu = time.perf_counter(), time.process_time()
    there = np.concatenate(list(bodies.with_ways(options.length, MIN_SUPPORT)))
    chosen = np.random.default_rng(0).random(len(there)) < options.sample
    listed: list[Body] = [tuple(body) for body in there[chosen].tolist()]
    names = ("right", "of_subjects", "new_right", "new")
    parts = [[getattr(each, name) / each.share[:, None] for name in names] for each in bodies.counted(listed)]
    right, of_subjects, new_right, new = (np.concatenate(each, dtype=np.float32) for each in zip(*parts, strict=True))
    print(
        f"{len(there):,} bodies of length {options.length} with {MIN_SUPPORT} ways, {len(listed):,} counted in "
        f"{time.perf_counter() - wall:.1f} s ({time.process_time() - cpu:.1f} s of CPU)"
    )
    confidence = np.where(right >= MIN_SUPPORT, right / np.maximum(of_subjects, 1), 0.0)
    if options.length == 1:
        confidence[np.array(listed) == heads] = 0.0  # no relation is a rule for itself
    best = np.lexsort((-right.ravel(), -confidence.ravel()))[: round(BEST * options.sample)]
    best = best[confidence.flat[best] > 0]
    rows = best // len(heads)
    print(
        f"PCA confidence of the {len(best):,} best: {confidence.flat[best[0]]:.3f} to {confidence.flat[best[-1]]:.3f}"
    )
    for folder in options.runs:
        _judge(folder, bodies, heads, options, rows, Counted(listed, right, confidence, new_right, new))


class Counted(NamedTuple):
    """The bodies of the yardstick, and what was counted of each and every head: [B, R]."""

    listed: list[Body]
    right: Floats
    confidence: Floats
    new_right: Floats
    new: Floats


def _judge(
    folder: Path, bodies: Bodies, heads: NDArray[np.int64], options: argparse.Namespace, best: NDArray[np.int64],
    counted: Counted,
) -> None:  # fmt: skip
    listed, right, confidence, new_right, new = counted
    run = blockhole.Run.open(folder)
    wall, cpu = time.perf_counter(), time.process_time()
    matrices = Matrices.of(Vectors.of(run))
    of_model = proposed(matrices, bodies, heads, options.length, MIN_SUPPORT, options.candidates)
    found = set(map(tuple, of_model.tolist()))
    took = f"{time.perf_counter() - wall:.1f} s ({time.process_time() - cpu:.1f} s of CPU)"
    recall = np.mean([listed[row] in found for row in best.tolist()])
    print(f"{folder.name}, {run.config.model.name}: {len(found):,} bodies proposed in {took}, recall {recall:.3f}")
    ids = np.array(listed)
    similarity = np.concatenate(
        [matrices.similarity(part, heads) for part in np.array_split(ids, len(ids) // 2000 + 1)]
    )

    def say(what: str, rules: NDArray[np.intp]) -> None:
        says = rules[new.flat[rules] > 0]
        over_pairs = new_right.flat[rules].sum() / new.flat[rules].sum()
        over_rules = (new_right.flat[says] / new.flat[says]).mean()
        print(
            f"  {what}: precision on test facts {over_pairs:.3f} over pairs, {over_rules:.3f} over rules, mean PCA "
            f"confidence {confidence.flat[rules].mean():.3f}"
        )

    alike = np.argsort(-np.where(confidence > 0, similarity, -1.0), axis=None)
    for count in (100, BEST):
        say(f"the {count:,} most alike", alike[:count])
    begins, ends = (bodies.shared[ids[:, 0]], bodies.shared[bodies.inverses[ids[:, -1]]])
    fits = (begins[:, heads] > 0) & (ends[:, bodies.inverses[heads]] > 0)
    place = [min(most, len(ids)) - 1 for most in PROPOSED]
    least = -np.partition(-np.where(fits, similarity, -np.inf), place, axis=0)[place]
    for most, own in zip(PROPOSED, least, strict=True):
        shown = np.flatnonzero(fits & (similarity >= own) & (confidence > 0))
        order = shown[np.lexsort((-right.flat[shown], -confidence.flat[shown]))]
        for count in (100, BEST):
            say(f"the first {min(count, len(order)):,} of {len(order):,} listed, {most} proposed a head", order[:count])
    if options.length > 1:
        _order(matrices, listed, confidence)


def _order(matrices: Matrices, listed: list[Body], confidence: Floats) -> None:
    """Of rules whose body in reversed order is no rule, how many have the product that is more like the head's."""
    place = {body: row for row, body in enumerate(listed)}
    rules = np.argwhere(confidence >= A_RULE)
    rules = rules[[listed[row] != listed[row][::-1] for row in rules[:, 0].tolist()]]

    def turned(row: int, head: int) -> float:
        other = place.get(listed[row][::-1])
        return 0.0 if other is None else float(confidence[other, head])

    apart = np.array([pair for pair in rules.tolist() if turned(*pair) < A_RULE / 5]).reshape(-1, 2)
    if not len(apart):
        print("  no rule whose body tells its order")
        return
    body, head = np.array([listed[row] for row in apart[:, 0].tolist()]), apart[:, 1]
    forward, backward = matrices.similarities(body, head), matrices.similarities(body[:, ::-1], head)
    ahead = (forward > backward + 1e-6).mean()
    print(
        f"  reversed body is no rule: {len(apart):,} of {len(rules):,} ({len(apart) / len(rules):.1%}); the right "
        f"order is more alike for {ahead:.3f} of them, as alike for {(np.abs(forward - backward) <= 1e-6).mean():.3f}"
    )


if __name__ == "__main__":
    main()
