"""OpenKE's id files.

`entity2id.txt` and `relation2id.txt` hold a count, then lines `name⇥id`; `train2id.txt`, `valid2id.txt` and
`test2id.txt` a count, then lines `source target relation`: the relation comes last.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from blockhole.errors import MalformedFile
from blockhole.graph.blocks import text_blocks
from blockhole.graph.formats import Compression
from blockhole.graph.ntriples import split_lines
from blockhole.graph.vocabulary import Vocabulary

if TYPE_CHECKING:
    import polars as pl

ENTITIES, RELATIONS = "entity2id.txt", "relation2id.txt"


def read_names(path: Path, kind: str) -> Vocabulary:
    """The names of an `entity2id.txt` or `relation2id.txt`, by id."""
    lines, rows = _body(path, r"^(.*\S)[ \t]+([0-9]{1,9})\s*$", "a name and an id")
    ids = rows["2"].to_numpy()
    order = np.argsort(ids, kind="stable")
    wrong = np.flatnonzero(ids[order] != np.arange(len(ids)))
    if len(wrong):
        at = int(order[wrong[0]])
        problem = f"id {ids[at]} where the ids should be 0 to {len(ids) - 1}, each once"
        raise MalformedFile(path, problem, "number the names from 0 without gaps", int(lines[at]))
    names = rows["1"].gather(order)
    if names.is_duplicated().any():
        at = int(rows["1"].is_first_distinct().not_().arg_max() or 0)
        raise MalformedFile(path, f"{rows['1'][at]!r} is listed twice", "keep one of the lines", int(lines[at]))
    return Vocabulary(names, kind)


def read_ids(path: Path, num_entities: int, num_relations: int) -> NDArray[np.int32]:
    """The facts of a `…2id.txt` file as source, relation, target; shape [T, 3]."""
    lines, rows = _body(path, r"^\s*([0-9]{1,9})[ \t]+([0-9]{1,9})[ \t]+([0-9]{1,9})\s*$", "three ids")
    triples = rows.select("1", "3", "2").to_numpy().astype(np.int32)
    wrong = np.flatnonzero((triples >= (num_entities, num_relations, num_entities)).any(axis=1))
    if len(wrong):
        raise MalformedFile(
            path,
            f"an id that {ENTITIES} or {RELATIONS} does not have",
            "write source, target, relation, in this order",
            int(lines[wrong[0]]),
        )
    return triples


def _body(path: Path, pattern: str, wanted: str) -> tuple[NDArray[np.int64], pl.DataFrame]:
    """Line numbers and groups of `pattern` of all lines after the count; digits become integers."""
    import polars as pl

    text = "".join(block.data.decode() for block in text_blocks(path, Compression.NONE))
    lines = split_lines(text)
    number = np.arange(1, len(lines) + 1)
    blank = lines.str.contains(r"^\s*$")
    lines, number = lines.filter(~blank), number[~blank.to_numpy()]
    if not len(lines):
        raise MalformedFile(path, "the file is empty", f"write the number of lines, then {wanted} a line")
    rows = lines[1:].str.extract_groups(pattern).struct.unnest()
    wrong = rows["1"].is_null()
    if wrong.any():
        at = int(wrong.arg_max() or 0) + 1
        raise MalformedFile(
            path, f"{lines[at]!r} is not {wanted}", f"write {wanted}, separated by a tab", int(number[at])
        )
    if lines[0].strip() != str(len(rows)):
        raise MalformedFile(
            path,
            f"the first line says {lines[0].strip()!r}, but {len(rows)} lines follow",
            "write how many lines follow, or fetch the file again",
            int(number[0]),
        )
    digits = [name for name in rows.columns if name != "1" or len(rows.columns) == 3]
    return number[1:], rows.with_columns(pl.col(digits).cast(pl.Int32))
