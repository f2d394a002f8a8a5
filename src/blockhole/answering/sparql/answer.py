"""A SPARQL query from its text to its results: known rows, predicted rows, and what the query makes of them.

Known rows are those that any SPARQL engine finds over the facts. Predicted ones are further solutions, each once, best
first, down to a threshold: one half, unless the query or its asker says otherwise, or `PLAUSIBLE` where it names
?probability or ?status. Only as many are looked for as the query wants: the floor falls until there are enough.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cmp_to_key
from typing import TYPE_CHECKING, Any, final

import numpy as np

from blockhole.answering.search import PLAUSIBLE, Candidates, Deadline
from blockhole.answering.sparql.expressions import holds, status, values
from blockhole.answering.sparql.matching import Matcher
from blockhole.answering.sparql.patterns import (
    PROBABILITY,
    SPECIAL,
    STATUS,
    Expression,
    Filtered,
    Pattern,
    is_negated,
    variables_of,
)
from blockhole.answering.sparql.results import Solution, Solutions, Statement, Statements, Truth
from blockhole.answering.sparql.single import SingleAnswers, as_check, as_query
from blockhole.answering.sparql.tables import UNBOUND, Ids, Mask, Table, TooManyRows, keys, stacked
from blockhole.answering.sparql.terms import Terms, count_term, prefixes_of, probability_term
from blockhole.answering.sparql.translate import place_of, understand
from blockhole.errors import QueryTooCostly, SparqlTooCostly

if TYPE_CHECKING:
    from blockhole.answering.engine import Engine

LIKELY = 0.5
"""The least probability of a predicted answer where nothing else is said."""
_FLOORS = (0.9, 0.5, 0.2, 0.05, 0.01)
"""Where a search for the best few stops to see whether it has them."""


@final
@dataclass(frozen=True, slots=True)
class Wishes:
    """Which answers are wanted, as `Engine.sparql` takes it."""

    known: bool
    threshold: float | None
    candidates: Candidates
    deadline: Deadline


def answer(engine: Engine, query: str, wishes: Wishes) -> Solutions | Truth | Statements:
    """The results of a query."""
    try:
        return _Answer(engine, query, wishes).result()
    except RecursionError:
        raise QueryTooCostly("the query has too many parts in one another; ask for less at once.") from None
    except QueryTooCostly as failure:
        place = place_of(query, failure.variables if isinstance(failure, TooManyRows) else ())
        raise SparqlTooCostly(query, place, str(failure).removesuffix(".")) from None


@final
class _Answer:
    """One query, and the rows that were found for it."""

    def __init__(self, engine: Engine, query: str, wishes: Wishes) -> None:
        self._engine = engine
        self._terms = Terms(engine.graph)
        self._wishes = wishes
        self._request = request = understand(query, self._terms)
        self._known_only = wishes.known or request.known_only
        threshold = request.threshold if wishes.threshold is None else wishes.threshold
        self._least = max(PLAUSIBLE, threshold or (PLAUSIBLE if request.names_probability else LIKELY))
        self._matcher = Matcher(engine, self._terms, wishes.candidates, wishes.deadline)
        self._single: SingleAnswers | None = None
        self._complete = True
        engine.require_calibration(unless=self._known_only)

    def result(self) -> Solutions | Truth | Statements:
        """The results."""
        request = self._request
        bag = self._matcher.known(request.where)
        if request.kind == "ask":
            return self._truth(bag)
        rows = self._counted(bag) if request.counts or request.groups else self._listed(bag)
        solutions = self._shown(rows)
        return self._constructed(solutions) if request.kind == "construct" else solutions

    # Rows

    def _needed(self) -> tuple[str, ...]:
        """The variables that tell answers apart."""
        request = self._request
        if request.counts and any(not count.distinct or count.of is None for count in request.counts):
            return tuple(sorted(name for name in variables_of(request.where) if not name.startswith(("/", "_:"))))
        names = [source for _, source in request.projected] if not request.counts else []
        names += [count.of for count in request.counts if count.of is not None] + list(request.groups)
        names += [name for each in request.final for name in each.variables]
        if not request.counts:
            names += [name for each in request.order for name in each.by.variables]
        return tuple(dict.fromkeys(name for name in names if name not in SPECIAL))

    def _listed(self, bag: Table) -> Table:
        """The rows of a query without counts: known ones, then as many predicted ones as it can use."""
        request = self._request
        needed = self._needed()
        known = bag.project(needed)
        if request.distinct and PROBABILITY not in {source for _, source in request.projected}:
            known = known.best()
        if self._known_only:
            return self._filtered(known)
        wanted = None
        if request.limit is not None and self._is_best_first():
            wanted = request.limit + request.offset
        known, predicted = self._predicted(known, needed, wanted)
        return stacked([self._filtered(known), self._filtered(predicted)], needed)

    def _is_best_first(self) -> bool:
        """Whether the rows that are wanted first are the most probable ones."""
        order = self._request.order
        return not order or (order[0].descending and str(order[0].by.of) == PROBABILITY)

    def _filtered(self, rows: Table) -> Table:
        for condition in self._request.final:
            rows = rows.take(holds(condition, rows, self._terms, self._wishes.deadline))
        return rows

    def _predicted(self, known: Table, needed: tuple[str, ...], wanted: int | None) -> tuple[Table, Table]:
        """The known rows with their probabilities, and the predicted ones, best first: `wanted` of both, or all."""
        least = max(self._least, self._asked_for())
        floors = [least] if wanted is None else [*(each for each in _FLOORS if each > least), least]
        seen: Table | None = None
        negated = is_negated(self._request.where)
        if wanted is not None and not negated and len(self._filtered(known)) >= wanted:
            return known, Table.empty(needed)  # what is certain fills the page
        single = None if wanted is None else self._find_single(frozenset(needed))
        if wanted is not None and single is not None:
            # The engine's own search knows the best few at once: stops on the way to them would only cost time.
            first = single.floor(wanted)
            floors = [first, *(each for each in floors if each < first)] if first > least else [least]
        for floor in floors:
            try:
                found = self._likely(floor, frozenset(needed))
            except TooManyRows:
                if seen is None:
                    raise
                self._complete = False
                break
            seen = found.project(needed)
            new = seen.take(~_among(seen, known) & (seen.p >= floor))
            sure = _weighed(known, seen, negated)
            if self._request.order:  # by probability, and what is known may be less probable than what is not found yet
                sure = sure.take(sure.p >= floor)
            if wanted is not None and len(self._filtered(sure)) + len(self._filtered(new)) >= wanted:
                break
        assert seen is not None
        predicted = seen.take(~_among(seen, known) & ~seen.known)
        predicted = predicted.take(self._best_first(predicted))
        return _weighed(known, seen, negated), predicted

    def _likely(self, floor: float, needed: frozenset[str]) -> Table:
        """The solutions of at least a probability, by the engine's own search where it has one for them."""
        single = self._find_single(needed)
        if single is None:
            return self._matcher.likely(self._request.where, floor, needed)
        found = single.likely(floor)
        for condition in self._conditions()[1]:
            found = found.take(holds(condition, found, self._terms, self._wishes.deadline))
        return found

    def _conditions(self) -> tuple[Pattern, list[Expression]]:
        """The pattern, and what filters its solutions."""
        pattern, conditions = self._request.where, []
        while isinstance(pattern, Filtered):
            conditions.append(pattern.condition)
            pattern = pattern.of
        return pattern, conditions

    def _find_single(self, needed: frozenset[str]) -> SingleAnswers | None:
        """The engine's own search for the solutions, where there is one."""
        pattern, conditions = self._conditions()
        if self._single is None and len(needed) == 1 and all(each.variables <= needed for each in conditions):
            (variable,) = needed
            query = as_query(self._engine, pattern, variable)
            if query is not None:
                wishes = self._wishes
                self._single = SingleAnswers(self._engine, query, variable, wishes.candidates, wishes.deadline)
        return self._single

    def _asked_for(self) -> float:
        """What the filters on ?probability leave at least."""
        least = 0.0
        for condition in self._request.final:
            of = condition.of
            if (
                getattr(of, "name", "") == "RelationalExpression"
                and str(of.expr) == PROBABILITY
                and of.op in (">", ">=")
            ):
                try:
                    least = max(least, float(of.other))
                except (TypeError, ValueError):
                    continue
        return least

    def _best_first(self, rows: Table) -> Ids:
        """The order of rows by probability, equal ones by name."""
        names = {number: self._terms.text(number) for number in np.unique(rows.ids).tolist() if number != UNBOUND}
        name = {number: place for place, number in enumerate(sorted(names, key=lambda each: names[each]))}
        places = np.array([[name.get(number, UNBOUND) for number in row] for row in rows.ids.tolist()], dtype=np.int64)
        columns = list(places.reshape(rows.ids.shape).T)
        return np.lexsort([*columns[::-1], -rows.p]).astype(np.int64)

    # What becomes of them

    def _truth(self, bag: Table) -> Truth:
        if len(bag) or self._known_only:
            return Truth(bool(len(bag)), 1.0 if len(bag) else 0.0, "known", True)
        threshold = self._least
        asked = as_check(self._engine, self._request.where)
        if asked is not None and not self._request.final:
            p = self._engine.value(asked[0].plan, asked[1], self._wishes.deadline)
            return Truth(p >= threshold, p, "predicted", True)
        if not variables_of(self._request.where):
            self._least = PLAUSIBLE  # how probable single edges are costs nothing to say
        _, found = self._predicted(bag.project(()), (), 1)
        p = float(found.p.max(initial=0.0))
        return Truth(p >= threshold, p, "predicted", self._complete)

    def _counted(self, bag: Table) -> Table:
        """A row for every group, or one for all."""
        request = self._request
        rows = bag
        if not self._known_only:
            needed = self._needed()
            predicted = self._predicted(bag.project(needed), needed, None)[1]
            rows = stacked([bag, predicted], tuple(dict.fromkeys((*bag.variables, *needed))))
        rows = rows.project(dict.fromkeys((*rows.variables, *request.groups)))
        grouped = rows.project(request.groups)
        key = keys(grouped.ids)
        _, first, place = np.unique(key, return_index=True, return_inverse=True)
        if not request.groups and not len(rows):
            first = np.zeros(1, dtype=np.int64)  # there is nothing, and it is counted
        columns = [grouped.ids[first]] if len(rows) else [np.zeros((len(first), len(request.groups)), dtype=np.int64)]
        for count in request.counts:
            own = rows if count.of is None else rows.project((count.of,))
            there = np.ones(len(rows), dtype=bool) if count.of is None else own.column(count.of) != UNBOUND
            group, ids = place.reshape(-1)[there], own.ids[there]
            if count.distinct:
                named = [at for at, name in enumerate(own.variables) if not name.startswith(("/", "_:"))]
                both = np.column_stack([group, ids[:, named]])
                group = group[np.unique(keys(both), return_index=True)[1]]
            numbers = np.bincount(group, minlength=len(first)).tolist()
            terms = [self._terms.of_text(count_term(number)) for number in numbers]
            columns.append(np.array(terms, dtype=np.int64).reshape(-1, 1))
        names = (*request.groups, *(count.name for count in request.counts))
        return Table.of(names, np.concatenate(columns, axis=1))

    def _shown(self, rows: Table) -> Solutions:
        request = self._request
        rows = rows.take(self._ordered(rows))
        names = [source for _, source in request.projected if source not in SPECIAL]
        plain = rows.project(names)
        if request.distinct:
            rows, plain = _distinct(rows, plain, special=any(source in SPECIAL for _, source in request.projected))
        last = None if request.limit is None else request.offset + request.limit
        part = slice(request.offset, last)
        found = []
        for ids, p, known in zip(plain.ids[part], rows.p[part].tolist(), rows.known[part].tolist(), strict=True):
            said = status(known)
            terms = {
                name: self._terms.text(int(number)) for name, number in zip(names, ids, strict=True) if number >= 0
            }
            terms |= {PROBABILITY: probability_term(p), STATUS: f'"{said}"'}
            shown = tuple(terms.get(source) for _, source in request.projected)
            found.append(Solution(shown, p, "known" if known else "predicted"))
        return Solutions(tuple(name for name, _ in request.projected), tuple(found), self._complete)

    def _constructed(self, solutions: Solutions) -> Statements:
        """The triples of the template, one set for every row; those with an unbound or misplaced term are left out."""
        best: dict[tuple[str, str, str], Statement] = {}
        for number, row in enumerate(solutions):
            bound = {f"?{name}": term for name, term in zip(solutions.variables, row.terms, strict=True)}
            for triple in self._request.template:
                terms = [bound.get(each, None if each.startswith("?") else each) for each in triple]
                source, relation, target = (
                    f"{each}r{number}" if each and each[:2] == "_:" == part[:2] else each
                    for each, part in zip(terms, triple, strict=True)
                )
                if source is None or relation is None or target is None or source.startswith('"'):
                    continue
                made = Statement(source, relation, target, row.probability, row.status)
                seen = best.get((source, relation, target))
                if seen is None or (seen.status == "predicted" and made.probability > seen.probability):
                    best[source, relation, target] = made
        prefixes = prefixes_of(self._engine.graph)
        return Statements(tuple(best.values()), prefixes, solutions.complete)

    def _ordered(self, rows: Table) -> Ids:
        """The order that the query wants; rows that are equal in it stay as they are."""
        order = list(range(len(rows)))
        for condition in reversed(self._request.order):
            value = values(condition.by, rows, self._terms, self._wishes.deadline)
            key = cmp_to_key(_compared)
            order.sort(key=lambda row: key(value[row]), reverse=condition.descending)
        return np.array(order, dtype=np.int64)


def _compared(left: Any, right: Any) -> int:
    """How two terms are ordered, where rdflib knows."""
    try:
        return -1 if left < right else 1 if right < left else 0
    except TypeError:
        return 0


def _among(rows: Table, others: Table) -> Mask:
    """Which rows are among others of the same variables: [N]."""
    key = keys(np.concatenate([rows.ids, others.ids]))
    return np.isin(key[: len(rows)], key[len(rows) :])


def _weighed(known: Table, found: Table, negated: bool) -> Table:
    """Known rows with the probability that no missing fact refutes them."""
    if not negated or not len(known):
        return known
    key = keys(np.concatenate([known.ids, found.ids]))
    own, other = key[: len(known)], key[len(known) :]
    order = np.argsort(other, kind="stable")
    place = np.minimum(np.searchsorted(other[order], own), max(len(found) - 1, 0))
    p = np.ones(len(known))
    if len(found):
        there = other[order][place] == own
        p[there] = found.p[order][place][there]
    return Table(known.variables, known.ids, p, known.known)


def _distinct(rows: Table, plain: Table, *, special: bool) -> tuple[Table, Table]:
    """Rows that are shown alike only once, the first of each."""
    ids = plain.ids
    if special:
        ids = np.column_stack([ids, np.unique(rows.p, return_inverse=True)[1].reshape(-1), rows.known])
    first = np.sort(np.unique(keys(ids), return_index=True)[1])
    return rows.take(first), plain.take(first)
