"""docs/reference/settings.md: every key of a training configuration, from the classes that check it."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from importlib.resources import files
from itertools import takewhile
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from blockhole.runs.config import TrainConfig, flatten
from scripts.reference.markdown import bound, cell, code, table, type_name

HEAD = """# Settings

Written by `python -m scripts.reference` from `blockhole.runs.config`; a test fails when it is stale.

Later sources override earlier ones: defaults, preset, `--config FILE` (.toml, .yaml, .json), then options and
`--set KEY=VALUE`; where you name neither preset nor file, [what you do not set is
chosen](../how-to/train.md#what-you-do-not-set). In Python: `blockhole.train(…, settings={"model.blocks": 4})`. Where
the default is –, `--set KEY=` (None in Python) unsets a value from a preset or file. A run's `config.json` holds all
settings. An unknown key or a value out of range is an error that names the key.
"""


def settings_page() -> str:
    sections = [HEAD, _section(TrainConfig, "")]
    for name, field in TrainConfig.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            sections.append(f"## {name}\n\n{_sentence(field)}\n")
            sections.append(_section(field.annotation, f"{name}."))
    sections.append(_presets())
    return "\n".join(sections)


def _section(section: type[BaseModel], prefix: str) -> str:
    rows = [
        (code(f"{prefix}{name}"), cell(_type(field)), _default(field), cell(_described(prefix + name, field)))
        for name, field in section.model_fields.items()
        if not (isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel))
    ]
    return table(("key", "type", "default", "meaning"), rows)


def _described(key: str, field: FieldInfo) -> str:
    if not field.description:
        raise SystemExit(f"the setting {key} has no description")
    return field.description


def _sentence(field: FieldInfo) -> str:
    text = field.description or ""
    return text[:1].upper() + text[1:] + "."


def _type(field: FieldInfo) -> str:
    bounds = filter(None, map(bound, field.metadata))
    return ", ".join([type_name(field.annotation), *bounds])


def _default(field: FieldInfo) -> str:
    value: Any = field.default
    if isinstance(value, tuple):
        return ", ".join(map(code, value))
    if isinstance(value, bool):
        return code(str(value).lower())
    return "–" if value is None else code(str(value))


def _presets() -> str:
    rows = [(code(name), cell(line), cell(", ".join(keys))) for name, line, keys in _preset_files()]
    head = "## Presets\n\nCommented TOML files in `src/blockhole/runs/presets/`.\n\n"
    return head + table(("preset", "what it is", "what it sets"), rows)


def _preset_files() -> Iterator[tuple[str, str, list[str]]]:
    folder = files("blockhole.runs") / "presets"
    for file in sorted(folder.iterdir(), key=lambda each: each.name):
        text = file.read_text(encoding="utf-8")
        comment = " ".join(line.removeprefix("#").strip() for line in takewhile(_is_comment, text.splitlines()))
        first = comment.partition(". ")[0].rstrip(".") + "."
        yield file.name.removesuffix(".toml"), first, [f"{k} = {v}" for k, v in flatten(tomllib.loads(text)).items()]


def _is_comment(line: str) -> bool:
    return line.startswith("#")
