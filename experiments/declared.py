"""The declared experiments: every column of every table, with its settings.

`columns/TABLE.toml` declares a table: its data sets, its columns, its seeds, and rules that give each column its
settings. `find_experiments` turns names such as `ranking/wn11/complex-50-seed1` into experiments.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, Literal, final, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from blockhole.errors import ConfigError, nearest_or_all
from blockhole.models.catalogue import ModelSettings
from blockhole.runs.config import Settings, TrainConfig, explain_invalid, nested, overlay, read_preset, validate

TableName = Literal["ranking", "classification", "order", "completion", "triples", "queries", "rules"]
"""The tables whose columns are trained models; run times, in `timing`, are the one that is not."""

TABLES: tuple[TableName, ...] = get_args(TableName)
PATH_TABLES = ("ranking", "classification", "order")

Split = Literal["dev", "test"]

_WHERE_IT_RUNS = {"device", "threads", "checkpoint_seconds"}


@final
class Experiment(BaseModel):
    """What is trained and what is measured; two with the same description give the same figures on one machine."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    table: TableName
    data: str
    column: str
    split: Split
    config: TrainConfig
    members: int = Field(default=1, ge=1, description="models trained alike from seeds of their own, then merged")
    words: int = Field(
        default=0,
        ge=0,
        description="how often a word of an entity's name is trained on as a fact; models beside do without",
    )
    lean: float = Field(default=0.0, ge=0, description="how far rows then lean on their words; see word_rows.py")
    beside: Settings = Field(
        default_factory=dict,
        description="settings over the others, of as many models again, which are trained beside and merged with them",
    )

    @model_validator(mode="after")
    def _check(self) -> Experiment:
        if len({_kind(config.model) for config in self.trainings}) > 1:
            raise ValueError("models are merged with those beside them, so that kind and inverses must be the same")
        if self.lean and not self.words:
            raise ValueError("rows can lean on the words of names only where words are trained on; set words too")
        if self.table == "queries" and self.lean:
            raise ValueError(
                "rows cannot lean on words where queries are asked, since the words are gone; leave lean out"
            )
        if self.beside and self.words and self.table != "queries":
            raise ValueError("models beside others do without words, so that only the table queries can have both")
        return self

    @property
    def seed(self) -> int:
        """Decides the initial weights and every draw of the training."""
        return self.config.training.seed

    @property
    def member_seeds(self) -> range:
        """The seeds of the models that are trained: no two experiments of a column share one."""
        count = models_merged(self.members, self.beside)
        return range(self.seed * count, (self.seed + 1) * count)

    @property
    def trainings(self) -> list[TrainConfig]:
        """The settings of each model that is trained, its seed among them: the members, then those beside them."""
        kinds = [self.config]
        if self.beside:
            kinds.append(validate(overlay(self.config.model_dump(mode="json"), self.beside)))
        settings = [kind for kind in kinds for _ in range(self.members)]
        return [
            config.model_copy(update={"training": config.training.model_copy(update={"seed": seed})})
            for config, seed in zip(settings, self.member_seeds, strict=True)
        ]

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


def _kind(model: ModelSettings) -> tuple[str, str]:
    """What models must have in common to be merged; ComplEx is BlockHolE of one block."""
    return "blockhole" if model.name == "complex" else model.name, model.inverses


def models_merged(members: int, beside: Mapping[str, Any]) -> int:
    """How many models are trained and merged into one."""
    return 2 * members if beside else members


def _without_place(config: TrainConfig) -> dict[str, Any]:
    return config.model_dump(mode="json", exclude={"training": _WHERE_IT_RUNS})


BESIDE_SETTINGS = ("members", "words", "lean", "beside")
_NO_SETTINGS = ("for", "preset", *BESIDE_SETTINGS)
_SEED = re.compile(r"(?P<column>.*)-seed(?P<seed>\d+)")


@final
class Declaration(BaseModel):
    """The columns of a table, the data sets they are trained on, and their settings.

    Every column is for every data set, but where `leave_out` names data/column.
    A rule of `settings` holds `for`, a pattern of data/column or several, any settings, a `preset` that goes before
    them, `members`, how many models are trained and merged, `words`, how often a word of an entity's name is trained on
    as a fact, `lean`, how far rows then lean on them, and `beside`, the settings, over the column's own, of as many
    models again that are merged with the others; a later rule overrides earlier ones.
    The settings start from a `preset` of `blockhole train`, where one is named.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    preset: str | None = None
    data: tuple[str, ...] = Field(min_length=1)
    columns: tuple[str, ...] = Field(min_length=1)
    seeds: tuple[int, ...] = Field(min_length=1)
    leave_out: tuple[str, ...] = ()
    settings: tuple[dict[str, Any], ...] = ()

    def columns_of(self, data: str) -> list[str]:
        """The columns of a data set."""
        return [column for column in self.columns if f"{data}/{column}" not in self.leave_out]

    def settings_of(self, data: str, column: str) -> Settings:
        """The settings of one column on one data set, unchecked."""
        chosen: Settings = read_preset(self.preset) if self.preset else {}
        for rule in self._rules_of(data, column):
            if "preset" in rule:
                chosen = overlay(chosen, read_preset(rule["preset"]))
            chosen = overlay(chosen, {key: values for key, values in rule.items() if key not in _NO_SETTINGS})
        return chosen

    def beside_settings_of(self, data: str, column: str) -> dict[str, Any]:
        """What a column on a data set declares beside its own settings: members, words, lean, beside."""
        chosen: dict[str, Any] = {}
        for rule in self._rules_of(data, column):
            chosen = overlay(chosen, {key: rule[key] for key in BESIDE_SETTINGS if key in rule})
        return chosen

    def _rules_of(self, data: str, column: str) -> list[dict[str, Any]]:
        return [rule for rule in self.settings if any(fnmatchcase(f"{data}/{column}", each) for each in patterns(rule))]


def patterns(rule: Mapping[str, Any]) -> list[str]:
    """What a rule of the settings is for."""
    return [rule["for"]] if isinstance(rule["for"], str) else rule["for"]


@cache
def read_declaration(table: TableName) -> Declaration:
    """What `columns/TABLE.toml` declares."""
    text = (Path(__file__).parent / "columns" / f"{table}.toml").read_text(encoding="utf-8")
    return Declaration.model_validate(tomllib.loads(text))


def find_experiments(
    names: Iterable[str],
    *,
    seeds: Sequence[int] | None = None,
    split: Split = "test",
    overrides: Mapping[str, Any] | None = None,
) -> list[Experiment]:
    """The experiments behind names such as ranking, ranking/wn11, ranking/*/complex-50 or order/fb13/complex-50-seed1.

    They come in the order of the names, each once; within a name all columns of a seed come before the next seed.
    `seeds` replace the declared ones. `overrides` (dotted key → value) go over the declared settings, members, words,
    lean and what is beside among them.
    """
    found: dict[str, Experiment] = {}
    for name in names:
        for experiment in _behind(name, seeds, split, overrides or {}):
            same = found.setdefault(experiment.name, experiment)
            if same.data != experiment.data:
                raise ConfigError(
                    f"{same.data} and {experiment.data} would have the same records, {experiment.name}; "
                    "rename one of the two, or run them one after the other with different --out."
                )
    return list(found.values())


def _behind(name: str, seeds: Sequence[int] | None, split: Split, overrides: Mapping[str, Any]) -> list[Experiment]:
    table_name, _, rest = name.partition("/")
    data_pattern, _, column_pattern = rest.rpartition("/") if rest.count("/") else (rest, "", "")
    table = _table(table_name, name)
    declaration = read_declaration(table)
    with_seed = _SEED.fullmatch(column_pattern)
    if with_seed:
        column_pattern, seeds = with_seed["column"], [int(with_seed["seed"])]
    columns = [column for column in declaration.columns if fnmatchcase(column, column_pattern or "*")]
    if not columns:
        hint = nearest_or_all(column_pattern, declaration.columns, "its columns are")
        raise ConfigError(f"{name}: the table {table} has no column {column_pattern!r}; {hint}")
    return [
        _experiment(table, data, column, seed, split, overrides)
        for seed in (declaration.seeds if seeds is None else seeds)
        for data in _data_sets(declaration, data_pattern or "*")
        for column in declaration.columns_of(data)
        if column in columns
    ]


def _table(table: str, name: str) -> TableName:
    for known in TABLES:
        if table == known:
            return known
    raise ConfigError(f"{name}: there is no table {table!r}; {nearest_or_all(table, TABLES, 'the tables are')}")


def _data_sets(declaration: Declaration, pattern: str) -> list[str]:
    """The declared data sets a pattern matches; a plain name means itself, so that other data can be tried."""
    matching = [data for data in declaration.data if fnmatchcase(data, pattern)]
    return matching or [pattern]


def _experiment(
    table: TableName, data: str, column: str, seed: int, split: Split, overrides: Mapping[str, Any]
) -> Experiment:
    declaration = read_declaration(table)
    settings = overlay(declaration.settings_of(data, column), {"data": data})
    beside = declaration.beside_settings_of(data, column)
    for key, value in overrides.items():
        if key.partition(".")[0] in BESIDE_SETTINGS:
            beside = overlay(beside, nested(key, value))
        else:
            settings = overlay(settings, nested(key, value))
    settings = overlay(settings, {"training": {"seed": seed}})
    config = validate(settings)
    try:
        return Experiment(table=table, data=data, column=column, split=split, config=config, **beside)
    except ValidationError as failure:
        raise ConfigError(explain_invalid(failure, Experiment)) from None
