"""Compiled loops behind `answers`: sets of entities moved along relations, one query at a time.

A set is kept twice, as a list of its members and as a flag for each entity. A hop goes over the members' edges or,
when the set is large beside what the relation can reach, over the relation's targets, asking each for one source in
the set (direction-optimising search, Beamer et al. 2012): from half of FB13's people to `gender` that is a glance at
two entities instead of 50,000 look-ups.

What a first call compiles is kept small. Paths come as int64, as relations are computed with, and the size of a set
is computed from the beginning: else functions are compiled for both kinds of integers, and for the constant 1. Numbers
are copied one by one: where slices are, Numba compiles the text of an error, which takes as long as half of this file.
"""

from __future__ import annotations

from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from blockhole.compiled import njit
from blockhole.queries.plans import Both, Either, Follow, Start, Steps


class Edges(NamedTuple):
    """Both orders of a graph's edges, flat, as compiled code takes them: `Adjacency`, then `EdgesByRelation`."""

    group_start: NDArray[np.int64]
    group_relation: NDArray[np.int32]
    edge_start: NDArray[np.int64]
    target: NDArray[np.int32]
    relation_start: NDArray[np.int64]
    relation_group_source: NDArray[np.int32]
    relation_edge_start: NDArray[np.int64]
    relation_target: NDArray[np.int32]


@njit
def _neighbours(edges: Edges, entity: int, relation: int) -> tuple[int, int]:
    """Where in `edges.target` the targets of (entity, relation) stand."""
    low, high = edges.group_start[entity], edges.group_start[entity + 1]
    end = high
    while low < high:
        middle = (low + high) // 2
        if edges.group_relation[middle] < relation:
            low = middle + 1
        else:
            high = middle
    if low == end or edges.group_relation[low] != relation:
        return 0, 0
    return edges.edge_start[low], edges.edge_start[low + 1]


@njit
def _inverse(edges: Edges, relation: int) -> int:
    relations = (len(edges.relation_start) - 1) // 2
    return relation + relations if relation < relations else relation - relations


@njit
def _sources(edges: Edges, relation: int) -> int:
    """How many distinct sources a relation has."""
    return int(edges.relation_start[relation + 1] - edges.relation_start[relation])


@njit
def _mean_degree(edges: Edges, relation: int) -> float:
    """Edges of a relation for each of its sources."""
    first, last = edges.relation_start[relation], edges.relation_start[relation + 1]
    if first == last:
        return 0.0
    edges_of_relation = edges.relation_edge_start[last] - edges.relation_edge_start[first]
    return float(edges_of_relation / (last - first))


@njit
def asks_targets(edges: Edges, relation: int, count: int) -> bool:
    """Whether a hop from `count` entities takes fewer look-ups if each target is asked for a source in the set.

    A target looks at about sources / count of its edges until it finds one.
    """
    targets, sources = _sources(edges, _inverse(edges, relation)), _sources(edges, relation)
    return bool(targets + targets * (sources / count) < count * (1.0 + _mean_degree(edges, relation)))


@njit
def grows_less(edges: Edges, relation: int, count: int, other: int, others: int) -> bool:
    """Whether `relation` leads from `count` entities to no more than `other` leads to from `others`, on average."""
    return bool(count * _mean_degree(edges, relation) <= others * _mean_degree(edges, other))


@njit
def _begin(entity: int, members: NDArray[np.int32], flags: NDArray[np.bool_]) -> int:
    """Make a set, whose flags are all down, hold one entity; the number of its members."""
    count = 0
    members[count], flags[entity] = entity, True
    return count + 1


@njit
def _hop(
    edges: Edges,
    relation: int,
    members: NDArray[np.int32],
    count: int,
    flags: NDArray[np.bool_],
    next_members: NDArray[np.int32],
    next_flags: NDArray[np.bool_],
) -> int:
    """Write the entities one `relation` away from the set into the next set, whose flags are all down; their number."""
    found = 0
    if asks_targets(edges, relation, count):
        back = _inverse(edges, relation)
        for group in range(edges.relation_start[back], edges.relation_start[back + 1]):
            for edge in range(edges.relation_edge_start[group], edges.relation_edge_start[group + 1]):
                if flags[edges.relation_target[edge]]:
                    entity = edges.relation_group_source[group]
                    next_flags[entity] = True
                    next_members[found] = entity
                    found += 1
                    break
        return found
    for i in range(count):
        first, last = _neighbours(edges, members[i], relation)
        for edge in range(first, last):
            entity = edges.target[edge]
            if not next_flags[entity]:
                next_flags[entity] = True
                next_members[found] = entity
                found += 1
    return found


@njit
def is_sparse(count: int, flags: NDArray[np.bool_]) -> bool:
    """Whether so few flags are up that going through the members takes less than going through all flags."""
    return count * 32 < len(flags)


@njit
def _lower_flags(flags: NDArray[np.bool_], members: NDArray[np.int32], count: int) -> None:
    if is_sparse(count, flags):
        for i in range(count):
            flags[members[i]] = False
    else:
        flags[:] = False


@njit
def _write_ascending(
    flags: NDArray[np.bool_], members: NDArray[np.int32], count: int, out: NDArray[np.int32], start: int
) -> None:
    """Write the set in ascending order to out[start : start + count]; `out` has room for one more."""
    if is_sparse(count, flags):
        for i in range(count):
            out[start + i] = members[i]
        out[start : start + count].sort()
        return
    for entity in range(len(flags)):
        out[start] = entity  # without a branch: an entity that is not in the set is overwritten by the next one
        start += flags[entity]


@njit
def _with_room(out: NDArray[np.int32], start: int, count: int) -> NDArray[np.int32]:
    """`out`, or a longer copy of its first `start` numbers, with room for more than `count` others."""
    if start + count < len(out):
        return out
    grown = np.empty(2 * (start + count), dtype=np.int32)
    for i in range(start):
        grown[i] = out[i]
    return grown


@njit
def answer_rows(
    edges: Edges, source: NDArray[np.int32], path: NDArray[np.int64], length: NDArray[np.int32]
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """⟦s/r1/…/rk⟧ of each row, concatenated, each ascending: (indptr [rows + 1], entities)."""
    entities = len(edges.group_start) - 1
    flags, next_flags = np.zeros(entities, dtype=np.bool_), np.zeros(entities, dtype=np.bool_)
    members, next_members = np.empty(entities, dtype=np.int32), np.empty(entities, dtype=np.int32)
    indptr = np.zeros(len(source) + 1, dtype=np.int64)
    out = np.empty(1024, dtype=np.int32)
    for row in range(len(source)):
        count = _begin(source[row], members, flags)
        for hop in range(length[row]):
            found = _hop(edges, path[row, hop], members, count, flags, next_members, next_flags)
            _lower_flags(flags, members, count)
            flags, next_flags, members, next_members, count = next_flags, flags, next_members, members, found
            if count == 0:
                break
        start = indptr[row]
        out = _with_room(out, start, count)
        _write_ascending(flags, members, count, out, start)
        _lower_flags(flags, members, count)
        indptr[row + 1] = start + count
    return indptr, out[: indptr[-1]].copy()


@njit
def _last_hop_holds(
    edges: Edges, relation: int, members: NDArray[np.int32], count: int, goal_flags: NDArray[np.bool_]
) -> bool:
    """Whether `relation` leads from the set into the goal set."""
    for i in range(count):
        first, last = _neighbours(edges, members[i], relation)
        for edge in range(first, last):
            if goal_flags[edges.target[edge]]:
                return True
    return False


@njit
def rows_hold(
    edges: Edges,
    source: NDArray[np.int32],
    path: NDArray[np.int64],
    length: NDArray[np.int32],
    target: NDArray[np.int32],
) -> NDArray[np.bool_]:
    """Whether o ∈ ⟦s/r1/…/rk⟧, for each row: two sets grow towards each other, always the one that grows less."""
    entities = len(edges.group_start) - 1
    flags, next_flags = np.zeros(entities, dtype=np.bool_), np.zeros(entities, dtype=np.bool_)
    members, next_members = np.empty(entities, dtype=np.int32), np.empty(entities, dtype=np.int32)
    goal_flags, goal_members = np.zeros(entities, dtype=np.bool_), np.empty(entities, dtype=np.int32)
    holds = np.zeros(len(source), dtype=np.bool_)
    for row in range(len(source)):
        count, goals = _begin(source[row], members, flags), _begin(target[row], goal_members, goal_flags)
        first, last = 0, length[row]
        while True:
            forward, backward = path[row, first], _inverse(edges, path[row, last - 1])
            onward = grows_less(edges, forward, count, backward, goals)
            if last - first == 1:
                if onward:
                    holds[row] = _last_hop_holds(edges, forward, members, count, goal_flags)
                else:
                    holds[row] = _last_hop_holds(edges, backward, goal_members, goals, flags)
                break
            if onward:
                found = _hop(edges, forward, members, count, flags, next_members, next_flags)
                _lower_flags(flags, members, count)
                flags, next_flags, members, next_members, count = next_flags, flags, next_members, members, found
                first += 1
            else:
                found = _hop(edges, backward, goal_members, goals, goal_flags, next_members, next_flags)
                _lower_flags(goal_flags, goal_members, goals)
                goal_flags, next_flags, goal_members, next_members, goals = (
                    next_flags, goal_flags, next_members, goal_members, found,
                )  # fmt: skip
                last -= 1
            if found == 0:
                break
        _lower_flags(flags, members, count)
        _lower_flags(goal_flags, goal_members, goals)
    return holds


# Queries of one shape, with all operators


class Program(NamedTuple):
    """The steps of a plan, flat, as compiled code takes them.

    Step i is of kind `kind[i]`, the place of its class among `_KINDS`, has its id in `slot[i]`, and is made of the
    steps `of[start[i] : start[i + 1]]`, of which those from `drop[i]` on are left out.
    """

    kind: NDArray[np.int64]
    slot: NDArray[np.int64]
    start: NDArray[np.int64]
    drop: NDArray[np.int64]
    of: NDArray[np.int64]

    @classmethod
    def of_steps(cls, steps: Steps) -> Program:
        """The program of a plan's steps."""
        made_of = [_made_of(step) for step in steps]
        start = [0, *accumulate(len(keep) + len(drop) for keep, drop in made_of)]
        columns = (
            [_KINDS.index(type(step)) for step in steps],
            [step.slot if isinstance(step, Start | Follow) else 0 for step in steps],
            start,
            [first + len(keep) for first, (keep, _) in zip(start, made_of, strict=False)],
            [each for keep, drop in made_of for each in (*keep, *drop)],
        )
        return cls(*(np.array(column, dtype=np.int64) for column in columns))


_KINDS = (Start, Follow, Both, Either)
_START, _FOLLOW, _BOTH = range(3)


def _made_of(step: Start | Follow | Both | Either) -> tuple[tuple[int, ...], tuple[int, ...]]:
    match step:
        case Start():
            return (), ()
        case Follow(of):
            return (of,), ()
        case Both(keep, drop):
            return keep, drop
        case Either(of):
            return of, ()


@njit
def _raise_flags(flags: NDArray[np.bool_], members: NDArray[np.int32]) -> None:
    for entity in members:
        flags[entity] = True


@njit
def _both(
    sets: list[NDArray[np.int32]],
    of: NDArray[np.int64],
    kept: int,
    flags: NDArray[np.bool_],
) -> NDArray[np.int32]:
    """The members of the first `kept` sets that are in no other; flags are down before and after."""
    smallest = 0
    for i in range(1, kept):
        if len(sets[of[i]]) < len(sets[of[smallest]]):
            smallest = i
    members: NDArray[np.int32] = sets[of[smallest]]
    for i in range(len(of)):
        if i == smallest:
            continue
        other = sets[of[i]]
        _raise_flags(flags, other)
        found, count = np.empty(len(members), dtype=np.int32), 0
        for entity in members:
            if flags[entity] == (i < kept):
                found[count] = entity
                count += 1
        _lower_flags(flags, other, len(other))
        members = found[:count].copy()
    return members


@njit
def plan_rows(edges: Edges, program: Program, ids: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """⟦q⟧ of each row of `ids`, concatenated, each ascending: (indptr [rows + 1], entities)."""
    entities = len(edges.group_start) - 1
    flags, next_flags = np.zeros(entities, dtype=np.bool_), np.zeros(entities, dtype=np.bool_)
    room = np.empty(entities, dtype=np.int32)
    sets = [np.empty(0, dtype=np.int32) for _ in range(len(program.kind))]
    indptr = np.zeros(len(ids) + 1, dtype=np.int64)
    out = np.empty(1024, dtype=np.int32)
    for row in range(len(ids)):
        for step in range(len(program.kind)):
            kind, of = program.kind[step], program.of[program.start[step] : program.start[step + 1]]
            if kind == _START:
                room[0] = ids[row, program.slot[step]]
                sets[step] = room[:1].copy()
            elif kind == _FOLLOW:
                members, count = sets[of[0]], 0
                if len(members):
                    _raise_flags(flags, members)
                    relation = ids[row, program.slot[step]]
                    count = _hop(edges, relation, members, len(members), flags, room, next_flags)
                    _lower_flags(flags, members, len(members))
                    _lower_flags(next_flags, room, count)
                sets[step] = room[:count].copy()
            elif kind == _BOTH:
                sets[step] = _both(sets, of, program.drop[step] - program.start[step], flags)
            else:
                count = 0
                for each in of:
                    for entity in sets[each]:
                        if not flags[entity]:
                            flags[entity] = True
                            room[count] = entity
                            count += 1
                _lower_flags(flags, room, count)
                sets[step] = room[:count].copy()
        found = sets[len(program.kind) - 1]
        start = indptr[row]
        out = _with_room(out, start, len(found))
        _raise_flags(flags, found)
        _write_ascending(flags, found, len(found), out, start)
        _lower_flags(flags, found, len(found))
        indptr[row + 1] = start + len(found)
    return indptr, out[: indptr[-1]].copy()


# Rules: what the body of one says, over all its sources, beside the facts of every relation.


@njit
def _body_targets(
    edges: Edges,
    body: NDArray[np.int64],
    length: int,
    source: int,
    tick: int,
    seen: NDArray[np.int64],
    reached: NDArray[np.int32],
    middle: NDArray[np.int64],
    over: NDArray[np.int32],
    ways: NDArray[np.int32],
) -> tuple[int, int]:
    """Write where a body of one to three hops leads from `source` over distinct entities; their number, and the work.

    `seen[y] == tick` says of an entity that it is reached, `middle[w] == tick` that two of three hops lead to it; over
    which entity, says `over[w]`, and -1 that there are several: then no last hop comes back to all of them.
    """
    found, work, between = 0, 0, 0
    first, last = _neighbours(edges, source, body[0])
    work += last - first
    for edge in range(first, last):
        z = edges.target[edge]
        if z == source:
            continue
        if length == 1:
            reached[found] = z
            seen[z] = tick
            found += 1
            continue
        begin, end = _neighbours(edges, z, body[1])
        work += end - begin + 4
        for second in range(begin, end):
            w = edges.target[second]
            if w == source or w == z:  # noqa: SIM109 - Numba would make a tuple
                continue
            if length == 2:
                if seen[w] != tick:
                    seen[w] = tick
                    reached[found] = w
                    found += 1
            elif middle[w] != tick:
                middle[w] = tick
                over[w] = z
                ways[between] = w
                between += 1
            else:
                over[w] = -1
    for i in range(between):
        w = ways[i]
        begin, end = _neighbours(edges, w, body[2])
        work += end - begin + 4
        for third in range(begin, end):
            y = edges.target[third]
            if y != source and y != w and y != over[w] and seen[y] != tick:
                seen[y] = tick
                reached[found] = y
                found += 1
    return found, work


@njit
def count_bodies(
    edges: Edges,
    valid: Edges,
    bodies: NDArray[np.int64],
    length: NDArray[np.int64],
    most_work: int,
    looked_at: NDArray[np.float64],
    pairs: NDArray[np.int64],
    facts: NDArray[np.int64],
) -> None:
    """Count for each body what `queries.bodies.Counts` holds; shapes there. Arrays that are written to come as zeros.

    Sources are taken in an order that spreads over all of them, until they have cost `most_work` edges.
    """
    entities = len(edges.group_start) - 1
    relations = (len(edges.relation_start) - 1) // 2
    seen = np.full(entities, -1, np.int64)
    middle = np.full(entities, -1, np.int64)
    reached, over, ways = np.empty(entities, np.int32), np.empty(entities, np.int32), np.empty(entities, np.int32)
    own = np.zeros(relations, np.int64)
    tick = 0
    for row in range(len(bodies)):
        start = edges.relation_start[bodies[row, 0]]
        sources = edges.relation_start[bodies[row, 0] + 1] - start
        step = max(int(sources * 0.6180339887), 1)
        while _divisor(step, sources) > 1:
            step += 1
        work, visited = 0, 0
        while visited < sources and work < most_work:
            x = edges.relation_group_source[start + (visited * step) % sources]
            visited += 1
            tick += 1
            found, cost = _body_targets(edges, bodies[row], length[row], x, tick, seen, reached, middle, over, ways)
            work += cost + 8
            if found == 0:
                continue
            pairs[row] += found
            for group in range(edges.group_start[x], edges.group_start[x + 1]):
                head = edges.group_relation[group]
                if head >= relations:
                    break
                right, others = 0, 0
                for edge in range(edges.edge_start[group], edges.edge_start[group + 1]):
                    right += seen[edges.target[edge]] == tick
                    others += edges.target[edge] != x
                own[head] = right
                facts[row, head, 0] += right
                facts[row, head, 1] += found if others else 0
            for group in range(valid.group_start[x], valid.group_start[x + 1]):
                head = valid.group_relation[group]
                if head >= relations:
                    break
                for edge in range(valid.edge_start[group], valid.edge_start[group + 1]):
                    facts[row, head, 2] += seen[valid.target[edge]] == tick
                facts[row, head, 3] += found - own[head]
            for group in range(edges.group_start[x], edges.group_start[x + 1]):
                if edges.group_relation[group] >= relations:
                    break
                own[edges.group_relation[group]] = 0
        looked_at[row] = visited / sources if sources else 1.0


@njit
def _divisor(one: int, other: int) -> int:
    """The greatest common divisor."""
    while other:
        one, other = other, one % other
    return one
