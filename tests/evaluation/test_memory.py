from __future__ import annotations

import pytest

from blockhole.errors import EvaluationError
from blockhole.evaluation.memory import parse_size, peak_bytes, resident_bytes, rows_within


@pytest.mark.parametrize(
    ("text", "size"),
    [("2GB", 2 * 10**9), ("1.5 GiB", 3 * 2**29), ("800mb", 8 * 10**8), ("512", 512), ("3 kB", 3000), ("1TiB", 2**40)],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "GB", "2 apples", "-1GB", "0MB", "1e9"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(EvaluationError, match=r"is not a size of memory; write for example 2GB, 1.5GiB or 800MB\."):
        parse_size(text)


def test_the_process_holds_memory() -> None:
    # The kernel keeps the two counts apart, so they agree to some pages only.
    assert 10**7 < resident_bytes() < 1.05 * peak_bytes()


def test_rows_fill_what_is_left() -> None:
    free = resident_bytes() + 100 * 10**6
    assert rows_within(free, 1000, bytes_per_row=10**7, fixed_bytes=50 * 10**6) in (3, 4, 5, 6)
    assert rows_within(free, 2, bytes_per_row=10, fixed_bytes=0) == 2
    with pytest.raises(EvaluationError, match=r"too small for one query: the process needs .* MB; allow that "):
        rows_within(free, 1000, bytes_per_row=10**9, fixed_bytes=0)
