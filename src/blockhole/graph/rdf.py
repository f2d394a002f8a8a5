"""Turtle, TriG and RDF/XML as columns of names.

pyoxigraph parses and prints canonical N-Triples, a batch at a time, which are then taken apart as columns. Blank nodes
are renamed in order of appearance (`_:train0`, `_:train1`, … in train.ttl): most have no label in these formats,
and the labels a parser invents differ from run to run.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, final

from blockhole.graph.compressed import FAULTS, decompression_error, open_decompressed
from blockhole.graph.formats import FileFormat, Layout, bare_name
from blockhole.graph.ntriples import canonical_terms, name_terms, odd_term, spell, syntax_error

if TYPE_CHECKING:
    import polars as pl
    import pyoxigraph

BATCH = 100_000


@final
class LineByLine:
    """Hands a file to a parser one line at a time, so that `line` is where the parser stands."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.line = 0

    def read(self, size: int = -1) -> bytes:
        """The next line, or the next `size` bytes of it."""
        data = self._file.readline(size)
        self.line += data.endswith(b"\n") or not data
        return data


def read_rdf(path: Path, file_format: FileFormat) -> Iterator[pl.DataFrame]:
    """The triples of a file, batch by batch: columns source, relation, target. Graphs of TriG are united."""
    renamed: dict[str, str] = {}
    for spelled in _canonical_batches(path, file_format):
        terms, odd_row = canonical_terms(spelled, quads=True)
        if odd_row is not None:
            raise odd_term(path, None, spelled.split("\n")[odd_row])
        yield _rename_blank_nodes(name_terms(terms), renamed, bare_name(path))


def _canonical_batches(path: Path, file_format: FileFormat) -> Iterator[str]:
    layout = file_format.layout
    with open_decompressed(path, file_format.compression) as file:
        reader = LineByLine(file)
        quads = _parser(reader if layout is Layout.RDF_XML else file, layout)
        try:
            while batch := list(islice(quads, BATCH)):
                yield spell(batch, quads=True)
        except SyntaxError as failure:
            # pyoxigraph tells no line for RDF/XML.
            line = failure.lineno if layout is not Layout.RDF_XML else max(1, reader.line)
            raise syntax_error(path, failure, line) from None
        except FAULTS as fault:
            raise decompression_error(path, fault, None) from None


def _parser(file: IO[bytes] | LineByLine, layout: Layout) -> Iterator[pyoxigraph.Quad]:
    import pyoxigraph

    formats = {
        Layout.TURTLE: pyoxigraph.RdfFormat.TURTLE,
        Layout.TRIG: pyoxigraph.RdfFormat.TRIG,
        Layout.RDF_XML: pyoxigraph.RdfFormat.RDF_XML,
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
