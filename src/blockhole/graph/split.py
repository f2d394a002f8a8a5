"""A knowledge graph whose facts are divided into train, valid and test."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, final

import numpy as np
from numpy.typing import NDArray

from blockhole.graph.adjacency import Adjacency
from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.graph.vocabulary import Vocabulary

SplitName = Literal["train", "valid", "test"]


def _no_triples() -> NDArray[np.int32]:
    return np.zeros((0, 3), dtype=np.int32)


@final
@dataclass(frozen=True, slots=True, eq=False)
class SplitGraph:
    """One pair of vocabularies over three sets of facts, each in file order, duplicates kept; shapes [T, 3].

    `valid_negatives` and `test_negatives` are the lines labelled -1 where a data set has them (WN11, FB13): they
    serve triple classification only and never belong to a graph. A packed graph brings the adjacency of its train
    facts; all its arrays then lie on disk.
    """

    entities: Vocabulary
    relations: Vocabulary
    train: NDArray[np.int32]
    valid: NDArray[np.int32] = field(default_factory=_no_triples)
    test: NDArray[np.int32] = field(default_factory=_no_triples)
    valid_negatives: NDArray[np.int32] = field(default_factory=_no_triples)
    test_negatives: NDArray[np.int32] = field(default_factory=_no_triples)
    train_adjacency: Adjacency | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        for triples in (self.train, self.valid, self.test, self.valid_negatives, self.test_negatives):
            if triples.ndim != 2 or triples.shape[1] != 3 or triples.dtype != np.int32:
                raise ValueError("facts must be int32 arrays of shape [T, 3]")
            triples.setflags(write=False)

    @property
    def packed(self) -> bool:
        """Whether the facts lie on disk, to be worked on there."""
        return self.train_adjacency is not None

    def graph(self, *splits: SplitName) -> KnowledgeGraph:
        """The graph of the named splits together; `graph("train", "test")` is Guu's test graph."""
        parts = {"train": self.train, "valid": self.valid, "test": self.test}
        if self.packed and [split for split in splits if len(parts[split])] == ["train"]:
            return KnowledgeGraph(self.entities, self.relations, self.train, self.train_adjacency)
        facts = np.concatenate([_no_triples(), *(parts[split] for split in splits)])
        facts.setflags(write=False)
        return KnowledgeGraph(self.entities, self.relations, facts)
