"""Names by beginning and by what they hold, against reading every name; accents, however they are written."""

from __future__ import annotations

from pathlib import Path
from unicodedata import normalize

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockhole.graph.vocabulary import NameIndex, StoredNames, Vocabulary

NAMES = ["Zoë", "william", "William", "Wilhelm II", "Anne", "Queen Anne", "ß", "SS", "a\0b", ""]
some_names = st.lists(st.text("abAB \0ßé", max_size=5), unique=True, max_size=12)


def test_a_beginning_is_found_whatever_the_case() -> None:
    index = NameIndex(NAMES)
    assert [NAMES[i] for i in index.beginning("WIL", 10)] == ["Wilhelm II", "William", "william"]
    assert [NAMES[i] for i in index.beginning("WIL", 2)] == ["Wilhelm II", "William"]
    assert [NAMES[i] for i in index.beginning("ss", 10)] == ["SS", "ß"]
    assert index.beginning("x", 10) == []


def test_what_a_name_holds_is_found_behind_its_beginning() -> None:
    index = NameIndex(NAMES)
    assert [NAMES[i] for i in index.holding("anne", 10)] == ["Queen Anne"]
    assert index.holding("", 10) == []


@given(some_names, st.text("abAB \0ßé", max_size=2), st.integers(1, 6))
def test_both_are_those_of_reading_every_name(names: list[str], typed: str, count: int) -> None:
    index, wanted = NameIndex(names), typed.casefold()
    order = sorted(range(len(names)), key=lambda i: (names[i].casefold(), names[i]))
    begin = [i for i in order if names[i].casefold().startswith(wanted)]
    assert index.beginning(typed, count) == begin[:count]
    hold = [i for i in order if wanted in names[i].casefold() and i not in begin]
    assert index.holding(typed, count) == (hold[:count] if wanted and "\0" not in wanted else [])


@pytest.mark.parametrize("stored", [True, False])
def test_the_place_of_a_name_is_by_its_characters(stored: bool, tmp_path: Path) -> None:
    names = [*NAMES, "\U0001f600", "\uffee", "zz"]
    pl.DataFrame({"name": names}).write_parquet(tmp_path / "names.parquet")
    vocabulary = Vocabulary(StoredNames(tmp_path / "names.parquet", len(names)) if stored else names)
    assert vocabulary.alphabetical.tolist() == [sorted(names).index(name) for name in names]


ACCENTS = ["Zo\u00eb", "Rene\u0301e", "Zoe", "a\u030a", "\u00e5", "http://x/e\u0301"]


@pytest.mark.parametrize("stored", [True, False])
def test_an_accent_is_the_same_however_it_is_written(stored: bool, tmp_path: Path) -> None:
    pl.DataFrame({"name": ACCENTS}).write_parquet(tmp_path / "names.parquet")
    names = StoredNames(tmp_path / "names.parquet", len(ACCENTS)) if stored else ACCENTS
    vocabulary = Vocabulary(names, prefixes={"x": "http://x/"})
    assert list(vocabulary) == ACCENTS
    for i, name in enumerate(ACCENTS):
        assert vocabulary.id(name) == i  # what is written like this comes first
    for typed, found in (("Zoe\u0308", 0), ("Ren\u00e9e", 1), ("\u212b".lower(), 4), ("x:\u00e9", 5), ("x:e\u0301", 5)):
        assert vocabulary.id(typed) == found
    assert "Zo\u00e9" not in vocabulary
    assert np.array_equal(vocabulary.ids(["Zoe\u0308", "Zoe", "Ren\u00e9e"]), [0, 2, 1])


@given(
    names=st.lists(st.text("ae\u0301\u0308\u00e9\u00eb", min_size=1, max_size=3), unique=True, max_size=6),
    typed=st.text("ae\u0301\u00e9", max_size=3),
)
def test_what_is_found_is_the_name_or_its_only_other_spelling(names: list[str], typed: str) -> None:
    found = Vocabulary(names).find(typed)
    same = [i for i, name in enumerate(names) if normalize("NFC", name) == normalize("NFC", typed)]
    if typed in names:
        assert found == names.index(typed)
    elif len(same) == 1:
        assert found == same[0]
    else:
        assert found is None or (found in same and names[found] == normalize("NFC", typed))
