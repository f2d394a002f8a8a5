"""The captured stepper: recorded steps, repeated, against the same steps taken one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx

from blockhole.models.contract import Model
from blockhole.training.batches import Batch, PathTensors
from blockhole.training.negatives import corrupt_once
from blockhole.training.positives import StoredPositives
from blockhole.training.steppers import AutogradStepper, CapturedStepper, Recorder, build_stepper
from tests.sweep import first_quick

from .worlds import config, random_queries, random_split, tiny_model

SPLIT = random_split()
GRAPH = SPLIT.graph("train")
SEEN = np.array([entity for entity in range(GRAPH.num_entities) if entity != 5])
LOSSES: dict[str, dict[str, Any]] = {
    "objects of each": {},
    "corrupted paths": {"loss__corrupted_paths": 2, "loss__corrupt": "once"},
    "all entities": {"loss__kind": "softmax"},
    "dropout": {"loss__kind": "softmax", "loss__query_dropout": 0.3},
    "rare targets": {"loss__kind": "softmax", "loss__rare_weight": 0.2},
    "a sample": {"loss__kind": "sampled_softmax", "loss__negatives": 5},
    "a sample, as it is": {"loss__kind": "sampled_softmax", "loss__negatives": 5, "loss__correct_sample": False},
    "row-wise": {"loss__kind": "sampled_softmax", "optimizer__kind": "rowwise_adagrad", "penalty__dura": 0.02},
}


class _Trace:
    """The operations of a computation on the CPU, run again: as on a GPU, nothing of Python is."""

    def __init__(self, operations: GraphModule, result: Tensor) -> None:
        self._operations = operations
        self._result = result

    @torch.no_grad()
    def replay(self) -> None:
        self._result.copy_(self._operations())


class TraceRecorder:
    """Records by running; a GPU notes its kernels without, so `moved`, all that a step changes, is put back."""

    def __init__(self, moved: Sequence[Tensor]) -> None:
        self._moved = moved

    def record(self, compute: Callable[[], Tensor]) -> tuple[_Trace, Tensor]:
        before = [tensor.detach().clone() for tensor in self._moved]
        operations = make_fx(compute)()
        with torch.no_grad():
            for tensor, value in zip(self._moved, before, strict=True):
                tensor.copy_(value)
        result = torch.full((), torch.nan, dtype=torch.float64)
        return _Trace(operations, result), result


def batches(device: torch.device, **settings: Any) -> list[Batch]:
    """Two epochs of batches of one and three hops, several of every shape, without the entity that is not seen."""
    queries = [random_queries(SPLIT, 60, hops, hops) for hops in (1, 3)]
    seen = [each.take(np.isin(each.source, SEEN) & np.isin(each.target, SEEN)).take(slice(48)) for each in queries]
    paths = PathTensors.concatenate([PathTensors.of(each, device) for each in seen])
    loss = config(**settings).loss
    corruptions = corrupt_once(paths, loss, GRAPH) if loss.corrupted_paths else None
    order = StoredPositives(paths, 0, 16, corruptions=corruptions)
    return [plan.batch(index) for plan in (order.plan(0), order.plan(1)) for index in range(len(plan))]


def both(model: Callable[[], Model], recorder: Callable[[Sequence[Tensor]], Recorder | None], **settings: Any) -> None:
    """Steps of the two agree, one by one, and so do the weights and the optimizers' states they leave."""
    models = [model(), model()]
    plain, wrapped = (AutogradStepper(each, config(**settings), GRAPH, SEEN, whole_table=True) for each in models)
    assert wrapped.recordable
    captured = CapturedStepper(wrapped, recorder([*models[1].parameters(), *wrapped.optimizer_state().values()]))
    # On a GPU rows are summed in any order.
    rtol, atol = (0.0, 0.0) if models[0].entity.device.type == "cpu" else (2e-3, 1e-4)
    for batch in batches(models[0].entity.device, **settings):
        torch.testing.assert_close(captured.step(batch), plain.step(batch), rtol=rtol, atol=atol)
    for mine, theirs in zip(models[1].parameters(), models[0].parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=rtol, atol=atol)
    for name, state in plain.optimizer_state().items():
        torch.testing.assert_close(captured.optimizer_state()[name], state, rtol=rtol, atol=atol)


@pytest.mark.parametrize("name", first_quick(LOSSES))
def test_replayed_steps_equal_plain_ones(name: str) -> None:
    both(lambda: tiny_model(SPLIT), TraceRecorder, **LOSSES[name])


@pytest.mark.slow
def test_a_state_that_is_loaded_is_that_of_the_recorded_steps() -> None:
    settings = LOSSES["a sample"]
    models = [tiny_model(SPLIT), tiny_model(SPLIT)]
    steppers = [AutogradStepper(each, config(**settings), GRAPH, SEEN, whole_table=True) for each in models]
    moved = [*models[1].parameters(), *steppers[1].optimizer_state().values()]
    captured = CapturedStepper(steppers[1], TraceRecorder(moved))
    first, *rest = batches(torch.device("cpu"))
    for _ in range(2):
        captured.step(first)
    models[1].load_state_dict(models[0].state_dict())
    captured.load_optimizer_state(steppers[0].optimizer_state())
    for batch in (first, *rest):
        assert torch.equal(captured.step(batch), steppers[0].step(batch))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("name", LOSSES)
def test_replayed_steps_equal_plain_ones_on_a_gpu(name: str) -> None:
    both(lambda: tiny_model(SPLIT).float().cuda(), lambda _: None, **LOSSES[name])
    settings = config(**LOSSES[name], training__device="cuda")
    assert isinstance(build_stepper(tiny_model(SPLIT).float().cuda(), settings, GRAPH, 1), CapturedStepper)
