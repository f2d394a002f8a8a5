"""Each verb about a run is a function of `blockhole`: what the one prints, the other gives back."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import torch

import blockhole
from blockhole.cli.main import main
from blockhole.errors import ConfigError, EvaluationError, ExportError, RunError

QUERY = '"number 3"/next/double'
TIMING = {"seconds", "queries_per_second", "peak_rss_mb", "milliseconds"}

Printed = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def folder(clockwork: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs over the same facts."""
    folder = tmp_path_factory.mktemp("library")
    shutil.copytree(clockwork, folder / "run")
    settings = {"training.epochs": 1, "training.threads": 1, "training.seed": 1}
    blockhole.train(blockhole.Run.open(folder / "run").config.data, settings=settings, out=folder / "other")
    return folder


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Printed:
    """What a verb prints with --json, without times."""

    def run(*arguments: object) -> dict[str, Any]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            main([*map(str, arguments), "--json"])
        out, err = capsys.readouterr()
        assert not stop.value.code, err
        shown: dict[str, Any] = _without_times(json.loads(out))
        return shown

    return run


def _without_times(value: Any) -> Any:
    """What `value` is as JSON, without times."""
    if isinstance(value, dict):
        return {str(name): _without_times(each) for name, each in value.items() if name not in TIMING}
    return [_without_times(each) for each in value] if isinstance(value, list | tuple) else value


@pytest.mark.parametrize("as_run", [True, False])
def test_evaluate(as_run: bool, folder: Path, printed: Printed) -> None:
    run = blockhole.Run.open(folder / "run") if as_run else str(folder / "run")
    seen: list[tuple[int, int]] = []
    report = blockhole.evaluate(run, progress=lambda done, total: seen.append((done, total)))
    shown = printed("evaluate", folder / "run")
    completed = blockhole.evaluate(run, task="completion")
    assert shown.pop("completion") == _without_times(completed.to_dict())
    assert {"run": str(folder / "run"), **_without_times(report.to_dict())} == shown
    queries = report.to_dict()["queries"] + report.to_dict()["excluded"]
    assert seen[-1] == (queries, queries)
    assert seen == sorted(seen)


def test_evaluate_takes_the_options_of_its_verb(folder: Path, printed: Printed) -> None:
    data = blockhole.load(str(blockhole.Run.open(folder / "run").config.data))
    report = blockhole.evaluate(
        folder / "run", task="completion", data=data, split="valid", truth="split", ties="pessimistic", memory="8GB",
        device="cpu", seed=3,
    )  # fmt: skip
    options = "--task completion --split valid --truth split --ties pessimistic --memory 8GB --device cpu --seed 3"
    assert _without_times(report.to_dict()).items() <= printed("evaluate", folder / "run", *options.split()).items()


def test_compare(folder: Path, printed: Printed) -> None:
    runs = [folder / "run", folder / "other"]
    comparison = blockhole.compare([blockhole.Run.open(runs[0]), runs[1]], split="base")
    assert comparison.first == str(runs[0])
    assert list(comparison.reports) == [str(run) for run in runs]
    expected = {"task": "ranking", **_without_times(comparison.to_dict())}
    assert expected == printed("compare", *runs, "--split", "base")
    with pytest.raises(EvaluationError, match="a comparison needs two or more different runs"):
        blockhole.compare([runs[0], str(runs[0])])


@pytest.mark.slow
def test_runs_in_memory_are_compared_by_their_places(folder: Path) -> None:
    data = blockhole.load(str(blockhole.Run.open(folder / "run").config.data))
    settings = {"training.epochs": 1, "training.threads": 1, "model.dim": 4}
    runs = [blockhole.train(data, model="distmult", settings={**settings, "training.seed": seed}) for seed in (0, 1)]
    assert list(blockhole.compare(runs, data=data, split="base").reports) == ["run 1", "run 2"]
    with pytest.raises(RunError, match="a run that is only in memory cannot be merged"):
        blockhole.merge(runs, folder / "never")


def test_asking(folder: Path, printed: Printed) -> None:
    run = folder / "run"
    answers = blockhole.ask(run, QUERY, top=3, candidates="all", only="predicted")
    shown = printed("ask", run, QUERY, "--top", 3, "--candidates", "all", "--only", "predicted")
    assert answers.to_dicts() == shown["answers"]
    counts = (answers.known_count, len(answers), None)
    assert counts == (shown["known_count"], shown["predicted_count"], shown["negation"])
    verdict = blockhole.check(run, QUERY, "number 8")
    assert asdict(verdict) == printed("check", run, QUERY, "number 8")
    explanation = blockhole.explain(run, QUERY, "number 8", top=2)
    assert _without_times(asdict(explanation)) == printed("explain", run, QUERY, "number 8", "--top", 2)
    found = blockhole.paths(run, "number 3", "number 5", max_length=2, top=4)
    expected = {"source": "number 3", "target": "number 5", "paths": [asdict(path) for path in found]}
    assert expected == printed("paths", run, "number 3", "number 5", "--max-length", 2, "--top", 4)


def test_answers(folder: Path, printed: Printed) -> None:
    data, query = str(blockhole.Run.open(folder / "run").config.data), '"number 3"/next & !"number 5"'
    for known in ("all", "train"):
        found = blockhole.answers(data, query, known=known)
        shown = printed("answers", data, query, "--known", known)
        assert (list(found.entities), found.query, found.known, found.negation) == (
            shown["answers"],
            shown["query"],
            shown["known"],
            shown["negation"],
        )
    assert blockhole.answers(blockhole.load(data), query).entities == blockhole.answers(data, query).entities
    with pytest.raises(ConfigError, match="known must be 'all' or 'train', not 'half'"):
        blockhole.answers(data, query, known="half")  # type: ignore[arg-type]


def test_an_engine_is_asked_like_its_run(folder: Path) -> None:
    engine = blockhole.Engine.open(folder / "run")
    assert blockhole.check(engine, QUERY, "number 8") == blockhole.check(folder / "run", QUERY, "number 8")
    assert blockhole.explain(engine, QUERY, "number 8") == blockhole.explain(folder / "run", QUERY, "number 8")
    assert blockhole.paths(engine, "number 3", "number 5") == blockhole.paths(folder / "run", "number 3", "number 5")


@pytest.mark.slow
def test_calibrate(folder: Path, printed: Printed) -> None:
    data = blockhole.Run.open(folder / "run").config.data
    calibration = blockhole.calibrate(folder / "run", data, seed=1)
    shown = printed("calibrate", folder / "run", "--data", data, "--seed", 1)
    assert {"run": str(folder / "run"), **calibration.model_dump(mode="json")} == shown


def test_merge(folder: Path, tmp_path: Path, printed: Printed) -> None:
    parts = [folder / "other", folder / "other"]
    merged = blockhole.merge([blockhole.Run.open(parts[0]), parts[1]], tmp_path / "a", [1.0, 0.5])
    shown = printed("merge", *parts, "--out", tmp_path / "b", "--weights", "1,0.5")
    assert (merged.config.model.dimension, merged.model.parameter_count()) == (shown["dim"], shown["parameters"])
    assert torch.equal(merged.model.entity, blockhole.Run.open(tmp_path / "b").model.entity)


def test_export(folder: Path, tmp_path: Path, printed: Printed) -> None:
    written = blockhole.export(folder / "run", tmp_path / "a.parquet")
    shown = printed("export", folder / "run", "--to", "parquet", "--out", tmp_path / "b.parquet")
    assert (written.entities, written.width) == (shown["entities"], shown["width"])
    assert pl.read_parquet(tmp_path / "a.parquet").equals(pl.read_parquet(tmp_path / "b.parquet"))
    with pytest.raises(ExportError, match=r"vectors are written as \.parquet, \.npz or \.faiss, or to a postgresql://"):
        blockhole.export(folder / "run", tmp_path / "a.csv")
