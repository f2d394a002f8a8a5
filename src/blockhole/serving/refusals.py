"""Why a request gets no answer: status, kind and sentence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import final

from blockhole.errors import (
    BlockholeError,
    ConfigError,
    OutOfTime,
    QueryError,
    QuerySyntaxError,
    RunError,
    UndefinedPath,
    UnknownName,
)
from blockhole.serving.schemas import Place, Problem
from blockhole.serving.settings import MAX_BODY

RETRY = {"Retry-After": "1"}

_STATUS: tuple[tuple[type[BlockholeError], int, str], ...] = (
    # The first that fits counts, so a class stands before those it derives from.
    (QuerySyntaxError, 400, "syntax"),
    (UnknownName, 404, "unknown_name"),
    (QueryError, 422, "query"),
    (UndefinedPath, 422, "query"),
    (ConfigError, 422, "invalid"),
    (RunError, 422, "run"),
    (OutOfTime, 503, "timeout"),
    (BlockholeError, 422, "invalid"),
)


@final
class Refusal(Exception):
    """A response of another status than 200."""

    def __init__(self, status: int, problem: Problem, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(problem.message)
        self.status = status
        self.problem = problem
        self.headers = dict(headers or {})

    @classmethod
    def of(cls, failure: BlockholeError, fields: Mapping[str, str | None]) -> Refusal:
        """What the command line would print of a failure, with the place in the one of `fields` that caused it."""
        status, kind = next((status, kind) for each, status, kind in _STATUS if isinstance(failure, each))
        place: Place | None = None
        nearest: tuple[str, ...] = ()
        if isinstance(failure, QuerySyntaxError):
            place = _place(fields, failure.text, failure.column)
        elif isinstance(failure, UnknownName):
            nearest = failure.nearest
            text, column = (failure.name, 0) if failure.text is None else (failure.text, failure.column)
            place = _place(fields, text, column)
        message = str(failure).partition("\n")[0]  # the lines behind it draw the place for people
        problem = Problem(kind=kind, message=message, place=place, nearest=nearest)
        return cls(status, problem, RETRY if status == 503 else None)


def _place(fields: Mapping[str, str | None], text: str, column: int | None) -> Place | None:
    for field, value in fields.items():
        if value == text:
            return Place(field=field, text=text, column=column)
    return None


def busy() -> Refusal:
    """The queue is full."""
    message = "the server has as many requests as it can hold; ask again in a second."
    return Refusal(503, Problem(kind="busy", message=message), RETRY)


def out_of_time(seconds: float) -> Refusal:
    """The time that a request may take is over."""
    message = f"no answer was found within {seconds:g} s; ask for shorter paths, or again later."
    return Refusal(503, Problem(kind="timeout", message=message), RETRY)


def too_large() -> Refusal:
    """A body beyond the limit."""
    return Refusal(413, Problem(kind="too_large", message=f"a request's body may have {MAX_BODY:,} bytes at most."))


@contextmanager
def refusing(fields: Mapping[str, str | None]) -> Iterator[None]:
    """Turn failures that the user caused into refusals that point at the one of `fields` they are about."""
    try:
        yield
    except BlockholeError as failure:
        raise Refusal.of(failure, fields) from None
