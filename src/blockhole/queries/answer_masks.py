"""Exact answers on a torch device, for queries and scores that live there: dense masks, and proofs that lack edges.

On a processor `exact.answer_sets` is many times faster, because it follows only the edges that a query meets.
"""

from __future__ import annotations

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


_NUMBERS = 2**26
"""Edges that are followed at a time."""


@final
class EdgesOnDevice:
    """The edges of a graph on a device; an edge that `known` lacks, if given, counts as missing.

    Only the edges that queries meet are looked at, of whatever relations: what is launched does not grow with these.
    """

    def __init__(self, graph: KnowledgeGraph, device: torch.device | str, known: KnowledgeGraph | None = None) -> None:
        self._size = graph.num_entities
        self._device = torch.device(device)
        edges, relations = edges_by_relation(graph), 2 * graph.num_relations
        group = np.repeat(np.arange(relations), np.diff(edges.relation_start)) * self._size + edges.group_source
        missing = np.zeros(len(edges.target), dtype=np.int32)
        if known is not None:
            held = edges_by_relation(known)
            parts = [missing_among(edges.edges(each), held.edges(each), self._size) for each in range(relations)]
            missing = np.concatenate([missing[:0], *parts]).astype(np.int32)
        # A group is a relation and a source, as one number r E + s; they ascend.
        self._group, self._first, self._target, self._missing = (
            torch.tensor(each).to(self._device) for each in (group, edges.edge_start, edges.target, missing)
        )

    def led(self, query: Tensor, relation: Tensor, source: Tensor, value: Tensor, to: Tensor) -> Tensor:
        """`to`, raised to the `value` of each (query, r, s) wherever an edge leads, missing ones less 1: [Q, E]."""
        if not len(self._group):
            return to
        key = relation * self._size + source
        group = torch.searchsorted(self._group, key).clamp_max_(len(self._group) - 1)
        met = (self._group[group] == key).nonzero()[:, 0]
        first = self._first[group[met]]
        count = self._first[group[met] + 1] - first
        ends = count.cumsum(0)
        flat, begin = to.view(-1), 0
        while begin < len(met):
            done = ends[begin - 1] if begin else ends.new_zeros(())
            part = slice(begin, max(begin + 1, int(torch.searchsorted(ends, done + _NUMBERS, right=True))))
            many, own = count[part], met[part]
            number = torch.arange(int(many.sum()), device=self._device) + done
            edge = number + (first[part] - (ends[part] - many)).repeat_interleave(many)
            at = (query[own] * self._size).repeat_interleave(many) + self._target[edge]
            flat.scatter_reduce_(0, at, value[own].repeat_interleave(many) - self._missing[edge].to(to.dtype), "amax")
            begin = part.stop
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
                    before, relation = found[of], torch.from_numpy(ids[:, slot].astype(np.int64)).to(self._device)
                    query, source = (before < NO_PROOF).nonzero(as_tuple=True)
                    value, to = -before[query, source], -self._nowhere(len(before))
                    own = -self.led(query, relation[query], source, value, to)
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

    def _nowhere(self, queries: int) -> Tensor:
        return torch.full((queries, self._size), NO_PROOF, dtype=torch.int32, device=self._device)
