"""What `train` does where nothing is asked of it: settings that a short look at the graph chooses.

No one way of training serves every graph. Where nearly every entity answers nearly every walk, walks teach nothing;
where entities have two facts each, they teach most of what there is; and the penalty that keeps a sparse graph from
being learned by heart wipes out a dense one. So a few ways are tried for some hundred steps each, on the facts
themselves, and the one that completes held-out facts best trains the model. Its budget is counted in steps, not in
seconds: the same seed makes the same choice on every machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np
from numpy.typing import NDArray

from blockhole.data.catalogue import catalogue
from blockhole.data.dataset import DataSet
from blockhole.data.edge_split import split_edges
from blockhole.errors import note
from blockhole.runs.config import Settings, TrainConfig, flatten, overlay, read_preset, validate

SMALL: Final = 2000
"""Entities of a graph, at most, for which several ways to train can be tried in seconds."""
FEWEST_FACTS: Final = 200
"""Train facts without which a look tells chance from merit too seldom."""
FEWEST_HELD_OUT: Final = 50
"""Validation facts that a look trusts; where there are fewer, it holds out a tenth of the train facts instead."""
LOOK_STEPS: Final = 300
"""Optimizer steps of each way in the look."""
STEPS: Final = 1000
"""Optimizer steps of the training that follows, at most."""
LARGE_STEPS: Final = 10_000
"""The same on larger graphs: some minutes on two cores."""

MANY_RELATIONS: Final = 500
"""Relations beyond which predicting them costs more than all else, and nothing tells them apart but a few facts."""
VALIDATIONS: Final = 20
"""How often held-out facts are looked at in a whole run."""

LEFT_OPEN: Final = {"data", "columns", "literals", "choice"} | {
    f"training.{key}" for key in ("seed", "threads", "device", "epochs", "checkpoint_seconds")
}
"""Settings that leave the choice open; who names any other has chosen."""


@final
@dataclass(frozen=True, slots=True)
class Way:
    """One way to train: what it is called in a sentence, and the settings that set it apart.

    Its steps are worth a `step` of those of the others, where its batches are smaller.
    """

    name: str
    settings: Settings
    step: float = 1.0


COMMON: Final[Settings] = {
    "model": {"blocks": 4, "block_size": 32},
    "loss": {"kind": "softmax", "relation_weight": 1.0},
    "optimizer": {"kind": "adagrad", "learning_rate": 0.2},
    "training": {"walks": "fresh", "walks_per_edge": 1, "longest": 3, "batch_size": 512, "threads": 1},
    "early_stop": {"metric": "mrr", "patience": 5},
}
"""What the ways share; experiments/notebook.md has the figures that speak for it."""

_COMPLEX: Final[Settings] = {
    "model": {"blocks": 1, "block_size": 256, "entity_scale": 0.001, "relation_scale": 0.001},
    "penalty": {"dura": 0.0, "n3": 0.02},
    "optimizer": {"learning_rate": 0.1},
    "training": {"on": "base", "batch_size": 128},
}
"""ComplEx as Lacroix et al. 2018 train it: wide, from near zero, in small batches, under the cubic penalty."""

WAYS: Final = (
    Way("edges and as many walks", {"penalty": {"dura": 0.05}}),
    Way("edges and as many walks under a light penalty", {"penalty": {"dura": 0.02}}),
    Way("edges under a cubic penalty", _COMPLEX, step=0.25),
    Way("edges", {"penalty": {"dura": 0.05}, "training": {"on": "base"}}),
    Way("edges under a light penalty", {"penalty": {"dura": 0.02}, "training": {"on": "base"}}),
    Way("edges under a heavy penalty", {"penalty": {"dura": 0.15}, "training": {"on": "base"}}),
)
"""In the order in which they are preferred: a later one must be better by more than chance explains. Those with walks
come first, since what is learned from them answers longer paths."""


Judged = tuple[NDArray[np.float64], int | None]
"""Reciprocal ranks of the held-out queries [N], and the epoch after which they were best, unless that was the last."""


def suited(chosen: TrainConfig, data: DataSet, asked: Settings) -> TrainConfig:
    """What was `asked` over the preset for small graphs, where the data is one, and else `chosen`.

    Data with paths of its own is trained on these. The size of the model gives way to any setting of the model that is
    asked for.
    """
    small = not data.split.packed and len(data.split.entities) <= SMALL
    if not small or data.has_paths:
        return chosen
    preset = read_preset("small")
    if asked.get("model", {}) not in ({}, {"name": "blockhole"}):
        del preset["model"]
    return validate(overlay(preset, asked))


def is_open(data: DataSet, asked: Settings) -> bool:
    """Whether the choice is left open: nothing that matters was asked for, and the graph is no special case."""
    split = data.split
    if data.name in catalogue() and catalogue()[data.name].preset is not None:
        return False
    fits = not split.packed and not data.has_paths
    return fits and len(split.train) >= FEWEST_FACTS and flatten(asked).keys() <= LEFT_OPEN


def look(data: DataSet, asked: Settings, judge: Callable[[DataSet, TrainConfig], Judged]) -> TrainConfig:
    """The settings of the way that completes held-out facts best; `judge` trains one for the look.

    Graphs of more than `SMALL` entities are not looked at: their size says what to do.

    A way is taken over one that is preferred to it where its mean reciprocal rank is higher by more than the standard
    error of the difference, query by query.
    """
    if len(data.split.entities) > SMALL:
        return without_look(data, asked)
    note(f"looking at the graph before training: {len(WAYS)} ways are tried for a moment each")
    trusted = len(data.split.valid) >= FEWEST_HELD_OUT
    seen = data if trusted else held_out(data)
    judged: dict[str, Judged] = {}
    best = WAYS[0]
    for way in WAYS:
        config = paced(validate(overlay(_settings(way, seen, LOOK_STEPS), without_epochs(asked))), seen)
        judged[way.name] = judge(seen, config)
        if _clearly_better(judged[way.name][0], judged[best.name][0]):
            best = way
    settings = overlay(_settings(best, data), asked)
    reached, others = judged[best.name][0].mean(), max(one.mean() for one, _ in judged.values())
    settings["choice"] = (
        f"{best.name}: MRR {reached:.3f} of held-out facts after a short training, the best of {len(WAYS)} ways tried"
        + ("" if reached == others else f" within chance (highest {others:.3f})")
    )
    if not trusted:
        # Without facts to stop by, training goes on for as long as did good in the look.
        settings = overlay(settings, {"early_stop": {"metric": None}})
        epochs = judged[best.name][1]
        if "epochs" not in settings["training"] and epochs is not None:
            settings["training"] = {**settings["training"], "epochs": epochs}
    return paced(validate(settings), data)


def without_look(data: DataSet, asked: Settings) -> TrainConfig:
    """What is trained without a look: on graphs too large for one, and where several processes would each take one.

    Edges and as many walks of two and three hops, which cost the edges nothing (FB15k-237 .363 instead of .364, WN18RR
    .480 instead of .483); the fewer facts fix an entity, the heavier the penalty, and many relations are told apart by
    predicting them too.
    """
    split = data.split
    few_facts, many_relations = len(split.train) < 5 * len(split.entities), 50 <= len(split.relations) <= MANY_RELATIONS
    settings = overlay(COMMON, {"penalty": {"dura": 0.1 if few_facts else 0.05}})
    settings["loss"] = {**settings["loss"], "relation_weight": 1.0 if many_relations else 0.0}
    if len(split.entities) > SMALL:
        settings["loss"] |= {"kind": "sampled_softmax", "negatives": 1024}
        settings["training"] = {**settings["training"], "batch_size": 1024, "steps": LARGE_STEPS, "threads": None}
    else:
        settings["training"] = {**settings["training"], "steps": STEPS}
    settings["choice"] = "edges and as many walks, by the size of the graph"
    settings = overlay(settings, asked)
    if len(split.valid) < FEWEST_HELD_OUT:
        settings = overlay(settings, {"early_stop": {"metric": None}})
    return paced(validate(settings), data)


def paced(config: TrainConfig, data: DataSet) -> TrainConfig:
    """The settings with a twentieth of the run between two validations: an epoch of a small graph is a few steps."""
    training, edges = config.training, 2 * len(data.split.train)
    positives = edges + (training.walks_per_edge * len(data.split.train) if training.on == "paths" else 0)
    epochs = training.epochs or -(-training.steps // -(-positives // training.batch_size))
    return config.model_copy(
        update={"early_stop": config.early_stop.model_copy(update={"every": max(1, epochs // VALIDATIONS)})}
    )


def _settings(way: Way, data: DataSet, steps: int = STEPS) -> Settings:
    settings = overlay(overlay(COMMON, way.settings), {"training": {"steps": round(steps / way.step)}})
    if len(data.split.relations) > MANY_RELATIONS:
        settings["loss"] = {**settings["loss"], "relation_weight": 0.0}
    return settings


def without_epochs(asked: Settings) -> Settings:
    """What was asked for, but for the number of epochs: a look has its own."""
    training: Mapping[str, Any] = asked.get("training", {})
    return {**asked, "training": {key: value for key, value in training.items() if key != "epochs"}}


def held_out(data: DataSet) -> DataSet:
    """The train facts alone, a tenth of them as validation facts."""
    split = data.split
    draw = np.random.default_rng(0)
    return DataSet(data.name, split_edges(split.entities, split.relations, split.train, draw, valid=0.1, test=0.0))


def _clearly_better(one: NDArray[np.float64], other: NDArray[np.float64]) -> bool:
    """Whether the mean of `one` is higher by more than the standard error of the difference; [N] each."""
    difference = one - other
    return bool(difference.mean() > difference.std() / np.sqrt(len(difference)))
