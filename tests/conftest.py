"""What tests share: the real data, the installed wheel, laws tested without a clock, kernels without a GPU."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path

# Tests run on every processor already: torch's own threads would wait for each other. Processes that tests start
# inherit it.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
import typer.main
from hypothesis import HealthCheck, settings

from blockhole import fitting
from blockhole.compiled import available_threads
from tests.answering.toys import train_clockwork
from tests.family import train_family
from tests.packaging.wheel import Installation, build, install, installed
from tests.sweep import WHOLE
from tests.workers import made_once

# A deadline would make a law fail on a busy machine: the first call of a compiled loop alone takes seconds. So would a
# limit on how long examples may take to make.
settings.register_profile(
    "untimed", max_examples=200 if WHOLE else 25, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("untimed")

# By its own rule the garbage collector takes every fifteenth second of the suite, and a fifth of what imports take.
gc.set_threshold(50_000, 20, 100)

# Typer makes all verbs anew each time that the command line is called, which takes longer than most commands.
typer.main.get_command = cache(typer.main.get_command)

TESTS = Path(__file__).parent
SLOW = {"distributed", "docs", "examples", "experiments", "explorer", "journey", "packaging", "serving"}
"""Folders of tests that start servers, browsers, process groups or installations."""
FIRST = (
    "distributed",
    "examples",
    "docs",
    "training",
    "journey",
    "answering",
    "experiments",
    "serving",
    "cli",
    "packaging",
    "evaluation",
    "fuzz",
)
"""Folders by how long their longest files take: were one of these the last, a worker would end long after the others.

The journey comes when loops are compiled, which the installed wheel takes along.
"""
BETWEEN, EVERY = "explorer", 7
"""The folder whose tests wait half of the time, for a browser: a file of it comes after so many others, which have the
processors meanwhile."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One worker more than processors, for `-n auto`: servers, browsers and groups of processes are waited for.

    With one more still, the suite takes half a minute longer: every worker imports and compiles for itself.
    """
    return available_threads() + 1


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import what `-m "not slow"` would leave out whole: that takes seconds in every worker."""
    left_out = collection_path.parent == TESTS and collection_path.name in SLOW
    return True if left_out and config.option.markexpr == "not slow" else None


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark what takes long."""
    if _folder(item) in SLOW:
        item.add_marker(pytest.mark.slow)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let what takes long begin first, but for guides that change a copy of the package.

    The copy takes along what has been compiled by then.
    """
    place = {folder: place for place, folder in enumerate(FIRST)}
    place["guides"] = place["serving"]
    items.sort(key=lambda item: place.get("guides" if _copies(item) else _folder(item), len(FIRST)))
    others = dict.fromkeys(item.path for item in items if _folder(item) != BETWEEN)
    between = dict.fromkeys(item.path for item in items if _folder(item) == BETWEEN)
    turn = {path: float(place) for place, path in enumerate(others)}
    turn |= {path: EVERY * place - 0.5 for place, path in enumerate(between, start=1)}
    items.sort(key=lambda item: turn[item.path])


def pytest_collection_finish() -> None:
    """Keep what was imported out of the garbage collector's sight: looking through it takes most of a second."""
    gc.freeze()


def _folder(item: pytest.Item) -> str:
    return item.path.relative_to(TESTS).parts[0]


def _copies(item: pytest.Item) -> bool:
    return _folder(item) == "docs" and item.path.name.startswith("test_new_")


@pytest.fixture(scope="session")
def data_root() -> Path:
    """The folder of real data sets; tests that need it skip only where it is missing."""
    named = os.environ.get("BLOCKHOLE_DATA")
    if not named or not Path(named).is_dir():
        pytest.skip("BLOCKHOLE_DATA names no folder of data sets")
    return Path(named).resolve()


@pytest.fixture(scope="session")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist of this tree, and the wheel that was built from the sdist."""
    return made_once(tmp_path_factory, "dist", build)


@pytest.fixture(scope="session")
def installation(distributions: Path, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """The wheel, installed."""
    (wheel,) = distributions.glob("*.whl")
    return Installation(installed() or made_once(tmp_path_factory, "installed", partial(install, wheel)))


@pytest.fixture(scope="session")
def family_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run that `FAMILY` makes; read it only."""
    return made_once(tmp_path_factory, "family", train_family) / "run"


@pytest.fixture(scope="session")
def clockwork(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run over numbers, trained and calibrated; read it only."""
    return made_once(tmp_path_factory, "clockwork", train_clockwork) / "run"


@pytest.fixture(scope="module")
def uncalibrated() -> Iterator[None]:
    """No run is calibrated: that takes ten times as long as a small training, and has tests of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fitting, "_calibrate", lambda run, data: None)
        yield


_INTERPRETER = """
import contextlib, io, json, sys, traceback
for line in sys.stdin:
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        try:
            exec(compile(json.loads(line), "the program", "exec"), {"__name__": "__main__"})
        except Exception:
            traceback.print_exc(file=printed)
    print(json.dumps(printed.getvalue()), flush=True)
"""


@pytest.fixture(scope="session")
def interpreter() -> Iterator[subprocess.Popen[str]]:
    """A process in which Triton interprets its kernels: it decides that when it is imported, which takes seconds."""
    pytest.importorskip("triton", reason="Triton is not installed on this platform")
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", _INTERPRETER]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment) as process:
        yield process
        process.kill()


@pytest.fixture
def interpreted(interpreter: subprocess.Popen[str]) -> Callable[[str], None]:
    """Runs a program that holds GPU kernels against oracles, on the CPU; it must end well, having printed `agree`."""

    def run(program: str) -> None:
        assert interpreter.stdin is not None
        assert interpreter.stdout is not None
        interpreter.stdin.write(json.dumps(program) + "\n")
        interpreter.stdin.flush()
        assert json.loads(interpreter.stdout.readline() or '"the process has ended"') == "agree\n"

    return run
