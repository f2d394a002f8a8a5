"""Exact answers on a torch device, for queries and scores that live there: dense masks, and proofs that lack edges.

On a processor `exact.answer_sets` is many times faster, because it follows only the edges that a query meets.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from blockhole.graph.knowledge_graph import KnowledgeGraph, edges_by_relation
from blockhole.queries.missing import NO_PROOF, missing_among
from blockhole.queries.paths import PathQueries
from blockhole.queries.plans import Both, Either, Follow, Start, Steps


def hold_by_masks(
    graph: KnowledgeGraph, queries: PathQueries, device: torch.device | str, batch_size: int = 8192
) -> NDArray[np.bool_]:
    """Whether the target of each query is among its answers; shape [N].

    Queries with the same path come one after the other, so that few relations make many rows each.
    """
    masks, found = AnswerMasks(graph, device), np.zeros(len(queries), dtype=bool)
    order = np.lexsort((*queries.path.T[::-1], queries.length))
    for first in range(0, len(order), batch_size):
        rows = order[first : first + batch_size]
        part = queries.take(rows)
        source, path, length, target = (
            torch.tensor(ids, device=device) for ids in (part.source, part.path, part.length, part.target)
        )
        reached = masks(source, path, length)
        found[rows] = reached.gather(1, target.long()[:, None])[:, 0].cpu().numpy()
    return found


@final
class AnswerMasks:
    """The edges of a graph on a device, and the answer masks of query batches over them.

    One hop of all queries that share a relation looks at each of its edges: is the source in the set? A running count
    along the edges, sorted by target, then says for each target whether any was. No sparse matrices: torch multiplies
    them slowly and warns of them. `memory` bounds the bytes in between; the mask itself comes on top.
    """

    def __init__(self, graph: KnowledgeGraph, device: torch.device | str = "cpu", memory: int = 1_000_000_000) -> None:
        self.device = torch.device(device)
        self._num_entities = graph.num_entities
        self._num_relations = graph.num_relations
        edges = edges_by_relation(graph)
        # The edges (t, r⁻¹, s) are the edges (s, r, t) sorted by target: a group is a target, its members the sources.
        self._first_group = edges.relation_start.tolist()
        self._first_edge = edges.edge_start[edges.relation_start].tolist()
        self._group = torch.tensor(edges.group_source).to(self.device)
        self._group_end = torch.tensor(edges.edge_start[1:]).to(self.device)
        self._member = torch.tensor(edges.target).to(self.device)
        # For each edge a flag, its count and its group's count; for each entity the set before and after the hop.
        most_edges = int(np.diff(self._first_edge).max(initial=0))
        self._chunk = max(1, memory // (9 * most_edges + 2 * self._num_entities + 1))

    def __call__(self, source: Tensor, path: Tensor, length: Tensor) -> Tensor:
        """Which entities answer each query; shapes [B], [B, K], [B] → [B, E] bool, on the device."""
        mask = self._start(source)
        # Which relations a hop has decides what is launched, so paths are read on the host.
        hops, lengths = path.cpu().numpy(), length.cpu().numpy()
        for first in range(0, len(mask), self._chunk):
            rows = slice(first, first + self._chunk)
            self._follow(mask[rows], hops[rows], lengths[rows])
        return mask

    def _start(self, source: Tensor) -> Tensor:
        mask = torch.zeros(len(source), self._num_entities, dtype=torch.bool, device=self.device)
        return mask.scatter_(1, source.to(self.device).long()[:, None], True)

    def _follow(self, reached: Tensor, path: NDArray[np.int32], length: NDArray[np.int32]) -> None:
        """Move each row of `reached` [B, E] along its path, in place."""
        for hop in range(path.shape[1]):
            going = np.flatnonzero(length > hop)
            self._move(reached, going, path[going, hop])

    def _move(self, reached: Tensor, going: NDArray[np.intp], relation: NDArray[np.int32]) -> None:
        """Move the rows `going` of `reached` along one relation each, in place."""
        order = np.argsort(relation, kind="stable")
        rows = torch.tensor(going[order]).to(self.device)
        relations, first, count = np.unique(relation[order], return_index=True, return_counts=True)
        for each, begin, end in zip(relations.tolist(), first, first + count, strict=True):
            reached[rows[begin:end]] = self._hop(reached[rows[begin:end]], each)

    def _hop(self, reached: Tensor, relation: int) -> Tensor:
        """The entities one `relation` away from each set; [b, E] → [b, E]."""
        back = (relation + self._num_relations) % (2 * self._num_relations)
        groups = slice(self._first_group[back], self._first_group[back + 1])
        first, last = self._first_edge[back], self._first_edge[back + 1]
        moved = torch.zeros_like(reached)
        if first == last:
            return moved
        met = reached.index_select(1, self._member[first:last]).cumsum(1, dtype=torch.int32)
        so_far = met.index_select(1, self._group_end[groups] - (first + 1))
        moved[:, self._group[groups]] = so_far.diff(dim=1, prepend=so_far.new_zeros(len(so_far), 1)) > 0
        return moved


_NUMBERS = 2**27
"""Numbers that edges lead on at a time."""


@final
class EdgesOnDevice:
    """The edges of a graph on a device, by relation; an edge that `known` lacks, if given, counts as missing."""

    def __init__(self, graph: KnowledgeGraph, device: torch.device | str, known: KnowledgeGraph | None = None) -> None:
        self._size = graph.num_entities
        self._device = torch.device(device)
        self._edges = edges_by_relation(graph)
        self._known = None if known is None else edges_by_relation(known)
        self._held: dict[int, tuple[Tensor, Tensor, Tensor]] = {}

    def led(self, start: Tensor, relation: int, to: Tensor) -> Tensor:
        """`to`, raised to the largest of `start` that an edge leads from, missing ones less 1: [q, E] → [q, E]."""
        source, target, missing = self._edges_of(relation)
        size = max(1, _NUMBERS // max(len(source), 1))
        for part, own in zip(torch.split(start, size), torch.split(to, size), strict=True):
            through = part[:, source]
            if self._known is not None:
                through -= missing
            own.scatter_reduce_(1, target.expand(len(part), -1), through, "amax")
        return to

    def least(self, steps: Steps, ids: NDArray[np.integer]) -> list[Tensor]:
        """How many missing edges a proof of each entity needs at least, after every step: N queries → [N, E] each.

        `NO_PROOF` stands where there is no proof at all.
        """
        found: list[Tensor] = []
        for step in steps:
            match step:
                case Start(slot):
                    own = self._nowhere(len(ids))
                    own.scatter_(1, torch.from_numpy(ids[:, slot, None].astype(np.int64)).to(self._device), 0)
                case Follow(of, slot):
                    own = self.by_relation(ids[:, slot], found[of], self._followed)
                case Both(keep, drop):
                    own = reduce(torch.add, [found[each] for each in keep]).clamp_max(
                        NO_PROOF
                    )  # a copy, which what is dropped may change
                    for each in drop:
                        own[found[each] < NO_PROOF] = NO_PROOF
                case Either(of):
                    own = reduce(torch.minimum, [found[each] for each in of])
            found.append(own)
        return found

    def _followed(self, before: Tensor, relation: int) -> Tensor:
        return -self.led(-before, relation, -self._nowhere(len(before))).clamp_min_(-NO_PROOF)

    def _nowhere(self, queries: int) -> Tensor:
        return torch.full((queries, self._size), NO_PROOF, dtype=torch.int32, device=self._device)

    def by_relation(
        self, relations: NDArray[np.integer], before: Tensor, follow: Callable[[Tensor, int], Tensor]
    ) -> Tensor:
        """What `follow` makes of the rows [q, E] of queries with one relation, for the relation of each of them."""
        found = torch.empty_like(before)
        for relation in np.unique(relations).tolist():
            own = torch.from_numpy(np.flatnonzero(relations == relation)).to(self._device)
            found[own] = follow(before[own], relation)
        return found

    def _edges_of(self, relation: int) -> tuple[Tensor, Tensor, Tensor]:
        """The edges of a relation, and of each 1 where it is missing: [F], [F], [F]."""
        if relation not in self._held:
            source, target = self._edges.edges(relation)
            ends = np.stack([source, target]).astype(np.int64)
            if self._known is None:
                missing = np.zeros(len(source), dtype=np.int32)
            else:
                missing = missing_among((source, target), self._known.edges(relation), self._size).astype(np.int32)
            ahead, behind = torch.from_numpy(ends).to(self._device)
            self._held[relation] = ahead, behind, torch.from_numpy(missing).to(self._device)
        return self._held[relation]
