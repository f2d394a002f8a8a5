"""`blockhole answers`: exact answers to a path query over a graph."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from blockhole.cli.output import JsonFlag, print_json, stderr

app = typer.Typer(add_completion=False)


@app.command()
def answers(
    data: Annotated[str, typer.Argument(metavar="NAME|FILE", help="A named data set, a folder, or a file of facts.")],
    query: Annotated[str, typer.Argument(metavar="QUERY", help="Such as William/^fatherOf/brotherOf/fatherOf.")],
    split: Annotated[
        Literal["all", "train"], typer.Option(help="Walk over all facts, or over those of train only.")
    ] = "all",
    json: JsonFlag = False,
) -> None:
    """Print every entity that the path leads to from its source, one a line, sorted by name.

    A query is a source and then relations, separated by /. ^ before a relation takes it backwards; a name with spaces
    or slashes goes into double quotes or < >.
    """
    from blockhole.data.dataset import load
    from blockhole.queries.exact import answers as exact_answers
    from blockhole.queries.language import encode, parse

    parsed = parse(query)  # a query that cannot be read should not wait for the graph
    facts = load(data).split
    graph = facts.graph("train") if split == "train" else facts.graph("train", "valid", "test")
    names = sorted(graph.entities[entity] for entity in exact_answers(graph, *encode(parsed, graph)))
    if json:
        print_json({"query": str(parsed), "answers": names, "count": len(names)})
        return
    for name in names:
        typer.echo(name)
    stderr().print(f"{len(names)} answer{'s' * (len(names) != 1)} to {parsed}", soft_wrap=True)
