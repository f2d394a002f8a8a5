"""The index in a run's folder: same answers, as much recall as promised, never older than its run."""

from __future__ import annotations

import json
import re
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from blockhole.answering.calibrating import calibrate
from blockhole.answering.engine import Engine
from blockhole.answering.index import (
    INDEX,
    ApproximateIndex,
    ApproximateKind,
    IndexKind,
    _exact_tops,
    build_index,
    index_cost,
    load_index,
)
from blockhole.answering.vectors import Vectors
from blockhole.errors import BlockholeWarning, DamagedRun, MissingExtra
from blockhole.fitting import train
from blockhole.runs.checkpoint import TrainingState, commit_shards, weights_id
from blockhole.runs.run import Run
from blockhole.saving import read_sealed
from tests.answering.toys import make_engine


def _build(folder: Path, kind: IndexKind) -> None:
    run = Run.open(folder)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".* index will not be used")
        build_index(folder, Vectors.of(run), run.graph, kind)


@pytest.mark.parametrize("kind", ["exact", "hnsw", "ivf"])
def test_answers_with_an_index_are_those_without(
    own_clockwork: Path, kind: IndexKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("blockhole.answering.engine.MANY", 10)
    query = '"number 3"/next/double'
    before = Engine.open(own_clockwork).ask(query, candidates="all")
    _build(own_clockwork, kind)
    loaded = load_index(own_clockwork, Vectors.of(Run.open(own_clockwork)))
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
    vectors = (centres[rng.integers(50, size=4000)] + 0.4 * rng.normal(size=(4000, 16))).astype("f4")
    queries = rng.normal(size=(60, 16))
    index, recall = ApproximateIndex.build(kind, vectors, queries)
    assert recall >= 0.95
    found = 0
    for query in queries:
        scores = vectors.astype(np.float64) @ query
        best = set(np.argsort(-scores)[:10].tolist())
        found += len(best & set(index.shortlists(query[None], 10)[0].tolist()))
    assert found / 600 == pytest.approx(recall)


@pytest.mark.parametrize("kind", ["hnsw", "ivf"])
def test_whoever_waits_hears_how_many_vectors_are_in(kind: ApproximateKind, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("blockhole.answering.index._ADDED", 100)
    vectors = np.random.default_rng(0).normal(size=(250, 8)).astype("f4")
    heard: list[tuple[int, int]] = []
    index, _ = ApproximateIndex.build(kind, vectors, vectors[:5].astype(float), lambda *said: heard.append(said))
    assert heard == [(0, 250), (100, 250), (200, 250), (250, 250)]
    assert index.shape == (250, 8)


def test_the_best_ten_are_those_of_the_whole_table(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    vectors, queries = rng.normal(size=(64, 4)).astype("f4"), rng.normal(size=(7, 4))
    for part in (3, 10, 64, 100):
        monkeypatch.setattr("blockhole.answering.index._PART", part)
        found = _exact_tops(vectors, queries)
        for query, own in zip(queries, found, strict=True):
            assert set(own.tolist()) == set(np.argsort(-(vectors.astype(float) @ query))[:10].tolist())
    assert [set(own.tolist()) for own in _exact_tops(vectors[:4], queries)] == 7 * [{0, 1, 2, 3}]


def test_a_larger_index_costs_more() -> None:
    kinds: tuple[IndexKind, ...] = ("exact", "hnsw", "ivf")
    for kind in kinds:
        few, many, wide = (index_cost(kind, *shape) for shape in ((10**5, 100), (10**6, 100), (10**6, 1000)))
        assert few < many < wide
        assert many.bytes >= 4 * 10**8
    assert index_cost("ivf", 10**6, 100).seconds < index_cost("hnsw", 10**6, 100).seconds / 5
    assert index_cost("hnsw", 0, 100) == (0, 0)


@pytest.mark.parametrize("kind", ["hnsw", "ivf"])
def test_an_approximate_index_keeps_to_the_candidates(kind: ApproximateKind) -> None:
    rng = np.random.default_rng(1)
    vectors = rng.normal(size=(2000, 8)).astype("f4")
    index, _ = ApproximateIndex.build(kind, vectors, rng.normal(size=(5, 8)))
    allowed = np.flatnonzero(rng.random(2000) < 0.2).astype(np.int32)
    found = index.shortlists(rng.normal(size=(3, 8)), 10, allowed)
    assert found.shape == (3, 10)
    assert (found >= 0).any(axis=1).all()
    assert np.isin(found[found >= 0], allowed).all()


def test_only_large_candidate_sets_are_searched_approximately(monkeypatch: pytest.MonkeyPatch) -> None:
    """More than `MANY` candidates are, typed or not."""
    engine, _ = make_engine(facts=40)
    asked: list[int] = []

    class Spy:
        def shortlists(self, queries: np.ndarray, count: int, candidates: np.ndarray | None = None) -> np.ndarray:
            asked.append(30 if candidates is None else len(candidates))
            return np.repeat([[4, 2, -1]], len(queries), axis=0)

    exactly = engine.ask("e1/r0", top=3)
    monkeypatch.setattr(engine, "approximate", Spy())
    assert engine.ask("e1/r0", top=3) == exactly
    assert asked == []
    typed = {name: len(engine.known.candidates(relation)) for name, relation in (("r0", 0), ("r1", 1), ("^r2", 5))}
    few, middle, many = sorted(typed, key=lambda name: typed[name])
    monkeypatch.setattr("blockhole.answering.engine.MANY", typed[middle])
    found = engine.ask("e1/r0", top=3, candidates="all", only="predicted")
    assert {answer.entity for answer in found} <= {"e2", "e4"}
    for name in (many, few, middle):
        engine.ask(f"e1/{name}", top=3)
    assert set(asked) == {30, typed[many]}


# An index that cannot be used: answers are searched for without it, and the warning names the command


def _replace_in_record(folder: Path, **fields: object) -> None:
    path = folder / INDEX
    path.write_text(json.dumps(read_sealed(path) | fields), encoding="utf-8")


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def _cut(file: Path, left: int) -> None:
    """So many bytes are left, and no sum, as 0.1.0 kept none."""
    file.write_bytes(file.read_bytes()[:left])
    _replace_in_record(file.parent, sha256=None)


def _of_other_vectors(file: Path) -> None:
    """An index of 7 vectors."""
    vectors = np.zeros((7, 32), dtype=np.float32)
    if file.suffix == ".safetensors":
        save_file({"candidates": vectors}, file)
    else:
        index, _ = ApproximateIndex.build("hnsw", vectors, vectors.astype(np.float64))
        index.save(file)
    _replace_in_record(file.parent, sha256=None)


FAULTS: dict[str, tuple[Callable[[Path], object], str]] = {
    "other weights": (
        lambda file: _replace_in_record(file.parent, weights="others"),
        "the index of {run} was built from other weights than it has",
    ),
    "missing": (Path.unlink, "{file} is missing"),
    "cut short": (
        lambda file: file.write_bytes(file.read_bytes()[:200]),
        "{file} is damaged: its bytes are not those that were saved",
    ),
    "a flipped bit": (_flip, "{file} is damaged: its bytes are not those that were saved"),
    "cut short, no sum": (lambda file: _cut(file, 200), "{file} cannot be read"),
    "empty, no sum": (lambda file: _cut(file, 0), "{file} cannot be read"),
    "other vectors": (_of_other_vectors, "{file} does not fit the weights of {run}"),
    "another version": (
        lambda file: _replace_in_record(file.parent, version=7),
        "{run}/index.json is damaged: it is not what was saved",
    ),
    "no record": (
        lambda file: (file.parent / INDEX).write_text("[", encoding="utf-8"),
        "{run}/index.json is damaged: it is not what was saved",
    ),
}


@pytest.mark.parametrize("kind", ["exact", "hnsw"])
@pytest.mark.parametrize("fault", FAULTS)
def test_an_index_that_cannot_be_used_is_said_once_and_done_without(
    own_clockwork: Path, kind: IndexKind, fault: str
) -> None:
    query = '"number 3"/next/double'
    before = Engine.open(own_clockwork).ask(query, candidates="all")
    _build(own_clockwork, kind)
    (file,) = own_clockwork.glob("index-*")
    spoil, wrong = FAULTS[fault]
    spoil(file)
    with pytest.warns(BlockholeWarning) as warned:
        engine = Engine.open(own_clockwork)
    assert engine.ask(query, candidates="all") == before
    assert engine.check(query, before[0].entity).holds
    assert [str(each.message) for each in warned] == [
        f"answers are searched for without the index: {wrong.format(run=own_clockwork, file=file)}; "
        f"build it again with: blockhole index {own_clockwork} --kind {kind}"
    ]


@pytest.mark.slow
def test_training_nothing_leaves_the_index_in_use(own_clockwork: Path) -> None:
    calibrate(own_clockwork, seed=5)  # which is of these weights too
    _build(own_clockwork, "exact")
    before = {path.name: path.read_bytes() for path in own_clockwork.iterdir()}
    train(out=own_clockwork, resume=True)
    assert {path.name: path.read_bytes() for path in own_clockwork.iterdir()} == before


@pytest.mark.parametrize("kind", ["hnsw", "ivf"])
def test_an_index_that_no_question_will_use_says_so(own_clockwork: Path, kind: ApproximateKind) -> None:
    said = (
        f"{own_clockwork} has 66 entities, and questions over 50,000 candidates or fewer are searched exactly, in "
        f"milliseconds, so its {kind} index will not be used."
    )
    with pytest.warns(BlockholeWarning, match=f"^{re.escape(said)}$"):
        build_index(own_clockwork, Vectors.of(Run.open(own_clockwork)), Engine.open(own_clockwork).graph, kind)


def test_an_index_whose_library_is_gone_is_done_without(own_clockwork: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _build(own_clockwork, "hnsw")
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.warns(
        BlockholeWarning, match=r"^answers are searched for without the index: .* pip install 'blockhole"
    ):
        assert Engine.open(own_clockwork).approximate is None


def test_without_faiss_an_approximate_index_says_what_to_install(
    own_clockwork: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(MissingExtra, match=r"^an approximate index needs an optional dependency; install it with: pip"):
        _build(own_clockwork, "hnsw")
    assert not list(own_clockwork.glob("index*"))


@pytest.mark.parametrize(
    "change", [{"width": 0}, {"width": -1}, {"width": 2**40}, {"file": "../x"}, {"file": "x" * 999}]
)
def test_a_record_that_no_index_has_is_refused(own_clockwork: Path, change: dict[str, object]) -> None:
    _build(own_clockwork, "hnsw")
    record = read_sealed(own_clockwork / INDEX)
    (own_clockwork / INDEX).write_text(json.dumps(record | change), encoding="utf-8")
    with pytest.raises(DamagedRun, match=f"^{own_clockwork / INDEX} is damaged: .*; build it again with: blockhole"):
        load_index(own_clockwork, Vectors.of(Run.open(own_clockwork)))


@pytest.mark.parametrize("kind", ["hnsw", "ivf"])
def test_no_more_is_looked_at_than_there_is(own_clockwork: Path, kind: ApproximateKind) -> None:
    _build(own_clockwork, kind)
    record = read_sealed(own_clockwork / INDEX)
    (own_clockwork / INDEX).write_text(json.dumps(record | {"width": 2**31 - 1}), encoding="utf-8")
    loaded = load_index(own_clockwork, Vectors.of(Run.open(own_clockwork)))
    assert loaded is not None
    assert loaded.approximate is not None
    assert loaded.approximate.width == 66


@pytest.mark.parametrize(("kind", "other"), [("hnsw", "ivf"), ("ivf", "hnsw")])
def test_an_index_of_another_kind_is_refused(
    own_clockwork: Path, kind: ApproximateKind, other: ApproximateKind
) -> None:
    """A record of version 0.1 had no sum, so that only what the file holds can tell."""
    _build(own_clockwork, other)
    record = read_sealed(own_clockwork / INDEX)
    (own_clockwork / INDEX).write_text(json.dumps(record | {"kind": kind, "sha256": None}), encoding="utf-8")
    with pytest.raises(DamagedRun, match=f"cannot be read; build it again with: blockhole index .* --kind {kind}$"):
        load_index(own_clockwork, Vectors.of(Run.open(own_clockwork)))


def test_weights_in_shards_are_told_apart_too(tmp_path: Path) -> None:
    ids = []
    for epoch in (1, 2):
        commit_shards(tmp_path, f"epoch-{epoch}", TrainingState(epoch=epoch), metrics_bytes=0)
        ids.append(weights_id(tmp_path))
    assert ids[0] != ids[1]
