"""Names that are numbered while their letters go to a file."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockhole.packed import numbering as module
from blockhole.packed.numbering import PackedNames

names = st.lists(st.text(max_size=3) | st.integers(0, 60).map(str))


@given(listed=names, blocks=st.lists(names, max_size=5))
def test_numbers_are_those_of_first_appearance(listed: list[str], blocks: list[list[str]]) -> None:
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_FIRST_SLOTS", 4)
        patch.setattr(module, "_TOGETHER", 7)
        path = Path(folder) / "entities.parquet"
        expected: dict[str, int] = {}
        for name in listed:
            expected.setdefault(name, len(expected))
        with PackedNames(path, listed) as table:
            for block in blocks:
                numbers = [expected.setdefault(name, len(expected)) for name in block]
                assert table.number(pl.Series(block, dtype=pl.String)).tolist() == numbers
            assert len(table) == len(expected)
        written = pl.read_parquet(path)
        assert written.schema == {"id": pl.Int32, "name": pl.String}
        assert written["id"].to_list() == list(range(len(expected)))
        assert written["name"].to_list() == list(expected)
        assert list(Path(folder).iterdir()) == [path]


def test_a_failure_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(KeyError), PackedNames(tmp_path / "entities.parquet", ["a"]):
        raise KeyError
    assert not list(tmp_path.iterdir())
