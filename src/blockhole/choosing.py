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
from blockhole.runs.config import Settings, TrainConfig, overlay, read_preset, validate

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
BATCH: Final = 512
"""Positives of a step, where a way says nothing else."""
ADAM_RATE: Final = 0.01
LARGE_STEPS: Final = 10_000
"""The same on larger graphs: some minutes on two cores."""

MANY_RELATIONS: Final = 500
"""Relations beyond which predicting them costs more than all else, and nothing tells them apart but a few facts."""
VALIDATIONS: Final = 20
"""How often held-out facts are looked at in a whole run."""


@final
@dataclass(frozen=True, slots=True)
class Way:
    """One way to train: what it is called in a sentence, and the settings that set it apart."""

    name: str
    settings: Settings

    @property
    def on(self) -> str:
        """What it trains on: base or paths."""
        on: str = self.settings.get("training", {}).get("on", "paths")
        return on


COMMON: Final[Settings] = {
    "model": {"blocks": 4, "block_size": 32},
    "loss": {"kind": "softmax", "relation_weight": 1.0},
    "optimizer": {"kind": "adagrad", "learning_rate": 0.2},
    "training": {"walks": "fresh", "walks_per_edge": 1, "longest": 3, "batch_size": BATCH, "threads": 1},
    "early_stop": {"metric": "likelihood", "patience": 5},
}
"""What the ways share; experiments/notebook.md has the figures that speak for it."""

_COMPLEX: Final[Settings] = {
    "model": {"blocks": 1, "block_size": 256, "entity_scale": 0.001, "relation_scale": 0.001},
    "penalty": {"dura": 0.0, "n3": 0.02},
    "optimizer": {"learning_rate": 0.1},
    "training": {"on": "base", "batch_size": 128},
}
"""ComplEx as Lacroix et al. 2018 train it: wide, from near zero, in small batches, under the cubic penalty."""

_BLOCKS: Final[Settings] = {
    "model": {"blocks": 2, "block_size": 128},
    "loss": {"query_dropout": 0.3},
    "training": {"average_epochs": 8},
}
"""The same in blocks, which have more to learn by heart."""

WAYS: Final = (
    Way("edges and as many walks", {"penalty": {"dura": 0.05}}),
    Way("edges and as many walks under a light penalty", {"penalty": {"dura": 0.02}}),
    Way("edges under a cubic penalty", _COMPLEX),
    Way("edges in blocks under a cubic penalty", overlay(_COMPLEX, _BLOCKS)),
    Way("edges", {"penalty": {"dura": 0.05}, "training": {"on": "base"}}),
    Way("edges under a light penalty", {"penalty": {"dura": 0.02}, "training": {"on": "base"}}),
    Way("edges under a heavy penalty", {"penalty": {"dura": 0.15}, "training": {"on": "base"}}),
)
"""In the order in which they are preferred: a later one must be better by more than chance explains. Those with walks
come first, since what is learned from them answers longer paths."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """How a way did in the look.

    log p of the held-out facts [N], their MRR, and the epoch after which they were most probable, unless that was the
    last.
    """

    likelihood: NDArray[np.float64]
    mrr: float
    epoch: int | None


def can_look(data: DataSet) -> bool:
    """Whether a look can choose for the data: it has facts enough, in memory, and no paths or preset of its own."""
    split = data.split
    return len(split.train) >= FEWEST_FACTS and not (split.packed or data.has_paths or own_preset(data))


def own_preset(data: DataSet) -> str | None:
    """The preset that the catalogue names for the data."""
    return catalogue()[data.name].preset if data.name in catalogue() else None


def as_preset(preset: str, asked: Settings) -> TrainConfig:
    """What was `asked` over a preset, whose size gives way to any setting of the model that is asked for."""
    settings = read_preset(preset)
    if asked.get("model", {}) not in ({}, {"name": "blockhole"}):
        settings.pop("model", None)
    return validate(overlay(settings, asked))


def look(data: DataSet, asked: Settings, judge: Callable[[DataSet, TrainConfig], Judged]) -> TrainConfig:
    """The settings of the way that completes held-out facts best; `judge` trains one for the look.

    What was `asked` holds in every way, so that only the rest is chosen; where nothing is left to choose, and on graphs
    of more than `SMALL` entities, whose size says what to do, there is no look.

    A way is taken over one that is preferred to it where held-out facts are more probable under it, by more than the
    standard error of the difference, query by query. Likelihoods tell ways apart where ranks do not: in a dense graph
    the rivals of a held-out fact are full of facts that are only missing.
    """
    if len(data.split.entities) > SMALL:
        return without_look(data, asked)
    trusted = len(data.split.valid) >= FEWEST_HELD_OUT
    seen = data if trusted else held_out(data)
    ways = open_ways(seen, asked)
    note(f"looking at the graph before training: {len(ways)} ways are tried for a moment each")
    judged: dict[str, Judged] = {}
    best = ways[0]
    for way in ways:
        judged[way.name] = judge(seen, _for_look(way, seen, asked))
        if _clearly_better(judged[way.name].likelihood, judged[best.name].likelihood):
            best = way
    settings = _settings(best, data, asked)
    reached = judged[best.name]
    settings["choice"] = (
        f"{best.name}: held-out facts have a likelihood of {np.exp(reached.likelihood.mean()):.1%} and an MRR of "
        f"{reached.mrr:.3f} after a short training, the best of {len(ways)} ways tried"
    )
    if any(each.likelihood.mean() > reached.likelihood.mean() for each in judged.values()):
        settings["choice"] += " within chance"
    if not trusted:
        # Without facts to stop by, training goes on for as long as did good in the look.
        settings = overlay(overlay(settings, {"early_stop": {"metric": None}}), asked)
        epochs = reached.epoch
        if not {"epochs", "steps"} & asked.get("training", {}).keys() and epochs is not None:
            settings["training"] = {**settings["training"], "epochs": epochs}
    return paced(validate(settings), data)


def open_ways(data: DataSet, asked: Settings) -> list[Way]:
    """The ways that are still different, and possible, with what was `asked` over them."""
    on = _fitted(COMMON, asked)["training"].get("on")
    found: dict[str, Way] = {}
    for way in WAYS:
        if on in (None, way.on):
            found.setdefault(_for_look(way, data, asked).model_dump_json(), way)
    return list(found.values())


def without_look(data: DataSet, asked: Settings) -> TrainConfig:
    """What is trained without a look: on graphs too large for one, and where several processes would each take one.

    Edges and as many walks of two and three hops, which cost the edges nothing (FB15k-237 .363 instead of .364, WN18RR
    .480 instead of .483); the fewer facts fix an entity, the heavier the penalty, and many relations are told apart by
    predicting them too.
    """
    split = data.split
    few_facts, many_relations = len(split.train) < 5 * len(split.entities), 50 <= len(split.relations) <= MANY_RELATIONS
    large = len(split.entities) > SMALL
    settings: Settings = {
        "penalty": {"dura": 0.1 if few_facts else 0.05},
        "loss": {"relation_weight": 1.0 if many_relations else 0.0},
        "training": {"steps": STEPS},
    }
    if large:
        settings["loss"] |= {"kind": "sampled_softmax", "negatives": 1024}
        settings["training"] = {"batch_size": 1024, "steps": LARGE_STEPS, "threads": None}
        settings["early_stop"] = {"metric": "mrr"}  # of so many rivals few are facts that are missing
    settings = _fitted(overlay(COMMON, settings), asked)
    edges = settings["training"].get("on") == "base"
    settings["choice"] = f"{'edges' if edges else 'edges and as many walks'}, by the size of the graph"
    if len(split.valid) < FEWEST_HELD_OUT:
        settings = overlay(overlay(settings, {"early_stop": {"metric": None}}), asked)
    return paced(validate(settings), data)


def paced(config: TrainConfig, data: DataSet) -> TrainConfig:
    """The settings with a twentieth of the run between two validations: an epoch of a small graph is a few steps.

    Who has said how many epochs lie between two of them is left to it.
    """
    if "every" in config.early_stop.model_fields_set:
        return config
    training, edges = config.training, 2 * len(data.split.train)
    positives = edges + (training.walks_per_edge * len(data.split.train) if training.on == "paths" else 0)
    epochs = training.epochs or -(-training.steps // max(1, -(-positives // training.batch_size)))
    return config.model_copy(
        update={"early_stop": config.early_stop.model_copy(update={"every": max(1, epochs // VALIDATIONS)})}
    )


def _settings(way: Way, data: DataSet, asked: Settings, steps: int = STEPS) -> Settings:
    """A way's settings with what was asked for over them."""
    few = len(data.split.relations) <= MANY_RELATIONS
    settings = overlay(COMMON, way.settings if few else overlay(way.settings, {"loss": {"relation_weight": 0.0}}))
    settings = _fitted(settings, asked)
    # Small batches make more steps of the same facts; large ones still need their number of steps.
    more = max(1.0, BATCH / settings["training"]["batch_size"])
    return overlay({"training": {"steps": round(steps * more)}}, settings)


def _for_look(way: Way, data: DataSet, asked: Settings) -> TrainConfig:
    """A way as the look tries it: as long as all others, and judged as all others, whatever was asked for."""
    training: Mapping[str, Any] = asked.get("training", {})
    kept = {key: value for key, value in training.items() if key not in ("epochs", "steps")}
    settings = _settings(way, data, {**asked, "training": kept}, LOOK_STEPS)
    return paced(validate(overlay(settings, {"early_stop": COMMON["early_stop"]})), data)


def _fitted(settings: Settings, asked: Settings) -> Settings:
    """Settings of our own under what was asked for, fitted to its model and optimizer."""
    model, wanted = dict(settings["model"]), asked.get("model", {})
    sized = validate({"model": wanted}).model
    nature = sized.nature
    width = model["blocks"] * model["block_size"]
    if not nature.sized_by_blocks:
        del model["blocks"], model["block_size"]
        model["dim"] = width
    elif wanted.get("dim") is not None:
        del model["block_size"]
        if "block_size" in wanted or wanted["dim"] % model["blocks"]:
            del model["blocks"]
    fitted = {**settings, "model": model}
    if not nature.linear_in_relations:
        fitted["loss"] = {**settings["loss"], "relation_weight": 0.0}
    if nature.distance:
        fitted["loss"] = {**fitted["loss"], "query_dropout": 0.0}
    if sized.kind.why_no_paths is not None:
        fitted["training"] = {**settings["training"], "on": "base"}
    if asked.get("penalty", {}).get("dura_per_entity"):
        fitted["penalty"] = {**settings.get("penalty", {}), "dura": None}  # which would go first
    if asked.get("optimizer", {}).get("kind") == "adam":
        # Adagrad's steps shrink with time, Adam's do not.
        fitted["optimizer"] = {**settings["optimizer"], "learning_rate": ADAM_RATE}
    return overlay(fitted, asked)


def held_out(data: DataSet) -> DataSet:
    """The train facts alone, a tenth of them as validation facts."""
    split = data.split
    draw = np.random.default_rng(0)
    return DataSet(data.name, split_edges(split.entities, split.relations, split.train, draw, valid=0.1, test=0.0))


def _clearly_better(one: NDArray[np.float64], other: NDArray[np.float64]) -> bool:
    """Whether the mean of `one` is higher by more than the standard error of the difference; [N] each."""
    difference = one - other
    return bool(difference.mean() > difference.std() / np.sqrt(len(difference)))
