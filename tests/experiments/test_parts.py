"""What each part adds: hops of which parts are left out, and the rows that are shown."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import experiments.parts as parts
from blockhole.answering.engine import Engine
from blockhole.answering.vectors import Floats, Vectors
from blockhole.data.dataset import DataSet, load
from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.queries.exact import plan_answers
from blockhole.queries.query_sets import QuerySet
from blockhole.runs.config import overlay, validate
from experiments.__main__ import RECORDS, main
from experiments.parts import ROWS, OneWay, Shares, engine_of, fit_curve, parts_table, parts_tables
from tests.answering.toys import SIZES, calibration_by_hand, make_model
from tests.outcomes import Command, command

ONE_EPOCH = {"training": {"epochs": 1, "threads": 1}}


@pytest.fixture(scope="module")
def data(queried_town: Path) -> DataSet:
    return load(queried_town)


@pytest.fixture(scope="module")
def vectors(data: DataSet) -> Vectors:
    """Random weights over the town."""
    split = data.split
    model = make_model("blockhole", len(split.entities), len(split.relations), seed=1)
    return Vectors.of_weights(SIZES["blockhole"], dict(model.state_dict()), len(split.relations))


def _by_hand(engine: Engine, source: int, relation: int, scale: float) -> Floats:
    """n_f f of every entity: a softmax of its scores, times the number of known objects."""
    everyone = engine.vectors.candidates(np.arange(engine.graph.num_entities))
    power = np.exp(scale * everyone @ engine.vectors.query(source, [relation])[0])
    share: Floats = power / power.sum() * max(len(engine.known.answers(source, [relation])), 1)
    return share


def test_forward_shares_are_a_softmax_of_scores_as_they_are(data: DataSet, vectors: Vectors) -> None:
    engine = engine_of("shares", vectors, calibration_by_hand(chains=True), data)
    assert engine.calibration is not None
    assert not engine.calibration.chains
    for relation in range(2 * engine.graph.num_relations):
        columns, sources = engine.hops.columns(relation), np.array([3, 8, 50])
        rows = engine.hops.values(sources, columns)
        for source, row in zip(sources.tolist(), rows, strict=True):
            np.testing.assert_allclose(row, np.minimum(_by_hand(engine, source, relation, 1.0), 0.9999), rtol=1e-4)
        assert (engine.hops.leaving(relation) == 1).all()


def test_a_curve_is_fitted_on_forward_shares_and_keeps_their_order(data: DataSet, vectors: Vectors) -> None:
    calibrated = calibration_by_hand()
    plain = Shares(Engine(vectors, data.split.graph("train"), calibrated))
    engine = engine_of("curve", vectors, calibrated, data)
    curve = fit_curve(plain, data, missing=1.0)
    columns = engine.hops.columns(1)
    share, said = plain.shares(np.array([5]), columns), engine.hops.values(np.array([5]), columns)
    np.testing.assert_allclose(share[0], _by_hand(engine, 5, 1, 0.9), rtol=1e-4)
    np.testing.assert_allclose(said, np.minimum(curve.probability(share, columns.kind), 0.9999), rtol=1e-5)
    order = np.argsort(share[0])
    assert (np.diff(said[0][order]) >= 0).all()
    doubled = fit_curve(plain, data, missing=2.0)
    assert doubled.intercept == pytest.approx(curve.intercept + np.log(2))


def test_one_way_is_the_engines_hop_without_its_backward_half(data: DataSet, vectors: Vectors) -> None:
    engine = Engine(vectors, data.split.graph("train"), calibration_by_hand())
    hops, left = engine.hops, OneWay(engine)
    sources = np.arange(20)
    for relation in range(2 * engine.graph.num_relations):
        both = hops.shares(sources, hops.columns(relation))
        forward = left.shares(sources, left.columns(relation))
        assert (forward <= both).all()
        # Half of n_f f with the room for one more, and an even share: the inverse plays no part.
        room = np.exp(hops.log_room(relation)[sources][:, None] + hops.log_room(engine.graph.inverse(relation)))
        expected = 0.5 * np.stack([_by_hand(engine, source, relation, 0.9) for source in sources.tolist()]) * room
        expected[sources, sources] *= np.exp(hops.log_self(relation))
        expected *= np.exp(hops.log_doubt(relation))
        np.testing.assert_allclose(forward, expected + 0.1 / engine.graph.num_entities, rtol=1e-3)


def test_stages_leave_out_what_they_say(data: DataSet, vectors: Vectors) -> None:
    calibrated = calibration_by_hand(chains=True)
    whole, hops = (engine_of(stage, vectors, calibrated, data) for stage in ("engine", "hops"))
    assert whole.calibration == calibrated.calibration
    assert hops.calibration == calibrated.calibration.model_copy(update={"chains": {}})
    forward = engine_of("forward", vectors, calibrated, data)
    assert forward.calibration is not None
    assert not forward.calibration.chains
    assert forward.calibration.hop != calibrated.calibration.hop


@pytest.fixture
def laboratory(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Where models are trained for one epoch each."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(parts, "_MODELS", {name: overlay(each, ONE_EPOCH) for name, each in parts._MODELS.items()})
    return command(main, capsys)


def test_rows_are_measured_once_kept_and_shown(laboratory: Command, queried_town: Path) -> None:
    asked = ("reproduce", "parts", "--data", queried_town, "--queries", "sampled", "--limit", 4)
    rows = laboratory(*asked, "--json").json()
    assert list(rows) == [row.name for row in ROWS]
    data = load(queried_town)
    queries = data.queries("sampled", "valid").take(4, 0)
    own = data.split.graph("train"), data.split.graph("train", "valid")
    counted = [measured_answers(*own, queries, type_) for type_ in ("1p", "2p", "2u")]
    for row in rows.values():
        # Means are of the types without negation, and values have the same mean.
        assert set(row["types"]) == {"1p", "2p", "2u", "2in"}
        assert row["mrr"] == pytest.approx(np.mean([row["types"][type_]["mrr"] for type_ in ("1p", "2p", "2u")]))
        assert np.mean(row["values"]["1"]) == pytest.approx(row["mrr"], abs=1e-4)
        assert row["interval"][0] <= row["mrr"] <= row["interval"][1]
        assert row["answers"] == sum(counted)
        assert sum(each["answers"] for each in row["lacking"].values()) == row["answers"]
    again = laboratory(*asked, "--json")
    assert again.json() == rows
    assert "training" not in again.err

    shown = laboratory(*asked).out
    assert "11. ComplEx on edges: forward shares" in shown
    (table,) = parts_tables(RECORDS)
    assert len(table.rows) == len(ROWS)
    first, second = (rows[row.name]["mrr"] for row in ROWS[:2])
    assert str(table.rows[1][2]).startswith(f"{second - first:+.3f} (")
    assert table.rows[0][2] == table.rows[0][-1] == ""
    assert table.rows[1][-1] == "1"

    more = laboratory("reproduce", "parts", "--data", queried_town, "--queries", "sampled", "--limit", 5)
    assert more.failure() == (
        "experiments/records/parts/queried-sampled-valid.json is of another --limit or size; "
        "name another folder with --out, or remove it."
    )


def measured_answers(known: KnowledgeGraph, truth: KnowledgeGraph, queries: QuerySet, type_: str) -> int:
    """The hard answers to the queries of a type."""
    return sum(len(np.setdiff1d(plan_answers(truth, plan), plan_answers(known, plan))) for plan in queries.plans(type_))


def test_a_change_is_over_the_queries_that_both_rows_have() -> None:
    row = {"mrr": 0.5, "hits_at_3": 0.5, "answers": 3, "lacking": {"1": {"mrr": 0.5, "answers": 3}}}
    few = {ROWS[0].name: row | {"values": {"1": [0.5, 0.5], "2": []}}}
    both = few | {ROWS[1].name: row | {"mrr": 0.75, "values": {"1": [0.75, 0.75], "2": []}}}
    said = {"data": "town", "queries": "sampled-valid", "limit": 2}
    assert [row[0] for row in parts_table(said | {"rows": few}).rows] == ["1. " + ROWS[0].name]
    table = parts_table(said | {"rows": both})
    assert table.title == "town, sampled-valid: 2 queries of each type at most, 3 hard answers"
    assert table.rows[1] == (f"2. {ROWS[1].name}", 0.75, "+0.250 (+0.250 to +0.250)", 0.5, 0.5, None, None, "", "1")


def test_every_row_is_held_against_an_earlier_one() -> None:
    for number, row in enumerate(ROWS, start=1):
        assert (row.against or 0) < number
        assert set(row.models) <= set(parts._MODELS)


def test_models_have_as_many_numbers_an_entity(data: DataSet) -> None:
    for settings in parts._MODELS.values():
        config = validate(overlay(parts._COMMON, settings))
        assert config.model.block_geometry is not None
        assert config.model.block_geometry.entity_width == parts.WIDTH
