"""Filters and orders: rdflib computes expressions, once for every combination of the terms they read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from blockhole.answering.search import Deadline
from blockhole.answering.sparql.patterns import PROBABILITY, STATUS, Expression
from blockhole.answering.sparql.tables import UNBOUND, Mask, Table, keys
from blockhole.answering.sparql.terms import Terms

if TYPE_CHECKING:
    from rdflib.term import Node


def holds(expression: Expression, table: Table, terms: Terms, deadline: Deadline) -> Mask:
    """Where an expression is true: [N]. An error is not."""
    return np.array(_computed(expression, table, terms, deadline, _truth), dtype=bool)


def values(expression: Expression, table: Table, terms: Terms, deadline: Deadline) -> list[Any]:
    """What an expression is in each row, as something that sorts as SPARQL orders terms."""
    return _computed(expression, table, terms, deadline, _sortable)


def _computed(expression: Expression, table: Table, terms: Terms, deadline: Deadline, compute: Any) -> list[Any]:
    from rdflib.plugins.sparql.sparql import FrozenBindings, QueryContext
    from rdflib.term import Literal, Variable

    read = [name for name in sorted(expression.variables) if name in table.variables]
    asks = {PROBABILITY, STATUS} & expression.variables
    ids = table.project(read).ids
    if asks:
        # Rows of one status and probability share a number.
        chance = np.unique(table.p, return_inverse=True)[1].reshape(-1)
        ids = np.column_stack([ids, chance, table.known])
    key = keys(ids)
    _, first, place = np.unique(key, return_index=True, return_inverse=True)
    context = QueryContext(initBindings={})
    found = []
    for row in first.tolist():
        deadline.check()
        bound: dict[Any, Node] = {
            Variable(name): terms.node(int(number))
            for name, number in zip(read, ids[row], strict=False)
            if number != UNBOUND
        }
        if asks:
            bound[Variable(PROBABILITY)] = Literal(float(table.p[row]))
            bound[Variable(STATUS)] = Literal(status(bool(table.known[row])))
        found.append(compute(expression.of, FrozenBindings(context, bound)))
    return [found[each] for each in place.reshape(-1).tolist()]


def status(known: bool) -> str:
    """known or predicted."""
    return "known" if known else "predicted"


def _truth(expression: Any, bindings: Any) -> bool:
    from rdflib.plugins.sparql.evalutils import _ebv

    return bool(_ebv(expression, bindings))


def _sortable(expression: Any, bindings: Any) -> Any:
    from rdflib.plugins.sparql.evalutils import _val
    from rdflib.plugins.sparql.sparql import SPARQLError
    from rdflib.term import Variable

    if isinstance(expression, Variable):
        term = bindings.get(expression)
        return (0,) if term is None else _val(term)
    try:
        return _val(expression.eval(bindings) if hasattr(expression, "eval") else expression)
    except SPARQLError:
        return (0,)
