"""Steppers: loss, gradient and optimizer step of one batch; and which stepper trains what.

`AutogradStepper` takes any model, loss and device; `CapturedStepper` replays its steps on CUDA;
`FusedStepper` (`training/kernels/fused.py`) is the bilinear family with the logistic loss in compiled loops on a CPU;
`ShardedStepper` (`training/distributed/sharded.py`) is the first on several processes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from blockhole.compiled import numba_installed
from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.models.contract import Model
from blockhole.runs.config import TrainConfig
from blockhole.runs.writer import Optimizing
from blockhole.training.batches import Batch
from blockhole.training.draws import Purpose, draw_key, shift, splitmix64
from blockhole.training.losses import Pairs
from blockhole.training.negatives import ALL_ENTITIES, NegativeSampler
from blockhole.training.objective import AllRows, build_objective, target_weights
from blockhole.training.optimizers import build_optimizer


class Stepper(Optimizing, Protocol):
    """Loss, gradient and optimizer step of one batch, on the parameters of a model it was given."""

    def step(self, batch: Batch) -> Tensor:
        """Take one optimizer step; the mean loss per positive before it, penalty included, as a 0-d tensor."""


FEW_ENTITIES = 2**18
"""Entities up to which a GPU passes over the whole table sooner than its host can say which rows occur in a batch."""


def build_stepper(
    model: Model, config: TrainConfig, graph: KnowledgeGraph, threads: int, seen: NDArray[np.int64] | None = None
) -> Stepper:
    """The fastest stepper for this model, these settings and the device the model is on.

    `graph` is the train graph, which negatives are checked against; `threads` are the fused stepper's;
    `seen` are the entities that take part (absent: all), see `training/learner.py`.
    """
    if fuses(model, config):
        from blockhole.training.kernels.fused import FusedStepper

        return FusedStepper(model, config, threads=threads, seen=seen)
    # A recorded step repeats itself exactly; Adam's counts its steps on the host, and moves rows that did not occur.
    record = model.entity.is_cuda and config.optimizer.kind != "adam"
    stepper = AutogradStepper(
        model,
        config,
        graph,
        seen,
        whole_table=record and model.num_entities <= FEW_ENTITIES,
        ends_apart=model.geometry is not None,
    )
    return CapturedStepper(stepper) if record and stepper.recordable else stepper


def fuses(model: Model, config: TrainConfig) -> bool:
    """Whether the fused stepper can train this model with these settings."""
    loss, penalty = config.loss, config.penalty
    return (
        model.geometry is not None
        and not model.tied
        and model.entity.device.type == "cpu"
        and model.entity.dtype == torch.float32
        and loss.kind == "logistic"
        and not (loss.typed_share or loss.self_adversarial or loss.mask_known_answers)
        and (not loss.corrupted_paths or loss.corrupts_once)
        and not (loss.query_dropout or loss.relation_weight)
        and not (penalty.n3 or penalty.dura or penalty.dura_back)
        and not (penalty.l1_product or penalty.l1_blocks or penalty.rules)
        and config.optimizer.kind in ("adagrad", "rowwise_adagrad")
        and numba_installed()
    )


@final
class AutogradStepper:
    """One step: draw negatives, gather the entity rows that occur, differentiate, update those rows.

    The objective is evaluated with the entity table replaced by the gathered rows, so no gradient of all E rows is
    ever made; only the full softmax, which touches them all, works on the table itself. Where only some entities are
    `seen` (absent: all), it gathers those: the others rival no answer and keep their rows. With `whole_table` nothing
    is gathered where objects are drawn either: finding the rows that occur makes a GPU wait for its host. With
    `ends_apart` the full softmax alone works on the table, and sources and targets are rows of their own: autograd
    would make a gradient of all rows for each use of some, and add them up. Candidates must be rows as they are stored.
    """

    def __init__(
        self,
        model: Model,
        config: TrainConfig,
        graph: KnowledgeGraph,
        seen: NDArray[np.int64] | None = None,
        *,
        whole_table: bool = False,
        ends_apart: bool = False,
    ) -> None:
        self._model = model
        self._objective = build_objective(model, config, graph, share_queries=config.training.share_queries)
        self._sampler = NegativeSampler(config.loss, graph, config.training.seed, seen)
        self._seen = None if seen is None else _Seen.of(seen, model)
        self._whole_table = whole_table
        self._ends_apart = ends_apart
        self._optimizer = build_optimizer(config.optimizer, dict(model.named_parameters()))
        self._dense = {name: value for name, value in model.named_parameters() if name != "entity"}
        rate, (_, width) = config.loss.query_dropout, model.entity.shape
        self._dropout = Dropout(rate, width, config.training.seed, model.entity.device) if rate else None
        self._target_weight = target_weights(graph, config.loss.rare_weight, model.entity.device)

    @property
    def recordable(self) -> bool:
        """Whether `advance` is a function of what lies on the device alone, and reads nothing back to the host."""
        return self._sampler.stays_on_device and (self._sampler.draws_nothing or self._whole_table)

    def step(self, batch: Batch) -> Tensor:
        """See Stepper."""
        self.begin(batch)
        return self.advance(batch)

    def begin(self, batch: Batch) -> None:
        """Leave on the device what the step needs to know of the batch beside its ids."""
        self._sampler.begin(batch)
        if self._dropout is not None:
            self._dropout.begin(batch)

    def advance(self, batch: Batch) -> Tensor:
        """The step itself, after `begin`: on a GPU, where it is `recordable`, it can be recorded and replayed."""
        kept = None if self._dropout is None else self._dropout.draw(batch.source, batch.target)
        negatives = self._sampler.drawn(batch)
        entity: Tensor = self._model.entity
        touched, source, target = None, batch.source, batch.target
        if negatives.objects is not None and not self._whole_table:
            touched, (source, target, objects) = _renumber(source, target, negatives.objects)
            negatives = replace(negatives, objects=objects)
        elif negatives.objects is None and self._seen is not None:
            touched = self._seen.ids
            source, target = self._seen.position[source], self._seen.position[target]
            if negatives is not ALL_ENTITIES:
                cells = negatives.excluded.pairs()
                negatives = replace(negatives, excluded=Pairs(cells.row, self._seen.position[cells.column]))
        if touched is not None:
            entity = entity.detach().index_select(0, touched).requires_grad_()
        weight = None if self._target_weight is None else self._target_weight[batch.target]
        given, contrast, ends = entity, None, None
        if self._ends_apart and negatives is ALL_ENTITIES:
            contrast = AllRows(entity, target)
            if source.is_cuda:  # which would have to wait until its host knows how many are distinct
                ends = torch.cat((source, target))
                source, target = torch.arange(len(ends), device=ends.device).chunk(2)
            else:
                ends, (source, target) = _renumber(source, target)
            given = entity.detach().index_select(0, ends).requires_grad_()
        loss = self._objective.on_rows(
            given, source, batch.path, target, negatives, contrast=contrast, kept=kept, weight=weight
        )
        wanted = {"entity": entity, **self._dense} | ({} if ends is None else {"ends": given})
        gradients = dict(zip(wanted, torch.autograd.grad(loss, list(wanted.values())), strict=True))
        if ends is not None:
            gradients["entity"].index_add_(0, ends, gradients.pop("ends"))
        self._optimizer.begin_step()
        for name, gradient in gradients.items():
            self._optimizer.update(name, touched if name == "entity" else None, gradient)
        return loss.detach()

    def optimizer_state(self) -> dict[str, Tensor]:
        """See Stepper."""
        return self._optimizer.state

    def load_optimizer_state(self, state: Mapping[str, Tensor]) -> None:
        """See Stepper."""
        for name, value in self._optimizer.state.items():
            value.copy_(state[name])


@final
@dataclass(frozen=True, slots=True)
class _Seen:
    """The entities that take part in training, ascending [count], and the position of each id among them [E]."""

    ids: Tensor
    position: Tensor

    @classmethod
    def of(cls, seen: NDArray[np.int64], model: Model) -> _Seen:
        # An id that is not seen gets a position past the end, at which indexing fails instead of reading another row.
        position = np.full(model.num_entities, len(seen))
        position[seen] = np.arange(len(seen))
        device = model.entity.device
        return cls(torch.from_numpy(seen).to(device), torch.from_numpy(position).to(device))


def _renumber(*ids: Tensor) -> tuple[Tensor, list[Tensor]]:
    """The distinct ids, ascending, and each given tensor with its ids replaced by their positions there."""
    distinct, position = torch.unique(torch.cat([part.flatten() for part in ids]), return_inverse=True)
    flat = position.split([part.numel() for part in ids])
    return distinct, [part.reshape(original.shape) for part, original in zip(flat, ids, strict=True)]


class Recording(Protocol):
    """A computation that was recorded once, and is repeated on the tensors it was recorded with."""

    def replay(self) -> None:
        """Compute it again; what it left in tensors, it leaves there anew."""


class Recorder(Protocol):
    """Records computations that are functions of what lies on the device alone."""

    def record(self, compute: Callable[[], Tensor]) -> tuple[Recording, Tensor]:
        """The recording of `compute`, and the tensor in which each replay leaves its result."""


@final
class CudaRecorder:
    """CUDA graphs, which share their memory: they are replayed one after the other. Recorder."""

    def __init__(self) -> None:
        self._pool: Any = None  # a handle that torch gives and takes

    def record(self, compute: Callable[[], Tensor]) -> tuple[Recording, Tensor]:
        """See Recorder; the kernels are noted, not run."""
        graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph, pool=self._pool):
            result = compute()
        self._pool = graph.pool()
        return graph, result


@final
@dataclass(frozen=True, slots=True)
class _Capture:
    """A recorded step: it leaves its loss in `loss`, and reads `batch`, whose tensors never move."""

    recording: Recording
    loss: Tensor
    batch: Batch


@final
class CapturedStepper:
    """Runs another stepper's step once per shape of batch, records it, and from then on replays the recording.

    A step is some hundred small kernels around two large ones; launched one by one from Python they take as long as
    the large ones compute. Replaying a recording launches them all at once. The wrapped stepper must be `recordable`.
    """

    def __init__(self, stepper: AutogradStepper, recorder: Recorder | None = None) -> None:
        self._stepper = stepper
        self._recorder = CudaRecorder() if recorder is None else recorder
        self._captures: dict[torch.Size, _Capture] = {}
        self._warm: set[torch.Size] = set()

    def step(self, batch: Batch) -> Tensor:
        """See Stepper."""
        shape = batch.path.shape
        if shape not in self._warm:
            # The first step of a shape compiles kernels and fills caches, which a recording must not do.
            self._warm.add(shape)
            return self._stepper.step(batch)
        capture = self._captures.get(shape)
        self._stepper.begin(batch)
        if capture is None:
            capture = self._captures[shape] = self._record(batch)
        for static, given in zip(capture.batch.tensors(), batch.tensors(), strict=True):
            static.copy_(given)
        capture.recording.replay()
        return capture.loss.clone()

    def _record(self, batch: Batch) -> _Capture:
        static = batch.clone()
        return _Capture(*self._recorder.record(lambda: self._stepper.advance(static)), static)

    def optimizer_state(self) -> dict[str, Tensor]:
        """See Stepper."""
        return self._stepper.optimizer_state()

    def load_optimizer_state(self, state: dict[str, Tensor]) -> None:
        """See Stepper."""
        self._stepper.load_optimizer_state(state)


# Dropout whose masks are functions of names: seed, epoch, batch, positive and coordinate, on every device.

_BITS = 24


@final
class Dropout:
    """Sets a share `rate` of the coordinates of a query vector to 0 and scales the others by 1 / (1 - rate).

    A positive's mask hangs on the batch it stands in and on its ends, not on its row there, so that a batch cut into
    parts drops the same. The key of the batch lies on the device: a recorded step reads it where `begin` left it.
    """

    def __init__(self, rate: float, width: int, seed: int, device: torch.device) -> None:
        self._seed = seed
        self._scale = 1 / (1 - rate)
        self._threshold = round(rate * 2**_BITS)
        self._column = torch.arange(width, device=device)
        self._key = torch.zeros((), dtype=torch.int64, device=device)

    def begin(self, batch: Batch) -> None:
        """Fix the key of the draws that follow."""
        self._key.fill_(draw_key(self._seed, Purpose.DROPOUT, batch.epoch, batch.index))

    def draw(self, source: Tensor, target: Tensor) -> Tensor:
        """What the query vectors of these positives are multiplied with: [batch], [batch] → [batch, width]."""
        positive = splitmix64(self._key ^ ((source << 32) | target))
        drawn = shift(splitmix64(positive[:, None] + self._column), 64 - _BITS)
        return drawn.ge(self._threshold).float() * self._scale
