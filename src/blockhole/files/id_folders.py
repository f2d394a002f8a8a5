"""Graphs as folders of ids: `facts.parquet` beside lists of names, and the folders that BetaE was published with.

- `entities.txt` and `relations.txt`, whose line numbers are the ids, and `facts.parquet` with the columns split,
  subject, relation and object.
- `id2ent.pkl` and `id2rel.pkl` (or the other way round, `ent2id.pkl` and `rel2id.pkl`; some have `ind` for `id`), and
  `train.txt`, `valid.txt` and `test.txt` of ids, each fact in both directions. Relations come in pairs there: 2k is a
  relation and 2k + 1 its inverse.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, final, get_args

import numpy as np
from numpy.typing import NDArray

from blockhole.errors import DataError, MalformedFile, counted, listed, quoted, why
from blockhole.files.formats import Compression, known_format, listed_names, text_blocks
from blockhole.files.plain_pickles import read_plain_pickle
from blockhole.graph.knowledge_graph import SplitGraph, SplitName
from blockhole.graph.parquet import reading_parquet
from blockhole.graph.vocabulary import Vocabulary

FACTS, ENTITIES, RELATIONS = "facts.parquet", "entities.txt", "relations.txt"
SPLITS: tuple[SplitName, ...] = get_args(SplitName)


def has_id_facts(folder: Path) -> bool:
    """Whether the facts of a folder are in `facts.parquet`: it has no train file of its own."""
    return (folder / FACTS).is_file() and not any(
        path.stem.partition(".")[0] == "train" and known_format(path) for path in folder.iterdir()
    )


def read_id_facts(folder: Path) -> SplitGraph:
    """The facts of `facts.parquet`, by split."""
    import polars as pl

    path = folder / FACTS
    entities, relations = listed_vocabularies(folder)
    remedy = "write the columns split, subject, relation and object, the last three as ids"
    try:
        with reading_parquet(path):
            table = pl.read_parquet(path, glob=False).select(
                pl.col("split").cast(pl.String), pl.col("subject", "relation", "object").cast(pl.Int32)
            )
    except pl.exceptions.PolarsError as failure:
        raise MalformedFile(path, f"not a file of facts by id ({why(failure)})", remedy) from None
    unknown = table["split"].filter(~table["split"].is_in(SPLITS) | table["split"].is_null())
    if table.null_count().sum_horizontal()[0] or len(unknown):
        problem = f"the split {quoted(unknown[0])}, not {listed(SPLITS)}" if len(unknown) else "an id is missing"
        raise MalformedFile(path, problem, remedy)
    parts = {
        split: table.filter(pl.col("split") == split).select("subject", "relation", "object").to_numpy()
        for split in SPLITS
    }
    for triples in parts.values():
        _refuse_unknown_ids(path, triples, len(entities), len(relations), f"{ENTITIES} and {RELATIONS} list")
    if not len(parts["train"]):
        raise MalformedFile(path, "no fact has the split train", "give it some")
    return _split_graph(entities, relations, parts)


def listed_vocabularies(folder: Path) -> tuple[Vocabulary, Vocabulary]:
    """The names whose line numbers are ids."""
    for name in (ENTITIES, RELATIONS):
        if not (folder / name).is_file():
            raise DataError(f"{folder}: has no {name}, so that nothing says what its ids mean; put it there.")
    return Vocabulary(listed_names(folder / ENTITIES)), Vocabulary(listed_names(folder / RELATIONS), "relation")


def _refuse_unknown_ids(
    path: Path, triples: NDArray[np.int32], num_entities: int, num_relations: int, known_by: str
) -> None:
    limits = (num_entities, num_relations, num_entities)
    wrong = np.flatnonzero(((triples < 0) | (triples >= limits)).any(axis=1))
    if len(wrong):
        raise MalformedFile(
            path,
            f"{counted(len(wrong), 'fact')} with ids beyond the {counted(num_entities, 'entity', 'entities')} and "
            f"{counted(num_relations, 'relation')} that {known_by}, the first {tuple(triples[wrong[0]].tolist())}",
            "take all files from the same data set",
        )


def _split_graph(
    entities: Vocabulary, relations: Vocabulary, parts: Mapping[SplitName, NDArray[np.int32]]
) -> SplitGraph:
    arrays: dict[str, Any] = {split: np.ascontiguousarray(triples, dtype=np.int32) for split, triples in parts.items()}
    return SplitGraph(entities, relations, **arrays)


# Folders as BetaE published them


@final
class PublishedFolder:
    """A folder of pickles and of facts by id, in the numbering of its authors."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.entities = Vocabulary(_numbered(folder, "ent"))
        self.relations = Vocabulary(_pairs(folder, _numbered(folder, "rel")), "relation")

    def relation_ids(self, published: NDArray[np.int32]) -> NDArray[np.int32]:
        """Ids in the space of 2R, of ids in pairs: 2k is k and 2k + 1 is k + R; one beyond the pairs stays beyond."""
        count = len(self.relations)
        return np.where(published < 2 * count, published // 2 + published % 2 * count, published).astype(np.int32)

    def split(self) -> SplitGraph:
        """The facts, each once, however often and in whichever direction it is there."""
        files = {split: self.folder / f"{split}.txt" for split in SPLITS}
        return _split_graph(
            self.entities,
            self.relations,
            {split: self._facts(path) for split, path in files.items() if path.is_file() or split == "train"},
        )

    def _facts(self, path: Path) -> NDArray[np.int32]:
        triples = _read_triples(path)
        own = f"{names_file(self.folder, 'ent').name} and its like have"
        _refuse_unknown_ids(path, triples, len(self.entities), 2 * len(self.relations), own)
        source, relation, target = triples.T
        back = relation % 2 == 1
        named = np.column_stack([np.where(back, target, source), relation // 2, np.where(back, source, target)])
        _, first = np.unique(named, axis=0, return_index=True)
        return named[np.sort(first)]


def is_published(folder: Path) -> bool:
    """Whether a folder has the pickles that name the ids of its facts."""
    return folder.is_dir() and all(_names_files(folder, kind) for kind in ("ent", "rel"))


def names_file(folder: Path, kind: str) -> Path:
    """The pickle that names the entities ("ent") or the relations ("rel")."""
    return _names_files(folder, kind)[0]


def _names_files(folder: Path, kind: str) -> list[Path]:
    names = (f"id2{kind}.pkl", f"ind2{kind}.pkl", f"{kind}2id.pkl", f"{kind}2ind.pkl")
    return [folder / name for name in names if (folder / name).is_file()]


def _numbered(folder: Path, kind: str) -> list[str]:
    """The names in the order of their ids, which are 0, 1, … without gaps."""
    path = names_file(folder, kind)
    value = read_plain_pickle(path)
    if isinstance(value, dict) and path.name.startswith(kind):
        value = {number: name for name, number in value.items()}
    if (
        not isinstance(value, dict)
        or value.keys() != set(range(len(value)))
        or not all(isinstance(name, str) for name in value.values())
        or len(set(value.values())) < len(value)
    ):
        raise MalformedFile(path, "not distinct names for the ids 0, 1, …", "use the file that was published")
    return [value[number] for number in range(len(value))]


def _pairs(folder: Path, names: list[str]) -> list[str]:
    """The relations of names in pairs: +r and -r, or r and r_reverse."""
    found = []
    for name, inverse in zip(names[::2], [*names[1::2], ""][: (len(names) + 1) // 2], strict=True):
        plain = name[1:] if name.startswith("+") else name
        if inverse not in (f"-{plain}", f"{plain}_reverse", f"{plain}_inv"):
            raise MalformedFile(
                names_file(folder, "rel"),
                f"{quoted(name)} is not followed by its inverse",
                "number relations in pairs, +r and -r, or r and r_reverse",
            )
        found.append(plain)
    return found


def _read_triples(path: Path) -> NDArray[np.int32]:
    """Three ids a line, separated by tabs or blanks."""
    parts = [np.zeros((0, 3), dtype=np.int32)]
    for block in text_blocks(path, Compression.NONE):
        for line, text in enumerate(block.data.decode().split("\n")[:-1], block.first_line):
            fields = text.split()
            if len(fields) != 3 or not all(field.isdecimal() and len(field) < 10 for field in fields):
                raise MalformedFile(
                    path,
                    f"{quoted(text)} is not three ids",
                    "write source, relation and target, as the pickles number them",
                    line,
                )
        parts.append(np.array(block.data.split(), dtype=np.int64).reshape(-1, 3).astype(np.int32))
    return np.concatenate(parts)
