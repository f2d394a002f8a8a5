"""Candidate vectors kept beside a run, whole or in an approximate index (faiss) that proposes the likeliest."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from math import log2, sqrt
from pathlib import Path
from shlex import quote
from typing import Any, Literal, NamedTuple, final

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field
from safetensors import SafetensorError

from blockhole.answering.vectors import Floats, Table, Vectors
from blockhole.errors import BlockholeWarning, DamagedRun, MissingExtra, RunError, counted
from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.queries.walks import sample_walks
from blockhole.runs.checkpoint import weights_id
from blockhole.runs.folder import map_safetensors, read_derived
from blockhole.saving import READ_AT_ONCE, is_intact, replacing, sealed, sha256_of

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
_TRAINED = 64
"""Vectors for each inverted list that k-means looks at: a quarter of what faiss takes, and no recall is lost."""
_ADDED = 10_000
"""Vectors that are added at a time, after which progress is heard of."""

Progress = Callable[[int, int], None]
"""Hears how many vectors an index holds, of how many."""


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
    def build(
        cls, kind: ApproximateKind, vectors: Table, queries: Floats, progress: Progress = lambda done, total: None
    ) -> tuple[ApproximateIndex, float]:
        """An index wide enough for `queries` [N, width], and the recall of the true best ten it reaches on them."""
        faiss = _faiss()
        rows = np.ascontiguousarray(vectors)
        if kind == "hnsw":
            index = faiss.IndexHNSWFlat(rows.shape[1], _NEIGHBOURS, faiss.METRIC_INNER_PRODUCT)
            index.hnsw.efConstruction = _CONSTRUCTION
        else:
            coarse = faiss.IndexFlatIP(rows.shape[1])
            index = faiss.IndexIVFFlat(coarse, rows.shape[1], _lists(len(rows)), faiss.METRIC_INNER_PRODUCT)
            index.cp.max_points_per_centroid = _TRAINED
            index.train(rows)
        for first in range(0, len(rows), _ADDED):
            progress(first, len(rows))
            index.add(rows[first : first + _ADDED])
        progress(len(rows), len(rows))
        best = _exact_tops(vectors, queries)
        for width in _widths(kind, index):
            built = cls(kind, index, width)
            found = built.shortlists(queries, _TOP)
            met = sum(len(np.intersect1d(own, true)) for own, true in zip(found, best, strict=True))
            recall = met / max(sum(map(len, best)), 1)
            if recall >= TARGET_RECALL:
                break
        return built, recall

    @classmethod
    def load(cls, kind: ApproximateKind, path: Path, width: int) -> ApproximateIndex:
        """The index in a file, whose vectors are mapped into memory where faiss can."""
        faiss = _faiss()
        index = faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC)
        if not isinstance(index, faiss.IndexHNSW if kind == "hnsw" else faiss.IndexIVF):
            raise RuntimeError(f"{path} holds an index of another kind than {kind}")
        # faiss makes room for as many as it is told to look at, whether there are so many or not.
        return cls(kind, index, min(width, max(index.ntotal, 1)))

    @property
    def shape(self) -> tuple[int, int]:
        """How many vectors it holds, and how many numbers each has."""
        return self._index.ntotal, self._index.d

    def save(self, path: Path) -> None:
        """Write the index."""
        write_faiss(self._index, path)

    def shortlists(self, queries: Floats, count: int, candidates: NDArray[np.int32] | None = None) -> NDArray[np.int64]:
        """About the `count` best of `candidates` (None: of all) for each query: [N, width] float64 → [N, count].

        Best first; -1 fills up a row for which too few are found.
        """
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
        # Products keep their order under a factor, and float32 does not reach as far as float64.
        most = np.abs(queries).max(axis=1, keepdims=True)
        scaled = (queries / np.where(most > 0, most, 1.0)).astype(np.float32)
        found: NDArray[np.int64] = self._index.search(scaled, count, params=parameters)[1]
        return found


def _widths(kind: ApproximateKind, index: Any) -> Iterator[int]:
    width, widest = (32, index.ntotal) if kind == "hnsw" else (1, index.nlist)
    while width < widest:
        yield width
        width = min(2 * width, widest)
    yield widest


def _lists(count: int) -> int:
    """How many inverted lists so many vectors get; faiss wants 39 of them to train a list."""
    return max(1, min(int(4 * sqrt(count)), count // 39))


def _exact_tops(vectors: Table, queries: Floats) -> list[NDArray[np.intp]]:
    """The best ten of all vectors for each query, part by part of the table: [E, width], [N, width] → N × [10]."""
    score: Floats = np.zeros((len(queries), 0))
    place: NDArray[np.intp] = np.zeros((len(queries), 0), dtype=np.intp)
    for first in range(0, len(vectors), _PART):
        part = queries @ vectors[first : first + _PART].astype(np.float64).T
        score = np.concatenate([score, part], axis=1)
        own = np.broadcast_to(np.arange(first, first + part.shape[1]), part.shape)
        place = np.concatenate([place, own], axis=1)
        if score.shape[1] > _TOP:
            best = np.argpartition(-score, _TOP - 1, axis=1)[:, :_TOP]
            score, place = np.take_along_axis(score, best, axis=1), np.take_along_axis(place, best, axis=1)
    return list(place)


_PART = 2**14


def faiss_for(feature: str) -> Any:
    """The library, or the sentence that says how to get it."""
    try:
        import faiss
    except ImportError:
        raise MissingExtra(feature, "faiss") from None
    return faiss


_faiss = partial(faiss_for, "an approximate index")


def write_faiss(index: Any, path: Path) -> None:
    """Write an index of faiss, whose own files do not tell when their last bytes find no room."""
    with path.open("wb") as file:
        _faiss().write_index(index, _faiss().PyCallbackIOWriter(file.write))


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
    file: str = Field(pattern=r"^[\w.-]+$", max_length=200)  # as {1,200} the pattern takes 0.1 s to compile
    width: int | None = Field(default=None, ge=1, lt=2**31, description="efSearch of hnsw or nprobe of ivf")
    recall: float = Field(default=1.0, description="share of the true best ten that is found")
    sha256: str | None = Field(default=None, description="sum of `file`; version 0.1 kept none")


@final
@dataclass(frozen=True, slots=True)
class LoadedIndex:
    """What a folder holds: the whole matrix of candidates for an exact index, or an approximate one."""

    exact: Table | None
    approximate: ApproximateIndex | None

    def copied(self) -> LoadedIndex:
        """The same with candidates of its own, no longer a view of a file; approximate ones stay as faiss maps them."""
        exact = None if self.exact is None else self.exact.copy()
        return LoadedIndex(exact, self.approximate)


class IndexCost(NamedTuple):
    """About how long an index takes one core, and how large it is: an order of magnitude, known before it is built."""

    seconds: float
    bytes: int


def index_cost(kind: IndexKind, count: int, width: int) -> IndexCost:
    """What an index of `count` vectors of `width` numbers will cost.

    The factors are of a million vectors of 100 numbers (HNSW: of 100,000) on one core of a server.
    """
    bytes_ = 4 * count * width
    if kind == "exact":
        return IndexCost(bytes_ / 1e9, bytes_)
    wide = (width + 50) / 150  # what does not depend on the width of a vector takes as long as fifty numbers
    if kind == "hnsw":
        return IndexCost(2.5e-5 * count * log2(count + 1) * wide, bytes_ + 8 * _NEIGHBOURS * count)
    trained = min(count, _TRAINED * _lists(count)) * _KMEANS + count
    return IndexCost(2.9e-9 * trained * _lists(count) * wide, bytes_ + 8 * count)


_KMEANS = 10
"""Rounds of faiss's k-means."""


def build_index(
    folder: Path,
    vectors: Vectors,
    graph: KnowledgeGraph,
    kind: IndexKind,
    seed: int = 0,
    progress: Progress = lambda done, total: None,
) -> IndexRecord:
    """Build the index of the run in `folder`; it replaces the one there was.

    An approximate one that no question will use is built too, with a warning. `progress` hears how many vectors it
    holds as they are added; the lists of ivf are found before that.
    """
    identity = weights_id(folder)
    name = f"index-{kind}-{identity[:12]}.{'safetensors' if kind == 'exact' else 'faiss'}"
    candidates = vectors.all_candidates()
    if kind == "exact":
        from safetensors.numpy import save

        record = IndexRecord(weights=identity, kind=kind, file=name)
        with replacing(folder / name) as temporary:
            temporary.write_bytes(save({"candidates": np.ascontiguousarray(candidates)}))
    else:
        walks = sample_walks(graph, _QUERIES, lengths=(1, 3), seed=seed)
        index, recall = ApproximateIndex.build(kind, candidates, vectors.queries(walks), progress)
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
    candidates = map_safetensors(path).get("candidates", np.zeros((0, 0), dtype=np.float32))
    return LoadedIndex(candidates, None), (candidates.shape[0], candidates.shape[-1])


def _approximate(kind: ApproximateKind, path: Path, width: int) -> tuple[LoadedIndex, tuple[int, int]]:
    index = ApproximateIndex.load(kind, path, width)
    return LoadedIndex(None, index), index.shape


def _remedy(folder: Path, kind: str | None = None) -> str:
    """The command that builds an index again: of the `kind` given, or of the file that lies there."""
    kind = kind or next((path.name.split("-")[1] for path in sorted(folder.glob("index-*-*"))), "exact")
    return f"build it again with: blockhole index {quote(str(folder))} --kind {kind}"
