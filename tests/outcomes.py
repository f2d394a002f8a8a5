"""What a command line printed, and how it ended."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest


class Outcome(NamedTuple):
    """The end of a command: its exit status, and what it wrote to each stream."""

    status: int
    out: str
    err: str

    def json(self) -> dict[str, Any]:
        """The one object that a command prints that ends well."""
        assert self.status == 0, self.err
        assert self.out.count("\n") == 1
        result = json.loads(self.out)
        assert isinstance(result, dict)
        return result

    def failure(self) -> str:
        """What a failing command prints: one line, and for a query that cannot be read the query with a mark below."""
        assert (self.status, self.out) == (1, "")
        assert self.err.startswith("error: ")
        assert self.err.count("\n") == (3 if self.err.rstrip("\n").endswith("^") else 1)
        return self.err.removeprefix("error: ").rstrip("\n")


Command = Callable[..., Outcome]


def command(program: Callable[[list[str]], object], capture: pytest.CaptureFixture[str], *before: str) -> Command:
    """A function that runs a program in this process with the arguments it is given, after those that come `before`."""

    def run(*arguments: object) -> Outcome:
        capture.readouterr()
        with pytest.raises(SystemExit) as stop:
            program([*before, *map(str, arguments)])
        return Outcome(int(stop.value.code or 0), *capture.readouterr())

    return run
