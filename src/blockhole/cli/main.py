"""The `blockhole` command: its chapters of verbs, its warnings, and its exit statuses."""

from __future__ import annotations

import gc
import logging
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, suppress
from inspect import cleandoc
from pathlib import Path
from typing import Annotated, Any, TextIO, cast, final

import typer
from typer.core import TyperGroup

from blockhole.cli import ask, data, demo, export, measure, review, serve, train, tune

MOVED = {
    "reproduce": "python -m experiments reproduce",
    "results": "python -m experiments results",
}
"""Verbs of version 0.1.0 that are elsewhere now."""

TRAINING = ("train", "tune", "demo", "reproduce", "grid")
"""Verbs that train, here and in the experiments, and so may run out of memory for the size of a model."""

UNCOLLECTED = 50_000
"""New objects before Python looks for cycles among them, and now and then among all that is loaded. There are next to
none; at the usual 700, looking took a fifth of the time of `blockhole ask`, a tenth of a short training, and a seventh
of a busy server's, whose requests all waited meanwhile."""

_WRONG_USAGE: Any = typer.BadParameter.__mro__[1]
"""Whatever is wrong with the words of a command, which Typer does not name in public."""


@final
class Verbs(TyperGroup):
    """The verbs of a command line; what is wrong with an option is said in the words of all other messages."""

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        """Read what stands before the verb."""
        with _in_our_words():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: Any) -> Any:
        """Run the verb that was asked for."""
        with _in_our_words():
            return super().invoke(ctx)


@contextmanager
def _in_our_words() -> Iterator[None]:
    """Say what an option must be, where it was pydantic that refused its value, and repeat no endless word."""
    try:
        yield
    except _WRONG_USAGE as refused:
        from blockhole.errors import shortened

        refused.message = shortened(_ought_to_be(refused.__cause__) or refused.message + _data_is_an_option(refused))
        raise


def _data_is_an_option(refused: Any) -> str:
    """What to write instead, where one word too many stands in a command that takes its data as an option."""
    extra = re.fullmatch(r"Got unexpected extra argument.*? \((\S+)\)", refused.message)
    if extra is None or not any("--data" in each.opts for each in refused.ctx.command.params):
        return ""
    return f"; if it is the data, write --data {extra[1]}"


def _ought_to_be(cause: Any) -> str | None:
    if not hasattr(cause, "errors"):
        return None
    from blockhole.errors import listed, ought_to_be

    fault = cause.errors()[0]
    if fault["type"] != "value_error":
        return f"it must be {ought_to_be(fault)}, not {fault['input']}."
    problem = str(fault["ctx"]["error"])
    # Typer's: 'foo' is not one of 'all', 'train'.
    words = re.findall(r"'([^']+)'", problem.rpartition(" is not one of ")[2])
    return f"it must be {listed(words)}, not {fault['input']}." if words else problem


app = typer.Typer(name="blockhole", cls=Verbs, no_args_is_help=True, add_completion=False)
for chapter in (demo, data, train, tune, measure, ask, review, serve, export):
    app.add_typer(chapter.app)


def _fill_lines(app: typer.Typer) -> None:
    """Let paragraphs of help fill the window: Typer would break their lines where the source does."""
    for group in app.registered_groups:
        if group.typer_instance is not None:
            _fill_lines(group.typer_instance)
    for verb in app.registered_commands:
        paragraphs = cleandoc(verb.help or (verb.callback and verb.callback.__doc__) or "").split("\n\n")
        verb.help = "\n\n".join(" ".join(each.split()) for each in paragraphs)


_fill_lines(app)


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
    gc.set_threshold(UNCOLLECTED)
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        sys.stdout, sys.stderr = sys.stdout or nowhere, sys.stderr or nowhere  # which a shell may have closed
        with redirect_stderr(cast("TextIO", _Unheard(sys.stderr))):
            _run(app, arguments, name)


@final
class _Unheard:
    """Standard error, on which what finds no room is lost: notes are not worth the work that they tell of."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write what there is room for."""
        with suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Pass on what can be."""
        with suppress(OSError):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _run(app: Callable[..., object], arguments: list[str], name: str) -> None:
    from blockhole.errors import BlockholeError, FailedElsewhere

    try:
        with _plain_warnings(), _plain_notes():
            try:
                app(arguments, prog_name=name)
            finally:
                sys.stdout.flush()  # what has no room on its disk is said now, not after the end
    except FailedElsewhere:
        sys.exit(1)
    except BlockholeError as failure:
        sys.stderr.write(f"error: {failure}\n")
        sys.exit(1)
    except OSError as failure:
        from blockhole.saving import system_failure

        refusal = system_failure(failure)
        if refusal is None:
            raise
        sys.stderr.write(f"error: {refusal}\n")
        if failure.filename is None:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # which is flushed once more at the end
        sys.exit(1)
    except (MemoryError, RuntimeError) as failure:
        from blockhole.machine import explain_out_of_memory

        explanation = explain_out_of_memory(failure, training=bool(arguments) and arguments[0] in TRAINING)
        if explanation is None:
            raise
        sys.stderr.write(f"error: {explanation}\n")
        sys.exit(1)
