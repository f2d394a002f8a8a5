"""Path data sets from any graph with a train/valid/test split, by the procedure of Guu et al. 2015."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from blockhole.errors import DataError
from blockhole.graph.split import SplitGraph
from blockhole.paths.answers import holds
from blockhole.paths.distinct import query_codes
from blockhole.paths.queries import PathQueries
from blockhole.paths.splits import PathSplits
from blockhole.paths.walks import sample_walks


def build_paths(
    split: SplitGraph,
    *,
    lengths: tuple[int, int] = (2, 5),
    train_factor: int = 20,
    eval_factor: int = 4,
    seed: int = 0,
) -> PathSplits:
    """Sample a path data set; each part sorted by (source, path, target).

    1. The graphs are train, train + valid, and train + test.
    2. Train, dev and test start from their own triples as paths of length 1 and add walks on their own graph:
       `train_factor` for each line of train, `eval_factor` for each line of valid and of test.
    3. Each query counts once; dev loses what train has, and test what train or dev has.
    4. Deduction is what the train graph can answer, induction the rest.
    """
    if not len(split.train):
        raise DataError("train has no facts, so there are no paths to build; give it at least one.")
    train_graph = split.graph("train")
    dev_seed, test_seed = np.random.default_rng(seed).integers(2**32, size=2).tolist()
    walks = [
        sample_walks(graph, count, lengths, walk_seed)
        for graph, count, walk_seed in zip(
            (train_graph, split.graph("train", "valid"), split.graph("train", "test")),
            (train_factor * len(split.train), eval_factor * len(split.valid), eval_factor * len(split.test)),
            (seed, dev_seed, test_seed),
            strict=True,
        )
    ]
    train, dev, test = _disjoint(list(zip((split.train, split.valid, split.test), walks, strict=True)))
    known_dev, known_test = holds(train_graph, dev), holds(train_graph, test)
    return PathSplits(
        train=train,
        dev_deduction=dev.take(known_dev),
        dev_induction=dev.take(~known_dev),
        test_deduction=test.take(known_test),
        test_induction=test.take(~known_test),
    )


def _disjoint(parts: list[tuple[NDArray[np.int32], PathQueries]]) -> list[PathQueries]:
    """The queries of each part (triples, walks), sorted, without those of an earlier part; each query once."""
    pieces = [piece for triples, walks in parts for piece in (PathQueries.from_triples(triples), walks)]
    together = PathQueries.concatenate(pieces)
    # The first occurrence of a query says to which part it belongs.
    _, first = np.unique(query_codes(together), return_index=True)
    ends = np.cumsum([len(triples) + len(walks) for triples, walks in parts])
    part_of = np.searchsorted(ends, first, side="right")
    return [together.take(first[part_of == part]) for part in range(len(parts))]
