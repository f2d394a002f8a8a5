"""Approximate indexes for millions of entities: faiss graphs (HNSW) and inverted files (IVF) for inner products.

They only shortlist; the shortlist is scored in float64 like any other. How wide to search is found when an index is
built: the least width at which at least 95 of 100 of the true best ten are found.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import sqrt
from pathlib import Path
from typing import Any, Literal, final

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from blockhole.answering.exact import ExactIndex
from blockhole.errors import MissingExtra

ApproximateKind = Literal["hnsw", "ivf"]

TARGET_RECALL = 0.95
_TOP = 10
_NEIGHBOURS = 32
"""Edges of an HNSW node; faiss's own default, and hnswlib's advice for vectors of about a hundred numbers."""
_CONSTRUCTION = 100


@final
class ApproximateIndex:
    """A faiss index over all candidate vectors; `width` is efSearch of HNSW or nprobe of IVF."""

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
        _, found = self._index.search(query[None].float().numpy(), count, params=parameters)
        entities: NDArray[np.int64] = found[0][found[0] >= 0]  # faiss fills up with -1 where it finds too few
        return entities


def _widths(kind: ApproximateKind, index: Any) -> Iterator[int]:
    width, widest = (32, index.ntotal) if kind == "hnsw" else (1, index.nlist)
    while width < widest:
        yield width
        width = min(2 * width, widest)
    yield widest


def _exact_top(index: ExactIndex, query: Tensor) -> list[int]:
    shortlist = index.shortlist(query, _TOP)
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
