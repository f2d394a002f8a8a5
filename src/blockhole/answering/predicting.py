"""The most probable missing facts of a whole graph, all relations: `predict`.

The probability of a fact (s, r, o) is that of the hop (`hops`), by x and κ. Where s or o is new to r, a question from s
would take s for one of the right kind, and one from o would take o: the more doubtful counts, κ = min(κ_s, κ_o), and in
the same way the smaller τ, that of r or of r⁻¹.

The k largest probabilities of all pairs are looked for relation by relation, block by block of subjects. By Cauchy and
Schwarz

    log n_f f ≤ α ‖q(s, r)‖ max_o ‖c_o‖ + log n_f - log Z,    and in the same way n_b b,

which bounds x, and so p, for all pairs of a subject or an object at once. What stays below the k-th best so far is
passed over; in the others, one comparison of scores tells which few pairs need exponentials. No more than a block is
ever in memory.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from blockhole.answering.calibration import BEND, fit_logistic, log_odds
from blockhole.answering.engine import Engine, open_engine
from blockhole.answering.hops import HIGHEST, SURE, Floats, Hops, Ids, Table
from blockhole.answering.reasons import path_reasons
from blockhole.answering.search import Candidates
from blockhole.answering.vectors import diverged
from blockhole.data.dataset import DataSet, Known, load
from blockhole.data.reviews import FactList, ListedFact, decisions_in
from blockhole.errors import BlockholeWarning, ConfigError, Count, DataError, checked
from blockhole.evaluation.truth import align
from blockhole.graph.knowledge_graph import SplitGraph
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
_FLAT = 1e-6
_FITTED = 20_000
_TIMES = 10
"""Probabilities are fitted on so many of the best pairs, or so many times as many as are wanted."""
ENOUGH = 10
_LEAST_SLOPE = 0.05
_MOST = 0.95
"""Of the best pairs of a relation, the share that is taken to be missing facts, at most."""
_PRIOR = 5.0
"""Validation facts that a relation needs to weigh as much as all relations together."""

_Kinds = Literal["typed", "like", "other"]
_TYPED: list[tuple[_Kinds, _Kinds]] = [("typed", "typed")]
_LIKE: list[tuple[_Kinds, _Kinds]] = [("like", "typed"), ("typed", "like")]
_OTHERS: list[tuple[_Kinds, _Kinds]] = [
    ("typed", "other"), ("other", "typed"), ("like", "like"), ("like", "other"), ("other", "like"), ("other", "other")
]  # fmt: skip
"""Kinds of subjects and of objects; together they are all pairs, each once."""


@checked
def predict(
    run: Engine | Run | Path | str,
    *,
    relation: str | None = None,
    top: Count = 1000,
    min_probability: float | None = None,
    candidates: Candidates = "typed",
    reviewed: Sequence[Path | str] = (),
    known: Known = "all",
    data: DataSet | Path | str | None = None,
    progress: Progress | None = None,
) -> FactList:
    """The `top` most probable facts that the graph lacks, of one relation or of all, most probable first.

    Those below `min_probability` are left out. `candidates` are pairs of which one entity has the relation at its end
    already, and the other has it too or is like those that do ("typed"), or all pairs. Facts that a file of `reviewed`
    ones has a decision on are not listed again, nor are validation and test facts, unless `known` is "train". An entity
    is paired with itself only where the relation has such facts. Each fact comes with a reason: a path of known facts
    that leads from its source to its target, and how often that path is right, or what the model alone says.

    `ask` says how probable an answer is to a question that has one, for people ask where something is missing. Here all
    pairs are looked at, so probabilities are fitted once more, on how many of the best pairs are validation facts of
    `data`, by default the run's. Without any they are those of `ask`, and too high; without a calibration facts have
    shares as scores and no probabilities.
    """
    if min_probability is not None and not 0 <= min_probability <= 1:
        raise ConfigError(f"min_probability must be a number from 0 to 1, not {min_probability:g}.")
    engine = open_engine(run)
    engine.require_calibration(unless=min_probability is None)
    relations = named_relations(engine, relation)
    decided = decisions_in(reviewed, engine.graph)
    split = held_out(engine, run, data, _UNSEEN)
    fitting = split is not None and len(split.valid) > 0 and engine.calibrated is not None
    passes = (_TYPED, _LIKE, _OTHERS)[: 2 if candidates == "typed" else 3]
    found: list[Found] = []
    for number, kinds in enumerate(passes):
        best = _Best(max(_TIMES * top, _FITTED) if split is not None else top)
        for place, each in enumerate(relations):
            ends, own = _Ends(engine, each), decided[decided[:, 1] == each]
            for subjects, objects in kinds:
                _search(engine, each, ends.subjects(subjects), ends.objects(objects), own, best)
            if progress is not None:
                progress(number * len(relations) + place + 1, len(passes) * len(relations))
        found.append(best.sorted())
    value = [probability_of(engine.hops.curve, each.odds) for each in found]
    if split is not None and fitting:
        value = [_refitted(each, own, split.valid, engine) for each, own in zip(found, value, strict=True)]
    whole, probability = Found.together(found), np.concatenate(value)
    if split is not None and known == "all":
        new = np.flatnonzero(~whole.among(np.concatenate([split.valid, split.test]), engine.graph.num_entities))
        whole, probability = whole.take(new), probability[new]
    order = np.lexsort((whole.target, whole.source, whole.relation, -whole.odds, -probability))[:top]
    if min_probability is not None:
        order = order[probability[order] >= min_probability]
    return _listed(engine, whole.take(order), probability[order])


def held_out(
    engine: Engine, run: Engine | Run | Path | str, data: DataSet | Path | str | None, otherwise: str
) -> SplitGraph | None:
    """The data behind an engine, in its ids; None where there is none to be had, of which `otherwise` is said."""
    try:
        loaded = _loaded(run, data)
    except DataError as failure:
        if data is not None:
            raise
        warnings.warn(
            f"{otherwise}, since the data of the run cannot be read: {failure}", BlockholeWarning, stacklevel=3
        )
        return None
    return loaded and align(loaded.split, engine.graph.entities, engine.graph.relations, loaded.name).split(
        loaded.split
    )


_UNSEEN = (
    "facts that were held out may be listed, and probabilities are those of questions, too high for a list of all pairs"
)


def _loaded(run: Engine | Run | Path | str, data: DataSet | Path | str | None) -> DataSet | None:
    if data is not None:
        return data if isinstance(data, DataSet) else load(data)
    opened = None if isinstance(run, Engine) else run if isinstance(run, Run) else Run.open(run)
    return None if opened is None else opened.load_data()


def _refitted(found: Found, probability: Floats, valid: NDArray[np.int32], engine: Engine) -> Floats:
    """p of the best pairs of some kinds, as often as they are validation facts: [N] → [N].

    Of some relations more is missing than of others. Log-odds are shifted for all relations alike, so that they add up
    to the validation facts among the pairs, and then for each relation, so that where h are and e were to be expected
    e (h + m) / (e + m) are. Of these, logit p' = a logit p + b by greatest likelihood; with few validation facts a is 1
    and b is 0. Then odds are raised as those of hops are: for each validation fact that is missing, so many others are.
    """
    assert engine.calibration is not None
    hit = found.among(valid, engine.graph.num_entities)
    hits, logit = int(hit.sum()), log_odds(probability)
    logit += _shift_to(logit, hits + 0.5)
    for relation in np.unique(found.relation).tolist():
        rows = found.relation == relation
        expected = float((0.5 * (1 + np.tanh(logit[rows] / 2))).sum())
        wanted = expected * (hit[rows].sum() + _PRIOR) / (expected + _PRIOR)
        logit[rows] += _shift_to(logit[rows], min(wanted, _MOST * rows.sum()))
    if min(hits, len(hit) - hits) >= ENOUGH:
        (slope,), shift = fit_logistic(logit[:, None], hit, (_LEAST_SLOPE,))
        logit = slope * logit + shift
    logit += np.log(engine.calibration.missing)
    return np.minimum(0.5 * (1 + np.tanh(logit / 2)), SURE)


def _shift_to(logit: Floats, total: float) -> float:
    """What has to be added to log-odds so that probabilities add up to a total."""
    low, high = -30.0, 30.0
    for _ in range(60):
        middle = (low + high) / 2
        above = float((0.5 * (1 + np.tanh((logit + middle) / 2))).sum()) > total
        low, high = (low, middle) if above else (middle, high)
    return (low + high) / 2


def named_relations(engine: Engine, relation: str | None) -> list[int]:
    """The id of one relation, or those of all that have facts; an inverse has the facts of its relation."""
    count = engine.graph.num_relations
    if relation is not None:
        return [encode_hop(relation, engine.graph.relations) % count]
    return np.flatnonzero(engine.known.candidate_counts[:count]).tolist()


def log_odds_of(
    curve: Curve | None,
    log_share: Floats,
    kind: Table | Floats,
    rooms: Sequence[Table | Floats] = (),
    most: Floats | None = None,
) -> Floats:
    """The log-odds of a hop by log x and log κ, but for the intercept, as `Curve.probability` has them: [N], [N] → [N].

    `rooms` are log η of both ends, and `most` is the logarithm of what rivals that exclude each other leave to p;
    without them it is the most that they may be. Without a curve it is log x κ.
    """
    if curve is None:
        return log_share + kind
    low = np.where(kind < 0, -np.inf, curve.low)  # there is no bend among those that are new to a relation
    odds = curve.slope * np.clip(log_share, low, BEND) + curve.top_slope * np.maximum(log_share - BEND, 0)
    with np.errstate(invalid="ignore"):
        odds += np.where(kind < 0, 0.0, curve.low_slope * np.minimum(log_share - curve.low, 0))
    found: Floats = odds + kind
    for room in rooms:
        with np.errstate(divide="ignore"):
            against = np.log(np.expm1(-np.asarray(room, dtype=np.float64)))  # -inf where there is room
        found = -np.logaddexp(-found - curve.intercept, against) - curve.intercept
    if most is not None:
        part = np.minimum(most, -1e-9)  # log p of what is nearly sure; SURE is below it
        found = np.minimum(found, np.where(most < 0, part - np.log(-np.expm1(part)), np.inf) - curve.intercept)
    return found


def log_most(halves: tuple[Floats, Floats], spare: tuple[Table | Floats, Table | Floats], even: float) -> Floats:
    """The logarithm of what rivals leave to p, by log f η_o σ and log b η_s σ, and L of both ends: [N] each → [N]."""
    left = [(np.exp(np.minimum(half, HIGHEST)) + even) * own for half, own in zip(halves, spare, strict=True)]
    found: Floats = np.log(np.minimum(*left))
    return found


def _log_share_for(curve: Curve | None, odds: float, kind: Table) -> Floats:
    """The log x that such log-odds take at least, by log κ: what `log_odds_of` undoes; [N]."""
    wanted = odds - kind.astype(np.float64)
    if curve is None:
        return wanted
    top, middle, bottom = (max(each, _FLAT) for each in (curve.top_slope, curve.slope, curve.low_slope))
    found = np.where(wanted > curve.slope * BEND, BEND + (wanted - curve.slope * BEND) / top, wanted / middle)
    below = (kind >= 0) & (wanted < curve.slope * curve.low)
    return np.where(below, curve.low + (wanted - curve.slope * curve.low) / bottom, found)


def probability_of(curve: Curve | None, odds: Floats) -> Floats:
    """p of such log-odds, or without a curve x κ; none is surer than SURE: [N] → [N]."""
    value = np.exp(odds) if curve is None else 0.5 * (1 + np.tanh((odds + curve.intercept) / 2))
    found: Floats = np.minimum(value, SURE)
    return found


class Found(NamedTuple):
    """Pairs of relations, and the log-odds of each but for the intercept; shapes [N]."""

    odds: Floats
    source: NDArray[np.int64]
    relation: NDArray[np.int64]
    target: NDArray[np.int64]

    @classmethod
    def together(cls, parts: Sequence[Found]) -> Found:
        """All of several."""
        none = cls(np.zeros(0), *(np.zeros(0, np.int64) for _ in range(3)))
        return cls(*map(np.concatenate, zip(none, *parts, strict=True)))

    def among(self, facts: NDArray[np.int32], num_entities: int) -> NDArray[np.bool_]:
        """Which of them are among facts [T, 3]: [N]."""
        is_among = np.zeros(len(self.odds), dtype=bool)
        for relation in np.unique(self.relation).tolist():
            rows, own = self.relation == relation, facts[facts[:, 1] == relation].astype(np.int64)
            pair = self.source[rows] * num_entities + self.target[rows]
            is_among[rows] = np.isin(pair, own[:, 0] * num_entities + own[:, 2])
        return is_among

    def take(self, index: NDArray[np.intp]) -> Found:
        """Some of them."""
        columns: Iterable[NDArray[Any]] = self
        return Found(*(column[index] for column in columns))


@final
class _Best:
    """The `top` likeliest pairs so far; the log-odds of a further one have to exceed `least`."""

    def __init__(self, top: int) -> None:
        self._top = top
        self._parts: list[Found] = []
        self._held = 0
        self.least = -np.inf

    def add(self, found: Found) -> None:
        """Consider further pairs."""
        self._parts.append(found)
        self._held += len(found.odds)
        if self._held >= 2 * self._top + _AT_ONCE // 4 or self._held >= self._top > self._held - len(found.odds):
            self._cut()

    def _cut(self) -> None:
        whole = Found.together(self._parts)
        if len(whole.odds) > self._top:
            whole = whole.take(np.argpartition(-whole.odds, self._top - 1)[: self._top])
        if len(whole.odds) == self._top:
            self.least = max(self.least, float(whole.odds.min()))
        self._parts, self._held = [whole], len(whole.odds)

    def sorted(self) -> Found:
        """The best, best first; equal ones in the order of their ids."""
        whole = Found.together(self._parts)
        order = np.lexsort((whole.target, whole.source, whole.relation, -whole.odds))[: self._top]
        return whole.take(order)


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Side:
    """Entities at one end of a relation, and what is the same in all their pairs, in logarithms; shapes [N].

    `ahead` is log n τ minus the normaliser of the share that asks from them, `asking` the norm of α times that query's
    vector, and `answer` that of the candidate.
    """

    entities: NDArray[np.int64]
    ahead: Table
    room: Table
    spare: Table
    kind: Table
    asking: Floats
    answer: Floats

    @classmethod
    def of(cls, engine: Engine, relation: int, entities: NDArray[np.int64]) -> _Side:
        """Those entities, which ask along `relation`."""
        hops = engine.hops
        norms = []
        for first in range(0, len(entities), _ROWS):
            rows = engine.vectors.rows(entities[first : first + _ROWS])
            norms.append(np.linalg.norm(hops.scale * engine.vectors.walk(rows, [relation]), axis=1))
        return cls(
            entities,
            least_doubt(engine, relation)
            + (hops.known_counts(relation)[entities] - hops.normalisers.of(relation)[entities]),
            hops.log_room(relation)[entities],
            np.full(len(entities), np.inf) if (spare := hops.spare(relation)) is None else spare[entities],
            hops.log_kind(engine.graph.inverse(relation))[entities],
            np.concatenate([np.zeros(0), *norms]),
            np.linalg.norm(engine.candidates[entities].astype(np.float64), axis=1),
        )

    def take(self, index: NDArray[np.intp]) -> _Side:
        """Some of them."""
        columns: Iterable[NDArray[Any]] = (getattr(self, each.name) for each in fields(self))
        return _Side(*(column[index] for column in columns))

    def bounds(self, other: _Side, even: float, curve: Curve | None) -> Floats:
        """The most that the log-odds may be of each with any of the others: [N]."""
        here = self.asking * other.answer.max() + self.ahead
        there = self.answer * other.asking.max() + (other.ahead + other.room).max()
        return log_odds_of(curve, log_share(here + self.room, there + self.room, even) + _SLACK, self.kinds_with(other))

    def kinds_with(self, other: _Side) -> Table:
        """The most that log κ of a pair may be; where all others are new to the relation, no pair has κ = 1: [N]."""
        most: Table = np.minimum(self.kind, other.kind.max())
        return most


_ROWS = 4096


def least_doubt(engine: Engine, relation: int) -> np.float32:
    """log τ, the smaller of both directions."""
    return min(engine.hops.log_doubt(each) for each in (relation, engine.graph.inverse(relation)))


def log_share(forward: Floats, backward: Floats, even: float) -> Floats:
    """log x, of log n_f f η_s η_o τ and of log n_b b η_s η_o τ; `even` is 1 / 10 E: [N], [N] → [N]."""
    together = np.exp(np.minimum(forward, HIGHEST)) + np.exp(np.minimum(backward, HIGHEST))
    found: Floats = np.log(0.5 * together + even)
    return found


@final
class _Ends:
    """The entities at either end of a relation, by their kinds."""

    def __init__(self, engine: Engine, relation: int) -> None:
        self._engine = engine
        self._relation = relation

    def subjects(self, kinds: _Kinds) -> _Side:
        """Those that may be subjects."""
        return self._of(self._relation, kinds)

    def objects(self, kinds: _Kinds) -> _Side:
        """Those that may be objects."""
        return self._of(self._engine.graph.inverse(self._relation), kinds)

    def _of(self, leaving: int, kinds: _Kinds) -> _Side:
        """Those that `leaving` leaves or may leave."""
        typed, like = self._engine.hops.kinds(self._engine.graph.inverse(leaving))
        chosen = {"typed": typed, "like": like, "other": ~typed & ~like}[kinds]
        return _Side.of(self._engine, leaving, np.flatnonzero(chosen))


def _search(
    engine: Engine, relation: int, subjects: _Side, objects: _Side, decided: NDArray[np.int64], best: _Best
) -> None:
    """Add the best pairs of some subjects and objects that are neither known nor `decided` on, triples [T, 3]."""
    even = 0.1 / engine.graph.num_entities
    if not len(subjects.entities) or not len(objects.entities):
        return
    curve = engine.hops.curve
    bound = objects.bounds(subjects, even, curve)
    objects = objects.take(np.flatnonzero(bound > best.least))
    if not len(objects.entities):
        return
    bound = subjects.bounds(objects, even, curve)
    order = np.argsort(-bound, kind="stable")  # the likeliest first, so that the others need not be looked at
    columns = engine.hops.columns(relation, objects.entities)
    excluded = _Excluded(engine, relation, decided, objects.entities)
    size = max(8, _AT_ONCE // len(objects.entities))
    for first in range(0, len(order), size):
        rows = order[first : first + size]
        rows = rows[bound[rows] > best.least]
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
        column, row = _above(
            forward, backward, own.kinds_with(objects), objects.kinds_with(own), best.least, even, curve
        ).nonzero()
        kind = np.minimum(own.kind[row], objects.kind[column]).astype(np.float64)
        ahead, behind = (score[column, row].astype(np.float64) for score in (forward, backward))
        most = log_most((ahead, behind), (own.spare[row], objects.spare[column]), even)
        odds = log_odds_of(curve, log_share(ahead, behind, even), kind, (own.room[row], objects.room[column]), most)
        keep = np.flatnonzero(odds > best.least)
        best.add(
            Found(
                odds[keep],
                own.entities[row[keep]],
                np.full(len(keep), relation, dtype=np.int64),
                objects.entities[column[keep]],
            )
        )


def _above(
    forward: Table, backward: Table, of_rows: Table, of_columns: Table, least: float, even: float, curve: Curve | None
) -> NDArray[np.bool_]:
    """Which pairs may exceed `least`: one of the two shares has to be as large as their mean; [C, S]."""
    larger = np.maximum(forward, backward)
    above: NDArray[np.bool_] = larger > -np.inf
    if least == -np.inf:
        return above
    for kind, shape in ((of_rows, (1, -1)), (of_columns, (-1, 1))):
        share = np.exp(np.minimum(_log_share_for(curve, least, kind), float(HIGHEST) + 10)) - even
        wanted = np.log(np.maximum(share, _TINY)) - _SLACK
        above &= larger > wanted.astype(np.float32).reshape(shape)
    return above


@final
class _Excluded:
    """Pairs of a relation that are not asked for: facts, those decided on, and an entity with itself."""

    def __init__(self, engine: Engine, relation: int, decided: NDArray[np.int64], columns: Ids) -> None:
        source, target = engine.known.edges.edges(relation)
        self._source = np.concatenate([source, decided[:, 0]]).astype(np.int64)
        self._target = np.concatenate([target, decided[:, 2]]).astype(np.int64)
        self._alone = engine.hops.log_self(relation)
        if not (source == target).any():
            self._source = np.concatenate([self._source, columns])
            self._target = np.concatenate([self._target, columns])
        self._column = np.full(engine.graph.num_entities, -1)
        self._column[columns] = np.arange(len(columns))
        self._row = np.full(engine.graph.num_entities, -1)

    def hide(self, forward: Table, backward: Table, sources: Ids) -> None:
        """Make their scores -∞, and those of an entity with itself, where it is asked for, as seldom as it is."""
        column = self._column[sources]
        row = np.flatnonzero(column >= 0)
        for score in (forward, backward):
            score[column[row], row] += np.float32(self._alone)
        self._row[:] = -1
        self._row[sources] = np.arange(len(sources))
        row, column = self._row[self._source], self._column[self._target]
        here = (row >= 0) & (column >= 0)
        forward[column[here], row[here]] = -np.inf
        backward[column[here], row[here]] = -np.inf


def _listed(engine: Engine, found: Found, probability: Floats) -> FactList:
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
            query = (engine.hops.scale * vectors.walk(vectors.rows(asked), [hop]))[place]
            scores[part] = (query * vectors.candidates(other[part])).sum(axis=1)
        found.append(scores)
    return found[0], found[1]
