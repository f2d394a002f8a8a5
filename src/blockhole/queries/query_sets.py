"""The fourteen types of queries that published sets have, sets of such queries, their answers, and their files.

In a name, p is a projection, i an intersection, u a union and n a negation. A query of a type is one row of ids, in the
order in which the letters below are read: a, b, c are entities, r, s, t relations in the space of 2R.

A file of queries is `NAME-SPLIT.parquet` with the columns type and ids, or one of the pickles that BetaE was published
with. Ids are the line numbers of `entities.txt` and `relations.txt` beside the file, an id ≥ R the inverse of id − R;
without these lists they are those of the graph that the set is read for. Answers are not stored: they follow from the
facts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, final, get_args

import numpy as np
from numpy.typing import NDArray

from blockhole.errors import DataError, MalformedFile, counted, quoted, why
from blockhole.files.formats import require_file
from blockhole.files.id_folders import ENTITIES, RELATIONS, PublishedFolder, is_published, listed_vocabularies
from blockhole.files.plain_pickles import read_plain_pickle
from blockhole.graph.knowledge_graph import KnowledgeGraph, SplitGraph, SplitName
from blockhole.graph.parquet import reading_parquet
from blockhole.graph.vocabulary import Vocabulary
from blockhole.queries.exact import AnswerSets, plan_answer_sets
from blockhole.queries.language import parse
from blockhole.queries.plans import Follow, Plan, Start, Steps, plan_of
from blockhole.saving import replacing

QUERY_TYPES = MappingProxyType(
    {
        "1p": "a/r",
        "2p": "a/r/s",
        "3p": "a/r/s/t",
        "2i": "a/r & b/s",
        "3i": "a/r & b/s & c/t",
        "pi": "a/r/s & b/t",
        "ip": "(a/r & b/s)/t",
        "2u": "a/r | b/s",
        "up": "(a/r | b/s)/t",
        "2in": "a/r & !b/s",
        "3in": "a/r & b/s & !c/t",
        "inp": "(a/r & !b/s)/t",
        "pin": "a/r/s & !b/t",
        "pni": "!a/r/s & b/t",
    }
)

QuerySplit = SplitName
"""The facts that make answers hard: train queries are answered by train facts, all of them hard."""
SPLITS: tuple[QuerySplit, ...] = get_args(QuerySplit)


@cache
def steps_of_type(name: str) -> Steps:
    """The steps of a type, with the ids of its letters in slots 0, 1, … as they are read."""
    slots = count()  # all differ, so that no two letters become one step
    return plan_of(parse(QUERY_TYPES[name]).root, lambda _: next(slots), lambda _: next(slots)).steps


@cache
def slots_of_type(name: str) -> str:
    """What each slot of a type holds, e for an entity and r for a relation: "err" of 2p."""
    kinds = {
        step.slot: "e" if isinstance(step, Start) else "r"
        for step in steps_of_type(name)
        if isinstance(step, Start | Follow)
    }
    return "".join(kinds[slot] for slot in range(len(kinds)))


def check_type(name: str, where: str = "") -> None:
    """Refuse a type that is none of the fourteen; `where` it was found begins the sentence."""
    if name not in QUERY_TYPES:
        known = ", ".join(QUERY_TYPES)  # all of them: every two names are alike
        raise DataError(f"{where}{': ' if where else ''}there is no query type {quoted(name)}; the types are {known}.")


@final
@dataclass(frozen=True, slots=True, eq=False)
class QuerySet:
    """Queries by type, in the order of QUERY_TYPES; types without any are left out. Shapes: ids[type] [N, slots]."""

    name: str
    ids: Mapping[str, NDArray[np.int32]]
    split: QuerySplit = "test"

    def __post_init__(self) -> None:
        for type_, rows in self.ids.items():
            check_type(type_, self.name)
            if rows.ndim != 2 or rows.shape[1] != len(slots_of_type(type_)) or rows.dtype != np.int32:
                raise ValueError(f"the ids of {type_} must be an int32 array of shape [N, {len(slots_of_type(type_))}]")
            rows.setflags(write=False)
        ordered = {type_: self.ids[type_] for type_ in QUERY_TYPES if len(self.ids.get(type_, ()))}
        object.__setattr__(self, "ids", MappingProxyType(ordered))

    def __len__(self) -> int:
        """The number of queries, of all types together."""
        return sum(map(len, self.ids.values()))

    def plans(self, type_: str) -> list[Plan]:
        """The queries of a type, each as the plan that its ids go into."""
        check_type(type_, self.name)
        steps = steps_of_type(type_)
        return [Plan(steps, tuple(row)) for row in self.ids[type_].tolist()] if type_ in self.ids else []

    def take(self, limit: int, seed: int = 0) -> QuerySet:
        """At most `limit` queries of each type, in their order here; which ones is a function of seed and type."""
        drawn = {type_: _drawn(type_, rows, limit, seed) for type_, rows in self.ids.items()}
        return QuerySet(self.name, drawn, self.split)

    def of_types(self, types: Iterable[str]) -> QuerySet:
        """The queries of some types alone."""
        kept = set(types)
        for type_ in kept:
            check_type(type_, self.name)
        return QuerySet(self.name, {type_: rows for type_, rows in self.ids.items() if type_ in kept}, self.split)

    def renumbered(self, entity: NDArray[np.int32], relation: NDArray[np.int32]) -> QuerySet:
        """The same queries under other ids: entity [E] and relation [2R] give the new id of each old one."""
        moved = {
            type_: np.column_stack(
                [(entity if kind == "e" else relation)[rows[:, slot]] for slot, kind in enumerate(slots_of_type(type_))]
            ).astype(np.int32)
            for type_, rows in self.ids.items()
        }
        return QuerySet(self.name, moved, self.split)

    def used(self, kind: Literal["e", "r"]) -> NDArray[np.int32]:
        """The distinct ids of entities ("e") or relations ("r") in all queries, ascending."""
        columns = [
            rows[:, slot]
            for type_, rows in self.ids.items()
            for slot, held in enumerate(slots_of_type(type_))
            if held == kind
        ]
        return np.unique(np.concatenate([np.zeros(0, dtype=np.int32), *columns]))

    def __repr__(self) -> str:
        return f"QuerySet({self.name!r}, {', '.join(f'{type_}: {len(rows):,}' for type_, rows in self.ids.items())})"


def _drawn(type_: str, rows: NDArray[np.int32], limit: int, seed: int) -> NDArray[np.int32]:
    if len(rows) <= limit:
        return rows
    # A type's draw does not depend on which other types a set has.
    draw = np.random.default_rng([seed, list(QUERY_TYPES).index(type_)])
    return rows[np.sort(draw.choice(len(rows), limit, replace=False))]


# Answers


def facts_of_split(split: SplitGraph, which: QuerySplit) -> NDArray[np.int32]:
    """The facts that make answers hard: [T, 3]."""
    return {"train": split.train, "valid": split.valid, "test": split.test}[which]


def graphs_of_split(
    split: SplitGraph, which: QuerySplit, name: str = "the data set"
) -> tuple[KnowledgeGraph, KnowledgeGraph]:
    """The graphs whose answers are easy, and easy or hard.

    For test they are train + valid and all facts, for valid train and train + valid, for train nothing and train.
    """
    before = SPLITS[: SPLITS.index(which)]
    if not len(facts_of_split(split, which)):
        kind = {"train": "train", "valid": "validation", "test": "test"}[which]
        raise DataError(
            f"{name} has no {kind} facts, so that its {which} queries have no hard answers; set some aside with "
            "`blockhole data split`, or name another split."
        )
    return split.graph(*before), split.graph(*before, which)


def easy_and_hard(
    known: KnowledgeGraph, truth: KnowledgeGraph, type_: str, ids: NDArray[np.int32], batch_size: int = 512
) -> Iterator[tuple[AnswerSets, AnswerSets]]:
    """The easy answers ⟦q⟧ over `known`, and the hard ones: those over `truth` that are not easy.

    In order, `batch_size` queries at a time, so that memory does not grow with the set; ids [N, slots] of one type.
    With negation an easy answer may be none over `truth`: more facts take answers away.
    """
    for easy, whole in easy_and_whole(known, truth, type_, ids, batch_size):
        yield easy, answers_beyond(whole, easy, truth.num_entities)


def easy_and_whole(
    known: KnowledgeGraph, truth: KnowledgeGraph, type_: str, ids: NDArray[np.int32], batch_size: int = 512
) -> Iterator[tuple[AnswerSets, AnswerSets]]:
    """The answers over `known` and all those over `truth`, batch by batch."""
    steps = steps_of_type(type_)
    return zip(
        plan_answer_sets(known, steps, ids, batch_size), plan_answer_sets(truth, steps, ids, batch_size), strict=True
    )


def answers_beyond(sets: AnswerSets, others: AnswerSets, num_entities: int) -> AnswerSets:
    """What each of `sets` holds that its counterpart in `others` does not."""
    own, other = (each.row * num_entities + each.entities for each in (sets, others))  # a number for each pair
    kept = ~np.isin(own, other, assume_unique=True)
    indptr = np.zeros(len(sets) + 1, dtype=np.int64)
    np.cumsum(np.bincount(sets.row[kept], minlength=len(sets)), out=indptr[1:])
    return AnswerSets(sets.first, indptr, sets.entities[kept])


def count_answers(split: SplitGraph, queries: QuerySet) -> dict[str, dict[str, int | None]]:
    """How many queries of each type there are, and hard answers of all of them together; None without facts for any."""
    if not len(facts_of_split(split, queries.split)):
        return {type_: {"queries": len(rows), "hard_answers": None} for type_, rows in queries.ids.items()}
    known, truth = graphs_of_split(split, queries.split)
    return {
        type_: {
            "queries": len(rows),
            "hard_answers": sum(len(hard.entities) for _, hard in easy_and_hard(known, truth, type_, rows)),
        }
        for type_, rows in queries.ids.items()
    }


# Files


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
        published = f"a published pickle such as test{_PICKLE}"
        raise DataError(f"{path}: a query set is a .parquet file, or {published}; name one of these.")
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
