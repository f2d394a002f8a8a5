"""One experiment: a model trained on a data set from a seed, and measured for one table."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, final, get_args

from pydantic import BaseModel, ConfigDict, Field, model_validator

from blockhole.errors import ConfigError
from blockhole.training.config import TrainConfig
from blockhole.training.config_sources import validate

Table = Literal["ranking", "classification", "order", "completion", "triples"]
"""The tables whose columns are trained models; run times, in `timing`, are the one that is not."""

TABLES: tuple[Table, ...] = get_args(Table)
PATH_TABLES = ("ranking", "classification", "order")

Split = Literal["dev", "test"]

_WHERE_IT_RUNS = {"device", "threads", "checkpoint_seconds"}


@final
class Experiment(BaseModel):
    """What is trained and what is measured; two with the same description give the same figures on one machine."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    table: Table
    data: str
    column: str
    split: Split
    config: TrainConfig
    members: int = Field(default=1, ge=1, description="models trained alike from seeds of their own, then merged")
    words: int = Field(default=0, ge=0, description="how often a word of an entity's name is trained on as a fact")
    lean: float = Field(default=0.0, ge=0, description="how far rows then lean on their words; see models.word_rows")

    @model_validator(mode="after")
    def _check(self) -> Experiment:
        if self.lean and not self.words:
            raise ValueError("rows can lean on the words of names only where words are trained on; set words too")
        return self

    @property
    def seed(self) -> int:
        """Decides the initial weights and every draw of the training."""
        return self.config.training.seed

    @property
    def member_seeds(self) -> range:
        """The seeds of the models that are trained: no two experiments of a column share one."""
        return range(self.seed * self.members, (self.seed + 1) * self.members)

    @property
    def name(self) -> str:
        """`ranking/wn11/blockhole-2x25-seed0`, and -dev after it where dev queries are measured."""
        end = "-dev" if self.split == "dev" else ""
        return f"{self.table}/{Path(self.data).name}/{self.column}-seed{self.seed}{end}"

    @property
    def settings(self) -> dict[str, Any]:
        """All settings but those that say where the training runs."""
        return _without_place(self.config)

    def has_settings(self, settings: Mapping[str, Any]) -> bool:
        """Whether these, which a record kept, are the settings; what the record does not know has its default."""
        try:
            return _without_place(validate(settings)) == self.settings
        except ConfigError:
            return False


def _without_place(config: TrainConfig) -> dict[str, Any]:
    return config.model_dump(mode="json", exclude={"training": _WHERE_IT_RUNS})
