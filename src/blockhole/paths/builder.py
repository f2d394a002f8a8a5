"""Path data sets from any graph with a train/valid/test split, by the procedure of Guu et al. 2015."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from blockhole.graph.knowledge_graph import KnowledgeGraph
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
    train_graph = split.graph("train")
    train_seed, dev_seed, test_seed = np.random.SeedSequence(seed).generate_state(3, np.uint64).tolist()
    train = _positives(train_graph, split.train, train_factor, lengths, train_seed)
    dev = _positives(split.graph("train", "valid"), split.valid, eval_factor, lengths, dev_seed)
    test = _positives(split.graph("train", "test"), split.test, eval_factor, lengths, test_seed)
    train, dev, test = _disjoint(train, dev, test)
    known_dev, known_test = holds(train_graph, dev), holds(train_graph, test)
    return PathSplits(
        train=train,
        dev_deduction=dev.take(known_dev),
        dev_induction=dev.take(~known_dev),
        test_deduction=test.take(known_test),
        test_induction=test.take(~known_test),
    )


def _positives(
    graph: KnowledgeGraph, triples: NDArray[np.int32], factor: int, lengths: tuple[int, int], seed: int
) -> PathQueries:
    walks = sample_walks(graph, factor * len(triples), lengths, seed)
    return PathQueries.concatenate([PathQueries.from_triples(triples), walks])


def _disjoint(*parts: PathQueries) -> list[PathQueries]:
    """The parts sorted, without what occurred before, in the same part or in an earlier one."""
    together = PathQueries.concatenate(parts)
    _, first = np.unique(query_codes(together), return_index=True)
    part_of = np.searchsorted(np.cumsum([len(part) for part in parts]), first, side="right")
    return [together.take(first[part_of == part]) for part in range(len(parts))]
