"""The ids of a data set in the vocabularies a model was trained with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from blockhole.errors import EvaluationError
from blockhole.graph.split import SplitGraph
from blockhole.graph.vocabulary import Vocabulary
from blockhole.paths.queries import PathQueries


@final
@dataclass(frozen=True, slots=True, eq=False)
class Alignment:
    """For every id of a data set the id of the same name in the model: entity [E], relation [2R], inverses included."""

    entities: Vocabulary
    relations: Vocabulary
    entity: NDArray[np.int32]
    relation: NDArray[np.int32]

    def split(self, split: SplitGraph) -> SplitGraph:
        """The same facts under the model's ids."""
        parts = (split.train, split.valid, split.test, split.valid_negatives, split.test_negatives)
        return SplitGraph(self.entities, self.relations, *map(self._triples, parts))

    def _triples(self, triples: NDArray[np.int32]) -> NDArray[np.int32]:
        source, relation, target = triples.T
        return np.column_stack([self.entity[source], self.relation[relation], self.entity[target]])

    def queries(self, queries: PathQueries) -> PathQueries:
        """The same queries under the model's ids."""
        inside = np.arange(queries.path.shape[1]) < queries.length[:, None]
        path = np.where(inside, self.relation[queries.path], np.int32(0))
        return PathQueries(self.entity[queries.source], path, queries.length, self.entity[queries.target])


def align(split: SplitGraph, entities: Vocabulary, relations: Vocabulary, name: str = "the data") -> Alignment:
    """Match the names of a data set, called `name` in errors, with the model's; all must be known to the model."""
    known_entities = _matching(split.entities, entities)
    known_relations = _matching(split.relations, relations)
    if known_entities < len(split.entities) or known_relations < len(split.relations):
        raise EvaluationError(
            f"the model was trained on other data: it knows {known_entities:,} of the {len(split.entities):,} entities "
            f"and {known_relations:,} of the {len(split.relations):,} relations of {name}; evaluate it on the data it "
            "was trained on, or train a model on this."
        )
    named = relations.ids(split.relations)
    both = np.concatenate([named, named + np.int32(len(relations))])
    return Alignment(entities, relations, entities.ids(split.entities), both)


def _matching(names: Vocabulary, known: Vocabulary) -> int:
    return len(names) if names == known else sum(name in known for name in names)
