"""Known facts that would be improbable had they been missing, which are likely errors: `audit`.

The probability of a fact (s, r, o) is that of `predicting`, with the fact itself left out of all that is counted: n_f,
n_b, the counts behind η_s and η_o, and the kinds of s and o behind κ. Some relations are hard to predict, and their
facts are no worse for it: facts are in the order of

    z = (log x (a + ε) - mean) / √(variance + 1),

with the mean and the variance of log x (a + ε) over the facts of r. a is that of κ = c ν (a + ε), 1 where s and o have
other facts of r: that a relation seldom has a new object says nothing about which of those are wrong.

Of the first in this order, those that a path of other facts supports (`reasons`) step back: where the path is right in
a share a of known cases, 2/5 log(1 + 100 a) is added to z. A path knows nothing of what the model has learned.

What is not left out is what the model has learned from a fact. Its weights and normalisers are those of the run, which
has seen it like all others: a model that knows its facts by heart finds none of them strange. Nor is left out that s is
of kind r by one fact less, where the kinds of other entities are compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from blockhole.answering.engine import Engine, open_engine
from blockhole.answering.hops import UNLIKE, Floats, Ids, Table, limit_of, log_room_of, log_self_of
from blockhole.answering.predicting import (
    Progress,
    least_doubt,
    log_most,
    log_odds_of,
    log_share,
    named_relations,
    pair_scores,
    probability_of,
)
from blockhole.answering.reasons import PathReason, path_reasons
from blockhole.data.reviews import FactList, ListedFact, decisions_in
from blockhole.errors import Count, checked, counted
from blockhole.runs.run import Run


@checked
def audit(
    run: Engine | Run | Path | str,
    *,
    relation: str | None = None,
    top: Count = 1000,
    reviewed: Sequence[Path | str] = (),
    progress: Progress | None = None,
) -> FactList:
    """The `top` facts of a run, of one relation or of all, that would be improbable had they been missing.

    The first are those that would be least probable compared with the other facts of their relation. Those that a file
    of `reviewed` ones has a decision on are not listed. Without a calibration facts have shares as scores and no
    probabilities. What is left out of the counts, and what is not, stands above.
    """
    engine = open_engine(run)
    relations = named_relations(engine, relation)
    decided = decisions_in(reviewed, engine.graph)
    parts: list[_Audited] = []
    for place, each in enumerate(relations):
        found = _audited(engine, each)
        parts.append(found.take(np.flatnonzero(~_among(found, decided[decided[:, 1] == each], engine))))
        if progress is not None:
            progress(place + 1, len(relations))
    whole = _Audited(*map(np.concatenate, zip(*parts, strict=True))) if parts else None
    if whole is None:
        return FactList(())
    order = np.lexsort((whole.target, whole.source, whole.relation, whole.deviation))[: _TIMES * top]
    whole = whole.take(order)
    support = _support(engine, whole)
    right = np.array([0.0 if path is None else path.right for path in support])
    order = np.argsort(whole.deviation + 0.4 * np.log1p(100 * right), kind="stable")[:top]
    return _listed(engine, whole.take(order), [support[i] for i in order.tolist()])


_TIMES = 6
"""Facts whose support is looked for, for each that is wanted."""


def _support(engine: Engine, found: _Audited) -> list[PathReason | None]:
    """For each fact the path of other facts that is right most often."""
    support: list[PathReason | None] = [None] * len(found.odds)
    for relation in np.unique(found.relation).tolist():
        rows = np.flatnonzero(found.relation == relation)
        told = path_reasons(engine.known, relation, found.source[rows], found.target[rows], facts=True)
        for row, path in zip(rows.tolist(), told, strict=True):
            support[row] = path
    return support


class _Audited(NamedTuple):
    """Facts, the log-odds of each had it been missing but for the intercept, its z, and what x was made of; shapes [N].

    `others` are the numbers of other objects of (s, r), `subjects` those of other subjects of (r, o); `full_source` and
    `full_target` say whether that many is a limit.
    """

    odds: Floats
    deviation: Floats
    source: NDArray[np.int64]
    relation: NDArray[np.int64]
    target: NDArray[np.int64]
    others: NDArray[np.int64]
    subjects: NDArray[np.int64]
    full_source: NDArray[np.bool_]
    full_target: NDArray[np.bool_]

    def take(self, index: NDArray[np.intp]) -> _Audited:
        """Some of them."""
        columns: Iterable[NDArray[Any]] = self
        return _Audited(*(column[index] for column in columns))


def _audited(engine: Engine, relation: int) -> _Audited:
    """Every fact of a relation."""
    inverse, hops = engine.graph.inverse(relation), engine.hops
    source, target = (ids.astype(np.int64) for ids in engine.known.edges.edges(relation))
    forward, backward = pair_scores(engine, relation, source, target)
    here, there = _End(engine, relation, source), _End(engine, inverse, target)
    room = here.room + there.room
    own = np.flatnonzero(source == target)
    room[own] += log_self_of(np.full(len(own), len(own) - 1), np.full(len(own), len(source) - 1))
    room += least_doubt(engine, relation)
    forward += np.log(np.maximum(here.others, 1)) - hops.normalisers.of(relation)[source] + room
    backward += np.log(np.maximum(there.others, 1)) - hops.normalisers.of(inverse)[target] + room
    kind = np.minimum(here.kind, there.kind)
    share = log_share(forward, backward, 0.1 / engine.graph.num_entities)
    log = share + np.minimum(here.alike, there.alike)
    deviation = (log - log.mean()) / np.sqrt(log.var() + 1)
    most = log_most((forward, backward), (here.spare, there.spare), 0.1 / engine.graph.num_entities)
    odds = log_odds_of(hops.curve, share, kind, (here.room, there.room), most)
    same = np.full(len(source), relation, dtype=np.int64)
    return _Audited(odds, deviation, source, same, target, here.others, there.others, here.room < 0, there.room < 0)


@final
class _End:
    """One end of every fact of a relation, that fact left out: how many others, log η, L, log κ and log (a + ε); [N].

    `relation` leaves the `entities`, so these are of its kind if another fact makes them so.
    """

    def __init__(self, engine: Engine, relation: int, entities: NDArray[np.int64]) -> None:
        count = np.bincount(entities, minlength=engine.graph.num_entities)
        self.others = count[entities] - 1
        self.room = _room_without(count[count > 0], self.others)
        self.spare = np.full(len(entities), np.inf)
        self.kind, self.alike = np.zeros(len(entities)), np.zeros(len(entities))
        alone = np.flatnonzero(self.others == 0)
        if len(alone):
            # Of those that have one, the entity itself is one less.
            self.spare[alone] = limit_of(np.sort(count[count > 0])[1:])
        likeness = _likeness_without(engine, relation, entities[alone])
        self.kind[alone] = engine.hops.log_unlike(likeness, count[count > 0], one_less=True)
        self.alike[alone] = np.log(likeness + UNLIKE)


def _room_without(counts: Ids, left: Ids) -> Floats:
    """log η of entities that have one object less than they had, `left`, among the `counts` of all: [G], [N] → [N].

    Those that have more no longer include the entity itself.
    """
    ascending = np.sort(counts)
    more = len(counts) - np.searchsorted(ascending, left, side="right") - 1
    as_many = len(counts) - np.searchsorted(ascending, left, side="left")
    return np.where(left > 0, log_room_of(more, as_many), 0.0)


def _likeness_without(engine: Engine, relation: int, entities: NDArray[np.int64]) -> Table:
    """a of entities of which a single fact of `relation` leaves, without this fact: [N] → [N].

    It is the largest share, over the other kinds of the entity, of those that are of kind r: it counts among those of
    each of its kinds no more.
    """
    adjacency, known = engine.graph.adjacency, engine.known
    sizes = np.maximum(known.kind_sizes, 1)
    both = np.rint(known.kind_shares(relation) * sizes) - 1
    share = (both / sizes).astype(np.float32)
    share[relation] = 0.0
    found = np.zeros(len(entities), dtype=np.float32)
    first, last = adjacency.group_start[entities], adjacency.group_start[entities + 1]
    size = last - first
    groups = np.repeat(first - np.cumsum(size) + size, size) + np.arange(size.sum())
    np.maximum.at(found, np.repeat(np.arange(len(entities)), size), share[adjacency.group_relation[groups]])
    return found


def _among(found: _Audited, decided: NDArray[np.int64], engine: Engine) -> NDArray[np.bool_]:
    """Which facts of a relation are among those decided on: [N]."""
    count = engine.graph.num_entities
    return np.isin(found.source * count + found.target, decided[:, 0] * count + decided[:, 2])


def _listed(engine: Engine, found: _Audited, support: Sequence[PathReason | None]) -> FactList:
    probability = probability_of(engine.hops.curve, found.odds)
    names, relations = engine.graph.entities, engine.graph.relations
    certain = engine.calibrated is not None
    facts = []
    for i, p in enumerate(probability.tolist()):
        names_of = names[int(found.source[i])], relations[int(found.relation[i])], names[int(found.target[i])]
        facts.append(ListedFact(*names_of, p, p if certain else None, _reason(found, i, support[i])))
    return FactList(tuple(facts))


def _reason(found: _Audited, i: int, path: PathReason | None) -> str:
    """What speaks against a fact, in words, and what speaks for it."""
    others, subjects = int(found.others[i]), int(found.subjects[i])
    said = []
    if subjects == 0:
        said.append("the target is an object of this relation nowhere else")
    if others == 0:
        said.append("the source is a subject of it nowhere else")
    if found.full_source[i]:
        said.append(f"the source has {counted(others, 'other object')}, and hardly any has more")
    if found.full_target[i]:
        said.append(f"the target has {counted(subjects, 'other subject')}, and hardly any has more")
    against = "; ".join(said) or "the model sees the target rarely with sources like this one"
    return f"{against}; no short path of other facts leads there" if path is None else f"{against}; but {path}"
