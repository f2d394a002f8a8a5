"""Every metric in plain Python, from the definitions of the protocol, sharing nothing with the package.

Facts are (s, r, o) tuples with r < R; paths are tuples of ids, r ≥ R meaning the inverse of r - R. A scorer is a
function of (s, path, o).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

Fact = tuple[int, int, int]
Path = tuple[int, ...]
Query = tuple[int, Path, int]
Scorer = Callable[[int, Path, int], Fraction]


def step(facts: set[Fact], R: int, entities: set[int], relation: int) -> set[int]:
    if relation < R:
        return {o for s, r, o in facts if r == relation and s in entities}
    return {s for s, r, o in facts if r == relation - R and o in entities}


def reachable(facts: set[Fact], R: int, source: int, path: Path) -> set[int]:
    entities = {source}
    for relation in path:
        entities = step(facts, R, entities, relation)
    return entities


def candidates(facts: set[Fact], R: int, relation: int) -> set[int]:
    if relation < R:
        return {o for s, r, o in facts if r == relation}
    return {s for s, r, o in facts if r == relation - R}


@dataclass
class Outcome:
    quantile: Fraction | None
    hit: bool | None
    rank: Fraction
    tied: bool


def outcome(negatives: set[int], query: Query, score: Scorer, ties: str, top: int = 10) -> Outcome:
    source, path, target = query
    own = score(source, path, target)
    won, rank, tied = Fraction(0), Fraction(1), False
    for entity in negatives:
        other = score(source, path, entity)
        if other > own:
            rank += 1
        elif other < own:
            won += 1
        else:
            tied = True
            if ties == "half":
                won += Fraction(1, 2)
                rank += Fraction(1, 2)
            elif ties == "paper":
                won += 1
            else:
                assert ties == "pessimistic"
                rank += 1
    if not negatives:
        return Outcome(None, None, rank, tied)
    return Outcome(won / len(negatives), rank <= top, rank, tied)


def rank_typed(facts: set[Fact], R: int, query: Query, score: Scorer, ties: str) -> Outcome:
    source, path, target = query
    negatives = candidates(facts, R, path[-1]) - reachable(facts, R, source, path) - {target}
    return outcome(negatives, query, score, ties)


def rank_all(facts: set[Fact], E: int, R: int, query: Query, score: Scorer, ties: str) -> Outcome:
    source, path, target = query
    return outcome(set(range(E)) - reachable(facts, R, source, path) - {target}, query, score, ties)


@dataclass
class Means:
    queries: int
    excluded: int
    tied: float | None
    mq: float | None
    p_at_10: float | None
    p_at_10_with_excluded: float


def summarise(outcomes: Sequence[Outcome]) -> Means:
    counted = [each for each in outcomes if each.quantile is not None]
    n, dropped = len(counted), len(outcomes) - len(counted)
    hits = sum(bool(each.hit) for each in counted)
    return Means(
        queries=n,
        excluded=dropped,
        tied=100 * sum(each.tied for each in counted) / n if n else None,
        mq=float(100 * sum((each.quantile or Fraction(0)) for each in counted) / n) if n else None,
        p_at_10=100 * hits / n if n else None,
        p_at_10_with_excluded=100 * (hits + dropped) / len(outcomes),
    )


def completion(triples: Sequence[Fact], facts: set[Fact], E: int, R: int, score: Scorer, ties: str) -> dict[str, float]:
    ranks: list[Fraction] = []
    for s, r, o in triples:
        ranks.append(rank_all(facts, E, R, (s, (r,), o), score, ties).rank)
        ranks.append(rank_all(facts, E, R, (o, (r + R,), s), score, ties).rank)
    n = len(ranks)
    hits = {f"hits_at_{k}": sum(rank <= k for rank in ranks) / n for k in (1, 3, 10)}
    return {"mr": float(sum(ranks) / n), "mrr": float(sum(1 / rank for rank in ranks) / n), **hits}


def accuracy(judgements: Sequence[tuple[bool, bool]]) -> float | None:
    """Of (label, judged) pairs."""
    if not judgements:
        return None
    return 100 * sum(label == judged for label, judged in judgements) / len(judgements)


def path_classification(queries: Sequence[Query], facts: set[Fact], R: int, score: Scorer) -> list[tuple[bool, bool]]:
    judgements = []
    for s, path, o in queries:
        if len(path) < 2:
            continue
        judgements.append((True, score(s, path, o) >= 0))
        backwards = tuple(reversed(path))
        if o not in reachable(facts, R, s, backwards):
            judgements.append((False, score(s, backwards, o) >= 0))
    return judgements


def order_classification(
    queries: Sequence[Query], facts: set[Fact], R: int, score: Scorer, first: int, second: int
) -> list[tuple[bool, bool]]:
    judgements = []
    for s, path, o in queries:
        for i in range(len(path) - 1):
            if path[i] == first and path[i + 1] == second:
                break
        else:
            continue
        if o not in reachable(facts, R, s, path):
            continue
        judgements.append((True, score(s, path, o) >= 0))
        swapped = (*path[:i], second, first, *path[i + 2 :])
        if o not in reachable(facts, R, s, swapped):
            judgements.append((False, score(s, swapped, o) >= 0))
    return judgements


def best_accuracies(scored: Sequence[tuple[float, bool]]) -> tuple[int, list[float]]:
    """The most lines any threshold gets right, and thresholds that do, one for each way of cutting the scores."""
    cuts = [*sorted({score for score, _ in scored}), math.inf]
    right = [sum((score >= cut) == label for score, label in scored) for cut in cuts]
    return max(right), [cut for cut, count in zip(cuts, right, strict=True) if count == max(right)]


# Complex queries, as trees of nested tuples: ("entity", e), ("hop", of, r), ("and", parts), ("or", parts), ("not", of).

Tree = tuple[Any, ...]


def tree_of_type(name: str, ids: Sequence[int]) -> Tree:
    """The tree of one of the fourteen types, written out by hand."""

    def path(source: int, *relations: int) -> Tree:
        tree: Tree = ("entity", source)
        for relation in relations:
            tree = ("hop", tree, relation)
        return tree

    def both(*parts: Tree) -> Tree:
        return ("and", parts)

    def no(part: Tree) -> Tree:
        return ("not", part)

    shapes: dict[str, Callable[..., Tree]] = {
        "1p": lambda a, r: path(a, r),
        "2p": lambda a, r, s: path(a, r, s),
        "3p": lambda a, r, s, t: path(a, r, s, t),
        "2i": lambda a, r, b, s: both(path(a, r), path(b, s)),
        "3i": lambda a, r, b, s, c, t: both(path(a, r), path(b, s), path(c, t)),
        "pi": lambda a, r, s, b, t: both(path(a, r, s), path(b, t)),
        "ip": lambda a, r, b, s, t: ("hop", both(path(a, r), path(b, s)), t),
        "2u": lambda a, r, b, s: ("or", (path(a, r), path(b, s))),
        "up": lambda a, r, b, s, t: ("hop", ("or", (path(a, r), path(b, s))), t),
        "2in": lambda a, r, b, s: both(path(a, r), no(path(b, s))),
        "3in": lambda a, r, b, s, c, t: both(path(a, r), path(b, s), no(path(c, t))),
        "inp": lambda a, r, b, s, t: ("hop", both(path(a, r), no(path(b, s))), t),
        "pin": lambda a, r, s, b, t: both(path(a, r, s), no(path(b, t))),
        "pni": lambda a, r, s, b, t: both(no(path(a, r, s)), path(b, t)),
    }
    return shapes[name](*ids)


def lacking(tree: Tree, entity: int, facts: set[Fact], known: set[Fact], R: int) -> float:
    """The least number of facts of a proof that are not known, ∞ where there is no proof."""
    kind, of = tree[:2]
    if kind == "entity":
        return 0 if of == entity else math.inf
    if kind == "hop":
        relation = tree[2]
        if relation < R:
            ways = [(s, (s, r, o)) for s, r, o in facts if (r, o) == (relation, entity)]
        else:
            ways = [(o, (s, r, o)) for s, r, o in facts if (s, r) == (entity, relation - R)]
        costs = [lacking(of, other, facts, known, R) + (fact not in known) for other, fact in ways]
        return min(costs, default=math.inf)
    if kind == "and":
        return sum(lacking(part, entity, facts, known, R) for part in of)
    if kind == "or":
        return min(lacking(part, entity, facts, known, R) for part in of)
    return math.inf if lacking(of, entity, facts, known, R) < math.inf else 0


@dataclass
class Judged:
    """The figures of one hard answer: reciprocal rank and hits, and what its easiest proof lacks."""

    query: int
    values: dict[str, float]
    lacking: int


def judge(
    name: str,
    rows: Sequence[Sequence[int]],
    value: Callable[[Sequence[int], int], float],
    known: set[Fact],
    easy: set[Fact],
    truth: set[Fact],
    E: int,
    R: int,
    ties: str,
) -> list[Judged]:
    """Every hard answer of the queries of one type; `value` is that of an entity for the ids of a query."""
    found = []
    for row, ids in enumerate(rows):
        tree = tree_of_type(name, ids)
        is_easy = [lacking(tree, e, easy, easy, R) < math.inf for e in range(E)]
        is_true = [lacking(tree, e, truth, truth, R) < math.inf for e in range(E)]
        rivals = [e for e in range(E) if not is_easy[e] and not is_true[e]]
        for answer in (e for e in range(E) if is_true[e] and not is_easy[e]):
            better = sum(value(ids, e) > value(ids, answer) for e in rivals)
            tied = sum(value(ids, e) == value(ids, answer) for e in rivals)
            rank = 1 + better + {"half": 0.5, "paper": 0, "pessimistic": 1}[ties] * tied
            values = {"mrr": 1 / rank} | {f"hits_at_{top}": float(rank <= top) for top in (1, 3, 10)}
            found.append(Judged(row, values, int(lacking(tree, answer, truth, known, R))))
    return found


def over_queries(answers: Sequence[Judged]) -> dict[str, float]:
    """Means over the answers of each query, then over queries."""
    queries = sorted({answer.query for answer in answers})
    means = {}
    for metric in ("mrr", "hits_at_1", "hits_at_3", "hits_at_10"):
        own = [[each.values[metric] for each in answers if each.query == query] for query in queries]
        means[metric] = sum(sum(values) / len(values) for values in own) / len(own)
    return {**means, "queries": len(queries), "answers": len(answers)}
