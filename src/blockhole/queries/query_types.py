"""The fourteen types of queries that published sets have, each as the plan that its ids go into.

In a name, p is a projection, i an intersection, u a union and n a negation. The sets hold one row of ids a query, in
the order in which the letters below are read: a, b, c are entities, r, s, t relations in the space of 2R.
"""

from __future__ import annotations

from itertools import count
from types import MappingProxyType

from blockhole.queries.language import parse
from blockhole.queries.plans import Steps, plan_of

QUERY_TYPES = MappingProxyType(
    {
        "1p": "a/r",
        "2p": "a/r/s",
        "3p": "a/r/s/t",
        "2i": "a/r & b/s",
        "3i": "a/r & b/s & c/t",
        "pi": "a/r/s & b/t",
        "ip": "(a/r & b/s)/t",
        "2u": "a/r | b/s",
        "up": "(a/r | b/s)/t",
        "2in": "a/r & !b/s",
        "3in": "a/r & b/s & !c/t",
        "inp": "(a/r & !b/s)/t",
        "pin": "a/r/s & !b/t",
        "pni": "!a/r/s & b/t",
    }
)


def steps_of_type(name: str) -> Steps:
    """The steps of a type, with the ids of its letters in slots 0, 1, … as they are read."""
    slots = count()  # all differ, so that no two letters become one step
    return plan_of(parse(QUERY_TYPES[name]).root, lambda _: next(slots), lambda _: next(slots)).steps
