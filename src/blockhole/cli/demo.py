"""`blockhole demo`: the paper's Figure 1 on the bundled royal family, BlockHolE beside ComplEx."""

from __future__ import annotations

import json as json_format
import shutil
import sys
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

import blockhole
from blockhole.cli.output import JsonFlag, print_json, print_whole, stderr, stdout
from blockhole.cli.serve import SERVER_PACKAGES

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


MARK = "demo.json"
"""In a run that the demo made: the SHA-256 of each of its files, by which the next demo knows it may replace it.

What a server adds when the run is explored is made again by the next one.
"""


@app.command(short_help="Train on the bundled family graph and ask the paper's two queries.")
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the two runs; what an earlier demo left there is replaced.")] = (
        Path("runs/demo")
    ),
    seed: Annotated[int, typer.Option(min=0, help="Seed of the initial weights and every draw.")] = 0,
    json: JsonFlag = False,
) -> None:
    """Train BlockHolE and ComplEx on the royal family, and ask both the two queries of the paper's Figure 1.

    The edge Charles fatherOf William is held out of training: following edges, (b) leads to nobody and (c) to Harry.
    """
    for name in MODELS:
        check_replaceable(out / name)
    family = blockhole.load("family")
    report: dict[str, Any] = {"queries": QUERIES, "true": _true_answers(family), "models": {}}
    for name in MODELS:
        run = _train(name, out / name, seed)
        report["models"][name] = _answers(run) | {"run": str(run.folder), "seconds": round(run.state.seconds, 1)}
    if json:
        print_json(report)
    else:
        _print(report)


def _train(name: str, folder: Path, seed: int) -> Run:
    """Train beside `folder` and move the run there when it is whole, so that no half of one is ever in its place."""
    from blockhole.cli.progress import TrainingBar
    from blockhole.errors import RunError
    from blockhole.saving import replacing_folder

    stderr().print(f"training {name} on the royal family …")
    with replacing_folder(folder) as made:
        try:
            with TrainingBar() as bar:
                settings = {**MODELS[name], "training.seed": seed}
                run = blockhole.train("family", settings=settings, out=made, progress=bar)
        except RunError as failure:  # people know the folder that they named, not the one beside it
            raise RunError(str(failure).replace(str(made), str(folder))) from failure
        if not run.complete:
            typer.echo("interrupted; start the demo again when you have two minutes.", err=True)
            raise typer.Exit(1)
        (made / MARK).write_text(json_format.dumps(_digests(made), indent=1) + "\n", encoding="utf-8")
        check_replaceable(folder)
    return blockhole.Run.open(folder)


def check_replaceable(folder: Path) -> None:
    """Refuse a folder with anything in it that an earlier demo did not leave there."""
    from blockhole.errors import NotARun

    if folder.parent.exists() and not folder.parent.is_dir():
        raise NotARun(f"{folder.parent} is a file; choose a folder with --out.")
    if folder.is_dir() and not folder.is_symlink() and (_is_of_demo(folder) or not any(folder.iterdir())):
        return
    if folder.exists() or folder.is_symlink():
        raise NotARun(
            f"{folder} holds something that the demo did not make and would replace; choose another folder with --out, "
            "or move it away."
        )


def _is_of_demo(folder: Path) -> bool:
    from blockhole.saving import read_json

    try:
        left = read_json(folder / MARK)
    except (OSError, ValueError):
        return False
    return bool(left == _digests(folder))


def _digests(folder: Path) -> dict[str, str]:
    from hashlib import sha256

    from blockhole.runs.folder import PICTURES

    left_out = {folder / name for name in (MARK, *PICTURES)}
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path not in left_out)
    return {path.relative_to(folder).as_posix(): sha256(path.read_bytes()).hexdigest() for path in files}


def _true_answers(family: DataSet) -> dict[str, list[str]]:
    """What each query leads to when no edge is missing."""
    return {letter: list(blockhole.answers(family, query).entities) for letter, query in QUERIES.items()}


def _answers(run: Run) -> dict[str, Any]:
    """How each query's composed vector ranks the figure's people, how far the two vectors differ, and the best answers.

    The vectors show what a model makes of the order of relations; answers rest on them and on the entities between.
    """
    engine = blockhole.Engine.open(run)
    scores = {letter: engine.composed_scores(query) for letter, query in QUERIES.items()}
    people = {name: engine.graph.entities.id(name) for name in PEOPLE}
    return {
        "ranks": {
            letter: {name: 1 + int((score > score[person]).sum()) for name, person in people.items()}
            for letter, score in scores.items()
        },
        # Among all entities: with his father's edge held out, William is none of those that fatherOf is known to take.
        "answers": {letter: engine.ask(query, top=4, candidates="all").to_dicts() for letter, query in QUERIES.items()},
        "largest_difference": float(abs(scores["b"] - scores["c"]).max()),
    }


def _print(report: dict[str, Any]) -> None:
    from importlib.util import find_spec

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
    print_whole(table)
    for name in MODELS:
        result = report["models"][name]
        console.print(
            f"{name}: trained in {result['seconds']} s; scores of an entity for (b) and (c) differ by up to "
            f"{result['largest_difference']:.2g}"
        )
    program = command_name()
    runs = [quote(result["run"]) for result in report["models"].values()]
    console.print(f"ask more: {program} ask {runs[0]}")
    if all(find_spec(package) for package in SERVER_PACKAGES):
        console.print(f"in the browser: {program} serve {' '.join(runs)}")


def command_name() -> str:
    """How this program is called from where it was started: by its name if that is on the path, else by where it is."""
    started, found = Path(sys.argv[0]), shutil.which("blockhole")
    if started.stem != "blockhole":  # python -m blockhole
        return f"{quote(sys.executable)} -m blockhole"
    if found is not None and Path(found).samefile(started):
        return "blockhole"
    return quote(str(started))
