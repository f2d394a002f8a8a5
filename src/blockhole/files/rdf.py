"""RDF files as columns of names: N-Triples, N-Quads, Turtle, TriG, RDF/XML, N3 and JSON-LD.

pyoxigraph parses and prints canonical N-Triples, a batch at a time, which are then taken apart as columns. Blank nodes
are renamed in order of appearance (`_:train0`, `_:train1`, … in train.ttl): most have no label in these formats,
and the labels a parser invents differ from run to run.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, final
from urllib.parse import quote, unquote

from blockhole.errors import MalformedFile, counted, listed, quoted
from blockhole.files.columns import Reading
from blockhole.files.formats import (
    BYTE_ORDER_MARK,
    Block,
    FileFormat,
    Layout,
    bare_name,
    decompression_error,
    faults,
    open_decompressed,
    text_blocks,
)
from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.graph.vocabulary import Vocabulary

if TYPE_CHECKING:
    import polars as pl
    import pyoxigraph


# Names and RDF terms.
#
# | term         | spelled                  | name                                                          |
# |--------------|--------------------------|---------------------------------------------------------------|
# | IRI          | `<http://example.org/a>` | `http://example.org/a`, whole and without the brackets        |
# | IRI of ours  | `<urn:blockhole:a%20b>`  | `a b`: names that are no RDF terms are percent-encoded        |
# | blank node   | `_:b0`                   | `_:b0`                                                        |
# | literal      | `"Alice"@en`             | `"Alice"@en`, its canonical N-Triples spelling, quotes and all |
#
# So every RDF triple is a fact, no two terms share a name by accident, and names come back from N-Triples unchanged.


PREFIX = "urn:blockhole:"

# Canonical N-Triples: the spelling that pyoxigraph prints. IRIs are held to the grammar's characters, not to the
# structure of RFC 3986, because large public dumps break the latter; one that looks like a blank node is left out.
_IN_IRI = r"\x00-\x20<>\x22{}|^`\\"
IRI = rf"<(?:[^_{_IN_IRI}][^{_IN_IRI}]*|_(?:[^:{_IN_IRI}][^{_IN_IRI}]*)?)>"
_LETTER = (
    r"A-Za-z\u{C0}-\u{D6}\u{D8}-\u{F6}\u{F8}-\u{2FF}\u{370}-\u{37D}\u{37F}-\u{1FFF}\u{200C}-\u{200D}\u{2070}-\u{218F}"
    r"\u{2C00}-\u{2FEF}\u{3001}-\u{D7FF}\u{F900}-\u{FDCF}\u{FDF0}-\u{FFFD}\u{10000}-\u{EFFFF}"
)
_LATER = rf"{_LETTER}0-9_\-\u{{B7}}\u{{300}}-\u{{36F}}\u{{203F}}-\u{{2040}}"
BLANK = rf"_:[{_LETTER}0-9_](?:[{_LATER}.]*[{_LATER}])?"
_CHARACTER = r"(?:[^\x00-\x1f\x22\\\x7f\u{FFFE}\u{FFFF}]|\\[tbnrf\x22\\]|\\u(?:00(?:0[0-7BEF]|1[0-9A-F]|7F)|FFF[EF]))"
LITERAL = rf"\x22{_CHARACTER}*\x22(?:@[a-z]+(?:-[a-z0-9]+)*(?:--ltr|--rtl)?|\^\^{IRI})?"
XSD_STRING = "^^<http://www.w3.org/2001/XMLSchema#string>"


def names_of_terms(terms: pl.Series) -> pl.Series:
    """The names of a column of canonical terms."""
    import polars as pl

    names = terms.to_frame("term").select(
        pl.when(pl.col("term").str.starts_with("<"))
        .then(pl.col("term").str.slice(1).str.strip_suffix(">"))
        .otherwise(pl.col("term"))
        .alias(terms.name)
    )[terms.name]
    ours = terms.filter(terms.str.starts_with(f"<{PREFIX}")).unique().str.slice(1).str.strip_suffix(">")
    return names.replace(ours, [name_of_iri(iri) for iri in ours]) if len(ours) else names


def name_of_iri(iri: str) -> str:
    """The name that an IRI stands for: itself, unless it is one of ours."""
    if not iri.startswith(PREFIX):
        return iri
    try:
        name = unquote(iri.removeprefix(PREFIX), errors="strict")
    except UnicodeDecodeError:
        return iri
    return name or iri


def node_terms(names: Iterable[str], literals: Iterable[bool]) -> list[str]:
    """The terms of entity names; where `literals` allows it, a literal's spelling becomes that literal."""
    return [_node_term(name, literal) for name, literal in zip(names, literals, strict=True)]


def relation_terms(names: Iterable[str]) -> list[str]:
    """The terms of relation names: always IRIs."""
    return [_iri(name) for name in names]


def _node_term(name: str, literal: bool) -> str:
    if name.startswith("_:") and _is_blank_node(name):
        return name
    if literal and name.startswith('"') and _is_literal(name):
        return name
    return _iri(name)


def _iri(name: str) -> str:
    return f"<{name}>" if not name.startswith(PREFIX) and is_iri(name) else f"<{PREFIX}{quote(name, safe='')}>"


def is_iri(name: str) -> bool:
    """Whether a name is a whole IRI."""
    import pyoxigraph

    if ":" not in name:
        return False
    try:
        return str(pyoxigraph.NamedNode(name)) == f"<{name}>"
    except ValueError:
        return False


def _is_blank_node(name: str) -> bool:
    import pyoxigraph

    try:
        return str(pyoxigraph.BlankNode(name.removeprefix("_:"))) == name
    except ValueError:
        return False


def _is_literal(name: str) -> bool:
    """Whether `name` is a literal as N-Triples spells it canonically."""
    import pyoxigraph

    if "\n" in name or "\r" in name:
        return False
    try:
        (quad,) = pyoxigraph.parse(f"<a:a> <a:a> {name} .", format=pyoxigraph.RdfFormat.N_TRIPLES)
    except SyntaxError:
        return False
    return str(quad.object) == name


_LABELS = ("http://www.w3.org/2000/01/rdf-schema#label", "http://www.w3.org/2004/02/skos/core#prefLabel")


def labels(graph: KnowledgeGraph) -> dict[str, str]:
    """What entities are called by their rdfs:label, else skos:prefLabel: the first one, without its language."""
    found: dict[str, str] = {}
    for iri in _LABELS:
        relation = graph.relations.find(iri)
        for source, _, target in graph.triples[graph.triples[:, 1] == relation].tolist():
            name = graph.entities[target]
            if _is_literal(name):
                found.setdefault(graph.entities[source], _text(name))
    return found


def _text(literal: str) -> str:
    import pyoxigraph

    (quad,) = pyoxigraph.parse(f"<a:a> <a:a> {literal} .", format=pyoxigraph.RdfFormat.N_TRIPLES)
    return str(quad.object.value)


# N-Triples and N-Quads as columns of names.
#
# Lines in canonical spelling, which is how programs write them, are taken apart as whole columns. The others (escapes
# that need none, tabs, comments behind a triple, …) go through pyoxigraph, which spells them canonically.
# The graph of a quad is dropped: a knowledge graph is the union of all graphs of a file.


_SUBJECT = rf"^(?:{IRI}|{BLANK})$"
_PREDICATE = rf"^{IRI}$"
_OBJECT = rf"(?:{IRI}|{BLANK}|{LITERAL})"
_END_OF_TRIPLE = rf"^{_OBJECT} \.$"
_END_OF_QUAD = rf"^({_OBJECT})(?: (?:{IRI}|{BLANK}))? \.$"
_NOTHING = r"^[ \t]*(?:#.*)?$"
_SHOWN = 100
"""Characters of a statement that a sentence quotes at most."""


def read_ntriples(path: Path, file_format: FileFormat, reading: Reading) -> Iterator[pl.DataFrame]:
    """The triples of an N-Triples or N-Quads file, block by block: columns source, relation, target."""
    quads = file_format.layout is Layout.N_QUADS
    literals = _Literals(reading)
    for block in text_blocks(path, file_format.compression):
        terms = literals.kept(_terms_of_block(path, block, quads), reading.prefixes)
        if len(terms):
            yield name_terms(terms)
    literals.tell(path)


@final
class _Literals:
    """Leaves out the literals that are not wanted, and counts them."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._dropped = 0
        self._unmet = set() if isinstance(reading.literals, str) else set(reading.literals)

    def kept(self, terms: pl.DataFrame, prefixes: Mapping[str, str]) -> pl.DataFrame:
        """The rows whose object is no literal, or one that is wanted; predicates may be written with `prefixes`."""
        if self._reading.literals == "keep":
            return terms
        wanted = terms["target"].str.starts_with('"').not_()
        if self._reading.literals != "drop":
            known = Vocabulary((), "relation", {**_USUAL_PREFIXES, **prefixes})
            iris = {f"<{known.expanded(name) or name}>": name for name in self._reading.literals}
            if self._unmet:
                met = terms["relation"].filter(~wanted & terms["relation"].is_in(iris)).unique()
                self._unmet.difference_update(iris[iri] for iri in met)
            wanted |= terms["relation"].is_in(iris)
        self._dropped += len(terms) - int(wanted.sum())
        return terms.filter(wanted)

    def tell(self, path: Path) -> None:
        """Note how many were left out, and which predicates have none."""
        if self._dropped:
            none = f"; none has the predicate {listed(sorted(self._unmet))}" if self._unmet else ""
            self._reading.note(path, f"{counted(self._dropped, 'triple')} with literals left out{none}")


_USUAL_PREFIXES = {
    "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "skos": "http://www.w3.org/2004/02/skos/core#",
    "foaf": "http://xmlns.com/foaf/0.1/",
    "schema": "http://schema.org/",
    "dc": "http://purl.org/dc/elements/1.1/",
    "dcterms": "http://purl.org/dc/terms/",
}
"""Prefixes that people write where a file, such as one of N-Triples, declares none."""


def name_terms(terms: pl.DataFrame) -> pl.DataFrame:
    """A table of canonical terms as a table of names."""
    return terms.select(*(names_of_terms(column) for column in terms.get_columns()))


def take_apart(lines: pl.Series, quads: bool) -> tuple[pl.DataFrame, pl.Series]:
    """Columns source, relation, target of terms; and which lines are canonical: only their terms mean anything."""
    import polars as pl

    fields = lines.str.splitn(" ", 3).struct.unnest()
    fields.columns = ["source", "relation", "rest"]
    rest = pl.col("rest")
    target = rest.str.extract(_END_OF_QUAD) if quads else rest.str.strip_suffix(" .")
    terms = fields.with_columns(target=target)
    canonical = terms.select(
        pl.col("source").str.contains(_SUBJECT)
        & pl.col("relation").str.contains(_PREDICATE)
        & (pl.col("target").is_not_null() if quads else rest.str.contains(_END_OF_TRIPLE))
        & ~pl.col("target").str.ends_with(XSD_STRING)  # canonical spelling leaves this datatype out
    ).to_series()
    return terms.select("source", "relation", "target"), canonical.fill_null(False)


def split_lines(text: str) -> pl.Series:
    """The lines of a text as a column."""
    import polars as pl

    return pl.Series("line", [text.removesuffix("\n")]).str.split("\n").explode()


def _terms_of_block(path: Path, block: Block, quads: bool) -> pl.DataFrame:
    text = block.data.decode()
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    lines = split_lines(text)
    terms, canonical = take_apart(lines, quads)
    if canonical.all():
        return terms
    nothing = lines.str.contains(_NOTHING)
    position = (~canonical & ~nothing).arg_true()
    if len(position):
        rows = _respell(path, block, lines, position, quads)
        terms = terms.select(column.scatter(position, rows[column.name]) for column in terms.get_columns())
    return terms.filter(~nothing)


def _respell(path: Path, block: Block, lines: pl.Series, position: pl.Series, quads: bool) -> pl.DataFrame:
    """The terms of the lines at `position`, one statement a line, through the full parser."""
    statements = lines.gather(position)
    try:
        spelled = spell(parse("\n".join(statements), quads), quads)
    except SyntaxError as failure:
        raise syntax_error(path, failure, block.first_line + position[(failure.lineno or 1) - 1]) from None
    terms, odd_row = canonical_terms(spelled, quads)
    if odd_row is not None:
        raise odd_term(path, block.first_line + position[min(odd_row, len(position) - 1)])
    if len(terms) != len(position):
        # pyoxigraph lets a literal go over several lines, which the grammar forbids; alone, its first line fails.
        for row in range(len(position)):
            _respell(path, block, lines, position[row : row + 1], quads)
    return terms


def parse(text: str, quads: bool) -> Iterator[pyoxigraph.Quad]:
    """The statements of N-Triples or N-Quads; IRIs are not held to RFC 3986."""
    import pyoxigraph

    layout = pyoxigraph.RdfFormat.N_QUADS if quads else pyoxigraph.RdfFormat.N_TRIPLES
    return pyoxigraph.parse(text, format=layout, lenient=True)


def spell(statements: Iterable[pyoxigraph.Quad], quads: bool) -> str:
    """Statements in canonical N-Triples or N-Quads."""
    import pyoxigraph

    layout = pyoxigraph.RdfFormat.N_QUADS if quads else pyoxigraph.RdfFormat.N_TRIPLES
    with io.BytesIO() as output:
        pyoxigraph.serialize(statements, output, format=layout)
        return output.getvalue().decode()


def canonical_terms(spelled: str, quads: bool) -> tuple[pl.DataFrame, int | None]:
    """The terms of what pyoxigraph printed, and the first row that is still no plain triple, if there is one."""
    terms, canonical = take_apart(split_lines(spelled), quads)
    return terms, None if canonical.all() else (~canonical).arg_max()


def odd_term(path: Path, line: int | None, statement: str | None = None) -> MalformedFile:
    """For what pyoxigraph's lenient parsers let pass, but no name can be made of: a line or a statement says where."""
    problem = "an empty IRI, a character that IRIs cannot hold, or a triple inside a triple"
    if statement is not None:
        problem += f" in {statement[:_SHOWN]}{'…' * (len(statement) > _SHOWN)}"
    return MalformedFile(path, problem, "write plain IRIs (a space is %20), blank nodes and literals", line)


def syntax_error(path: Path, failure: SyntaxError, line: int | None) -> MalformedFile:
    """The user's view of an error of pyoxigraph's parsers."""
    # "Parser error at line 3 column 7: what is wrong": the position counts from where we started to parse.
    if "LoadDocumentCallback" in failure.msg:
        return MalformedFile(
            path, "its @context is elsewhere, and nothing is fetched", "write the context into the file"
        )
    problem = failure.msg.partition(": ")[2] if failure.lineno is not None else failure.msg
    return MalformedFile(path, f"not valid RDF ({problem.strip() or failure.msg})", "correct the statement there", line)


# Turtle, TriG, RDF/XML, N3 and JSON-LD as columns of names.


BATCH = 100_000
_LOOKED_AT = 256
"""Quads after which prefixes are looked at: with one of megabytes, each of them may take megabytes."""
_LONGEST_PREFIX = 2048
_LONGEST_ENTITY = 256
_ENTITY = b"<!ENTITY"
_DEFINITION = re.compile(rb'<!ENTITY\s*%?\s*([^\s"]+)\s*"([^"]*)"', re.DOTALL)
_REFERENCE = re.compile(rb"&([^;&]+);")


@final
class LineByLine:
    """Hands XML to a parser one line at a time, so that `line` is where the parser stands, and bounds its entities.

    The parser replaces an entity by what it stands for, other entities included: ten that each stand for ten of the one
    before grow a few bytes to gigabytes. Those that abbreviate an IRI, as in OWL files, are short.
    """

    def __init__(self, file: IO[bytes], path: Path) -> None:
        self._file = file
        self._path = path
        self._seen = b""
        self._sizes: dict[bytes, int] = {}
        self.line = 0

    def read(self, size: int = -1) -> bytes:
        """The next line, or the next `size` bytes of it."""
        data = self._file.readline(size)
        self.line += data.endswith(b"\n") or not data
        self._watch(data)
        return data

    def _watch(self, data: bytes) -> None:
        """Look for definitions of entities, which may go over several lines."""
        text = self._seen + data
        while (start := text.find(_ENTITY)) >= 0 and (end := text.find(b">", start)) >= 0:
            self._define(text[start:end])
            text = text[end:]
        self._seen = text[start:] if start >= 0 else text[1 - len(_ENTITY) :]
        if len(self._seen) > 100 * _LONGEST_ENTITY:
            raise self._too_long("an entity")

    def _define(self, definition: bytes) -> None:
        found = _DEFINITION.match(definition)
        if found is None:  # the parser knows better what is wrong
            return
        name, value = found.groups()
        self._sizes[name] = len(value) + sum(self._sizes.get(other, 0) for other in _REFERENCE.findall(value))
        if self._sizes[name] > _LONGEST_ENTITY:
            raise self._too_long(f"the entity {quoted(name.decode(errors='replace'))}")

    def _too_long(self, entity: str) -> MalformedFile:
        problem = f"{entity} stands for more than {_LONGEST_ENTITY} characters"
        return MalformedFile(self._path, problem, "write them out where they are used", max(1, self.line))


def read_rdf(path: Path, file_format: FileFormat, reading: Reading) -> Iterator[pl.DataFrame]:
    """The triples of a file, batch by batch: columns source, relation, target. Graphs of TriG are united.

    The prefixes that the file declares are added to those of `reading`.
    """
    renamed: dict[str, str] = {}
    literals = _Literals(reading)
    for spelled in _canonical_batches(path, file_format, reading):
        terms, odd_row = canonical_terms(spelled, quads=True)
        if odd_row is not None:
            raise odd_term(path, None, spelled.split("\n")[odd_row])
        terms = literals.kept(terms, reading.prefixes)
        yield _rename_blank_nodes(name_terms(terms), renamed, bare_name(path))
    literals.tell(path)


def _canonical_batches(path: Path, file_format: FileFormat, reading: Reading) -> Iterator[str]:
    layout = file_format.layout
    unexplained: dict[str, None] = {}
    with open_decompressed(path, file_format.compression) as file:
        reader = LineByLine(file, path)
        try:
            if file.read(len(BYTE_ORDER_MARK)) != BYTE_ORDER_MARK:
                file.seek(0)
            quads = _parser(reader if layout is Layout.RDF_XML else file, layout)
            while batch := list(_next_quads(quads, path)):
                if layout is Layout.N3:
                    _refuse_formulas(path, batch)
                for prefix, iri in quads.prefixes.items():
                    reading.prefixes.setdefault(prefix, iri)
                if layout is Layout.JSON_LD:
                    batch = _without_bare_keys(batch, unexplained)
                if batch:
                    yield spell(batch, quads=True)
        except SyntaxError as failure:
            # pyoxigraph tells no line for RDF/XML.
            line = failure.lineno if layout is not Layout.RDF_XML else max(1, reader.line)
            raise syntax_error(path, failure, line) from None
        except faults() as fault:
            raise decompression_error(path, fault, None) from None
    if unexplained:
        shown = quoted(next(iter(unexplained)))
        keys = f"{counted(len(unexplained), 'key')} that no @context explains left out"
        reading.note(path, f"{keys}, such as {shown}; if the file is a table of facts, write it as CSV")


def _without_bare_keys(quads: Iterable[pyoxigraph.Quad], unexplained: dict[str, None]) -> list[pyoxigraph.Quad]:
    """What JSON-LD says of the `quads`: keys that no context makes an IRI say nothing, and are gathered."""
    kept = []
    for quad in quads:
        if ":" in quad.predicate.value:
            kept.append(quad)
        else:
            unexplained.setdefault(quad.predicate.value)
    return kept


def _refuse_formulas(path: Path, quads: Iterable[pyoxigraph.Quad]) -> None:
    """What stands in braces in N3 is said of, but not said to be true."""
    import pyoxigraph

    if any(quad.graph_name != pyoxigraph.DefaultGraph() for quad in quads):
        raise MalformedFile(path, "a formula in braces, which is not a fact", "keep only plain statements")


def _next_quads(quads: pyoxigraph.QuadParser, path: Path) -> Iterator[pyoxigraph.Quad]:
    """The next quads, a batch at most; refuses a prefix that a short name would grow to megabytes by."""
    left = BATCH
    while few := list(islice(quads, min(left, _LOOKED_AT))):
        for iri in (*quads.prefixes.values(), quads.base_iri or ""):
            if len(iri) > _LONGEST_PREFIX:
                problem = f"a prefix stands for {len(iri):,} characters"
                remedy = f"shorten it to {_LONGEST_PREFIX:,} at most, or write IRIs out where they are used"
                raise MalformedFile(path, problem, remedy)
        yield from few
        left -= len(few)


def _parser(file: IO[bytes] | LineByLine, layout: Layout) -> pyoxigraph.QuadParser:
    import pyoxigraph

    formats = {
        Layout.TURTLE: pyoxigraph.RdfFormat.TURTLE,
        Layout.TRIG: pyoxigraph.RdfFormat.TRIG,
        Layout.RDF_XML: pyoxigraph.RdfFormat.RDF_XML,
        Layout.N3: pyoxigraph.RdfFormat.N3,
        Layout.JSON_LD: pyoxigraph.RdfFormat.JSON_LD,
    }
    return pyoxigraph.parse(file, format=formats[layout], lenient=True)  # type: ignore[arg-type]


def _rename_blank_nodes(facts: pl.DataFrame, renamed: dict[str, str], stem: str) -> pl.DataFrame:
    import polars as pl

    ends = facts.select(name=pl.concat_list("source", "target")).explode("name")["name"]
    here = {
        label: renamed.setdefault(label, f"_:{''.join(filter(str.isalnum, stem)) or 'b'}{len(renamed)}")
        for label in ends.filter(ends.str.starts_with("_:")).unique(maintain_order=True)
    }
    return facts.with_columns(pl.col("source", "target").replace(here)) if here else facts
