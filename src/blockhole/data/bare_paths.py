"""Data sets published as path queries only, as Guu et al. 2015 did: the facts are the queries of length 1."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from blockhole.graph.encoding import Encoder
from blockhole.graph.readers import read_facts
from blockhole.graph.split import SplitGraph
from blockhole.paths.guu import HOP_SEPARATOR, INVERSE

if TYPE_CHECKING:
    import polars as pl


def split_of_parts(part_files: Mapping[str, Path]) -> SplitGraph:
    """The split graph behind the parts of path queries: train, and dev and test of both kinds."""
    encoder = Encoder()
    splits = []
    for prefix in ("train", "dev", "test"):
        facts, _ = encoder.encode(_facts(path for part, path in part_files.items() if part.startswith(prefix)))
        splits.append(facts)
    entities, relations = encoder.vocabularies()
    return SplitGraph(entities, relations, *splits)


def _facts(files: Iterator[Path]) -> Iterator[pl.DataFrame]:
    import polars as pl

    path = pl.col("relation")
    for file in files:
        for block in read_facts(file):
            several = path.str.contains(HOP_SEPARATOR, literal=True)
            yield block.filter(~(several | path.str.starts_with(INVERSE)))
