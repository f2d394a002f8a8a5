"""The most probable missing facts of a whole graph, all relations: `predict`.

The probability of a fact (s, r, o) is that of the hop (`hops`). Where s or o is new to r, a question from s would take
s for one of the right kind, and one from o would take o: the more doubtful of the two counts, so

    x = (½ (n_f f + n_b b) η_s η_o + 1 / 10 E) min(κ_s, κ_o)

The k largest x of all pairs are looked for relation by relation, block by block of subjects. By Cauchy and Schwarz

    log n_f f ≤ α ‖q(s, r)‖ max_o ‖c_o‖ + log n_f - log Z,    and in the same way n_b b,

which bounds x for all pairs of a subject or an object at once. What stays below the k-th best so far is passed over; in
the others, one comparison of scores tells which few pairs need exponentials. No more than a block is ever in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from blockhole.answering.engine import Engine, open_engine
from blockhole.answering.hops import HIGHEST, SURE, Floats, Hops, Ids, Table
from blockhole.answering.reasons import path_reasons
from blockhole.answering.reviews import FactList, ListedFact, decisions_in
from blockhole.answering.search import Candidates
from blockhole.answering.vectors import diverged
from blockhole.errors import ConfigError, Count, checked
from blockhole.queries.language import encode_hop
from blockhole.runs.run import Run

if TYPE_CHECKING:
    from blockhole.answering.calibration import Curve

Progress = Callable[[int, int], None]
"""Hears how many relations are done, of how many."""

_AT_ONCE = 2**22
"""Scores of a block."""
_SLACK = 1e-3
"""Float32 rounds, and bounds have to hold all the same; in logarithms."""
_TINY = 1e-30


@checked
def predict(
    run: Engine | Run | Path | str,
    *,
    relation: str | None = None,
    top: Count = 1000,
    min_probability: float | None = None,
    candidates: Candidates = "typed",
    reviewed: Sequence[Path | str] = (),
    progress: Progress | None = None,
) -> FactList:
    """The `top` most probable facts that the graph lacks, of one relation or of all, most probable first.

    Those below `min_probability` are left out. `candidates` are the subjects and objects that a relation has in the
    graph ("typed"), or all entities. Facts that a file of `reviewed` ones has a decision on are not listed again. An
    entity is paired with itself only where the relation has such facts. Each fact comes with a reason: a path of known
    facts that leads from its source to its target, and how often that path is right, or what the model alone says.

    Without a calibration facts have shares as scores and no probabilities.
    """
    engine = open_engine(run)
    least = _least_share(engine, min_probability)
    relations = named_relations(engine, relation)
    decided = decisions_in(reviewed, engine.graph)
    best = _Best(top, least)
    # The likeliest pairs are of kinds that a relation has: found first, they spare most of the others.
    passes: list[Candidates] = ["typed"] if candidates == "typed" else ["typed", "all"]
    rounds = [(kind, each) for kind in passes for each in relations]
    for place, (kind, each) in enumerate(rounds):
        _search(engine, each, kind, decided[decided[:, 1] == each], best)
        if progress is not None:
            progress(place + 1, len(rounds))
    return _listed(engine, best.sorted())


def named_relations(engine: Engine, relation: str | None) -> list[int]:
    """The id of one relation, or those of all that have facts; an inverse has the facts of its relation."""
    count = engine.graph.num_relations
    if relation is not None:
        return [encode_hop(relation, engine.graph.relations) % count]
    return np.flatnonzero(engine.known.candidate_counts[:count]).tolist()


def _least_share(engine: Engine, probability: float | None) -> float:
    """The least x whose probability is as asked for; the curve never falls."""
    if probability is None:
        return 0.0
    if not 0 <= probability <= 1:
        raise ConfigError(f"a probability (--min-probability) is between 0 and 1, not {probability:g}.")
    engine.require_calibration()
    curve = engine.hops.curve
    assert curve is not None
    low, high = np.log(_TINY), float(HIGHEST) + 10
    for _ in range(60):
        middle = (low + high) / 2
        reached = probability_of(curve, np.exp(np.array([middle], dtype=np.float32)))[0] >= probability
        low, high = (low, middle) if reached else (middle, high)
    return float(np.exp(low))


def probability_of(curve: Curve | None, share: Table) -> Table:
    """p of shares, or without a curve the shares themselves; none is surer than SURE: [N] → [N]."""
    value = share.copy() if curve is None else curve.probability(share)
    return np.minimum(value, np.float32(SURE), out=value)


class Found(NamedTuple):
    """Pairs of relations, and x of each; shapes [N]."""

    share: Table
    source: NDArray[np.int64]
    relation: NDArray[np.int64]
    target: NDArray[np.int64]

    def take(self, index: NDArray[np.intp]) -> Found:
        """Some of them."""
        columns: Iterable[NDArray[Any]] = self
        return Found(*(column[index] for column in columns))


@final
class _Best:
    """The `top` pairs of largest x so far; a further one has to exceed `least`."""

    def __init__(self, top: int, least: float) -> None:
        self._top = top
        self._parts: list[Found] = []
        self._held = 0
        self.least = least

    def add(self, found: Found) -> None:
        """Consider further pairs."""
        self._parts.append(found)
        self._held += len(found.share)
        if self._held >= 2 * self._top + _AT_ONCE // 4 or self._held >= self._top > self._held - len(found.share):
            self._cut()

    def _cut(self) -> None:
        whole = self._whole()
        if len(whole.share) > self._top:
            whole = whole.take(np.argpartition(-whole.share, self._top - 1)[: self._top])
        if len(whole.share) == self._top:
            self.least = max(self.least, float(whole.share.min()))
        self._parts, self._held = [whole], len(whole.share)

    def _whole(self) -> Found:
        none = Found(np.zeros(0, np.float32), *(np.zeros(0, np.int64) for _ in range(3)))
        return Found(*map(np.concatenate, zip(none, *self._parts, strict=True)))

    def sorted(self) -> Found:
        """The best, best first; equal ones in the order of their ids."""
        whole = self._whole()
        order = np.lexsort((whole.target, whole.source, whole.relation, -whole.share))[: self._top]
        return whole.take(order)


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Side:
    """Entities at one end of a relation, and what is the same in all their pairs, in logarithms; shapes [N].

    `ahead` is log n minus the normaliser of the share that asks from them, `asking` the norm of α times that query's
    vector, and `answer` that of the candidate.
    """

    entities: NDArray[np.int64]
    ahead: Table
    room: Table
    kind: Table
    asking: Floats
    answer: Floats

    @classmethod
    def of(cls, engine: Engine, relation: int, candidates: Candidates) -> _Side:
        """Those that ask along `relation`."""
        hops, inverse = engine.hops, engine.graph.inverse(relation)
        typed = engine.known.candidates(inverse).astype(np.int64)
        entities = typed if candidates == "typed" else np.arange(engine.graph.num_entities)
        norms = [
            np.linalg.norm(
                engine.vectors.walk(engine.vectors.rows(entities[first : first + _ROWS]), [relation]), axis=1
            )
            for first in range(0, len(entities), _ROWS)
        ]
        return cls(
            entities,
            hops.known_counts(relation)[entities] - hops.normalisers.of(relation)[entities],
            hops.log_room(relation)[entities],
            hops.log_kind(inverse)[entities],
            hops.scale * np.concatenate([np.zeros(0), *norms]),
            np.linalg.norm(engine.candidates[entities].astype(np.float64), axis=1),
        )

    def take(self, index: NDArray[np.intp]) -> _Side:
        """Some of them."""
        columns: Iterable[NDArray[Any]] = (getattr(self, each.name) for each in fields(self))
        return _Side(*(column[index] for column in columns))

    def bounds(self, other: _Side, even: float) -> Floats:
        """The most that log x may be of each with any of the others: [N]."""
        here = self.asking * other.answer.max() + self.ahead
        there = self.answer * other.asking.max() + (other.ahead + other.room).max()
        return log_share(here + self.room, there + self.room, self.kind.astype(np.float64), even) + _SLACK


_ROWS = 4096


def log_share(forward: Floats, backward: Floats, kind: Floats, even: float) -> Floats:
    """log x, of log n_f f η_s η_o, of log n_b b η_s η_o, and of log κ; `even` is 1 / 10 E: [N], [N], [N] → [N]."""
    together = np.exp(np.minimum(forward, HIGHEST)) + np.exp(np.minimum(backward, HIGHEST))
    found: Floats = np.log(0.5 * together + even) + kind
    return found


def _search(engine: Engine, relation: int, candidates: Candidates, decided: NDArray[np.int64], best: _Best) -> None:
    """Add the best pairs of a relation that are neither known nor `decided` on, triples [T, 3]."""
    inverse, even = engine.graph.inverse(relation), 0.1 / engine.graph.num_entities
    subjects = _Side.of(engine, relation, candidates)
    objects = _Side.of(engine, inverse, candidates)
    if not len(subjects.entities) or not len(objects.entities):
        return
    bound = objects.bounds(subjects, even)
    objects = objects.take(np.flatnonzero(bound > _log(best.least)))
    if not len(objects.entities):
        return
    bound = subjects.bounds(objects, even)
    order = np.argsort(-bound, kind="stable")  # the likeliest first, so that the others need not be looked at
    columns = engine.hops.columns(relation, objects.entities)
    excluded = _Excluded(engine, relation, decided, objects.entities)
    size = max(8, _AT_ONCE // len(objects.entities))
    for first in range(0, len(order), size):
        rows = order[first : first + size]
        rows = rows[bound[rows] > _log(best.least)]
        if not len(rows):
            return
        own = subjects.take(rows)
        forward, backward = engine.hops.products(own.entities, columns)
        with np.errstate(invalid="ignore"):
            backward = backward + (objects.ahead + objects.room)[:, None]  # a new array: a tied model's are one
            backward += own.room
            forward += own.ahead + own.room
            forward += objects.room[:, None]
        if np.isnan(forward).any() or np.isnan(backward).any():
            raise diverged("the model's scores")
        excluded.hide(forward, backward, own.entities)
        if candidates == "all":  # but for those of the right kinds, which have been looked at
            forward[np.ix_(objects.kind == 0, own.kind == 0)] = -np.inf
            backward[np.ix_(objects.kind == 0, own.kind == 0)] = -np.inf
        column, row = _above(forward, backward, own.kind, objects.kind, best.least, even).nonzero()
        kind = np.minimum(own.kind[row], objects.kind[column]).astype(np.float64)
        value = log_share(forward[column, row].astype(np.float64), backward[column, row].astype(np.float64), kind, even)
        share = np.exp(value).astype(np.float32)
        keep = np.flatnonzero(share > best.least)
        best.add(
            Found(
                share[keep],
                own.entities[row[keep]],
                np.full(len(keep), relation, dtype=np.int64),
                objects.entities[column[keep]],
            )
        )


def _log(share: float) -> float:
    return float(np.log(share)) if share > 0 else -np.inf


def _above(
    forward: Table, backward: Table, of_rows: Table, of_columns: Table, least: float, even: float
) -> NDArray[np.bool_]:
    """Which pairs may have x > `least`: one of the two shares has to be as large as their mean; [C, S]."""
    larger = np.maximum(forward, backward)
    above: NDArray[np.bool_] = larger > -np.inf
    if least <= 0:
        return above
    for kind, shape in ((of_rows, (1, -1)), (of_columns, (-1, 1))):
        wanted = np.log(np.maximum(least / np.exp(kind.astype(np.float64)) - even, _TINY)) - _SLACK
        above &= larger > wanted.astype(np.float32).reshape(shape)
    return above


@final
class _Excluded:
    """Pairs of a relation that are not asked for: facts, those decided on, and an entity with itself."""

    def __init__(self, engine: Engine, relation: int, decided: NDArray[np.int64], columns: Ids) -> None:
        source, target = engine.known.edges.edges(relation)
        self._source = np.concatenate([source, decided[:, 0]]).astype(np.int64)
        self._target = np.concatenate([target, decided[:, 2]]).astype(np.int64)
        if not (source == target).any():
            self._source = np.concatenate([self._source, columns])
            self._target = np.concatenate([self._target, columns])
        self._column = np.full(engine.graph.num_entities, -1)
        self._column[columns] = np.arange(len(columns))
        self._row = np.full(engine.graph.num_entities, -1)

    def hide(self, forward: Table, backward: Table, sources: Ids) -> None:
        """Make their scores -∞: [C, S], [C, S]."""
        self._row[:] = -1
        self._row[sources] = np.arange(len(sources))
        row, column = self._row[self._source], self._column[self._target]
        here = (row >= 0) & (column >= 0)
        forward[column[here], row[here]] = -np.inf
        backward[column[here], row[here]] = -np.inf


def _listed(engine: Engine, found: Found) -> FactList:
    probability = probability_of(engine.hops.curve, found.share).astype(np.float64)
    reasons = [""] * len(probability)
    for relation in np.unique(found.relation).tolist():
        rows = np.flatnonzero(found.relation == relation)
        pairs = found.take(rows)
        told = path_reasons(engine.known, relation, pairs.source, pairs.target)
        alone = _by_the_model(engine.hops, relation, engine, pairs)
        for row, path, model in zip(rows.tolist(), told, alone, strict=True):
            reasons[row] = model if path is None else str(path)
    names, relations = engine.graph.entities, engine.graph.relations
    certain = engine.calibrated is not None
    return FactList(
        tuple(
            ListedFact(names[s], relations[r], names[o], p, p if certain else None, reason)
            for s, r, o, p, reason in zip(
                found.source.tolist(), found.relation.tolist(), found.target.tolist(), probability.tolist(), reasons,
                strict=True,
            )
        )
    )  # fmt: skip


def _by_the_model(hops: Hops, relation: int, engine: Engine, pairs: Found) -> Iterator[str]:
    ahead, behind = pair_scores(engine, relation, pairs.source, pairs.target)
    f = np.exp(np.minimum(ahead - hops.normalisers.of(relation)[pairs.source], 0))
    b = np.exp(np.minimum(behind - hops.normalisers.of(engine.graph.inverse(relation))[pairs.target], 0))
    for forward, backward in zip(f.tolist(), b.tolist(), strict=True):
        yield f"by the model alone: {forward:.1%} of all objects, {backward:.1%} of all subjects"


def pair_scores(engine: Engine, relation: int, source: Ids, target: Ids) -> tuple[Floats, Floats]:
    """α φ(s, r, o) and α φ(o, r⁻¹, s) of pairs: [N], [N] → [N], [N]."""
    vectors, inverse = engine.vectors, engine.graph.inverse(relation)
    found: list[Floats] = []
    for one, hop, other in ((source, relation, target), (target, inverse, source)):
        scores = np.empty(len(one))
        for first in range(0, len(one), _ROWS):
            part = slice(first, first + _ROWS)
            # Many pairs share a subject or an object, which is walked once.
            asked, place = np.unique(one[part], return_inverse=True)
            query = vectors.walk(vectors.rows(asked), [hop])[place]
            scores[part] = engine.hops.scale * (query * vectors.candidates(other[part])).sum(axis=1)
        found.append(scores)
    return found[0], found[1]
