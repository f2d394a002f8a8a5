"""Where paths lead, by facts alone or with what the model predicts; the rows of hops are computed once for a query."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal, final

import numpy as np
from numpy.typing import NDArray

from blockhole.answering.search import PLAUSIBLE, Candidates, Deadline
from blockhole.answering.sparql.patterns import Closure, Link, Maybe, Path, Steps, Ways
from blockhole.answering.sparql.tables import Floats, Ids, Table, check_rows, join, keys, stacked
from blockhole.errors import QueryTooCostly, counted

if TYPE_CHECKING:
    from blockhole.answering.engine import Engine
    from blockhole.answering.hops import Columns

_TOGETHER = 64
"""Rows that are computed at a time."""
_NUMBERS = 2**28
"""Probabilities that one query may have computed: half a minute of a processor's time at a width of a thousand."""
CERTAIN = 1.0
"""A floor at which only facts count."""
FROM, TO = "/from", "/to"
"""The columns of where a path starts and of where it leads."""
_Taken = Literal["named", "witnesses", "doubted"]
"""What rows start from: what the query names, what its edges led to, or any entity that may be of the right kind."""


@final
class Roads:
    """The edges of a graph, known and predicted, for one query."""

    def __init__(self, engine: Engine, candidates: Candidates, deadline: Deadline) -> None:
        self.graph = engine.graph
        self._engine = engine
        self._deadline = deadline
        self._candidates = candidates
        self._numbers = 0
        self._columns: dict[tuple[int, bool], Columns] = {}
        self._opened: dict[tuple[int, _Taken], dict[int, tuple[Ids, Floats]]] = {}

    def follow(self, path: Path, sources: Ids, floor: float, *, named: bool) -> Table:
        """The edges of a path from distinct sources, ascending, of a probability of at least `floor`: FROM, TO.

        Sources that the query has not `named` count as witnesses do, ω.

        At a floor of 1 they are known, and a bag, as SPARQL has it: each way there is an edge. Below, each is there
        once, its probability that of the best way, and 1 - ∏(1 - p) over alternatives. Below `PLAUSIBLE` there is none.
        """
        self._deadline.check()
        sources = sources[(sources >= 0) & (sources < self.graph.num_entities)]
        match path:
            case Link(relation):
                if floor >= CERTAIN:
                    return self._facts(relation, sources)
                return self._rows(relation, sources, floor, "named" if named else "witnesses")
            case Steps(parts):
                found = self.follow(parts[0], sources, floor, named=named)
                for part in parts[1:]:
                    found = self._onward(found, part, floor)
                return found
            case Ways(parts) if floor >= CERTAIN:
                return stacked([self.follow(part, sources, floor, named=named) for part in parts], (FROM, TO))
            case Ways(parts):  # which are together more probable than one by one
                ways = [self.follow(part, sources, PLAUSIBLE, named=named) for part in parts]
                return either(ways, (FROM, TO)).plausible(floor)
            case Maybe(of):
                on = self.follow(of, sources, floor, named=named)
                return stacked([_standing(sources), on], (FROM, TO)).best()
            case Closure(of, start):
                return self._closure(of, sources, start)

    def anywhere(self, path: Path, floor: float) -> Table:
        """All edges of a path of at least a probability, where neither end is named or found: columns FROM, TO.

        A predicted one has an end that its relation has in the graph; the other is like those that do, at least, and as
        doubtful as its kind (κ): a question that starts nowhere cannot take it to be of the right one.
        """
        if floor >= CERTAIN:
            return self.follow(path, self.starts(path), CERTAIN, named=False)
        match path:
            case Link(relation):
                inverse = self.graph.inverse(relation)
                typed, like = self._engine.hops.kinds(inverse)
                ahead = self._rows(relation, np.flatnonzero(typed | like), floor, "doubted")
                others = np.flatnonzero(self._engine.hops.kinds(relation)[1])
                behind = self._rows(inverse, others, floor, "doubted")
                turned = Table((TO, FROM), behind.ids, behind.p, behind.known)
                return stacked([ahead, turned], (FROM, TO))
            case Steps(parts):
                found = self.anywhere(parts[0], floor)
                for part in parts[1:]:
                    found = self._onward(found, part, floor)
                return found
            case Ways(parts):
                return either([self.anywhere(part, PLAUSIBLE) for part in parts], (FROM, TO)).plausible(floor)
            case Maybe(of):
                return stacked([_standing(self.starts(path)), self.anywhere(of, floor)], (FROM, TO)).best()
            case Closure():
                return self.follow(path, self.starts(path), CERTAIN, named=False)

    def starts(self, path: Path) -> Ids:
        """The entities that a known edge of a path may start at, ascending."""
        match path:
            case Link(relation):
                return self._engine.known.candidates(self.graph.inverse(relation)).astype(np.int64)
            case Steps(parts):
                if not isinstance(parts[0], Maybe | Closure):
                    return self.starts(parts[0])
            case Ways(parts):
                return np.unique(np.concatenate([self.starts(part) for part in parts]))
            case Closure(of, False):
                return self.starts(of)
            case _:
                pass
        return np.flatnonzero(np.diff(self.graph.adjacency.group_start))

    def size(self, path: Path) -> int:
        """About how many known edges a path has."""
        match path:
            case Link(relation):
                start = self._engine.known.edges.relation_start
                groups = self._engine.known.edges.edge_start
                return int(groups[start[relation + 1]] - groups[start[relation]])
            case Steps(parts):
                return max(map(self.size, parts))
            case Ways(parts):
                return sum(map(self.size, parts))
            case Maybe(of) | Closure(of, _):
                return self.graph.num_entities + self.size(of)

    def probability(self, source: int, relation: int, target: int) -> float:
        """p(s, r, o) of one hop, whatever kind of object its relation takes."""
        if target in self._engine.known.targets(np.array([source]), relation):
            return 1.0
        columns = self._engine.hops.columns(relation, np.array([target]))
        return float(self._engine.hops.values(np.array([source]), columns)[0, 0])

    # How

    def _facts(self, relation: int, sources: Ids) -> Table:
        found = self._engine.known.edges_from(sources, relation)
        check_rows(len(found[0]))
        return Table.of((FROM, TO), np.stack(found, axis=1).astype(np.int64))

    def _rows(self, relation: int, sources: Ids, floor: float, taken: _Taken) -> Table:
        """The plausible edges of a relation from some entities, by what these are taken for."""
        opened = self._opened.setdefault((relation, taken), {})
        missing = [each for each in sources.tolist() if each not in opened]
        self._open(relation, opened, np.array(missing, dtype=np.int64), taken)
        rows = [(targets[p >= floor], p[p >= floor]) for targets, p in (opened[each] for each in sources.tolist())]
        count = [len(targets) for targets, _ in rows]
        check_rows(sum(count))
        if not rows:
            return Table.empty((FROM, TO))
        target, p = (np.concatenate(each) for each in zip(*rows, strict=True))
        return Table.of((FROM, TO), np.stack([np.repeat(sources, count), target], axis=1), p, p == 1.0)

    def _open(self, relation: int, opened: dict[int, tuple[Ids, Floats]], sources: Ids, taken: _Taken) -> None:
        """Compute the rows of entities, and keep what is plausible of them."""
        typed = taken == "doubted" or self._candidates == "typed"
        targets = self._engine.known.candidates(relation) if typed else np.arange(self.graph.num_entities)
        if not len(targets):
            opened.update({each: (np.zeros(0, dtype=np.int64), np.zeros(0)) for each in sources.tolist()})
            return
        self._numbers += len(sources) * len(targets)
        if self._numbers > _NUMBERS:
            raise QueryTooCostly(
                f"the query needs the probabilities of {counted(self._numbers, 'edge')}, and {_NUMBERS:,} are allowed; "
                "name an entity in it, set a higher threshold, or ask for known answers only."
            )
        for first in range(0, len(sources), _TOGETHER):
            self._deadline.check()
            part = sources[first : first + _TOGETHER]
            columns = self._columns_of(relation, part, targets if typed else None)
            if taken == "doubted":
                own = self._engine.hops.log_kind(self.graph.inverse(relation))[part]
                columns = replace(columns, kind=np.minimum(own[:, None], columns.kind))
            rows = self._engine.hops.values(part, columns)
            reached = targets if columns.entities is None else columns.entities
            place, target = self._engine.known.facts_of(part, relation)
            rows[place, np.searchsorted(reached, target)] = 1.0
            counts = self._engine.hops.leaving(relation)[part] if taken == "witnesses" else np.ones(len(part))
            for source, row, count in zip(part.tolist(), rows, counts.tolist(), strict=True):
                own = count * row.astype(np.float64)
                there = np.flatnonzero(own >= PLAUSIBLE)
                opened[source] = reached[there].astype(np.int64), own[there]

    def _columns_of(self, relation: int, sources: Ids, targets: NDArray[np.integer] | None) -> Columns:
        proposed = self._engine.proposed(sources, relation, targets)
        if proposed is not targets and proposed is not None:  # of very many, an index names the likely ones
            facts = self._engine.known.targets(np.sort(sources), relation)
            return self._engine.hops.columns(relation, np.union1d(proposed, facts))
        key = relation, targets is None
        if key not in self._columns:
            self._columns[key] = self._engine.hops.columns(relation, targets)
        return self._columns[key]

    def _onward(self, found: Table, path: Path, floor: float) -> Table:
        """The edges of a path that goes on where another leads."""
        middle = Table((FROM, "/via"), found.ids, found.p, found.known)
        further = self.follow(path, np.unique(found.column(TO)), floor, named=False)
        further = Table(("/via", TO), further.ids, further.p, further.known)
        both = join(middle, further, floor).project((FROM, TO))
        return both if floor >= CERTAIN else both.best()

    def _closure(self, path: Path, sources: Ids, start: bool) -> Table:
        """All that known edges lead to, in one hop or more; and the start itself, if it counts."""
        first = _standing(sources) if start else self.follow(path, sources, CERTAIN, named=False).best()
        seen, newest = first, first
        while len(newest):
            self._deadline.check()
            reached = self._onward(newest, path, CERTAIN).best()
            both = keys(np.concatenate([seen.ids, reached.ids]))
            newest = reached.take(~np.isin(both[len(seen) :], both[: len(seen)]))
            seen = stacked([seen, newest], (FROM, TO))
        return seen


def _standing(sources: Ids) -> Table:
    return Table.of((FROM, TO), np.stack([sources, sources], axis=1))


def either(tables: list[Table], variables: tuple[str, ...]) -> Table:
    """Solutions of any of some tables, each once: 1 - ∏(1 - p), which is not less than any p, however it is rounded."""
    every = stacked([table.project(variables).best() for table in tables], variables)
    best = every.best()
    if len(every) == len(best):
        return best
    key = keys(np.concatenate([best.ids, every.ids]))
    order = np.argsort(key[: len(best)], kind="stable")
    place = order[np.searchsorted(key[: len(best)][order], key[len(best) :])]
    left = np.ones(len(best))
    np.multiply.at(left, place, 1 - every.p)
    return Table(best.variables, best.ids, np.maximum(best.p, 1 - left), best.known)
