"""A data set: a split graph and the queries over it; loaded by name, folder or file, asked, and written to a folder."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Literal, final

import numpy as np

from blockhole.data.catalogue import NamedDataSet, catalogue, locate
from blockhole.errors import (
    ConfigError,
    Count,
    DataError,
    Seed,
    UnknownDataSet,
    UnknownName,
    checked,
    counted,
    listed,
    nearest_or_all,
    quoted,
    shown,
)
from blockhole.files.columns import ColumnNames, Literals, Reading
from blockhole.files.formats import split_files
from blockhole.files.frames import FORMS, is_table, to_graph
from blockhole.files.readers import Encoder, read_facts, read_split
from blockhole.files.writers import write_split
from blockhole.graph.knowledge_graph import KnowledgeGraph, SplitGraph, SplitName
from blockhole.graph.vocabulary import Vocabulary
from blockhole.queries.exact import plan_answers
from blockhole.queries.language import Query, encode_tree, hop_in_column, parse
from blockhole.queries.path_sets import PATH_PARTS, PathSplits, cut_path, find_part_files, write_path_splits
from blockhole.queries.paths import PathQueries
from blockhole.queries.query_sampling import Progress, sample_from_split
from blockhole.queries.query_sets import (
    QUERY_TYPES,
    QuerySet,
    QuerySplit,
    find_query_files,
    read_query_set,
    split_told,
    write_query_set,
)
from blockhole.saving import replacing_folder

if TYPE_CHECKING:
    import polars as pl


@final
class DataSet:
    """A named `split` graph with five parts of path queries and sets of queries by type, read when first asked for.

    The parts come from `part_files`, or are already in memory as `splits`; the sets come from `query_files`, or are in
    memory as `query_sets`. A data set may have none of them.
    """

    def __init__(
        self,
        name: str,
        split: SplitGraph,
        *,
        part_files: Mapping[str, Path] | None = None,
        splits: PathSplits | None = None,
        query_files: Mapping[str, Path] | None = None,
        query_sets: Mapping[str, QuerySet] | None = None,
    ) -> None:
        self.name = name
        self.split = split
        self.part_files = dict(part_files or {})
        self._query_files = dict(query_files or {})
        self._query_sets = dict(query_sets or {})
        self._queries: dict[Path, QuerySet] = {}
        self._parts: dict[str, PathQueries] = {}
        if splits is not None:
            self._parts = {part: getattr(splits, part) for part in PATH_PARTS}

    @property
    def has_paths(self) -> bool:
        """Whether all five parts of path queries are there."""
        return all(part in self._parts or part in self.part_files for part in PATH_PARTS)

    def paths(self, part: str) -> PathQueries:
        """The path queries of one part: train, dev_deduction, dev_induction, test_deduction or test_induction."""
        if part not in PATH_PARTS:
            raise DataError(f"there is no part {quoted(part)} of path queries; the parts are {', '.join(PATH_PARTS)}.")
        if part not in self._parts:
            if part not in self.part_files:
                raise DataError(
                    f"{self.name} has no {part} path queries; build them with "
                    f"`blockhole data build {quote(self.name)} --seed 0 --out FOLDER` and use FOLDER as the data set."
                )
            from blockhole.queries.path_sets import read_paths

            self._parts[part] = read_paths(self.part_files[part], self.split.entities, self.split.relations)
        return self._parts[part]

    def with_paths(self, splits: PathSplits | None) -> DataSet:
        """The same facts and query sets with these path queries, or without any."""
        return DataSet(self.name, self.split, splits=splits, query_files=self._query_files, query_sets=self._query_sets)

    @property
    def query_sets(self) -> tuple[str, ...]:
        """The names of its query sets, such as betae-test."""
        return (*self._query_files, *self._query_sets)

    def queries(self, name: str | Path, split: QuerySplit | None = None) -> QuerySet:
        """A query set in the ids of this graph: by name and split, by full name such as betae-test, or a file.

        Where no split is told, by the name or beside it, it is test.
        """
        held = self._query_sets.get(f"{name}-{split or 'test'}") or self._query_sets.get(str(name))
        if held is not None:
            return held
        known = self._query_files.get(f"{name}-{split or 'test'}") or self._query_files.get(str(name))
        path = known or Path(name)
        if known is None and not path.is_file():
            have = f"it has {', '.join(self.query_sets)}" if self.query_sets else "it has none"
            wanted = f"{name} for {split}" if split else f"{name}"
            raise DataError(
                f"{self.name} has no query set {wanted}, nor is that a file; {have}, and "
                f"`blockhole data queries {quote(self.name)} --out FOLDER` samples some."
            )
        if path not in self._queries:
            self._queries[path] = read_query_set(path, self.split.entities, self.split.relations)
        found = self._queries[path]
        if split is not None and split != found.split and split_told(path):
            raise DataError(f"{path} holds {found.split} queries, not {split} ones; leave the split out.")
        return found if split in (None, found.split) else QuerySet(found.name, found.ids, split)

    def __repr__(self) -> str:
        paths = "with" if self.has_paths else "without"
        return f"DataSet({self.name!r}, {counted(len(self.split.train), 'train fact')}, {paths} path queries)"


@checked
def load(source: Any, *, columns: ColumnNames | None = None, literals: Literals | None = None) -> DataSet:
    """Load a data set by name, from a folder, from one file, or from memory; all facts of the latter two are train.

    A name of the catalogue means that data set even where a file or folder has the same name: write `./wn11` for
    the folder. A folder holds train, valid (or dev) and test files of any supported format, and in its folder
    `paths` the five parts of path queries, where there are any; or it holds these five parts and nothing else. Query
    sets are found beside the facts (see `queries.query_sets`). In memory, facts are a graph, a frame of polars or
    pandas, an array [T, 3], a list of triples, or a networkx or rdflib graph (see `files.frames`).

    `columns` and `literals` tell what a table or an RDF file does not say itself (see `files.readers.read_split`).
    """
    reading = Reading.of(columns, literals)
    match source:
        case DataSet():
            return source
        case SplitGraph():
            return DataSet("the graph", source)
        case KnowledgeGraph():
            return DataSet("the graph", SplitGraph(source.entities, source.relations, train=source.triples))
    check_facts("source", source)
    if not isinstance(source, str | Path):
        return load(to_graph(source, columns=reading.columns, literals=reading.literals))
    place = find_source(source)
    beside = find_part_files(place)
    if len(beside) == len(PATH_PARTS) and split_files(place).keys() == {"train"}:
        return DataSet(str(source), split_of_parts(beside), part_files=beside)
    sets = find_query_files(place) if place.is_dir() else {}
    split = read_split(place, columns=reading.columns, literals=reading.literals)
    return DataSet(str(source), split, part_files=find_part_files(place / "paths"), query_files=sets)


def check_facts(argument: str, value: object) -> None:
    """Refuse what cannot be facts: neither a name nor a graph nor a table."""
    if not (isinstance(value, DataSet | SplitGraph | KnowledgeGraph | str | Path) or is_table(value)):
        raise ConfigError(f"{argument} must be the name or path of a data set, {FORMS}, not {shown(value)}.")


def find_source(source: str | Path) -> Path:
    """The file or folder behind a name or path; a named data set is fetched when it is nowhere on this machine."""
    is_path = isinstance(source, Path) or source not in catalogue()
    if is_path and Path(source).exists():
        return Path(source)
    return locate(find_entry(str(source)))


def find_entry(name: str) -> NamedDataSet:
    """The entry of a name in the catalogue; raises `UnknownDataSet` with the nearest names."""
    entries = catalogue()
    if name in entries:
        return entries[name]
    hint = nearest_or_all(name, entries, "the data sets are", count=2)
    raise UnknownDataSet(
        f"there is no data set, file or folder {quoted(name)}; {hint} A file or a folder of facts can be given too."
    )


# Data sets published as path queries only, as Guu et al. 2015 did: the facts are the queries of length 1.


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

    for file in files:
        for block in read_facts(file):
            hops = {text: _named_relation(text) for text in block["relation"].unique()}
            named = block["relation"].replace_strict(hops, return_dtype=pl.String)
            yield block.with_columns(relation=named).filter(named.is_not_null())


def _named_relation(path: str) -> str | None:
    """The relation that a path is, unless it is longer or an inverse."""
    hop, *more = map(hop_in_column, cut_path(path))
    return None if more or hop.inverse else hop.relation


# Queries sampled from any data set.


@checked
def sample_queries(
    data: DataSet | Path | str,
    *,
    split: SplitName = "test",
    types: Sequence[str] | None = None,
    count: Count = 1000,
    seed: Seed = 0,
    max_answers: Count = 100,
    progress: Progress | None = None,
) -> QuerySet:
    """Sample `count` queries of each type, all fourteen unless told, as BetaE does; see `queries.query_sampling`.

    Each has 1 to `max_answers` hard answers: answers that the facts of the split add to those before it. `progress`
    takes a type, how many of its queries are found, and how many are wanted.
    """
    loaded = data if isinstance(data, DataSet) else load(data)
    return sample_from_split(
        loaded.split,
        split,
        QUERY_TYPES if types is None else types,
        count,
        seed,
        max_answers=max_answers,
        name=loaded.name,
        progress=progress,
    )


# Answers that follow from facts alone


Known = Literal["all", "train"]
"""Which facts of a data set count as known: all of them, or those of train, which are all that a run has seen."""


@final
@dataclass(frozen=True, slots=True)
class KnownAnswers:
    """Every entity that answers a query over known facts, by name.

    Where the query has a negation, it is over these facts: an entity counts as no answer of what is excluded if no
    known facts make it one. `negation` then says so, and is None else.
    """

    query: str
    entities: tuple[str, ...]
    known: Known
    negation: Literal["over known facts"] | None


@checked
def answers_from_facts(
    data: DataSet | str | Path, query: str | Query, *, known: Known = "all", facts: KnowledgeGraph | None = None
) -> KnownAnswers:
    """The exact answers to any query, as answers("family", "William/^fatherOf & !Charles"), without a model.

    `known` says which facts of the data count: all, or those of train; further `facts` of the same relations may be
    added to them.
    """
    parsed = parse(query) if isinstance(query, str) else query  # what cannot be read should not wait for the graph
    split = (data if isinstance(data, DataSet) else load(data)).split
    graph = split.graph("train") if known == "train" else split.graph("train", "valid", "test")
    if facts is not None:
        graph = graph_with_facts(graph, facts)
    found = plan_answers(graph, encode_tree(parsed, graph))
    names = tuple(sorted(graph.entities[entity] for entity in found.tolist()))
    return KnownAnswers(str(parsed), names, known, "over known facts" if parsed.has_negation else None)


def graph_with_facts(graph: KnowledgeGraph, facts: KnowledgeGraph) -> KnowledgeGraph:
    """A graph and further facts behind its own, joined by names; relations must be the graph's, entities may be new."""
    entities = Vocabulary([*graph.entities.names, *(name for name in facts.entities if name not in graph.entities)])
    entity_ids = entities.ids(facts.entities.names)
    try:
        relation_ids = graph.relations.ids(facts.relations.names)
    except UnknownName as unknown:
        alike = f", such as {listed([quoted(name) for name in unknown.nearest])}" if unknown.nearest else ""
        owner = "in the further facts, which may have known ones alone"
        problem = f"unknown relation {quoted(unknown.name)} {owner}{alike}"
        raise UnknownName("relation", unknown.name, unknown.nearest, problem=problem) from None
    source, relation, target = facts.triples.T
    triples = np.column_stack([entity_ids[source], relation_ids[relation], entity_ids[target]])
    return KnowledgeGraph(entities, graph.relations, np.concatenate([graph.triples, triples]))


# Data sets written to a folder, so that the folder can be given wherever a data set is wanted.


ORIGIN = "origin.json"
"""How a folder was made; its presence says that we wrote the folder, so that we may write it again."""


def check_destination(folder: Path, source: Path | None = None, *, overwrite: bool) -> None:
    """Refuse to replace a folder that we did not write, or one that holds the `source` being read."""
    if source is not None and source.resolve().is_relative_to(folder.resolve()):
        raise DataError(f"{folder} holds the data set that is read; name another folder.")
    if overwrite or not folder.exists():
        return
    if not folder.is_dir():
        raise DataError(f"{folder} is a file; name a new folder, or give --overwrite to replace it.")
    if any(folder.iterdir()) and not (folder / ORIGIN).is_file():
        raise DataError(
            f"{folder} is a folder that holds other things; name a new folder, or give --overwrite to replace it."
        )


def store(
    split: SplitGraph,
    folder: Path,
    *,
    origin: Mapping[str, object],
    paths: PathSplits | None = None,
    queries: Iterable[QuerySet] = (),
) -> None:
    """Write facts, names and queries in the layout of the published data; all of it appears at once, or nothing.

    `origin` says in plain values how they were made, `paths/` holds the five parts of path queries, and each query set
    is a file of its own beside the facts.
    """
    with replacing_folder(folder) as fresh:
        write_split(split, fresh)
        if paths is not None:
            write_path_splits(paths, fresh / "paths", split.entities, split.relations)
        for each in queries:
            write_query_set(each, fresh)
        (fresh / ORIGIN).write_text(json.dumps(origin, indent=2) + "\n", encoding="utf-8")
