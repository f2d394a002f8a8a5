"""A fresh folder, and what the journey with the installed wheel leaves on its way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.journey.towns import FILE, write_turtle
from tests.outcomes import Outcome
from tests.packaging.wheel import Console, Installation
from tests.sweep import WHOLE

Blockhole = Callable[..., Outcome]
EPOCHS = 60 if WHOLE else 20


@pytest.fixture(scope="package")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh folder that holds one Turtle file."""
    folder = tmp_path_factory.mktemp("mon dossier")
    write_turtle(folder)
    return folder


@pytest.fixture(scope="package")
def command(installation: Installation, folder: Path) -> Blockhole:
    """The installed command, typed in the folder."""

    def typed(*arguments: object) -> Outcome:
        return installation.run(*arguments, cwd=folder)

    return typed


@pytest.fixture(scope="package")
def blockhole(installation: Installation, folder: Path) -> Iterator[Blockhole]:
    """The same where the process is not what matters: all in one."""
    with Console(installation, folder) as console:
        yield console.run


@pytest.fixture(scope="package")
def run(command: Blockhole) -> str:
    """A run on the facts of the file, some of which were set aside."""
    split = command("data", "split", FILE, "--out", "facts", "--valid", 0.1, "--test", 0.1)
    assert split.status == 0, split.err
    # Of eight ways to train the look chooses one with walks: tried alone, they give the same run.
    ways = () if WHOLE else ("--on", "paths")
    trained = command(
        "train", "--data", "facts", "--out", "mes runs/premier", "--epochs", EPOCHS, "--threads", 1, *ways
    )
    assert trained.status == 0, trained.err
    assert trained.out.endswith("run: mes runs/premier\n")
    return "mes runs/premier"


@pytest.fixture(scope="package")
def unsplit_run(blockhole: Blockhole) -> str:
    """A run on the whole file, as everybody's first is; barely trained."""
    # With a preset there is no look at the graph. `run` has taken one, and held facts out for it as this would.
    preset = () if WHOLE else ("--preset", "small")
    trained = blockhole("train", "--data", FILE, "--out", "tout", "--epochs", 1, "--threads", 1, *preset)
    assert trained.status == 0, trained.err
    return "tout"
