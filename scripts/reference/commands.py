"""docs/reference/commands.md: every command with its help, arguments, options and defaults."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any, get_type_hints

import typer

from blockhole.cli.main import app
from scripts.reference.markdown import cell, code, table, type_name

HEAD = """# Commands

Written by `python -m scripts.reference` from the program's own help; a test fails when it is stale.

Every command takes `--json` and then prints exactly one JSON object on standard output; progress and warnings go to
standard error. A failure that you can do something about is one line, and exit status 1; wrong usage is exit status 2.
`blockhole --version` prints the version, and `--help` after any command shows what stands here.
"""


def commands_page() -> str:
    sections = [HEAD]
    verbs: dict[str, Any] = getattr(typer.main.get_command(app), "commands", {})
    rows = ((f"[`{verb}`](#blockhole-{verb})", command.short_help or command.help) for verb, command in verbs.items())
    sections.append(table(("command", "what it does"), rows))
    for verb, command in verbs.items():
        sections.extend(_sections(f"blockhole {verb}", command, "##"))
    return "\n".join(sections)


def _sections(name: str, command: Any, heading: str) -> Iterator[str]:
    if not command.help:
        raise SystemExit(f"{name} has no help text")
    inner = getattr(command, "commands", {})
    if inner:
        yield f"{heading} {name}\n\n{command.help}\n"
        for word, each in inner.items():
            yield from _sections(f"{name} {word}", each, heading + "#")
        return
    hints = get_type_hints(inspect.unwrap(command.callback))
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    options = [each for each in command.params if each.param_type_name == "option" and each.opts != ["--json"]]
    usage = " ".join([name, *map(_usage_word, arguments), *(["[OPTIONS]"] if options else [])])
    yield f"{heading} {name}\n\n```text\n{usage}\n```\n\n{inspect.cleandoc(command.help)}\n"
    rows = [_row(name, each, hints[each.name]) for each in (*arguments, *options)]
    if rows:
        yield table(("argument or option", "type", "default", "meaning"), rows)


def _usage_word(argument: Any) -> str:
    word = argument.metavar or argument.name.upper()
    word = word.rstrip(".…") + "…" if argument.nargs == -1 else word
    return word if argument.required else f"[{word}]"


def _row(command: str, parameter: Any, hint: object) -> tuple[str, ...]:
    if not parameter.help:
        raise SystemExit(f"{command}: {parameter.name} has no help text")
    argument = parameter.param_type_name == "argument"
    name = code(_usage_word(parameter).strip("[]") if argument else ", ".join(parameter.opts)).replace("|", "\\|")
    if not argument and parameter.is_flag:
        return name, "flag", "", cell(parameter.help)
    shown = type_name(hint).replace("list of", "repeatable", 1)
    default = "required" if parameter.required else "" if parameter.default is None else code(str(parameter.default))
    return name, cell(shown), default, cell(parameter.help)
