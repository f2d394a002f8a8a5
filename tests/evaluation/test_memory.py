from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from blockhole.errors import EvaluationError
from blockhole.machine import parse_size, peak_bytes, resident_bytes, rows_within


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


@pytest.mark.slow
def test_a_program_does_not_count_what_its_parent_held() -> None:
    held = np.ones(10**8)  # 800 MB
    program = "from blockhole.machine import peak_bytes; print(peak_bytes())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 6 * 10**8 < held.nbytes


def test_rows_fill_what_is_left() -> None:
    assert rows_within(1000, rows=50, bytes_per_row=90, held=100) == 10
    assert rows_within(1000, rows=3, bytes_per_row=90, held=100) == 3
    assert rows_within(1000, rows=3, bytes_per_row=900, held=100) == 1


def test_a_cap_that_one_row_does_not_fit() -> None:
    with pytest.raises(EvaluationError) as refused:
        rows_within(10**8, rows=3, bytes_per_row=2 * 10**7, held=3 * 10**8 + 1)
    assert str(refused.value) == (
        "a memory cap of 100 MB is too small for one query: the process needs 321 MB; allow that much, for example "
        "with --memory 400MB."
    )
