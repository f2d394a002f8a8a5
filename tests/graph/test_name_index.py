"""Names by beginning and by what they hold, against reading every name."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from blockhole.graph.vocabulary import NameIndex

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
