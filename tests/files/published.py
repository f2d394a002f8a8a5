"""A small folder as BetaE was published: names in pickles, facts by id in both directions, queries by structure."""

from __future__ import annotations

import pickle
from collections import defaultdict
from pathlib import Path
from typing import Any

ENTITIES = ["ann", "bob", "cid", "dot", "eve"]
RELATIONS = ["likes", "knows"]
FACTS = {
    "train": [(0, 0, 1), (1, 1, 2), (2, 0, 3), (3, 1, 4)],
    "valid": [(0, 0, 2), (1, 1, 3)],
    "test": [(0, 0, 3), (2, 1, 4), (4, 0, 0)],
}
"""Ids of source, relation and target, the relation without regard to inverses."""

HOP = ("e", ("r",))
QUERIES: dict[Any, set[Any]] = {
    HOP: {(0, (0,)), (3, (1,))},
    (HOP, HOP, ("u",)): {((0, (0,)), (1, (2,)), (-1,))},
    ((("e", ("r", "n")), ("e", ("r", "n"))), ("n",)): {(((0, (0, -2)), (1, (2, -2))), (-2,))},
    (("e", ("r", "r", "n")), HOP): {((4, (3, 1, -2)), (0, (0,)))},
    ((HOP, ("e", ("r", "n"))), ("r",)): {(((0, (0,)), (1, (2, -2))), (2,))},
}
"""Relation 2k is relation k, and 2k + 1 its inverse."""


def defaulting(queries: dict[Any, set[Any]]) -> defaultdict[Any, set[Any]]:
    """As published: a default dictionary of sets."""
    found: defaultdict[Any, set[Any]] = defaultdict(set)
    found.update(queries)
    return found


def write_pickle(path: Path, value: object, protocol: int = 4) -> None:
    path.write_bytes(pickle.dumps(value, protocol))


def write_published(folder: Path, *, by_name: bool = False, queries: dict[Any, set[Any]] | None = None) -> Path:
    """Write such a folder; `by_name` numbers the names instead of naming the numbers."""
    folder.mkdir(exist_ok=True)
    pairs = [name for relation in RELATIONS for name in (f"+{relation}", f"-{relation}")]
    for kind, names in (("ent", ENTITIES), ("rel", pairs)):
        if by_name:
            write_pickle(folder / f"{kind}2id.pkl", {name: number for number, name in enumerate(names)})
        else:
            write_pickle(folder / f"id2{kind}.pkl", dict(enumerate(names)))
    for split, facts in FACTS.items():
        lines = [f"{s}\t{2 * r}\t{t}\n{t}\t{2 * r + 1}\t{s}\n" for s, r, t in facts]
        (folder / f"{split}.txt").write_text("".join(lines))
    write_pickle(folder / "test-queries.pkl", defaulting(QUERIES if queries is None else queries))
    return folder
