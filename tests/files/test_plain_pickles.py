"""Pickles are read as data: plain values come out as Python's own reader gives them, anything else is refused unrun."""

from __future__ import annotations

import pickle
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from blockhole.errors import MalformedFile
from blockhole.files.plain_pickles import read_plain_pickle

hashable = st.recursive(
    st.integers(-(2**63), 2**64 - 1) | st.text() | st.booleans() | st.none() | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=4).map(tuple) | st.frozensets(inner, max_size=4),
    max_leaves=8,
)
values = st.recursive(
    hashable,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(hashable, inner, max_size=4) | st.sets(hashable),
    max_leaves=12,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=values, protocol=st.integers(0, pickle.HIGHEST_PROTOCOL))
def test_plain_values_are_read_as_they_were_written(tmp_path: Path, value: object, protocol: int) -> None:
    path = tmp_path / "value.pkl"
    path.write_bytes(pickle.dumps([value, value], protocol))
    assert read_plain_pickle(path) == [value, value]


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_default_dictionary_of_sets_becomes_a_dictionary(tmp_path: Path, protocol: int) -> None:
    value: defaultdict[Any, set[Any]] = defaultdict(set)
    value["e", ("r",)] = {(1, (2,)), (3, (4,))}
    for kind in (value, OrderedDict(value)):
        (tmp_path / "value.pkl").write_bytes(pickle.dumps(kind, protocol))
        assert read_plain_pickle(tmp_path / "value.pkl") == dict(value)


class Call:
    """What a pickle calls when Python reads it."""

    def __init__(self, function: Callable[..., object], *arguments: object) -> None:
        self.call = function, arguments

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return self.call


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("wrapped", [lambda value: value, lambda value: {"q": {(1, value)}}, lambda value: [[], value]])
def test_a_call_is_refused_and_not_made(tmp_path: Path, protocol: int, wrapped: Callable[[object], object]) -> None:
    called = tmp_path / "called"
    path = tmp_path / "value.pkl"
    path.write_bytes(pickle.dumps(wrapped(Call(Path.touch, called)), protocol))
    with pytest.raises(
        MalformedFile, match=r"value\.pkl: the pickle holds .* nothing of it was run; use the file that"
    ):
        read_plain_pickle(path)
    assert not called.exists()
    pickle.loads(path.read_bytes())  # noqa: S301  it would have been
    assert called.exists()


def test_the_refusal_names_what_the_pickle_asks_for(tmp_path: Path) -> None:
    path = tmp_path / "value.pkl"
    path.write_bytes(pickle.dumps({1: Fraction(1, 2)}))
    with pytest.raises(MalformedFile) as failure:
        read_plain_pickle(path)
    assert str(failure.value) == (
        f"{path}: the pickle holds fractions.Fraction, and only sets, tuples, lists, dictionaries, texts and numbers "
        "are read; nothing of it was run; use the file that was published."
    )


def _refused(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    with pytest.raises(MalformedFile) as failure:
        read_plain_pickle(path)
    return str(failure.value)


@pytest.mark.parametrize("level", [b"q%ch%c\x86", b"q%c(h%ch%c\x85\x91"], ids=["tuples", "frozen sets"])
@pytest.mark.parametrize("holder", [b"\x8f(%b\x90", b"}%bNs", b"](%be", b"(%b\x91", b"%b"])
def test_values_that_take_for_ever_to_hash_are_refused(tmp_path: Path, level: bytes, holder: bytes) -> None:
    """A hundred levels, each holding the one below it twice: 2¹⁰⁰ values in a few hundred bytes."""
    nested = b"K\x01" + b"".join(level % ((number,) * level.count(b"%c")) for number in range(100))
    assert _refused(tmp_path / "value.pkl", b"\x80\x04" + holder % nested + b".") == (
        f"{tmp_path / 'value.pkl'}: the pickle holds a tuple or frozen set of more than 500 values, counting those "
        "inside it, as no query set does; use the file that was published."
    )


@pytest.mark.parametrize("values", [500, 501])
def test_500_nested_values_are_read_and_no_more(tmp_path: Path, values: int) -> None:
    flat, nested = (
        tuple(range(values)),
        tuple((each, (each,), each, each, each, each, each, each) for each in range(50)),
    )
    path = tmp_path / "value.pkl"
    for value in (flat, frozenset(flat), nested[: values // 10] + tuple(range(values % 10))):
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            if values == 501:
                assert "more than 500 values" in _refused(path, pickle.dumps(value, protocol))
            else:
                path.write_bytes(pickle.dumps(value, protocol))
                assert read_plain_pickle(path) == value


def test_numbers_of_more_than_64_bits_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "value.pkl"
    for number in (2**64, -(2**64), 2**2100):
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            assert "holds a number of more than 64 bits" in _refused(path, pickle.dumps({number: 1}, protocol))


def test_copies_of_copies_are_refused(tmp_path: Path) -> None:
    """A list of n values that is copied n times: as many bytes as both, and n² values."""
    content = b"cbuiltins\nlist\nq\x01](" + b"K\x01" * 1000 + b"e\x85q\x00" + b"h\x01h\x00R" * 1000 + b"."
    assert "the pickle holds copies of copies of values" in _refused(tmp_path / "value.pkl", content)


@pytest.mark.parametrize("length", [2**33, 2**40, 2**62])
def test_room_is_made_for_no_more_than_the_file_has(tmp_path: Path, length: int) -> None:
    content = b"\x80\x04\x8d" + length.to_bytes(8, "little") + b"abc."
    assert _refused(tmp_path / "value.pkl", content).endswith("not a pickle, or a damaged one; fetch it again.")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"hello",
        pickle.dumps([1, 2, (3, "four")])[:-3],
        b"\x80\x04.",
        b"(.",
        b"a.",
        b"h\x07.",
        b"c__builtin__\nset\n.",
        b"c__builtin__\nset\n)c__builtin__\nset\nR.",
        b"K\x01K\x02R.",
        pickle.dumps([set]),
        pickle.dumps({1: (set, 2)}),
        pickle.dumps({frozenset}),
        pickle.dumps((set,)),
        b"(K\x01d.",
        b"](K\x01u.",
        b"\x8f](K\x01]\x90.",
    ],
)
def test_what_is_no_pickle_is_one_sentence(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "value.pkl").write_bytes(content)
    with pytest.raises(MalformedFile, match=r"value\.pkl: not a pickle, or a damaged one; fetch it again\."):
        read_plain_pickle(tmp_path / "value.pkl")
