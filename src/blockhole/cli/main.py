"""The `blockhole` command: one verb a module, each imported when it is used."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

import click
from typer.main import get_command

VERBS: dict[str, tuple[str, str]] = {
    # verb → (module, help line); the module's `app` is the Typer application of the verb.
    "data": ("blockhole.cli.data", "List, fetch, describe, build and convert data sets."),
    "answers": ("blockhole.cli.answers", "Exact answers to a path query over a graph."),
    "train": ("blockhole.cli.train", "Train a model into a run folder."),
    "show": ("blockhole.cli.show", "Say what a run is, with its training curves."),
    "evaluate": ("blockhole.cli.evaluate", "Measure a run: ranking, classification, triples, completion."),
    "compare": ("blockhole.cli.compare", "Compare runs side by side, with significance."),
}


class _Verbs(click.Group):
    """Imports a verb's module when the verb is called, so that `blockhole --help` stays fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        module, _ = VERBS[cmd_name]
        command = get_command(import_module(module).app)
        command.name = cmd_name
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if args and args[0] not in VERBS and not args[0].startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(args[0], VERBS, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else " See 'blockhole --help'."
            ctx.fail(f"No such command {args[0]!r}.{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(verb, line) for verb, (_, line) in VERBS.items()])


def _print_version(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value:
        from blockhole import __version__

        click.echo(f"blockhole {__version__}")
        ctx.exit()


_ROOT = _Verbs(
    name="blockhole",
    help="Answer path queries over knowledge graphs that miss edges.",
    no_args_is_help=True,
    params=[
        click.Option(
            ["--version"], is_flag=True, is_eager=True, expose_value=False, callback=_print_version, help="Print the version."
        )
    ],
)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line: exit 0, 1 for a failure the user can act on (one clear line), 2 for wrong usage."""
    from blockhole.errors import BlockholeError

    try:
        status = _ROOT.main(args=arguments, prog_name="blockhole", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as help_wanted:
        help_wanted.show()
        sys.exit(2)
    except click.UsageError as wrong_usage:
        wrong_usage.show()
        sys.exit(2)
    except (click.Abort, KeyboardInterrupt):
        sys.stderr.write("interrupted\n")
        sys.exit(1)
    except click.ClickException as failure:
        failure.show()
        sys.exit(1)
    except BlockholeError as failure:
        sys.stderr.write(f"error: {failure}\n")
        sys.exit(1)
    except BrokenPipeError:
        sys.exit(1)
    sys.exit(status if isinstance(status, int) else 0)


