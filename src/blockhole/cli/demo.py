"""`blockhole demo`: the paper's Figure 1 on the bundled royal family, BlockHolE beside ComplEx."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from blockhole.cli.output import JsonFlag, print_json, stderr, stdout

if TYPE_CHECKING:
    from blockhole.data.dataset import DataSet
    from blockhole.runs.run import Run

app = typer.Typer(add_completion=False)

QUERIES = {
    "b": "William/^fatherOf/brotherOf/fatherOf",
    "c": "William/brotherOf/^fatherOf/fatherOf",
}
"""The two relation paths of Figure 1: children of William's paternal uncles; children of his brother's father."""

PEOPLE = ("Beatrice", "Eugenie", "William", "Harry")
"""Of the figure's people: the answers to (b), then those to (c)."""

MODELS: dict[str, dict[str, Any]] = {
    "blockhole": {},
    "complex": {"model.name": "complex", "model.dim": 64},
}
"""What is set beyond the defaults: ComplEx, which is BlockHolE with one block, gets the width of the other."""


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the two runs; what an earlier demo left there is replaced.")] = (
        Path("runs/demo")
    ),
    seed: Annotated[int, typer.Option(help="Decides the initial weights and every draw.")] = 0,
    json: JsonFlag = False,
) -> None:
    """Train BlockHolE and ComplEx on the royal family, and ask both the two queries of the paper's Figure 1.

    The edge Charles fatherOf William is held out of training: following edges, (b) leads to nobody and (c) to Harry.
    """
    from blockhole.data.dataset import load

    family = load("family")
    report: dict[str, Any] = {"queries": QUERIES, "true": _true_answers(family), "models": {}}
    for name in MODELS:
        run = _train(family, name, out / name, seed)
        report["models"][name] = _answers(run) | {"run": str(run.folder), "seconds": round(run.state.seconds, 1)}
    if json:
        print_json(report)
    else:
        _print(report)


def _train(family: DataSet, name: str, folder: Path, seed: int) -> Run:
    import shutil

    from blockhole.cli.training_progress import TrainingBar
    from blockhole.fitting import train
    from blockhole.runs.run import is_run

    if is_run(folder):
        shutil.rmtree(folder)
    stderr().print(f"training {name} on the royal family …")
    with TrainingBar() as bar:
        return train(
            family,
            settings={**MODELS[name], "training.seed": seed},
            out=folder,
            progress=bar,
        )


def _true_answers(family: DataSet) -> dict[str, list[str]]:
    """What each query leads to when no edge is missing."""
    from blockhole.queries.exact import answers
    from blockhole.queries.language import encode

    graph = family.split.graph("train", "valid", "test")
    return {
        letter: sorted(graph.entities[entity] for entity in answers(graph, *encode(query, graph)).tolist())
        for letter, query in QUERIES.items()
    }


def _answers(run: Run) -> dict[str, Any]:
    """Each query's ranking of the figure's people, its best answers, and how far the two queries' scores differ."""
    from blockhole.answering.engine import Engine

    engine = Engine.open(run)
    # Among all entities: with his father's edge held out, William is none of those that fatherOf is known to take.
    ranked = {
        letter: engine.ask(query, top=engine.graph.num_entities, candidates="all") for letter, query in QUERIES.items()
    }
    scores = {letter: {answer.entity: answer.score for answer in answers} for letter, answers in ranked.items()}
    order = {letter: [answer.entity for answer in answers] for letter, answers in ranked.items()}
    return {
        "ranks": {letter: {name: order[letter].index(name) + 1 for name in PEOPLE} for letter in QUERIES},
        "answers": {letter: answers[:4].to_dicts() for letter, answers in ranked.items()},
        "largest_difference": max(abs(score - scores["c"][entity]) for entity, score in scores["b"].items()),
    }


def _print(report: dict[str, Any]) -> None:
    from rich.table import Table

    console = stdout()
    for letter, query in QUERIES.items():
        console.print(f"({letter}) {query}   true: {', '.join(report['true'][letter])}")
    table = Table(title="rank among all entities; ✓ marks a true answer", title_justify="left")
    table.add_column("")
    for name in MODELS:
        for letter in QUERIES:
            table.add_column(f"{name} ({letter})", justify="right")
    for person in PEOPLE:
        cells = [
            f"{'✓ ' if person in report['true'][letter] else ''}{report['models'][name]['ranks'][letter][person]}"
            for name in MODELS
            for letter in QUERIES
        ]
        table.add_row(person, *cells)
    console.print(table)
    for name in MODELS:
        result = report["models"][name]
        console.print(
            f"{name}: trained in {result['seconds']} s; (b) and (c) score the same entity up to "
            f"{result['largest_difference']:.2g} apart"
        )
    runs = [quote(result["run"]) for result in report["models"].values()]
    console.print(f"ask it more: blockhole ask {runs[0]}", soft_wrap=True)
    console.print(f"in the browser: blockhole serve {' '.join(runs)}", soft_wrap=True)
