"""How many of the best rules a run's matrices propose, how precise they are, and whether order tells rules apart.

    python -m benchmarks.bench_rules RUN … [--length 2] [--sample 1.0]

All runs are over one graph. The yardstick is every body of that length which the graph has, or a random part of them
(--sample), counted by the same loops. Precision is over test facts: of the pairs that rules newly say about subjects
with test facts of the head, the share that are such facts.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import blockhole
from blockhole.answering.mining import CANDIDATES, MIN_SUPPORT, Matrices, proposed
from blockhole.answering.vectors import Vectors
from blockhole.queries.bodies import Bodies, Body

BEST = 1000
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
    right, of_subjects, new_right, new = (np.zeros((len(listed), len(heads)), dtype=np.float32) for _ in range(4))
    done = 0
    for counts in bodies.counted(listed):
        part = slice(done, done + len(counts.bodies))
        share = counts.share[:, None]
        right[part], of_subjects[part] = counts.right / share, counts.of_subjects / share
        new_right[part], new[part] = counts.new_right / share, counts.new / share
        done = part.stop
    print(
        f"{len(there):,} bodies of length {options.length} with {MIN_SUPPORT} ways, {len(listed):,} counted in "
        f"{time.perf_counter() - wall:.1f} s ({time.process_time() - cpu:.1f} s of CPU)"
    )
    confidence = np.where(right >= MIN_SUPPORT, right / np.maximum(of_subjects, 1), 0.0)
    if options.length == 1:
        confidence[[body[0] == head for body in listed for head in heads.tolist()]] = 0.0
    best = np.lexsort((-right.ravel(), -confidence.ravel()))[: round(BEST * options.sample)]
    rows = best // len(heads)
    print(
        f"PCA confidence of the {len(best):,} best: {confidence.flat[best[0]]:.3f} to {confidence.flat[best[-1]]:.3f}"
    )
    for folder in options.runs:
        _judge(folder, bodies, heads, listed, options, rows, confidence, new_right, new)


def _judge(
    folder: Path, bodies: Bodies, heads: NDArray[np.int64], listed: list[Body], options: argparse.Namespace,
    best: NDArray[np.int64], confidence: NDArray[np.float32], new_right: NDArray[np.float32], new: NDArray[np.float32],
) -> None:  # fmt: skip
    run = blockhole.Run.open(folder)
    wall, cpu = time.perf_counter(), time.process_time()
    matrices = Matrices.of(Vectors.of(run))
    found = set(proposed(matrices, bodies, heads, options.length, MIN_SUPPORT, options.candidates))
    took = f"{time.perf_counter() - wall:.1f} s ({time.process_time() - cpu:.1f} s of CPU)"
    recall = np.mean([listed[row] in found for row in best.tolist()])
    print(f"{folder.name}, {run.config.model.name}: {len(found):,} bodies proposed in {took}, recall {recall:.3f}")
    ids = np.array(listed)
    similarity = np.concatenate(
        [matrices.similarity(part, heads) for part in np.array_split(ids, len(ids) // 2000 + 1)]
    )
    similarity = np.where(confidence > 0, similarity, -1.0)
    order = np.argsort(-similarity, axis=None)
    for count in (100, BEST):
        first = order[:count]
        says = first[new.flat[first] > 0]
        over_pairs = new_right.flat[first].sum() / new.flat[first].sum()
        over_rules = (new_right.flat[says] / new.flat[says]).mean()
        print(
            f"  the {count:,} most alike: precision on test facts {over_pairs:.3f} over pairs, {over_rules:.3f} over "
            f"rules, mean PCA confidence {confidence.flat[first].mean():.3f}"
        )
    if options.length > 1:
        _order(matrices, listed, confidence)


def _order(matrices: Matrices, listed: list[Body], confidence: NDArray[np.float32]) -> None:
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
