"""What stands beside `ask` for people who write Python: each takes a folder, a run or an open engine."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from blockhole.answering.calibrating import calibrate, measure_calibration
from blockhole.answering.calibration import load_calibration
from blockhole.answering.connections import paths
from blockhole.answering.engine import Engine, check
from blockhole.answering.export import export
from blockhole.answering.proofs import explain
from blockhole.data.dataset import load
from blockhole.errors import BlockholeWarning, ExportError, RunError
from blockhole.runs.run import Run

QUERY = '"number 3"/next/next'


@pytest.fixture(params=["folder", "text", "run", "engine"])
def opened(request: pytest.FixtureRequest, clockwork: Path) -> Path | str | Run | Engine:
    """The same run, as each of the four things that may be given."""
    kinds: dict[str, Path | str | Run | Engine] = {
        "folder": clockwork,
        "text": str(clockwork),
        "run": Run.open(clockwork),
        "engine": Engine.open(clockwork),
    }
    return kinds[request.param]


def test_a_verdict(opened: Path | str | Run | Engine) -> None:
    verdict = check(opened, QUERY, "number 5")
    assert (verdict.holds, verdict.probability, verdict.status) == (True, 1.0, "known")


def test_proofs(opened: Path | str | Run | Engine) -> None:
    best = explain(opened, QUERY, "number 5", top=3).proofs[0]
    assert best.probability == 1.0
    assert (best.tree.entity, best.tree.parts[0].entity) == ("number 5", "number 4")


def test_relation_paths(opened: Path | str | Run | Engine) -> None:
    found = paths(opened, "number 3", "number 5", max_length=2, top=4)
    assert (found[0].path, found[0].status) == ("next/next", "known")
    assert len(found) == 4


def test_vectors_in_a_file(opened: Path | str | Run | Engine, clockwork: Path, tmp_path: Path) -> None:
    engine = Engine.open(clockwork)
    exported = export(opened, tmp_path / "vectors.parquet")
    assert exported == (str(tmp_path / "vectors.parquet"), *engine.candidates.shape)
    assert pl.read_parquet(tmp_path / "vectors.parquet")["name"].to_list() == list(engine.graph.entities.names)
    export(opened, str(tmp_path / "no ending"), kind="npz")
    np.testing.assert_array_equal(np.load(tmp_path / "no ending")["vector"], engine.candidates)


def test_a_file_of_no_known_kind_is_refused(clockwork: Path, tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=r"vectors are written as \.parquet, \.npz or \.faiss, or to a postgresql"):
        export(clockwork, tmp_path / "vectors.csv")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_probabilities_are_fitted_kept_and_measured(own_clockwork: Path) -> None:
    before = load_calibration(own_clockwork)
    (own_clockwork / "calibration.json").unlink()
    for verb in (check, explain):
        with pytest.raises(RunError, match="has no calibration for its weights"):
            verb(own_clockwork, QUERY, "number 6")
    with pytest.warns(BlockholeWarning, match="has no calibration for its weights"):
        assert {path.status for path in paths(own_clockwork, "number 3", "number 5")} == {"known"}
    with pytest.raises(RunError, match="has no calibration for its weights"):
        measure_calibration(own_clockwork)
    run = Run.open(own_clockwork)
    calibration = calibrate(own_clockwork)
    kept = load_calibration(own_clockwork)
    assert kept is not None
    assert before is not None
    assert calibration == kept.calibration == before.calibration
    assert calibration == calibrate(run, str(run.config.data)) == calibrate(run, load(str(run.config.data)))
    measured = measure_calibration(own_clockwork)
    assert list(measured) == ["all", "1 hop", "2 hops", "3 hops", "4 hops", "5 hops"]
    assert measured["all"].bins.size.sum() == sum(part.bins.size.sum() for part in measured.values()) / 2
