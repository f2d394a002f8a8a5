"""Small graphs and models for the tests of training."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockhole.data.dataset import DataSet
from blockhole.graph.knowledge_graph import SplitGraph
from blockhole.graph.vocabulary import Vocabulary
from blockhole.models.catalogue import ModelSettings, build_model
from blockhole.models.contract import Model
from blockhole.queries.paths import PathQueries
from blockhole.runs.config import TrainConfig, gather, validate

SMALL: dict[str, Any] = {
    "model.blocks": 2,
    "model.block_size": 3,
    "training.threads": 1,
    "training.device": "cpu",
}
"""Settings of a training of milliseconds, the same each time."""
SMALL_BATCHES = SMALL | {"training.batch_size": 64}


def random_split(entities: int = 12, relations: int = 3, facts: int = 40, seed: int = 0) -> SplitGraph:
    """A random graph; a fifth of its facts are for validation."""
    rng = np.random.default_rng(seed)
    triples = np.column_stack(
        [rng.integers(entities, size=facts), rng.integers(relations, size=facts), rng.integers(entities, size=facts)]
    ).astype(np.int32)
    held_out = facts // 5
    return SplitGraph(
        Vocabulary([f"e{i}" for i in range(entities)]),
        Vocabulary([f"r{i}" for i in range(relations)], "relation"),
        train=triples[held_out:],
        valid=triples[:held_out],
    )


def random_data(seed: int = 0) -> DataSet:
    return DataSet("random", random_split(entities=20, facts=60, seed=seed))


def random_queries(split: SplitGraph, count: int, hops: int, seed: int = 0) -> PathQueries:
    """Queries of one length, true or not."""
    rng = np.random.default_rng(seed)
    entities, ids = len(split.entities), 2 * len(split.relations)

    def ids_below(limit: int, *shape: int) -> NDArray[np.int32]:
        return rng.integers(limit, size=shape).astype(np.int32)

    return PathQueries(
        ids_below(entities, count),
        ids_below(ids, count, hops),
        np.full(count, hops, dtype=np.int32),
        ids_below(entities, count),
    )


def config(**settings: Any) -> TrainConfig:
    """Defaults with dotted keys over them, `__` standing for the dot."""
    return validate(gather(overrides=SMALL | {key.replace("__", "."): value for key, value in settings.items()}))


def tiny_model(
    split: SplitGraph, name: str = "blockhole", inverses: str = "own", seed: int = 0, shape: tuple[int, int] = (2, 3)
) -> Model:
    """A model of a few numbers per entity, in float64; BlockHolE has blocks and a block size of `shape`."""
    size = {"blocks": shape[0], "block_size": shape[1]} if name.startswith("blockhole") else {"dim": 4}
    settings = ModelSettings.model_validate({"name": name, "inverses": inverses, "entity_scale": 0.7, **size})
    model = build_model(settings, len(split.entities), len(split.relations), seed)
    return model.double()
