"""A merged model's parts count by weights of their own: in hops, in paths, on a device, and as they are fitted."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from blockhole.answering import calibrating
from blockhole.answering.calibration import Calibrated
from blockhole.answering.device import DeviceSweep
from blockhole.answering.engine import Engine
from blockhole.answering.search import UNLIMITED, Search, Wanted
from blockhole.answering.vectors import Vectors
from blockhole.data.dataset import load
from blockhole.fitting import train
from blockhole.models.bilinear import BlockBilinear
from blockhole.models.catalogue import ModelSettings, build_model
from blockhole.models.merging import merge_models
from blockhole.queries.plans import Plan
from tests.answering.toys import calibration_by_hand, make_engine

E, R = 30, 3
KINDS = {
    "blockhole": ({"blocks": 2, "block_size": 3}, {"blocks": 2, "block_size": 5}),
    "complex": ({"dim": 4}, {"dim": 3}),
    "distmult": ({"dim": 4}, {"dim": 3}),
    "rescal": ({"dim": 4}, {"dim": 3}),
}


def _parts(name: str) -> list[BlockBilinear]:
    found = [
        build_model(ModelSettings.model_validate({"name": name, "entity_scale": 0.8, **size}), E, R, seed)
        for seed, size in enumerate(KINDS[name])
    ]
    return [part for part in found if isinstance(part, BlockBilinear)]


@pytest.mark.parametrize("name", KINDS)
def test_weighing_a_vector_is_merging_with_these_weights(name: str) -> None:
    parts, path = _parts(name), [0, 4, 2]
    weights = [0.3, 1.7]
    plain, weighed = (Vectors.of_model(merge_models(parts, given)) for given in (None, weights))
    query = plain.query(5, path) * plain.weighed(weights)
    np.testing.assert_allclose(
        query @ plain.candidates(np.arange(E)).T, weighed.query(5, path) @ weighed.candidates(np.arange(E)).T, atol=1e-6
    )


def test_a_model_of_one_part_has_one_weight() -> None:
    engine, _ = make_engine()
    assert engine.vectors.weighed([0.7]) == 0.7
    assert not engine.vectors.part.any()


def test_hops_and_paths_weigh_parts_apart_and_so_does_a_device() -> None:
    graph = make_engine(E=E, R=R)[0].graph
    given = calibration_by_hand(chains=True).calibration
    curve = given.chains[2].model_copy(update={"parts": (0.0, 2.0)})
    given = given.model_copy(update={"parts": (1.5, 0.5), "chains": {2: curve}})
    parts = _parts("blockhole")
    engine = Engine(Vectors.of_model(merge_models(parts)), graph, Calibrated(given, None))
    by_hops = given.model_copy(update={"parts": (1.0,), "chains": {}})
    hops = Engine(Vectors.of_model(merge_models(parts, [1.5, 0.5])), graph, Calibrated(by_hops, None))
    by_paths = by_hops.model_copy(update={"scale": 2.0 * given.scale})
    paths = Engine(Vectors.of_model(parts[1]), graph, Calibrated(by_paths, None))

    source, path = 3, [0, 1]
    np.testing.assert_allclose(
        engine.composed_shares(source, path, curve.parts), paths.composed_shares(source, path), atol=1e-4
    )
    wanted = Wanted(np.ones(E, dtype=bool), E, np.zeros(0, dtype=np.int32))
    one, plan = (Plan.of_chain(source, path[:length]) for length in (1, 2))
    found, expected = (Search(each, one, "all", UNLIMITED).settle(wanted).low for each in (engine, hops))
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    witness = Search(hops, plan, "all", UNLIMITED).settle(wanted).low
    raised = Search(engine, plan, "all", UNLIMITED).settle(wanted).low
    assert (raised >= witness - 1e-6).all()
    assert (raised > witness + 1e-3).any()

    on_device = DeviceSweep(engine, "cpu").values(plan.steps, np.array([plan.ids])).numpy()[0]
    np.testing.assert_allclose(on_device, raised, rtol=2e-5, atol=1e-9)
    targets = np.arange(E)
    shares = DeviceSweep(engine, "cpu").shares(np.array([source]), 0, targets)
    np.testing.assert_allclose(shares, engine.hops.shares(np.array([source]), engine.hops.columns(0)), rtol=2e-5)


@pytest.mark.slow
def test_a_part_that_knows_nothing_counts_for_nothing() -> None:
    """A trained model beside random numbers of the same size."""
    data = load("family")
    settings = {"training.epochs": 30, "training.on": "base", "model.block_size": 8}
    good = train(data, settings=settings).model
    random = build_model(
        ModelSettings(blocks=2, block_size=8, entity_scale=0.5), good.num_entities, good.num_relations, seed=9
    )
    calibration = calibrating.fit(Vectors.of_model(merge_models([good, random])), data).calibration
    alone = calibrating.fit(Vectors.of_model(good), data).calibration
    assert alone.parts == (1.0,)
    trained, noise = (calibration.scale * part for part in calibration.parts)
    assert trained == pytest.approx(alone.scale, rel=0.2)
    assert noise < trained / 10
    assert calibration.brier == pytest.approx(alone.brier, abs=0.01)
    assert torch.isfinite(torch.tensor([part for curve in calibration.chains.values() for part in curve.parts])).all()
