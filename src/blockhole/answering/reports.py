"""Answers as they leave the program: what the command line prints with --json, and what the server sends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from blockhole.answering.answers import Answer
from blockhole.answering.connections import Connection


@final
@dataclass(frozen=True, slots=True)
class AnswersReport:
    """The answers to a query, best first, and how long they took to find."""

    query: str
    answers: tuple[Answer, ...]
    milliseconds: float


@final
@dataclass(frozen=True, slots=True)
class PathsReport:
    """The relation paths that connect two entities."""

    source: str
    target: str
    paths: tuple[Connection, ...]
