"""Candidate vectors as Parquet, NumPy and faiss files. A query vector of `Engine.query_vector` searches all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from blockhole.answering.engine import Engine
from blockhole.errors import MissingExtra
from blockhole.graph.replacing import replacing

FileKind = Literal["parquet", "npz", "faiss"]


def export_file(engine: Engine, kind: FileKind, path: Path) -> None:
    """Write the names and vectors of all entities to `path`, whole or not at all."""
    vectors: NDArray[np.float32] = engine.index.vectors.numpy()
    with replacing(path) as temporary:
        match kind:
            case "parquet":
                _write_parquet(engine, vectors, temporary)
            case "npz":
                with temporary.open("wb") as file:
                    np.savez(
                        file,
                        entity=np.array(engine.graph.entities.names, dtype=np.str_),
                        relation=np.array(engine.graph.relations.names, dtype=np.str_),
                        vector=vectors,
                    )
            case "faiss":
                _write_faiss(vectors, temporary)


def _write_parquet(engine: Engine, vectors: NDArray[np.float32], path: Path) -> None:
    """Columns id, name, vector (a fixed-size list of float32)."""
    import polars as pl

    pl.DataFrame(
        {
            "id": np.arange(len(vectors), dtype=np.int32),
            "name": list(engine.graph.entities.names),
            "vector": pl.Series(vectors, dtype=pl.Array(pl.Float32, vectors.shape[1])),
        }
    ).write_parquet(path)


def _write_faiss(vectors: NDArray[np.float32], path: Path) -> None:
    """A flat index for inner products; its ids are those of the run's vocabulary."""
    try:
        import faiss
    except ImportError:
        raise MissingExtra("exporting to faiss", "faiss") from None

    index: Any = faiss.IndexFlatIP(vectors.shape[1])
    index.add(np.ascontiguousarray(vectors))
    faiss.write_index(index, str(path))
