"""The points of the paper's grid search, and the settings each is trained with."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any, NamedTuple

from blockhole.errors import ConfigError, nearest_or_all
from blockhole.training.config import TrainConfig
from blockhole.training.config_sources import merge, nested, read_preset, validate

PENALTIES = (0.0001, 0.0)
RATES = (0.005, 0.01, 0.025, 0.05)
SIZES = {
    "blockhole": ("2x25", "2x50", "2x100", "4x25", "4x50", "8x25"),
    "complex": ("50", "100", "150", "200"),
    "distmult": ("50", "100", "150", "200"),
    "rescal": ("50", "100", "150", "200"),
}
"""Of each model of the paper: the six (b, m) as bxm, or n."""

QUICK_RATES = (0.025, 0.05)
QUICK_SIZES = {"blockhole": ("2x25", "2x50", "4x25"), "complex": ("50",), "distmult": ("50",), "rescal": ("50",)}
QUICK_EPOCHS = 10
"""Instead of 500; with the quick rates and sizes 24 short trainings."""


class Point(NamedTuple):
    """One combination of the grid."""

    size: str
    l2: float
    learning_rate: float


def points(model: str, *, quick: bool) -> list[Point]:
    """The grid of a model."""
    sizes = QUICK_SIZES if quick else SIZES
    if model not in sizes:
        raise ConfigError(f"the paper's grid has no model {model!r}; {nearest_or_all(model, sizes, 'it has')}")
    return [Point(*each) for each in product(sizes[model], PENALTIES, QUICK_RATES if quick else RATES)]


def point_config(
    data: str, model: str, point: Point, *, quick: bool, overrides: Mapping[str, Any], device: str
) -> TrainConfig:
    """The paper's settings at a point; `overrides` (dotted key → value) go over all others but the point's own."""
    settings = read_preset("paper")
    if quick:
        settings = merge(settings, {"training": {"epochs": QUICK_EPOCHS}, "early_stop": {"every": 2}})
    for key, value in overrides.items():
        settings = merge(settings, nested(key, value))
    own = {
        "data": data,
        "model": {"name": model} | _size(point.size),
        "penalty": {"l2": point.l2},
        "optimizer": {"learning_rate": point.learning_rate},
        "training": {"threads": 1, "device": device},
    }
    return validate(merge(settings, own))


def _size(size: str) -> dict[str, int]:
    blocks, separator, block_size = size.partition("x")
    return {"blocks": int(blocks), "block_size": int(block_size)} if separator else {"dim": int(size)}
