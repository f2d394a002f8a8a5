"""Compile the hand-written tables of scripts/family into the splits of the bundled data set `family`.

Usage: python scripts/make_family.py [OUT]; OUT is by default the folder of the package that holds the data set.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from blockhole.data.edge_split import split_edges
from blockhole.data.family_tree import RELATIONS, Kinship
from blockhole.graph.vocabulary import Vocabulary

TABLES = Path(__file__).parent / "family"
FAMILY = Path(__file__).parents[1] / "src" / "blockhole" / "data" / "family"
SEED = 1837  # the year Victoria came to the throne
Fact = tuple[str, str, str]
Row = dict[str, str]

# The edge that both paths of Figure 1 take: without it, following edges takes (b) to nobody, and (c) only to Harry.
HELD_OUT: tuple[Fact, ...] = (("Charles", "fatherOf", "William"),)
# What is left of the figure stays in train, so that a model has something to infer the held-out fact from.
KEPT: tuple[Fact, ...] = (
    ("Charles", "brotherOf", "Andrew"),
    ("Charles", "brotherOf", "Anne"),
    ("Charles", "brotherOf", "Edward of Edinburgh"),
    ("Charles", "fatherOf", "Harry"),
    ("Harry", "brotherOf", "William"),
    ("Diana", "motherOf", "William"),
    ("Diana", "motherOf", "Harry"),
    ("Andrew", "fatherOf", "Beatrice"),
    ("Andrew", "fatherOf", "Eugenie"),
    ("Edward of Edinburgh", "fatherOf", "Louise of Edinburgh"),
    ("Edward of Edinburgh", "fatherOf", "James of Edinburgh"),
    ("Elizabeth", "motherOf", "Charles"),
    ("Elizabeth", "motherOf", "Andrew"),
    ("William", "brotherOf", "Harry"),
)


def read_table(path: Path) -> list[Row]:
    """The rows of a tab-separated table with a header."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def check_people(people: list[Row]) -> None:
    """Stop at the first row that cannot be right: a name twice, a parent of the wrong sex or age."""
    known: dict[str, Row] = {}
    for row in people:
        if row["person"] in known:
            sys.exit(f"{row['person']} is listed twice")
        known[row["person"]] = row
    for row in people:
        for role, sex in (("father", "m"), ("mother", "f")):
            if not row[role]:
                continue
            parent = known[row[role]]
            if parent["sex"] != sex:
                sys.exit(f"{row[role]} cannot be the {role} of {row['person']}: wrong sex")
            if row["born"] and parent["born"] and not 15 <= int(row["born"]) - int(parent["born"]) <= 65:
                sys.exit(f"{row[role]} cannot be the {role} of {row['person']}: wrong age")


def compile_kinship(people: list[Row], places: list[Row]) -> tuple[Vocabulary, Kinship]:
    """Give ids to people, places and countries, in table order, and turn the columns into pairs of ids."""
    names = [row["person"] for row in people] + [row["place"] for row in places]
    entities = Vocabulary([*names, *sorted({row["country"] for row in places})])

    def pairs(named: list[tuple[str, str]]) -> NDArray[np.int32]:
        return np.array([entities.ids(pair) for pair in named], dtype=np.int32)

    kinship = Kinship(
        male=np.array([row["sex"] == "m" for row in people]),
        father_of=pairs([(row["father"], row["person"]) for row in people if row["father"]]),
        mother_of=pairs([(row["mother"], row["person"]) for row in people if row["mother"]]),
        couples=pairs([(row["person"], name) for row in people for name in row["spouses"].split("; ") if name]),
        born_in=pairs([(row["person"], row["birthplace"]) for row in people if row["birthplace"]]),
        located_in=pairs([(row["place"], row["country"]) for row in places]),
    )
    return entities, kinship


def main(out: Path) -> None:
    """Write train.tsv, valid.tsv and test.tsv into `out`."""
    people, places = read_table(TABLES / "people.tsv"), read_table(TABLES / "places.tsv")
    check_people(people)
    entities, kinship = compile_kinship(people, places)
    relations = Vocabulary(RELATIONS, kind="relation")
    facts = kinship.facts()

    def mark(named: tuple[Fact, ...]) -> NDArray[np.bool_]:
        ids = [(entities.id(s), relations.id(r), entities.id(t)) for s, r, t in named]
        marks = (facts[:, None] == np.array(ids)).all(axis=2)
        if not marks.any(axis=0).all():
            sys.exit("a fact that HELD_OUT or KEPT names does not follow from the tables")
        marked: NDArray[np.bool_] = marks.any(axis=1)
        return marked

    rng = np.random.default_rng(SEED)
    split = split_edges(entities, relations, facts, rng, held_out=mark(HELD_OUT), kept=mark(KEPT))
    for name, triples in (("train", split.train), ("valid", split.valid), ("test", split.test)):
        lines = (f"{entities[s]}\t{relations[r]}\t{entities[t]}\n" for s, r, t in triples.tolist())
        (out / f"{name}.tsv").write_text("".join(lines), encoding="utf-8", newline="\n")
        print(f"{name}: {len(triples)} facts", file=sys.stderr)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else FAMILY)
