"""Every error that a user can cause, as one tree.

::

    BlockholeError               an error the user can act on; the command line prints it and exits with 1
    ├── DataError                a file or data set cannot be used
    │   ├── MalformedFile        a file's contents are wrong: says file, line and what to do
    │   ├── Unwritable           a file or folder cannot be written: says why and what to do
    │   ├── UnknownDataSet       no such named data set, nor such a file
    │   └── FetchError           a download failed or its checksum differs
    ├── QueryError               a path query cannot be parsed or names something unknown
    │   ├── QuerySyntaxError     the text does not parse: points at the column
    │   └── UnknownName          a name is not in the vocabulary: suggests the nearest
    ├── ConfigError              a setting is missing, unknown, or out of range
    ├── FailedElsewhere          another process of the run failed and reports why; this one exits silently
    ├── RunError                 a run folder cannot be used
    │   ├── NotARun              the folder holds something else
    │   ├── DamagedRun           a file of the run is cut short or does not fit the others
    │   └── TrainingDiverged     the loss became NaN or infinite
    ├── UndefinedPath            the model has no score for paths of this length
    ├── OutOfTime                the query took longer than the time limit
    ├── EvaluationError          the queries or scores cannot be evaluated
    ├── ExportError              vectors cannot be written to their destination
    └── MissingExtra             an optional dependency is missing: names the extra to install

    BlockholeWarning             work continues, but the user should know; the command line prints one line
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from unicodedata import combining, east_asian_width


class BlockholeError(Exception):
    """Base of all errors a user can act on; its text is one sentence or two that say what to do."""


class DataError(BlockholeError):
    """A file or data set cannot be used."""


class MalformedFile(DataError):
    """The contents of a file are wrong."""

    def __init__(self, path: Path | str, problem: str, remedy: str, line: int | None = None) -> None:
        self.path = Path(path)
        self.line = line
        where = f"{path}, line {line}" if line is not None else f"{path}"
        super().__init__(f"{where}: {problem}; {remedy}.")


class Unwritable(DataError):
    """A file or folder cannot be written: the disk is full, the place is read-only, a name is taken."""

    def __init__(self, path: Path | str, reason: str, remedy: str) -> None:
        self.path = Path(path)
        self.reason = reason
        self.remedy = remedy
        elsewhere = "" if remedy.startswith("choose") else ", or choose another place"
        super().__init__(f"{path}: cannot be written ({reason}); {remedy}{elsewhere}.")


class UnknownDataSet(DataError):
    """There is no data set, file or folder of that name."""


class FetchError(DataError):
    """A download failed, or what arrived is not what was published."""


class QueryError(BlockholeError):
    """A path query cannot be understood."""


def _point_at(text: str, column: int) -> str:
    """The text on one line and a caret under its column, whatever the characters; long texts are cut around it."""
    first, last = max(0, column - 60), column + 40
    head = "…" * (first > 0) + text[first:column]
    shown = ["".join(c if c.isprintable() else "\ufffd" for c in part) for part in (head, text[column:last])]
    width = sum(0 if combining(c) else 1 + (east_asian_width(c) in "WF") for c in shown[0])
    return f"  {shown[0]}{shown[1]}{'…' * (last < len(text))}\n  {' ' * width}^"


class QuerySyntaxError(QueryError):
    """The text of a query does not parse; `column` counts from 0."""

    def __init__(self, text: str, column: int, problem: str) -> None:
        self.text = text
        self.column = column
        self.problem = problem
        super().__init__(f"{problem}\n{_point_at(text, column)}")


class UnknownName(QueryError):
    """A name is not in a vocabulary; `nearest` holds known names that look alike.

    A name that stands in a query comes with the query's `text`, its `column`, which counts from 0, and `nearest` as a
    query would hold them; `problem` says more than that it is unknown, such as that it is a relation.
    """

    def __init__(
        self,
        kind: str,
        name: str,
        nearest: Sequence[str] = (),
        text: str | None = None,
        column: int | None = None,
        written: Sequence[str] = (),
        problem: str | None = None,
    ) -> None:
        self.kind = kind
        self.name = name
        self.nearest = tuple(nearest)
        self.text = text
        self.column = column
        hint = f"; did you mean {' or '.join(written or map(repr, nearest))}?" if nearest else "."
        pointer = f"\n{_point_at(text, column)}" if text is not None and column is not None else ""
        super().__init__(f"{problem}.{pointer}" if problem else f"unknown {kind} {name!r}{hint}{pointer}")


class ConfigError(BlockholeError):
    """A setting is missing, unknown, or out of range."""


class RunError(BlockholeError):
    """A run folder cannot be used."""


class FailedElsewhere(BlockholeError):
    """Another process that trains the same run failed; that one says why."""


class NotARun(RunError):
    """The folder is not a run, or holds something that must not be overwritten."""


class DamagedRun(RunError):
    """A file of the run is cut short, unreadable, or does not fit the others."""


class TrainingDiverged(RunError):
    """The loss became NaN or infinite; the last good checkpoint is kept."""


class UndefinedPath(BlockholeError):
    """The model defines no score for paths of this length."""


class OutOfTime(BlockholeError):
    """An answer was not found within the time allowed."""


class EvaluationError(BlockholeError):
    """The queries or the scores cannot be evaluated."""


class ExportError(BlockholeError):
    """Vectors cannot be written to where they should go, such as a database that is down."""


class MissingExtra(BlockholeError):
    """An optional dependency is not installed."""

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(f"{feature} needs an optional dependency; install it with: pip install 'blockhole[{extra}]'")


class BlockholeWarning(UserWarning):
    """Something the user should know that does not stop the work."""


def nearest_or_all(name: str, known: Iterable[str], all_are: str, count: int = 1) -> str:
    """Advice about an unknown name: up to `count` known ones that are like it, or `all_are` and all of them."""
    from difflib import get_close_matches  # seldom needed, and the command line imports this module first

    known = tuple(known)
    near = get_close_matches(name.lower(), known, n=count, cutoff=0.5)
    return f"did you mean {' or '.join(near)}?" if near else f"{all_are} {', '.join(known)}."
