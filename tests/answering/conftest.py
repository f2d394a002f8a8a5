"""The trained run that answers are asked of, to be changed, and a database."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.postgres import postgres


@pytest.fixture
def own_clockwork(clockwork: Path, tmp_path: Path) -> Path:
    """A copy of the run that a test may change."""
    shutil.copytree(clockwork, tmp_path / "run")
    return tmp_path / "run"


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """The address of a real PostgreSQL with pgvector; every test has tables of its own, or writes them first."""
    with postgres() as address:
        yield address
