"""Which relation paths connect two entities."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from blockhole.answering.answers import Status
from blockhole.answering.engine import Engine, open_engine
from blockhole.answering.search import UNLIMITED, Deadline
from blockhole.answering.vectors import Floats, norms
from blockhole.errors import ConfigError, Count, checked, grouped
from blockhole.files.tables import Listed
from blockhole.queries.language import Hop, encode_entity
from blockhole.queries.plans import Plan
from blockhole.runs.run import Run

LONGEST = 4
_PREFIXES = 20_000
"""Paths that are extended by a further relation, at most; beyond, only those the graph knows from the source are."""
_CHUNK = 256


@final
@dataclass(frozen=True, slots=True)
class Connection:
    """A relation path as queries write it, such as ^fatherOf/brotherOf; `probability` that it leads to the target."""

    path: str
    length: int
    probability: float
    status: Status


@final
@dataclass(frozen=True, slots=True)
class PathsReport(Listed[Connection]):
    """The relation paths that connect two entities, whose names are those of the graph, however they were asked for."""

    _rows: ClassVar = "paths"
    source: str
    target: str
    paths: tuple[Connection, ...]


@checked
def paths(
    run: Engine | Run | Path | str,
    source: str,
    target: str,
    *,
    max_length: int = 3,
    top: Count = 20,
    deadline: Deadline = UNLIMITED,
) -> PathsReport:
    """The relation paths of up to `max_length` hops between two entities: known ones first, then the most probable.

    The model's composed vectors say which of all paths are looked into; in a graph of many relations long ones are only
    if all but their last hop is known from the source. A search that passes its deadline ends with `OutOfTime`. Without
    a calibration there are only known paths.
    """
    if not 1 <= max_length <= LONGEST:
        raise ConfigError(f"the longest path may have 1 to {LONGEST} hops, not {grouped(max_length)}.")
    engine = open_engine(run)
    graph = engine.graph
    start, goal = (encode_entity(name, graph.entities, graph.relations) for name in (source, target))
    row = engine.vectors.rows(np.array([start]))[0]
    prefixes = [_Prefix((), np.array([start], dtype=np.int32), row)]
    found: list[_Scored] = []
    for length in range(1, max_length + 1):
        found += _score_level(engine, prefixes, goal, top, deadline)
        if length < max_length:
            prefixes = _extend(engine, prefixes, deadline)
    if engine.calibrated is None:
        found = [each for each in found if each.known]
    found = [
        each if each.known else each._replace(probability=engine.value(Plan.of_chain(start, each.path), goal, deadline))
        for each in found
    ]
    found.sort(key=lambda each: (not each.known, -each.probability, len(each.path), -each.evidence, each.path))
    names = engine.graph.entities
    return PathsReport(names[start], names[goal], tuple(_named(engine, each) for each in found[:top]))


class _Prefix(NamedTuple):
    """A path from the source: where it leads over facts, and the walked vector [width]."""

    path: tuple[int, ...]
    reached: NDArray[np.int32]
    row: Floats


class _Scored(NamedTuple):
    """A whole path: what its composed vector says of the target, and how probable that is as an answer."""

    path: tuple[int, ...]
    evidence: float
    probability: float
    known: bool


def _score_level(engine: Engine, prefixes: list[_Prefix], goal: int, top: int, deadline: Deadline) -> list[_Scored]:
    """The best paths that are one relation longer than the prefixes."""
    relations = range(2 * engine.graph.num_relations)
    before = [engine.graph.adjacency.neighbours(goal, engine.graph.inverse(relation)) for relation in relations]
    candidate = engine.vectors.candidates(np.array([goal]))
    best: list[_Scored] = []
    for first in range(0, len(prefixes), _CHUNK):
        deadline.check()
        chunk = prefixes[first : first + _CHUNK]
        vector = engine.vectors.finish(_hops(engine, chunk))
        evidence = (vector * candidate).sum(axis=1) / norms(vector)
        known = np.array([_meets(prefix, before, engine.graph.num_entities) for prefix in chunk]).reshape(-1)
        for i in np.lexsort((-evidence, ~known))[:top].tolist():
            prefix, relation = divmod(i, len(relations))
            best.append(_Scored((*chunk[prefix].path, relation), float(evidence[i]), 1.0, bool(known[i])))
    return sorted(best, key=lambda each: (not each.known, -each.evidence))[:top]


def _meets(prefix: _Prefix, before: list[NDArray[np.int32]], num_entities: int) -> list[bool]:
    """For each relation whether a fact of it leads from where the prefix ends to the target."""
    reached = np.zeros(num_entities, dtype=bool)
    reached[prefix.reached] = True
    return [bool(reached[entities].any()) for entities in before]


def _hops(engine: Engine, prefixes: list[_Prefix]) -> Floats:
    """Every relation applied to every prefix, by prefix: [P · 2R, entity width]."""
    count = 2 * engine.graph.num_relations
    rows = np.repeat([prefix.row for prefix in prefixes], count, axis=0)
    return engine.vectors.model.hop(rows, np.tile(np.arange(count), len(prefixes)))


def _extend(engine: Engine, prefixes: list[_Prefix], deadline: Deadline) -> list[_Prefix]:
    """The prefixes with one more relation: all, or where those are too many, only such as the graph knows."""
    count = 2 * engine.graph.num_relations
    only_known = len(prefixes) * count > _PREFIXES
    longer: list[_Prefix] = []
    for prefix in prefixes:
        if len(longer) >= _PREFIXES:
            break
        deadline.check()
        rows = _hops(engine, [prefix])
        for relation in range(count):
            reached = engine.known.targets(prefix.reached, relation)
            if len(reached) or not only_known:
                longer.append(_Prefix((*prefix.path, relation), reached, rows[relation]))
    return longer[:_PREFIXES]


def _named(engine: Engine, scored: _Scored) -> Connection:
    path = "/".join(str(Hop(*engine.graph.relation_name(relation))) for relation in scored.path)
    return Connection(path, len(scored.path), scored.probability, "known" if scored.known else "predicted")
