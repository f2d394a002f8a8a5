"""Why an answer is one: chains of intermediate entities from the source to it, each hop known or predicted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import final

import numpy as np
from numpy.typing import NDArray

from blockhole.answering.answers import Status
from blockhole.answering.engine import Engine, check_top
from blockhole.answering.known import KnownFacts
from blockhole.answering.trellis import best_chains
from blockhole.paths.language import PathQuery

PLAUSIBLE = 0.01
"""Chains less probable than this explain nothing and are left out."""


@final
@dataclass(frozen=True, slots=True)
class ChainHop:
    """One step of a chain; `relation` as queries write it, such as ^fatherOf."""

    source: str
    relation: str
    target: str
    status: Status
    probability: float


@final
@dataclass(frozen=True, slots=True)
class Chain:
    """The hops from the source to the answer; `probability` is the product of theirs."""

    hops: tuple[ChainHop, ...]
    probability: float


@final
@dataclass(frozen=True, slots=True)
class Explanation:
    """The best chains, most probable first; none where none is plausible, and `best` says how probable the best was."""

    query: str
    entity: str
    chains: tuple[Chain, ...]
    best: float


def explain(engine: Engine, query: str | PathQuery, entity: str, *, top: int = 5, beam: int = 32) -> Explanation:
    """The `top` best chains of intermediate entities along the query's path to `entity`.

    Where the graph has the path, its chains are exact. Where it has not, known and predicted edges are searched
    together: at each hop the `beam` best entities seen from the source and the `beam` best seen from the answer.
    """
    check_top(top)
    parsed, source, path = engine.encode(query)
    target = engine.graph.entities.id(entity)
    known = list(islice(known_chains(engine.known, source, path, target), top))
    if known:
        found = [(chain, [1.0] * len(path)) for chain in known]
    else:
        found = best_chains(engine, source, path, target, top, beam)
    relations = [str(hop) for hop in parsed.hops]
    chains = [_named(engine, relations, path, *each) for each in found]
    return Explanation(
        query=str(parsed),
        entity=entity,
        chains=tuple(chain for chain in chains if chain.probability >= PLAUSIBLE),
        best=max((chain.probability for chain in chains), default=0.0),
    )


def known_chains(known: KnownFacts, source: int, path: list[int], target: int) -> Iterator[list[int]]:
    """Every chain s, e1, …, o over facts along the path, in the order of ids."""
    forward = [np.array([source], dtype=np.int32)]
    for relation in path:
        forward.append(known.targets(forward[-1], relation))
    # An entity is on a chain just if it is reached from the source and the target is reached from it.
    layers = [np.intersect1d(forward[-1], [target])]
    for relation, reached in zip(reversed(path), reversed(forward[:-1]), strict=True):
        layers.append(np.intersect1d(known.targets(layers[-1], known.graph.inverse(relation)), reached))
    layers.reverse()

    def extend(chain: list[int]) -> Iterator[list[int]]:
        hop = len(chain) - 1
        if hop == len(path):
            yield chain
            return
        for entity in np.intersect1d(known.graph.adjacency.neighbours(chain[-1], path[hop]), layers[hop + 1]):
            yield from extend([*chain, int(entity)])

    if len(layers[0]):
        yield from extend([source])


def _named(
    engine: Engine, relations: list[str], path: list[int], chain: list[int], probabilities: list[float]
) -> Chain:
    names = [engine.graph.entities[entity] for entity in chain]
    hops = tuple(
        ChainHop(
            source=names[i],
            relation=relations[i],
            target=names[i + 1],
            status="known" if _has_edge(engine.known, chain[i], path[i], chain[i + 1]) else "predicted",
            probability=probabilities[i],
        )
        for i in range(len(path))
    )
    return Chain(hops, float(np.prod(probabilities)))


def _has_edge(known: KnownFacts, source: int, relation: int, target: int) -> bool:
    neighbours: NDArray[np.int32] = known.graph.adjacency.neighbours(source, relation)
    return bool(np.isin(target, neighbours))
