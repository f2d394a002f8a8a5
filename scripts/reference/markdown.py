"""Markdown that the generated pages share: tables, and types as people read them."""

from __future__ import annotations

import types
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Annotated, Any, Literal, Union, get_args, get_origin


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def cell(text: str) -> str:
    """Text that may stand in a cell: on one line, its bars and brackets escaped."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "\\<")


def code(text: str) -> str:
    return f"`{text}`" if text else ""


SIGNS = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}


def bound(limit: object) -> str:
    """A limit of pydantic's, such as `Ge(1)`, as people read it; nothing for what is no limit on a number."""
    for name, sign in SIGNS.items():
        if hasattr(limit, name):
            value = getattr(limit, name)
            return f"{sign} {value if value < 2**53 else f'2^{value.bit_length() - 1}'}"
    return ""


def type_name(hint: Any) -> str:
    """A type as people read it: `None` left out, literals as their values."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        bounds = [each for field in inner[1:] for each in getattr(field, "metadata", ())]
        return ", ".join([type_name(inner[0]), *filter(None, map(bound, bounds))])
    if origin in (Union, types.UnionType):
        return " or ".join(type_name(each) for each in inner if each is not types.NoneType)
    if origin is Literal:
        return ", ".join(code(str(value)) for value in inner)
    if origin in (list, tuple):
        return f"list of {type_name(inner[0])}"
    if issubclass(hint, Enum):
        return ", ".join(code(str(each.value)) for each in hint)
    names = {str: "text", int: "integer", float: "number", bool: "true or false"}
    return names[hint] if hint in names else hint.__name__.lower()
