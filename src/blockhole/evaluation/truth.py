"""What an evaluation is made against: the ground truth F*, the query sets by name, and a data set in a model's ids."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, final

import numpy as np
from numpy.typing import NDArray

from blockhole.data.dataset import DataSet
from blockhole.errors import EvaluationError, quoted
from blockhole.graph.knowledge_graph import KnowledgeGraph, SplitGraph, SplitName
from blockhole.graph.vocabulary import Vocabulary
from blockhole.queries.exact import typed_candidates
from blockhole.queries.path_sets import PATH_PARTS
from blockhole.queries.paths import PathQueries
from blockhole.queries.query_sets import QuerySet, slots_of_type

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

    def relation_text(self, relation: int) -> str:
        """The name of a relation, ^name for an inverse, as reports show it."""
        name, inverse = self.graph.relation_name(relation)
        return f"^{name}" if inverse else name


def truth_of(graph: KnowledgeGraph, reading: Reading = "all") -> Truth:
    """Take the facts of `graph` as F*."""
    typed = typed_candidates(graph)
    return Truth(graph, reading, typed.start, typed.entity)


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


_PARTS: dict[str, tuple[str, ...]] = {
    "deduction": ("test_deduction",),
    "induction": ("test_induction",),
    "all": ("test_deduction", "test_induction"),
    "dev_deduction": ("dev_deduction",),
    "dev_induction": ("dev_induction",),
    "dev": ("dev_deduction", "dev_induction"),
    "paths": PATH_PARTS,
}

_OF_VALID = ("valid", "dev_deduction", "dev_induction", "dev")
SPLITS = ("base", "deduction", "induction", "all", *_OF_VALID, "paths")
"""`base` and `valid` are the test and valid facts as queries of length 1, `paths` all five parts of path queries."""


def evaluated_facts(split: str) -> SplitName:
    """The facts that a split of queries was drawn from, besides train: what F* = "split" adds.

    Those of queries that are no split of the data, such as a file's, are the test facts.
    """
    return "valid" if split in _OF_VALID else "test"


def queries_of(data: DataSet, split: str) -> PathQueries:
    """The queries of a split, at least one."""
    if split in _PARTS:
        queries = PathQueries.concatenate([data.paths(part) for part in _PARTS[split]])
    elif split in ("base", "valid"):
        queries = PathQueries.from_triples(data.split.test if split == "base" else data.split.valid)
    else:
        raise EvaluationError(f"there is no split {quoted(split)}; the splits are {', '.join(SPLITS)}.")
    if len(queries) == 0:
        lacking = {"base": "test facts", "valid": "validation facts"}.get(split, f"queries in the split {split}")
        raise EvaluationError(
            f"{data.name} has no {lacking} to measure on; choose another split, or set facts aside with "
            "`blockhole data split` and train on what it writes."
        )
    return queries


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

    def query_set(self, queries: QuerySet) -> QuerySet:
        """The same complex queries under the model's ids; those of another graph are refused."""
        kinds = {"e": ("entity", len(self.entity)), "r": ("relation", len(self.relation))}
        for type_, ids in queries.ids.items():
            for slot, column in zip(slots_of_type(type_), ids.T, strict=True):
                kind, count = kinds[slot]
                beyond = column[(column < 0) | (column >= count)]
                if len(beyond):
                    raise EvaluationError(
                        f"{queries.name} is a query set of another graph: a {type_} query names {kind} {beyond[0]:,}, "
                        f"but here ids end at {count - 1:,}; name the data set that it was made for with --data."
                    )
        return queries.renumbered(self.entity, self.relation)


def align(split: SplitGraph, entities: Vocabulary, relations: Vocabulary, name: str = "the data") -> Alignment:
    """Match the names of a data set, called `name` in errors, with the model's; all must be known to the model."""
    known_entities = _matching(split.entities, entities)
    known_relations = _matching(split.relations, relations)
    if known_entities < len(split.entities) or known_relations < len(split.relations):
        raise EvaluationError(
            f"the model was trained on other data than {name}: of its entities it knows {known_entities:,} of "
            f"{len(split.entities):,}, of its relations {known_relations:,} of {len(split.relations):,}; evaluate it "
            "on the data it was trained on, or train a model on this."
        )
    named = relations.ids(split.relations)
    both = np.concatenate([named, named + np.int32(len(relations))])
    return Alignment(entities, relations, entities.ids(split.entities), both)


def _matching(names: Vocabulary, known: Vocabulary) -> int:
    return len(names) if names == known else sum(name in known for name in names)
