"""Two trained runs, and one server that most tests ask."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from blockhole.answering.index import build_index
from blockhole.answering.vectors import Vectors
from blockhole.runs.folder import PICTURES
from blockhole.runs.run import Run
from tests.answering.toys import train_clockwork
from tests.serving.processes import ServerProcess, serving


@pytest.fixture(scope="session")
def run(clockwork: Path) -> Path:
    """The folder of a trained and calibrated run; read it only."""
    return clockwork


@pytest.fixture(scope="session")
def trained_again(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run over the same data with other weights."""
    folder = tmp_path_factory.mktemp("again")
    train_clockwork(folder, epochs=3)
    return folder / "run"


@pytest.fixture
def own_run(run: Path, tmp_path: Path) -> Path:
    """A copy that a test may change, without what servers of other tests have drawn of the run."""
    shutil.copytree(run, tmp_path / "own", ignore=shutil.ignore_patterns(*PICTURES))
    return tmp_path / "own"


@pytest.fixture(scope="session")
def bare_run(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same run without its calibration, and with an index whose file is gone."""
    folder = tmp_path_factory.mktemp("bare") / "bare"
    shutil.copytree(run, folder)
    (folder / "calibration.json").unlink()
    (folder / build_index(folder, Vectors.of(Run.open(folder)), Run.open(folder).graph, "exact").file).unlink()
    return folder


@pytest.fixture(scope="session")
def server(run: Path, bare_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server over both runs with everything as it is by default."""
    with serving(tmp_path_factory.mktemp("server") / "log", run, bare_run, "--port", 0) as process:
        yield process


@pytest.fixture(scope="session")
def client(server: ServerProcess) -> Iterator[httpx.Client]:
    with server.client() as client:
        yield client
