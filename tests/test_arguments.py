"""Values that no public function takes are refused in one sentence, before anything begins."""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blockhole
from blockhole.answering.engine import Engine, Question
from blockhole.errors import BlockholeError, ConfigError, Count, DataError, check_argument, listed
from blockhole.runs.run import Run
from tests.answering.toys import make_engine

FUNCTIONS: dict[str, Callable[..., object]] = {
    name: getattr(blockhole, name)
    for name in blockhole.__all__
    if inspect.isfunction(getattr(blockhole, name))
}  # fmt: skip
OPENED = {"Run.open": Run.open, "Engine.open": Engine.open}
IN_IDS = {"answers", "encode_known", "evidence", "proposed", "proposes", "composed_shares", "spread", "value"}
"""Methods that other modules of the package ask in ids, which nobody types."""
METHODS = [
    name
    for name, _ in inspect.getmembers(Engine, inspect.isfunction)
    if not name.startswith("_") and name not in IN_IDS
]

GOOD: dict[str, Any] = {
    "run": "runs/none",
    "runs": ["runs/a", "runs/b"],
    "query": "e1/r0",
    "queries": ["e1/r0"],
    "entity": "e1",
    "source": "e1",
    "target": "e2",
    "path": "facts.tsv",
    "data": "none",
    "out": "runs/new",
    "folder": "runs/none",
}
"""What the other arguments are meanwhile, where a function needs them."""
BAD: dict[str, tuple[object, ...]] = {
    "min_support": ("3", 2.5, True, -1, 0, None),
    "top": ("3", 2.5, True, -1, 0, None),
    "offset": ("3", 2.5, True, -1, None),
    "seed": (-1, 1.5, "0", None),
    "max_length": ("3", 2.5, None),
    "partitions": (0, "2"),
    "only": ("best", 3),
    "candidates": ("some", None),
    "known": ("some", None),
    "task": ("rank", None),
    "truth": ("none", 1),
    "ties": ("win", None),
    "weights": ("1,2", 3, ["a"]),
    "settings": ("a=b", 3, {1: 2}),
    "resume": ("yes", 1),
    "track": ("mlflow", 3),
    "types": ("2p", 3, [2]),
    "limit": ("3", 2.5, True, 0),
    "count": ("3", 2.5, True, 0, None),
    "keep": ("0.5", True, 0.0, 3, None),
    "max_answers": ("3", 2.5, True, 0, None),
    "literals": (3, 2.5, True, b"bytes", object()),
    "learning_rate": ("0.1", True),
    "search": ("penalty.dura=0..1", 3, [2]),
    "trials": ("3", 2.5, True, 0, None),
    "workers": ("3", 2.5, True, 0, None),
    **dict.fromkeys(("seconds", "trial_seconds"), ("3", True)),
    **dict.fromkeys(("blocks", "block_size", "dim", "epochs", "batch_size", "threads"), ("3", 2.5, True, 0)),
}
WRONG = (None, 3, 2.5, True, b"bytes", ["e1"], object())
"""Where nothing else is said: an argument that is a name, a path, a query, a run or a graph is none of these."""
MAY_BE: dict[str, tuple[object, ...]] = defaultdict(tuple) | {
    "runs": (["e1"],),
    "queries": (["e1"],),
    "reviewed": (["e1"],),
    "data": (None,),
    "memory": (3,),
    "facts in memory": (["e1"], None),
}


def _cases() -> Iterator[tuple[str, str]]:
    for name, function in (FUNCTIONS | OPENED | {f"Engine.{name}": getattr(Engine, name) for name in METHODS}).items():
        yield from ((name, argument) for argument in inspect.signature(function).parameters if argument != "self")


def _bad_values(parameter: inspect.Parameter) -> Iterator[object]:
    may_be = MAY_BE["facts in memory" if parameter.annotation in ("Any", "Data", "Data | None") else parameter.name]
    for value in BAD.get(parameter.name, WRONG):
        is_flag = isinstance(value, bool) and parameter.annotation == "bool"
        if value is not parameter.default and not is_flag and value not in may_be:
            yield value


@pytest.fixture(scope="module")
def engine() -> Engine:
    return make_engine()[0]


@pytest.mark.parametrize(("name", "argument"), list(_cases()))
def test_a_wrong_argument_is_one_sentence(name: str, argument: str, engine: Engine) -> None:
    function: Any = (FUNCTIONS | OPENED).get(name) or getattr(engine, name.partition(".")[2])
    parameters = inspect.signature(function).parameters
    needed = {each: GOOD.get(each, engine.graph) for each, one in parameters.items() if one.default is one.empty}
    bad = list(_bad_values(parameters[argument]))
    assert bad
    for value in bad:
        with pytest.raises(ConfigError, match=rf"^{argument} must be .*, not .*\.$"):
            function(**needed | {argument: value})


LONG = "x" * 5000
PATHS: dict[str, Callable[[Engine], object]] = {
    "load": lambda engine: blockhole.load(LONG),
    "read_graph": lambda engine: blockhole.read_graph(LONG),
    "train": lambda engine: blockhole.train(LONG),
    "train out": lambda engine: blockhole.train([("a", "r", "b")], out=LONG, epochs=1),
    "open": lambda engine: Run.open(LONG),
    "engine": lambda engine: Engine.open(LONG),
    "evaluate": lambda engine: blockhole.evaluate(LONG),
    "compare": lambda engine: blockhole.compare([LONG, LONG + "y"]),
    "merge": lambda engine: blockhole.merge([LONG, LONG + "y"], "sum"),
    "predict": lambda engine: blockhole.predict(engine, reviewed=[LONG]),
    "audit": lambda engine: blockhole.audit(engine, reviewed=[LONG]),
}


@pytest.mark.parametrize("use", PATHS)
def test_a_path_that_no_file_can_have_is_one_sentence(use: str, engine: Engine) -> None:
    with pytest.raises(DataError, match=r"^x{10,}.*: no file has so long a name; check it\.$") as refused:
        PATHS[use](engine)
    assert len(str(refused.value)) < 300


def test_what_is_said(engine: Engine, tmp_path: Path) -> None:
    def said(function: Callable[..., object], *args: object, **kwargs: object) -> str:
        with pytest.raises(BlockholeError) as refused:
            function(*args, **kwargs)
        return str(refused.value)

    assert said(blockhole.ask, engine, None) == "query must be text or a Query, not None."
    assert said(blockhole.ask, engine, "e1/r0", top="3") == "top must be a whole number of at least 1, not '3'."
    assert said(engine.ask_together, [Question("e1/r0", top=True)]) == (
        "top must be a whole number of at least 1, not True."
    )
    assert said(engine.ask, "e1/r0", only="best") == "only must be 'known' or 'predicted' or None, not 'best'."
    assert said(blockhole.load, 3) == (
        "source must be the name or path of a data set, a frame of polars or pandas, an Arrow table, an array of three "
        "columns, a list of triples, or a graph of networkx or rdflib, not 3."
    )
    assert said(blockhole.load, [3]) == (
        "row 0 of the list (counted from 0) is 3, not a source, a relation and a target."
    )
    assert said(blockhole.write_graph, engine, tmp_path / "facts.tsv").startswith(
        "graph must be a KnowledgeGraph, not an Engine; one split, or several together, is a graph: split.graph("
    )
    assert said(engine.ask_many, "e1/r0") == (
        "queries must be a list, each item text, a Query or an Encoded, not 'e1/r0'."
    )
    assert said(blockhole.merge, ["a", "b"], tmp_path / "sum", weights=["1", None]) == (
        "weights must be None or a list, each item a number, not a list that holds a str and a NoneType."
    )
    digits = "a number of thousands of digits"
    assert said(blockhole.paths, engine, "e1", "e2", max_length=10**5000).endswith(f", not {digits}.")
    for value in (10**5000, [10**5000]):
        wrong = said(blockhole.train, "family", settings={"training.seed": value})
        assert wrong.startswith(f"training.seed = {digits} cannot be used: it must be ")
    assert not list(tmp_path.iterdir())


def test_numbers_of_numpy_are_numbers(engine: Engine) -> None:
    three: Any = np.int64(3)
    assert engine.ask("e1/r0", top=3) == engine.ask("e1/r0", top=three)
    with pytest.raises(ConfigError):
        check_argument("top", np.bool_(True), Count)


def test_words_are_listed_as_a_sentence_lists_them() -> None:
    assert [listed(["a"]), listed(["a", "b"]), listed(["a", "b", "c"], "and")] == ["a", "a or b", "a, b and c"]
