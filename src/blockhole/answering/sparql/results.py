"""What SPARQL queries give back, and the standard formats it is written in: JSON, XML, CSV, TSV, N-Triples, Turtle."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, final
from xml.sax.saxutils import escape, quoteattr

from blockhole.answering.answers import Status
from blockhole.answering.sparql.terms import probability_term, taken_apart
from blockhole.errors import ConfigError, listed
from blockhole.files.tables import Listed

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
class Solutions(Listed[Solution]):
    """The rows of a SELECT: those that facts make answers, then predicted ones, best first, unless it orders them.

    `complete` is False where the search ended before it had proven that there is nothing better.
    """

    _rows: ClassVar = "rows"
    variables: tuple[str, ...]
    rows: tuple[Solution, ...]
    complete: bool

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

    A `probability` below that may be 0: nothing was looked for further down.
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


@final
@dataclass(frozen=True, slots=True)
class Statement:
    """A triple that a CONSTRUCT makes, its terms as N-Triples spells them; how probable, and why."""

    source: str
    relation: str
    target: str
    probability: float
    status: Status


@final
@dataclass(frozen=True, slots=True)
class Statements(Listed[Statement]):
    """The triples of a CONSTRUCT, each once: known ones, then predicted ones, best first.

    Written as RDF, a predicted triple has a statement about it (rdf:Statement) beside it, with its probability, as
    every reader of RDF understands. In RDF 1.2 it is rdf:reifies and the triple itself.
    """

    _rows: ClassVar = "triples"
    triples: tuple[Statement, ...]
    prefixes: Mapping[str, str]
    complete: bool

    def written(self, as_format: GraphFormat) -> str:
        """The triples in a format of RDF."""
        lines = [f"{each.source} {each.relation} {each.target} ." for each in self.triples]
        predicted = [each for each in self.triples if each.status == "predicted"]
        for number, each in enumerate(predicted, start=1):
            about = {
                "type": f"<{_RDF}Statement>",
                "subject": each.source,
                "predicate": each.relation,
                "object": each.target,
            }
            if as_format.endswith("-1.2"):
                about = {"reifies": f"<<( {each.source} {each.relation} {each.target} )>>"}
            lines += [f"_:predicted{number} <{_RDF}{name}> {term} ." for name, term in about.items()]
            lines.append(f"_:predicted{number} <{ANSWERS}probability> {probability_term(each.probability)} .")
        return rewritten("\n".join(lines), as_format, self.prefixes)


GraphFormat = Literal["turtle", "ntriples", "rdfxml", "jsonld", "turtle-1.2", "ntriples-1.2"]
GRAPH_MEDIA_TYPES: dict[GraphFormat, str] = {
    "turtle": "text/turtle",
    "ntriples": "application/n-triples",
    "rdfxml": "application/rdf+xml",
    "jsonld": "application/ld+json",
    "turtle-1.2": "text/turtle;version=1.2",
    "ntriples-1.2": "application/n-triples;version=1.2",
}
ANSWERS = "urn:blockhole-answers:"
"""What IRIs about answers begin with: a pragma of a query, the probability of a constructed triple."""
_RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"


def rewritten(turtle: str, as_format: str, prefixes: Mapping[str, str]) -> str:
    """Triples in Turtle or N-Triples, in a format of RDF, with the prefixes that can be used."""
    import pyoxigraph
    from pyoxigraph import RdfFormat

    as_format = as_format.removesuffix("-1.2")
    formats = {
        "turtle": RdfFormat.TURTLE,
        "ntriples": RdfFormat.N_TRIPLES,
        "rdfxml": RdfFormat.RDF_XML,
        "jsonld": RdfFormat.JSON_LD,
    }
    triples = [quad.triple for quad in pyoxigraph.parse(turtle, format=RdfFormat.TURTLE, lenient=True)]
    used = {name: iri for name, iri in prefixes.items() if iri} if as_format in ("turtle", "rdfxml") else None
    try:
        written = pyoxigraph.serialize(triples, format=formats[as_format], prefixes=used)
    except ValueError:  # a prefix whose IRI is none
        written = pyoxigraph.serialize(triples, format=formats[as_format])
    assert written is not None
    return written.decode()


def written(result: Solutions | Truth | Statements, wanted: str | None) -> str:
    """A result in a format by its name; Turtle, a table or plain words where none is named."""
    if isinstance(result, Statements):
        forms: dict[str | None, GraphFormat] = {each: each for each in GRAPH_MEDIA_TYPES}
        forms |= {None: "turtle", "json": "jsonld"}
        if wanted not in forms:
            raise ConfigError(f"triples are written as {listed(list(GRAPH_MEDIA_TYPES))}, not as {wanted}.")
        return result.written(forms[wanted])
    plain: dict[str | None, ResultFormat] = {each: each for each in MEDIA_TYPES}
    if isinstance(result, Truth):
        plain |= {None: "csv", "table": "csv"}
    if wanted not in plain:
        raise ConfigError(f"results are written as {listed(list(MEDIA_TYPES))}, not as {wanted}.")
    return result.written(plain[wanted])


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
    # XML has no control characters, and readers may cut or change white space that is not spelled out.
    shown = "".join(c if c in "\t\n\r" or c >= " " else "\ufffd" for c in text)
    return f"<{kind}{more}>{escape(shown, _SPACES)}</{kind}>"


_SPACES = {"\t": "&#9;", "\n": "&#10;", "\r": "&#13;"}


def _csv_term(term: str) -> str:
    kind, text, _, _ = taken_apart(term)
    return f"_:{text}" if kind == "bnode" else text
