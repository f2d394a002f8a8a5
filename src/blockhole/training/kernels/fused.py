"""The bilinear family with the logistic loss, on the CPU: one fused, compiled step. Needs Numba: import it late."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from queue import Empty, SimpleQueue
from threading import Thread, main_thread
from time import perf_counter, sleep
from typing import final
from weakref import finalize

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from blockhole.models.contract import Model
from blockhole.runs.config import TrainConfig
from blockhole.training.batches import Batch, Corruptions
from blockhole.training.draws import Purpose, draw_key
from blockhole.training.kernels.loops import (
    FusedArguments,
    FusedStep,
    Progress,
    Rows,
    Rule,
    Tables,
    Work,
    allocate_work,
    compile_step,
    count_occurrences,
    draw_objects,
    ids_within,
)


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
        self._seed = config.training.seed
        self._take_part = compile_step(*model.geometry.entity_shape)
        self._helpers = [Helper(self._take_part) for _ in range(threads - 1)]
        self._trial = Trial()
        self._capacity = (0, 0)
        self._work = allocate_work(*self._capacity, 1 + loss.negatives, self._tables)

    def step(self, batch: Batch) -> Tensor:
        """See Stepper."""
        rows = self._rows(batch)
        count, tables, work = rows.positives, self._tables, self._room(rows)
        rule = Rule(np.float32(self._learning_rate), np.float32(self._epsilon), np.float32(self._l2 / count))
        progress: Progress = np.zeros(4, np.int64)
        arguments = rows, tables, work, rule, progress
        began, helped = perf_counter(), bool(self._helpers) and self._trial.calls_helpers()
        # Threads take pieces as they get free; which thread does which makes no difference. One that comes late finds
        # none left, so that nobody waits for a thread to wake up, only for pieces that were begun.
        for helper in self._helpers if helped else ():
            helper.call(arguments)
        while not self._take_part(*arguments):
            sleep(0)
        self._trial.note(helped, (perf_counter() - began) / (rows.path.size + rows.objects.size))
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
        key = draw_key(self._seed, Purpose.NEGATIVES, batch.epoch, batch.index)
        objects = np.empty((len(target), 1 + self._negatives), np.int64)
        draw_objects(key, self._entities, target, objects)
        rows = Rows(source, path, objects, len(source), self._shift)
        if batch.corruptions is not None:
            rows = _with_corruptions(rows, batch.corruptions)
        E = len(self._tables.entity)
        for ids, limit in ((rows.source, E), (rows.path.reshape(-1), len(self._tables.relation)), (target, E)):
            if not ids_within(ids, limit):
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


TRIED, KEPT = 16, 1008
"""Steps that are taken with and without helpers in turn, and steps that are then taken as was faster."""


@final
class Trial:
    """Finds out, every thousand steps, whether helpers make them faster: the weights are the same either way.

    A second thread makes epochs of batches of 1,024 about 1.5 times as fast on most machines. On one of two virtual
    cores it sometimes made them 1.6 times as slow, presumably while these shared no cache.
    """

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._steps = 0
        self._fastest = {True: inf, False: inf}

    def calls_helpers(self) -> bool:
        """Whether the next step is to be taken with helpers."""
        if self._steps < TRIED:
            return self._steps % 2 == 0
        return self._fastest[True] <= self._fastest[False]

    def note(self, helped: bool, seconds: float) -> None:
        """How long a step took, per number of work in it; the fastest of each kind was disturbed least."""
        if self._steps < TRIED:
            self._fastest[helped] = min(self._fastest[helped], seconds)
        self._steps += 1
        if self._steps == TRIED + KEPT:
            self._begin()


@final
class Helper:
    """A thread that takes part in steps for as long as somebody holds this object.

    Between two steps it does nothing but wait at a queue written in C: the caller wants the interpreter lock for its
    next batch, and what an executor does in Python for a future would keep it waiting.
    """

    def __init__(self, take_part: FusedStep) -> None:
        self._calls: SimpleQueue[FusedArguments | None] = SimpleQueue()
        Thread(target=_help, args=(take_part, self._calls), name="blockhole-step").start()
        finalize(self, self._calls.put, None)

    def call(self, arguments: FusedArguments) -> None:
        """Let the thread take part in a step."""
        self._calls.put(arguments)


LOOK_UP_SECONDS = 0.2
"""How long a thread that is not called goes without asking whether the program has ended."""


def _help(take_part: FusedStep, calls: SimpleQueue[FusedArguments | None]) -> None:
    while main_thread().is_alive():
        try:
            arguments = calls.get(timeout=LOOK_UP_SECONDS)
        except Empty:
            continue
        if arguments is None:
            return
        take_part(*arguments)


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
