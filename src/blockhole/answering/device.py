"""The values of `search` on a GPU: every entity's, for many queries of one shape at once, as dense tables.

On a processor a row of a hop costs too much to open one that might not matter. On a GPU a thousand rows are one product
of matrices, so every plausible witness is opened and nothing is bounded. Hops of many relations are computed together,
since telling a device what to do takes longer than a small product does. Products are those of float32, values are
float64, as everywhere.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from functools import reduce
from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from blockhole.answering.calibration import BEND, CLOSEST, ChainCurve, Curve, Parts
from blockhole.answering.hops import HIGHEST, SURE
from blockhole.answering.search import PLAUSIBLE, Candidates, Settled
from blockhole.answering.vectors import diverged
from blockhole.evaluation.query_ranking import Graphs, RankedAnswers
from blockhole.evaluation.ranking import Ranks
from blockhole.models.contract import full_float32
from blockhole.queries.answer_masks import EdgesOnDevice
from blockhole.queries.missing import NO_PROOF
from blockhole.queries.plans import Both, Either, Follow, Plan, Start, Steps, chains_to, named_slots
from blockhole.queries.query_sets import steps_of_type

if TYPE_CHECKING:
    from blockhole.answering.engine import Engine

Ids = NDArray[np.integer]

_NUMBERS = 2**28
"""Numbers in the rows that are open together: 1 GiB of float32."""
_MIXED, _APART = -1, 2**25
"""The number of hops of many relations together, and how many numbers a relation by itself has to save."""
_TABLES = 24
"""Tables of a float64 number for each entity that one query takes at most."""
_SHARE = 0.5
"""How much of a device's free memory queries that are asked together may take."""
_TOGETHER = 2048
"""Queries that are asked together at most: more share little more."""


@final
class DeviceSweep:
    """An engine whose vectors are on a device, asked for the values of all entities."""

    def __init__(self, engine: Engine, device: torch.device | str, candidates: Candidates = "all") -> None:
        self._engine = engine
        self.device = torch.device(device)
        self._candidates = candidates
        self._size = engine.graph.num_entities
        self._entity = torch.tensor(engine.vectors.entity).to(self.device)
        plain = engine.vectors.model.plain_candidates
        self._table = self._entity if plain else torch.tensor(engine.candidates).to(self.device)
        self._operators = copy.deepcopy(engine.vectors.operators).to(self.device)
        self._facts = EdgesOnDevice(engine.graph, self.device)
        self._scale = torch.as_tensor(engine.hops.scale, dtype=torch.float64, device=self.device)
        self._held: dict[tuple[str, int], Tensor] = {}

    @property
    def together(self) -> int:
        """How many queries the device has room for at a time."""
        if self.device.type != "cuda":
            return 64
        free, _ = torch.cuda.mem_get_info(self.device)
        return int(min(max(1, _SHARE * free / (8 * _TABLES * self._size)), _TOGETHER))

    @torch.no_grad()
    def values(self, steps: Steps, ids: Ids) -> Tensor:
        """The value of every entity for each query of a shape: ids [N, slots] → [N, E], on the device."""
        found: list[Tensor] = []
        for place, step in enumerate(steps):
            match step:
                case Start(slot):
                    own = torch.zeros(len(ids), self._size, dtype=torch.float64, device=self.device)
                    own.scatter_(1, self._ids(ids[:, slot])[:, None], 1.0)
                case Follow(of, slot):
                    relation = self._ids(ids[:, slot])
                    witnesses = found[of]
                    if not isinstance(steps[of], Start):
                        witnesses = witnesses * self._leaving(relation, self._ids(ids[:, named_slots(steps, of)]))
                    witness = own = self._follow(witnesses, relation)
                    for path in chains_to(steps, place):
                        curve = self._chain_curve(len(path) - 1)
                        if curve is not None:
                            own = torch.maximum(own, self._raised(witness, ids[:, path], curve))
                case Both(keep, drop):
                    own = reduce(torch.mul, [found[each] for each in keep] + [1 - found[each] for each in drop])
                case Either(of):
                    parts = [found[each] for each in of]
                    own = 1 - reduce(torch.mul, [1 - part for part in parts])
                    own = reduce(torch.maximum, parts, own)  # not less than any part, however it is rounded
            found.append(own)
        if bool(found[-1].isnan().any()):
            raise diverged("the model's scores for this query")
        return found[-1]

    @torch.no_grad()
    def settled(self, steps: Steps, ids: Ids, top: int) -> Iterator[Settled]:
        """The known answers to queries of a shape, the `top` best predicted ones, and all that tie with the last."""
        size = self.together
        for first in range(0, len(ids), size):
            part = ids[first : first + size]
            values, known = self.values(steps, part), self._facts.least(steps, part)[-1] < NO_PROOF
            other = values.masked_fill(known, 0.0)
            last = other.topk(min(top, self._size), dim=1).values[:, -1:]
            found = []
            for chosen in (known, (other >= last) & (other > 0)):
                query, entity = chosen.nonzero(as_tuple=True)
                count = torch.bincount(query, minlength=len(part)).cpu().numpy()
                places = np.cumsum(count)[:-1]
                found += [np.split(each.cpu().numpy(), places) for each in (entity, values[query, entity])]
            yield from map(Settled._make, zip(*found, strict=True))

    def _leaving(self, relation: Tensor, named: Tensor) -> Tensor:
        """ω of every entity along the relation of each query, which has named some: [q], [q, n] → [q, E]."""
        distinct, which = torch.unique(relation, return_inverse=True)
        return self._hold("leaving", distinct.tolist(), self._engine.hops.leaving)[which].scatter_(1, named, 1.0)

    def _follow(self, before: Tensor, relation: Tensor) -> Tensor:
        """max over witnesses h of what each counts times p(h, r, o), by facts and by rows: [q, E], [q] → [q, E]."""
        start = torch.where(before >= PLAUSIBLE, before, 0.0)
        query, witness = start.nonzero(as_tuple=True)
        weight = start[query, witness]
        best = self._facts.led(query, relation[query], witness, weight, torch.zeros_like(start))
        # The hops that are opened, each once for all queries that take it, and those together that are computed so.
        hop, place = torch.unique(relation[query] * self._size + witness, return_inverse=True)
        group = self._groups(hop // self._size)
        order = group.argsort(stable=True)
        number = torch.empty_like(order)
        number[order] = torch.arange(len(order), device=self.device)
        hop, place = hop[order], number[place]
        order = place.argsort()
        query, place, weight = query[order], place[order], weight[order]
        end = torch.bincount(place, minlength=len(hop)).cumsum(0).tolist()
        groups, count = torch.unique_consecutive(group.sort().values, return_counts=True)
        first = 0
        for mixed, rows in zip((groups == _MIXED).tolist(), torch.split(hop, count.tolist()), strict=True):
            of = rows // self._size
            entities = None
            if self._candidates == "typed" and not mixed:
                entities = self._ids(self._engine.known.candidates(int(of[0])))
            for part in _pieces(len(rows), self._size if entities is None else len(entities), self.device):
                columns = self._columns(of[part], entities)
                said = self._rows(rows[part] % self._size, columns)
                taken = range(end[first - 1] if first else 0, end[first + len(part) - 1])
                for piece in _pieces(len(taken), said.shape[1], self.device):
                    own = piece + taken.start
                    _raise(best, entities, query[own], said[place[own] - first] * weight[own, None])
                first += len(part)
        return best

    def _groups(self, relation: Tensor) -> Tensor:
        """Which hops, of relations that ascend, are computed together: those of the same number; [H] → [H].

        Hops of different relations can be, to every entity, and then a device is told few things to do, not many small
        ones. A relation of many hops that takes few entities goes by itself, and only these are looked at.
        """
        relations, count = torch.unique_consecutive(relation, return_counts=True)
        operators, known = self._operators, self._engine.known
        mixes = operators.tied or operators.has_matrices
        own = [
            each
            if not mixes or (self._candidates == "typed" and rows * (self._size - len(known.candidates(each))) > _APART)
            else _MIXED
            for each, rows in zip(relations.tolist(), count.tolist(), strict=True)
        ]
        return torch.tensor(own, dtype=torch.long, device=self.device).repeat_interleave(count)

    def shares(self, sources: Ids, relation: int, objects: Ids) -> NDArray[np.float32]:
        """x of the hop from each source to each object, as `hops.Hops.shares` gives it: [S], [C] → [S, C]."""
        source = self._ids(sources)
        columns = self._columns(torch.full_like(source, relation), self._ids(objects))
        shares: NDArray[np.float32] = self._shares(source, columns).cpu().numpy()
        return shares

    @torch.no_grad()
    def hops(self, sources: Ids, relation: int) -> NDArray[np.float32]:
        """p of the hop from each source to every entity, facts as if they were none: [S] → [S, E]."""
        source = self._ids(sources)
        rows: NDArray[np.float32] = (
            self._rows(source, self._columns(torch.full_like(source, relation), None)).cpu().numpy()
        )
        return rows

    def _columns(self, relation: Tensor, entities: Tensor | None) -> _Columns:
        """What rows of hops along relations are computed with, to some entities or to every one: [S]."""
        distinct, which = torch.unique(relation, return_inverse=True)
        hops, relations = self._engine.hops, distinct.tolist()
        inverses = [self._engine.graph.inverse(each) for each in relations]
        ahead, room_ahead = self._hold("offset", relations, self._offset), self._hold("room", relations, hops.log_room)
        behind, room = self._hold("offset", inverses, self._offset), self._hold("room", inverses, hops.log_room)
        limited = any(hops.spare(each) is not None for each in relations)
        spare = self._hold("spare", relations, self._spare) if limited else None
        kind, table = self._hold("kind", relations, hops.log_kind), self._table
        if entities is not None:
            behind, room, kind, table = behind[:, entities], room[:, entities], kind[:, entities], table[entities]
        inverse = torch.tensor(inverses, device=self.device)[which]
        return _Columns(
            relation, inverse, which, relations, entities, table,
            ahead, room_ahead, spare, behind, room, kind,
        )  # fmt: skip

    def _spare(self, relation: int) -> NDArray[np.float32]:
        """L of every s that has no known object of a relation which limits them, inf of every other: [E]."""
        spare = self._engine.hops.spare(relation)
        return np.full(self._size, np.inf, dtype=np.float32) if spare is None else spare

    def _offset(self, relation: int) -> NDArray[np.float32]:
        """log n of the known objects of every (s, r), less the normaliser: [E]."""
        hops = self._engine.hops
        offset: NDArray[np.float32] = hops.known_counts(relation) - hops.normalisers.of(relation)
        return offset

    def _rows(self, sources: Tensor, columns: _Columns) -> Tensor:
        """p of the hop from each source to each column, 0 to those that are no candidates: [S, C]."""
        kind = columns.of(columns.kind)
        full = torch.expm1(-columns.room_ahead[columns.which, sources])[:, None], torch.expm1(-columns.of(columns.room))
        curve, (forward, backward) = self._engine.hops.curve, self._halves(sources, columns)
        most = None
        if curve is not None and columns.spare is not None:
            most = (forward + 0.1 / self._size).mul_(columns.spare[columns.which, sources][:, None])
        rows = _probability(self._joined(forward, backward), kind, curve, full).clamp_max_(SURE)
        if most is not None:
            rows = torch.minimum(rows, most, out=rows)
        return rows if self._candidates == "all" else rows.masked_fill_(kind < 0, 0.0)

    def _shares(self, sources: Tensor, columns: _Columns) -> Tensor:
        """x of the hop from each source to each column: [S, C]; the formula of `hops`."""
        return self._joined(*self._halves(sources, columns))

    def _joined(self, forward: Tensor, backward: Tensor) -> Tensor:
        """x by its halves, the first of which is written over: [S, C], [S, C] → [S, C]."""
        return forward.add_(backward).mul_(0.5).add_(0.1 / self._size)

    def _halves(self, sources: Tensor, columns: _Columns) -> tuple[Tensor, Tensor]:
        """n_f f and n_b b, times η_s η_o σ τ: [S, C], [S, C]."""
        ahead, room = (each[columns.which, sources] for each in (columns.ahead, columns.room_ahead))
        forward, backward = self._scores(sources, columns)
        hops = self._engine.hops
        factors = [(hops.log_self(each), float(hops.log_doubt(each))) for each in columns.relations]
        alone, doubt = torch.tensor(factors, device=self.device).T
        room = room + doubt[columns.which]
        if columns.entities is None:
            row, column = torch.arange(len(sources), device=self.device), sources
        else:
            row, column = (sources[:, None] == columns.entities).nonzero(as_tuple=True)
        for score in (forward, backward):
            score[row, column] += alone[columns.which[row]]
        forward = _exp(forward.add_((ahead + room)[:, None]).add_(columns.of(columns.room)))
        return forward, _exp(backward.add_(columns.of(columns.behind + columns.room)).add_(room[:, None]))

    def _scores(self, sources: Tensor, columns: _Columns) -> tuple[Tensor, Tensor]:
        """α φ(s, r, o) and α φ(o, r⁻¹, s): [S, C], [S, C]."""
        scale, operators = self._scale, self._operators
        start = self._entity[sources].double()
        ahead = scale * operators.finish_query(operators.hop(start, columns.relation))
        with full_float32():
            forward = ahead.float() @ columns.table.T
            if operators.tied:
                return forward, forward.clone()
            if operators.has_matrices:
                behind = scale * operators.hop_back(start, columns.inverse)
                return forward, behind.float() @ columns.table.T
            # Every target asks for the sources, along the one relation that these have.
            targets = self._entity if columns.entities is None else self._entity[columns.entities]
            asked = operators.finish_query(operators.hop(targets.double(), columns.inverse[:1].expand(len(targets))))
            return forward, (scale * self._table[sources]) @ asked.float().T

    def _chain_curve(self, hops: int) -> ChainCurve | None:
        calibration = self._engine.calibration
        return None if calibration is None or hops < 2 else calibration.chain(hops)

    def _raised(self, witness: Tensor, ids: Ids, curve: ChainCurve) -> Tensor:
        """The probabilities of paths' best witnesses, raised where composed vectors know better: [N, E] → [N, E].

        ids [N, 1 + hops] are those of a source and of the relations from it.
        """
        odds = curve.witness * torch.logit(witness.clamp(CLOSEST, 1 - CLOSEST)) + curve.intercept
        if curve.share:
            known = self._facts.least(Plan.of_chain(0, range(ids.shape[1] - 1)).steps, ids)[-1] < NO_PROOF
            odds += curve.share * self.composed_shares(ids, known.sum(dim=1), curve.parts)
        said = torch.sigmoid(odds)
        allowed = witness >= PLAUSIBLE
        if self._candidates == "typed":
            last = self._ids(ids[:, -1])
            typed = torch.zeros_like(allowed)
            for relation in np.unique(ids[:, -1]).tolist():
                mask = torch.zeros(self._size, dtype=torch.bool, device=self.device)
                mask[self._ids(self._engine.known.candidates(relation))] = True
                typed[last == relation] = mask
            allowed &= typed
        return torch.where(allowed, torch.maximum(witness, said), witness)

    def composed_shares(self, ids: Ids, known: Tensor, parts: Parts) -> Tensor:
        """log x of every entity by the vectors of paths with so many known answers: [N, 1 + hops], [N] → [N, E]."""
        vector = self._entity[self._ids(ids[:, 0])].double()
        for hop in range(1, ids.shape[1]):
            vector = self._operators.hop(vector, self._ids(ids[:, hop]))
        calibration = self._engine.calibration
        weights = [1.0] if calibration is None else calibration.weights(parts)
        scale = torch.as_tensor(self._engine.vectors.weighed(weights), dtype=torch.float64, device=self.device)
        with full_float32():
            score = ((scale * self._operators.finish_query(vector)).float() @ self._table.T).double()
        return score - score.logsumexp(dim=1, keepdim=True) + known.clamp_min(1).double().log()[:, None]

    def normalisers(self, entities: Ids, relation: int, sample: int) -> NDArray[np.float32]:
        """log Σ_o exp(α φ(s, r, o)) of some entities s, as `hops.Normalisers.sums` gives them: [N] → [N]."""
        normalisers = self._engine.hops.normalisers
        chosen, weight = (torch.from_numpy(each).to(self.device) for each in normalisers.sample(relation, sample))
        row, target = (self._ids(each) for each in self._engine.known.facts_of(entities, relation))
        scale, operators, source = self._scale, self._operators, self._ids(entities)
        exact = len(chosen) == self._size
        place = torch.full((self._size,), -1, device=self.device)
        place[chosen] = torch.arange(len(chosen), device=self.device)
        table, found = self._table[chosen], []
        for part in _pieces(len(source), len(chosen), self.device):
            start = self._entity[source[part]].double()
            along = torch.full((len(start),), relation, device=self.device)
            vector = (scale * operators.finish_query(operators.hop(start, along))).float()
            with full_float32():
                score = vector @ table.T + weight
            if not exact:  # known objects stand for themselves
                mine = (row >= part[0]) & (row <= part[-1])
                at, to = row[mine] - part[0], target[mine]
                drawn = place[to] >= 0
                score[at[drawn], place[to[drawn]]] = -torch.inf
                own = (vector[at] * self._table[to]).sum(dim=1)
                most = score.amax(dim=1).scatter_reduce(0, at, own, "amax")
                total = (score - most[:, None]).exp_().sum(dim=1).index_add(0, at, (own - most[at]).exp())
                found.append(total.log() + most)
            else:
                found.append(score.logsumexp(dim=1))
        sums: NDArray[np.float32] = torch.cat(found).cpu().numpy()
        return sums

    def _hold(self, what: str, relations: list[int], make: Callable[[int], NDArray[np.floating]]) -> Tensor:
        """A number of every entity that hops of each relation are computed with, copied to the device once: [U, E]."""
        for relation in relations:
            if (what, relation) not in self._held:
                self._held[what, relation] = torch.from_numpy(make(relation)).to(self.device)
        return torch.stack([self._held[what, relation] for relation in relations])

    def _ids(self, ids: Ids) -> Tensor:
        return torch.from_numpy(ids.astype(np.int64)).to(self.device)


class _Columns(NamedTuple):
    """What S rows of hops along U relations have in common, as `hops.Columns` has it of one.

    Shapes: relation, inverse, which of the U [S]; table [C, width]; ahead, room_ahead, spare [U, E], the last absent
    where nothing is limited; behind, room and kind [U, C].
    """

    relation: Tensor
    inverse: Tensor
    which: Tensor
    relations: list[int]
    entities: Tensor | None
    table: Tensor
    ahead: Tensor
    room_ahead: Tensor
    spare: Tensor | None
    behind: Tensor
    room: Tensor
    kind: Tensor

    def of(self, numbers: Tensor) -> Tensor:
        """Those of the relation of each row, or of the only one: [U, C] → [S, C] or [1, C]."""
        return numbers if len(numbers) == 1 else numbers[self.which]


def _raise(best: Tensor, entities: Tensor | None, query: Tensor, said: Tensor) -> None:
    """Raise the `best` of queries [q, E] at entities, or at all, to what is said for each: [N], [N, C]."""
    own, at = torch.unique(query, return_inverse=True)
    most = torch.zeros(len(own), said.shape[1], dtype=said.dtype, device=said.device)
    most.scatter_reduce_(0, at[:, None].expand_as(said), said, "amax")
    if entities is None:
        best[own] = torch.maximum(best[own], most)
    else:
        best[own[:, None], entities] = torch.maximum(best[own[:, None], entities], most)


def _pieces(rows: int, width: int, device: torch.device) -> tuple[Tensor, ...]:
    """The numbers of some rows, in pieces for which there is room."""
    return torch.split(torch.arange(rows, device=device), max(1, _NUMBERS // max(width, 1)))


def _exp(score: Tensor) -> Tensor:
    return score.clamp_max_(float(HIGHEST)).exp_()


def _probability(share: Tensor, kind: Tensor, curve: Curve | None, against: tuple[Tensor, ...]) -> Tensor:
    if curve is None:
        return share.mul_(kind.exp())
    odds = share.log_()
    bend = float(BEND)
    above, below = (odds - bend).clamp_min_(0), (odds - curve.low).clamp_max_(0)
    odds.clamp_(curve.low, bend).mul_(curve.slope).add_(curve.intercept).add_(kind)
    below *= torch.where(kind < 0, curve.slope, curve.low_slope)
    odds.add_(above, alpha=curve.top_slope).add_(below).neg_().clamp_max_(80).exp_().add_(1)
    for other in against:
        odds += other
    return odds.reciprocal_()


@final
class DeviceRanker:
    """Ranks the hard answers of complex queries on a device, where their values are: what an evaluation asks for."""

    def __init__(self, sweep: DeviceSweep, graphs: Graphs) -> None:
        self._sweep = sweep
        self._easy = EdgesOnDevice(graphs.easy, sweep.device)
        self._truth = EdgesOnDevice(graphs.truth, sweep.device, graphs.known)

    @torch.no_grad()
    def rank(self, type_: str, ids: NDArray[np.int32], progress: Callable[[int], None]) -> RankedAnswers:
        """The hard answers of a type's queries, [N, slots]; nothing is bounded, so each has one rank."""
        steps, size = steps_of_type(type_), self._sweep.together
        # Queries that end with the same relations share rows.
        order = np.lexsort([ids[:, step.slot] for step in steps if isinstance(step, Follow)])
        parts = []
        for first in range(0, len(order), size):
            rows = order[first : first + size]
            parts.append(self._rank(steps, ids[rows], rows))
            progress(len(rows))
        better, tied, negatives, query, lacking = np.concatenate(parts, axis=1)
        ranks = Ranks(better, tied, negatives)
        ranked = RankedAnswers(ranks, ranks, query, lacking.astype(np.int16))
        return ranked.take(np.argsort(query, kind="stable"))

    def _rank(self, steps: Steps, ids: NDArray[np.int32], rows: NDArray[np.intp]) -> NDArray[np.int64]:
        """Better rivals, tied ones, all of them, the query's row and the facts lacking, of each hard answer: [5, A]."""
        values = self._sweep.values(steps, ids)
        least = self._truth.least(steps, ids)[-1]
        answer, easy = least < NO_PROOF, self._easy.least(steps, ids)[-1] < NO_PROOF
        query, entity = (answer & ~easy).nonzero(as_tuple=True)
        own, lacking = values[query, entity], least[query, entity]
        rival = ~(answer | easy)
        values.masked_fill_(~rival, -torch.inf)
        counts = []
        for part in _pieces(len(query), values.shape[1], values.device):
            others = values[query[part]]
            counts.append(
                torch.stack([(compare(others, own[part, None])).sum(dim=1) for compare in (torch.gt, torch.eq)])
            )
        better, tied = torch.cat(counts, dim=1) if counts else torch.zeros(2, 0, device=values.device)
        negatives = rival.sum(dim=1)[query]
        on_host = torch.stack([each.long() for each in (better, tied, negatives, query, lacking)]).cpu().numpy()
        on_host[3] = rows[on_host[3]]
        return on_host
