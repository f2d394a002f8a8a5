"""The `blockhole` command: its chapters of verbs, its warnings, and its exit statuses."""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any, TextIO, final

import typer
from typer.core import TyperGroup

from blockhole.cli import ask, data, demo, export, measure, serve, train

MOVED = {
    "reproduce": "python -m experiments reproduce",
    "results": "python -m experiments results",
}
"""Verbs of version 0.1.0 that are elsewhere now."""

TRAINING = ("train", "demo", "reproduce", "grid")
"""Verbs that train, here and in the experiments, and so may run out of memory for the size of a model."""


@final
class Verbs(TyperGroup):
    """The verbs of a command line; what is wrong with an option is said in the words of all other messages."""

    def invoke(self, ctx: Any) -> Any:
        """Run the verb that was asked for."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as refused:
            refused.message = _in_our_words(refused)
            raise


def _in_our_words(refused: typer.BadParameter) -> str:
    """What an option must be, where it was pydantic that refused its value."""
    errors = getattr(refused.__cause__, "errors", None)
    if errors is None:
        return refused.message
    from blockhole.errors import ought_to_be

    fault = errors()[0]
    if fault["type"] == "value_error":  # a word that is not among those of the option, which are listed
        return str(fault["ctx"]["error"])
    return f"it must be {ought_to_be(fault)}, not {str(fault['input'])[:60]}."


app = typer.Typer(name="blockhole", cls=Verbs, no_args_is_help=True, add_completion=False)
for chapter in (demo, data, train, measure, ask, serve, export):
    app.add_typer(chapter.app)


def _print_version(wanted: bool) -> None:
    if wanted:
        from blockhole import __version__

        typer.echo(f"blockhole {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Answer path queries over knowledge graphs that miss edges."""


@final
class _Notes(logging.Handler):
    """Prints notes as they are, one line each."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print one."""
        sys.stderr.write(f"{record.getMessage()}\n")


@contextmanager
def _plain_notes() -> Iterator[None]:
    """Print what readers note about their files."""
    from blockhole.errors import NOTES

    logger, handler = logging.getLogger(NOTES), _Notes()
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


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
    run(app, given, "blockhole")


def run(app: Callable[..., object], arguments: list[str], name: str) -> None:
    """Run a Typer application under `name`; a failure that the user can act on ends it with one line and status 1."""
    from blockhole.errors import BlockholeError, FailedElsewhere

    try:
        with _plain_warnings(), _plain_notes():
            app(arguments, prog_name=name)
    except FailedElsewhere:
        sys.exit(1)
    except BlockholeError as failure:
        sys.stderr.write(f"error: {failure}\n")
        sys.exit(1)
    except (MemoryError, RuntimeError) as failure:
        from blockhole.machine import explain_out_of_memory

        explanation = explain_out_of_memory(failure, training=bool(arguments) and arguments[0] in TRAINING)
        if explanation is None:
            raise
        sys.stderr.write(f"error: {explanation}\n")
        sys.exit(1)
