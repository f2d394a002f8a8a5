"""The indexes behind top-k search: exact, approximate (faiss), and their files in a run's folder."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import frexp, isfinite, sqrt
from pathlib import Path
from shlex import quote
from typing import Any, Literal, final

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor
from torch.nn import functional

from blockhole.answering.vectors import Vectors, diverged
from blockhole.errors import BlockholeWarning, DamagedRun, MissingExtra, RunError, counted
from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.models.contract import at_norm_1, float32_slack, full_float32, longest_norm
from blockhole.queries.walks import sample_walks
from blockhole.runs.checkpoint import weights_id
from blockhole.runs.folder import read_derived
from blockhole.saving import READ_AT_ONCE, is_intact, replacing, sealed, sha256_of

# The exact index

_GROUP = 64
"""Scores whose maximum stands for them when a threshold is sought, at most."""
_TILE = 2**20
_NARROWEST = 2**12
"""Scores computed at a time: 4 MiB, which stay near the processor until they have been looked at."""
_LOWEST = np.finfo(np.float32).min
_FAR = 60
"""Powers of two from 1 beyond which the norm of the longest vector is too near to where float32 ends, at 126."""


@final
class ExactIndex:
    """Candidate vectors, searched whole; shape [C, width] float32, read-only, often a view of a file.

    A product in float32 of a query at norm 1 differs from the exact score by at most `float32_slack`. So whatever
    float32 puts further than twice that below the k-th best is surely not among the k best; the few that remain are
    scored in float64 by the caller. What is found is therefore the same whatever queries are searched for together.
    """

    def __init__(self, vectors: Tensor, of: ExactIndex | None = None) -> None:
        self.vectors = vectors
        self._of = of

    def subset(self, entities: NDArray[np.int32]) -> ExactIndex:
        """The index of some of the candidates, gathered once for many queries."""
        # Several times as fast as indexing with brackets.
        return ExactIndex(self.vectors.index_select(0, torch.from_numpy(entities.astype(np.int64))), of=self)

    def shortlists(
        self, queries: Tensor, count: int | NDArray[np.int64], hidden: NDArray[np.bool_] | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Columns among which the `count` best of each query surely are, as pairs of a row and a column, by row.

        What is `hidden` [B, C] does not count. Shapes: queries [B, width] float64, count [B] → [S], [S].

        All scores pass by in tiles. A group's maximum stands for its scores: the k-th largest maximum is at most the
        k-th best score, for k groups have a member at least as large, and a group below the threshold need not be
        looked into. So nearly every score is read once.
        """
        counts = np.empty(len(queries), dtype=np.int64)
        counts[:] = np.minimum(count, max(len(self.vectors), 1))
        most, slack = int(counts.max(initial=1)), np.float32(2 * self._slack)
        best: Tensor | None = None
        kept: list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]] = []
        with full_float32():
            for first, groups in self._tiles(at_norm_1(queries).float(), hidden, most):
                maxima = groups.amax(dim=2)
                best = _largest(maxima if best is None else torch.cat([best, maxima], dim=1), most)
                low = _thresholds(best.numpy(), counts, slack)
                row, group = (maxima.numpy() >= low).nonzero()
                members = groups.numpy()[row, group]
                which, member = (members >= low[row]).nonzero()
                row, group = row[which], group[which]
                kept.append((row, first + group * groups.shape[2] + member, members[which, member]))
        if len(kept) == 1:
            return kept[0][:2]
        if not kept:
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        row, column, score = (np.concatenate(parts) for parts in zip(*kept, strict=True))
        passing = np.flatnonzero(score >= low[row, 0])  # the threshold has risen since most were kept
        passing = passing[np.argsort(row[passing], kind="stable")]
        return row[passing], column[passing]

    def _tiles(self, queries: Tensor, hidden: NDArray[np.bool_] | None, most: int) -> Iterator[tuple[int, Tensor]]:
        """The scores of all queries, float32, for some columns after the other: the first column, [B, groups, size].

        They hold until the next tile is asked for. Columns that fill up the last group score minus infinity.
        """
        count = len(self.vectors)
        size = max(1, min(_GROUP, count // (4 * most)))
        widest = max(_NARROWEST, _TILE // max(len(queries), 1)) // size * size
        buffer = torch.empty(len(queries) * min(widest, -(-count // size) * size))
        for first in range(0, count, widest):
            part = self._rough[first : first + widest]
            full = -(-len(part) // size) * size
            tile = buffer[: len(queries) * full].view(len(queries), full)
            scores = tile if full == len(part) else tile[:, : len(part)]
            if len(queries) == 1:  # the same, a few per cent faster
                torch.mv(part, queries[0], out=scores[0])
            else:
                torch.mm(queries, part.T, out=scores)
            if full > len(part):
                tile[:, len(part) :] = -torch.inf
            if hidden is not None:
                scores.masked_fill_(torch.from_numpy(hidden[:, first : first + len(part)]), -torch.inf)
            yield first, tile.view(len(queries), full // size, size)

    @cached_property
    def _rough(self) -> Tensor:
        """The vectors as products take them: themselves, or shifted to where float32 neither overflows nor vanishes."""
        if self._shift == 0:
            return self.vectors
        return (self.vectors.double() * 2.0**-self._shift).float()

    @property
    def _slack(self) -> float:
        return float32_slack(self.vectors.shape[1], self._longest * 2.0**-self._shift)

    @property
    def _shift(self) -> int:
        """The power of two that the vectors are divided by, which rounds nothing: 0 but for strange weights."""
        exponent = frexp(self._longest)[1]
        return exponent if abs(exponent) > _FAR else 0

    @cached_property
    def _longest(self) -> float:
        if self._of is not None:
            return self._of._longest
        longest = longest_norm(self.vectors)
        if not isfinite(longest):
            raise diverged("the vectors of some entities")
        return longest


def _largest(scores: Tensor, count: int) -> Tensor:
    """The `count` largest scores of each row, in descending order; the lowest number where there are fewer."""
    if scores.shape[1] < count:
        scores = functional.pad(scores, (0, count - scores.shape[1]), value=float(_LOWEST))
    return torch.topk(scores, count, dim=1).values


def _thresholds(best: NDArray[np.float32], counts: NDArray[np.int64], slack: np.float32) -> NDArray[np.float32]:
    """What a score must reach to be kept, given the largest maxima in descending order [B, most]; shape [B, 1].

    Minus infinity is no score, so it is never reached.
    """
    kth = best[np.arange(len(counts)), counts - 1]
    low: NDArray[np.float32] = np.maximum(kth - slack, _LOWEST)
    return low[:, None]


# Approximate indexes for millions of entities

ApproximateKind = Literal["hnsw", "ivf"]

MANY = 50_000
"""Candidates that an approximate index is worth its errors for; so many or fewer are searched exactly, in a few
milliseconds."""

TARGET_RECALL = 0.95
_TOP = 10
_NEIGHBOURS = 32
"""Edges of an HNSW node; faiss's own default, and hnswlib's advice for vectors of about a hundred numbers."""
_CONSTRUCTION = 100


@final
class ApproximateIndex:
    """A faiss index over all candidate vectors: a graph (HNSW) or inverted files (IVF) for inner products.

    It only shortlists; the shortlist is scored in float64 like any other. `width`, efSearch of HNSW or nprobe of IVF,
    is found when the index is built: the least at which at least 95 of 100 of the true best ten are found.
    """

    def __init__(self, kind: ApproximateKind, index: Any, width: int) -> None:
        self.kind = kind
        self.width = width
        self._index = index

    @classmethod
    def build(cls, kind: ApproximateKind, vectors: Tensor, queries: Tensor) -> tuple[ApproximateIndex, float]:
        """An index wide enough for `queries` [N, width], and the recall of the true best ten it reaches on them."""
        faiss = _faiss()
        rows = np.ascontiguousarray(vectors.numpy())
        if kind == "hnsw":
            index = faiss.IndexHNSWFlat(rows.shape[1], _NEIGHBOURS, faiss.METRIC_INNER_PRODUCT)
            index.hnsw.efConstruction = _CONSTRUCTION
        else:
            lists = max(1, min(int(4 * sqrt(len(rows))), len(rows) // 39))  # faiss wants 39 rows to train a list
            coarse = faiss.IndexFlatIP(rows.shape[1])
            index = faiss.IndexIVFFlat(coarse, rows.shape[1], lists, faiss.METRIC_INNER_PRODUCT)
            index.train(rows)
        index.add(rows)
        truth = ExactIndex(vectors)
        best = [set(_exact_top(truth, query)) for query in queries]
        for width in _widths(kind, index):
            built = cls(kind, index, width)
            found = [len(best[i] & set(built.shortlist(query, _TOP).tolist())) for i, query in enumerate(queries)]
            recall = sum(found) / max(sum(map(len, best)), 1)
            if recall >= TARGET_RECALL:
                break
        return built, recall

    @classmethod
    def load(cls, kind: ApproximateKind, path: Path, width: int) -> ApproximateIndex:
        """The index in a file, whose vectors are mapped into memory where faiss can."""
        faiss = _faiss()
        return cls(kind, faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC), width)

    @property
    def shape(self) -> tuple[int, int]:
        """How many vectors it holds, and how many numbers each has."""
        return self._index.ntotal, self._index.d

    def save(self, path: Path) -> None:
        """Write the index."""
        _faiss().write_index(self._index, str(path))

    def shortlist(self, query: Tensor, count: int, candidates: NDArray[np.int32] | None = None) -> NDArray[np.int64]:
        """About the `count` best of `candidates` (None: of all) for a query [width] float64, best first."""
        faiss = _faiss()
        allowed = None
        if candidates is not None:
            flags = np.zeros(self._index.ntotal, dtype=bool)
            flags[candidates] = True
            allowed = faiss.IDSelectorBitmap(np.packbits(flags, bitorder="little"))
        if self.kind == "hnsw":
            parameters = faiss.SearchParametersHNSW(efSearch=max(self.width, count), sel=allowed)
        else:
            parameters = faiss.SearchParametersIVF(nprobe=self.width, sel=allowed)
        _, found = self._index.search(at_norm_1(query[None]).float().numpy(), count, params=parameters)
        entities: NDArray[np.int64] = found[0][found[0] >= 0]  # faiss fills up with -1 where it finds too few
        return entities


def _widths(kind: ApproximateKind, index: Any) -> Iterator[int]:
    width, widest = (32, index.ntotal) if kind == "hnsw" else (1, index.nlist)
    while width < widest:
        yield width
        width = min(2 * width, widest)
    yield widest


def _exact_top(index: ExactIndex, query: Tensor) -> list[int]:
    _, shortlist = index.shortlists(query[None], _TOP)
    scores = index.vectors[shortlist].double() @ query
    order = np.lexsort((shortlist, -scores.numpy()))[:_TOP]
    best: list[int] = shortlist[order].tolist()
    return best


def _faiss() -> Any:
    try:
        import faiss
    except ImportError:
        raise MissingExtra("an approximate index", "faiss") from None
    return faiss


# The index in a run's folder: built once, mapped by every process that asks

IndexKind = Literal["exact", "hnsw", "ivf"]

INDEX = "index.json"
_QUERIES = 200
"""Queries that the recall of an approximate index is measured on."""


@final
class IndexRecord(BaseModel):
    """The contents of index.json; `file` lies beside it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    weights: str
    kind: IndexKind
    file: str = Field(pattern=r"^[\w.-]{1,200}$")
    width: int | None = Field(default=None, ge=1, lt=2**31, description="efSearch of hnsw or nprobe of ivf")
    recall: float = Field(default=1.0, description="share of the true best ten that is found")
    sha256: str | None = Field(default=None, description="sum of `file`; version 0.1 kept none")


@final
@dataclass(frozen=True, slots=True)
class LoadedIndex:
    """What a folder holds: the whole matrix of candidates for an exact index, or an approximate one."""

    exact: ExactIndex | None
    approximate: ApproximateIndex | None

    def copied(self) -> LoadedIndex:
        """The same with candidates of its own, no longer a view of a file; approximate ones stay as faiss maps them."""
        exact = None if self.exact is None else ExactIndex(self.exact.vectors.clone())
        return LoadedIndex(exact, self.approximate)


def build_index(folder: Path, vectors: Vectors, graph: KnowledgeGraph, kind: IndexKind, seed: int = 0) -> IndexRecord:
    """Build the index of the run in `folder`; it replaces the one there was.

    An approximate one that no question will use is built too, with a warning.
    """
    identity = weights_id(folder)
    name = f"index-{kind}-{identity[:12]}.{'safetensors' if kind == 'exact' else 'faiss'}"
    candidates = vectors.all_candidates()
    if kind == "exact":
        record = IndexRecord(weights=identity, kind=kind, file=name)
        with replacing(folder / name) as temporary:
            save_file({"candidates": candidates.contiguous()}, temporary)
    else:
        walks = sample_walks(graph, _QUERIES, lengths=(1, 3), seed=seed)
        index, recall = ApproximateIndex.build(kind, candidates, vectors.queries(walks))
        record = IndexRecord(weights=identity, kind=kind, file=name, width=index.width, recall=recall)
        with replacing(folder / name) as temporary:
            index.save(temporary)
    record = record.model_copy(update={"sha256": sha256_of(folder / name)})
    with replacing(folder / INDEX) as temporary:
        temporary.write_text(sealed(record.model_dump(mode="json")), encoding="utf-8")
    for old in folder.glob("index-*"):
        if old.name != name:
            old.unlink()
    if kind != "exact" and graph.num_entities <= MANY:
        entities = counted(graph.num_entities, "entity", "entities")
        message = (
            f"{folder} has {entities}, and questions over {MANY:,} candidates or fewer are searched exactly, in "
            f"milliseconds, so its {kind} index will not be used."
        )
        warnings.warn(message, BlockholeWarning, stacklevel=2)
    return record


def load_index(folder: Path, vectors: Vectors) -> LoadedIndex | None:
    """The index of the run in `folder`, whose vectors these are, if it has one; refuses one that cannot serve it."""
    record = read_derived(folder / INDEX, IndexRecord, _remedy(folder))
    if record is None:
        return None
    path, remedy = folder / record.file, _remedy(folder, record.kind)
    if record.weights != weights_id(folder):
        raise RunError(f"the index of {folder} was built from other weights than it has; {remedy}")
    if not path.is_file():
        raise DamagedRun(f"{path} is missing; {remedy}")
    try:
        # Before faiss reads it, which believes what it reads.
        if not is_intact(path, record.sha256, at_most=READ_AT_ONCE):
            raise DamagedRun(f"{path} is damaged: its bytes are not those that were saved; {remedy}")
        if record.kind == "exact":
            loaded, shape = _exact(path)
        else:
            loaded, shape = _approximate(record.kind, path, record.width or 1)
    except (OSError, SafetensorError, RuntimeError, MemoryError):  # faiss names the line of its source where it stopped
        raise DamagedRun(f"{path} cannot be read; {remedy}") from None
    if shape != (vectors.num_entities, vectors.width):
        raise DamagedRun(f"{path} does not fit the weights of {folder}; {remedy}")
    return loaded


def _exact(path: Path) -> tuple[LoadedIndex, tuple[int, int]]:
    with safe_open(path, framework="pt") as file:
        candidates: Tensor = file.get_tensor("candidates")
    return LoadedIndex(ExactIndex(candidates), None), (candidates.shape[0], candidates.shape[-1])


def _approximate(kind: ApproximateKind, path: Path, width: int) -> tuple[LoadedIndex, tuple[int, int]]:
    index = ApproximateIndex.load(kind, path, width)
    return LoadedIndex(None, index), index.shape


def _remedy(folder: Path, kind: str | None = None) -> str:
    """The command that builds an index again: of the `kind` given, or of the file that lies there."""
    kind = kind or next((path.name.split("-")[1] for path in sorted(folder.glob("index-*-*"))), "exact")
    return f"build it again with: blockhole index {quote(str(folder))} --kind {kind}"
