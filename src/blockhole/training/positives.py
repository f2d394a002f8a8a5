"""Where the positives of an epoch come from: edges, a stored path set, fresh walks, or a graph that lies on disk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from blockhole.errors import ConfigError, DataError
from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.queries.paths import PathQueries
from blockhole.queries.walks import Walker, sample_walks, split_mix
from blockhole.runs.config import TrainConfig, TrainingConfig
from blockhole.training.batches import TOGETHER, Batch, Corruptions, EpochPlan, PathTensors, Plan
from blockhole.training.draws import Purpose, below, generator

Reverse = Literal["none", "edges", "paths"]
"""Which positives are also read backwards."""


class Positives(Protocol):
    """The true queries of each epoch, in batches on the training device."""

    def __len__(self) -> int:
        """How many an epoch has."""

    def plan(self, epoch: int) -> Plan:
        """The batches of an epoch; equal for equal numbers."""

    def ends(self) -> Tensor:
        """The sources and targets of any epoch, in any order and number: [count]; those of train facts may lack."""


@final
class StoredPositives:
    """The same queries every epoch, cut anew into batches of one length (and one last relation if asked).

    Within a group the positives are shuffled and cut into batches whose sizes differ by one at most, so that no small
    rest takes a step as large as a full batch; then the batches of all groups are shuffled. With `by_query` edges that
    ask the same (s, r, ?) are shuffled as one, up to `TOGETHER` of them. `corruptions` are those of each positive,
    where they were drawn beforehand.
    """

    def __init__(
        self,
        paths: PathTensors,
        seed: int,
        batch_size: int,
        *,
        by_last_relation: bool = False,
        by_query: bool = False,
        corruptions: Corruptions | None = None,
    ) -> None:
        self._paths = paths
        self._corruptions = corruptions
        self._by_query = by_query
        self._seed = seed
        self._batch_size = batch_size
        ids = int(paths.path.max()) + 1 if by_last_relation and len(paths) else 1
        # Few distinct numbers of few bits: a stable sort of them is a radix sort.
        key = paths.length * ids + paths.last_relation if by_last_relation else paths.length.short()
        by_key = torch.argsort(key, stable=True)
        keys, sizes = torch.unique_consecutive(key[by_key], return_counts=True)
        self._groups = torch.split(by_key, sizes.tolist())
        self._lengths = [each // ids for each in keys.tolist()]

    def __len__(self) -> int:
        return len(self._paths)

    def ends(self) -> Tensor:
        """See Positives."""
        return torch.cat([self._paths.source, self._paths.target])

    def plan(self, epoch: int) -> EpochPlan:
        """See Positives."""
        rng = generator(self._seed, Purpose.ORDER, epoch)
        batches: list[Tensor] = []
        lengths: list[int] = []
        for group, length in zip(self._groups, self._lengths, strict=True):
            shuffled = self._by_queries(group, rng) if self._by_query and length == 1 else _shuffled(group, rng)
            cut = shuffled.tensor_split(-(-len(group) // self._batch_size))
            batches += cut
            lengths += [length] * len(cut)
        order = rng.permutation(len(batches))
        sizes = np.array([len(batches[i]) for i in order])
        return EpochPlan(
            epoch=epoch,
            bounds=np.concatenate([[0], np.cumsum(sizes)]),
            lengths=[lengths[i] for i in order],
            members=torch.cat([batches[i] for i in order]),
            paths=self._paths,
            corruptions=self._corruptions,
        )

    def _by_queries(self, group: Tensor, rng: np.random.Generator) -> Tensor:
        """Edges in random order, but with up to `TOGETHER` of one query beside each other; which, is random too."""
        members = rng.permutation(group.cpu().numpy())
        index = torch.from_numpy(members).to(self._paths.source.device)
        query = (self._paths.source[index].long() << 32 | self._paths.path[index, 0].long()).cpu().numpy()
        by_query = np.argsort(query, kind="stable")
        _, first, count = np.unique(query[by_query], return_index=True, return_counts=True)
        place = np.arange(len(query)) - np.repeat(first, count)
        bunch = np.cumsum(place % TOGETHER == 0) - 1
        by_bunch = np.argsort(rng.permutation(bunch[-1] + 1)[bunch], kind="stable")
        return torch.from_numpy(members[by_query[by_bunch]]).to(group.device)


def _shuffled(group: Tensor, rng: np.random.Generator) -> Tensor:
    """The members of a group in random order; a GPU draws its own, since the host needs a tenth of an epoch for it."""
    if not group.is_cuda:
        return torch.from_numpy(rng.permutation(group.cpu().numpy())).to(group.device)
    drawn = torch.Generator(group.device).manual_seed(int(rng.integers(2**63)))
    return group[torch.randperm(len(group), generator=drawn, device=group.device)]


@final
class FreshWalks:
    """The edges of a graph, and walks over it that are sampled anew for every epoch.

    Walks are a function of seed and epoch, the same on every device. A GPU samples its own: an epoch of FB13 trains in
    less time than the host takes for six million walks.
    """

    def __init__(
        self,
        graph: KnowledgeGraph,
        seed: int,
        reverse: Reverse,
        batch_size: int,
        device: torch.device,
        *,
        by_last_relation: bool = False,
        by_query: bool = False,
        lengths: tuple[int, int] = (2, 5),
        per_edge: int = 20,
    ) -> None:
        self._graph = graph
        self._seed = seed
        self._reverse = reverse
        self._batch_size = batch_size
        self._device = device
        self._by_last_relation = by_last_relation
        self._by_query = by_query
        self._lengths = lengths
        self._count = per_edge * len(graph)
        self._edges = PathTensors.of(PathQueries.from_triples(graph.triples), device)
        self._sampler = WalkSampler(graph, device) if device.type == "cuda" else None

    def __len__(self) -> int:
        edges, walks = len(self._graph), self._count
        return {"none": edges + walks, "edges": 2 * edges + walks, "paths": 2 * (edges + walks)}[self._reverse]

    def plan(self, epoch: int) -> Plan:
        """See Positives."""
        paths = self.epoch(epoch)
        last, query = self._by_last_relation, self._by_query
        stored = StoredPositives(paths, self._seed, self._batch_size, by_last_relation=last, by_query=query)
        return stored.plan(epoch)

    def epoch(self, epoch: int) -> PathTensors:
        """The edges and walks of an epoch."""
        walks = self._walks(self._count, _walk_seed(self._seed, epoch))
        paths = PathTensors.concatenate([self._edges, walks])
        return with_reversed(paths, self._reverse, self._graph.num_relations)

    def _walks(self, count: int, seed: int) -> PathTensors:
        if self._sampler is not None:
            return self._sampler.sample(count, self._lengths, seed)
        return PathTensors.of(sample_walks(self._graph, count, lengths=self._lengths, seed=seed), self._device)

    def ends(self) -> Tensor:
        """See Positives: walks lead from facts to facts."""
        return torch.zeros(0, dtype=torch.int64)


def added_walks(graph: KnowledgeGraph, training: TrainingConfig) -> PathQueries:
    """The walks that are added to a stored path set: so many for each edge of the graph."""
    count, lengths = training.walks_per_edge * len(graph), (2, training.longest)
    return sample_walks(graph, count, lengths, seed=_walk_seed(training.seed, epoch=0))


def _walk_seed(seed: int, epoch: int) -> int:
    return int(generator(seed, Purpose.WALKS, epoch).integers(2**63))


def with_reversed(paths: PathTensors, which: Reverse, num_relations: int) -> PathTensors:
    """The queries, and after them (o, r_k⁻¹/…/r_1⁻¹, s) for none of them, for those of length 1, or for all."""
    if which == "none":
        return paths
    chosen = paths if which == "paths" else paths.take(paths.length == 1)
    return PathTensors.concatenate([paths, chosen.reversed(num_relations)])


# Positives of a graph that lies on disk: each batch is made when its turn comes, so an epoch takes no memory.


ROUNDS = 4
"""Rounds of the Feistel network that shuffles the facts: Luby and Rackoff 1988 need four."""


class Sharing(Protocol):
    """Processes that make every batch together, each some rows of it."""

    def made(self, batch: int) -> slice:
        """The rows of a batch of this size that are this process' to make."""

    def gather_batch(self, own: Tensor, batch: int) -> Tensor:
        """All rows of a batch of this size, in every process: those made here [own, …] → [batch, …]."""


@final
class StreamedPositives:
    """The facts of a graph in random order and, with `walks`, fresh walks over it of every length in `lengths`.

    They are those of `FreshWalks` in number and distribution, except that every length has as many walks as another. A
    batch is a function of seed, epoch and its place alone, as everywhere, whoever makes it: with `sharing`, several
    processes do. Positives.
    """

    def __init__(
        self,
        graph: KnowledgeGraph,
        seed: int,
        reverse: Reverse,
        batch_size: int,
        device: torch.device,
        *,
        walks: bool,
        lengths: tuple[int, int] = (2, 5),
        per_edge: int = 20,
        sharing: Sharing | None = None,
    ) -> None:
        self.graph = graph
        self.seed = seed
        self.device = device
        self.sharing = sharing
        self.walker = Walker(graph) if walks else None
        shortest, longest = lengths
        walks_of_each = per_edge * len(graph) // (longest - shortest + 1)
        self.groups = [_Group(1, len(graph), both=reverse != "none", batch_size=batch_size)]
        for hops in range(shortest, longest + 1) if walks else ():
            self.groups.append(_Group(hops, walks_of_each, both=reverse == "paths", batch_size=batch_size))

    def __len__(self) -> int:
        return sum(group.positives for group in self.groups)

    def plan(self, epoch: int) -> StreamedPlan:
        """See Positives."""
        return StreamedPlan(self, epoch)

    def ends(self) -> Tensor:
        """See Positives: walks lead from facts to facts."""
        return torch.zeros(0, dtype=torch.int64)


@final
@dataclass(frozen=True, slots=True)
class _Group:
    """Positives of one length: `count` of them, and with `both` each of them also read backwards."""

    hops: int
    count: int
    both: bool
    batch_size: int

    @property
    def positives(self) -> int:
        return self.count * (1 + self.both)

    @property
    def batches(self) -> int:
        return -(-self.positives // self.batch_size)

    def bounds(self, batch: int) -> tuple[int, int]:
        """The first member of a batch and the one after its last; sizes differ by one at most."""
        return batch * self.positives // self.batches, (batch + 1) * self.positives // self.batches


@final
class StreamedPlan:
    """The batches of one epoch; see Plan."""

    def __init__(self, positives: StreamedPositives, epoch: int) -> None:
        self._of = positives
        self._epoch = epoch
        rng = generator(positives.seed, Purpose.ORDER, epoch)
        self._first = np.cumsum([0] + [group.batches for group in positives.groups])
        self._order = rng.permutation(self._first[-1])
        self._keys = rng.integers(2**64, size=ROUNDS, dtype=np.uint64)
        self._walk_seed = int(generator(positives.seed, Purpose.WALKS, epoch).integers(2**63))

    def __len__(self) -> int:
        return len(self._order)

    @property
    def positives(self) -> int:
        """See Plan."""
        return len(self._of)

    def size(self, index: int) -> int:
        """See Plan."""
        group, batch = self._find(index)
        first, last = group.bounds(batch)
        return last - first

    def batch(self, index: int) -> Batch:
        """See Plan."""
        group, batch = self._find(index)
        first, last = group.bounds(batch)
        sharing = self._of.sharing
        if sharing is None:
            paths = self._positives(group, np.arange(first, last))
            return Batch(paths.source.long(), paths.path.long(), paths.target.long(), self._epoch, index)
        made = sharing.made(last - first)
        own = self._positives(group, np.arange(first + made.start, first + made.stop))
        columns = torch.cat((own.source[:, None], own.path, own.target[:, None]), dim=1)
        rows = sharing.gather_batch(columns, last - first).long()
        return Batch(rows[:, 0], rows[:, 1:-1], rows[:, -1], self._epoch, index)

    def _find(self, index: int) -> tuple[_Group, int]:
        batch = int(self._order[index])
        number = int(np.searchsorted(self._first, batch, side="right")) - 1
        return self._of.groups[number], batch - int(self._first[number])

    def _positives(self, group: _Group, members: NDArray[np.int64]) -> PathTensors:
        return self._facts(group, members) if group.hops == 1 else self._walks(group, members)

    def _facts(self, group: _Group, members: NDArray[np.int64]) -> PathTensors:
        """Some facts: members T … 2T - 1 are the facts again, read backwards."""
        places = shuffled(members.astype(np.uint64), group.positives, self._keys)
        backwards = places >= group.count
        facts = PathQueries.from_triples(self._of.graph.triples[places - backwards * group.count])
        return self._turned(facts, backwards)

    def _walks(self, group: _Group, members: NDArray[np.int64]) -> PathTensors:
        """Some walks of one length, consecutive; with `both`, walk i is positive 2i, and 2i + 1 read backwards."""
        number = members // (1 + group.both)
        first, last = (int(number[0]), int(number[-1]) + 1) if len(number) else (0, 0)
        assert self._of.walker is not None
        walks = self._of.walker.sample(first, last - first, (group.hops, group.hops), self._walk_seed + group.hops)
        return self._turned(walks.take(number - first), (members % 2 == 1) & group.both)

    def _turned(self, queries: PathQueries, backwards: NDArray[np.bool_]) -> PathTensors:
        paths = PathTensors.of(queries, self._of.device)
        if not backwards.any():
            return paths
        turned = paths.reversed(self._of.graph.num_relations)
        turn = torch.from_numpy(backwards).to(self._of.device)
        return PathTensors(
            source=torch.where(turn, turned.source, paths.source),
            path=torch.where(turn[:, None], turned.path, paths.path),
            length=paths.length,
            target=torch.where(turn, turned.target, paths.target),
        )


def shuffled(places: NDArray[np.uint64], size: int, keys: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Where a random permutation of 0 … size - 1 takes each of `places`, without making the permutation.

    A Feistel network permutes the numbers of as many bits as `size` needs; one that comes out at `size` or beyond goes
    in again (Black and Rogaway 2002), on average less than once. The halves exchange their widths in every round, so
    that an odd number of bits is no reason for one more; the number of `keys`, the rounds, is even.
    """
    bits = max(2, (size - 1).bit_length())
    widths = np.uint64(bits - bits // 2), np.uint64(bits // 2)
    masks = [(np.uint64(1) << width) - np.uint64(1) for width in widths]

    def permute(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
        left, right = x >> widths[1], x & masks[1]
        for turn, key in enumerate(keys):
            left, right = right, left ^ (split_mix(right + key) & masks[turn % 2])
        return (left << widths[1]) | right

    x = permute(places)
    outside = np.flatnonzero(x >= size)
    while len(outside):
        x[outside] = permute(x[outside])
        outside = outside[x[outside] >= size]
    return x.astype(np.int64)


def check_streams(config: TrainConfig) -> None:
    """Refuse settings that need the facts of a packed graph, or paths over it, in memory."""
    training = config.training
    if training.on_stored_paths:
        raise ConfigError(
            "a packed graph has no stored paths; sample them as they are needed with training.walks = fresh, "
            "or train on edges alone with training.on = base."
        )
    if config.early_stop.metric is not None:
        raise ConfigError(
            "early_stop.metric needs the graph in memory, and this one is packed; "
            "leave it out, or unset it with --set early_stop.metric=."
        )
    for key, asked in (
        ("loss.typed_share", config.loss.typed_share > 0),
        ("loss.rare_weight", config.loss.rare_weight < 1),
        ("loss.corrupt = 'once'", config.loss.corrupts_once),
    ):
        if asked:
            raise ConfigError(f"{key} needs the graph in memory, and this one is packed; leave it out.")


# Random walks sampled on a GPU: those of `queries/walks.py`, bit for bit.


CHUNK = 1 << 22
"""Walks that are taken together: enough to fill a GPU, at some 200 MB of memory."""


@final
class WalkSampler:
    """Samples walks over one graph as `sample_walks` does; on a CPU the latter is five times as fast."""

    def __init__(self, graph: KnowledgeGraph, device: torch.device) -> None:
        if not len(graph):
            raise DataError("the graph has no edges, so there is nothing to walk on; give it at least one triple.")
        adjacency = graph.adjacency
        starts = np.flatnonzero(np.diff(adjacency.group_start)).astype(np.int32)
        self._device = device
        self._starts, self._group_start, self._group_relation, self._edge_start, self._target = (
            torch.tensor(array, device=device)
            for array in (
                starts,
                adjacency.group_start,
                adjacency.group_relation,
                adjacency.edge_start,
                adjacency.target,
            )
        )

    def sample(self, count: int, lengths: tuple[int, int], seed: int) -> PathTensors:
        """`count` walks of `lengths`, both ends included: draw j of walk i is a function of (seed, i, j) alone."""
        key = int(np.random.SeedSequence(seed).generate_state(1, np.uint64).view(np.int64)[0])
        bounds = [(first, min(first + CHUNK, count)) for first in range(0, max(count, 1), CHUNK)]
        return PathTensors.concatenate([self._sample(first, last, lengths, key) for first, last in bounds])

    def _sample(self, first: int, last: int, lengths: tuple[int, int], key: int) -> PathTensors:
        shortest, longest = lengths
        counter = key + torch.arange(first, last, device=self._device) * (2 + 2 * longest)
        source = self._starts[below(counter, len(self._starts))]
        length = shortest + below(counter + 1, longest - shortest + 1)
        target, hops = source, []
        for hop in range(longest):
            # Walks that are at their end step on as well, which is thrown away: that costs less than to sort them out.
            group = self._group_start[target]
            group = group + below(counter + (2 + 2 * hop), self._group_start[target + 1] - group)
            edge = self._edge_start[group]
            edge = edge + below(counter + (3 + 2 * hop), self._edge_start[group + 1] - edge)
            going = length > hop
            hops.append(torch.where(going, self._group_relation[group], 0))
            target = torch.where(going, self._target[edge], target)
        return PathTensors(source, torch.stack(hops, dim=1), length.int(), target)
