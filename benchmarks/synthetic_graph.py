"""Graphs of any size, written block by block: sources, targets and relations follow power laws.

    python -m benchmarks.synthetic_graph --edges 200000000 --entities 20000000 big.parquet

The suffix tells the format, .parquet or .nt. Entity i of E has a density proportional to (i / E)^(1/a - 1), a = 2 as
source and a = 3 as target, so that there are hubs, as in real graphs; the ids are then scattered, so that hubs do not
lie side by side. Blocks are a function of the seed and their place, so memory is that of one block.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from blockhole.packed.adjacency import GrowingArray, write_adjacency
from blockhole.packed.folder import ENTITIES, FORMAT, RECORD, RELATIONS

if TYPE_CHECKING:
    import polars as pl

ROWS = 1_000_000


def blocks(edges: int, entities: int, relations: int, seed: int) -> Iterator[NDArray[np.int64]]:
    """The facts as ids, [rows, 3] a block."""
    stride = _coprime(entities)
    for number, first in enumerate(range(0, edges, ROWS)):
        rng = np.random.default_rng((seed, number))
        count = min(ROWS, edges - first)
        ids = np.empty((count, 3), dtype=np.int64)
        for column, (size, power) in enumerate(((entities, 2), (relations, 3), (entities, 3))):
            ids[:, column] = size * rng.random(count) ** power
        ids[:, 0::2] = ids[:, 0::2] * stride % entities
        yield ids


def write_parquet(path: Path, edges: int, entities: int, relations: int, seed: int) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([(name, pa.string()) for name in ("source", "relation", "target")])
    with pq.ParquetWriter(path, schema, compression="zstd", compression_level=1) as file:
        for ids in blocks(edges, entities, relations, seed):
            file.write_table(_named(ids, "Q{}", "P{}").to_arrow().cast(schema))


def write_ntriples(path: Path, edges: int, entities: int, relations: int, seed: int) -> None:
    import polars as pl

    entity, relation = "<http://example.org/entity/Q{}>", "<http://example.org/prop/P{}>"
    with path.open("wb") as file:
        for ids in blocks(edges, entities, relations, seed):
            lines = _named(ids, entity, relation).with_columns(end=pl.lit("."))
            lines.write_csv(file, separator=" ", include_header=False, quote_style="never")


def write_packed(folder: Path, edges: int, entities: int, relations: int, memory: int, seed: int = 0) -> None:
    """Write a packed graph at once, its names being the numbers of the ids: as `pack` would, without reading names."""
    import polars as pl

    folder.mkdir()
    with GrowingArray(folder / "train.npy", np.int32, (3,)) as facts:
        for ids in blocks(edges, entities, relations, seed):
            facts.append(ids)
    for file, count in ((ENTITIES, entities), (RELATIONS, relations)):
        pl.select(id=pl.int_range(count, dtype=pl.Int32), name=pl.int_range(count).cast(pl.String)).write_parquet(
            folder / file
        )
    both_ways = write_adjacency(folder / "train.npy", folder, entities, relations, memory)
    counts = {"entities": entities, "relations": relations, "facts": edges, "edges": both_ways}
    (folder / RECORD).write_text(json.dumps({"format": FORMAT, **counts}), encoding="utf-8")


def write(path: Path, edges: int, entities: int, relations: int = 1000, seed: int = 0) -> None:
    """Write a graph in the format of the suffix."""
    (write_parquet if path.suffix == ".parquet" else write_ntriples)(path, edges, entities, relations, seed)


def _named(ids: NDArray[np.int64], entity: str, relation: str) -> pl.DataFrame:
    import polars as pl

    frame = pl.DataFrame(ids, schema=["source", "relation", "target"])
    return frame.select(
        source=pl.format(entity, "source"), relation=pl.format(relation, "relation"), target=pl.format(entity, "target")
    )


def _coprime(size: int) -> int:
    """A step near the golden section of `size` that reaches every id before it comes back."""
    return next(step for step in range(max(1, int(size * 0.618)), 2 * size + 2) if np.gcd(step, size) == 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path)
    parser.add_argument("--edges", type=int, required=True)
    parser.add_argument("--entities", type=int, required=True)
    parser.add_argument("--relations", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    start = time.perf_counter()
    write(options.path, options.edges, options.entities, options.relations, options.seed)
    megabytes = round(options.path.stat().st_size / 1e6, 1)
    print(json.dumps({"seconds": round(time.perf_counter() - start, 1), "megabytes": megabytes}))


if __name__ == "__main__":
    main()
