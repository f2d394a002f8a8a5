"""Why an answer is one: chains of intermediate entities from the source to it, each hop known or predicted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import final

import numpy as np
import torch
from numpy.typing import NDArray

from blockhole.answering.answers import Status
from blockhole.answering.connections import UNLIMITED, Deadline
from blockhole.answering.engine import Engine, open_engine
from blockhole.answering.known import KnownFacts
from blockhole.answering.vectors import norms
from blockhole.errors import Count, checked
from blockhole.queries.language import Query, encode_entity
from blockhole.runs.run import Run

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]


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


@checked
def explain(
    run: Engine | Run | Path | str,
    query: str | Query,
    entity: str,
    *,
    top: Count = 5,
    beam: Count = 32,
    deadline: Deadline | None = None,
) -> Explanation:
    """The `top` best chains of intermediate entities along the query's path to `entity`.

    Where the graph has the path, its chains are exact. Where it has not, known and predicted edges are searched
    together: at each hop the `beam` best entities seen from the source and the `beam` best seen from the answer. A
    search that passes its deadline ends with `OutOfTime`. The run must be calibrated.
    """
    engine = open_engine(run, calibrated=True)
    parsed, source, path = engine.encode(query)
    target = encode_entity(entity, engine.graph.entities)
    deadline = deadline or UNLIMITED
    known = list(islice(known_chains(engine.known, source, path, target, deadline), top))
    if known:
        found = [(chain, [1.0] * len(path)) for chain in known]
    else:
        found = best_chains(engine, source, path, target, top, beam, deadline)
    relations = [str(hop) for hop in parsed.hops]
    chains = [_named(engine, relations, path, *each) for each in found]
    return Explanation(
        query=str(parsed),
        entity=engine.graph.entities[target],
        chains=tuple(chain for chain in chains if chain.probability >= PLAUSIBLE),
        best=max((chain.probability for chain in chains), default=0.0),
    )


# Chains over facts alone


def known_chains(
    known: KnownFacts, source: int, path: list[int], target: int, deadline: Deadline
) -> Iterator[list[int]]:
    """Every chain s, e1, …, o over facts along the path, in the order of ids."""
    forward = [np.array([source], dtype=np.int32)]
    for relation in path:
        deadline.check()
        forward.append(known.targets(forward[-1], relation))
    # An entity is on a chain just if it is reached from the source and the target is reached from it.
    layers = [np.intersect1d(forward[-1], [target])]
    for relation, reached in zip(reversed(path), reversed(forward[:-1]), strict=True):
        deadline.check()
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


# The most probable chains through known and predicted edges: a beam from either end, then the k best paths between.
# A layer of the trellis holds the entities that may stand after a hop; an edge between layers has the probability of
# that hop, 1 where it is a fact. The best chains through the trellis are found exactly (Viterbi's algorithm, k best).


def best_chains(
    engine: Engine, source: int, path: list[int], target: int, top: int, beam: int, deadline: Deadline
) -> list[tuple[list[int], list[float]]]:
    """At most `top` chains s, e1, …, o, best first, each with the probability of every hop."""
    inverses = [engine.graph.inverse(relation) for relation in reversed(path)]
    ahead = _beams(engine, source, path[:-1], beam, deadline)
    behind = _beams(engine, target, inverses[:-1], beam, deadline)[::-1]
    ends = np.array([source]), np.array([target])
    layers = [ends[0], *(np.union1d(a, b) for a, b in zip(ahead, behind, strict=True)), ends[1]]
    if not all(map(len, layers)):
        return []  # a hop that no fact and no candidate makes
    steps = []
    for i, relation in enumerate(path):
        deadline.check()
        steps.append(_hop_probability(engine, layers[i], layers[i + 1], relation))
    return [
        (
            [int(layer[place]) for layer, place in zip(layers, places, strict=True)],
            [float(step[places[i], places[i + 1]]) for i, step in enumerate(steps)],
        )
        for places in _k_best(steps, top)
    ]


def _beams(engine: Engine, start: int, path: list[int], beam: int, deadline: Deadline) -> list[Ids]:
    """For each hop of the path the `beam` entities most probably reached after it; shapes [≤ beam]."""
    beams: list[Ids] = []
    entities, probability = np.array([start]), np.ones(1)
    for relation in path:
        deadline.check()
        entities, probability = _advance(engine, entities, probability, relation, beam)
        beams.append(entities)
    return beams


def _advance(engine: Engine, sources: Ids, probability: Floats, relation: int, beam: int) -> tuple[Ids, Floats]:
    """The entities most probable after one more hop from `sources`, which have the given probabilities."""
    candidates = engine.known.candidates(relation)
    row, reached, hop = _predicted(engine, sources, relation, candidates, beam)
    for i, source in enumerate(sources.tolist()):
        facts = engine.graph.adjacency.neighbours(source, relation)[:beam].astype(np.int64)
        row = np.concatenate([row, np.full(len(facts), i)])
        reached, hop = np.concatenate([reached, facts]), np.concatenate([hop, np.ones(len(facts))])
    total = probability[row] * hop
    entities, place = np.unique(reached, return_inverse=True)
    best = np.zeros(len(entities))
    np.maximum.at(best, place, total)
    kept = np.lexsort((entities, -best))[:beam]
    return entities[kept], best[kept]


def _predicted(
    engine: Engine, sources: Ids, relation: int, candidates: NDArray[np.int32], beam: int
) -> tuple[Ids, Ids, Floats]:
    """The candidates that the model ranks first after one hop from each source, with their probabilities."""
    vector = engine.vectors.walk(engine.vectors.rows(sources), [relation])
    row, column = engine.index.subset(candidates).shortlists(vector, beam)
    entity = candidates[column].astype(np.int64)
    score = (vector[torch.from_numpy(row)] * engine.vectors.candidates(entity)).sum(dim=1).numpy()
    return row, entity, engine.probability(score / norms(vector)[row], 1)


def _hop_probability(engine: Engine, sources: Ids, targets: Ids, relation: int) -> Floats:
    """The probability of the hop between any two entities of neighbouring layers, 1 for facts: [S, T]."""
    vector = engine.vectors.walk(engine.vectors.rows(sources), [relation])
    evidence = (vector @ engine.vectors.candidates(targets).T).numpy() / norms(vector)[:, None]
    probability = engine.probability(evidence.reshape(-1), 1).reshape(evidence.shape)
    for i, source in enumerate(sources.tolist()):
        probability[i, np.isin(targets, engine.graph.adjacency.neighbours(source, relation))] = 1.0
    return probability


def _k_best(steps: list[Floats], top: int) -> list[list[int]]:
    """The places in every layer of the `top` most probable chains through `steps`, best first.

    Each place keeps its `top` best beginnings: total[i, j] is the log-probability of the j-th best that ends at i.
    """
    total = np.zeros((1, 1))
    back: list[tuple[NDArray[np.intp], int]] = []
    for step in steps:
        with np.errstate(divide="ignore"):
            extended = (total[:, :, None] + np.log(step)[:, None, :]).reshape(-1, step.shape[1])
        order = np.argsort(-extended, axis=0, kind="stable")[:top]
        back.append((order, total.shape[1]))
        total = np.take_along_axis(extended, order, axis=0).T
    chains = []
    for rank in range(total.shape[1]):
        if not np.isfinite(total[0, rank]):
            break
        place, beginning, places = 0, rank, [0]
        for order, width in reversed(back):
            place, beginning = divmod(int(order[beginning, place]), width)
            places.append(place)
        chains.append(places[::-1])
    return chains
