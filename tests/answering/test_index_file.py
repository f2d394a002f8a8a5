"""The index in a run's folder: same answers, as much recall as promised, never older than its run."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from blockhole.answering.engine import Engine
from blockhole.answering.index import (
    INDEX,
    ApproximateIndex,
    ApproximateKind,
    ExactIndex,
    IndexKind,
    build_index,
    load_index,
)
from blockhole.answering.vectors import Vectors
from blockhole.errors import DamagedRun, MissingExtra, RunError
from blockhole.runs.checkpoint import TrainingState, commit_shards, weights_id
from blockhole.runs.run import Run
from tests.answering.toys import make_engine


def _build(folder: Path, kind: IndexKind) -> None:
    engine = Engine.open(folder)
    build_index(folder, Vectors.of(Run.open(folder)), engine.graph, kind)


@pytest.mark.parametrize("kind", ["exact", "hnsw", "ivf"])
def test_answers_with_an_index_are_those_without(own_clockwork: Path, kind: IndexKind) -> None:
    query = '"number 3"/next/double'
    before = Engine.open(own_clockwork).ask(query, candidates="all")
    _build(own_clockwork, kind)
    loaded = load_index(own_clockwork)
    assert loaded is not None
    assert (loaded.exact is None, loaded.approximate is None) == (kind != "exact", kind == "exact")
    assert Engine.open(own_clockwork).ask(query, candidates="all") == before


def test_building_again_leaves_one_index(own_clockwork: Path) -> None:
    _build(own_clockwork, "exact")
    _build(own_clockwork, "hnsw")
    (file,) = own_clockwork.glob("index-*")
    assert file.name == json.loads((own_clockwork / INDEX).read_text(encoding="utf-8"))["file"]


@pytest.mark.parametrize("kind", ["hnsw", "ivf"])
def test_the_promised_recall_is_reached(kind: ApproximateKind) -> None:
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(50, 16))
    vectors = torch.from_numpy((centres[rng.integers(50, size=4000)] + 0.4 * rng.normal(size=(4000, 16))).astype("f4"))
    queries = torch.from_numpy(rng.normal(size=(60, 16)))
    index, recall = ApproximateIndex.build(kind, vectors, queries)
    assert recall >= 0.95
    exact = ExactIndex(vectors)
    found = 0
    for query in queries:
        scores = (vectors.double() @ query).numpy()
        best = set(np.argsort(-scores)[:10].tolist())
        assert best <= set(exact.shortlists(query[None], 10)[1].tolist())
        found += len(best & set(index.shortlist(query, 10).tolist()))
    assert found / 600 == pytest.approx(recall)


@pytest.mark.parametrize("kind", ["hnsw", "ivf"])
def test_an_approximate_index_keeps_to_the_candidates(kind: ApproximateKind) -> None:
    rng = np.random.default_rng(1)
    vectors = torch.from_numpy(rng.normal(size=(2000, 8)).astype("f4"))
    index, _ = ApproximateIndex.build(kind, vectors, torch.from_numpy(rng.normal(size=(5, 8))))
    allowed = np.flatnonzero(rng.random(2000) < 0.2).astype(np.int32)
    found = index.shortlist(torch.from_numpy(rng.normal(size=8)), 10, allowed)
    assert 0 < len(found) <= 10
    assert np.isin(found, allowed).all()


def test_large_candidate_sets_are_searched_approximately(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, _ = make_engine()
    asked: list[int] = []

    class Spy:
        def shortlist(self, query: torch.Tensor, count: int, candidates: np.ndarray | None = None) -> np.ndarray:
            asked.append(count)
            return np.array([4, 2])

    monkeypatch.setattr(engine, "approximate", Spy())
    assert {answer.entity for answer in engine.ask("e1/r0", top=3, candidates="all")} == {"e2", "e4"}
    assert len(engine.ask("e1/r0", top=3)) == 3
    assert asked == [3]
    many = engine.ask_many(["e1/r0", "e2/r1"], top=3, candidates="all")
    assert many == [engine.ask(query, top=3, candidates="all") for query in ("e1/r0", "e2/r1")]
    assert asked == [3] * 5


def test_an_index_older_than_its_run_is_refused(own_clockwork: Path) -> None:
    _build(own_clockwork, "hnsw")
    path = own_clockwork / INDEX
    record = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**record, "weights": "others"}), encoding="utf-8")
    expected = f"^the index of {own_clockwork} is older than its weights; build it again with: blockhole index .* hnsw$"
    with pytest.raises(RunError, match=expected):
        Engine.open(own_clockwork)


def test_without_faiss_an_approximate_index_says_what_to_install(
    own_clockwork: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(MissingExtra, match=r"^an approximate index needs an optional dependency; install it with: pip"):
        _build(own_clockwork, "hnsw")
    assert not list(own_clockwork.glob("index*"))


@pytest.mark.parametrize("kind", ["hnsw", "ivf"])
@pytest.mark.parametrize("left", [0, 3, 200])
def test_damage_of_an_approximate_index_is_said(own_clockwork: Path, kind: ApproximateKind, left: int) -> None:
    _build(own_clockwork, kind)
    (file,) = own_clockwork.glob("index-*")
    file.write_bytes(file.read_bytes()[:left])
    _change_record(own_clockwork, sha256=None)  # as in version 0.1.0: else faiss is not even asked
    with pytest.raises(DamagedRun, match=f"^{file} cannot be read; build it again with: .* --kind {kind}$"):
        load_index(own_clockwork)


def test_damage_is_said(own_clockwork: Path) -> None:
    _build(own_clockwork, "exact")
    (file,) = own_clockwork.glob("index-*")
    file.write_bytes(file.read_bytes()[:40])
    with pytest.raises(
        DamagedRun, match=f"^{file} is damaged: its bytes are not those that were saved; build it again"
    ):
        load_index(own_clockwork)
    _change_record(own_clockwork, sha256=None)
    with pytest.raises(DamagedRun, match=f"^{file} cannot be read .* build it again with: blockhole index"):
        load_index(own_clockwork)
    file.unlink()
    with pytest.raises(DamagedRun, match=f"^{file} is missing; build it again with: blockhole index .* --kind exact$"):
        load_index(own_clockwork)
    (own_clockwork / INDEX).write_text("[]", encoding="utf-8")
    with pytest.raises(DamagedRun, match=f"^{own_clockwork / INDEX} cannot be read"):
        load_index(own_clockwork)


@pytest.mark.parametrize(
    "change", [{"width": 0}, {"width": -1}, {"width": 2**40}, {"file": "../x"}, {"file": "x" * 999}]
)
def test_a_record_that_no_index_has_is_refused(own_clockwork: Path, change: dict[str, object]) -> None:
    _build(own_clockwork, "hnsw")
    _change_record(own_clockwork, **change)
    with pytest.raises(DamagedRun, match=f"^{own_clockwork / INDEX} cannot be read .*; build it again with: blockhole"):
        load_index(own_clockwork)


def _change_record(folder: Path, **change: object) -> None:
    record = json.loads((folder / INDEX).read_text(encoding="utf-8"))
    (folder / INDEX).write_text(json.dumps(record | change), encoding="utf-8")


def test_weights_in_shards_are_told_apart_too(tmp_path: Path) -> None:
    ids = []
    for epoch in (1, 2):
        commit_shards(tmp_path, f"epoch-{epoch}", TrainingState(epoch=epoch), metrics_bytes=0)
        ids.append(weights_id(tmp_path))
    assert ids[0] != ids[1]
