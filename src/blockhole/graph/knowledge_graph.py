"""The knowledge graph G(F) = (E, R, F) of Section 3 of the paper."""

from __future__ import annotations

from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import NDArray

from blockhole.graph.adjacency import Adjacency, build_adjacency
from blockhole.graph.vocabulary import Vocabulary


@final
class KnowledgeGraph:
    """Entities, relations, and the observed facts F; immutable.

    Relation ids live in one space of 2R: r in 0 … R-1 is a named relation, r + R its inverse, and inverting twice
    is the identity. `triples` holds the facts in file order, named relations only, duplicates kept; shape [T, 3],
    columns source, relation, target, int32. An `adjacency` that was made of them before, such as one on disk, is
    taken as it is.
    """

    def __init__(
        self,
        entities: Vocabulary,
        relations: Vocabulary,
        triples: NDArray[np.int32],
        adjacency: Adjacency | None = None,
    ) -> None:
        triples = np.ascontiguousarray(triples, dtype=np.int32).reshape(-1, 3)
        if len(triples) and adjacency is None:
            low, high = triples.min(axis=0), triples.max(axis=0)
            limits = (len(entities), len(relations), len(entities))
            if low.min() < 0 or any(value >= limit for value, limit in zip(high, limits, strict=True)):
                raise ValueError("triples hold ids outside the vocabularies")
        if triples.flags.writeable:
            triples = triples.copy()  # whoever made the array may still write to it
            triples.setflags(write=False)
        self.entities = entities
        self.relations = relations
        self.triples = triples
        self._given_adjacency = adjacency

    @property
    def num_entities(self) -> int:
        """|E|."""
        return len(self.entities)

    @property
    def num_relations(self) -> int:
        """R, the number of named relations; ids run to 2R because each has an inverse."""
        return len(self.relations)

    @cached_property
    def adjacency(self) -> Adjacency:
        """The distinct edges, inverses included, by (entity, relation)."""
        if self._given_adjacency is not None:
            return self._given_adjacency
        return build_adjacency(self.triples, self.num_entities, self.num_relations)

    def inverse(self, relation: int) -> int:
        """The id of r⁻¹: r + R for a named relation, r - R for an inverse."""
        return (relation + self.num_relations) % (2 * self.num_relations)

    def relation_id(self, name: str, inverse: bool = False) -> int:
        """The id of a relation or of its inverse."""
        return self.relations.id(name) + inverse * self.num_relations

    def relation_name(self, relation: int) -> tuple[str, bool]:
        """The name of a relation id, and whether it is an inverse."""
        inverse, named = divmod(relation, self.num_relations)
        return self.relations[named], bool(inverse)

    def __len__(self) -> int:
        """The number of facts, duplicates included."""
        return len(self.triples)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, KnowledgeGraph)
            and self.entities == other.entities
            and self.relations == other.relations
            and np.array_equal(self.triples, other.triples)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"KnowledgeGraph({self.num_entities} entities, {self.num_relations} relations, {len(self)} facts)"
