"""Path data sets after Guu et al. 2015: their parts, their files, and how to build them from any graph."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, final

import numpy as np
from numpy.typing import NDArray

from blockhole.errors import DataError, MalformedFile, QueryError, QuerySyntaxError, UnknownName, quoted
from blockhole.files.formats import FileFormat, Layout, bare_name, format_of, known_format, open_compressed, text_blocks
from blockhole.files.readers import NameTable, read_facts
from blockhole.graph.knowledge_graph import SplitGraph
from blockhole.graph.vocabulary import Vocabulary
from blockhole.queries.exact import holds
from blockhole.queries.language import encode_entity, encode_hop, encode_path, lex, pieces, typed_hop, write_name
from blockhole.queries.paths import PathQueries, path_codes, query_codes
from blockhole.queries.walks import sample_walks
from blockhole.saving import replacing, replacing_folder

if TYPE_CHECKING:
    import polars as pl


# A path data set: train, and two kinds each of dev and test.


@final
@dataclass(frozen=True, slots=True, eq=False)
class PathSplits:
    """The five parts of a path data set.

    *Deduction*: the target can be reached from the source along the path in the train graph. *Induction*: it cannot,
    so every query of length 1 in dev and test is induction.
    """

    train: PathQueries
    dev_deduction: PathQueries
    dev_induction: PathQueries
    test_deduction: PathQueries
    test_induction: PathQueries

    def counts(self) -> dict[str, int]:
        """How many queries each part has."""
        return {part: len(getattr(self, part)) for part in PATH_PARTS}


PATH_PARTS = tuple(field.name for field in fields(PathSplits))


# Files of path queries in the notation of Guu et al. 2015: `source⇥r1,**r2,r3⇥target`, `**` marking an inverse.
#
# As text (`.tsv`, optionally compressed) or as Parquet with the columns source, path, target. Millions of lines hold
# few distinct paths, so each path is taken apart once, and no line becomes a Python object.


INVERSE = "**"
HOP_SEPARATOR = ","


def read_paths(path: Path | str, entities: Vocabulary, relations: Vocabulary) -> PathQueries:
    """The path queries of a file, none where it is empty; every name must be in the vocabularies.

    Names stand as they are, and are understood as queries write them too, inverse marks and paths included.
    """
    import polars as pl

    path = Path(path)
    entity_names = pl.Enum(entities.names)
    paths = NameTable("path")
    ids: dict[str, list[NDArray[np.int32]]] = {
        column: [np.zeros(0, dtype=np.int32)] for column in ("source", "path", "target")
    }
    for block in _blocks(path):
        for column in ("source", "target"):
            found = block[column].cast(entity_names, strict=False).to_physical().cast(pl.Int32)
            if found.null_count():
                others = block[column].filter(found.is_null()).unique(maintain_order=True)
                written = {text: _entity(path, column, text, entities, relations) for text in others}
                found = found.fill_null(block[column].replace_strict(written, default=None, return_dtype=pl.Int32))
            ids[column].append(found.to_numpy())
        ids["path"].append(paths.number(block["path"]).astype(np.int32))
    hops, length = _parse_paths(path, paths.vocabulary().names, relations)
    which = np.concatenate(ids["path"])
    return PathQueries(np.concatenate(ids["source"]), hops[which], length[which], np.concatenate(ids["target"]))


def _entity(path: Path, column: str, text: str, entities: Vocabulary, relations: Vocabulary) -> int:
    try:
        return encode_entity(text, entities, relations)
    except QueryError as wrong:
        raise _bad_field(path, column, text, wrong, entities) from None


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
    notation = _Notation(relations)
    parsed = []
    for text in texts:
        try:
            parsed.append(notation.read(text))
        except QueryError as wrong:
            raise _bad_field(path, "path", text, wrong, relations) from None
    length = np.array([len(hops) for hops in parsed], dtype=np.int32)
    padded = np.zeros((len(parsed), length.max(initial=1)), dtype=np.int32)
    padded[np.arange(padded.shape[1]) < length[:, None]] = [hop for hops in parsed for hop in hops]
    return padded, length


@final
class _Notation:
    """Paths as files hold them: in Guu's notation, or else as queries write them."""

    def __init__(self, relations: Vocabulary) -> None:
        self._relations = relations
        named = {name: i for i, name in enumerate(relations) if name and not name.startswith((INVERSE, "^"))}
        self._ids = named | {INVERSE + name: i + len(relations) for name, i in named.items()}
        # Hops whose names stand between commas as they are: nearly all of nearly every graph.
        self._plain = {hop: text for text, hop in self._ids.items() if not _BETWEEN.search(text)}

    def read(self, text: str) -> list[int]:
        """The relation ids of hops between commas, or of a path between slashes."""
        try:
            return [self._ids[hop] for hop in text.split(HOP_SEPARATOR)]
        except KeyError:
            hops = cut_path(text)
        try:
            return [encode_hop(hop, self._relations) for hop in hops]
        except UnknownName:
            if len(hops) > 1 or not _is_path(text):
                raise
        return encode_path(text, self._relations)

    def write(self, hops: Sequence[int]) -> str | None:
        """The text that is read as these relation ids; none where no text is."""
        try:
            return HOP_SEPARATOR.join([self._plain[hop] for hop in hops])
        except KeyError:
            pass
        for spell in (str, write_name):
            names = [INVERSE * (hop >= len(self._relations)) + spell(self._name(hop)) for hop in hops]
            text = HOP_SEPARATOR.join(names)
            if self._reads_as(text, hops):
                return text
        return None

    def _name(self, hop: int) -> str:
        return self._relations[hop % len(self._relations)]

    def _reads_as(self, text: str, hops: Sequence[int]) -> bool:
        try:
            return not _BETWEEN_FIELDS.search(text) and self.read(text) == list(hops)
        except QueryError:
            return False


_BETWEEN_FIELDS = re.compile(r"[\t\n\r]")
_BETWEEN = re.compile(rf"[{HOP_SEPARATOR}\t\n\r]")


def _is_path(text: str) -> bool:
    return len(pieces(text)) > 1 and all(piece.name for piece in pieces(f"/{text}")[1:])


def cut_path(text: str) -> list[str]:
    """The hops of a path in Guu's notation: what is between commas that no quotes enclose."""
    commas = [
        token.column + at
        for token in lex(text)
        if token.kind == "bare"
        for at, character in enumerate(token.inside)
        if character == HOP_SEPARATOR
    ]
    return [text[first:last] for first, last in zip([0, *(at + 1 for at in commas)], [*commas, len(text)], strict=True)]


def _bad_field(path: Path, column: str, text: str, wrong: QueryError, known: Vocabulary) -> MalformedFile:
    """What to say of a field that cannot be read, or that holds an unknown name."""
    line = _line_of(path, column, text)
    if isinstance(wrong, UnknownName) and wrong.name:
        near = [f"did you mean {quoted(name)}?" for name in wrong.nearest]
        remedy = near[0] if near else f"it must be one of the data set's {len(known):,}"
        return MalformedFile(path, f"unknown {known.kind} {quoted(wrong.name)}", remedy, line)
    if column == "path" and not all(typed_hop(hop).name.strip() for hop in cut_path(text)):
        return MalformedFile(path, f"path {quoted(text)} has an empty hop", "write r1,**r2,r3 without gaps", line)
    problem = wrong.problem if isinstance(wrong, QuerySyntaxError) else str(wrong)
    return MalformedFile(path, f"{column} {quoted(text)} cannot be read", problem, line)


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
    if plain_text:
        used = np.unique(np.concatenate([queries.source, queries.target]))
        _refuse(path, entities.kind, [name for name in names.gather(used) if not name or _BETWEEN_FIELDS.search(name)])
    notation = _Notation(relations)
    texts = [notation.write(hops) for hops in parts]
    lost = [hop for hops, text in zip(parts, texts, strict=True) if text is None for hop in hops]
    lost.sort(key=lambda hop: notation.write([hop]) is not None)  # the one to blame first
    _refuse(path, relations.kind, [relations[hop % len(relations)] for hop in lost])
    return codes.join(
        distinct.select("code", path=pl.Series(texts, dtype=pl.String)), on="code", maintain_order="left"
    ).select(source=names.gather(queries.source), path="path", target=names.gather(queries.target))


def _refuse(path: Path, kind: str, names: Sequence[str]) -> None:
    if names:
        raise DataError(
            f"{path}: the {kind} {quoted(names[0])} cannot be written to a path file, where commas, tabs and line ends "
            "have a meaning; rename it."
        )


# A folder of path queries: one file for each part, `train.parquet` and four `.tsv`.


def find_part_files(folder: Path) -> dict[str, Path]:
    """The file of each part that `folder` holds, in any format; none where there is no such folder."""
    found: dict[str, Path] = {}
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        part = bare_name(path)
        if part not in PATH_PARTS or known_format(path) is None:
            continue
        if part in found:
            raise DataError(f"{folder} holds {part} twice, as {found[part].name} and {path.name}; keep one of them.")
        found[part] = path
    return found


def write_path_splits(splits: PathSplits, folder: Path, entities: Vocabulary, relations: Vocabulary) -> None:
    """Write the five parts into a new or empty folder, which appears when all are written."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise DataError(f"{folder.resolve()} exists already; name a new or an empty folder.")
    with replacing_folder(folder) as fresh:
        for part in PATH_PARTS:
            # Train is many times larger than the rest together; the rest stays readable at a glance.
            suffix = "parquet" if part == "train" else "tsv"
            write_paths(getattr(splits, part), fresh / f"{part}.{suffix}", entities, relations)


# Path data sets from any graph with a train/valid/test split, by the procedure of Guu et al. 2015.


def build_paths(
    split: SplitGraph,
    *,
    lengths: tuple[int, int] = (2, 5),
    train_factor: int = 20,
    eval_factor: int = 4,
    seed: int = 0,
) -> PathSplits:
    """Sample a path data set; each part sorted by (source, path, target).

    1. The graphs are train, train + valid, and train + test.
    2. Train, dev and test start from their own triples as paths of length 1 and add walks on their own graph:
       `train_factor` for each line of train, `eval_factor` for each line of valid and of test.
    3. Each query counts once; dev loses what train has, and test what train or dev has.
    4. Deduction is what the train graph can answer, induction the rest.
    """
    if not len(split.train):
        raise DataError("train has no facts, so there are no paths to build; give it at least one.")
    train_graph = split.graph("train")
    dev_seed, test_seed = np.random.default_rng(seed).integers(2**32, size=2).tolist()
    walks = [
        sample_walks(graph, count, lengths, walk_seed)
        for graph, count, walk_seed in zip(
            (train_graph, split.graph("train", "valid"), split.graph("train", "test")),
            (train_factor * len(split.train), eval_factor * len(split.valid), eval_factor * len(split.test)),
            (seed, dev_seed, test_seed),
            strict=True,
        )
    ]
    train, dev, test = _disjoint(list(zip((split.train, split.valid, split.test), walks, strict=True)))
    known_dev, known_test = holds(train_graph, dev), holds(train_graph, test)
    return PathSplits(
        train=train,
        dev_deduction=dev.take(known_dev),
        dev_induction=dev.take(~known_dev),
        test_deduction=test.take(known_test),
        test_induction=test.take(~known_test),
    )


def _disjoint(parts: list[tuple[NDArray[np.int32], PathQueries]]) -> list[PathQueries]:
    """The queries of each part (triples, walks), sorted, without those of an earlier part; each query once."""
    pieces = [piece for triples, walks in parts for piece in (PathQueries.from_triples(triples), walks)]
    together = PathQueries.concatenate(pieces)
    # The first occurrence of a query says to which part it belongs.
    _, first = np.unique(query_codes(together), return_index=True)
    ends = np.cumsum([len(triples) + len(walks) for triples, walks in parts])
    part_of = np.searchsorted(ends, first, side="right")
    return [together.take(first[part_of == part]) for part in range(len(parts))]
