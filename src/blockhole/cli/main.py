"""The `blockhole` command: one verb a module, each imported when it is used."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Annotated, TextIO

import typer

VERBS: dict[str, tuple[str, str]] = {
    # verb → (module, help line); the module's `app` is the Typer application of the verb.
    "demo": ("blockhole.cli.demo", "Train on the bundled family graph and ask the paper's two queries."),
    "data": ("blockhole.cli.data", "List, fetch, describe, split, build, convert and pack data sets."),
    "answers": ("blockhole.cli.answers", "Exact answers to a path query over a graph."),
    "train": ("blockhole.cli.train", "Train a model into a run folder."),
    "merge": ("blockhole.cli.merge", "Merge runs into one whose scores are the sum of theirs."),
    "show": ("blockhole.cli.show", "Say what a run is, with its training curves."),
    "evaluate": ("blockhole.cli.evaluate", "Measure a run: ranking, classification, triples, completion."),
    "compare": ("blockhole.cli.compare", "Compare runs side by side, with significance."),
    "calibrate": ("blockhole.cli.calibrate", "Fit what turns a run's scores into probabilities."),
    "ask": ("blockhole.cli.ask", "Ranked answers to a path query, known and predicted."),
    "check": ("blockhole.cli.check", "Whether a path holds between two entities."),
    "explain": ("blockhole.cli.explain", "Why an entity is an answer: chains of entities along the path."),
    "paths": ("blockhole.cli.paths", "Which relation paths connect two entities."),
    "serve": ("blockhole.cli.serve", "Answer over HTTP, with an explorer page."),
    "ask-database": ("blockhole.cli.ask_database", "Answers out of a database that a run was exported to."),
    "index": ("blockhole.cli.index", "Build the index that answers are searched with."),
    "export": ("blockhole.cli.export", "Write a run's vectors for other tools and databases."),
}

MOVED = {
    "reproduce": "python -m experiments reproduce",
    "results": "python -m experiments results",
}
"""Verbs of version 0.1.0 that are elsewhere now."""


def _print_version(wanted: bool) -> None:
    if wanted:
        from blockhole import __version__

        typer.echo(f"blockhole {__version__}")
        raise typer.Exit


def _root_app() -> typer.Typer:
    """The application behind `blockhole --help`: it knows the verbs' names and help lines, not their modules."""
    app = typer.Typer(name="blockhole", no_args_is_help=True, add_completion=False)

    @app.callback()
    def root(
        version: Annotated[
            bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
        ] = False,
    ) -> None:
        """Answer path queries over knowledge graphs that miss edges."""

    for verb, (_, line) in VERBS.items():
        app.command(verb, help=line)(_not_called)
    return app


def _not_called() -> None:
    """Stands for a verb in the list of commands; `main` calls the verb's own application."""


def _application(arguments: list[str]) -> tuple[Callable[..., object], list[str], str]:
    if arguments and arguments[0] in VERBS:
        module, _ = VERBS[arguments[0]]
        return import_module(module).app, arguments[1:], f"blockhole {arguments[0]}"
    return _root_app(), arguments, "blockhole"


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Print the warnings meant for users as one line each; all others keep their usual form."""
    from blockhole.errors import BlockholeWarning

    with warnings.catch_warnings():
        usual = warnings.showwarning

        def show(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if issubclass(category, BlockholeWarning):
                sys.stderr.write(f"warning: {message}\n")
            else:
                usual(message, category, filename, lineno, file, line)

        warnings.showwarning = show
        warnings.simplefilter("always", BlockholeWarning)
        yield


def main(arguments: list[str] | None = None) -> None:
    """Run the command line: exit 0, 1 for a failure the user can act on (one clear line), 2 for wrong usage."""
    given = sys.argv[1:] if arguments is None else arguments
    if given and given[0] in MOVED:
        sys.stderr.write(f"error: `blockhole {given[0]}` is now `{MOVED[given[0]]}`, in a copy of the repository.\n")
        sys.exit(2)
    run(*_application(given))


def run(app: Callable[..., object], arguments: list[str], name: str) -> None:
    """Run a Typer application under `name`; a failure that the user can act on ends it with one line and status 1."""
    from blockhole.errors import BlockholeError, FailedElsewhere

    try:
        with _plain_warnings():
            app(arguments, prog_name=name)
    except FailedElsewhere:
        sys.exit(1)
    except BlockholeError as failure:
        sys.stderr.write(f"error: {failure}\n")
        sys.exit(1)
    except (MemoryError, RuntimeError) as failure:
        from blockhole.machine import explain_out_of_memory

        explanation = explain_out_of_memory(failure)
        if explanation is None:
            raise
        sys.stderr.write(f"error: {explanation}\n")
        sys.exit(1)
