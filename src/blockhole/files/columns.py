"""Which columns of a table hold source, relation and target: told by the reader of a file, or by what they are called.

A table that does not say is refused, for a wrong guess makes a wrong graph. What was guessed is noted in one line.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple, final

from blockhole.errors import ConfigError, MalformedFile, counted, listed, note, quoted

COLUMNS = ("source", "relation", "target")

_ENDS = ("", "id", "name", "uri", "iri", "key", "node", "entity")
_SUFFIXES = {"source": _ENDS, "relation": ("", "id", "name", "uri", "iri", "type", "label"), "target": _ENDS}
_CLEAR = {
    "source": ("source", "subject", "head", "src", "subj", "sub", "node1", "n1", "entity1", "ent1", "e1", "id1", "arg1",
               "lhs"),
    "relation": ("relation", "relationship", "predicate", "edge", "rel", "pred", "property", "link", "verb"),
    "target": ("target", "object", "tail", "dst", "dest", "destination", "obj", "node2", "n2", "entity2", "ent2", "e2",
               "id2", "arg2", "rhs"),
}  # fmt: skip
_VAGUE = {
    "source": ("s", "h", "from", "start", "u", "origin"),
    "relation": ("r", "p"),
    "target": ("o", "t", "to", "end", "v"),
}
"""Names that mean this only where no clear name does: `from` and `to` may be dates, `p` a probability."""
_VAGUER: dict[str, tuple[str, ...]] = {"relation": ("label", "type", "kind", "path")}
_ROLES = [
    {name + suffix: role for role, names in each.items() for name in names for suffix in _SUFFIXES[role]}
    for each in (_CLEAR, _VAGUE, _VAGUER)
]
_WEIGHTS = {"weight", "w", "confidence", "conf", "score", "probability", "prob", "strength", "certainty"}
_TIMES = {
    "time", "timestamp", "date", "datetime", "year", "since", "until", "starttime", "endtime", "startdate", "enddate",
    "startyear", "endyear", "validfrom", "validto", "validuntil", "createdat", "updatedat",
}  # fmt: skip
_NUMBERED = ("", "column", "col", "c", "f", "field", "v", "x", "unnamed")
"""How programs call columns that have no names, before their numbers."""
_SHOWN = 12
"""Columns that a sentence lists at most."""

ColumnNames = str | Sequence[str | int]
Literals = str | Sequence[str]


@final
@dataclass(frozen=True, slots=True)
class Reading:
    """How to read a graph that does not say it all itself.

    `columns` are names or numbers from 1 of source, relation and target, and of the label where there is a fourth.
    `literals` of RDF are kept, dropped, or kept where they are objects of these predicates. `first` is False for a file
    beside another one, whose first line has told whether such files have headers. Notes are about the file, or about
    what it is `called`. `said` holds what was noted already, and `prefixes` those that RDF files have declared.
    """

    columns: tuple[str, ...] | None = None
    literals: Literal["keep", "drop"] | tuple[str, ...] = "keep"
    first: bool = True
    called: str | None = None
    said: set[str] = field(default_factory=set, compare=False)
    prefixes: dict[str, str] = field(default_factory=dict, compare=False)

    @classmethod
    def of(cls, columns: ColumnNames | None = None, literals: Literals | None = None) -> Reading:
        """What `--columns` and `--literals` say, as text or as lists."""
        return cls(_told(columns), _predicates(literals))

    def note(self, path: Path | str, text: str) -> None:
        """Say something about a file, once for all the files that are read together."""
        if text and text not in self.said:
            self.said.add(text)
            note(f"{self.called or path}: {text}.")


def _told(columns: ColumnNames | None) -> tuple[str, ...] | None:
    if columns is None:
        return None
    parts = next(csv.reader([columns], skipinitialspace=True), []) if isinstance(columns, str) else columns
    told = tuple(str(part).strip() for part in parts)
    if len(told) not in (3, 4) or len(set(told)) < len(told) or not all(told):
        raise ConfigError(
            "columns must be three different names or numbers, of source, relation and target, such as from,type,to or "
            f"1,3,2, and a fourth where there is a label 1 or -1, not {', '.join(told) or 'none'}."
        )
    return told


def _predicates(literals: Literals | None) -> Literal["keep", "drop"] | tuple[str, ...]:
    if literals is None or literals == "keep":
        return "keep"
    if literals == "drop":
        return "drop"
    parts = literals.split(",") if isinstance(literals, str) else literals
    found = tuple(part.strip().removeprefix("<").removesuffix(">") for part in parts if part.strip())
    if not found:
        raise ConfigError("literals must be keep, drop, or the predicates whose literals are kept, such as rdfs:label.")
    return found


class Choice(NamedTuple):
    """The places of source, relation and target in a row, that of a label, and the `names` where a header told them.

    `doubt` says where a first line may be a header after all. `decision` is the place of what people decided on rows.
    """

    places: tuple[int, ...]
    label: int | None
    names: tuple[str, ...] | None
    doubt: str = ""
    decision: int | None = None

    def roles(self) -> dict[str, int]:
        """Role → place, as tables are made: source, relation, target and, where there are any, label and decision."""
        others = {"label": self.label, "decision": self.decision}
        roles = dict(zip(COLUMNS, self.places, strict=True))
        return roles | {role: place for role, place in others.items() if place is not None}

    def in_words(self, *, guessed: bool) -> str:
        """What was `guessed` and what was left out; nothing where a reader would expect just this."""
        if self.names is None:
            return self.doubt
        shown = _shown_names(self.names)
        if self.decision is not None:
            return "facts are the rows with accept under decision"
        left = [i for i in range(len(shown)) if i not in (*self.places, self.label)]
        chosen = [shown[place] for place in self.places]
        usual = tuple(name.casefold() for name in chosen) in _USUAL and self.places == (0, 1, 2)
        places = listed([f"{place + 1} ({shown[place]})" for place in self.places], "and")
        told = f"source, relation and target are columns {places}" if guessed and (left or not usual) else ""
        return "; ".join(filter(None, (told, _left_out([shown[i] for i in left]))))


_USUAL = (COLUMNS, ("source", "path", "target"), ("head", "relation", "tail"), ("subject", "predicate", "object"))


def _left_out(names: Sequence[str]) -> str:
    if not names:
        return ""
    kinds = [(names, _kind(name)) for name in names]
    text = f"left out: {', '.join(names[:_SHOWN])}{', …' if len(names) > _SHOWN else ''}"
    if any(kind == "weight" for _, kind in kinds):
        text += "; a fact holds or does not, so weights do not count"
    if any(kind == "time" for _, kind in kinds):
        text += "; facts have no time"
    return text


def _plain(name: str) -> str:
    """A column's name without case, marks, brackets behind it, and what parts its words.

    So `:START_ID(Person)`, `?s` and `sourceId` are known too.
    """
    name = re.sub(r"(?<=\w)\s*\([^()]*\)$", "", name.strip())
    return "".join(character for character in name.casefold() if character.isalnum())


def _kind(name: str) -> str | None:
    return "weight" if _plain(name) in _WEIGHTS else "time" if _plain(name) in _TIMES else None


def _shown_names(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(name.strip() or f"column {place}" for place, name in enumerate(names, 1))


def _found(names: Sequence[str]) -> dict[str, list[int]]:
    """The places that could hold each role, by the clearest names there are."""
    plain = [_plain(name) for name in names]
    found: dict[str, list[int]] = {}
    for roles in _ROLES:
        here: dict[str, list[int]] = {}
        for place, name in enumerate(plain):
            if name in roles:
                here.setdefault(roles[name], []).append(place)
        found = {role: found.get(role) or here.get(role, []) for role in COLUMNS}
    return found


def named_roles(names: Sequence[str]) -> int:
    """How many of source, relation and target a row names, as a header does."""
    return sum(map(bool, _found(names).values()))


def choose(where: Path | str, names: Sequence[str], told: tuple[str, ...] | None, line: int | None = None) -> Choice:
    """The columns of a table whose `names` are known; raises `MalformedFile` where they do not say which is which."""
    names = tuple(map(str, names))
    if told is not None:
        chosen = _told_places(where, names, told, line)
        return Choice(chosen[:3], chosen[3] if len(chosen) > 3 else None, names)
    if len(names) < len(COLUMNS):
        seen = f" ({', '.join(names)})" if names else ""
        problem = f"{counted(len(names), 'column')}{seen} instead of 3"
        raise MalformedFile(where, problem, "write columns source, relation and target", line)
    if [name.strip() for name in names[:3]] in _NUMBERS and len(names) == len(COLUMNS):
        return Choice((0, 1, 2), None, None)
    found = _found(names)
    for role, places in found.items():
        if len(places) > 1:
            shown = listed([repr(names[place].strip()) for place in places], "and")
            problem = f"{'both' if len(places) == 2 else 'each of'} {shown} could be the {role}"
            raise MalformedFile(where, problem, _say_which(names), line)
    if missing := [role for role, places in found.items() if not places]:
        shown = ", ".join(_shown_names(names)[:_SHOWN]) + ", …" * (len(names) > _SHOWN)
        problem = f"no column is named like a {listed(missing)}, only {shown}"
        raise MalformedFile(where, problem, _say_which(names), line)
    chosen = tuple(found[role][0] for role in COLUMNS)
    labels = [i for i, name in enumerate(names) if _plain(name) == "label" and i not in chosen]
    decisions = [i for i, name in enumerate(names) if _plain(name) == "decision" and i not in chosen]
    decision = decisions[0] if decisions else None
    return Choice(chosen, labels[0] if labels and decision is None else None, names, decision=decision)


_NUMBERS = [
    [f"{stem}{between}{first + place}" for place in range(3)]
    for stem in (*_NUMBERED, *map(str.upper, _NUMBERED), *map(str.title, _NUMBERED))
    for between in ("", "_", ": ")
    for first in (0, 1)
]


def _told_places(where: Path | str, names: Sequence[str], told: Sequence[str], line: int | None) -> tuple[int, ...]:
    known = {name.strip(): place for place, name in reversed(list(enumerate(names)))}
    numbers = not all(each in known for each in told if each.isdecimal())
    places = []
    for each in told:
        if each.isdecimal() and numbers:
            if not 1 <= int(each) <= len(names):
                problem = f"there is no column {each} among {len(names)}"
                raise MalformedFile(where, problem, "count columns from 1, or name them", line)
            places.append(int(each) - 1)
        elif each in known:
            places.append(known[each])
        else:
            like = [place for name, place in known.items() if name.casefold() == each.casefold()]
            if len(like) != 1:
                shown = ", ".join(_shown_names(names)[:_SHOWN]) + ", …" * (len(names) > _SHOWN)
                raise MalformedFile(where, f"no column is called {quoted(each)}; there are {shown}", "name these", line)
            places.append(like[0])
    return tuple(places)


def _say_which(names: Sequence[str]) -> str:
    """Advice whose example has columns of this table; weights and times are not what is meant."""
    example = [name.strip() for name in names if name.strip() and _kind(name) is None][:3]
    if len(example) < len(COLUMNS):
        return "add a column that names the relation of each row"
    if len(set(example)) < len(COLUMNS):
        return "give the columns different names"
    return (
        f"say which are source, relation and target with --columns {_joined(example)} (columns= in Python) or the like"
    )


def _joined(names: Sequence[str]) -> str:
    """Names as --columns takes them."""
    return ",".join(f'"{name}"' if "," in name else name for name in names)


_OR_A_FACT = ", or say --columns 1,2,3 if it is a fact"


# First lines of text files: a header, or the first fact.


def choose_in_text(path: Path, rows: Sequence[Sequence[str]], reading: Reading) -> Choice:
    """The columns of a text file that begins with `rows`; `Choice.names` is None where the first of them is a fact."""
    first, told = rows[0], reading.columns
    width, roles = len(first), named_roles(first)
    if told is not None:
        numbers = all(each.isdecimal() for each in told)
        if numbers and not (roles == len(COLUMNS) or (width > len(COLUMNS) and roles > 1)):
            numbered = choose(path, [str(place) for place in range(1, width + 1)], told, 1)
            return Choice(numbered.places, numbered.label, None)
        return choose(path, first, told, 1)
    if width == len(COLUMNS) + 1 and first[-1] in ("1", "-1"):
        return Choice((0, 1, 2), 3, None)
    if roles == len(COLUMNS):
        return check_values(path, choose(path, first, None, 1), rows[1:], 1)
    if width > len(COLUMNS) and not (width == len(COLUMNS) + 1 and first[-1] in ("", "0")):  # a wrong label
        problem = f"{counted(width, 'column')} ({', '.join(first[:_SHOWN])}), which do not say what they are"
        raise MalformedFile(path, problem, _say_which(first) + _OR_A_FACT, 1)
    if _only_numbered(rows):
        return choose(path, first, ("1", "2", "3"), 1)
    doubt = _doubt(path, rows, roles) if width == len(COLUMNS) and reading.first else ""
    return Choice((0, 1, 2), 3 if width > len(COLUMNS) else None, None, doubt)


def _doubt(path: Path, rows: Sequence[Sequence[str]], roles: int) -> str:
    """Refuse, or doubt, a first line that shares no name with the others: it may be a header with names of its own."""
    first, others = rows[0], [tuple(row) for row in rows[1:] if len(row) == len(COLUMNS)]
    if not {name for row in others for name in row}.isdisjoint(first):
        return ""
    recurs = any(min(Counter(column).values()) > 1 for column in zip(*others, strict=True))
    certain = len(set(others)) >= _ENOUGH and recurs
    if roles > 1 or certain:
        missing = [role for role, places in _found(first).items() if not places]
        looks = f"names no {listed(missing)}" if roles > 1 else "looks like names of columns"
        raise MalformedFile(path, f"the first line ({', '.join(first)}) {looks}", _say_which(first) + _OR_A_FACT, 1)
    if not others:
        return ""
    said = f"the first line ({', '.join(first)}) is read as a fact; if it names the columns, "
    return said + ("delete it" if len(set(first)) < len(COLUMNS) else f"say --columns {_joined(first)}")


_ENOUGH = 4
"""Different facts that tell what a fact looks like, where all they have in one of the columns occurs at least twice."""


def _only_numbered(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first line numbers three columns, as programs do where these have no names: V1, V2 and V3."""
    first, names = rows[0], {name for row in rows[1:] for name in row}
    if list(first) not in _NUMBERS or not names.isdisjoint(first):
        return False
    return bool(names) and not (first[0].isdecimal() and any(name.isdecimal() for name in names))


# What the columns hold, where their names alone may mislead.

_DATE = re.compile(r"(1[0-9]|20|21)\d\d|\d{4}-\d\d(-\d\d.*)?|\d{1,2}([./-])\d{1,2}\3(\d\d){1,2}")
_SHARE = re.compile(r"[01](\.\d*)?|\.\d+|\d\.?\d*[eE]-\d+")
_LABELS = {"1", "-1", "1.0", "-1.0"}


def check_values(
    where: Path | str, choice: Choice, rows: Sequence[Sequence[str | None]], line: int | None = None
) -> Choice:
    """The choice of columns for a table that begins with `rows`, refused where these are not what names promise.

    A column of labels that was left out would make facts of what is false; `from` and `to` may be dates, and `p` a
    probability.
    """
    names = choice.names
    if names is None:
        return choice
    shown = _shown_names(names)
    chosen = _joined([shown[place] for place in choice.places])
    for place, values in enumerate(zip(*(row for row in rows if len(row) == len(names)), strict=True)):
        held = {value for value in values if value}
        if place not in choice.roles().values() and not held.isdisjoint({"-1", "-1.0"}) and held <= _LABELS:
            problem = f"{shown[place]} holds 1 and -1, as the labels of true and false facts do"
            remedy = f"say --columns {chosen},{shown[place]} if they are labels, or --columns {chosen} if not"
            raise MalformedFile(where, problem, remedy, line)
        name = _plain(names[place])
        dated = place in (choice.places[0], choice.places[2]) and name in ("from", "to", "start", "end")
        if held and dated and len(names) > len(COLUMNS) and all(map(_DATE.fullmatch, held)):
            remedy = f"{_say_which(names)}, or say --columns {chosen} if they are entities"
            raise MalformedFile(where, f"{shown[place]} holds dates", remedy, line)
        shares = not held <= {"0", "1"} and all(map(_SHARE.fullmatch, held))
        if held and place == choice.places[1] and name in ("p", "r") and shares:
            problem = f"{shown[place]} holds probabilities or weights, not relations"
            raise MalformedFile(where, problem, _say_which([n for i, n in enumerate(names) if i != place]), line)
    return choice
