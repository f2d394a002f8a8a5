"""`blockhole ask-database`: answers out of a database that a run was exported to."""

from __future__ import annotations

from typing import Annotated

import typer

from blockhole.cli.output import JsonFlag, print_json, stdout

app = typer.Typer(add_completion=False)


@app.command()
def ask_database(
    address: Annotated[str, typer.Argument(help="postgresql://…, where `blockhole export` wrote a run.")],
    query: Annotated[str, typer.Argument(help="Such as William/^fatherOf/brotherOf/fatherOf.")],
    top: Annotated[int, typer.Option(help="How many answers.")] = 10,
    table: Annotated[str, typer.Option(help="Table of the database.")] = "blockhole_entity",
    json: JsonFlag = False,
) -> None:
    """Print the best answers among all entities. No run is needed here: all comes from the database."""
    from blockhole.answering.export import DatabaseQueries

    answers = DatabaseQueries(address, table).ask(query, top)
    if json:
        print_json({"query": query, "answers": [answer._asdict() for answer in answers]})
        return
    for entity, score in answers:
        stdout().print(f"{score:10.3f}  {entity}", soft_wrap=True)
