"""With which settings a run goes on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from blockhole.errors import ConfigError, RunError
from blockhole.training.config import TrainConfig
from blockhole.training.config_sources import flatten, merge, validate
from blockhole.training.run_files import PARTS, read_config

FREE_TO_CHANGE = frozenset(
    {"training.epochs", "training.threads", "training.device", "training.checkpoint_seconds", "early_stop.patience"}
)
"""Settings that may change when a run is resumed; another device or number of threads ends equality bit for bit."""


def resumed_config(folder: Path, asked: Mapping[str, Any]) -> TrainConfig:
    """The settings of the run in `folder`, with those asked for over them where a run may change them on its way."""
    if (folder / PARTS).exists():
        raise RunError(
            f"{folder} was merged from other runs and has no optimizer to go on with; "
            f"resume the runs that its {PARTS} names, and merge them again."
        )
    saved = read_config(folder)
    config = validate(merge(saved.model_dump(mode="json"), asked))
    before, after = flatten(saved.model_dump(mode="json")), flatten(config.model_dump(mode="json"))
    for key, value in after.items():
        if value != before[key] and key not in FREE_TO_CHANGE:
            raise ConfigError(
                f"{folder} was trained with {key} = {before[key]!r}, not {value!r}; "
                "leave that setting out to resume it, or train another run."
            )
    return config
