"""The grid search: its points, its trials after a kill, its processes."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from blockhole.errors import ConfigError, DataError, RunError
from blockhole.files.readers import UnseenEntities
from experiments import grid
from experiments.grid import SIZES, GridSearch, Point, grid_tables, point_config, points

ROOT = Path(__file__).parents[2]
TRAINING = {
    "training.batch_size": 512,
    "training.epochs": 2,
    "early_stop.every": 1,
    "loss.kind": "sampled_softmax",  # which no process has to compile a fused step for
}


class _Here(Executor):
    """Does in this process what a pool would do in others, which take seconds to start."""

    def submit(self, call: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        done: Future[Any] = Future()
        done.set_result(call(*arguments, **named))
        return done


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Searches train in this process."""
    monkeypatch.setattr(grid, "ProcessPoolExecutor", lambda jobs, mp_context, initializer: _Here())


def silent(line: str) -> None:
    """Hear nothing."""


def make_search(town: Path, file: Path, **more: Any) -> GridSearch:
    return GridSearch.plan(str(town), ["distmult"], file, quick=True, overrides=TRAINING, **more)


def trials(search: GridSearch, state: str) -> list[Any]:
    return [trial for trial in search.study("distmult").get_trials(deepcopy=False) if trial.state.name == state]


def test_the_grid_is_the_papers() -> None:
    assert {model: len(points(model, quick=False)) for model in SIZES} == {
        "blockhole": 48, "complex": 32, "distmult": 32, "rescal": 32,
    }  # fmt: skip
    config = point_config("wn11", "blockhole", Point("4x25", 0.0001, 0.025), quick=False, overrides={}, device="cpu")
    assert config.model.block_shape == (4, 25)
    assert (config.penalty.l2, config.optimizer.learning_rate, config.training.epochs) == (0.0001, 0.025, 500)
    assert (config.loss.kind, config.loss.negatives) == ("logistic", 5)
    assert sum(len(points(model, quick=True)) for model in SIZES) == 24


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::blockhole.files.readers.UnseenEntities")
def test_a_search_in_two_processes_trains_every_point_once_and_names_the_best(
    town: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with_stranger = shutil.copytree(town, tmp_path / "town")
    with (with_stranger / "dev.txt").open("a", encoding="utf-8") as dev:
        dev.write("stranger\tneighbour\tp1\t1\n")
    search = make_search(with_stranger, tmp_path / "grid.db")
    with pytest.warns(UnseenEntities):
        report = search.run(2, silent)
    assert "UnseenEntities" not in capfd.readouterr().err  # said by the search, not once more by each process
    found = report["models"]["distmult"]
    assert (found["points"], found["complete"]) == (4, 4)
    assert {Point(trial["size"], trial["l2"], trial["learning_rate"]) for trial in found["trials"]} == set(
        points("distmult", quick=True)
    )
    assert found["best"]["mq"] == max(trial["mq"] for trial in found["trials"])
    assert found["best"]["epochs"] == 2
    assert all(trial.params == trial.user_attrs["point"] for trial in trials(search, "COMPLETE"))
    (table,) = grid_tables(report)
    assert table.text()[0][:3] == ["distmult", "4 of 4", "50"]

    lines: list[str] = []
    assert search.run(2, lines.append) == report
    assert lines == []
    with pytest.raises(ConfigError, match=r"holds a search with other settings; name another --study\.$"):
        GridSearch.plan(str(with_stranger), ["distmult"], search.file, quick=True).run(1, silent)


@pytest.mark.slow
@pytest.mark.usefixtures("here")
def test_a_killed_search_goes_on_where_it_was(town: Path, tmp_path: Path) -> None:
    """kill -9 of the search while a training is under way: what was done stays, what was begun is done again."""
    search = make_search(town, tmp_path / "grid.db")
    overrides = [word for key, value in TRAINING.items() for word in ("--set", f"{key}={value}")]
    command = [sys.executable, "-m", "experiments", "reproduce", "grid", "--data", str(town), "--model", "distmult"]
    process = subprocess.Popen(
        [*command, "--quick", "--study", str(search.file), *overrides],
        cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        _wait(lambda: _states(search)["COMPLETE"] >= 1)
        _wait(lambda: _states(search)["RUNNING"] == 1 or process.poll() is not None)
        assert process.poll() is None, "the search was over before it could be killed"
        children = _children(process.pid)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    _wait(lambda: not any(Path(f"/proc/{child}").exists() for child in children))
    before = {trial.number: trial.datetime_complete for trial in trials(search, "COMPLETE")}
    assert 1 <= len(before) < 4

    report = search.run(1, silent)
    complete = trials(search, "COMPLETE")
    assert before.items() <= {trial.number: trial.datetime_complete for trial in complete}.items()
    assert sorted(Point(**trial.user_attrs["point"]) for trial in complete) == sorted(points("distmult", quick=True))
    assert report["models"]["distmult"]["complete"] == 4
    assert trials(search, "RUNNING") == trials(search, "WAITING") == []


@pytest.mark.slow
def test_a_killed_search_leaves_no_idle_process_behind() -> None:
    """A process that has nothing to train when its search is killed ends as well."""
    program = """
import multiprocessing, os, time
from concurrent.futures import ProcessPoolExecutor
from experiments.grid import _begin
pool = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"), initializer=_begin)
print(pool.submit(os.getpid).result(), flush=True)
time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, text=True) as search:
        try:
            assert search.stdout is not None
            idle = int(search.stdout.readline())
            assert Path(f"/proc/{idle}").exists()
        finally:
            search.kill()
    _wait(lambda: not Path(f"/proc/{idle}").exists())


@pytest.mark.usefixtures("here")
def test_pruning_asks_while_training(town: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^--prune goes by MQ on dev queries; leave early_stop\.metric = mq"):
        GridSearch.plan(str(town), None, tmp_path / "grid.db", prune=True, overrides={"early_stop.metric": "accuracy"})
    search = make_search(town, tmp_path / "grid.db", prune=True)
    found = search.run(1, silent)["models"]["distmult"]
    assert found["complete"] + sum(trial["reason"] == "pruned" for trial in found["trials"]) == 4
    for trial in search.study("distmult").trials:
        assert set(trial.intermediate_values) <= {1, 2}
        assert trial.intermediate_values


@pytest.mark.usefixtures("here")
def test_a_point_that_diverges_is_told_so_and_not_tried_again(town: Path, tmp_path: Path) -> None:
    search = GridSearch.plan(
        str(town), ["distmult"], tmp_path / "grid.db", quick=True, overrides=TRAINING | {"model.entity_scale": 1e30}
    )
    found = search.run(1, silent)["models"]["distmult"]
    assert found["best"] is None
    assert {trial["reason"] for trial in found["trials"]} == {"diverged"}
    lines: list[str] = []
    search.run(1, lines.append)
    assert lines == []


def test_files_that_cannot_be_searched_in(town: Path, tmp_path: Path) -> None:
    from filelock import FileLock

    search = make_search(town, tmp_path / "grid.db")
    with (
        FileLock(f"{search.file}.lock"),
        pytest.raises(ConfigError, match=r"^another process searches in .*grid\.db; wait for it, or name another"),
    ):
        search.run(1, silent)
    (tmp_path / "text.db").write_text("no database " * 100, encoding="utf-8")
    with pytest.raises(DataError, match=r"text\.db is not a study of a grid search \(file is not a database\)"):
        make_search(town, tmp_path / "text.db").run(1, silent)


def test_without_optuna_the_search_says_what_to_install(
    town: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(RunError, match=r"^the grid search needs Optuna; install it with: pip install --group exp"):
        make_search(town, tmp_path / "grid.db").run(1, silent)


def _states(search: GridSearch) -> Counter[str]:
    """How many points are in which state, once all are queued; asked of the file, in a hundredth of Optuna's time."""
    if not search.file.exists():
        return Counter()
    with closing(sqlite3.connect(search.file)) as connection:
        if not connection.execute("select 1 from sqlite_master where name = 'trials'").fetchone():
            return Counter()
        states = Counter(state for (state,) in connection.execute("select state from trials"))
    return states if states.total() == 4 else Counter()


def _children(parent: int) -> list[int]:
    listed = Path(f"/proc/{parent}/task/{parent}/children").read_text(encoding="utf-8")
    return [int(child) for child in listed.split()]


def _wait(condition: Callable[[], bool], seconds: float = 120.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.05)
