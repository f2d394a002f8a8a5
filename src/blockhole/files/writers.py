"""Graphs into files: the suffix picks the format, and a file appears whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import numpy as np

from blockhole.errors import DataError, checked, quoted
from blockhole.files.columns import ColumnNames, Literals
from blockhole.files.formats import PREFIXES, WRITABLE, FileFormat, Layout, format_of, open_compressed
from blockhole.files.rdf import is_iri, node_terms, parse, relation_terms
from blockhole.files.readers import read_split
from blockhole.files.tables import SAMPLE, name_facts, reads_as_facts
from blockhole.graph.knowledge_graph import KnowledgeGraph, SplitGraph
from blockhole.saving import replacing

if TYPE_CHECKING:
    import polars as pl


ROWS = 1_000_000
_FIRST = SAMPLE // 6  # no row is shorter
BYTE_ORDER_MARK = "\ufeff"  # at the start of a file it belongs to no name
_MAKE_ONE = "one split, or several together, is a graph: split.graph('train', 'valid', 'test')"


@checked
def write_graph(graph: Annotated[KnowledgeGraph, _MAKE_ONE], path: Path | str) -> None:
    """Write the facts as Parquet, TSV, CSV, N-Triples, Turtle or JSON-LD; text may be compressed, as in `.tsv.gz`.

    Names that are no IRIs become `urn:blockhole:` IRIs in RDF, and names again when read (see `rdf`); blank nodes keep
    their labels in N-Triples alone. Turtle has the prefixes that the graph was read with.
    Entities without facts appear in none of these formats.
    """
    path = Path(path)
    file_format = writable_format(path)
    with replacing(path) as temporary:
        if file_format.layout is Layout.PARQUET:
            name_facts(graph.entities.names, graph.relations.names, graph.triples).write_parquet(temporary)
        elif file_format.layout in _RDF:
            _write_rdf(graph, temporary, file_format)
        else:
            _write_delimited(graph, temporary, path, file_format)


def writable_format(path: Path) -> FileFormat:
    """The format that the suffix of `path` names; raises `DataError` where it can only be read."""
    file_format = format_of(path)
    if file_format.layout not in WRITABLE:
        raise DataError(
            f"{path}: this format is read, but not written; write .tsv, .csv, .parquet, .nt, .ttl or .jsonld."
        )
    return file_format


def write_split(split: SplitGraph, folder: Path) -> None:
    """Write `train.txt`, `valid.txt`, `test.txt`, `entities.txt` and `relations.txt` into a folder.

    Valid and test get a fourth column of labels where there are negatives; a split without facts gets no file.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for stem, vocabulary in (("entities", split.entities), ("relations", split.relations)):
        path = folder / f"{stem}.txt"
        _refuse_control_characters(vocabulary.names, path)
        with replacing(path) as temporary:
            mark = BYTE_ORDER_MARK * any(name.startswith(BYTE_ORDER_MARK) for name in vocabulary.names[:1])
            temporary.write_text(mark + "".join(f"{name}\n" for name in vocabulary), encoding="utf-8", newline="")
    if split.entities.prefixes:
        with replacing(folder / PREFIXES) as temporary:
            temporary.write_text(json.dumps(split.entities.prefixes, indent=1) + "\n", encoding="utf-8")
    none = split.train[:0]
    parts = {
        "train": (split.train, none),
        "valid": (split.valid, split.valid_negatives),
        "test": (split.test, split.test_negatives),
    }
    for stem, (positives, negatives) in parts.items():
        if not len(positives) + len(negatives):
            continue
        facts = name_facts(split.entities.names, split.relations.names, np.concatenate([positives, negatives]))
        if len(negatives):
            facts = facts.with_columns(label=np.repeat([1, -1], [len(positives), len(negatives)]))
        with replacing(folder / f"{stem}.txt") as temporary, temporary.open("wb") as file:
            _write_rows(facts, file, Layout.TSV)


def _write_delimited(graph: KnowledgeGraph, temporary: Path, path: Path, file_format: FileFormat) -> None:
    if file_format.layout is Layout.TSV:
        _refuse_control_characters((*graph.entities, *graph.relations), path)
    facts = name_facts(graph.entities.names, graph.relations.names, graph.triples)
    with open_compressed(temporary, file_format.compression) as file:
        _write_rows(facts, file, file_format.layout)


def _write_rows(facts: pl.DataFrame, file: IO[bytes], layout: Layout) -> None:
    import polars as pl

    if layout is Layout.CSV:
        facts.write_csv(file, include_header=True, separator=",", quote_style="always")
        return
    # TSV goes without a header, as is usual for graphs. Labels tell a first fact that reads like one from a header, and
    # a byte order mark one that belongs to a name.
    first = facts[:_FIRST].write_csv(include_header=False, separator="\t", quote_style="never")
    if "label" not in facts.columns and not reads_as_facts(first.encode()):
        facts = facts.with_columns(label=pl.lit(1))
    if first.startswith(BYTE_ORDER_MARK):
        file.write(BYTE_ORDER_MARK.encode())
    facts.write_csv(file, include_header=False, separator="\t", quote_style="never")


def _refuse_control_characters(names: Sequence[str], path: Path) -> None:
    bad = next((name for name in names if not {"\t", "\n", "\r"}.isdisjoint(name)), None)
    if bad is not None:
        raise DataError(
            f"{path}: the name {quoted(bad)} holds a tab or a line break, which TSV cannot hold; "
            "write .parquet, .csv or .nt."
        )


_RDF = (Layout.N_TRIPLES, Layout.TURTLE, Layout.JSON_LD)


def _write_rdf(graph: KnowledgeGraph, temporary: Path, file_format: FileFormat) -> None:
    import pyoxigraph

    formats = {Layout.TURTLE: pyoxigraph.RdfFormat.TURTLE, Layout.JSON_LD: pyoxigraph.RdfFormat.JSON_LD}
    with open_compressed(temporary, file_format.compression) as file:
        if file_format.layout is Layout.N_TRIPLES:
            file.writelines(_ntriples(graph))
            return
        lines = (parse(block.decode(), quads=False) for block in _ntriples(graph))
        prefixes = {prefix: iri for prefix, iri in graph.entities.prefixes.items() if is_iri(iri)}
        layout = formats[file_format.layout]
        pyoxigraph.serialize((quad.triple for quads in lines for quad in quads), file, format=layout, prefixes=prefixes)


def _ntriples(graph: KnowledgeGraph) -> Iterator[bytes]:
    """The facts in canonical N-Triples, many lines at a time."""
    import polars as pl

    # RDF has no literals as subjects; an entity keeps one spelling throughout, so it is then no literal anywhere.
    may_be_literal = np.ones(graph.num_entities, dtype=bool)
    may_be_literal[graph.triples[:, 0]] = False
    entities = node_terms(graph.entities, may_be_literal.tolist())
    relations = relation_terms(graph.relations)
    for first in range(0, len(graph), ROWS):
        terms = name_facts(entities, relations, graph.triples[first : first + ROWS]).with_columns(end=pl.lit("."))
        yield terms.write_csv(include_header=False, separator=" ", quote_style="never").encode()


def convert(
    source: Path, destination: Path, *, columns: ColumnNames | None = None, literals: Literals | None = None
) -> dict[str, object]:
    """Write the facts of `source`, read as `read_split` does, to the file `destination`, in the format of its suffix.

    The facts of a folder are those of its train, valid and test files, in this order; facts labelled -1 are left out.
    """
    file_format = writable_format(destination)
    if destination.exists() and source.exists() and destination.samefile(source):
        raise DataError(f"{destination}: is the file to convert; name another one to write.")
    graph = read_split(source, columns=columns, literals=literals).graph("train", "valid", "test")
    write_graph(graph, destination)
    return {
        "source": str(source),
        "destination": str(destination),
        "format": file_format.layout.value,
        "entities": graph.num_entities,
        "relations": graph.num_relations,
        "facts": len(graph),
    }
