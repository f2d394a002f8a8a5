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
    """Advice whose example has columns of this table, those that are known where they belong; no weights and times."""
    known = {role: places[0] for role, places in _found(names).items() if places}
    others = [
        place
        for place, name in enumerate(names)
        if name.strip() and _kind(name) is None and place not in known.values()
    ]
    if len(known) + len(others) < len(COLUMNS):
        return "add a column that names the relation of each row"
    example = [names[known[role] if role in known else others.pop(0)].strip() for role in COLUMNS]
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
    return _choose_unnamed(path, rows, reading)


def _choose_unnamed(path: Path, rows: Sequence[Sequence[str]], reading: Reading) -> Choice:
    """The columns of a file whose first line names no source, relation and target."""
    width = len(rows[0])
    if width == len(COLUMNS) + 1 and not rows[0][0] and _only_numbered([row[1:] for row in rows]):
        return Choice((1, 2, 3), None, tuple(rows[0]))  # behind an index
    if width > len(COLUMNS) and not any(any(row[len(COLUMNS) :]) for row in rows):
        rows = [row[: len(COLUMNS)] for row in rows]
    first = rows[0]
    if len(first) > len(COLUMNS):
        if len(first) == len(COLUMNS) + 1 and first[-1] in ("", "0"):  # a wrong label
            return Choice((0, 1, 2), 3, None)
        problem = f"{counted(width, 'column')} ({', '.join(first[:_SHOWN])}), which do not say what they are"
        raise MalformedFile(path, problem, _say_which_of_many(first), 1)
    if _only_numbered(rows):
        return choose(path, first, ("1", "2", "3"), 1)
    doubt = ""
    if len(first) == len(COLUMNS) and reading.first:
        doubt = _doubt(path, rows)
        refuse_disorder(path, rows, 1)
    left = _left_out([f"column {place + 1}" for place in range(len(COLUMNS), width)])
    return Choice((0, 1, 2), None, None, "; ".join(filter(None, (doubt, left))))


def refuse_disorder(where: Path | str, rows: Sequence[Sequence[str | None]], line: int | None = None) -> None:
    """Raise `MalformedFile` where columns without names cannot be source, relation and target, in this order.

    So it is where a column holds decimal numbers, as weights are, and where the first or third looks like relations: it
    has fewer names than the second, and none in common with the two others, which have some in common.
    """
    facts = {tuple(row) for row in rows if len(row) == len(COLUMNS)}
    if len(facts) < _ENOUGH:
        return
    held = [{value for value in column if value} for column in zip(*facts, strict=True)]
    for place, names in enumerate(held, 1):
        if names and all(map(_DECIMAL.fullmatch, names)):
            problem = f"column {place} holds numbers, such as {min(names)}"
            remedy = "add a column that names the relation of each row, or say --columns 1,2,3 if they are names"
            raise MalformedFile(where, problem, remedy, line)
    for place, order in ((0, "2,1,3"), (2, "1,3,2")):
        other = held[2 - place]
        if len(held[place]) < len(held[1]) and held[place].isdisjoint(held[1] | other) and len(held[1] & other) > 1:
            problem = f"column {place + 1} looks like the relation, for the two others share names"
            remedy = f"say --columns {order} (columns= in Python) if so, or --columns 1,2,3 if not"
            raise MalformedFile(where, problem, remedy, line)


_DECIMAL = re.compile(r"[-+]?\d*[.,]\d+([eE][-+]?\d+)?")


def _say_which_of_many(first: Sequence[str]) -> str:
    """Advice for a first line of many columns: by name where it may be a header, by number where it holds numbers."""
    words = [str(place) for place, field in enumerate(first, 1) if not _NUMBER.fullmatch(field)]
    if len(words) == len(first):
        return _say_which(first) + _OR_A_FACT
    numbers = ",".join(words[:3] if len(words) >= len(COLUMNS) else ("1", "2", "3"))
    return f"say which are source, relation and target by their numbers, such as --columns {numbers}"


_NUMBER = re.compile(r"[-+]?\d[-\d.,:/]*([eE][-+]?\d+)?")  # dates too


def _doubt(path: Path, rows: Sequence[Sequence[str]]) -> str:
    """Refuse, or doubt, a first line whose ends no other line has: it may be a header with names of its own."""
    first, roles = rows[0], named_roles(rows[0])
    others = [tuple(row) for row in rows[1:] if len(row) == len(COLUMNS)]
    sources, relations, targets = zip(*others, strict=True) if others else ((), (), ())
    if not {first[0], first[2]}.isdisjoint((*sources, *targets)):
        return ""
    foreign = first[1] not in relations
    recurs = foreign and any(min(Counter(column).values()) > 1 for column in (sources, relations, targets) if column)
    twice = first[0] == first[2] and all(map(str.__ne__, sources, targets))
    unlike = twice or (_unlike(first[0], sources) and _unlike(first[2], targets))
    word = not any(
        trait(first[end]) for trait in (_has_digits, _has_marks) for end in (0, 2)
    )  # as names of columns are
    certain = len(set(others)) >= _ENOUGH and word and (recurs or unlike)
    if roles > 1 or certain:
        missing = [role for role, places in _found(first).items() if not places]
        looks = f"names no {listed(missing)}" if roles > 1 and missing else "looks like names of columns"
        raise MalformedFile(path, f"the first line ({', '.join(first)}) {looks}", _say_which(first) + _OR_A_FACT, 1)
    odd = any(_plain(first[end]) in _END_NAMES or _unlike(first[end], [row[end] for row in others]) for end in (0, 2))
    if not others or not (foreign or odd):
        return ""
    said = f"the first line ({', '.join(first)}) is read as a fact; if it names the columns, "
    return said + ("delete it" if len(set(first)) < len(COLUMNS) else f"say --columns {_joined(first)}")


_END_NAMES = {name for name in _ENDS if name} | {name for name, role in _ROLES[0].items() if role != "relation"}


def _unlike(name: str, others: Sequence[str]) -> bool:
    """Whether all the others have digits, capitals or the marks of addresses, and this name has none."""
    return any(all(map(trait, others)) and not trait(name) for trait in _TRAITS)


def _has_digits(name: str) -> bool:
    return any(map(str.isdigit, name))


def _has_capitals(name: str) -> bool:
    return name != name.lower()


def _has_marks(name: str) -> bool:
    return ":" in name or "/" in name


_TRAITS = (_has_digits, _has_capitals, _has_marks)
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
_SPANS = ("from", "to", "start", "end")


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
        dated = place in (choice.places[0], choice.places[2]) and name in _SPANS
        if held and dated and len(names) > len(COLUMNS) and all(map(_DATE.fullmatch, held)):
            undated = [each for each in names if _plain(each) not in _SPANS]
            remedy = f"{_say_which(undated)}, or say --columns {chosen} if they are entities"
            raise MalformedFile(where, f"{shown[place]} holds dates", remedy, line)
        shares = not held <= {"0", "1"} and all(map(_SHARE.fullmatch, held))
        if held and place == choice.places[1] and name in ("p", "r") and shares:
            problem = f"{shown[place]} holds probabilities or weights, not relations"
            raise MalformedFile(where, problem, _say_which([n for i, n in enumerate(names) if i != place]), line)
    return choice
