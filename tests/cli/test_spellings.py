"""One language at every door: where a name, a hop or a path is taken, every spelling of it gives the same result."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import blockhole
from blockhole.answering.engine import Engine
from blockhole.answering.known import neighbourhood
from blockhole.answering.query_files import read_queries
from blockhole.cli.main import main
from blockhole.measuring import relation_pair
from blockhole.queries.language import encode_hop
from blockhole.queries.path_sets import read_paths

PLACE = "http://example.org/place/"
BESIDE = "http://example.org/beside"
"""A relation that a query must enclose, as it must the places; `near` is one that it need not."""

ENTITY = (PLACE + "3", f"<{PLACE}3>", f'"{PLACE}3"', f" <{PLACE}3> ")
"""Ways to write an entity that stands alone."""
QUOTED = ENTITY[1:]
"""Ways to write it in a query."""
NEAR = ("near", '"near"', "<near>", "^^near", "**^near", "near^-1^-1", "^near^-1")
NEAR_INVERSE = ("^near", "**near", "near^-1", "^^^near", '^"near"', "<near>^-1")
BESIDE_INVERSE = (f"^<{BESIDE}>", f'**"{BESIDE}"', f"<{BESIDE}>^-1", f"^^^<{BESIDE}>")
IN_COLUMNS = (*BESIDE_INVERSE, f"^{BESIDE}", f"**{BESIDE}", f"^^^{BESIDE}")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run over places in a ring, calibrated."""
    folder = tmp_path_factory.mktemp("spellings")
    facts = [(f"{PLACE}{i}", relation, f"{PLACE}{(i * step + 1) % 30}") for i in range(30) for relation, step in
             ((BESIDE, 1), ("near", 7))]  # fmt: skip
    (folder / "data").mkdir()
    for part, rows in {
        "train": [fact for i, fact in enumerate(facts) if i % 5 != 1 and i not in (44, 45)],
        "valid": facts[1::5],
        "test": facts[44:46],
    }.items():
        (folder / "data" / f"{part}.tsv").write_text("".join("\t".join(fact) + "\n" for fact in rows), encoding="utf-8")
    settings = {"training.epochs": 2, "training.threads": 1, "training.device": "cpu", "model.dim": 8}
    blockhole.train(folder / "data", settings=settings, out=folder / "run")
    return folder / "run"


@pytest.fixture(scope="module")
def engine(run: Path) -> Engine:
    return Engine.open(run)


@pytest.fixture
def printed(run: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    def printed(verb: str, *arguments: object) -> Any:
        with pytest.raises(SystemExit) as stop:
            main([verb, str(run), *map(str, arguments), "--json"])
        out, err = capsys.readouterr()
        assert not stop.value.code, err
        return {key: value for key, value in json.loads(out).items() if key not in ("milliseconds", "seconds")}

    return printed


# Doors that take an entity alone


def _by_columns(engine: Engine, folder: Path, source: str, *hops: str) -> object:
    path = folder / "queries.tsv"
    path.write_text("\t".join((source, *hops)) + "\n", encoding="utf-8")
    return read_queries(path, engine)


def _by_path_file(engine: Engine, folder: Path, source: str, path: str, target: str) -> object:
    file = folder / "paths.tsv"
    file.write_text(f"{source}\t{path}\t{target}\n", encoding="utf-8")
    queries = read_paths(file, engine.graph.entities, engine.graph.relations)
    return [getattr(queries, part).tolist() for part in ("source", "path", "length", "target")]


ENTITY_DOORS: dict[str, Callable[[Engine, Path, str], object]] = {
    "check": lambda engine, _, entity: blockhole.check(engine, "<http://example.org/place/2>/near", entity),
    "explain": lambda engine, _, entity: blockhole.explain(engine, "<http://example.org/place/2>/near", entity),
    "paths from": lambda engine, _, entity: blockhole.paths(engine, entity, PLACE + "4", max_length=2),
    "paths to": lambda engine, _, entity: blockhole.paths(engine, PLACE + "4", entity, max_length=2),
    "facts about": lambda engine, _, entity: neighbourhood(engine.graph, entity),
    "a column of a query file": lambda engine, folder, entity: _by_columns(engine, folder, entity, "near"),
    "a source in a path file": lambda engine, folder, entity: _by_path_file(
        engine, folder, entity, "near", PLACE + "1"
    ),
    "a target in a path file": lambda engine, folder, entity: _by_path_file(
        engine, folder, PLACE + "1", "near", entity
    ),
}


@pytest.mark.parametrize("door", ENTITY_DOORS)
def test_an_entity(door: str, engine: Engine, tmp_path: Path) -> None:
    first, *others = (ENTITY_DOORS[door](engine, tmp_path, spelling) for spelling in ENTITY)
    assert first
    assert others == [first] * len(others)


@pytest.mark.parametrize("verb", ["check", "explain", "paths"])
def test_an_entity_on_the_command_line(verb: str, printed: Callable[..., Any]) -> None:
    before = (PLACE + "2",) if verb == "paths" else (f"<{PLACE}2>/near",)
    first, *others = (printed(verb, *before, spelling) for spelling in ENTITY)
    assert first
    assert others == [first] * len(others)


# Doors that take a hop or a path

HOP_DOORS: dict[str, Callable[[Engine, Path, str], object]] = {
    "a column of a query file": lambda engine, folder, hop: _by_columns(engine, folder, PLACE + "3", "near", hop),
    "a path file": lambda engine, folder, hop: _by_path_file(engine, folder, PLACE + "3", hop, PLACE + "4"),
    "between commas": lambda engine, folder, hop: _by_path_file(
        engine, folder, PLACE + "3", f"near,{hop}", PLACE + "4"
    ),
    "the facts of one relation": lambda engine, _, hop: encode_hop(hop, engine.graph.relations),
}
QUERY_DOORS: dict[str, Callable[[Engine, Path, str], object]] = {
    "ask": lambda engine, _, hop: engine.ask(f"<{PLACE}3>/near/{hop}"),
    "ask many": lambda engine, _, hop: engine.ask_many([f"<{PLACE}3>/near/{hop}"]),
    "check": lambda engine, _, hop: engine.check(f"<{PLACE}3>/near/{hop}", PLACE + "4"),
    "explain": lambda engine, _, hop: blockhole.explain(engine, f"<{PLACE}3>/near/{hop}", PLACE + "4"),
    "query vector": lambda engine, _, hop: engine.query_vector(f"<{PLACE}3>/near/{hop}").tolist(),
    "a line of a query file": lambda engine, folder, hop: _by_columns(engine, folder, f"<{PLACE}3>/near/{hop}"),
    "between slashes": lambda engine, folder, hop: _by_path_file(
        engine, folder, PLACE + "3", f"near/{hop}", PLACE + "4"
    ),
    "an order": lambda engine, _, hop: relation_pair(f"near/{hop}", engine.graph),
}


@pytest.mark.parametrize(
    "spellings", [NEAR, NEAR_INVERSE, BESIDE_INVERSE], ids=["near", "inverse of near", "inverse of an IRI"]
)
@pytest.mark.parametrize("door", [*HOP_DOORS, *QUERY_DOORS])
def test_a_hop(door: str, spellings: tuple[str, ...], engine: Engine, tmp_path: Path) -> None:
    go = (HOP_DOORS | QUERY_DOORS)[door]
    first, *others = (go(engine, tmp_path, spelling) for spelling in spellings)
    assert first is not None
    assert others == [first] * len(others)


@pytest.mark.parametrize("door", HOP_DOORS)
def test_a_hop_that_stands_alone_needs_no_quotes(door: str, engine: Engine, tmp_path: Path) -> None:
    first, *others = (HOP_DOORS[door](engine, tmp_path, spelling) for spelling in IN_COLUMNS)
    assert others == [first] * len(others)


@pytest.mark.parametrize("spelling", BESIDE_INVERSE)
def test_exact_answers(spelling: str, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for source in QUOTED:
        with pytest.raises(SystemExit):
            main(["answers", str(run.parent / "data"), f"{source}/{spelling}"])
        assert capsys.readouterr().out == PLACE + "2\n"


@pytest.mark.parametrize("path", ["^near", "near^-1", "^^^near", "**near", '^"near"'])
def test_a_folder_of_path_files_alone(path: str, tmp_path: Path) -> None:
    """Such a folder names its relations itself: an inverse, however it is written, is not a further one."""
    for part in ("train", "dev_deduction", "dev_induction", "test_deduction", "test_induction"):
        (tmp_path / f"{part}.tsv").write_text(f"a\tnear\tb\nb\t{path}\ta\nb\tnear,{path}\tb\n", encoding="utf-8")
    data = blockhole.load(tmp_path)
    assert list(data.split.relations) == ["near"]
    assert data.split.train.tolist() == [[0, 0, 1]]
    assert data.paths("train").path.tolist() == [[0, 0], [1, 0], [0, 1]]
