"""What the tests of graph files share: names of all kinds, and facts as plain Python tuples."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import strategies as st

from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.graph.vocabulary import Vocabulary

if sys.version_info >= (3, 14):
    from compression.zstd import compress as compress_zstd
else:
    from backports.zstd import compress as compress_zstd

__all__ = [
    "Fact", "any_name", "compress_zstd", "fact_lists", "facts_of", "graph_of", "line_name", "odd_names", "small_blocks",
]  # fmt: skip

Fact = tuple[str, str, str]

PECULIAR = (
    "a b", " ", "é", "e\u0301", '"', '""', '"Alice"@en', '"5"^^<http://www.w3.org/2001/XMLSchema#int>', "_:b0", "_:",
    "http://example.org/a", "urn:blockhole:x", "urn:blockhole:", "%41", "a/b", "<a:b>", "\\", "#", ",", "'", "𝄞",
    "\ufeff", "NULL", "NaN", "null", "1", "-1", "source", "relation", "target", "\x00", "\x85", "\u2028",
    "x:y z", "**r", "^r",
)  # fmt: skip

odd_names = pytest.mark.filterwarnings("ignore::blockhole.files.tables.OddNames")
"""For tests of names of all kinds, some of which are warned about."""

any_name = st.one_of(st.text(st.characters(codec="utf-8"), min_size=1, max_size=8), st.sampled_from(PECULIAR))
line_name = any_name.filter(lambda name: {"\t", "\n", "\r"}.isdisjoint(name))


def fact_lists(names: st.SearchStrategy[str]) -> st.SearchStrategy[list[Fact]]:
    """One to twenty facts over a few names, so that names and facts repeat."""
    pool = st.lists(names, min_size=1, max_size=6)
    return pool.flatmap(lambda few: st.lists(st.tuples(*[st.sampled_from(few)] * 3), min_size=1, max_size=20))


def graph_of(facts: Iterable[Fact]) -> KnowledgeGraph:
    """A graph by dictionaries: names numbered in reading order, source before target."""
    facts = list(facts)
    entities = {name: i for i, name in enumerate(dict.fromkeys(name for s, _, t in facts for name in (s, t)))}
    relations = {name: i for i, name in enumerate(dict.fromkeys(r for _, r, _ in facts))}
    triples = np.array([(entities[s], relations[r], entities[t]) for s, r, t in facts], dtype=np.int32)
    return KnowledgeGraph(Vocabulary(entities), Vocabulary(relations, "relation"), triples)


def facts_of(graph: KnowledgeGraph) -> list[Fact]:
    """The facts of a graph in names, one tuple each."""
    return [(graph.entities[s], graph.relations[r], graph.entities[t]) for s, r, t in graph.triples.tolist()]


@contextmanager
def small_blocks(size: int) -> Iterator[None]:
    """Let readers work in blocks of `size` bytes: what they read must not depend on it."""
    with patch("blockhole.files.formats.BLOCK_BYTES", size), patch("blockhole.files.formats.READ_BYTES", size):
        yield
