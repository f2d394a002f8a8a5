"""Completion of a path query that is being typed: entity names first, then relations."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import final

from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.paths.language import write_name

_SHOWN = 50


@final
class Completer:
    """Knows the names of a graph; a name is found by its beginning, in capitals or not."""

    def __init__(self, graph: KnowledgeGraph) -> None:
        self._entities = _sorted(graph.entities.names)
        self._relations = _sorted(graph.relations.names)

    def complete(self, line: str) -> list[str]:
        """What the last part of `line`, after its last /, may become; written as queries hold names."""
        _, slash, last = line.rpartition("/")
        if not slash:
            return _beginning(self._entities, last)
        marks = last[: len(last) - len(last.lstrip("^* "))]
        return [marks + name for name in _beginning(self._relations, last[len(marks) :])]


def _sorted(names: Sequence[str]) -> list[tuple[str, str]]:
    return sorted((name.casefold(), name) for name in names)


def _beginning(names: list[tuple[str, str]], typed: str) -> list[str]:
    start = typed.lstrip(' "<').casefold()
    first = bisect_left(names, (start, ""))
    found = []
    for folded, name in names[first : first + _SHOWN]:
        if not folded.startswith(start):
            break
        found.append(write_name(name))
    return found
