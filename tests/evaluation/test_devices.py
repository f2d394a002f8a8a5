"""What runs on a GPU only, held against what runs on the CPU; both take CPU tensors."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from blockhole.evaluation import ranking
from blockhole.evaluation.ranking import rank
from blockhole.evaluation.truth import build_truth
from blockhole.models.catalogue import ModelSettings, build_model
from blockhole.queries.answer_masks import AnswerMasks
from tests.evaluation.worlds import make_world


def test_answers_are_hidden_alike() -> None:
    world = make_world(3, E=25, R=2, facts=80, queries=30)
    graph = build_truth(world.split).graph
    entities = np.arange(25, dtype=np.int32)[::-1].copy()
    listed = ranking._hides_on_cpu(graph, world.queries, 7, entities)
    flagged = ranking._hides_on_device(AnswerMasks(graph), world.queries, 7, entities, torch.device("cpu"))
    hidden = 0
    for first, (hide_listed, hide_flagged) in zip(range(0, 30, 7), zip(listed, flagged, strict=True), strict=True):
        rows = min(7, 30 - first)
        a, b = torch.ones(rows, 25), torch.ones(rows, 25)
        assert torch.equal(hide_listed(a), hide_flagged(b))
        assert torch.equal(a, b)
        hidden += int(torch.isneginf(a).sum())
    assert hidden > 50


def test_scores_are_compared_alike() -> None:
    generator = torch.Generator().manual_seed(0)
    scores = torch.randint(-5, 6, (40, 30), generator=generator).float()
    scores[scores == -5] = -torch.inf
    low = torch.randint(-4, 3, (40, 1), generator=generator).float()
    above, near = ranking._decide(scores, low, low + 1)
    above_cpu, near_cpu = ranking._decide_on_cpu(scores, low, low + 1)
    assert torch.equal(above, above_cpu)
    assert torch.equal(near, near_cpu)
    assert torch.equal(above, (scores > low + 1).sum(dim=1))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_ranks_on_a_gpu_are_those_on_the_cpu() -> None:
    world = make_world(7, E=400, R=4, facts=3000, queries=2000)
    model = build_model(ModelSettings(name="blockhole", blocks=3, block_size=4), 400, 4, seed=0)
    with torch.no_grad():
        model.entity[2::3] = model.entity[1::3][: len(model.entity[2::3])]
    truth = build_truth(world.split)
    on_cpu, on_gpu = (rank(model, world.queries, truth, device=device) for device in ("cpu", "cuda"))
    for name in ("better", "tied", "negatives"):
        assert np.array_equal(getattr(on_cpu, name), getattr(on_gpu, name))
