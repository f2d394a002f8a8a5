"""The wheel as its users have it: without extras everything of the core works, and what needs an extra names it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import blockhole
from tests.packaging.wheel import EXTRAS, Console, Installation, environment, without

QUERY = "William/^fatherOf/brotherOf/fatherOf"
EVERY_EXTRA = tuple(sorted({module for modules in EXTRAS.values() for module in modules}))


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Variables of an environment without any extra."""
    return without(tmp_path_factory.mktemp("bare"), EVERY_EXTRA)


@pytest.fixture(scope="module")
def console(
    installation: Installation, bare: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Console]:
    """Commands without any extra, in a folder with a run that was trained without."""
    folder = tmp_path_factory.mktemp("without extras")
    trained = installation.run(
        "train", "--data", "family", "--out", "run", "--epochs", 1, "--threads", 1, "--json", cwd=folder, env=bare
    )
    assert trained.status == 0, trained.err
    assert json.loads(trained.out)["complete"]
    with Console(installation, folder, bare) as console:
        yield console


def test_the_command_is_that_of_the_wheel(installation: Installation, tmp_path: Path) -> None:
    shown = installation.run("--version", cwd=tmp_path)
    assert (shown.status, shown.out) == (0, f"blockhole {blockhole.__version__}\n")
    program = "import blockhole; print(blockhole.__file__)"
    python = [str(installation.folder / "bin" / "python"), "-c", program]
    found = subprocess.run(python, env=environment(), cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert Path(found.strip()).is_relative_to(installation.folder)


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["data", "stats", "family"], "2,455"),
        (["answers", "family", "Elizabeth/motherOf/fatherOf"], "William"),
        (["ask", "run", QUERY, "--top", "3"], "predicted"),
        (["explain", "run", QUERY, "Beatrice"], "William → "),
        (["evaluate", "run", "--split", "base"], "MQ"),
        (["export", "run", "--to", "npz"], "vectors"),
    ],
)
def test_the_core_needs_no_extra(console: Console, arguments: list[str], shown: str) -> None:
    outcome = console.run(*arguments)
    assert outcome.status == 0, outcome.err
    assert shown in outcome.out


@pytest.mark.parametrize(
    ("extra", "feature", "arguments"),
    [
        ("plots", "drawing plots", ["evaluate", "run", "--plots", "plots"]),
        (
            "tracking",
            "writing TensorBoard logs",
            ["train", "--data", "family", "--out", "new", "--track", "tensorboard"],
        ),
        ("tracking", "logging to MLflow", ["train", "--data", "family", "--out", "new", "--track", "mlflow"]),
        ("faiss", "exporting to faiss", ["export", "run", "--to", "faiss"]),
        ("faiss", "an approximate index", ["index", "run", "--kind", "hnsw"]),
        ("postgres", "talking to PostgreSQL", ["export", "run", "--to", "postgresql://localhost/none"]),
        ("postgres", "talking to PostgreSQL", ["ask-database", "postgresql://localhost/none", QUERY]),
        ("serve", "serving", ["serve", "run"]),
    ],
)
def test_a_missing_extra_is_one_sentence_that_names_it(
    console: Console, extra: str, feature: str, arguments: list[str]
) -> None:
    outcome = console.run(*arguments)
    assert (outcome.status, outcome.out) == (1, "")
    assert outcome.err == (
        f"error: {feature} needs an optional dependency; install it with: pip install 'blockhole[{extra}]'\n"
    )


@pytest.mark.parametrize(
    ("feature", "program"),
    [
        ("a pandas frame", "from blockhole.files.frames import to_pandas; to_pandas(graph)"),
        ("a networkx graph", "from blockhole.files.frames import to_networkx; to_networkx(graph)"),
    ],
)
def test_frames_name_their_extra(console: Console, feature: str, program: str) -> None:
    done = console.execute(f"import blockhole; graph = blockhole.load('family').split.graph('train'); {program}")
    assert done.err.splitlines()[-1] == (
        f"blockhole.errors.MissingExtra: {feature} needs an optional dependency; "
        "install it with: pip install 'blockhole[frames]'"
    )
