"""Dropout: masks that are functions of names, and a step that uses them."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from blockhole.errors import ConfigError
from blockhole.runs.config import gather, validate
from blockhole.training.batches import Batch
from blockhole.training.steppers import AutogradStepper, Dropout

from .worlds import config, random_split, tiny_model

SPLIT = random_split()
GRAPH = SPLIT.graph("train")


def batch(count: int = 6, epoch: int = 0, index: int = 0) -> Batch:
    rows = torch.arange(count)
    return Batch(rows % 12, torch.zeros(count, 2, dtype=torch.int64), (rows * 5 + rows // 12) % 12, epoch, index)


def mask(rate: float, seed: int = 0, width: int = 40, of: Batch | None = None) -> torch.Tensor:
    of = of or batch()
    dropout = Dropout(rate, width, seed, torch.device("cpu"))
    dropout.begin(of)
    return dropout.draw(of.source, of.target)


@pytest.mark.parametrize("rate", [0.05, 0.3, 0.5, 0.9])
def test_drops_the_share_it_is_told_and_keeps_the_mean(rate: float) -> None:
    many = Batch(torch.arange(500), torch.zeros(500, 1, dtype=torch.int64), torch.arange(500) * 7, 0, 0)
    kept = mask(rate, width=400, of=many)
    assert sorted(set(kept.flatten().tolist())) == pytest.approx([0.0, 1 / (1 - rate)])
    assert (kept == 0).float().mean().item() == pytest.approx(rate, abs=0.01)
    for axis in (0, 1):  # no row and no coordinate is preferred
        assert (kept == 0).float().mean(dim=axis).sub(rate).abs().max() < 0.13


def test_masks_are_functions_of_seed_epoch_batch_and_positive() -> None:
    first = mask(0.5)
    assert torch.equal(first, mask(0.5))
    for other in (mask(0.5, seed=1), mask(0.5, of=batch(epoch=1)), mask(0.5, of=batch(index=1))):
        assert 0.3 < (other == first).float().mean() < 0.7
    assert 0.2 < (first[0] == first[1]).float().mean() < 0.8


def test_a_batch_cut_into_parts_drops_the_same() -> None:
    whole, dropout = batch(12), Dropout(0.4, 30, 3, torch.device("cpu"))
    dropout.begin(whole)
    parts = [dropout.draw(whole.source[rows], whole.target[rows]) for rows in (slice(0, 5), slice(5, 12))]
    assert torch.equal(torch.cat(parts), dropout.draw(whole.source, whole.target))


@pytest.mark.parametrize("kind", ["softmax", "sampled_softmax", "logistic"])
def test_a_step_contrasts_the_thinned_query_vectors(kind: str) -> None:
    settings = config(loss__kind=kind, loss__query_dropout=0.4, loss__negatives=12, loss__correct_sample=False)
    model, each = tiny_model(SPLIT), batch()
    query = model.embed_paths(each.source, each.path).detach() * mask(0.4, width=12)
    engine = AutogradStepper(model, settings, GRAPH)
    if kind == "softmax":
        logits = query @ model.candidates().detach().T
        expected = torch.nn.functional.cross_entropy(logits, each.target)
        assert torch.allclose(engine.step(each), expected)
    else:
        plain = AutogradStepper(tiny_model(SPLIT), config(loss__kind=kind, loss__negatives=12), GRAPH)
        assert not torch.allclose(engine.step(each), plain.step(each))


def test_every_batch_gets_masks_of_its_own() -> None:
    settings = config(loss__kind="softmax", loss__query_dropout=0.5, optimizer__learning_rate=1e-12)
    engine = AutogradStepper(tiny_model(SPLIT), settings, GRAPH)
    losses = [engine.step(replace(batch(), index=index)).item() for index in (0, 1, 0)]
    assert losses[0] == pytest.approx(losses[2], abs=1e-9)
    assert losses[0] != pytest.approx(losses[1], abs=1e-6)


def test_refuses_distances() -> None:
    settings = {"model.name": "transe", "model.dim": 4, "loss.query_dropout": 0.5}
    with pytest.raises(ConfigError, match="query_dropout needs scores that are inner products; transe's are distances"):
        validate(gather(overrides=settings))
