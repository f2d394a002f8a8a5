"""The bundled `family` graph: what it holds, how it is split, and that the tables still compile to it."""

from __future__ import annotations

import csv
import subprocess
import sys
from collections.abc import Iterable
from importlib.resources import files
from itertools import permutations
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
SPLITS = ("train", "valid", "test")
Fact = tuple[str, str, str]
Row = dict[str, str]


def read_table(path: Path) -> list[Row]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


@pytest.fixture(scope="module")
def people() -> list[Row]:
    return read_table(PROJECT / "scripts" / "family" / "people.tsv")


@pytest.fixture(scope="module")
def splits() -> dict[str, list[Fact]]:
    folder = files("blockhole.data") / "family"
    found: dict[str, list[Fact]] = {}
    for split in SPLITS:
        lines = (folder / f"{split}.tsv").read_text(encoding="utf-8").splitlines()
        found[split] = [(source, relation, target) for source, relation, target in (line.split("\t") for line in lines)]
    return found


def follow(facts: Iterable[Fact], source: str, *path: str) -> set[str]:
    """Exact answers by scanning the facts once a hop."""
    facts, reached = list(facts), {source}
    for hop in path:
        if hop.startswith("^"):
            reached = {s for s, r, t in facts if r == hop[1:] and t in reached}
        else:
            reached = {t for s, r, t in facts if r == hop and s in reached}
    return reached


FIGURE_B = ("William", "^fatherOf", "brotherOf", "fatherOf")
FIGURE_C = ("William", "brotherOf", "^fatherOf", "fatherOf")


def test_tables_compile_to_the_bundled_splits(tmp_path: Path) -> None:
    script = PROJECT / "scripts" / "make_family.py"
    subprocess.run([sys.executable, str(script), str(tmp_path)], check=True, capture_output=True)
    for split in SPLITS:
        bundled = (files("blockhole.data") / "family" / f"{split}.tsv").read_bytes()
        assert (tmp_path / f"{split}.tsv").read_bytes() == bundled


def test_facts_are_those_that_follow_from_the_tables(people: list[Row], splits: dict[str, list[Fact]]) -> None:
    expected: set[Fact] = set()
    for row in people:
        name = row["person"]
        expected |= {(row[role], f"{role}Of", name) for role in ("father", "mother") if row[role]}
        for spouse in filter(None, row["spouses"].split("; ")):
            expected |= {(name, "spouseOf", spouse), (spouse, "spouseOf", name)}
        if row["birthplace"]:
            expected.add((name, "bornIn", row["birthplace"]))
    for one, other in permutations(people, 2):
        if any(one[role] and one[role] == other[role] for role in ("father", "mother")):
            relation = "brotherOf" if one["sex"] == "m" else "sisterOf"
            expected.add((one["person"], relation, other["person"]))
    for row in read_table(PROJECT / "scripts" / "family" / "places.tsv"):
        expected.add((row["place"], "locatedIn", row["country"]))
    assert {fact for split in SPLITS for fact in splits[split]} == expected


def test_every_line_is_a_fact_of_its_own(splits: dict[str, list[Fact]]) -> None:
    facts = [fact for split in SPLITS for fact in splits[split]]
    assert len(facts) == len(set(facts))


def test_people_are_at_least_200_with_distinct_names(people: list[Row]) -> None:
    names = {row["person"] for row in people}
    assert len(names) == len(people) >= 200
    assert {"William", "Harry", "Charles", "Andrew", "Beatrice", "Eugenie", "Elizabeth"} <= names
    assert all(name.isascii() and name == name.strip() and '"' not in name for name in names)


def test_nobody_is_their_own_ancestor(people: list[Row]) -> None:
    parents = {row["person"]: {row["father"], row["mother"]} - {""} for row in people}
    settled: set[str] = set()
    while True:
        newly = {name for name, above in parents.items() if name not in settled and above <= settled}
        if not newly:
            break
        settled |= newly
    assert settled == set(parents)


def test_places_of_birth_all_have_a_country(people: list[Row]) -> None:
    places = {row["place"] for row in read_table(PROJECT / "scripts" / "family" / "places.tsv")}
    assert {row["birthplace"] for row in people} - {""} == places


def test_train_knows_every_entity_and_relation(splits: dict[str, list[Fact]]) -> None:
    known = {name for s, _, t in splits["train"] for name in (s, t)}
    relations = {r for _, r, _ in splits["train"]}
    for split in ("valid", "test"):
        assert {name for s, _, t in splits[split] for name in (s, t)} <= known
        assert {r for _, r, _ in splits[split]} <= relations


def test_valid_and_test_hold_one_fact_in_thirteen_each(splits: dict[str, list[Fact]]) -> None:
    total = sum(map(len, splits.values()))
    assert [len(splits[split]) for split in ("valid", "test")] == [round(0.075 * total)] * 2


def test_figure_1_has_its_edges(splits: dict[str, list[Fact]]) -> None:
    facts = {fact for split in SPLITS for fact in splits[split]}
    assert {
        ("Elizabeth", "motherOf", "Charles"),
        ("Elizabeth", "motherOf", "Andrew"),
        ("Charles", "fatherOf", "William"),
        ("Charles", "fatherOf", "Harry"),
        ("Andrew", "fatherOf", "Beatrice"),
        ("Andrew", "fatherOf", "Eugenie"),
        ("Charles", "brotherOf", "Andrew"),
        ("William", "brotherOf", "Harry"),
    } <= facts


def test_figure_1_has_its_answers(splits: dict[str, list[Fact]]) -> None:
    facts = [fact for split in SPLITS for fact in splits[split]]
    assert follow(facts, *FIGURE_B) == {"Beatrice", "Eugenie", "Louise of Edinburgh", "James of Edinburgh"}
    assert follow(facts, *FIGURE_C) == {"William", "Harry"}


def test_figure_1_needs_an_edge_that_train_lacks(splits: dict[str, list[Fact]]) -> None:
    assert ("Charles", "fatherOf", "William") in splits["test"]
    assert follow(splits["train"], *FIGURE_B) == set()
    assert follow(splits["train"], *FIGURE_C) == {"Harry"}
