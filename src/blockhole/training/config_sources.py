"""Where settings come from: defaults, then a preset, then a file, then the caller; and errors that name the key."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from importlib.resources import files
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from blockhole.errors import ConfigError
from blockhole.training.config import TrainConfig

Settings = dict[str, Any]

PRESETS = ("paper", "small", "fast", "best", "best-wn11", "best-fb13")


def gather(
    *, preset: str | None = None, file: Path | None = None, overrides: Mapping[str, Any] | None = None
) -> Settings:
    """The settings that were asked for, unchecked: `preset` < `file` < `overrides` (dotted key → value)."""
    settings: Settings = {}
    if preset is not None:
        settings = merge(settings, read_preset(preset))
    if file is not None:
        settings = merge(settings, read_config_file(file))
    for key, value in (overrides or {}).items():
        settings = merge(settings, nested(key, value))
    return settings


def validate(settings: Mapping[str, Any]) -> TrainConfig:
    """Check settings; a bad one raises a ConfigError that names its dotted key, its value and the remedy."""
    try:
        return TrainConfig.model_validate(settings)
    except ValidationError as failure:
        raise ConfigError(explain(failure)) from None


def read_preset(name: str) -> Settings:
    """The settings of a preset that ships with the package."""
    if name not in PRESETS:
        raise ConfigError(f"unknown preset {name!r}; the presets are {', '.join(PRESETS)}.")
    return tomllib.loads((files("blockhole.training") / "presets" / f"{name}.toml").read_text(encoding="utf-8"))


def read_config_file(path: Path) -> Settings:
    """The settings in a .toml, .yaml, .yml or .json file."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as failure:
        raise ConfigError(f"cannot read the config file {path}: {failure.strerror}.") from None
    except UnicodeDecodeError:
        raise ConfigError(f"the config file {path} is not UTF-8 text; save it as UTF-8.") from None
    try:
        settings = _parse(text, path)
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
            return json.loads(text)
        case ".yaml" | ".yml":
            return _parse_yaml(text)
    raise ConfigError(f"the config file {path} must end in .toml, .yaml or .json.")


def _parse_yaml(text: str) -> object:
    """YAML with the booleans of its version 1.2: in 1.1 the key `on` of `training` would be read as true."""
    import re

    import yaml

    class Loader(yaml.SafeLoader):
        pass

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


def merge(base: Mapping[str, Any], top: Mapping[str, Any]) -> Settings:
    """`base` with the keys of `top` over it, section by section."""
    merged = dict(base)
    for key, value in top.items():
        below = merged.get(key)
        merged[key] = merge(below, value) if isinstance(below, Mapping) and isinstance(value, Mapping) else value
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
        raise ConfigError(f"cannot read the setting {text!r}; write it as KEY=VALUE, such as optimizer.kind=adam.")
    if not value:
        return key, None
    try:
        return key, tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
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


def explain(failure: ValidationError, schema: type[BaseModel] = TrainConfig) -> str:
    """The first problem as one sentence: dotted key, value, what it should be, what the setting of `schema` means."""
    first = failure.errors()[0]
    key = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        return f"there is no setting {key}; {_nearest_key(key)}"
    if first["type"] == "value_error":
        # What several sections do not agree on names its keys itself.
        return f"{key}: {first['ctx']['error']}." if key else f"{first['ctx']['error']}."
    problem = first["msg"].replace("Input should be", "it should be")
    meaning = _description(first["loc"], schema)
    value = "a section" if isinstance(first["input"], Mapping) else repr(first["input"])
    return f"{key} = {value} cannot be used: {problem}" + (f" ({meaning})." if meaning else ".")


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
