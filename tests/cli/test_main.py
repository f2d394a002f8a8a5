"""The root of the command line: help, version, verbs, exit statuses."""

from __future__ import annotations

import gc
import inspect
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest
import torch
from typer.main import get_command

from blockhole import __version__
from blockhole.cli.ask import _query_text
from blockhole.cli.main import UNCOLLECTED, app, main, run
from blockhole.data.reviews import read_decisions
from blockhole.errors import BlockholeError
from blockhole.files.formats import listed_names, read_prefixes
from blockhole.machine import explain_out_of_memory
from blockhole.runs.config import gather
from blockhole.serving.settings import read_key

VERBS: dict[str, Any] = getattr(get_command(app), "commands", {})


def _status(*arguments: str) -> int:
    with pytest.raises(SystemExit) as stop:
        main(list(arguments))
    return 0 if stop.value.code is None else int(stop.value.code)


def test_commands_look_for_cycles_less_often_than_python_would() -> None:
    before = gc.get_threshold()
    gc.set_threshold(700)
    try:
        assert _status("--version") == 0
        assert gc.get_threshold()[0] == UNCOLLECTED > 10_000
    finally:
        gc.set_threshold(*before)


def test_help_names_every_verb_with_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert _status("--help") == 0
    shown = capsys.readouterr().out
    assert len(VERBS) >= 17
    for verb, command in VERBS.items():
        assert verb in shown
        assert (command.short_help or command.help).split(",")[0].split(":")[0][:40] in shown


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert _status("--version") == 0
    assert capsys.readouterr().out == f"blockhole {__version__}\n"


def test_python_runs_the_package_as_the_command() -> None:
    command = [sys.executable, "-m", "blockhole", "--version"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == f"blockhole {__version__}\n"


def test_an_unknown_verb_is_wrong_usage_and_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert _status("evalaute") == 2
    assert "Did you mean 'evaluate'?" in capsys.readouterr().err


@pytest.mark.parametrize(("command", "said"), [
    ("train facts.tsv --out run", "(facts.tsv); if it is the data, write --data facts.tsv "),
    ("evaluate run facts.tsv", "(facts.tsv); if it is the data, write --data facts.tsv "),
    ("answers facts.tsv a/r b", "(b) "),
])  # fmt: skip
def test_a_word_too_many_may_be_the_data(command: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert _status(*command.split()) == 2
    assert f"Got unexpected extra argument(s) {said}" in " ".join(capsys.readouterr().err.replace("│", " ").split())


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert _status(verb, "--help") == 0
    assert f"blockhole {verb}" in capsys.readouterr().out


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb != "mcp"])  # which speaks JSON alone
def test_every_command_takes_json(verb: str) -> None:
    for command in getattr(VERBS[verb], "commands", {verb: VERBS[verb]}).values():
        options = [option for parameter in command.params for option in parameter.opts]
        assert "--json" in options, f"{verb} {command.name} has no --json"


def test_paragraphs_of_help_fill_the_window() -> None:
    for name, command in _commands().items():
        assert not re.search(r"[^\n]\n[^\n]", command.help), name


def _commands() -> dict[str, Any]:
    """Every command, those of `data` under their two words."""
    found = {}
    for verb, command in VERBS.items():
        for word, inner in getattr(command, "commands", {"": command}).items():
            found[f"{verb} {word}".strip()] = inner
    return found


@pytest.mark.parametrize(
    "command", [name for name, each in _commands().items() if any("--seed" in option.opts for option in each.params)]
)
def test_a_seed_below_0_is_refused_before_anything_is_done(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["a", "b"] if command == "compare" else [] if command in ("demo", "data family", "train") else ["a"]
    options = ["--out", "x"] if command.startswith("data") or command == "train" else []
    options += ["--people", "3"] if command == "data family" else ["--data", "family"] if command == "train" else []
    status = _status(*command.split(), *arguments, *options, "--seed", "-1")
    shown = capsys.readouterr().err
    if command == "train":  # its options are settings, and checked as these are
        assert status == 1
        assert shown.startswith("error: training.seed = -1 cannot be used: it must be at least 0")
    else:
        assert status == 2
        assert "Invalid value for '--seed': it must be at least 0, not -1." in shown
    assert not Path("x").exists()


def _wrong_numbers() -> Iterator[tuple[str, str, str, str]]:
    """Every option of every command that takes a number, with what it cannot be, and what it must be."""
    for name, command in _commands().items():
        hints = get_type_hints(inspect.unwrap(command.callback), include_extras=True)
        for argument, hint in hints.items():
            numbers = {int, float} & {get_args(hint)[0], *get_args(get_args(hint)[0])} if get_args(hint) else set()
            for number in numbers:
                info = get_args(hint)[1]
                option = f"--{argument.replace('_', '-')}"
                yield name, option, "many", "a whole number" if number is int else "a number"
                if number is int:
                    yield name, option, "1.5", "a whole number"
                if info.min is not None:
                    yield name, option, str(info.min - 1), f"at least {info.min}"
                if info.max is not None:
                    yield name, option, str(info.max + 1), f"at most {info.max}"


@pytest.mark.parametrize(("command", "option", "value", "must_be"), list(_wrong_numbers()))
def test_a_wrong_number_is_refused_in_our_own_words(
    command: str, option: str, value: str, must_be: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _status(*command.split(), option, value) == 2
    shown = re.sub(r"[│\s]+", " ", capsys.readouterr().err)
    assert f"Invalid value for '{option}': it must be {must_be}, not {value}." in shown


def _choices() -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Every option of every command that takes one of a few words, and the words."""
    for name, command in _commands().items():
        hints = get_type_hints(inspect.unwrap(command.callback), include_extras=True)
        for argument, hint in hints.items():
            kind = get_args(hint)[0] if get_args(hint) else hint
            for each in (kind, *get_args(kind)):
                if get_origin(each) is Literal:
                    yield name, f"--{argument.replace('_', '-')}", get_args(each)


@pytest.mark.parametrize(("command", "option", "words"), list(_choices()))
def test_a_word_that_is_no_choice_is_refused_in_our_own_words(
    command: str, option: str, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert _status(*command.split(), option, "foo") == 2
    shown = re.sub(r"[│\s]+", " ", capsys.readouterr().err)
    listed = " or ".join((", ".join(words[:-1]), words[-1])).removeprefix(" or ")
    assert f"Invalid value for '{option}'" in shown
    assert f"': it must be {listed}, not foo." in shown


def test_choices_are_among_the_options() -> None:
    assert {("evaluate", "--task"), ("ask", "--candidates"), ("ask", "--only"), ("index", "--kind")} <= {
        each[:2] for each in _choices()
    }


LONG = "x" * 5000


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((LONG,), "No such command"),
        ((f"--{LONG}",), "No such option"),
        (("ask", "run", "query", f"--{LONG}"), "No such option"),
        (("ask", "run", "query", "--candidates", LONG), "it must be typed or all, not"),
        (("ask", "run", "query", "--top", LONG), "it must be a whole number, not"),
        (("ask", LONG, "query"), "no file has so long a name; check it."),
        (("ask", "/".join([LONG[:200]] * 9), "query"), "there is no run x"),
        (("show", LONG), "no file has so long a name; check it."),
        (("train", "--data", LONG, "--out", "x"), "no file has so long a name"),
        (("train", "--data", "family", "--model", LONG, "--out", "x"), "unknown model"),
        (("train", "--data", "family", "--out", LONG), "no file has so long a name"),
        (("train", "--data", "family", "--out", "x", "--set", LONG), "cannot read the setting"),
        (("train", "--data", "family", "--out", "x", "--set", f"{LONG}=1"), "there is no setting x"),
        (("train", "--data", "family", "--out", "x", "--device", LONG), "is not a device"),
        (("answers", "family", f"{LONG}/a"), "unknown entity 'x"),
        (("data", "stats", LONG), "no file has so long a name"),
        (("export", "run", "--to", LONG), "is neither parquet, npz, faiss nor"),
    ],
)
def test_no_message_repeats_an_endless_word(
    arguments: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _status(*arguments) in (1, 2)
    shown = re.sub(r"[│\s]+", " ", capsys.readouterr().err)
    assert said in shown
    assert len(shown.replace(" ", "")) < 1000, shown


def test_numbers_of_every_kind_are_among_the_options() -> None:
    found = list(_wrong_numbers())
    assert len(found) > 40
    assert {("train", "--learning-rate"), ("ask", "--top"), ("serve", "--port")} <= {each[:2] for each in found}


@pytest.mark.parametrize("verb", ["reproduce", "results"])
@pytest.mark.parametrize("rest", [(), ("--help",), ("ranking", "--data", "wn11")])
def test_a_verb_that_has_moved_says_where(verb: str, rest: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert _status(verb, *rest) == 2
    assert capsys.readouterr() == (
        "",
        f"error: `blockhole {verb}` is now `python -m experiments {verb}`, in a copy of the repository.\n",
    )


def test_a_failure_the_user_can_act_on_is_one_line_and_status_1(capsys: pytest.CaptureFixture[str]) -> None:
    def fail(arguments: list[str], prog_name: str) -> None:
        raise BlockholeError("the disk is full; free some space.")

    with pytest.raises(SystemExit) as stop:
        run(fail, ["x"], "blockhole")
    assert stop.value.code == 1
    captured = capsys.readouterr()
    assert captured.err == "error: the disk is full; free some space.\n"
    assert captured.out == ""


@pytest.mark.slow
def test_a_model_that_memory_has_no_room_for_is_one_line(tmp_path: Path) -> None:
    program = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_AS, (12 * 10**9,) * 2); "
        "from blockhole.cli.main import main; main(sys.argv[1:])"
    )
    size = ("--blocks", "2", "--block-size", "50000000")
    done = subprocess.run(
        [sys.executable, "-c", program, "train", "--data", "family", *size, "--out", str(tmp_path / "run")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert re.fullmatch(
        r"error: there is not enough memory: \d+ GiB more needed; choose a narrower model or .*\n", done.stderr
    )


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (MemoryError("std::bad_alloc"), "there is not enough memory; choose"),
        (
            torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.50 GiB. GPU 0 has a total of …"),
            "there is not enough memory on the GPU: 20.50 GiB more needed; choose",
        ),
        (
            RuntimeError(
                "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: "
                "you tried to allocate 11504000000 bytes. Error code 12 (Cannot allocate memory)"
            ),
            "there is not enough memory: 11504000000 bytes more needed; choose",
        ),
        (RuntimeError("shapes differ"), None),
    ],
)
def test_what_is_said_for_want_of_memory(failure: Exception, expected: str | None) -> None:
    said = explain_out_of_memory(failure)
    assert said is None if expected is None else said is not None and said.startswith(expected)


@pytest.mark.parametrize(("verb", "about_models"), [("train", True), ("data", False), ("answers", False)])
def test_advice_for_want_of_memory_fits_the_verb(
    verb: str, about_models: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(arguments: list[str], prog_name: str) -> None:
        raise MemoryError

    with pytest.raises(SystemExit):
        run(fail, [verb], "blockhole")
    assert ("model" in capsys.readouterr().err) == about_models


TEXTS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "settings.toml": ("[training]\nepochs = 3\n", lambda path: gather(file=path)),
    "settings.json": ('{"training": {"epochs": 3}}', lambda path: gather(file=path)),
    "settings.yaml": ("training:\n  epochs: 3\n", lambda path: gather(file=path)),
    "query.rq": ("SELECT ?x { :a :r ?x }", lambda path: _query_text(str(path))),
    "key": ("a-long-word\n", read_key),
    "entities.txt": ("first\nsecond\n", listed_names),
    "prefixes.json": ('{"ex": "http://x/"}', lambda path: read_prefixes(path.parent)),
    "list.csv": ("source,relation,target,decision\na,r,b,accept\n", lambda path: read_decisions(path).rows()),
    "list.jsonl": (
        '{"source": "a", "relation": "r", "target": "b", "decision": "reject"}\n',
        lambda path: read_decisions(path).rows(),
    ),
}
"""Texts that people write, and what reads them."""


@pytest.mark.parametrize("name", TEXTS)
def test_a_byte_order_mark_belongs_to_no_text(name: str, tmp_path: Path) -> None:
    text, read = TEXTS[name]
    (tmp_path / name).write_text(text, encoding="utf-8")
    plain = read(tmp_path / name)
    (tmp_path / name).write_text(text, encoding="utf-8-sig")
    assert read(tmp_path / name) == plain
