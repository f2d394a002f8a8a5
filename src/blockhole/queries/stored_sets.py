"""Query sets in files: `NAME-SPLIT.parquet` with the columns type and ids, and the pickles BetaE was published with.

Ids are the line numbers of `entities.txt` and `relations.txt` beside the file, an id ≥ R the inverse of id − R; without
these lists they are those of the graph that the set is read for. Answers are not stored: they follow from the facts.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from blockhole.errors import DataError, MalformedFile, counted, quoted, why
from blockhole.files.formats import require_file
from blockhole.files.id_folders import (
    ENTITIES,
    RELATIONS,
    PublishedFolder,
    is_published,
    listed_vocabularies,
)
from blockhole.files.plain_pickles import read_plain_pickle
from blockhole.graph.parquet import reading_parquet
from blockhole.graph.vocabulary import Vocabulary
from blockhole.queries.query_sets import QUERY_TYPES, QuerySet, QuerySplit, check_type, slots_of_type
from blockhole.saving import replacing

SPLITS: tuple[QuerySplit, ...] = get_args(QuerySplit)
_PARQUET, _PICKLE = ".parquet", "-queries.pkl"
_PUBLISHED = "published"
_REMEDY = "write the columns type, such as 2p, and ids, a list of whole numbers"


def find_query_files(folder: Path) -> dict[str, Path]:
    """The files of query sets in a folder, by the names of the sets, such as betae-test."""
    found: dict[str, Path] = {}
    if is_published(folder):
        pickles = {split: folder / f"{split}{_PICKLE}" for split in SPLITS}
        found |= {f"{_PUBLISHED}-{split}": path for split, path in pickles.items() if path.is_file()}
    if (folder / ENTITIES).is_file() and (folder / RELATIONS).is_file():
        found |= {path.stem: path for path in sorted(folder.glob(f"?*-*{_PARQUET}")) if _may_be_set(path)}
    return found


def _may_be_set(path: Path) -> bool:
    """Whether a file is named as a set and has its columns; one that cannot be read is asked for by its name."""
    import polars as pl

    if path.stem.rpartition("-")[2] not in SPLITS:
        return False
    try:
        with reading_parquet(path):
            return {"type", "ids"} <= set(pl.read_parquet_schema(path))
    except (OSError, pl.exceptions.PolarsError):
        return True


def split_told(path: Path) -> QuerySplit | None:
    """The split that a file's name ends in, or begins with where it is a pickle; None where it tells none."""
    told = path.name.partition("-")[0] if path.name.endswith(_PICKLE) else path.stem.rpartition("-")[2]
    return next((split for split in SPLITS if split == told), None)


def read_query_set(path: Path, entities: Vocabulary, relations: Vocabulary) -> QuerySet:
    """A set of queries over the names of a graph, in the graph's ids."""
    require_file(path)
    if path.suffix == ".pkl":
        folder = PublishedFolder(_beside_names(path))
        name, ids = f"{_PUBLISHED}-{split_told(path) or 'test'}", _read_pickle(path, folder)
        named: tuple[Vocabulary, Vocabulary] | None = (folder.entities, folder.relations)
    elif path.suffix == _PARQUET:
        name, ids = path.stem, _read_parquet(path)
        listed = all((path.parent / each).is_file() for each in (ENTITIES, RELATIONS))
        named = listed_vocabularies(path.parent) if listed else None
    else:
        raise DataError(f"{path}: a query set is a .parquet file, or a published {_PICKLE[1:]}; name one of these.")
    found = QuerySet(name, ids, split_told(path) or "test")
    if not len(found):
        raise DataError(f"{path}: has no queries; give a file with some.")
    _refuse_unknown_ids(
        path, found, *(named or (entities, relations)), "their lists name" if named else "the graph has"
    )
    return found if named is None else _renamed(path, found, named, (entities, relations))


def write_query_set(queries: QuerySet, folder: Path) -> Path:
    """Write `NAME.parquet`; the names of its ids belong beside it."""
    import polars as pl

    path = folder / f"{queries.name}{_PARQUET}"
    types = [type_ for type_, rows in queries.ids.items() for _ in range(len(rows))]
    ids = [row for rows in queries.ids.values() for row in rows.tolist()]
    table = pl.DataFrame({"type": types, "ids": ids}, schema={"type": pl.String, "ids": pl.List(pl.Int32)})
    with replacing(path) as temporary:
        table.write_parquet(temporary, compression="zstd")
    return path


# Parquet


def _read_parquet(path: Path) -> dict[str, NDArray[np.int32]]:
    import polars as pl

    try:
        with reading_parquet(path):
            table = pl.read_parquet(path, glob=False)
            lacking = [column for column in ("type", "ids") if column not in table.columns]
            if lacking:
                raise MalformedFile(path, f"no query set: it has no column {' and no column '.join(lacking)}", _REMEDY)
            table = table.select(pl.col("type").cast(pl.String), pl.col("ids").cast(pl.List(pl.Int32)))
    except pl.exceptions.PolarsError as failure:
        raise MalformedFile(path, f"no query set ({why(failure)})", _REMEDY) from None
    found = {}
    for (type_,), part in table.group_by("type", maintain_order=True):
        check_type(str(type_), str(path))
        slots = len(slots_of_type(str(type_)))
        flat = part["ids"].explode(empty_as_null=True)
        if (part["ids"].list.len() != slots).any() or flat.null_count() or part["ids"].null_count():
            raise MalformedFile(path, f"a query of type {type_} has other than {slots} ids", _REMEDY)
        found[str(type_)] = flat.to_numpy().astype(np.int32).reshape(-1, slots)
    return found


# Published pickles: {structure: {query, …}}, in nested tuples


_HOP, _NOT = ("e", ("r",)), ("e", ("r", "n"))
_STRUCTURES: dict[Any, str] = {
    _HOP: "1p",
    ("e", ("r", "r")): "2p",
    ("e", ("r", "r", "r")): "3p",
    (_HOP, _HOP): "2i",
    (_HOP, _HOP, _HOP): "3i",
    (("e", ("r", "r")), _HOP): "pi",
    ((_HOP, _HOP), ("r",)): "ip",
    (_HOP, _HOP, ("u",)): "2u",
    ((_HOP, _HOP, ("u",)), ("r",)): "up",
    (_HOP, _NOT): "2in",
    (_HOP, _HOP, _NOT): "3in",
    ((_HOP, _NOT), ("r",)): "inp",
    (("e", ("r", "r")), _NOT): "pin",
    (("e", ("r", "r", "n")), _HOP): "pni",
    # The published sets hold unions twice, the second time as !(!x & !y).
    ((_NOT, _NOT), ("n",)): "2u",
    ((_NOT, _NOT), ("n", "r")): "up",
}
_MARKS = {"u": -1, "n": -2}


def _beside_names(path: Path) -> Path:
    if not is_published(path.parent):
        raise DataError(f"{path}: nothing beside it names its ids; put id2ent.pkl and id2rel.pkl there.")
    return path.parent


def _read_pickle(path: Path, folder: PublishedFolder) -> dict[str, NDArray[np.int32]]:
    found: dict[str, NDArray[np.int32]] = {}
    value = read_plain_pickle(path)
    if not isinstance(value, dict):
        raise MalformedFile(path, "no query set, but another pickle", "name a file of queries by structure")
    for structure, queries in value.items():
        if structure not in _STRUCTURES:
            raise MalformedFile(
                path, f"queries of the structure {quoted(structure)}", f"the types read are {', '.join(QUERY_TYPES)}"
            )
        type_ = _STRUCTURES[structure]
        try:
            rows = sorted([list(_ids(query, structure)) for query in queries])
            ids = np.array(rows, dtype=np.int32).reshape(-1, len(slots_of_type(type_)))
        except (TypeError, ValueError, OverflowError):
            raise MalformedFile(
                path, f"a query of type {type_} is not of the form {structure!r}", "use the file that was published"
            ) from None
        for slot, kind in enumerate(slots_of_type(type_)):
            if kind == "r":
                ids[:, slot] = folder.relation_ids(ids[:, slot])
        # Both forms of a union hold the same queries.
        found[type_] = ids if type_ not in found else np.unique(np.concatenate([found[type_], ids]), axis=0)
    return found


def _ids(query: object, structure: object) -> Iterator[int]:
    """The ids of a query that has a structure, in the order in which they stand."""
    if isinstance(structure, tuple):
        if not isinstance(query, tuple):
            raise ValueError("not a tuple")
        for part, inner in zip(query, structure, strict=True):
            yield from _ids(part, inner)
    elif structure in _MARKS:
        if query != _MARKS[str(structure)]:
            raise ValueError("another mark")
    elif isinstance(query, int) and query >= 0:
        yield query
    else:
        raise ValueError("not an id")


# Ids of another graph


def _refuse_unknown_ids(
    path: Path, queries: QuerySet, entities: Vocabulary, relations: Vocabulary, known_by: str
) -> None:
    wrong = [
        (type_, row)
        for type_, rows in queries.ids.items()
        for row in rows[_outside(type_, rows, len(entities), 2 * len(relations))].tolist()
    ]
    if wrong:
        (type_, row), *_ = wrong
        some = f"{counted(len(wrong), 'query', 'queries')} of {len(queries):,} {'holds' if len(wrong) == 1 else 'hold'}"
        raise DataError(
            f"{path} is a query set of another graph: {some} ids beyond the "
            f"{counted(len(entities), 'entity', 'entities')} and {counted(len(relations), 'relation')} that {known_by}"
            f", the first being {type_} {row}; name the data set that it was made for."
        )


def _outside(type_: str, rows: NDArray[np.int32], num_entities: int, most_relation: int) -> NDArray[np.bool_]:
    limits = np.array([num_entities if kind == "e" else most_relation for kind in slots_of_type(type_)])
    return np.asarray(((rows < 0) | (rows >= limits)).any(axis=1), dtype=np.bool_)


def _renamed(
    path: Path, queries: QuerySet, own: tuple[Vocabulary, Vocabulary], graph: tuple[Vocabulary, Vocabulary]
) -> QuerySet:
    """The queries in the graph's ids, by the names that both have."""
    if own == graph:
        return queries
    moved = {}
    for kind, names, known in zip("er", own, graph, strict=True):
        place = np.array([-1 if (at := known.find(name)) is None else at for name in names], dtype=np.int32)
        if kind == "r":
            place = np.concatenate([place, np.where(place < 0, place, place + np.int32(len(known)))])
        used = queries.used("e" if kind == "e" else "r")
        missing = np.unique(used[place[used] < 0] % len(names))
        if len(missing):
            many = "entities" if kind == "e" else "relations"
            raise DataError(
                f"{path} is a query set of another graph: {counted(len(missing), known.kind, many)} of its queries "
                f"{'is' if len(missing) == 1 else 'are'} missing from this one, the first being "
                f"{quoted(names[int(missing[0])])}; name the data set that it was made for."
            )
        moved[kind] = place
    return queries.renumbered(moved["e"], moved["r"])
