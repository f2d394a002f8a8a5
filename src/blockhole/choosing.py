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
from math import sqrt
from typing import Any, Final, final

import numpy as np
from numpy.typing import NDArray

from blockhole.data.catalogue import catalogue
from blockhole.data.dataset import DataSet
from blockhole.data.edge_split import split_edges
from blockhole.errors import counted, note
from blockhole.models.blocks import BlockGeometry
from blockhole.models.catalogue import ModelSettings
from blockhole.runs.config import Settings, TrainConfig, overlay, read_preset, validate
from blockhole.training.batches import TOGETHER

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
MEMBERS: Final = 4
"""Models that are trained side by side on small graphs, where what one learns by chance the others do not: their sum
makes held-out facts likelier on every graph tried. The look has one of each way."""

LARGE_STEPS: Final = 12_000
"""Optimizer steps on larger graphs, at most."""
BUDGET: Final = 2400
"""Core seconds that these may take by estimate: twenty minutes on two cores."""
CORE: Final = 50e9
"""Multiplications and additions a second of the core that is meant. No machine is measured, so that one graph is
trained in one way on all of them."""
FEWEST_EPOCHS: Final = 20
"""Epochs that must fit into the budget before something dearer is taken."""

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

_FAME: Final[Settings] = {
    "model": {"entity_scale": 0.01},
    "loss": {"relation_weight": 0.0},
    "penalty": {"dura": 0.2},
    "training": {"on": "base"},
}
"""Where little more than the fame of entities can be learned: from near zero, what most facts have in common grows
first, and the penalty keeps the rest small."""

WAYS: Final = (
    Way("edges and as many walks", {"penalty": {"dura": 0.05}}),
    Way("edges and as many walks under a light penalty", {"penalty": {"dura": 0.02}}),
    Way("edges under a cubic penalty", _COMPLEX),
    Way("edges in blocks under a cubic penalty", overlay(_COMPLEX, _BLOCKS)),
    Way("edges", {"penalty": {"dura": 0.05}, "training": {"on": "base"}}),
    Way("edges under a light penalty", {"penalty": {"dura": 0.02}, "training": {"on": "base"}}),
    Way("edges under a heavy penalty", {"penalty": {"dura": 0.15}, "training": {"on": "base"}}),
    Way("edges from near zero under a heavy penalty", _FAME),
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
    """What was `asked` over a preset, whose size, and rate if too high, give way to a model that is asked for."""
    settings = read_preset(preset)
    if asked.get("model", {}) not in ({}, {"name": "blockhole"}):
        settings.pop("model", None)
        settings["optimizer"] = _steadied(settings["optimizer"], validate({"model": asked["model"]}).model)
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
    settings = with_members(_settings(best, data, asked), asked)
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


def with_members(settings: Settings, asked: Settings) -> Settings:
    """The settings for `MEMBERS` models side by side, if a model can be so divided and its size was not asked for.

    What their sum averages out, the cubic penalty need not hold down: half of it is enough.
    """
    sized = {"blocks", "block_size", "dim"} & asked.get("model", {}).keys()
    if sized or "members" in asked.get("training", {}) or not _divides(validate(settings)):
        return settings
    model = dict(settings["model"])
    key = "block_size" if "block_size" in model else "dim"
    model[key] *= MEMBERS
    several: Settings = {"model": model, "training": {"members": MEMBERS}}
    if "n3" in settings.get("penalty", {}) and "n3" not in asked.get("penalty", {}):
        several["penalty"] = {"n3": settings["penalty"]["n3"] / 2}
    return overlay(settings, several)


def _divides(config: TrainConfig) -> bool:
    """Whether members can share the model and the loss of a way."""
    geometry, loss = config.model.block_geometry, config.loss
    return geometry is not None and geometry.freqs > 1 and loss.kind != "logistic" and not loss.corrupted_paths


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

    The fewer facts fix an entity, the heavier the penalty, and many relations are told apart by predicting them too. On
    larger graphs the first of `_PLANS` is taken of which enough epochs fit into the budget.
    """
    split = data.split
    few_facts, many_relations = len(split.train) < 5 * len(split.entities), 50 <= len(split.relations) <= MANY_RELATIONS
    common: Settings = {
        "penalty": {"dura": 0.1 if few_facts else 0.05},
        "loss": {"relation_weight": 1.0 if many_relations else 0.0},
    }
    if len(split.entities) <= SMALL:
        settings = _fitted(overlay(COMMON, overlay(common, {"training": {"steps": STEPS}})), asked)
        settings["choice"] = f"{_named(settings)}, by the size of the graph"
    else:
        settings = _affordable(data, overlay(overlay(COMMON, common), _LARGE), asked)
    if len(split.valid) < FEWEST_HELD_OUT:
        settings = overlay(overlay(settings, {"early_stop": {"metric": None}}), asked)
    return paced(validate(settings), data)


_LARGE: Final[Settings] = {
    "training": {"batch_size": 1024, "threads": None},
    "early_stop": {"metric": "mrr"},  # of so many rivals few are facts that are missing
}
_ALL_ENTITIES: Final[Settings] = {
    "model": {"blocks": 2, "block_size": 64},
    "loss": {"kind": "softmax"},
    "optimizer": {"learning_rate": 0.1},
    "training": {"share_queries": True, "average_epochs": 4},
}
"""Against all entities small steps do, and a lighter penalty where there are facts enough."""
_PLANS: Final[tuple[Settings, ...]] = (
    _ALL_ENTITIES,
    overlay(_ALL_ENTITIES, {"training": {"on": "base"}}),
    {"loss": {"kind": "sampled_softmax", "negatives": 1024}},
    {"loss": {"kind": "sampled_softmax", "negatives": 1024}, "training": {"on": "base"}},
)
"""What larger graphs are trained on and contrasted with, the best first: all entities or a sample, with walks or
edges alone. Walks cost edges nothing but time (FB15k-237 .363 instead of .364, WN18RR .480 instead of .483)."""


def _affordable(data: DataSet, common: Settings, asked: Settings) -> Settings:
    """The settings of the first plan that the budget allows, else of the last, for as many steps as it allows."""
    for plan in _PLANS:
        lighter = plan["loss"]["kind"] == "softmax" and common["penalty"]["dura"] < 0.1
        planned = overlay(common, overlay(plan, {"penalty": {"dura": 0.03}}) if lighter else plan)
        settings = _fitted(planned, asked)
        config = validate(settings)
        seconds = core_seconds(config, data)
        if FEWEST_EPOCHS * seconds <= BUDGET:
            break
    steps_an_epoch = -(-_positives_of(config, data) // config.training.batch_size)
    steps = min(LARGE_STEPS, max(1, int(BUDGET / seconds * steps_an_epoch)))
    settings = overlay({"training": {"steps": steps}}, settings)
    training = validate(settings).training
    epochs = training.epochs or -(-training.steps // steps_an_epoch)
    rivals = {
        "softmax": "all entities",
        "sampled_softmax": f"{counted(config.loss.negatives, 'entity', 'entities')} at a time",
    }
    against = f" against {rivals[config.loss.kind]}" if config.loss.kind in rivals else ""
    minutes = max(1, round(epochs * seconds / 120))
    settings["choice"] = (
        f"{_named(settings)}{against}, by the size of the graph: {counted(epochs, 'epoch')} at most, "
        f"some {counted(minutes, 'minute')} on two cores"
    )
    return settings


def core_seconds(config: TrainConfig, data: DataSet) -> float:
    """How long a core is estimated to take for an epoch: three products of every query vector with its rivals.

    These are the scores and two gradients, of 2 · rivals · width operations each; an edge and each relation that it
    might have had count as much, with the width of a relation.
    """
    split, loss, geometry = data.split, config.loss, config.model.block_geometry
    width, relation_width = (config.model.dimension,) * 2
    if geometry is not None:
        width, relation_width = geometry.entity_width, geometry.relation_width
    edges, queries = 2 * len(split.train), _positives_of(config, data)
    rivals = len(split.entities) if loss.kind == "softmax" else loss.negatives
    if config.training.share_queries and loss.kind == "softmax":
        queries += _bunches(split.train) - edges
    relations = edges * 2 * len(split.relations) * relation_width if loss.relation_weight else 0
    return 6 * (queries * rivals * width + relations) / CORE


def _bunches(train: NDArray[np.int32]) -> int:
    """How many queries are scored for edges in both directions, where up to `TOGETHER` of them share one."""
    pairs = (train[:, end].astype(np.int64) << 32 | train[:, 1] for end in (0, 2))
    return sum(int((-(-np.unique(pair, return_counts=True)[1] // TOGETHER)).sum()) for pair in pairs)


def _positives_of(config: TrainConfig, data: DataSet) -> int:
    """Positives of an epoch on edges in both directions and, where these are asked for, walks."""
    training, facts = config.training, len(data.split.train)
    return 2 * facts + (training.walks_per_edge * facts if training.on == "paths" else 0)


def _named(settings: Settings) -> str:
    return "edges" if settings["training"].get("on") == "base" else "edges and as many walks"


def paced(config: TrainConfig, data: DataSet) -> TrainConfig:
    """The settings with a twentieth of the run between two validations: an epoch of a small graph is a few steps.

    Who has said how many epochs lie between two of them is left to it.
    """
    if "every" in config.early_stop.model_fields_set:
        return config
    training = config.training
    epochs = training.epochs or -(-training.steps // max(1, -(-_positives_of(config, data) // training.batch_size)))
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
    whole = validate({"model": overlay(model, wanted)}).model
    fitted = {**settings, "model": model, "optimizer": _steadied(settings["optimizer"], whole)}
    if not nature.has_matrices:
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


def _steadied(optimizer: Settings, model: ModelSettings) -> Settings:
    """The optimizer with a rate of at most the modulus that a relation's numbers have at first.

    Adagrad's first step moves each number by the rate. A hop of RESCAL, HolE or spatial BlockHolE adds up as many as a
    vector has, which start small for that: at 0.5 these models never come back from the first step.
    """
    blocks = model.block_shape[0] if model.nature.sized_by_blocks else 1
    layout = model.nature.layout(model.dimension, blocks)
    if layout.relation_scale is None:
        return optimizer
    modulus = layout.relation_scale * sqrt(layout.parts if isinstance(layout, BlockGeometry) else 1)
    return {**optimizer, "learning_rate": min(optimizer["learning_rate"], modulus)}


def held_out(data: DataSet) -> DataSet:
    """The train facts alone, a tenth of them as validation facts."""
    split = data.split
    draw = np.random.default_rng(0)
    return DataSet(data.name, split_edges(split.entities, split.relations, split.train, draw, valid=0.1, test=0.0))


def _clearly_better(one: NDArray[np.float64], other: NDArray[np.float64]) -> bool:
    """Whether the mean of `one` is higher by more than the standard error of the difference; [N] each."""
    difference = one - other
    return bool(difference.mean() > difference.std() / np.sqrt(len(difference)))
