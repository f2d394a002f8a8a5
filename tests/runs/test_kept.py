"""Runs, exports and a packed graph that version 0.1.0 wrote: they open, answer, and go on as they did there.

`kept-0.1.0/` holds a generated family (`facts`), a run on it with validation, calibration and exact index (`run`), a
smaller one with an approximate index (`part`), both merged (`merged`), one that two processes left in shards
(`sharded`), the vectors of `run` in each file format, and the facts packed. The figures below are those of 0.1.0.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from numpy.typing import NDArray

import blockhole
from blockhole.answering.engine import Engine
from blockhole.answering.export import FileKind, export_file
from blockhole.answering.index import load_index
from blockhole.answering.vectors import Vectors
from blockhole.cli.main import main
from blockhole.errors import BlockholeWarning, RunError
from blockhole.runs.merging import merge_runs
from blockhole.runs.run import Run
from tests.runs.kept import copy_kept


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy as working directory, from which the runs name their data."""
    copy_kept(tmp_path / "kept")
    monkeypatch.chdir(tmp_path / "kept")
    return tmp_path / "kept"


@pytest.mark.parametrize(
    ("name", "epochs", "complete"), [("run", 3, True), ("part", 1, True), ("merged", 3, True), ("sharded", 35, False)]
)
def test_they_open(name: str, epochs: int, complete: bool, kept: Path) -> None:
    before = contents(kept)
    run = blockhole.Run.open(kept / name)
    assert (run.state.epoch, run.complete) == (epochs, complete)
    assert run.model.parameter_count() == (1872 if name == "merged" else 936)
    assert len(run.graph) == 295
    assert contents(kept) == before


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", ["run", "merged"])
def test_they_answer_once_they_are_calibrated_again(name: str, kept: Path) -> None:
    """What 0.1.0 called a probability was another thing: it is not used, and the sentence says what to do."""
    with pytest.warns(
        BlockholeWarning, match=rf"^{name}/calibration\.json was made by version 0\.1.*blockhole calibrate"
    ):
        shares = blockhole.ask(name, "Anna/brotherOf", top=3)
    assert {answer.probability for answer in shares} == {None}
    with pytest.raises(
        RunError, match=r"was made by version 0\.1, whose probabilities were others; make it again with"
    ):
        blockhole.check(name, "Anna/brotherOf", "Leo2")
    blockhole.calibrate(name)
    answers = blockhole.ask(kept / name, "Anna/brotherOf", top=3)
    assert len(answers) == 3
    assert all(answer.probability is not None for answer in answers)


def test_they_answer_by_their_indexes(kept: Path) -> None:
    exact, approximate = (load_index(kept / name, Vectors.of(Run.open(kept / name))) for name in ("run", "part"))
    assert exact is not None
    assert exact.exact is not None
    assert approximate is not None
    assert approximate.approximate is not None
    blockhole.calibrate(kept / "part")
    assert len(blockhole.ask(kept / "part", "Anna/brotherOf", candidates="all", only="predicted")) == 10


@pytest.mark.usefixtures("kept")
def test_they_are_measured_alike(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match=r"^0$"):
        main(["evaluate", "run", "--json"])
    assert json.loads(capsys.readouterr().out)["mq"] == pytest.approx(58.80749221050225)


@pytest.mark.slow
def test_a_complete_run_goes_on(kept: Path) -> None:
    run = blockhole.train(out=kept / "run", settings={"training.epochs": 5}, resume=True)
    assert run.complete
    assert run.state.loss == pytest.approx(2.0744, abs=1e-4)
    assert blockhole.Run.open(kept / "run").state.epoch == 5


@pytest.mark.slow
def test_a_run_in_shards_goes_on(kept: Path) -> None:
    run = blockhole.train(out=kept / "sharded", resume=True)
    assert (run.state.epoch, run.complete) == (40, True)
    assert run.state.loss == pytest.approx(0.6640, abs=1e-4)
    assert not (kept / "sharded" / "shards").exists()


def test_they_are_merged_as_before(kept: Path) -> None:
    merged = merge_runs(["run", "part"], kept / "again")
    assert torch.equal(merged.model.entity, blockhole.Run.open("merged").model.entity)
    with pytest.raises(RunError, match="has no optimizer to go on with"):
        blockhole.train(out=kept / "merged", resume=True)


@pytest.mark.parametrize("kind", ["parquet", "npz", "faiss"])
@pytest.mark.slow
def test_exports_hold_the_same(kind: FileKind, kept: Path) -> None:
    blockhole.calibrate(kept / "run")
    export_file(Engine.open(kept / "run"), kind, kept / f"again.{kind}")
    then, now = (read_vectors(kept / f"{stem}.{kind}") for stem in ("vectors", "again"))
    assert then.shape == (50, 12)
    assert np.array_equal(then, now)


def read_vectors(path: Path) -> NDArray[np.float32]:
    match path.suffix:
        case ".parquet":
            return pl.read_parquet(path)["vector"].to_numpy()
        case ".npz":
            return np.asarray(np.load(path)["vector"])
    faiss = pytest.importorskip("faiss")
    index = faiss.read_index(str(path))
    return np.asarray(index.reconstruct_n(0, index.ntotal))


def test_the_packed_graph_is_the_graph_of_its_files(kept: Path) -> None:
    packed, plain = blockhole.read_split(kept / "packed"), blockhole.read_split(kept / "facts")
    assert packed.packed
    assert packed.graph("train", "valid", "test") == plain.graph("train", "valid", "test")
    assert np.array_equal(packed.graph("train").adjacency.target, plain.graph("train").adjacency.target)
