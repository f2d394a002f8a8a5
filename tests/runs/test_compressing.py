"""Compressed runs: what is kept, and that a run without its zeros is a run like any other."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import blockhole
from blockhole.errors import ConfigError, DamagedRun, RunError
from blockhole.models.catalogue import ModelSettings, build_model
from blockhole.runs.checkpoint import packed, unpacked
from blockhole.runs.compressing import most_important


def test_zeros_are_not_stored_and_come_back(tmp_path: Path) -> None:
    table = torch.tensor([[0.0, 1.5, 0.0], [-2.0, 0.0, 3.0]])
    stored = packed("relation", table)
    assert stored["relation.values"].tolist() == [1.5, -2.0, 3.0]
    torch.testing.assert_close(unpacked(tmp_path, {**stored})["relation"], table)
    arrays = unpacked(tmp_path, {name: tensor.numpy() for name, tensor in stored.items()})
    assert np.array_equal(arrays["relation"], table.numpy())
    short = {**stored, "relation.values": stored["relation.values"][:2]}
    with pytest.raises(DamagedRun, match="what is kept of relation does not fit together"):
        unpacked(tmp_path, short)


@pytest.mark.parametrize("name", ["blockhole", "distmult", "transe"])
def test_numbers_that_join_small_coordinates_go_first(name: str) -> None:
    sizes = {"blocks": 2, "block_size": 3} if name == "blockhole" else {"dim": 6}
    model = build_model(ModelSettings(name=name, **sizes), 20, 3, seed=0)  # type: ignore[arg-type]
    kept = most_important(model, 0.25)
    assert kept.sum() == np.ceil(0.25 * model.relation.numel())
    weight = model.relation.detach().abs()
    if model.geometry is not None:
        parts, b, _, m = model.geometry.relation_shape
        square = model.entity.detach().view(-1, parts, b, m).square().sum(dim=1).mean(dim=0)
        weight = weight.view(-1, parts, b, b, m).clone()
        for i in range(b):
            for j in range(b):
                weight[:, :, i, j] *= (square[i] * square[j]).sqrt()
        weight = weight.view_as(kept)
    assert weight[kept].min() >= weight[~kept].max()


def test_a_compressed_run_answers_as_its_model(family_run: Path, tmp_path: Path) -> None:
    made = blockhole.compress(family_run, tmp_path / "half", 0.5)
    opened = blockhole.Run.open(tmp_path / "half")
    torch.testing.assert_close(opened.model.state_dict(), made.model.state_dict())
    assert (opened.model.relation != 0).sum() == np.ceil(0.5 * opened.model.relation.numel())
    with pytest.warns(UserWarning, match="has no calibration"):
        by_folder = blockhole.Engine.open(tmp_path / "half")
    query = "William/^fatherOf/brotherOf"
    np.testing.assert_allclose(
        by_folder.composed_scores(query), blockhole.Engine.opened(made).composed_scores(query), rtol=1e-6
    )
    (again,) = blockhole.compress(opened, tmp_path / "again", 1.0).model.relation[None].detach()
    assert torch.equal(again, opened.model.relation)
    with pytest.raises(RunError, match="has no optimizer to go on with"):
        blockhole.train("family", out=tmp_path / "half", resume=True)


def test_the_run_that_is_compressed_stays_as_it_is(family_run: Path, tmp_path: Path) -> None:
    run = blockhole.Run.open(family_run)
    before = run.model.relation.detach().clone()
    made = blockhole.compress(run, tmp_path / "half", 0.5)
    assert torch.equal(run.model.relation, before)
    assert not torch.equal(made.model.relation, before)


@pytest.mark.parametrize("keep", [0.0, 1.5])
def test_a_share_is_above_0_and_at_most_1(family_run: Path, tmp_path: Path, keep: float) -> None:
    with pytest.raises(ConfigError, match="keep must be a share above 0, at most 1"):
        blockhole.compress(family_run, tmp_path / "out", keep)
