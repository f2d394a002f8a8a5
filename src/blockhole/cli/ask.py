"""`blockhole ask`: ranked answers to path queries."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from blockhole.cli.answer_table import print_answers
from blockhole.cli.output import JsonFlag, print_json, stdout

if TYPE_CHECKING:
    from blockhole.answering.answers import Status
    from blockhole.answering.engine import Candidates, Engine
    from blockhole.queries.language import Query

app = typer.Typer(add_completion=False)


@app.command()
def ask(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run.")],
    query: Annotated[
        str | None,
        typer.Argument(help="Such as William/^fatherOf/brotherOf/fatherOf; without one, a prompt opens."),
    ] = None,
    top: Annotated[int, typer.Option(help="How many answers.")] = 10,
    candidates: Annotated[
        Literal["typed", "all"], typer.Option(help="Answers that the last relation takes in the graph, or any entity.")
    ] = "typed",
    only: Annotated[Literal["known", "predicted"] | None, typer.Option(help="Leave out the other answers.")] = None,
    file: Annotated[Path | None, typer.Option(help="Queries: a TSV file, or JSON lines.")] = None,
    out: Annotated[Path | None, typer.Option(help="Where answers to --file go: .parquet or .jsonl.")] = None,
    facts: Annotated[
        Path | None, typer.Option("--facts", help="A file of further facts, which may be about new entities.")
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Print the best answers to a query: known where the graph leads there, else predicted by the model.

    New facts count as known at once; an entity that the run has never seen is placed by its facts.
    """
    if file is not None and query is not None:
        raise typer.BadParameter("give a query or a file of them, not both", param_hint="--file")
    if (file is None) != (out is None):
        raise typer.BadParameter("--file and --out go together", param_hint="--out")
    if json and file is None and query is None:
        raise typer.BadParameter("--json needs a query or a file of them", param_hint="--json")
    from blockhole.answering.engine import Engine, check_top
    from blockhole.answering.query_files import check_answers_file, check_queries, read_queries

    check_top(top)
    queries = read_queries(file) if file is not None else {}
    if out is not None:
        check_answers_file(out)
    engine = Engine.open(run)
    if facts is not None:
        from blockhole.answering.new_facts import with_facts
        from blockhole.files.readers import read_graph

        engine = with_facts(engine, read_graph(facts))
    if file is not None and out is not None:
        check_queries(file, queries, engine)
        _answer_file(engine, list(queries.values()), out, top, candidates, only, json)
    elif query is not None:
        _answer(engine, query, top, candidates, only, json)
    else:
        from blockhole.cli.prompt import open_prompt

        open_prompt(engine, top, candidates, only)


def _answer(
    engine: Engine,
    query: str,
    top: int,
    candidates: Candidates,
    only: Status | None,
    json: bool,
) -> None:
    from dataclasses import asdict
    from time import perf_counter

    from blockhole.answering.answers import AnswersReport

    began = perf_counter()
    answers = engine.ask(query, top=top, candidates=candidates, only=only)
    milliseconds = 1000 * (perf_counter() - began)
    if json:
        print_json(asdict(AnswersReport(answers.query, answers.ranked, round(milliseconds, 3))))
    else:
        print_answers(answers)


def _answer_file(
    engine: Engine,
    queries: list[Query],
    out: Path,
    top: int,
    candidates: Candidates,
    only: Status | None,
    json: bool,
) -> None:
    from time import perf_counter

    from blockhole.answering.query_files import write_answers

    began = perf_counter()
    answers = engine.ask_many(queries, top=top, candidates=candidates, only=only)
    milliseconds = 1000 * (perf_counter() - began)
    write_answers(out, answers)
    count = sum(map(len, answers))
    if json:
        report = {"queries": len(queries), "answers": count, "out": str(out), "milliseconds": round(milliseconds, 3)}
        print_json(report)
    else:
        stdout().print(
            f"{count:,} answers to {len(queries):,} queries in {milliseconds / 1000:.2f} s: {out}",
            soft_wrap=True,
        )
