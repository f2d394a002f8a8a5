"""Arguments and options that several verbs share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from blockhole.answering.engine import Engine
    from blockhole.answering.search import Deadline

RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run.")]
QueryArgument = Annotated[str, typer.Argument(help="Such as William/^fatherOf/brotherOf/fatherOf.")]
CandidatesOption = Annotated[
    Literal["typed", "all"],
    typer.Option(help="What a hop may lead to: entities that its relation takes in the graph, or all."),
]
TopOption = Annotated[int, typer.Option(help="How many answers.")]
ColumnsOption = Annotated[
    str | None,
    typer.Option(
        metavar="S,R,O",
        help="Columns of source, relation and target: names, or numbers from 1 (default: told by the header).",
    ),
]
LiteralsOption = Annotated[
    str | None,
    typer.Option(
        metavar="keep|drop|IRI,…",
        help="RDF literals: keep all, drop all, or keep the objects of these (default: keep).",
    ),
]
FactsOption = Annotated[
    Path | None, typer.Option("--facts", help="File of additional facts, which may be about new entities.")
]
DeadlineOption = Annotated[
    float | None,
    typer.Option(metavar="SECONDS", help="End a search that takes longer, with an error (default: none does)."),
]
NamesOption = Annotated[
    Literal["full", "short", "label"],
    typer.Option(help="How to print IRIs: as they are, with the file's prefixes, or by their rdfs:label."),
]
TableOption = Annotated[str, typer.Option(help="Table of the database.")]


def deadline_in(seconds: float | None) -> Deadline:
    """So many seconds from now, or none."""
    from blockhole.answering.search import UNLIMITED
    from blockhole.answering.search import Deadline as Moment

    if seconds is None:
        return UNLIMITED
    if not seconds > 0:
        raise typer.BadParameter(f"must be a number of seconds above 0, not {seconds:g}", param_hint="--deadline")
    return Moment(seconds)


def refuse_idle(option: str, *, given: bool, use: str, used: bool) -> None:
    """Refuse an option that would change nothing: `use` says what it is for, `used` whether that is asked for."""
    if given and not used:
        raise typer.BadParameter(f"it is for {use} alone; leave it out here", param_hint=option)


def engine_with(run: Path, facts: Path | None, columns: str | None, *, quietly: bool = False) -> Engine:
    """The engine of a run, with the facts of a file added; `quietly` if the verb says later what it lacks."""
    import blockhole

    refuse_idle("--columns", given=columns is not None, use="a file of --facts", used=facts is not None)
    engine = blockhole.Engine.opened(run) if quietly else blockhole.Engine.open(run)
    if facts is None:
        return engine
    from blockhole.answering.new_facts import with_facts  # it loads torch, which most questions need not wait for

    return with_facts(engine, blockhole.read_graph(facts, columns=columns))
