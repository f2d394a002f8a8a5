"""Completion of a path query that is being typed: entity names first, then relations."""

from __future__ import annotations

from typing import final

from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.graph.vocabulary import NameIndex, Vocabulary
from blockhole.queries.language import pieces, write_name

_SHOWN = 50


@final
class Completer:
    """Knows the names of a graph; a name is found by its beginning, in capitals or not."""

    def __init__(self, graph: KnowledgeGraph) -> None:
        self._graph = graph
        self._entities = NameIndex(graph.entities.names)
        self._relations = NameIndex(graph.relations.names)

    def complete(self, line: str) -> list[str]:
        """What `line` may become by its last part, the source or a hop; names are written as queries hold them."""
        typed = pieces(line)[-1]
        if typed.kind == "entity":
            return _beginning(self._entities, self._graph.entities, typed.name)
        names = _beginning(self._relations, self._graph.relations, typed.name)
        return [line[: typed.name_column] + name for name in names]


def _beginning(index: NameIndex, names: Vocabulary, typed: str) -> list[str]:
    return [write_name(names[i]) for i in index.beginning(typed, _SHOWN)]
