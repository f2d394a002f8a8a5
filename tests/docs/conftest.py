"""What the examples of the documentation find when they run: one core."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.family import pinned


@pytest.fixture
def one_core() -> Iterator[None]:
    """This process, and those that it starts, on one core while a test runs."""
    with pinned():
        yield
