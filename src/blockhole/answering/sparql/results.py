"""What SPARQL queries give back, and the standard formats it is written in: JSON, XML, CSV, TSV, N-Triples, Turtle."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, final, overload
from xml.sax.saxutils import escape, quoteattr

from blockhole.answering.answers import Status
from blockhole.answering.sparql.terms import taken_apart

ResultFormat = Literal["json", "xml", "csv", "tsv"]
MEDIA_TYPES: dict[ResultFormat, str] = {
    "json": "application/sparql-results+json",
    "xml": "application/sparql-results+xml",
    "csv": "text/csv",
    "tsv": "text/tab-separated-values",
}
_NAMESPACE = "http://www.w3.org/2005/sparql-results#"


@final
@dataclass(frozen=True, slots=True)
class Solution:
    """One row: the term of each variable as N-Triples spells it, None where it is unbound; how probable, and why."""

    terms: tuple[str | None, ...]
    probability: float
    status: Status


@final
@dataclass(frozen=True, slots=True)
class Solutions(Sequence[Solution]):
    """The rows of a SELECT: those that facts make answers, then predicted ones, best first, unless it orders them.

    `complete` is False where the search ended before it had proven that there is nothing better.
    """

    variables: tuple[str, ...]
    rows: tuple[Solution, ...]
    complete: bool

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Solution]:
        return iter(self.rows)

    @overload
    def __getitem__(self, index: int) -> Solution: ...
    @overload
    def __getitem__(self, index: slice) -> Solutions: ...
    def __getitem__(self, index: int | slice) -> Solution | Solutions:
        if isinstance(index, slice):
            return Solutions(self.variables, self.rows[index], self.complete)
        return self.rows[index]

    def to_dicts(self) -> list[dict[str, str]]:
        """One dictionary a row: the terms of the variables that are bound, as N-Triples spells them."""
        return [
            {name: term for name, term in zip(self.variables, row.terms, strict=True) if term is not None}
            for row in self.rows
        ]

    def written(self, as_format: ResultFormat) -> str:
        """The rows in one of the standard's formats."""
        return {"json": self._json, "xml": self._xml, "csv": self._csv, "tsv": self._tsv}[as_format]()

    def _json(self) -> str:
        bindings = [{name: _json_term(term) for name, term in row.items()} for row in self.to_dicts()]
        head: dict[str, Any] = {"vars": list(self.variables)}
        return json.dumps({"head": head, "results": {"bindings": bindings}}, ensure_ascii=False)

    def _xml(self) -> str:
        lines = [_XML, f'<sparql xmlns="{_NAMESPACE}">', "<head>"]
        lines += [f"<variable name={quoteattr(name)}/>" for name in self.variables]
        lines += ["</head>", "<results>"]
        for row in self.to_dicts():
            bindings = "".join(
                f"<binding name={quoteattr(name)}>{_xml_term(term)}</binding>" for name, term in row.items()
            )
            lines.append(f"<result>{bindings}</result>")
        return "\n".join([*lines, "</results>", "</sparql>"]) + "\n"

    def _csv(self) -> str:
        out = io.StringIO()
        writer = csv.writer(out)  # whose lines end as the standard wants them
        writer.writerow(self.variables)
        for row in self.rows:
            writer.writerow(["" if term is None else _csv_term(term) for term in row.terms])
        return out.getvalue()

    def _tsv(self) -> str:
        lines = ["\t".join(f"?{name}" for name in self.variables)]
        lines += ["\t".join("" if term is None else term for term in row.terms) for row in self.rows]
        return "\n".join(lines) + "\n"


@final
@dataclass(frozen=True, slots=True)
class Truth:
    """The answer to an ASK: it `holds` if facts say so, or with at least the probability that is asked for.

    A `probability` below that is 0 where the pattern has variables: nothing was looked for further down.
    """

    holds: bool
    probability: float
    status: Status
    complete: bool

    def written(self, as_format: ResultFormat) -> str:
        """True or false in one of the standard's formats."""
        said = "true" if self.holds else "false"
        if as_format == "json":
            return json.dumps({"head": {}, "boolean": self.holds})
        if as_format == "xml":
            return f'{_XML}\n<sparql xmlns="{_NAMESPACE}">\n<head/>\n<boolean>{said}</boolean>\n</sparql>\n'
        return said + "\n"


_XML = '<?xml version="1.0" encoding="UTF-8"?>'


def _json_term(term: str) -> dict[str, str]:
    kind, text, language, datatype = taken_apart(term)
    found = {"type": kind, "value": text}
    if language is not None:
        found["xml:lang"] = language
    if datatype is not None:
        found["datatype"] = datatype
    return found


def _xml_term(term: str) -> str:
    kind, text, language, datatype = taken_apart(term)
    more = "" if language is None else f" xml:lang={quoteattr(language)}"
    more += "" if datatype is None else f" datatype={quoteattr(datatype)}"
    # XML has no control characters, and takes a carriage return for the end of a line.
    shown = "".join(c if c in "\t\n\r" or c >= " " else "\ufffd" for c in text)
    return f"<{kind}{more}>{escape(shown, {chr(13): '&#13;'})}</{kind}>"


def _csv_term(term: str) -> str:
    kind, text, _, _ = taken_apart(term)
    return f"_:{text}" if kind == "bnode" else text
