"""Arguments and options that several verbs share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

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
NamesOption = Annotated[
    Literal["full", "short", "label"],
    typer.Option(help="How to print IRIs: as they are, with the file's prefixes, or by their rdfs:label."),
]
TableOption = Annotated[str, typer.Option(help="Table of the database.")]
