"""An engine whose steps are replayed as CUDA graphs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from blockhole.training.autograd import AutogradEngine
from blockhole.training.batch import Batch


@final
@dataclass(frozen=True, slots=True)
class _Capture:
    """A recorded step: it reads `batch`, whose tensors never move, and leaves its loss in `loss`."""

    graph: torch.cuda.CUDAGraph
    batch: Batch
    loss: Tensor


@final
class CapturedEngine:
    """Runs another engine's step once per shape of batch, records it, and from then on replays the recording.

    A step is some hundred small kernels around two large ones; launched one by one from Python they take as long as
    the large ones compute. Replaying a recording launches them all at once. The wrapped engine must be `recordable`.
    """

    def __init__(self, engine: AutogradEngine) -> None:
        self._engine = engine
        self._captures: dict[torch.Size, _Capture] = {}
        self._warm: set[torch.Size] = set()

    def step(self, batch: Batch) -> Tensor:
        """See Engine."""
        shape = batch.path.shape
        if shape not in self._warm:
            # The first step of a shape compiles kernels and fills caches, which a recording must not do.
            self._warm.add(shape)
            return self._engine.step(batch)
        capture = self._captures.get(shape)
        self._engine.begin(batch)
        if capture is None:
            capture = self._captures[shape] = self._record(batch)
        for static, given in zip(capture.batch.tensors(), batch.tensors(), strict=True):
            static.copy_(given)
        capture.graph.replay()
        return capture.loss.clone()

    def _record(self, batch: Batch) -> _Capture:
        static = batch.clone()
        graph = torch.cuda.CUDAGraph()
        pool = next(iter(self._captures.values())).graph.pool() if self._captures else None
        torch.cuda.synchronize()
        with torch.cuda.graph(graph, pool=pool):
            loss = self._engine.advance(static)
        return _Capture(graph, static, loss)

    def optimizer_state(self) -> dict[str, Tensor]:
        """See Engine."""
        return self._engine.optimizer_state()

    def load_optimizer_state(self, state: dict[str, Tensor]) -> None:
        """See Engine."""
        self._engine.load_optimizer_state(state)
