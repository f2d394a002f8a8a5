"""Graphs out of files: the format is told by the suffix, names get ids in order of first appearance."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, final
from unicodedata import normalize

import numpy as np
from numpy.typing import NDArray

from blockhole.errors import BlockholeWarning, DataError, MalformedFile, checked, counted, listed, quoted
from blockhole.files.columns import ColumnNames, Literals, Reading
from blockhole.files.formats import Layout, format_of, listed_names, openke_files, read_prefixes, split_files
from blockhole.files.id_folders import PublishedFolder, has_id_facts, is_published, read_id_facts
from blockhole.files.rdf import read_ntriples, read_rdf
from blockhole.files.tables import ENTITIES, RELATIONS, OddNames, read_delimited, read_ids, read_names, read_parquet
from blockhole.graph.knowledge_graph import KnowledgeGraph, SplitGraph, SplitName
from blockhole.graph.vocabulary import Vocabulary
from blockhole.packed.folder import is_packed, read_packed

if TYPE_CHECKING:
    import polars as pl


class UnseenEntities(BlockholeWarning):
    """Valid or test facts use names that no train fact uses; they are kept."""


class NegativesLeftOut(BlockholeWarning):
    """Facts labelled -1 were found where only true facts belong; they are left out."""


class Unconnected(BlockholeWarning):
    """Every entity of a graph occurs in one fact only, as where columns were mixed up; the graph is kept."""


@checked
def read_graph(
    path: Path | str, *, columns: ColumnNames | None = None, literals: Literals | None = None
) -> KnowledgeGraph:
    """The graph of the facts in one file.

    Facts labelled -1 are left out, with a warning. A folder is read by `read_split`, which tells of the arguments.
    """
    path = Path(path)
    if path.is_dir():
        raise DataError(f"{path}: is a folder; read_split reads a folder, and its .graph(...) gives a graph.")
    return read_split(path, columns=columns, literals=literals).graph("train")


@checked
def read_split(path: Path | str, *, columns: ColumnNames | None = None, literals: Literals | None = None) -> SplitGraph:
    """The facts of a folder with train, valid (or dev) and test files, or of one file, which then are all train.

    The files may have any supported format; a folder of OpenKE's id files is one too, so are those of `id_folders`, and
    so is a packed graph, which stays on disk. Names listed in `entities.txt` and `relations.txt` come first, in that
    order; the others follow as they first appear in train, valid and test. Names that occur in valid or test but not in
    train are kept and counted in one `UnseenEntities` warning.

    `columns` names source, relation and target in a table whose header does not say it, or numbers them from 1:
    "who,does,whom" or (1, 3, 2). `literals` of RDF are kept (the default), dropped ("drop"), or kept where they are
    objects of the predicates that are listed. What is guessed goes to the log `blockhole.notes`.
    """
    path, reading = Path(path), Reading.of(columns, literals)
    if not path.exists():
        raise DataError(f"{path}: no such file or folder; check the name.")
    if is_packed(path):
        return read_packed(path)
    if path.is_dir():
        split = _read_folder(path, reading)
    elif path.name.endswith("2id.txt"):
        split = _read_openke(path.parent, {"train": path})
    else:
        split = read_named_files({"train": path}, reading)
    _warn_of_unseen(path, split)
    warn_of_oddities(path, split.entities, split.relations, split.train)
    return split


def _read_folder(folder: Path, reading: Reading) -> SplitGraph:
    if ids := openke_files(folder):
        return _read_openke(folder, ids)
    if is_published(folder):
        return PublishedFolder(folder).split()
    return read_id_facts(folder) if has_id_facts(folder) else read_named_files(split_files(folder), reading, folder)


def read_facts(path: Path, reading: Reading | None = None) -> Iterator[pl.DataFrame]:
    """The facts of one file, block by block: columns source, relation, target and, with labels, positive.

    Files of our own kinds, such as path queries, are read without a `reading`: their first lines are not doubted.
    """
    file_format, reading = format_of(path), reading or Reading(first=False)
    match file_format.layout:
        case Layout.TSV | Layout.CSV:
            return read_delimited(path, file_format, reading)
        case Layout.PARQUET:
            return read_parquet(path, reading)
        case Layout.N_TRIPLES | Layout.N_QUADS:
            return read_ntriples(path, file_format, reading)
        case Layout.TURTLE | Layout.TRIG | Layout.RDF_XML | Layout.N3 | Layout.JSON_LD:
            return read_rdf(path, file_format, reading)


def read_named_files(files: Mapping[SplitName, Path], reading: Reading, folder: Path | None = None) -> SplitGraph:
    """The facts of files that name them; a `folder` may list names and prefixes beside them."""
    listed = (listed_names(folder / name) for name in ("entities.txt", "relations.txt")) if folder else ((), ())
    encoder = Encoder(*listed)
    arrays: dict[str, Any] = {}
    for split, path in files.items():
        triples, positive = encoder.encode(read_facts(path, replace(reading, first=split == "train")))
        if not len(triples):
            raise _no_facts(path)
        arrays[split] = triples[positive]
        if split == "train":
            warn_of_negatives(path, int(np.count_nonzero(~positive)))
        else:
            arrays[f"{split}_negatives"] = triples[~positive]
    prefixes = {**(read_prefixes(folder) if folder else {}), **reading.prefixes}
    entities, relations = encoder.vocabularies(prefixes)
    return SplitGraph(entities, relations, **arrays)


def _read_openke(folder: Path, files: Mapping[SplitName, Path]) -> SplitGraph:
    entities, relations = read_names(folder / ENTITIES, "entity"), read_names(folder / RELATIONS, "relation")
    arrays: dict[str, Any] = {}
    for split, path in files.items():
        arrays[split] = read_ids(path, len(entities), len(relations))
        if not len(arrays[split]):
            raise _no_facts(path)
    return SplitGraph(entities, relations, **arrays)


def _no_facts(path: Path) -> MalformedFile:
    return MalformedFile(path, "the file holds no facts", "write one fact per line, or leave the file out")


def warn_of_negatives(path: Path | str, count: int) -> None:
    """Say that `count` lines of `path` are labelled -1 or rejected and left out, if there are any."""
    if count:
        warnings.warn(
            f"{path}: {counted(count, 'line')} labelled -1 or rejected left out: a graph holds true facts only.",
            NegativesLeftOut,
            stacklevel=5,
        )


def _warn_of_unseen(path: Path, split: SplitGraph) -> None:
    """Count the names in facts of valid and test that train has not, and those facts; lines labelled -1 are none."""
    seen_entities, seen_relations = np.zeros(len(split.entities), bool), np.zeros(len(split.relations), bool)
    seen_entities[split.train[:, 0::2]] = True
    seen_relations[split.train[:, 1]] = True
    later = np.concatenate([split.valid, split.test])
    unseen = ~seen_entities[later[:, 0::2]]
    unseen_relation = ~seen_relations[later[:, 1]]
    triples = int(np.count_nonzero(unseen.any(axis=1) | unseen_relation))
    if triples:
        entities = len(np.unique(later[:, 0::2][unseen]))
        relations = len(np.unique(later[:, 1][unseen_relation]))
        names = " and ".join([counted(entities, "entity", "entities")] * bool(entities) +
                             [counted(relations, "relation")] * bool(relations))  # fmt: skip
        warnings.warn(
            f"{path}: {names} of valid and test, in {counted(triples, 'triple')}, never occur in train; "
            "they are kept, but nothing can be learned about them.",
            UnseenEntities,
            stacklevel=4,
        )


_FEW = 5
"""Facts up to which a graph may well be a handful of pairs."""
_MISSING = frozenset({"nan", "NaN", "NaT", "None", "null", "NULL", "<NA>"})
"""What programs write where there is no value."""


def warn_of_oddities(
    where: Path | str, entities: Vocabulary, relations: Vocabulary, triples: NDArray[np.int32]
) -> None:
    """Say what may have gone wrong before a graph came here: holes that became names, one name spelled in two ways."""
    _warn_of_unconnected(where, len(entities), triples)
    for vocabulary in (entities, relations):
        names, kind = vocabulary.names, vocabulary.kind
        missing = _MISSING.intersection(names)
        if missing:
            shown = listed(sorted(map(quoted, missing)), "and")
            are = "is a name" if len(missing) == 1 else "are names"
            problem = f"{shown} {are} here; drop these rows if a missing {kind} was written so."
            warnings.warn(f"{where}: {problem}", OddNames, stacklevel=5)
        composed = Counter(normalize("NFC", name) for name in names if not name.isascii())
        if twins := [name for name, count in composed.items() if count > 1]:
            problem = f"{quoted(twins[0])} is the name of more than one {kind}, with accents encoded differently"
            more = f", and {len(twins) - 1:,} more are" if len(twins) > 1 else ""
            warnings.warn(f"{where}: {problem}{more}; write names in one Unicode form (NFC).", OddNames, stacklevel=5)


def _warn_of_unconnected(where: Path | str, entities: int, triples: NDArray[np.int32]) -> None:
    """Say that no two facts have an entity in common, which paths need."""
    if len(triples) <= _FEW or len(triples) > entities:
        return
    ends = np.sort(np.concatenate([triples[:, 0], triples[triples[:, 0] != triples[:, 2], 2]]))
    if np.all(np.diff(ends)):
        warnings.warn(
            f"{where}: every entity occurs in one fact only, so that there is nothing to learn from; "
            "if the columns are mixed up, say which are source, relation and target with --columns.",
            Unconnected,
            stacklevel=5,
        )


# Columns of names into ids, block by block: between blocks only ids and distinct names stay in memory.


class Numbering(Protocol):
    """Numbers names in order of first appearance."""

    def number(self, names: pl.Series) -> NDArray[np.uint32]:
        """The ids of a column of names, new names added; shape [len(names)]."""


@final
class NameTable:
    """Names numbered in order of first appearance, `listed` names first.

    A category type of polars serves as the table. Its alternatives, a join of every block with all names so far or
    distinct names a block and one merge at the end, hash each name two or three times.
    """

    def __init__(self, kind: str, listed: Sequence[str] = ()) -> None:
        import polars as pl

        self._kind = kind
        self._categories = pl.Categories.random()
        self._keep_alive = pl.Series(listed, dtype=pl.Categorical(self._categories))

    def number(self, names: pl.Series) -> NDArray[np.uint32]:
        """The ids of a column of names, new names added; shape [len(names)]."""
        return names.cast(self._keep_alive.dtype).to_physical().to_numpy()

    def column(self) -> pl.Series:
        """All names so far, in id order."""
        return self._categories.to_series()

    def vocabulary(self, prefixes: Mapping[str, str] | None = None) -> Vocabulary:
        """All names so far."""
        return Vocabulary(self.column(), self._kind, prefixes)


@final
class Encoder:
    """Facts in names to facts in ids, over one table of entities and one of relations."""

    def __init__(self, listed_entities: Sequence[str] = (), listed_relations: Sequence[str] = ()) -> None:
        self._entities = NameTable("entity", listed_entities)
        self._relations = NameTable("relation", listed_relations)

    def encode(self, blocks: Iterable[pl.DataFrame]) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
        """Triples [T, 3] of blocks with columns source, relation, target, and which are positive [T].

        Facts are positive where a block has no column `positive`.
        """
        none = np.zeros((0, 3), dtype=np.int32), np.zeros(0, dtype=np.bool_)
        triples, positive = zip(none, *encode_each(blocks, self._entities, self._relations), strict=True)
        return np.concatenate(triples), np.concatenate(positive)

    def vocabularies(self, prefixes: Mapping[str, str] | None = None) -> tuple[Vocabulary, Vocabulary]:
        """The entities and the relations, in order of first appearance after the listed ones."""
        return self._entities.vocabulary(prefixes), self._relations.vocabulary(prefixes)


def encode_each(
    blocks: Iterable[pl.DataFrame], entities: Numbering, relations: Numbering
) -> Iterator[tuple[NDArray[np.int32], NDArray[np.bool_]]]:
    """The triples of each block and which are positive, for facts that do not fit into memory; see `Encoder.encode`."""
    for block in blocks:
        labelled = "positive" in block.columns
        positive = block["positive"].to_numpy() if labelled else np.ones(len(block), dtype=np.bool_)
        yield _encode_block(block, entities, relations), positive


def _encode_block(facts: pl.DataFrame, entities: Numbering, relations: Numbering) -> NDArray[np.int32]:
    import polars as pl

    count = len(facts)
    # Source and target of a fact stand next to each other, so that first appearance means reading order.
    reading_order = np.arange(2 * count).reshape(2, count).T.ravel()
    names = pl.concat([facts["source"], facts["target"].rename("source")]).gather(reading_order)
    triples = np.empty((count, 3), dtype=np.int32)
    triples[:, 0::2] = entities.number(names).reshape(count, 2)
    triples[:, 1] = relations.number(facts["relation"])
    return triples
