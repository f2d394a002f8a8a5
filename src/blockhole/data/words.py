"""The words of entity names as facts, so that entities that share a word share what is learned about it."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from blockhole.data.dataset import DataSet
from blockhole.errors import DataError, MalformedFile, counted, note, quoted, why
from blockhole.files.formats import require_file
from blockhole.graph.knowledge_graph import SplitGraph
from blockhole.graph.parquet import reading_parquet
from blockhole.graph.vocabulary import Vocabulary
from blockhole.queries.path_sets import PATH_PARTS, PathSplits
from blockhole.queries.paths import PathQueries

WORD = "word"
"""The relation from an entity to a word of its name; the words are entities called `word:…`."""

SHARED_BY = 2
"""Entities that must have a word for it to count: a word of one name says nothing about others."""

KNOWN_BY: Final = 0.5
"""Share of the entities beyond which a word tells none of them apart, such as the http of addresses."""

FEWEST_WITH_WORDS: Final = 0.1
"""Share of the entities that must share words, so that names are more than numbers."""

COPIES: Final = 20
"""How often a word stands among stored paths, of which there are many more than facts: best on WN11."""

_LETTERS = re.compile(r"(?<![^\W_])[^\W\d_]+(?![^\W_])")
"""A run of letters that no digit touches: those of Q42 or 0dk3b are no word."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class Words:
    """The words that names share, in the order of the alphabet, and who has them.

    Shapes: pairs [count, 2], int32: an entity, and the place in `words` of a word of its name.
    """

    words: tuple[str, ...]
    pairs: NDArray[np.int32]

    @classmethod
    def of_names(cls, names: Iterable[str]) -> Words:
        """The words, runs of letters without digits in small letters, that at least two of the names have."""
        words = [sorted(set(_LETTERS.findall(name.lower()))) for name in names]
        having = Counter(word for each in words for word in each)
        shared = tuple(sorted(word for word, count in having.items() if count >= SHARED_BY))
        place = {word: number for number, word in enumerate(shared)}
        pairs = [(entity, place[word]) for entity, each in enumerate(words) for word in each if word in place]
        return cls(shared, np.array(pairs, dtype=np.int32).reshape(-1, 2))

    def telling(self, count: int) -> Words:
        """Those of them that tell some of `count` entities from others."""
        having = np.bincount(self.pairs[:, 1], minlength=len(self.words))
        kept = np.flatnonzero(having <= KNOWN_BY * count)
        pairs = self.pairs[np.isin(self.pairs[:, 1], kept)]
        pairs[:, 1] = np.searchsorted(kept, pairs[:, 1])
        return Words(tuple(self.words[place] for place in kept.tolist()), pairs)


def with_names(data: DataSet, texts: Path | str | None = None) -> DataSet:
    """The data set with the words of its entities' names as train facts, and those of a table of `texts` about them.

    Raises where names are numbers and not words, so that nothing is to be learned from them.
    """
    split = data.split
    if split.packed:
        raise DataError("words of names need the graph in memory, and this one is packed; train it without them.")
    names = [*split.entities] if texts is None else _joined(split.entities, read_texts(Path(texts)))
    words = Words.of_names(names).telling(len(names))
    having = len(np.unique(words.pairs[:, 0]))
    if having < FEWEST_WITH_WORDS * len(names):
        raise DataError(
            f"{counted(having, 'entity', 'entities')} of {len(names):,} share a word with another, so that there is "
            f"nothing to learn from names such as {quoted(names[0])}; train without names, or name a table of texts "
            "about the entities (--texts)."
        )
    note(f"{counted(len(words.words), 'word')} of names, shared by {counted(having, 'entity', 'entities')}")
    return with_words(data, words, COPIES)


def _joined(entities: Vocabulary, texts: dict[str, str]) -> list[str]:
    known = sum(name in texts for name in entities)
    if not known:
        raise DataError(
            f"the table of texts has none of the entities in its first column, such as {quoted(entities[0])}; "
            "put their names there, as the facts spell them."
        )
    note(f"texts about {counted(known, 'entity', 'entities')} of {len(entities):,}")
    return [f"{name} {texts.get(name, '')}" for name in entities]


def with_words(data: DataSet, words: Words, copies: int = 1) -> DataSet:
    """The data set with a train fact (e, word, w) for every pair of `words`.

    The ids of entities and relations stay; words and the relation come after them. Valid and test stay as they are: of
    an entity that is only there, train then knows its words alone. Path queries stay too, and the train paths get
    every new fact as a path of one hop, `copies` times: there are many more paths than facts.
    """
    split = data.split
    if WORD in split.relations:
        raise DataError(f"the data has a relation {WORD!r} already; rename it before words of names are added.")
    relation = len(split.relations)
    facts = np.empty((len(words.pairs), 3), dtype=np.int32)
    facts[:, 0], facts[:, 1], facts[:, 2] = words.pairs[:, 0], relation, len(split.entities) + words.pairs[:, 1]
    worded = replace(
        split,
        entities=Vocabulary([*split.entities, *(f"{WORD}:{word}" for word in words.words)], "entity"),
        relations=Vocabulary([*split.relations, WORD], "relation"),
        train=np.concatenate([split.train, facts]),
    )
    if not data.has_paths:
        return DataSet(data.name, worded)
    parts = {part: _with_one_more_relation(data.paths(part), relation) for part in PATH_PARTS}
    parts["train"] = PathQueries.concatenate([parts["train"], *[PathQueries.from_triples(facts)] * copies])
    return DataSet(data.name, worded, splits=PathSplits(**parts))


def without_words(data: DataSet) -> DataSet:
    """The facts of a data set that `with_words` made, as they were before; path queries are left out."""
    split, words = data.split, count_words(data.split)
    worded = replace(
        split,
        entities=Vocabulary([*split.entities][: len(split.entities) - words], "entity"),
        relations=Vocabulary([*split.relations][:-1], "relation"),
        train=split.train[split.train[:, 1] < len(split.relations) - 1],
    )
    return DataSet(data.name, worded)


def _with_one_more_relation(queries: PathQueries, relations: int) -> PathQueries:
    """The queries in the ids of a graph with one relation more: those of inverses, R + r, move up by one."""
    path = np.where(queries.path >= relations, queries.path + np.int32(1), queries.path)
    return PathQueries(queries.source, path, queries.length, queries.target)


def count_words(split: SplitGraph) -> int:
    """How many words `with_words` put among the entities."""
    return len(np.unique(words_of(split)[:, 1]))


def words_of(split: SplitGraph) -> NDArray[np.int64]:
    """The pairs of an entity and the number of a word that `with_words` put among the train facts; [count, 2]."""
    facts = split.train[split.train[:, 1] == split.relations.id(WORD)]
    pairs: NDArray[np.int64] = facts[:, [0, 2]].astype(np.int64)
    _, pairs[:, 1] = np.unique(pairs[:, 1], return_inverse=True)
    return pairs


# Tables of texts about entities: the first column has their names, all others what is said about them.

_SEPARATORS = "\t,;|"


def read_texts(path: Path) -> dict[str, str]:
    """Name → texts, those of several columns and lines joined; a header is a line like any other, about no entity."""
    require_file(path)
    told: dict[str, list[str]] = {}
    for name, *texts in _parquet(path) if path.suffix.lower() in (".parquet", ".pq") else _delimited(path):
        told.setdefault(name.strip(), []).extend(texts)
    return {name: " ".join(texts) for name, texts in told.items()}


def _parquet(path: Path) -> list[list[str]]:
    import polars as pl

    try:
        with reading_parquet(path):
            table = pl.read_parquet(path, glob=False)
    except pl.exceptions.PolarsError as failure:
        raise MalformedFile(path, f"not a Parquet file of texts ({why(failure)})", "write it again") from None
    texts = [name for name, kind in table.schema.items() if kind in (pl.String, pl.Categorical)]
    if table.width < 2 or table.columns[0] not in texts:
        raise _without_texts(path)
    rows = table.select(pl.col(texts).cast(pl.String).fill_null("")).iter_rows()
    return [list(row) for row in rows]


def _delimited(path: Path) -> list[list[str]]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise MalformedFile(path, "it is not text in UTF-8", "save it as UTF-8") from None
    first = text.partition("\n")[0]
    separator = max(_SEPARATORS, key=first.count)  # the first of those that are equally frequent
    if separator not in first:
        raise _without_texts(path)
    try:
        return [row for row in csv.reader(io.StringIO(text), delimiter=separator) if row]
    except csv.Error as failure:
        raise MalformedFile(path, f"it is not a table: {failure}", "write it as CSV or TSV") from None


def _without_texts(path: Path) -> MalformedFile:
    return MalformedFile(
        path, "there is no column of texts", "put the names of entities into the first column and texts into others"
    )
