"""Random small worlds: a graph in three splits, queries over it, and a scorer, for the package and for the oracle."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from blockhole.graph.knowledge_graph import SplitGraph
from blockhole.graph.vocabulary import Vocabulary
from blockhole.queries.paths import PathQueries
from tests.evaluation.integer_model import IntegerModel
from tests.evaluation.oracle import Fact, Path, Query


@dataclass
class World:
    split: SplitGraph
    queries: PathQueries
    model: IntegerModel

    @property
    def E(self) -> int:
        return len(self.split.entities)

    @property
    def R(self) -> int:
        return len(self.split.relations)

    def facts(self, *parts: NDArray[np.int32]) -> set[Fact]:
        return {(int(s), int(r), int(o)) for part in parts for s, r, o in part}

    def plain_queries(self) -> list[Query]:
        q = self.queries
        return [
            (int(q.source[i]), tuple(int(r) for r in q.path[i, : q.length[i]]), int(q.target[i])) for i in range(len(q))
        ]

    def score(self, source: int, path: Path, target: int) -> Fraction:
        width = self.model.dim
        entity, relation, answer = (
            [[int(x) for x in row] for row in table.tolist()]
            for table in (self.model.entity, self.model.relation, self.model.answer)
        )
        vector = entity[source]
        for r in path:
            vector = [sum(vector[i] * relation[r][i * width + j] for i in range(width)) for j in range(width)]
        return Fraction(sum(x * y for x, y in zip(vector, answer[target], strict=True)))


def names(prefix: str, count: int, kind: str) -> Vocabulary:
    return Vocabulary([f"{prefix}{i}" for i in range(count)], kind)


def make_world(seed: int, E: int, R: int, facts: int, queries: int, longest: int = 4) -> World:
    generator = np.random.default_rng(seed)

    def triples(count: int) -> NDArray[np.int32]:
        return np.column_stack([generator.integers(high, size=count) for high in (E, R, E)]).astype(np.int32)

    split = SplitGraph(
        names("e", E, "entity"),
        names("r", R, "relation"),
        train=triples(facts),
        valid=triples(facts // 4),
        test=triples(facts // 3 + 1),
        valid_negatives=triples(facts // 4 + 1),
        test_negatives=triples(facts // 3 + 1),
    )
    length = generator.integers(1, longest + 1, size=queries).astype(np.int32)
    path = generator.integers(2 * R, size=(queries, longest)).astype(np.int32)
    path[np.arange(longest) >= length[:, None]] = 0
    source = generator.integers(E, size=queries).astype(np.int32)
    target = generator.integers(E, size=queries).astype(np.int32)
    return World(split, PathQueries(source, path, length, target), IntegerModel(E, R, 3, seed))


worlds = st.builds(
    make_world,
    seed=st.integers(0, 2**32 - 1),
    E=st.integers(2, 14),
    R=st.integers(1, 3),
    facts=st.integers(4, 40),
    queries=st.integers(1, 12),
)
