"""N-Triples and N-Quads as columns of names.

Lines in canonical spelling, which is how programs write them, are taken apart as whole columns. The others (escapes
that need none, tabs, comments behind a triple, …) go through pyoxigraph, which spells them canonically.
The graph of a quad is dropped: a knowledge graph is the union of all graphs of a file.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from blockhole.errors import MalformedFile
from blockhole.graph.blocks import Block, text_blocks
from blockhole.graph.formats import FileFormat, Layout
from blockhole.graph.terms import BLANK, IRI, LITERAL, XSD_STRING, names_of_terms

if TYPE_CHECKING:
    import polars as pl
    import pyoxigraph

_SUBJECT = rf"^(?:{IRI}|{BLANK})$"
_PREDICATE = rf"^{IRI}$"
_OBJECT = rf"(?:{IRI}|{BLANK}|{LITERAL})"
_END_OF_TRIPLE = rf"^{_OBJECT} \.$"
_END_OF_QUAD = rf"^({_OBJECT})(?: (?:{IRI}|{BLANK}))? \.$"
_NOTHING = r"^[ \t]*(?:#.*)?$"
_SHOWN = 100
"""Characters of a statement that a sentence quotes at most."""


def read_ntriples(path: Path, file_format: FileFormat) -> Iterator[pl.DataFrame]:
    """The triples of an N-Triples or N-Quads file, block by block: columns source, relation, target."""
    quads = file_format.layout is Layout.N_QUADS
    for block in text_blocks(path, file_format.compression):
        terms = _terms_of_block(path, block, quads)
        if len(terms):
            yield name_terms(terms)


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
    problem = failure.msg.partition(": ")[2] if failure.lineno is not None else failure.msg
    return MalformedFile(path, f"not valid RDF ({problem.strip() or failure.msg})", "correct the statement there", line)
