"""Which engine trains what."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.models.bilinear import BlockBilinear
from blockhole.models.contract import Model
from blockhole.training.autograd import AutogradEngine
from blockhole.training.config import TrainConfig
from blockhole.training.engine import Engine
from blockhole.training.kernels.captured import CapturedEngine
from blockhole.training.kernels.fused_cpu import FusedEngine, supports

FEW_ENTITIES = 2**18
"""Entities up to which a GPU passes over the whole table sooner than its host can say which rows occur in a batch."""


def build_engine(
    model: Model, config: TrainConfig, graph: KnowledgeGraph, threads: int, seen: NDArray[np.int64] | None = None
) -> Engine:
    """The fastest engine for this model, these settings and the device the model is on.

    `graph` is the train graph, which negatives are checked against; `threads` are the fused engine's;
    `seen` are the entities that take part (absent: all), see `training/unseen.py`.
    """
    optimizer = config.optimizer
    if isinstance(model, BlockBilinear) and optimizer.kind != "adam" and supports(model, config):
        return FusedEngine(
            model,
            negatives=config.loss.negatives,
            learning_rate=optimizer.learning_rate,
            l2=config.penalty.l2,
            optimizer=optimizer.kind,
            initial_accumulator=optimizer.initial_accumulator,
            epsilon=optimizer.epsilon,
            shift=config.loss.shift,
            seed=config.training.seed,
            threads=threads,
            seen=seen,
        )
    # A recorded step repeats itself exactly; Adam's counts its steps on the host, and moves rows that did not occur.
    record = model.entity.is_cuda and optimizer.kind != "adam"
    engine = AutogradEngine(model, config, graph, seen, whole_table=record and model.num_entities <= FEW_ENTITIES)
    return CapturedEngine(engine) if record and engine.recordable else engine
