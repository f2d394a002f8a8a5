"""Results that only the server gives: runs, completions, relations that may follow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, final


@final
@dataclass(frozen=True, slots=True)
class RunReport:
    """A run that is served; `example` is a query that the facts answer, None where there are no facts."""

    name: str
    model: str
    data: str | None
    entities: int
    relations: int
    facts: int
    parameters: int
    epochs: int
    calibrated: bool
    loaded: str
    example: str | None


@final
@dataclass(frozen=True, slots=True)
class RunsReport:
    """The runs that are served; `default` answers where none is named."""

    default: str
    runs: tuple[RunReport, ...]


@final
@dataclass(frozen=True, slots=True)
class Completion:
    """A known name, as it is and as queries hold it."""

    name: str
    text: str
    match: Literal["prefix", "within", "similar"]


@final
@dataclass(frozen=True, slots=True)
class EntitiesReport:
    """Names that what was typed may become: those that begin so, then those that hold it, then similar ones."""

    prefix: str
    entities: tuple[Completion, ...]


@final
@dataclass(frozen=True, slots=True)
class RelationReport:
    """A relation that may come next; `known` if facts lead on over it, `entities` how many have a fact of it."""

    name: str
    inverse: bool
    text: str
    known: bool
    entities: int


@final
@dataclass(frozen=True, slots=True)
class RelationsReport:
    """Relations that make sense after the beginning of a query, None for the beginning itself."""

    after: str | None
    relations: tuple[RelationReport, ...]


@final
@dataclass(frozen=True, slots=True)
class Health:
    """That the server answers."""

    status: Literal["ready"]
    version: str
