"""Files of path queries in the notation of Guu et al. 2015: `source⇥r1,**r2,r3⇥target`, `**` marking an inverse.

As text (`.tsv`, optionally compressed) or as Parquet with the columns source, path, target. Millions of lines hold few
distinct paths, so each path is taken apart once, and no line becomes a Python object.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from blockhole.errors import DataError, MalformedFile
from blockhole.graph.blocks import text_blocks
from blockhole.graph.compressed import open_compressed
from blockhole.graph.encoding import NameTable
from blockhole.graph.formats import FileFormat, Layout, format_of
from blockhole.graph.readers import read_facts
from blockhole.graph.replacing import replacing
from blockhole.graph.vocabulary import Vocabulary
from blockhole.paths.distinct import path_codes
from blockhole.paths.queries import PathQueries

if TYPE_CHECKING:
    import polars as pl

INVERSE = "**"
HOP_SEPARATOR = ","


def read_paths(path: Path | str, entities: Vocabulary, relations: Vocabulary) -> PathQueries:
    """The path queries of a file, none where it is empty; every name must be in the vocabularies."""
    import polars as pl

    path = Path(path)
    entity_names = pl.Enum(entities.names)
    paths = NameTable("path")
    ids: dict[str, list[NDArray[np.int32]]] = {
        column: [np.zeros(0, dtype=np.int32)] for column in ("source", "path", "target")
    }
    for block in _blocks(path):
        for column in ("source", "target"):
            found = block[column].cast(entity_names, strict=False)
            if found.null_count():
                raise _unknown(path, column, block[column].filter(found.is_null())[0], entities)
            ids[column].append(found.to_physical().cast(pl.Int32).to_numpy())
        ids["path"].append(paths.number(block["path"]).astype(np.int32))
    hops, length = _parse_paths(path, paths.vocabulary().names, relations)
    which = np.concatenate(ids["path"])
    return PathQueries(np.concatenate(ids["source"]), hops[which], length[which], np.concatenate(ids["target"]))


def _blocks(path: Path) -> Iterator[pl.DataFrame]:
    _format_of(path)
    for block in read_facts(path):
        if "positive" in block.columns:
            raise MalformedFile(path, "4 columns instead of 3", "write source, r1,**r2 and target, separated by tabs")
        yield block.rename({"relation": "path"})


def _format_of(path: Path) -> FileFormat:
    file_format = format_of(path)
    if file_format.layout not in (Layout.TSV, Layout.PARQUET):
        raise DataError(f"{path}: path queries are kept as .tsv, .tsv.gz, .tsv.zst or .parquet; use one of these.")
    return file_format


def _parse_paths(
    path: Path, texts: Sequence[str], relations: Vocabulary
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Relation ids and lengths of distinct paths; shapes [paths, K], [paths]."""
    ids = {name: i for i, name in enumerate(relations)}
    ids |= {INVERSE + name: i + len(relations) for i, name in enumerate(relations)}
    parsed = []
    for text in texts:
        try:
            parsed.append([ids[hop] for hop in text.split(HOP_SEPARATOR)])
        except KeyError as missing:
            raise _bad_hop(path, text, str(missing.args[0]), relations) from None
    length = np.array([len(hops) for hops in parsed], dtype=np.int32)
    padded = np.zeros((len(parsed), length.max(initial=1)), dtype=np.int32)
    padded[np.arange(padded.shape[1]) < length[:, None]] = [hop for hops in parsed for hop in hops]
    return padded, length


def _bad_hop(path: Path, text: str, hop: str, relations: Vocabulary) -> MalformedFile:
    name = hop.removeprefix(INVERSE)
    if name:
        return _unknown(path, "path", text, relations, name)
    return MalformedFile(
        path, f"path {text!r} has an empty hop", "write r1,**r2,r3 without gaps", _line_of(path, "path", text)
    )


def _unknown(path: Path, column: str, field: str, known: Vocabulary, name: str | None = None) -> MalformedFile:
    """What to say of a field that is, or that holds, an unknown name."""
    name = field if name is None else name
    near = known.nearest(name, 1)
    remedy = f"did you mean {near[0]!r}" if near else f"it must be one of the data set's {len(known)}"
    return MalformedFile(path, f"unknown {known.kind} {name!r}", remedy, _line_of(path, column, field))


def _line_of(path: Path, column: str, field: str) -> int | None:
    """The first line with that field: the file is read again, but only to explain what is wrong with it."""
    file_format = _format_of(path)
    if file_format.layout is Layout.PARQUET:
        return None
    position = ("source", "path", "target").index(column)
    for block in text_blocks(path, file_format.compression):
        for line, text in enumerate(block.data.decode().split("\n"), block.first_line):
            if text.removesuffix("\r").split("\t")[position : position + 1] == [field]:
                return line
    return None


def write_paths(queries: PathQueries, path: Path | str, entities: Vocabulary, relations: Vocabulary) -> None:
    """Write path queries to a `.tsv` (optionally `.gz` or `.zst`) or `.parquet` file, which appears when complete."""
    path = Path(path)
    file_format = _format_of(path)
    table = _table(path, queries, entities, relations, plain_text=file_format.layout is Layout.TSV)
    with replacing(path) as temporary:
        if file_format.layout is Layout.PARQUET:
            table.write_parquet(temporary, compression="zstd")
        else:
            with open_compressed(temporary, file_format.compression) as file:
                table.write_csv(file, include_header=False, separator="\t", quote_style="never")


def _table(
    path: Path, queries: PathQueries, entities: Vocabulary, relations: Vocabulary, *, plain_text: bool
) -> pl.DataFrame:
    """The queries in names: columns source, path, target."""
    import polars as pl

    names = pl.Series(entities.names, dtype=pl.String)
    codes = pl.DataFrame({"code": path_codes(queries)})
    distinct = codes.with_row_index("row").unique("code", maintain_order=True)
    rows = distinct["row"].to_numpy()
    parts = [hops[:length] for hops, length in zip(queries.path[rows].tolist(), queries.length[rows], strict=True)]
    hop_names = [*relations, *(INVERSE + name for name in relations)]
    used_relations = [relations[relation] for relation in {hop % len(relations) for hops in parts for hop in hops}]
    _refuse_names(path, relations.kind, used_relations, rf"[{HOP_SEPARATOR}\t\n\r]|^{re.escape(INVERSE)}|^$")
    if plain_text:
        used = np.unique(np.concatenate([queries.source, queries.target]))
        _refuse_names(path, entities.kind, names.gather(used), r"[\t\n\r]|^$")
    texts = [HOP_SEPARATOR.join(hop_names[hop] for hop in hops) for hops in parts]
    return codes.join(
        distinct.select("code", path=pl.Series(texts, dtype=pl.String)), on="code", maintain_order="left"
    ).select(source=names.gather(queries.source), path="path", target=names.gather(queries.target))


def _refuse_names(path: Path, kind: str, names: Iterable[str], awkward: str) -> None:
    pattern = re.compile(awkward)
    for name in names:
        if pattern.search(name):
            raise DataError(
                f"{path}: the {kind} {name!r} cannot be written to a path file, where commas, tabs, line ends and a "
                f"leading {INVERSE} have a meaning; rename it."
            )
