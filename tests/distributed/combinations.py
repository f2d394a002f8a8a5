"""What is trained on every mesh: each model with one loss, or all in a full sweep; each option of the settings once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray

from blockhole.graph.knowledge_graph import SplitGraph
from blockhole.graph.vocabulary import Vocabulary
from blockhole.models.catalogue import MODELS
from blockhole.queries.paths import PathQueries
from blockhole.runs.config import TrainConfig
from blockhole.training.batches import Batch, PathTensors
from blockhole.training.positives import StoredPositives
from tests.sweep import WHOLE
from tests.training.worlds import config, random_queries, random_split

LOSSES = ("logistic", "softmax", "sampled_softmax")
ENTITIES, RELATIONS, POSITIVES, BATCH = 23, 3, 42, 9
EPOCHS, OPTION_EPOCHS = (20, 4) if WHOLE else (2, 1)


@final
@dataclass(frozen=True)
class Combination:
    """Settings to train with for so many epochs; `unseen` entities, the last ones, take no part."""

    name: str
    epochs: int
    settings: dict[str, Any] = field(default_factory=dict)
    unseen: int = 0

    def config(self) -> TrainConfig:
        return config(**self.settings)


def _sized(model: str) -> dict[str, Any]:
    if model.startswith("blockhole"):
        return {"model__name": model}
    return {"model__name": model, "model__dim": 4, "model__blocks": None, "model__block_size": None}


def _options() -> dict[str, dict[str, Any]]:
    full, sampled = {"loss__kind": "softmax"}, {"loss__kind": "sampled_softmax", "loss__negatives": 3}
    return {
        "tied inverses": {"model__inverses": "tied", **full},
        "self-adversarial": {"loss__self_adversarial": 1.0},
        "typed objects": {"loss__typed_share": 0.5},
        "known answers of each": {"loss__mask_known_answers": True},
        "corrupted paths, logistic": {"loss__corrupted_paths": 2},
        "corrupted paths, softmax": {"loss__corrupted_paths": 2, **full},
        "known answers, softmax": {"loss__mask_known_answers": True, **full},
        "known answers, sampled": {"loss__mask_known_answers": True, **sampled},
        "sample as it is": {"loss__correct_sample": False, **sampled},
        "typed sample": {"loss__typed_share": 0.5, **sampled},
        "dropout": {"loss__query_dropout": 0.3, **full},
        "rare targets": {"loss__rare_weight": 0.1, **full},
        "rare targets, sampled": {"loss__rare_weight": 0.1, **sampled},
        "relation prediction": {"loss__relation_weight": 0.5, **full},
        "members, relation prediction": {
            "training__members": 2,
            "model__block_size": 4,
            "loss__relation_weight": 0.5,
            **full,
        },
        "members, sampled": {"training__members": 2, "model__block_size": 4, **sampled},
        "penalties": {"penalty__l2": 0.01, "penalty__n3": 0.01, "penalty__dura": 0.01, **sampled},
        "penalty of moving back": {"penalty__dura": 0.01, "penalty__dura_back": 0.01, **full},
        "HolE, relation prediction, moving back": {
            **_sized("hole"),
            "loss__relation_weight": 0.5,
            "penalty__dura_back": 0.01,
            **full,
        },
        "penalties of relations": {
            "penalty__l1_product": 0.01,
            "penalty__l1_blocks": 0.01,
            "penalty__rules": 0.01,
            **full,
        },
        "row-wise Adagrad": {"optimizer__kind": "rowwise_adagrad", **sampled},
        "Adam": {"optimizer__kind": "adam", **sampled},
        "Adam, softmax": {"optimizer__kind": "adam", **full},
    }


COMBINATIONS = {
    combination.name: combination
    for combination in (
        *(
            Combination(f"{model}, {loss}", EPOCHS, {**_sized(model), "loss__kind": loss})
            for i, model in enumerate(MODELS)
            for loss in (LOSSES if WHOLE else LOSSES[i % len(LOSSES) :][:1])
        ),
        *(Combination(name, OPTION_EPOCHS, settings) for name, settings in _options().items()),
        *(Combination(f"unseen entities, {loss}", OPTION_EPOCHS, {"loss__kind": loss}, unseen=6) for loss in LOSSES),
        Combination(
            "unseen entities, rare targets", OPTION_EPOCHS, {"loss__kind": "softmax", "loss__rare_weight": 0.1}, 6
        ),
        Combination(
            "unseen entities, masked", OPTION_EPOCHS, {"loss__kind": "softmax", "loss__mask_known_answers": True}, 6
        ),
    )
}


def split(combination: Combination) -> SplitGraph:
    """A random graph whose facts leave the unseen entities out, or where rules are needed, one that follows some."""
    known = random_split(ENTITIES - combination.unseen, RELATIONS, facts=60)
    names = Vocabulary([f"e{i}" for i in range(ENTITIES)])
    train = _steps() if "penalty__rules" in combination.settings else known.train
    return SplitGraph(names, known.relations, train=train, valid=known.valid)


def _steps() -> NDArray[np.int32]:
    """A ring of entities; each relation goes one step further than the one before: [T, 3]."""
    facts = [(s, r, (s + r + 1) % ENTITIES) for s in range(ENTITIES) for r in range(RELATIONS)]
    return np.array(facts, dtype=np.int32)


def batches(combination: Combination) -> list[Batch]:
    """The batches of all epochs; in each some are smaller than a mesh has parts of the data."""
    hops = 1 if combination.settings.get("model__name") == "simple" or "relation" in combination.name else 2
    known = random_split(ENTITIES - combination.unseen, RELATIONS)
    positives = PathQueries.concatenate(
        [random_queries(known, POSITIVES, hops, seed=1), random_queries(known, 1, 1, seed=2)]
    )
    by_relation = combination.name == "typed sample"
    paths = PathTensors.of(positives, torch.device("cpu"))
    order = StoredPositives(paths, 0, BATCH, by_last_relation=by_relation)
    plans = [order.plan(epoch) for epoch in range(combination.epochs)]
    return [plan.batch(index) for plan in plans for index in range(len(plan))]


def seen(combination: Combination) -> NDArray[np.int64] | None:
    return np.arange(ENTITIES - combination.unseen) if combination.unseen else None
