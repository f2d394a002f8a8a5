"""`blockhole ask`: ranked answers to a path query."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from blockhole.cli.output import JsonFlag, print_json, stdout

if TYPE_CHECKING:
    from blockhole.answering.answers import Answers

app = typer.Typer(add_completion=False)


@app.command()
def ask(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run.")],
    query: Annotated[str, typer.Argument(help="Such as William/^fatherOf/brotherOf/fatherOf.")],
    top: Annotated[int, typer.Option(help="How many answers.")] = 10,
    candidates: Annotated[
        Literal["typed", "all"], typer.Option(help="Answers that the last relation takes in the graph, or any entity.")
    ] = "typed",
    only: Annotated[Literal["known", "predicted"] | None, typer.Option(help="Leave out the other answers.")] = None,
    json: JsonFlag = False,
) -> None:
    """Print the best answers to a query: known where the graph leads there, else predicted by the model."""
    from time import perf_counter

    from blockhole.answering.engine import Engine

    engine = Engine.open(run)
    began = perf_counter()
    answers = engine.ask(query, top=top, candidates=candidates, only=only)
    milliseconds = 1000 * (perf_counter() - began)
    if json:
        print_json({"query": answers.query, "answers": answers.to_dicts(), "milliseconds": round(milliseconds, 3)})
    else:
        print_answers(answers)


def print_answers(answers: Answers) -> None:
    """Print answers as people read them."""
    from rich.table import Table
    from rich.text import Text

    table = Table("answer", "score", "probability", "status", box=None, pad_edge=False, header_style="bold")
    for column in table.columns[1:3]:
        column.justify = "right"
    for answer in answers:
        probability = "" if answer.probability is None else f"{answer.probability:.3f}"
        table.add_row(Text(answer.entity), f"{answer.score:.3f}", probability, answer.status)
    stdout().print(table if len(answers) else "no answers")
