"""N-Triples and N-Quads, with pyoxigraph as the independent parser."""

from __future__ import annotations

import re
from pathlib import Path

import pyoxigraph as ox
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockhole.errors import DataError
from blockhole.files.columns import Reading
from blockhole.files.formats import Layout, format_of
from blockhole.files.rdf import PREFIX, read_ntriples, split_lines, take_apart
from blockhole.files.readers import read_graph
from tests.files.facts import Fact, facts_of, small_blocks

FORMATS = {Layout.N_TRIPLES: ox.RdfFormat.N_TRIPLES, Layout.N_QUADS: ox.RdfFormat.N_QUADS}


def name_of(term: object) -> str:
    return term.value if isinstance(term, ox.NamedNode) else str(term)


def by_pyoxigraph(content: bytes, layout: Layout) -> list[Fact]:
    quads = ox.parse(content, format=FORMATS[layout], lenient=True)
    return [(name_of(quad.subject), name_of(quad.predicate), name_of(quad.object)) for quad in quads]


def by_us(path: Path) -> list[Fact]:
    return [fact for block in read_ntriples(path, format_of(path), Reading()) for fact in block.iter_rows()]


iris = st.one_of(
    st.sampled_from(["http://example.org/a", "urn:x:é", "a:b%20c", "http://a/?q=1#f", "x:"]),
    st.text("abé/:#?&=%25", max_size=5).map(lambda tail: f"http://example.org/{tail.replace('%', '')}"),
)
spelled_iris = iris.map(lambda iri: f"<{iri}>") | st.sampled_from([r"<http://x/\u00e9>", r"<x:\U0001F600>"])
blanks = st.sampled_from(["_:a", "_:b.c", "_:1", "_:é", "_:a-", "_:a\u00b7"])
characters = st.characters(codec="utf-8", exclude_characters='"\\\n\r')
escapes = st.sampled_from([r"\t", r"\b", r"\n", r"\r", r"\f", r"\"", r"\'", r"\\", r"\u0041", r"\u0001", r"\U0001F600"])
strings = st.lists(characters | escapes, max_size=6).map(lambda parts: '"' + "".join(parts) + '"')
endings = st.one_of(
    st.sampled_from(["", "@en", "@EN-gb", "@en-latn-1", "@en--ltr", "^^<http://www.w3.org/2001/XMLSchema#string>"]),
    spelled_iris.map(lambda iri: f"^^{iri}"),
)
literals = st.builds(lambda string, ending: string + ending, strings, endings)
gaps = st.sampled_from([" ", " ", " ", "\t", "  "])
ends = st.sampled_from([" .", " .", " .", ".", "\t.", " . # said", " ."])
objects = spelled_iris | blanks | literals


@st.composite
def statements(draw: st.DrawFn, quads: bool) -> str:
    graph = draw(gaps) + draw(spelled_iris | blanks) if quads and draw(st.booleans()) else ""
    fact = draw(spelled_iris | blanks) + draw(gaps) + draw(spelled_iris) + draw(gaps) + draw(objects)
    return draw(st.sampled_from(["", "", " "])) + fact + graph + draw(ends)


@st.composite
def documents(draw: st.DrawFn, quads: bool) -> bytes:
    lines = draw(st.lists(statements(quads) | st.sampled_from(["", "# a comment", "  ", "\t# <a:b>"]), max_size=8))
    end = draw(st.sampled_from(["\n", "\r\n"]))
    return (end.join(lines) + end * draw(st.booleans())).encode()


@pytest.mark.parametrize("layout", FORMATS)
@given(data=st.data(), size=st.sampled_from([1, 30, 1 << 20]))
def test_documents_read_as_pyoxigraph_reads_them(
    layout: Layout, data: st.DataObject, size: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    content = data.draw(documents(quads=layout is Layout.N_QUADS))
    path = tmp_path_factory.mktemp("rdf") / f"facts.{layout}"
    path.write_bytes(content)
    with small_blocks(size):
        assert by_us(path) == by_pyoxigraph(content, layout)


@pytest.mark.parametrize("layout", FORMATS)
@given(data=st.data())
def test_damaged_documents_are_refused_as_pyoxigraph_refuses_them(
    layout: Layout, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    content = data.draw(documents(quads=layout is Layout.N_QUADS))
    at = data.draw(st.integers(0, len(content)))
    damaged = content[:at] + data.draw(st.text('<>"\\.@^_:# \n', max_size=2)).encode() + content[at + 1 :]
    path = tmp_path_factory.mktemp("rdf") / f"facts.{layout}"
    path.write_bytes(damaged)
    lines = re.split(rb"[\r\n]+", damaged)  # pyoxigraph lets terms go over several lines, the grammar does not
    try:
        odd = any(has_odd_term(quad) for line in lines for quad in ox.parse(line, format=FORMATS[layout], lenient=True))
    except SyntaxError:
        odd = True
    if odd:
        with pytest.raises(DataError):
            by_us(path)
    else:
        assert by_us(path) == by_pyoxigraph(damaged, layout)


def has_odd_term(quad: ox.Quad) -> bool:
    """Whether pyoxigraph, being lenient, let something pass that is no IRI by the grammar of N-Triples."""
    terms: list[object] = [quad.subject, quad.predicate, quad.object, quad.graph_name]
    literals = [term for term in terms if isinstance(term, ox.Literal)]
    terms += [literal.datatype for literal in literals]
    names = [term.value for term in terms if isinstance(term, ox.NamedNode)]
    forbidden = {*map(chr, range(33)), *'<>"{}|^`\\'}
    return any(not name or name.startswith("_:") or not forbidden.isdisjoint(name) for name in names)


@given(lines=st.lists(statements(quads=True), min_size=1))
def test_lines_in_canonical_spelling_are_taken_apart_as_columns(lines: list[str]) -> None:
    """The fast way is really taken: no line that pyoxigraph prints needs the full parser."""
    quads = ox.parse("\n".join(lines), format=ox.RdfFormat.N_QUADS, lenient=True)
    canonical = ox.serialize(quads, format=ox.RdfFormat.N_QUADS)
    assert canonical is not None
    _, fast = take_apart(split_lines(canonical.decode()), quads=True)
    assert fast.all()


def test_names_of_terms(tmp_path: Path) -> None:
    path = tmp_path / "facts.nt"
    path.write_text(
        f"<http://x/a> <http://x/r> <{PREFIX}a%20b> .\n"
        f'_:n <{PREFIX}r> "Alice"@EN .\n'
        f'<{PREFIX}> <{PREFIX}%FF> "5"^^<http://www.w3.org/2001/XMLSchema#string> .\n'
        f"<{PREFIX}http%3A%2F%2Fx%2Fa> <http://x/r> <relative> .\n"
    )
    assert facts_of(read_graph(path)) == [
        ("http://x/a", "http://x/r", "a b"),
        ("_:n", "r", '"Alice"@en'),
        (PREFIX, f"{PREFIX}%FF", '"5"'),
        ("http://x/a", "http://x/r", "relative"),
    ]


def test_order_and_duplicates_are_kept_across_both_ways_of_reading(tmp_path: Path) -> None:
    path = tmp_path / "facts.nt"
    path.write_text("<x:c> <x:r> <x:d> .\n<x:a>\t<x:r>\t<x:b>\t.\n# no fact\n<x:c> <x:r> <x:d> .\n<x:b><x:r><x:c>.\n")
    assert [source for source, _, _ in facts_of(read_graph(path))] == ["x:c", "x:a", "x:c", "x:b"]


def test_iris_need_not_obey_rfc_3986(tmp_path: Path) -> None:
    """Public dumps hold such IRIs; both ways of reading take them."""
    path = tmp_path / "facts.nt"
    path.write_text("<http://x/%zz> <x:r> <http://x/%zz> .\n<http://x/%zz>  <x:r> <http://x/%zz> .\n")
    assert facts_of(read_graph(path)) == [("http://x/%zz", "x:r", "http://x/%zz")] * 2
