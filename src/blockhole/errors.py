"""Every error that a user can cause, as one tree; the words that messages share, and arguments that are refused.

::

    BlockholeError               an error the user can act on; the command line prints it and exits with 1
    ├── DataError                a file or data set cannot be used
    │   ├── MalformedFile        a file's contents are wrong: says file, line and what to do
    │   ├── Unwritable           a file or folder cannot be written: says why and what to do
    │   ├── UnknownDataSet       no such named data set, nor such a file
    │   └── FetchError           a download failed or its checksum differs
    ├── QueryError               a path query cannot be parsed or names something unknown
    │   ├── QuerySyntaxError     the text does not parse: points at the column
    │   ├── SparqlError          a SPARQL query cannot be read, or asks for what is not supported: says line and column
    │   └── UnknownName          a name is not in the vocabulary: suggests the nearest
    ├── ConfigError              a setting is missing, unknown, or out of range
    ├── FailedElsewhere          another process of the run failed and reports why; this one exits silently
    ├── RunError                 a run folder cannot be used
    │   ├── NotARun              the folder holds something else
    │   ├── DamagedRun           a file of the run is cut short or does not fit the others
    │   └── TrainingDiverged     the loss became NaN or infinite
    ├── UndefinedPath            the model has no score for paths of this length
    ├── OutOfTime                the query took longer than the time limit
    ├── Cancelled                whoever asked ended the search
    ├── EvaluationError          the queries or scores cannot be evaluated
    ├── ExportError              vectors cannot be written to their destination
    └── MissingExtra             an optional dependency is missing: names the extra to install

    BlockholeWarning             work continues, but the user should know; the command line prints one line
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from errno import ENAMETOOLONG
from functools import cache, wraps
from numbers import Integral, Real
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, ParamSpec, TypeVar, Union, final, get_args, get_origin, get_type_hints
from unicodedata import combining, east_asian_width


class BlockholeError(Exception):
    """Base of all errors a user can act on; its text is one sentence or two that say what to do."""

    def __str__(self) -> str:
        return shortened(super().__str__())


class DataError(BlockholeError):
    """A file or data set cannot be used."""


class MalformedFile(DataError):
    """The contents of a file are wrong."""

    def __init__(self, path: Path | str, problem: str, remedy: str, line: int | None = None) -> None:
        self.path = Path(path)
        self.line = line
        where = f"{path}, line {line}" if line is not None else f"{path}"
        super().__init__(f"{where}: {problem}; {remedy}{'' if remedy.endswith('?') else '.'}")


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


class SparqlError(QueryError):
    """A SPARQL query cannot be read, names something unknown, or asks for what is not supported.

    `line` and `column` count from 1, `place`, in the whole text, from 0; `nearest` are terms like an unknown one.
    """

    def __init__(self, text: str, place: int, problem: str, nearest: Sequence[str] = ()) -> None:
        before, start = text[:place], text.rfind("\n", 0, place) + 1
        self.text = text
        self.place = place
        self.line = before.count("\n") + 1
        self.column = place - start + 1
        self.nearest = tuple(nearest)
        own = text[start:].partition("\n")[0]
        end = "" if problem.endswith("?") else "."
        sentence = f"line {self.line}, column {self.column}: {problem}{end}"
        super().__init__(f"{sentence}\n{_point_at(own, place - start)}")


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
        hint = f"; did you mean {' or '.join(written or map(quoted, nearest))}?" if nearest else "."
        pointer = f"\n{_point_at(text, column)}" if text is not None and column is not None else ""
        super().__init__(f"{problem}.{pointer}" if problem else f"unknown {kind} {quoted(name)}{hint}{pointer}")


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


class QueryTooCostly(QueryError):
    """A query's search needs more memory than one may take."""


class SparqlTooCostly(SparqlError, QueryTooCostly):
    """The same of a SPARQL query, which says where its costly part stands."""


class OutOfTime(BlockholeError):
    """A search did not end within the seconds allowed: what it had found by then may not be the best there is."""

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"the search did not end within {seconds:g} s; ask for shorter paths or fewer answers, or try again later."
        )


class Cancelled(BlockholeError):
    """A search was ended by whoever asked for it."""

    def __init__(self) -> None:
        super().__init__("the search was cancelled; ask again for its answers.")


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


def note(text: str) -> None:
    """Say what was understood, such as which column is which: standard error on the command line, else the log."""
    from logging import getLogger  # the command line imports this module first

    getLogger(NOTES).info(text)


NOTES = "blockhole.notes"


# The words of messages


_LONGEST_QUOTE, _LONGEST_WORD = 80, 200


def quoted(value: object) -> str:
    """What a user gave, in quotes, as a message repeats it: the beginning and the end of what is long."""
    try:
        return _cut(repr(value), _LONGEST_QUOTE)
    except ValueError:
        return MANY_DIGITS


MANY_DIGITS = "a number of thousands of digits"
"""What Python writes of no number that has more than 4,300."""


def grouped(number: int) -> str:
    """A whole number that a user gave, as a message repeats it: 1,000, and the ends of one of thousands of digits."""
    try:
        return _cut(f"{number:,}", _LONGEST_QUOTE)
    except ValueError:
        return MANY_DIGITS


def shortened(message: str) -> str:
    """A message in which no word is endless; names that hold blanks are `quoted` instead."""
    return re.sub(rf"\S{{{_LONGEST_WORD + 1},}}", lambda word: _cut(word[0], _LONGEST_WORD), message)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most * 2 // 3]}…{text[-(most // 3 - 1) :]}"


def counted(number: int, one: str, many: str | None = None) -> str:
    """A number of things: 1 fact, 2,000 facts."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def nearest_or_all(name: str, known: Iterable[str], all_are: str, count: int = 1) -> str:
    """Advice about an unknown name: up to `count` known ones that are like it, or `all_are` and all of them."""
    from difflib import get_close_matches  # seldom needed, and the command line imports this module first

    known = tuple(known)
    near = get_close_matches(name.lower(), known, n=count, cutoff=0.5)
    return f"did you mean {' or '.join(near)}?" if near else f"{all_are} {', '.join(known)}."


def listed(words: Sequence[str], last: str = "or") -> str:
    """One or more words as a sentence lists them: a, b or c."""
    *before, end = words
    return f"{', '.join(before)} {last} {end}" if before else end


def html_table(title: str, rows: Mapping[str, str]) -> str:
    """What an object is, as a notebook shows it: a title over rows of a name and a value."""
    from html import escape

    cells = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in rows.items())
    return f"<table><caption>{escape(title)}</caption>{cells}</table>"


_WHOLE, _NUMBER, _TEXT = "a whole number", "a number", "text"
_KINDS = {
    "int": _WHOLE,
    "float": _NUMBER,
    "finite_number": "a finite number",
    "bool": "true or false",
    "string": _TEXT,
    "greater_than": "more than {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than": "less than {lt}",
    "less_than_equal": "at most {le}",
    "literal_error": "{expected}",
    "string_too_long": "at most {max_length} characters long",
    "too_short": "a list of at least {min_length}",
    "too_long": "a list of at most {max_length}",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "a section of named values",
    "model_type": "a section of named values",
    "missing": "there",
}


def ought_to_be(fault: Mapping[str, Any]) -> str:
    """What pydantic wanted of a value, in our words, as they follow "it must be"; `fault` is one of its errors."""
    kind = fault["type"]
    words = _KINDS.get(kind) or _KINDS.get(kind.partition("_")[0])
    limits = {name: f"{each:g}" if isinstance(each, float) else each for name, each in fault.get("ctx", {}).items()}
    return words.format(**limits) if words else "of another kind"


def why(failure: Exception) -> str:
    """The reason that an exception of another library gives, in one line."""
    errors = getattr(failure, "errors", None)
    if callable(errors):  # pydantic's: the first of them
        fault = errors()[0]
        if fault["type"] == "json_invalid":
            return "it is not valid JSON"
        return f"{'.'.join(map(str, fault['loc'])) or 'it'} must be {ought_to_be(fault)}"
    if isinstance(failure, KeyError):
        return f"{failure.args[0]} is missing"
    return str(failure).partition("\n")[0] or type(failure).__name__


# Arguments that are not what a function asks for


@final
@dataclass(frozen=True, slots=True)
class AtLeast:
    """The smallest number that an argument may be, beside its type: Annotated[int, AtLeast(1)]."""

    least: int


Count = Annotated[int, AtLeast(1)]
Natural = Annotated[int, AtLeast(0)]
Seed = Natural

P = ParamSpec("P")
T = TypeVar("T")


def checked(function: Callable[P, T]) -> Callable[P, T]:
    """Refuse arguments that are not what the annotations of `function` say, in one sentence and before it begins.

    A text beside a type, Annotated[KnowledgeGraph, "advice"], ends that sentence. Warnings count one more level. Which
    names a disk can have only the disk knows, so a path that is too long is refused where it is first used.
    """
    names = function.__code__.co_varnames

    @wraps(function)
    def checking(*args: P.args, **kwargs: P.kwargs) -> T:
        hints = _hints(function)
        for name, value in (*zip(names, args, strict=False), *kwargs.items()):
            if name in hints:
                check_argument(name, value, hints[name])
        try:
            return function(*args, **kwargs)
        except OSError as failure:
            refusal = too_long_a_name(failure)
            if refusal is None:
                raise
            raise refusal from None

    return checking


def too_long_a_name(failure: OSError) -> DataError | None:
    """The sentence for a path that no file can have; None for other failures."""
    if failure.errno != ENAMETOOLONG:
        return None
    return DataError(f"{shortened(str(failure.filename))}: no file has so long a name; check it.")


@cache
def _hints(function: Callable[..., object]) -> dict[str, Any]:
    return get_type_hints(function, include_extras=True)


def check_argument(name: str, value: object, hint: Any) -> None:
    """Refuse a value that is not of a type."""
    if not _fits(value, hint):
        advice = "".join(f"; {each}" for each in _beside(hint) if isinstance(each, str))
        raise ConfigError(f"{name} must be {_in_words(hint)}, not {shown(value)}{advice}.")


def _beside(hint: Any) -> tuple[Any, ...]:
    return get_args(hint)[1:] if get_origin(hint) is Annotated else ()


def _fits(value: object, hint: Any) -> bool:
    origin, args = get_origin(hint), get_args(hint)
    if hint is Any or hint is object:
        return True
    if origin is Annotated:
        least = [each.least for each in _beside(hint) if isinstance(each, AtLeast)]
        return _fits(value, args[0]) and all(isinstance(value, Integral) and int(value) >= each for each in least)
    if origin in _UNIONS:
        return any(_fits(value, each) for each in args)
    if origin is Literal:
        return isinstance(value, str) and value in args
    if hint is int or hint is float:
        return isinstance(value, Integral if hint is int else Real) and not isinstance(value, bool)
    if getattr(hint, "_is_protocol", False):
        return all(hasattr(value, name) for name in vars(hint) if not name.startswith("_"))
    if origin is None:
        return isinstance(value, hint)
    if origin is type:
        return isinstance(value, type) and issubclass(value, args[0])
    if not isinstance(value, origin) or isinstance(value, str | bytes):
        return False
    if isinstance(value, Mapping):
        return all(_fits(key, args[0]) and _fits(each, args[1]) for key, each in value.items())
    if isinstance(value, Sequence):
        return all(_fits(each, args[0]) for each in value)
    return True


def _in_words(hint: Any) -> str:
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        least = [f" of at least {each.least}" for each in _beside(hint) if isinstance(each, AtLeast)]
        return _in_words(args[0]) + "".join(least)
    if origin is Literal:
        return listed([repr(each) for each in args])
    if origin in _UNIONS:
        return listed([_in_words(each) for each in sorted(args, key=_is_list)])
    if origin is None:
        return _NAMES.get(hint) or _with_article(hint.__name__)
    if origin is type:
        return f"a class of {args[0].__name__}"
    return _GENERIC.get(origin.__name__) or f"a list, each item {_in_words(args[0])}"


def _is_list(hint: Any) -> bool:
    """Whether it is a list of something, which is said last: what follows would seem to be said of its items."""
    return get_origin(hint) is not None and get_origin(hint) not in (Annotated, Literal)


_UNIONS = (Union, UnionType)
_NAMES: dict[Any, str] = {int: _WHOLE, float: _NUMBER, bool: "True or False", str: _TEXT, Path: "a path"}
_NAMES |= {type(None): "None"}
_GENERIC = {"Mapping": "a mapping", "Callable": "a function", "ndarray": "an array"}


def _with_article(name: str) -> str:
    return f"{'an' if name[0] in 'AEIOU' else 'a'} {name}"


def shown(value: object) -> str:
    """A value that is short as it is, any other by its type."""
    if value is None or isinstance(value, bool | int | float | str | bytes | Path):
        return quoted(value)
    kinds = dict.fromkeys(_with_article(type(each).__name__) for each in value) if isinstance(value, list) else {}
    return _with_article(type(value).__name__) + (f" that holds {listed([*kinds][:3], 'and')}" if kinds else "")
