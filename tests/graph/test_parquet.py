"""A Parquet file that lies about itself is refused before polars asks for the memory that it promises to fill."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from blockhole.errors import MalformedFile
from blockhole.files.readers import read_graph
from blockhole.graph.parquet import check_parquet
from tests.fuzz.file_inputs import parquets


def _facts(path: Path) -> bytes:
    names = {name: [f"{name}{row}" for row in range(5)] for name in ("source", "relation", "target")}
    pl.DataFrame(names).write_parquet(path, compression="uncompressed", statistics=False, use_pyarrow=False)
    return path.read_bytes()


def _footer(change: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    """The file with another footer, and the length of that."""

    def changed(content: bytes) -> bytes:
        start = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
        footer = change(content[start:-8])
        return content[:start] + footer + len(footer).to_bytes(4, "little") + b"PAR1"

    return changed


DATA_PAGE = b"\x2c\x15\x0a\x15"  # field 5, a structure; its field 1, a number: twice 5
ENORMOUS = b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda it: it.replace(DATA_PAGE, b"\x2c\x15\x7f\x15", 1), "it tells of -64 values"),
        (lambda it: it.replace(DATA_PAGE, b"\x2c\x15\x7e\x15", 1), "it tells of 63 values"),
        (
            lambda it: it.replace(DATA_PAGE, b"\x2c\x15\x08\x15", 1),
            "the pages of a column have another number of values",
        ),
        (_footer(lambda it: it.replace(b"\x16\x0a", b"\x16" + ENORMOUS, 1)), "it tells of|another number|parts have"),
        (_footer(lambda it: it.replace(b"\x16\x0a", b"\x16" + ENORMOUS)), "it tells of|another number|behind the end"),
        (_footer(lambda it: it[: len(it) // 2]), "its description ends early"),
        (_footer(lambda it: b"\x15\x04\x19\xfc\xff\xff\xff\xff\x07" + it), "its description ends early"),
        (_footer(lambda it: b"\x1c" * 100), "its description is nested too deeply"),
        (_footer(lambda it: b"\x15" + b"\xff" * 12), "its description cannot be read"),
        (_footer(lambda it: b"\0"), "its description is not complete"),
        (lambda it: it[:-8] + b"\xff\xff\xff\x7fPAR1", "its footer is longer than the file"),
    ],
)
def test_numbers_that_cannot_be_are_refused(change: Callable[[bytes], bytes], said: str, tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    content = _facts(path)
    check_parquet(path)
    path.write_bytes(change(content))
    assert path.read_bytes() != content
    with pytest.raises(ValueError, match=said):
        check_parquet(path)
    with pytest.raises(MalformedFile, match=rf"f\.parquet: not a Parquet file of names \(damaged: ({said})"):
        read_graph(path)


def test_what_others_write_is_not_refused(tmp_path: Path) -> None:
    files = parquets(tmp_path)
    assert len(files) > 20
    for name, content in files:
        (tmp_path / name).write_bytes(content)
        check_parquet(tmp_path / name)
