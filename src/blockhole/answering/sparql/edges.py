"""Where paths lead, by facts alone or with what the model predicts; the rows of hops are computed once for a query."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, final

import numpy as np

from blockhole.answering.search import PLAUSIBLE, Deadline
from blockhole.answering.sparql.patterns import Closure, Link, Maybe, Path, Steps, Ways
from blockhole.answering.sparql.tables import Floats, Ids, Table, check_rows, join, keys, stacked
from blockhole.errors import QueryTooCostly

if TYPE_CHECKING:
    from blockhole.answering.engine import Engine
    from blockhole.answering.hops import Columns

_TOGETHER = 64
"""Rows that are computed at a time."""
_NUMBERS = 2**28
"""Probabilities that one query may have computed: half a minute of a processor's time at a width of a thousand."""
FROM, TO = "/from", "/to"
"""The columns of where a path starts and of where it leads."""


@final
class Roads:
    """The edges of a graph, known and predicted, for one query."""

    def __init__(self, engine: Engine, deadline: Deadline) -> None:
        self.graph = engine.graph
        self._engine = engine
        self._deadline = deadline
        self._numbers = 0
        self._columns: dict[int, Columns] = {}
        self._opened: dict[tuple[int, bool], dict[int, tuple[Ids, Floats]]] = {}

    def follow(self, path: Path, sources: Ids, *, known: bool) -> Table:
        """The edges of a path from distinct sources, ascending: columns FROM, TO.

        By known facts they are a bag, as SPARQL has it: each way there is an edge. With predicted ones each is there
        once, its probability that of the best way, and 1 - ∏(1 - p) over alternatives. Below `PLAUSIBLE` there is none.
        """
        self._deadline.check()
        sources = sources[(sources >= 0) & (sources < self.graph.num_entities)]
        match path:
            case Link(relation):
                return self._facts(relation, sources) if known else self._rows(relation, sources)
            case Steps(parts):
                found = self.follow(parts[0], sources, known=known)
                for part in parts[1:]:
                    found = self._onward(found, part, known)
                return found
            case Ways(parts):
                ways = [self.follow(part, sources, known=known) for part in parts]
                return stacked(ways, (FROM, TO)) if known else either(ways, (FROM, TO))
            case Maybe(of):
                return stacked([_standing(sources), self.follow(of, sources, known=known)], (FROM, TO)).best()
            case Closure(of, start):
                return self._closure(of, sources, start)

    def anywhere(self, path: Path, *, known: bool) -> Table:
        """All edges of a path, where neither end is named or found: columns FROM, TO.

        A predicted one has an end that its relation has in the graph; the other is like those that do, at least, and as
        doubtful as its kind (κ): a question that starts nowhere cannot take it to be of the right one.
        """
        if known:
            return self.follow(path, self.starts(path), known=True)
        match path:
            case Link(relation):
                inverse = self.graph.inverse(relation)
                typed, like = self._engine.hops.kinds(inverse)
                ahead = self._rows(relation, np.flatnonzero(typed | like), doubted=True)
                behind = self._rows(inverse, np.flatnonzero(self._engine.hops.kinds(relation)[1]), doubted=True)
                turned = Table((TO, FROM), behind.ids, behind.p, behind.known)
                return stacked([ahead, turned], (FROM, TO))
            case Steps(parts):
                found = self.anywhere(parts[0], known=False)
                for part in parts[1:]:
                    found = self._onward(found, part, known=False)
                return found
            case Ways(parts):
                return either([self.anywhere(part, known=False) for part in parts], (FROM, TO))
            case Maybe(of):
                return stacked([_standing(self.starts(path)), self.anywhere(of, known=False)], (FROM, TO)).best()
            case Closure():
                return self.follow(path, self.starts(path), known=True)

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

    def _rows(self, relation: int, sources: Ids, *, doubted: bool = False) -> Table:
        """The plausible edges of a relation from some entities, which may be `doubted` to be of the right kind."""
        opened = self._opened.setdefault((relation, doubted), {})
        missing = [each for each in sources.tolist() if each not in opened]
        self._open(relation, opened, np.array(missing, dtype=np.int64), doubted)
        rows = [opened[each] for each in sources.tolist()]
        count = [len(targets) for targets, _ in rows]
        check_rows(sum(count))
        if not rows:
            return Table.empty((FROM, TO))
        target, p = (np.concatenate(each) for each in zip(*rows, strict=True))
        return Table.of((FROM, TO), np.stack([np.repeat(sources, count), target], axis=1), p, p == 1.0)

    def _open(self, relation: int, opened: dict[int, tuple[Ids, Floats]], sources: Ids, doubted: bool) -> None:
        """Compute the rows of entities, and keep what is plausible of them."""
        targets = self._engine.known.candidates(relation).astype(np.int64)
        if not len(targets):
            opened.update({each: (np.zeros(0, dtype=np.int64), np.zeros(0)) for each in sources.tolist()})
            return
        self._numbers += len(sources) * len(targets)
        if self._numbers > _NUMBERS:
            raise QueryTooCostly(
                f"the query needs the probabilities of {self._numbers:,} edges, and {_NUMBERS:,} are allowed; "
                "name an entity in it, set a higher threshold, or ask for known answers only."
            )
        for first in range(0, len(sources), _TOGETHER):
            self._deadline.check()
            part = sources[first : first + _TOGETHER]
            columns = self._columns_of(relation, part, targets)
            if doubted:
                own = self._engine.hops.log_kind(self.graph.inverse(relation))[part]
                columns = replace(columns, kind=np.minimum(own[:, None], columns.kind))
            rows = self._engine.hops.values(part, columns)
            reached = targets if columns.entities is None else columns.entities
            place, target = self._engine.known.facts_of(part, relation)
            rows[place, np.searchsorted(reached, target)] = 1.0
            for source, row in zip(part.tolist(), rows, strict=True):
                there = np.flatnonzero(row >= PLAUSIBLE)
                opened[source] = reached[there].astype(np.int64), row[there].astype(np.float64)

    def _columns_of(self, relation: int, sources: Ids, targets: Ids) -> Columns:
        proposed = self._engine.proposed(sources, relation, targets)
        if proposed is not targets and proposed is not None:  # of very many, an index names the likely ones
            facts = self._engine.known.targets(np.sort(sources), relation)
            return self._engine.hops.columns(relation, np.union1d(proposed, facts))
        if relation not in self._columns:
            self._columns[relation] = self._engine.hops.columns(relation, targets)
        return self._columns[relation]

    def _onward(self, found: Table, path: Path, known: bool) -> Table:
        """The edges of a path that goes on where another leads."""
        middle = Table((FROM, "/via"), found.ids, found.p, found.known)
        further = self.follow(path, np.unique(found.column(TO)), known=known)
        further = Table(("/via", TO), further.ids, further.p, further.known)
        both = join(middle, further, 0.0 if known else PLAUSIBLE).project((FROM, TO))
        return both if known else both.best()

    def _closure(self, path: Path, sources: Ids, start: bool) -> Table:
        """All that known edges lead to, in one hop or more; and the start itself, if it counts."""
        first = _standing(sources) if start else self.follow(path, sources, known=True).best()
        seen, newest = first, first
        while len(newest):
            self._deadline.check()
            reached = self._onward(newest, path, known=True).best()
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
