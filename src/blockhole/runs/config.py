"""Every setting of a run, typed, checked and described; settings come from defaults, a preset, a file, the caller."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from importlib.resources import files
from pathlib import Path
from reprlib import Repr
from typing import Annotated, Any, Literal, final

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from blockhole.compiled import MAX_THREADS
from blockhole.errors import MANY_DIGITS, ConfigError, ought_to_be, quoted
from blockhole.models.blocks import BLOCK_MODELS
from blockhole.models.catalogue import ModelSettings, models_with_matrices
from blockhole.saving import SEAL, parse_json

LossKind = Literal["logistic", "softmax", "sampled_softmax"]
Corruption = Literal["reversed", "shuffled", "swapped", "replaced"]
OptimizerKind = Literal["adagrad", "rowwise_adagrad", "adam"]
Metric = Literal["mq", "mrr", "likelihood", "accuracy"]

Weight = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Section(BaseModel):
    """A group of settings; immutable, and unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid")


@final
class LossConfig(Section):
    """The loss; see `training/losses.py` for the equations."""

    kind: LossKind = Field(
        default="logistic",
        description="logistic (as in the paper), softmax over all entities, or sampled_softmax over a sample",
    )
    negatives: int = Field(
        default=5,
        ge=1,
        description="negatives per positive (logistic) or per batch (sampled_softmax); unused by softmax",
    )
    correct_sample: bool = Field(
        default=True,
        description="weight sampled negatives by 1 / sampling probability, so the softmax sum is unbiased",
    )
    typed_share: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="share of the negatives drawn from the train objects of the last relation",
    )
    self_adversarial: Weight = Field(
        default=0.0,
        description="temperature of self-adversarial weights for logistic negatives; 0 weights all equally",
    )
    corrupted_paths: int = Field(
        default=0,
        ge=0,
        description="extra negatives per positive with the same ends and a corrupted path that does not hold in train",
    )
    corruptions: tuple[Corruption, ...] = Field(
        default=("reversed", "shuffled", "replaced"),
        min_length=1,
        description="ways to corrupt a path; each corrupted path uses a random one",
    )
    corrupt: Literal["each_batch", "once"] = Field(
        default="each_batch",
        description="draw corrupted paths for every batch, or once for every stored positive",
    )
    balanced: bool = Field(
        default=False,
        description="make logistic scores log odds for equally many positives and negatives",
    )
    mask_known_answers: bool = Field(
        default=False, description="exclude entities that answer the query in the train graph from the negatives"
    )
    query_dropout: float = Field(
        default=0.0,
        ge=0,
        lt=1,
        description="share of the query vector's coordinates set to zero, drawn anew for every positive",
    )
    relation_weight: Weight = Field(
        default=0.0,
        description="weight of the auxiliary loss that predicts the relation of an edge from its ends (all models but "
        "transe and simple)",
    )
    rare_weight: float = Field(
        default=1.0,
        gt=0,
        le=1,
        description="weight of positives with the rarest targets; those with the most frequent one have weight 1",
    )

    @model_validator(mode="after")
    def _check(self) -> LossConfig:
        if self.self_adversarial and self.kind != "logistic":
            raise ValueError(
                f"self_adversarial weights need kind = 'logistic'; {self.kind} already weighs negatives by their scores"
            )
        if self.balanced and self.kind != "logistic":
            raise ValueError(f"balanced needs kind = 'logistic'; the scores of {self.kind} are not log odds")
        if self.typed_share and self.kind == "softmax":
            raise ValueError("typed_share needs sampled negatives; softmax takes every entity")
        if self.rare_weight < 1 and self.kind not in ("softmax", "sampled_softmax"):
            raise ValueError("rare_weight needs kind = 'softmax' or 'sampled_softmax'")
        return self

    @property
    def shift(self) -> float:
        """Offset subtracted from logistic scores: log(negatives per positive) if `balanced`, else 0."""
        return math.log(self.negatives + self.corrupted_paths) if self.balanced else 0.0

    @property
    def corrupts_once(self) -> bool:
        """Whether each positive keeps its corrupted paths over all epochs."""
        return self.corrupted_paths > 0 and self.corrupt == "once"


@final
class PenaltyConfig(Section):
    """Regularisation, per positive; see `training/objective.py`."""

    l2: Weight = Field(
        default=0.0, description="weight of the squared norm of a positive's parameters (λ in the paper)"
    )
    n3: Weight = Field(default=0.0, description="weight of the nuclear 3-norm of a positive's parameters")
    dura: Weight | None = Field(default=None, description="weight of ‖e_s‖² + ‖query vector‖² + ‖e_o‖²")
    dura_back: Weight = Field(
        default=0.0, description="weight of ‖target moved back along the path‖² (all models but transe and simple)"
    )
    l1_product: Weight = Field(
        default=0.0,
        description="weight of the products of real and imaginary parts, without sign, summed over a positive's "
        "relations: one of the two goes to zero (blockhole, complex)",
    )
    l1_blocks: Weight = Field(
        default=0.0,
        description="weight of the summed norms of the blocks of a positive's relations: blocks go to zero "
        "(blockhole, complex, distmult, rescal)",
    )
    rules: Weight = Field(
        default=0.0,
        description="weight of the squared distance between a head's matrix and the product of its body's, over the "
        "best rules that the train facts follow (all models but transe and simple)",
    )
    dura_per_entity: Weight = Field(
        default=0.0, description="sets dura, if absent, to this / mean positives per entity, at most 0.02"
    )


@final
class OptimizerConfig(Section):
    """The optimizer; see `training/optimizers.py`."""

    kind: OptimizerKind = Field(
        default="adagrad", description="adagrad, rowwise_adagrad (one accumulator per row) or adam"
    )
    learning_rate: Positive = Field(default=0.05, description="step size")
    initial_accumulator: Weight = Field(default=0.0, description="initial value of Adagrad's accumulators")
    epsilon: Positive = Field(default=1e-10, description="added to the denominator of an update")
    beta1: float = Field(default=0.9, ge=0, lt=1, description="Adam's decay rate of the mean gradient")
    beta2: float = Field(default=0.999, ge=0, lt=1, description="Adam's decay rate of the mean squared gradient")


@final
class EarlyStopConfig(Section):
    """Early stopping by a metric on validation queries."""

    metric: Metric | None = Field(
        default=None,
        description="mq (ranking paths, or edges with training.on = base), mrr or likelihood (completing facts, both "
        "sides) or accuracy (path classification); absent: no validation",
    )
    every: int = Field(default=1, ge=1, description="epochs between validations")
    patience: int = Field(default=5, ge=1, description="validations without a new best before training stops")
    queries: int = Field(default=4000, ge=1, description="number of validation queries, the same every time")


@final
class TrainingConfig(Section):
    """Training data, duration, and device."""

    on: Literal["base", "paths"] = Field(
        default="paths", description="base: the train edges; paths: the train edges and paths over them"
    )
    walks: Literal["stored", "added", "fresh"] = Field(
        default="stored",
        description="stored: the paths of the data set; added: these and walks sampled once; "
        "fresh: the edges and new walks in every epoch",
    )
    walks_per_edge: int = Field(default=20, ge=1, description="walks per train edge and epoch, where walks are sampled")
    longest: int = Field(default=5, ge=2, le=20, description="hops of the longest walk sampled; the shortest has 2")
    reverse: Literal["none", "edges", "paths"] = Field(
        default="edges", description="which positives are also trained backwards, as (o, r_k⁻¹/…/r_1⁻¹, s)"
    )
    unseen_entities: Literal["mean", "own"] = Field(
        default="mean",
        description="entities without a positive get the mean embedding of the others and are never negatives (mean), "
        "or an embedding of their own, trained as negatives only (own)",
    )
    epochs: int | None = Field(
        default=None, ge=1, description="passes over the positives; absent: as many as make up `steps`"
    )
    steps: int = Field(default=4000, ge=1, description="minimum number of optimizer steps if `epochs` is absent")
    members: int = Field(
        default=1,
        ge=1,
        description="models trained side by side, each on its share of the block size, that answer by the sum of their "
        "scores (blockhole, complex, distmult; softmax and sampled_softmax)",
    )
    average_epochs: int = Field(
        default=1,
        ge=1,
        description="evaluate and save a running mean of the weights over this many epochs",
    )
    batch_size: int = Field(default=1024, ge=1, description="maximum number of positives per optimizer step")
    share_queries: bool = Field(
        default=False,
        description="keep edges with the same source and relation together in a batch; on a CPU a softmax over all "
        "entities then scores them once",
    )
    seed: int = Field(default=0, ge=0, lt=2**63, description="decides the initial weights and every random draw")
    threads: int | None = Field(
        default=None,
        ge=1,
        le=MAX_THREADS,
        description="CPU threads; absent takes every core this process may use",
    )
    device: str = Field(default="auto", description="auto, cpu, cuda, cuda:N or mps")
    checkpoint_seconds: Weight = Field(
        default=60.0, description="seconds between checkpoints; 0 saves after every batch"
    )

    @property
    def on_stored_paths(self) -> bool:
        """Whether training uses the data set's own paths."""
        return self.on == "paths" and self.walks != "fresh"


@final
class TrainConfig(Section):
    """All settings of a run; config.json holds exactly this."""

    data: str | None = Field(default=None, description="name or path of the data set; absent for a graph in memory")
    columns: tuple[str, ...] | None = Field(
        default=None,
        description="names of the columns of source, relation and target, or their numbers from 1; absent: as named",
    )
    literals: Literal["keep", "drop"] | tuple[str, ...] = Field(
        default="keep", description="literals of RDF: keep, drop, or the predicates whose objects are kept"
    )
    names: bool = Field(
        default=False, description="train on the words of entity names too, as facts about the entities"
    )
    texts: str | None = Field(
        default=None,
        description="a table of texts whose words are trained on too: names of entities in the first column",
    )
    words: int = Field(
        default=0, ge=0, description="how many words there were to train on; `train` writes it, and answers have none"
    )
    choice: str | None = Field(
        default=None, description="what a short look at the graph chose before training; absent: nothing was left to it"
    )
    model: ModelSettings = Field(default_factory=ModelSettings, description="the model and its size")
    loss: LossConfig = Field(default_factory=LossConfig, description="the loss and its negatives")
    penalty: PenaltyConfig = Field(default_factory=PenaltyConfig, description="regularisation, per positive")
    optimizer: OptimizerConfig = Field(
        default_factory=OptimizerConfig, description="the optimizer and its learning rate"
    )
    training: TrainingConfig = Field(default_factory=TrainingConfig, description="training data, duration and device")
    early_stop: EarlyStopConfig = Field(
        default_factory=EarlyStopConfig, description="early stopping on validation queries"
    )

    @property
    def trains_on_words(self) -> bool:
        """Whether words of names or texts are trained on."""
        return self.names or self.texts is not None

    @model_validator(mode="after")
    def _check(self) -> TrainConfig:
        for key, weight in (
            ("loss.relation_weight", self.loss.relation_weight),
            ("penalty.dura_back", self.penalty.dura_back),
            ("penalty.rules", self.penalty.rules),
        ):
            if weight and not self.model.nature.has_matrices:
                raise ValueError(f"{key} needs one of the models {models_with_matrices()}, not {self.model.name}")
        self._check_members()
        geometry = self.model.block_geometry
        if self.penalty.l1_product and (geometry is None or geometry.parts == 1):
            raise ValueError(
                f"penalty.l1_product needs imaginary parts, those of blockhole or complex, not {self.model.name}"
            )
        if self.penalty.l1_blocks and geometry is None:
            names = ", ".join(sorted(BLOCK_MODELS))
            raise ValueError(f"penalty.l1_blocks needs one of the models {names}, not {self.model.name}")
        if self.loss.query_dropout and self.model.nature.distance:
            raise ValueError(
                f"loss.query_dropout needs scores that are inner products; {self.model.name}'s are distances"
            )
        return self

    def _check_members(self) -> None:
        members, geometry = self.training.members, self.model.block_geometry
        if members == 1:
            return
        if geometry is None or self.loss.kind == "logistic" or self.loss.corrupted_paths:
            raise ValueError(
                "training.members needs one of the models blockhole, complex and distmult, loss.kind = 'softmax' or "
                "'sampled_softmax', and no corrupted paths"
            )
        if geometry.freqs % members:
            raise ValueError(
                f"training.members = {members} must divide the block size (the dimension of complex and distmult), "
                f"{geometry.freqs}"
            )


# Where settings come from: defaults < preset < file < caller; what is wrong with one is said by its dotted key.


Settings = dict[str, Any]

MOST_BYTES = 1 << 16
"""Bytes of a config file; all settings there are take a tenth of that, and YAML that is no settings is read slowly."""
MOST_ALIASES = 16
"""Aliases in YAML: each can double what stands for it, so that a page of them would be read for years."""

PRESETS = ("paper", "small", "fast", "best", "best-wn11", "best-fb13", "queries", "queries-walks")


def gather(
    *, preset: str | None = None, file: Path | str | None = None, overrides: Mapping[str, Any] | None = None
) -> Settings:
    """The settings that were asked for, unchecked: `preset` < `file` < `overrides` (dotted key → value)."""
    settings: Settings = {}
    if preset is not None:
        settings = overlay(settings, read_preset(preset))
    if file is not None:
        settings = overlay(settings, read_config_file(Path(file)))
    for key, value in (overrides or {}).items():
        settings = overlay(settings, nested(key, value))
    return settings


def validate(settings: Mapping[str, Any]) -> TrainConfig:
    """Check settings; a bad one raises a ConfigError that names its dotted key, its value and the remedy."""
    if not isinstance(settings, Mapping):
        raise ConfigError("settings are sections with keys and values, such as training and its epochs.")
    try:
        return TrainConfig.model_validate(settings)
    except ValidationError as failure:
        raise ConfigError(explain_invalid(failure)) from None


def read_preset(name: str) -> Settings:
    """The settings of a preset that ships with the package."""
    if name not in PRESETS:
        raise ConfigError(f"unknown preset {quoted(name)}; the presets are {', '.join(PRESETS)}.")
    return tomllib.loads((files("blockhole.runs") / "presets" / f"{name}.toml").read_text(encoding="utf-8"))


def read_config_file(path: Path) -> Settings:
    """The settings in a .toml, .yaml, .yml or .json file."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise ConfigError(
                f"the config file {path} is larger than {MOST_BYTES // 1024} KB; name a file of settings."
            )
        text = path.read_text(encoding="utf-8-sig")
    except OSError as failure:
        raise ConfigError(
            f"cannot read the config file {path} ({failure.strerror}); name a file of settings."
        ) from None
    except UnicodeDecodeError:
        raise ConfigError(f"the config file {path} is not UTF-8 text; save it as UTF-8.") from None
    try:
        settings = _parse(text, path)
    except RecursionError:
        raise ConfigError(f"the config file {path} is nested too deeply; write sections of settings.") from None
    except ValueError as failure:
        raise ConfigError(f"the config file {path} is not valid {path.suffix[1:].upper()}: {failure}") from None
    if not isinstance(settings, dict):
        raise ConfigError(f"the config file {path} must hold sections of settings, such as [training].")
    return settings


def _parse(text: str, path: Path) -> object:
    match path.suffix.lower():
        case ".toml":
            return tomllib.loads(text)
        case ".json":
            settings = parse_json(text)
            if isinstance(settings, dict):
                settings.pop(SEAL, None)  # of a run's config.json, which may have been changed since
            return settings
        case ".yaml" | ".yml":
            return _parse_yaml(text)
    raise ConfigError(f"the config file {path} must end in .toml, .yaml or .json.")


def _parse_yaml(text: str) -> object:
    """YAML with the booleans of its version 1.2: in 1.1 the key `on` of `training` would be read as true."""
    import re

    import yaml

    class Loader(yaml.SafeLoader):
        aliases = 0

        def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
            self.aliases += self.check_event(yaml.AliasEvent)
            if self.aliases > MOST_ALIASES:
                raise yaml.YAMLError(f"more than {MOST_ALIASES} aliases; write out what they stand for")
            return super().compose_node(parent, index)

    boolean = "tag:yaml.org,2002:bool"
    Loader.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag != boolean]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    Loader.add_implicit_resolver(boolean, re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), "tTfF")
    try:
        return yaml.load(text, Loader)
    except yaml.YAMLError as failure:
        raise ValueError(str(failure).replace("\n", " ")) from None
    except AttributeError:  # PyYAML takes whatever has the tag of a time for one
        raise ValueError("a value with the tag !!timestamp is not a time") from None


def overlay(base: Mapping[str, Any], top: Mapping[str, Any]) -> Settings:
    """`base` with the keys of `top` over it, section by section."""
    merged = dict(base)
    for key, value in top.items():
        below = merged.get(key)
        merged[key] = overlay(below, value) if isinstance(below, Mapping) and isinstance(value, Mapping) else value
    return merged


def flatten(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested settings as dotted key → value."""
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        if isinstance(value, Mapping):
            flat.update(flatten(value, f"{prefix}{key}."))
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def parse_assignment(text: str) -> tuple[str, Any]:
    """`KEY=VALUE` of the command line; VALUE is read as TOML, and as plain text where that fails; `KEY=` is absent."""
    key, separator, value = (part.strip() for part in text.partition("="))
    if not separator or not key:
        raise ConfigError(
            f"cannot read the setting {quoted(text)}; write it as KEY=VALUE, such as optimizer.kind=adam."
        )
    if not value:
        return key, None
    try:
        return key, tomllib.loads(f"value = {value}")["value"]
    except (ValueError, RecursionError):  # of TOML itself, and of a number with thousands of digits
        return key, value


def nested(key: str, value: object) -> Settings:
    """`{"a": {"b": value}}` for the dotted key a.b."""
    for part in reversed(key.split(".")):
        value = {part: value}
    assert isinstance(value, dict)
    return value


def known_keys(section: type[BaseModel] = TrainConfig, prefix: str = "") -> Iterator[str]:
    """Every dotted key there is."""
    for name, field in section.model_fields.items():
        annotation = field.annotation
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            yield from known_keys(annotation, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def explain_invalid(failure: ValidationError, schema: type[BaseModel] = TrainConfig) -> str:
    """The first problem as one sentence: dotted key, value, what it should be, what the setting of `schema` means."""
    first = failure.errors()[0]
    key = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        return f"there is no setting {key}; {_nearest_key(key)}"
    if first["type"] == "value_error":
        # What several sections do not agree on names its keys itself.
        return f"{key}: {first['ctx']['error']}." if key else f"{first['ctx']['error']}."
    if not key:  # a name that is not text in UTF-8
        return f"there is no setting {_shown(first['input'])}; the sections are {', '.join(schema.model_fields)}."
    meaning = _description(first["loc"], schema)
    value = "a section" if isinstance(first["input"], Mapping) else _shown(first["input"])
    return f"{key} = {value} cannot be used: it must be {ought_to_be(first)}" + (f" ({meaning})." if meaning else ".")


def _shown(value: object) -> str:
    try:
        return _SHOWN.repr(value)
    except ValueError:
        return MANY_DIGITS


_SHOWN = Repr()
"""Prints a value that a message quotes: a file may hold one that is megabytes long, or nested without end."""
_SHOWN.maxstring = _SHOWN.maxother = _SHOWN.maxlong = 200
_SHOWN.maxlevel = 3


def _description(location: Sequence[int | str], section: type[BaseModel]) -> str | None:
    for part in location[:-1]:
        annotation = section.model_fields[str(part)].annotation
        if not (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
            return section.model_fields[str(part)].description
        section = annotation
    field = section.model_fields.get(str(location[-1]))
    return field.description if field else None


def _nearest_key(key: str) -> str:
    """Advice for an unknown key: the known one most like it, by its last part, since people forget the section."""
    last = key.rpartition(".")[2]
    by_last: dict[str, list[str]] = {}
    for known in known_keys():
        by_last.setdefault(known.rpartition(".")[2], []).append(known)
    alike = get_close_matches(last, by_last, n=1)
    if not alike:
        return f"the sections are {', '.join(TrainConfig.model_fields)}."
    nearest = get_close_matches(key, by_last[alike[0]], n=1, cutoff=0.0)[0]
    return f"did you mean {nearest}?"
