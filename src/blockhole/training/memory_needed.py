"""How much memory a training run takes, known before it starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

import torch

from blockhole.graph.knowledge_graph import SplitGraph
from blockhole.models.catalogue import build_model
from blockhole.runs.config import TrainConfig
from blockhole.training.losses import CUDA_CHUNK_LOGITS, LOSSES

PROGRAM = 800_000_000 if torch.version.cuda is None else 1_250_000_000
"""Python, torch, numba and polars, what compiling loops takes, and the batch under way.

A torch built for CUDA loads CUDA's libraries anyway.
"""
GPU_PROGRAM = 1_000_000_000
"""CUDA's own, its libraries' workspaces, and what its allocator keeps in reserve."""
COPIES = 10
"""How often a GPU holds the rows of a batch at once: gathered, spread over queries, as gradients and as steps."""


@final
@dataclass(frozen=True, slots=True)
class MemoryNeeded:
    """Bytes that a run on one CPU holds at most, by what they are for, and on one GPU, where it trains there.

    E entities of w numbers, relations of P numbers in all, T facts of train, N positives of up to K hops:
    tables 4(Ew + P); optimizer the same for Adagrad, 4(E + rows of relations) row-wise, twice the tables for Adam;
    ids 17E, of the entities that negatives are drawn from; averages 4(Ew + P) for the best weights, and three times as
    much for a mean over epochs, the weights it stands in for and its next copy; positives 8N(3 + K) and their order
    26N, with c corrupted paths each, drawn once, cN(4K + 1) more, and while they are drawn 40K for those of one length,
    a quarter of all where there are walks; nothing for a packed graph, which is read where it lies; graph 24T and 200 E
    for names, packed 16 E; saving twice the larger of tables and optimizer.

    `mapped` are pages of a packed graph's files. They count as the process's while it touches them, and the system
    takes them back when memory is short.

    On a `gpu` are tables, optimizer, ids, averages and positives as here, and ten copies of the rows that a batch of B
    with n negatives touches: B(2 + n), 2B + n where they are shared, at most E, which are all with the full softmax.
    Each of the logits that this holds at once, BE or 2^28, takes six bytes more.
    """

    parts: Mapping[str, int]
    mapped: int
    gpu: int

    @property
    def held(self) -> int:
        """All parts together."""
        return sum(self.parts.values())


def memory_needed(config: TrainConfig, split: SplitGraph, stored_paths: int | None, *, saved: bool) -> MemoryNeeded:
    """What training on `split` takes, where its data set has `stored_paths` (absent: none), and the run is `saved`."""
    training, E, T = config.training, len(split.entities), len(split.train)
    one = build_model(config.model, 1, len(split.relations), seed=0)
    tables = 4 * (E * one.entity.numel() + one.relation.numel())
    optimizer = {
        "adagrad": tables,
        "rowwise_adagrad": 4 * (E + len(one.relation)),
        "adam": 2 * tables,
    }[config.optimizer.kind]
    averages = tables * (bool(config.early_stop.metric) or training.average_epochs > 1)
    averages += 3 * tables * (training.average_epochs > 1)
    adjacency = 32 * T + 8 * E if training.on == "paths" else 0
    parts = {
        "program": PROGRAM,
        "tables": tables,
        "optimizer": optimizer,
        "ids": 17 * E,
        "averages": averages,
        "positives": 0 if split.packed else _positives_bytes(config, T, stored_paths),
        "graph": 16 * E if split.packed else 24 * T + 200 * E + adjacency,
        "saving": 2 * max(tables, optimizer) if saved else 0,
    }
    touched = COPIES * 4 * one.entity.numel() * _rows_touched(config, E)
    all_rivals = LOSSES[config.loss.kind].objects == "all"
    logits = 6 * min(CUDA_CHUNK_LOGITS, training.batch_size * E) if all_rivals else 0
    return MemoryNeeded(
        parts,
        mapped=12 * T + adjacency if split.packed else 0,
        gpu=GPU_PROGRAM
        + touched
        + logits
        + sum(parts[part] for part in ("tables", "optimizer", "ids", "averages", "positives")),
    )


def _rows_touched(config: TrainConfig, entities: int) -> int:
    """Rows of the entity table that a batch touches, at most."""
    batch, negatives = config.training.batch_size, config.loss.negatives
    match LOSSES[config.loss.kind].objects:
        case "all":
            return entities
        case "shared":
            return min(entities, 2 * batch + negatives)
        case "each":
            return batch * (2 + negatives)


def _positives_bytes(config: TrainConfig, facts: int, stored_paths: int | None) -> int:
    """Positives twice, as they are made and as they are kept, and their order: keys, groups, shuffled, batches."""
    training = config.training
    hops, walks = (1, 0) if training.on == "base" else (training.longest, training.walks_per_edge * facts)
    if training.on_stored_paths:
        added = walks if training.walks == "added" else 0
        walks = added + (walks if stored_paths is None else stored_paths - facts)
    both = {"none": 0, "edges": facts, "paths": facts + walks}[training.reverse]
    positives = facts + walks + both
    corrupted = positives * config.loss.corrupted_paths if config.loss.corrupts_once else 0
    drawn_at_once = corrupted if hops == 1 else corrupted // (hops - 1)
    return positives * (8 * (3 + hops) + 26) + corrupted * (4 * hops + 1) + drawn_at_once * 40 * hops
