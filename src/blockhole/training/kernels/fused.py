"""The bilinear family with the logistic loss, on the CPU: one fused, compiled step. Needs Numba: import it late."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from blockhole.models.contract import Model
from blockhole.runs.config import TrainConfig
from blockhole.training.batches import Batch, Corruptions
from blockhole.training.draws import KeyedDraws, Purpose
from blockhole.training.kernels.loops import (
    CHUNKS,
    Rows,
    Rule,
    Tables,
    Work,
    allocate_work,
    compile_step,
    count_occurrences,
    draw_objects,
    sort_occurrences,
)

TURNS = 3
"""How often a thread comes back for more of a loop: often enough to even out, seldom enough to cost nothing."""


@final
class FusedStepper:
    """Loss, gradient and Adagrad step of a batch in compiled loops that update the model's tables in place.

    It minimises, per batch of B positives with their negatives N and corrupted paths C,
    1/B Σ_(s,p,o) [ Σ_{e ∈ {o} ∪ N} log(1 + exp(-y φ(s, p, e))) + Σ_{p' ∈ C} log(1 + exp(φ(s, p', o)))
    + λ (‖e_s‖² + Σ_{r ∈ p} ‖W_r‖² + ‖e_o‖²) ],
    where every φ is lowered by `shift`:
    the gradient is taken at the parameters before the batch, then every row that occurs takes one step,
    G ← G + g², θ ← θ - η g / (√G + ε). Row-wise, G is one number a row, the sum of its mean squared gradients.

    Negatives are those `NegativeSampler` draws, so a step equals one of `AutogradStepper` up to rounding, and their
    optimizer states have the same names and shapes. Weights are the same bit for bit for any number of threads.
    """

    def __init__(
        self,
        model: Model,
        config: TrainConfig,
        *,
        threads: int = 1,
        seen: NDArray[np.int64] | None = None,
    ) -> None:
        if model.tied:
            raise ValueError("tied inverse relations need the autograd stepper")
        if model.geometry is None:
            raise ValueError(
                f"{type(model).__name__} needs the autograd stepper: its relations are not diagonal blocks"
            )
        entity, relation = _table(model.entity), _table(model.relation)
        loss, optimizer = config.loss, config.optimizer
        start, rowwise = optimizer.initial_accumulator, optimizer.kind == "rowwise_adagrad"
        self._tables = Tables(
            entity,
            relation,
            entity_total=np.full_like(entity[:, :1] if rowwise else entity, start, order="C"),
            relation_total=np.full_like(relation[:, :1] if rowwise else relation, start, order="C"),
        )
        self._negatives = loss.negatives
        self._shift = np.float32(loss.shift)
        self._entities = np.arange(len(entity)) if seen is None else seen
        self._learning_rate, self._epsilon = optimizer.learning_rate, optimizer.epsilon
        self._l2 = config.penalty.l2
        self._draws = KeyedDraws(config.training.seed, Purpose.NEGATIVES)
        self._threads = threads
        self._pool = ThreadPoolExecutor(threads - 1) if threads > 1 else None
        self._loops = compile_step(*model.geometry.entity_shape)
        self._capacity = (0, 0)
        self._work = allocate_work(*self._capacity, 1 + loss.negatives, self._tables)

    def step(self, batch: Batch) -> Tensor:
        """See Stepper."""
        rows = self._rows(batch)
        count, tables, work = rows.positives, self._tables, self._room(rows)
        rule = Rule(np.float32(self._learning_rate), np.float32(self._epsilon), np.float32(self._l2 / count))
        finish_walk = self._share(self._loops.walk, CHUNKS, rows, tables, work)
        order = sort_occurrences(rows, work.keys, work.spare_keys, len(tables.entity))
        finish_walk()
        pieces = len(work.entity_penalty)
        finish_entities = self._share(self._loops.update_entities, pieces, order, count, tables, work, rule)
        self._loops.update_relations(0, len(tables.relation), tables, work, rule)
        finish_entities()
        penalty = work.entity_penalty.sum() + work.relation_penalty.sum()
        return torch.tensor(work.loss.sum() / count + penalty, dtype=torch.float32)

    def optimizer_state(self) -> dict[str, Tensor]:
        """See Stepper; the tensors share memory with the stepper."""
        return {
            "entity.sum_of_squares": torch.from_numpy(self._tables.entity_total),
            "relation.sum_of_squares": torch.from_numpy(self._tables.relation_total),
        }

    def load_optimizer_state(self, state: Mapping[str, Tensor]) -> None:
        """See Stepper."""
        for name, total in self.optimizer_state().items():
            total.copy_(state[name])

    def _rows(self, batch: Batch) -> Rows:
        """The batch with its negatives, all ids checked: compiled loops do not, and would write outside the tables."""
        source, path, target = (np.ascontiguousarray(ids.numpy()) for ids in (batch.source, batch.path, batch.target))
        self._draws.begin(batch.source.device, batch.epoch, batch.index)
        objects = np.empty((len(target), 1 + self._negatives), np.int64)
        draw_objects(self._draws.key, self._entities, target, objects)
        rows = Rows(source, path, objects, len(source), self._shift)
        if batch.corruptions is not None:
            rows = _with_corruptions(rows, batch.corruptions)
        E = len(self._tables.entity)
        for ids, limit in ((rows.source, E), (rows.path, len(self._tables.relation)), (target, E)):
            if ids.size == 0 or ids.min() < 0 or ids.max() >= limit:
                raise ValueError("a batch must hold positives with at least one hop, and ids within the model's tables")
        return rows

    def _room(self, batch: Rows) -> Work:
        """Work arrays are kept from step to step, grown when a batch needs more: fresh memory costs page faults."""
        (rows, hops), slots = batch.path.shape, batch.objects.shape[1]
        most, longest = self._capacity
        if rows > most or hops > longest:
            self._capacity = max(rows, most), max(hops, longest)
            self._work = allocate_work(*self._capacity, slots, self._tables)
        return self._work.fit(rows, count_occurrences(rows, batch.positives, slots))

    def _share(self, loop: Callable[..., None], pieces: int, *arguments: object) -> Callable[[], None]:
        """Let the other threads begin with a loop; what is returned takes part in it, and returns when all is done.

        Threads take pieces as they get free. Which thread does which piece makes no difference to the result.
        """
        stride = pieces if self._pool is None else -(-pieces // (TURNS * self._threads))
        starts = iter(range(0, pieces, stride))

        def work() -> None:
            for start in starts:
                loop(start, min(start + stride, pieces), *arguments)

        others = [] if self._pool is None else [self._pool.submit(work) for _ in range(self._threads - 1)]

        def finish() -> None:
            work()
            for other in others:
                other.result()

        return finish


def _with_corruptions(rows: Rows, corruptions: Corruptions) -> Rows:
    """The positives, and after them those of their corrupted paths that are false."""
    of, which = np.nonzero(corruptions.false.numpy())
    return Rows(
        np.concatenate((rows.source, rows.source[of])),
        np.concatenate((rows.path, corruptions.paths.numpy()[of, which])),
        np.concatenate((rows.objects, np.repeat(rows.objects[of, :1], rows.objects.shape[1], axis=1))),
        rows.positives,
        rows.shift,
    )


def _table(parameter: Tensor) -> NDArray[np.float32]:
    table: NDArray[np.float32] = parameter.detach().numpy()
    if table.dtype != np.float32 or not table.flags.c_contiguous:
        raise ValueError("the fused stepper needs contiguous float32 tables")
    return table
