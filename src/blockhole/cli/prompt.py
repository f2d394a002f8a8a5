"""The prompt of `blockhole ask RUN`: queries in, answers out, with completion and history.

Python's own readline does both; prompt_toolkit would draw nicer menus, but is one more package to install and to keep.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, final

from blockhole.cli.output import print_answers, stderr, stdout
from blockhole.errors import BlockholeError, counted
from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.graph.vocabulary import NameIndex, Vocabulary
from blockhole.queries.language import pieces, write_name

if TYPE_CHECKING:
    from blockhole.answering.answers import Status
    from blockhole.answering.engine import Engine
    from blockhole.answering.search import Candidates

_PROMPT = "? "
_LONGEST_HISTORY = 1000
_SHOWN = 50
"""Names that Tab offers at most."""


def open_prompt(engine: Engine, top: int, candidates: Candidates, only: Status | None) -> None:
    """Read queries until the end of input and print the answers; why a query has none is said."""
    graph = engine.graph
    stderr().print(
        f"{counted(graph.num_entities, 'entity', 'entities')}, {counted(graph.num_relations, 'relation')}. "
        "A query is a source and then relations, such as William/^fatherOf; Tab completes a name, Ctrl-D ends."
    )
    with _line_editing(Completer(graph)):
        while True:
            try:
                line = input(_PROMPT).strip()
            except (EOFError, KeyboardInterrupt):
                stderr().print()
                return
            if line:
                _answer(engine, line, top, candidates, only)


def _answer(engine: Engine, line: str, top: int, candidates: Candidates, only: Status | None) -> None:
    try:
        print_answers(engine.ask(line, top=top, candidates=candidates, only=only))
    except BlockholeError as failure:  # a query that this run has no answer to does not end the prompt
        stderr().print(str(failure))


@contextmanager
def _line_editing(completer: Completer) -> Iterator[None]:
    """Completion and history while the block runs, where the system has readline."""
    from rich.columns import Columns
    from rich.markup import escape

    try:
        import readline
    except ImportError:  # Windows
        yield
        return

    def complete(text: str, state: int) -> str | None:
        found = completer.complete(text)
        return found[state] if state < len(found) else None

    def show(_: str, found: Sequence[str], __: int) -> None:
        """The names alone, and below them the line as it stands; readline would repeat the line for each."""
        line, behind = readline.get_line_buffer(), readline.get_endidx()
        print()
        stdout().print(
            Columns([escape(each[pieces(each)[-1].column :]) for each in found], padding=(0, 2)), soft_wrap=False
        )
        print(_PROMPT + line, end="\b" * (len(line) - behind), flush=True)

    history = history_file()
    before = readline.get_completer(), readline.get_completer_delims()
    readline.set_completer(complete)
    readline.set_completer_delims("")  # a / may stand in a name too, so the completer takes the line apart
    readline.set_completion_display_matches_hook(show)
    readline.parse_and_bind("tab: complete")
    with suppress(OSError):
        readline.read_history_file(history)
    try:
        yield
    finally:
        readline.set_completion_display_matches_hook(None)
        readline.set_completer(before[0])
        readline.set_completer_delims(before[1])
        readline.set_history_length(_LONGEST_HISTORY)
        with suppress(OSError):
            history.parent.mkdir(parents=True, exist_ok=True)
            readline.write_history_file(history)


def history_file() -> Path:
    """Where queries are remembered: $XDG_STATE_HOME/blockhole/queries, by default under ~/.local/state."""
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "blockhole" / "queries"


@final
class Completer:
    """Knows the names of a graph; a name is found by its beginning, in capitals or not."""

    def __init__(self, graph: KnowledgeGraph) -> None:
        self._graph = graph
        self._entities = NameIndex(graph.entities.names)
        self._relations = NameIndex(graph.relations.names)

    def complete(self, line: str) -> list[str]:
        """What `line` may become by its last part, an entity or a hop; names are written as queries hold them."""
        typed = pieces(line)[-1]
        if typed.finished:  # a ) is behind it, and no name can follow
            return []
        if typed.kind == "entity":
            names = _beginning(self._entities, self._graph.entities, typed.name)
        else:
            names = _beginning(self._relations, self._graph.relations, typed.name)
        return [line[: typed.name_column] + name for name in names]


def _beginning(index: NameIndex, names: Vocabulary, typed: str) -> list[str]:
    return [write_name(names[i]) for i in index.beginning(typed, _SHOWN)]
