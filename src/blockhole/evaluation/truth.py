"""The ground truth F* that an evaluation is made against."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, final

import numpy as np
from numpy.typing import NDArray

from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.graph.split import SplitGraph, SplitName

Reading = Literal["all", "split"]
"""Which facts are true: train + valid + test (the paper's), or train + the evaluated split (Guu's and CoKE's)."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class Truth:
    """G(F*), and for each relation the entities it takes as object in F* (for an inverse: as subject).

    T(r) is `candidate_entity[candidate_start[r] : candidate_start[r + 1]]`, ascending.
    Shapes: candidate_start [2R + 1] int64, candidate_entity [count] int32.
    """

    graph: KnowledgeGraph
    reading: Reading
    candidate_start: NDArray[np.int64]
    candidate_entity: NDArray[np.int32]

    def candidates(self, relation: int) -> NDArray[np.int32]:
        """T(r), ascending; relation ids in the space of 2R."""
        return self.candidate_entity[self.candidate_start[relation] : self.candidate_start[relation + 1]]


def truth_of(graph: KnowledgeGraph, reading: Reading = "all") -> Truth:
    """Take the facts of `graph` as F*."""
    source, relation, target = graph.triples.T.astype(np.int64)
    taken = np.concatenate(
        [relation * graph.num_entities + target, (relation + graph.num_relations) * graph.num_entities + source]
    )
    taken_by, entity = np.divmod(np.unique(taken), max(graph.num_entities, 1))
    start = np.zeros(2 * graph.num_relations + 1, dtype=np.int64)
    np.cumsum(np.bincount(taken_by, minlength=2 * graph.num_relations), out=start[1:])
    return Truth(graph, reading, start, entity.astype(np.int32))


def build_truth(
    split: SplitGraph,
    reading: Reading = "all",
    evaluated: SplitName = "test",
    further: NDArray[np.int32] | None = None,
) -> Truth:
    """F* of a split graph under one of the two readings; `further` facts [T, 3] are true under both."""
    graph = split.graph("train", "valid", "test") if reading == "all" else split.graph("train", evaluated)
    if further is not None:
        graph = KnowledgeGraph(graph.entities, graph.relations, np.concatenate([graph.triples, further]))
    return truth_of(graph, reading)
