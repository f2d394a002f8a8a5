"""Bytes of memory that a name takes while a graph is packed, and while one is read, at several sizes and lengths.

    python -m benchmarks.scale_names > benchmarks/results/scale_names.json

Each table is filled in a process of its own. Tables grow in steps, so that a name's bytes depend on how full they are.
"""

from __future__ import annotations

import json
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from multiprocessing import get_context
from pathlib import Path

import polars as pl

from blockhole.files.readers import NameTable, Numbering
from blockhole.machine import resident_bytes
from blockhole.packed.numbering import PackedNames

BLOCK = 500_000
SIZES = [
    (True, 3_000_000, 8),
    (True, 12_000_000, 8),
    (True, 12_000_000, 40),
    (False, 3_000_000, 8),
    (False, 3_000_000, 40),
]
"""Whether names are packed, how many, and letters of each."""


def bytes_per_name(names: int, letters: int, *, packed: bool) -> float:
    """How much the process grows by, while distinct names are numbered block by block."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        table: Numbering = NameTable("entity")
        if packed:
            table = stack.enter_context(PackedNames(folder / "names.parquet"))
        table.number(_block(0, letters))
        before = resident_bytes()
        for first in range(BLOCK, BLOCK + names, BLOCK):
            table.number(_block(first, letters))
        return (resident_bytes() - before) / names


def _block(first: int, letters: int) -> pl.Series:
    return pl.int_range(first, first + BLOCK, eager=True).cast(pl.String).str.pad_start(letters, "Q")


def main() -> None:
    rows = []
    for packed, names, letters in SIZES:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
            found = process.submit(bytes_per_name, names, letters, packed=packed).result()
        rows.append({"packed": packed, "names": names, "letters": letters, "bytes_per_name": round(found, 1)})
        print(rows[-1], file=sys.stderr)
    print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
