"""How many facts a file holds, without reading it: told by Parquet, guessed from the first lines of a text."""

from __future__ import annotations

from pathlib import Path

from blockhole.graph.blocks import text_blocks
from blockhole.graph.compressed import compressed_size, require_file
from blockhole.graph.formats import Layout, format_of


def estimate_facts(path: Path) -> int:
    """The number of rows of a Parquet file; of a text, its size over the mean size of a line in its first block."""
    require_file(path)
    file_format = format_of(path)
    if file_format.layout is Layout.PARQUET:
        import polars as pl

        return int(pl.scan_parquet(path, glob=False).select(pl.len()).collect().item())
    sample = next((block.data for block in text_blocks(path, file_format.compression)), b"\n")
    lines = max(1, sample.count(b"\n"))
    return -(-path.stat().st_size * lines // compressed_size(sample, file_format.compression))
