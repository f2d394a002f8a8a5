"""`blockhole evaluate` and `blockhole compare`, on runs over a small data set with path queries."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import blockhole
from blockhole import fitting
from blockhole.answering.engine import Encoded, Engine
from blockhole.answering.known import KnownFacts
from blockhole.answering.search import UNLIMITED, Search, Wanted
from blockhole.cli.main import main
from blockhole.data.dataset import load
from blockhole.errors import DataError, EvaluationError, QueryError, RunError
from blockhole.evaluation.query_ranking import QueryReport
from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.graph.vocabulary import Vocabulary
from blockhole.measuring import relation_pair
from blockhole.queries.language import parse
from blockhole.queries.path_sets import build_paths, write_path_splits
from blockhole.queries.plans import Plan
from blockhole.queries.query_sampling import sample_from_split
from blockhole.queries.query_sets import QUERY_TYPES, QuerySet, steps_of_type, write_query_set
from blockhole.runs.run import Run
from blockhole.saving import read_sealed
from tests.evaluation import oracle


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ring of people and towns in a folder, with labelled valid and test lines and path queries."""
    folder = tmp_path_factory.mktemp("data") / "ring"
    folder.mkdir()
    generator = np.random.default_rng(0)
    facts = [(f"p{i}", "knows", f"p{(i * 7 + step) % 40}") for i in range(40) for step in (1, 3)]
    facts += [(f"p{i}", "livesIn", f"town {i % 5}") for i in range(40)]
    order = generator.permutation(len(facts))
    parts = {"train": order[:90], "valid": order[90:105], "test": order[105:]}
    for part, chosen in parts.items():
        lines = ["\t".join(facts[i]) for i in chosen]
        if part != "train":
            wrong = [(s, r, "p0" if r == "livesIn" else "town 1") for s, r, _ in (facts[i] for i in chosen)]
            lines = [f"{line}\t1" for line in lines] + ["\t".join(fact) + "\t-1" for fact in wrong]
        (folder / f"{part}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    split = load(folder).split
    write_path_splits(build_paths(split, seed=0), folder / "paths", split.entities, split.relations)
    return folder


@pytest.fixture(scope="module")
def runs(data: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("runs")
    settings = {"training.epochs": 2, "training.on": "paths", "training.threads": 1, "training.device": "cpu"}
    for name in ("blockhole", "complex"):
        fitting.train(data, model=name, settings={**settings, "model.dim": 8}, out=folder / name)
    return folder / "blockhole", folder / "complex"


Command = Callable[..., Any]


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    """Run a command and give back its one JSON object."""

    def run(*arguments: object) -> Any:
        with pytest.raises(SystemExit) as stop:
            main([*map(str, arguments), "--json"])
        assert stop.value.code in (None, 0), capsys.readouterr().err
        return json.loads(capsys.readouterr().out)

    return run


@pytest.fixture
def refusal(capsys: pytest.CaptureFixture[str]) -> Command:
    """Run a command that fails with status 1, and give back its one line."""

    def run(*arguments: object) -> str:
        with pytest.raises(SystemExit) as stop:
            main([*map(str, arguments)])
        shown = capsys.readouterr()
        assert (stop.value.code, shown.out) == (1, "")
        return shown.err

    return run


def test_ranking(command: Command, runs: tuple[Path, Path], data: Path) -> None:
    result = command("evaluate", runs[0])
    assert (result["task"], result["split"], result["truth"], result["ties"]) == ("ranking", "all", "all", "half")
    expected = len(load(data).paths("test_deduction")) + len(load(data).paths("test_induction"))
    assert result["queries"] + result["excluded"] == expected
    assert 0 <= result["intervals"]["mq"][0] <= result["mq"] <= result["intervals"]["mq"][1] <= 100
    assert set(result["by_length"]) == {"1", "2", "3", "4", "5"}
    assert set(result["by_relation"]) == {"knows", "^knows", "livesIn", "^livesIn"}


def test_splits_add_up(command: Command, runs: tuple[Path, Path]) -> None:
    parts = {split: command("evaluate", runs[0], "--split", split) for split in ("deduction", "induction", "all")}
    counted = {split: part["queries"] for split, part in parts.items()}
    assert counted["deduction"] + counted["induction"] == counted["all"]
    weighted = sum(counted[split] * parts[split]["mq"] for split in ("deduction", "induction")) / counted["all"]
    assert weighted == pytest.approx(parts["all"]["mq"])


def test_dev_splits_and_the_other_reading(command: Command, runs: tuple[Path, Path]) -> None:
    result = command("evaluate", runs[0], "--split", "dev", "--truth", "split")
    assert (result["split"], result["truth"]) == ("dev", "split")
    assert command("evaluate", runs[0], "--split", "valid")["by_length"].keys() == {"1"}


def test_classification_triples_and_completion(command: Command, runs: tuple[Path, Path], data: Path) -> None:
    classified = command("evaluate", runs[0], "--task", "classification")
    assert {"accuracy", "accuracy_positive", "accuracy_negative"} <= set(classified)
    assert min(map(int, classified["by_length"])) == 2
    ordered = command("evaluate", runs[0], "--task", "classification", "--order", "knows/livesIn")
    assert ordered["split"] == "paths with knows/livesIn"
    triples = command("evaluate", runs[0], "--task", "triples")
    assert triples["positives"] == triples["negatives"] == len(load(data).split.test)
    completion = command("evaluate", runs[0], "--task", "completion")
    assert completion["by"] == "probability"
    assert 0 < completion["mrr"] <= 1
    assert completion["hits_at_1"] <= completion["hits_at_3"] <= completion["hits_at_10"] <= 1
    assert completion["queries"] == 2 * len(load(data).split.test)


def test_a_file_of_queries(command: Command, refusal: Command, runs: tuple[Path, Path], tmp_path: Path) -> None:
    file = tmp_path / "mine.tsv"
    file.write_text("p1\tknows,livesIn\ttown 3\np2\t**knows\tp5\n", encoding="utf-8")
    result = command("evaluate", runs[0], "--data", file)
    assert (result["split"], result["queries"]) == (str(file), 2)
    file.write_text("p1\tknows\tp99\n", encoding="utf-8")
    assert "unknown entity 'p99'" in refusal("evaluate", runs[0], "--data", file)
    file.write_text("p1\tknows,livesIn\ttown 3\n", encoding="utf-8")
    assert refusal("evaluate", runs[0], "--data", file, "--task", "completion") == (
        "error: completion takes single relations, and some of the queries have longer paths.\n"
    )
    assert "are one split; leave --split out." in refusal("evaluate", runs[0], "--data", file, "--split", "all")


def test_memory_caps_do_not_change_figures(command: Command, refusal: Command, runs: tuple[Path, Path]) -> None:
    timing = {"seconds", "queries_per_second", "peak_rss_mb"}
    wide, narrow = (command("evaluate", runs[0], "--memory", memory) for memory in ("100GB", "8GB"))
    for one, other in ((wide, narrow), (wide.pop("completion"), narrow.pop("completion"))):
        assert {k: v for k, v in one.items() if k not in timing} == {k: v for k, v in other.items() if k not in timing}
    assert "a memory cap of 1 MB is too small for one query: " in refusal("evaluate", runs[0], "--memory", "1MB")
    assert refusal("evaluate", runs[0], "--memory", "lots") == (
        "error: 'lots' is not a size of memory; write for example 2GB, 1.5GiB or 800MB.\n"
    )


def test_tables_and_reports(runs: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for suffix in ("md", "json"):
        with pytest.raises(SystemExit) as stop:
            main(["evaluate", str(runs[0]), "--report", str(tmp_path / f"report.{suffix}")])
        assert stop.value.code in (None, 0)
    shown = capsys.readouterr().out
    assert "Ranking on all (F* = all, ties half), per cent" in shown
    assert "By last relation" in shown
    written = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert written["task"] == "ranking"
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert text.startswith(f"# {runs[0]}: completion and ranking\n\n## Completion of base by probability")
    assert "## Ranking on all" in text
    assert f"| all | {written['mq']:.1f} |" in text
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.json", "report.md"]


@pytest.mark.slow
def test_comparison(command: Command, runs: tuple[Path, Path], tmp_path: Path) -> None:
    result = command("compare", *runs, "--plots", tmp_path, "--report", tmp_path / "both.md")
    assert result["against"] == str(runs[0])
    assert list(result["runs"]) == [str(run) for run in runs]
    found = result["differences"][str(runs[1])]["mq"]
    means = [result["runs"][str(run)]["mq"] for run in runs]
    assert found["difference"] == pytest.approx(means[1] - means[0])
    plots = {f"{name}.{kind}" for name in ("quantile-by-length", "training-curves") for kind in ("svg", "png")}
    assert {path.name for path in tmp_path.iterdir()} == plots | {"both.md"}
    assert "paired bootstrap" in (tmp_path / "both.md").read_text(encoding="utf-8")
    command("compare", *runs, "--task", "classification", "--plots", tmp_path)
    assert (tmp_path / "reliability.svg").exists()


def test_a_comparison_needs_two_runs(runs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["compare", str(runs[0])])
    assert stop.value.code == 2
    assert "a comparison needs two or more different runs" in capsys.readouterr().err


@pytest.mark.slow
def test_a_comparison_needs_one_data_set(refusal: Command, runs: tuple[Path, Path], tmp_path: Path) -> None:
    other = tmp_path / "other"
    settings = {"training.epochs": 1, "training.threads": 1, "training.device": "cpu", "model.dim": 4}
    fitting.train("family", settings=settings, out=other)
    shown = refusal("compare", runs[0], other)
    assert shown.startswith("error: the runs were trained on different data (")
    assert shown.endswith("; name one with --data.\n")


def test_a_run_on_other_data(refusal: Command, runs: tuple[Path, Path]) -> None:
    shown = refusal("evaluate", runs[0], "--data", "family")
    assert shown.startswith("error: the model was trained on other data than family: of its entities it knows 0 of ")
    assert "; evaluate it on the data it was trained on" in shown


def test_options_that_do_not_fit(refusal: Command, runs: tuple[Path, Path], tmp_path: Path) -> None:
    def refused(*options: object) -> str:
        return str(refusal("evaluate", runs[0], *options))

    assert refused("--split", "tset").startswith("error: there is no split 'tset'; the splits are base, deduction")
    assert refused("--task", "completion", "--split", "all") == (
        "error: completion takes the split base (the test facts) or valid, not all.\n"
    )
    assert refused("--order", "knows/livesIn") == (
        "error: an order (--order) is judged by classification; leave it out, or add --task classification.\n"
    )
    assert refused("--report", tmp_path / "report.pdf").endswith("end its name in .md or .json.\n")
    assert "there is no run" in refusal("evaluate", tmp_path / "none")


def fill_weights(file: Path, value: float) -> None:
    """Set every weight of a checkpoint, which stays one checkpoint with the other files of its run."""
    with safe_open(file, framework="pt") as opened:
        metadata = opened.metadata()
    save_file({name: torch.full_like(table, value) for name, table in load_file(file).items()}, file, metadata)
    state = read_sealed(file.parent / "state.json")
    state["sha256"][file.name] = sha256(file.read_bytes()).hexdigest()
    (file.parent / "state.json").write_text(json.dumps(state), encoding="utf-8")


def test_a_diverged_run_is_refused_and_a_constant_one_warned_of(
    runs: tuple[Path, Path], tmp_path: Path, refusal: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "copy"
    for value in (float("nan"), 0.5):
        shutil.copytree(runs[0], copy, dirs_exist_ok=True)
        fill_weights(copy / "weights.safetensors", value)
        if np.isnan(value):
            assert "the saved entity holds numbers that are not finite" in refusal("evaluate", copy)
    with pytest.raises(SystemExit):
        main(["evaluate", str(copy), "--ties", "paper", "--json"])
    shown = capsys.readouterr()
    result = json.loads(shown.out)
    assert (result["mq"], result["tied"]) == (100.0, 100.0)
    assert shown.err.startswith("warning: the paper's rule counts ties as wins, and 100.0 % of the queries have some")


def test_an_order_is_read_whatever_the_entities_are_called() -> None:
    entities = Vocabulary(['"Alice"@en', "Bob"])
    graph = KnowledgeGraph(entities, Vocabulary(["knows", "a/b"], "relation"), np.array([(0, 0, 1)], dtype=np.int32))
    assert relation_pair('knows/^"a/b"', graph) == (0, 3)


NO_PAIR = ("knows", "knows/", "/knows", "knows/knows/knows", "")


@pytest.mark.parametrize(
    ("order", "said"),
    [
        *(
            (order, f"an order (--order) is two relations, such as parents/religion, not {order!r}.")
            for order in NO_PAIR
        ),
        ("nows/knows", "unknown relation 'nows'; did you mean 'knows'?\n  nows/knows\n  ^"),
        ("knows/^nows", "unknown relation 'nows'; did you mean 'knows'?\n  knows/^nows\n         ^"),
        ("^knows/^", "a relation is missing at the end\n  ^knows/^\n          ^"),
    ],
)
def test_what_is_wrong_with_an_order_is_said_of_what_was_typed(order: str, said: str) -> None:
    graph = KnowledgeGraph(Vocabulary(["Bob"]), Vocabulary(["knows", "a"], "relation"), np.array([(0, 0, 0)], np.int32))
    with pytest.raises((EvaluationError, QueryError)) as refused:
        relation_pair(order, graph)
    assert str(refused.value) == said


# Complex queries


TYPES = [name for name in QUERY_TYPES if name != "3in"]
"""Those that have queries with hard answers in the ring."""


@pytest.fixture(scope="module")
def queries(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four queries of each type, in a file."""
    sampled = sample_from_split(load(data).split, types=TYPES, count=4)
    return write_query_set(sampled, tmp_path_factory.mktemp("queries"))


def _values(run: Path, name: str) -> Callable[[Sequence[int], int], float]:
    """What a search of its own says of every entity."""
    engine = Engine.open(run)
    found: dict[tuple[int, ...], np.ndarray] = {}

    def value(ids: Sequence[int], entity: int) -> float:
        if tuple(ids) not in found:
            everyone = np.ones(engine.graph.num_entities, dtype=bool)
            search = Search(engine, Plan(steps_of_type(name), tuple(ids)), "all", UNLIMITED)
            found[tuple(ids)] = search.settle(Wanted(everyone, len(everyone), np.zeros(0, dtype=np.int32))).low
        return float(found[tuple(ids)][entity])

    return value


def test_completion_by_probability_and_by_score(
    command: Command, refusal: Command, runs: tuple[Path, Path], data: Path, tmp_path: Path
) -> None:
    """By probability as a list of `ask` has the targets, by score where there is none or where it is asked for."""
    both, scored = (command("evaluate", runs[0], "--task", "completion", *by) for by in ((), ("--by", "score")))
    assert (scored["by"], scored["by_score"]) == ("score", None)
    assert both["by_score"] == {name: scored[name] for name in both["by_score"]}
    split, engine = load(data).split, Engine.open(runs[0])
    true = split.graph("train", "valid", "test")
    ranks = []
    for s, r, o in split.test.tolist():
        for source, relation, target in ((s, r, o), (o, r + 2, s)):
            mark, name = "^" if relation > 1 else "", split.relations[r]
            listed = engine.ask(f'"{split.entities[source]}"/{mark}{name}', top=100, candidates="all")
            value = {split.entities.id(each.entity): each.score for each in listed}
            answers = true.adjacency.neighbours(source, relation)
            rivals = [value.get(each, 0.0) for each in range(len(split.entities)) if each not in answers]
            own = value[target]
            ranks.append(1 + sum(p > own for p in rivals) + 0.5 * sum(p == own for p in rivals))
    assert both["mrr"] == pytest.approx(np.mean(1 / np.array(ranks)))
    assert both["mr"] == pytest.approx(np.mean(ranks))
    bare = tmp_path / "bare"
    shutil.copytree(runs[0], bare)
    (bare / "calibration.json").unlink()
    uncalibrated = command("evaluate", bare, "--task", "completion")
    measured = scored.keys() - {"run", "seconds", "queries_per_second", "peak_rss_mb"}
    assert {name: uncalibrated[name] for name in measured} == {name: scored[name] for name in measured}
    shown = refusal("evaluate", bare, "--task", "completion", "--by", "probability")
    assert "has no calibration for its weights" in shown
    assert refusal("evaluate", runs[0], "--task", "ranking", "--by", "score") == (
        "error: what orders entities (--by) is for completion; leave it out, or add --task completion.\n"
    )
    compared = command("compare", runs[0], bare, "--task", "completion")
    assert {report["by"] for report in compared["runs"].values()} == {"score"}


@pytest.mark.slow
def test_every_type_of_query_by_searches_and_plain_loops(
    command: Command, runs: tuple[Path, Path], data: Path, queries: Path, tmp_path: Path
) -> None:
    run = runs[0]
    result = command("evaluate", run, "--task", "queries", "--queries", queries, "--report", tmp_path / "r.md")
    assert (result["task"], result["queries_of"], result["split"]) == ("queries", "sampled-test", "test")
    assert (result["ties"], result["candidates"], result["unsettled"]["answers"]) == ("half", "all", 0)
    opened, split = Run.open(run), load(data).split
    assert opened.entities == split.entities  # so that ids need no renaming here
    train, valid, test = ({(s, r, o) for s, r, o in part.tolist()} for part in (split.train, split.valid, split.test))
    stored = load(data).queries(queries)
    assert list(result["types"]) == list(stored.ids) == TYPES
    sizes = len(split.entities), len(split.relations)
    for name, ids in stored.ids.items():
        graphs = train, train | valid, train | valid | test
        answers = oracle.judge(name, ids.tolist(), _values(run, name), *graphs, *sizes, "half")
        expected = oracle.over_queries(answers)
        assert {key: result["types"][name][key] for key in expected} == pytest.approx(expected)
    text = (tmp_path / "r.md").read_text(encoding="utf-8")
    assert "## Queries of sampled-test, test, ties half" in text
    assert f"| 2in | {result['types']['2in']['mrr']:.4f} |" in text


def test_queries_as_a_function(runs: tuple[Path, Path], data: Path, queries: Path) -> None:
    run = runs[0]
    heard: list[tuple[int, int]] = []
    options = {"task": "queries", "queries": str(queries), "seed": 3}
    report = blockhole.evaluate(run, **options, limit=2, ties="pessimistic", candidates="typed")  # type: ignore[arg-type]
    assert isinstance(report, QueryReport)
    assert {name: each.all.queries for name, each in report.types.items()} == dict.fromkeys(TYPES, 2)
    own = load(data).queries(queries)
    given = blockhole.evaluate(
        Run.open(run), task="queries", queries=own.take(2, 3), candidates="typed", ties="pessimistic", seed=3,
        progress=lambda done, total: heard.append((done, total)),
    )  # fmt: skip
    assert isinstance(given, QueryReport)
    assert {name: each.all.means for name, each in given.types.items()} == {
        name: each.all.means for name, each in report.types.items()
    }
    assert heard[-1] == (2 * len(TYPES), 2 * len(TYPES))


def test_plots_of_queries_say_how_reliable_probabilities_are(
    command: Command, runs: tuple[Path, Path], data: Path, queries: Path, tmp_path: Path
) -> None:
    run, limit = runs[0], 2
    options = ["--task", "queries", "--queries", queries, "--limit", limit, "--candidates", "typed"]
    assert "reliability" not in command("evaluate", run, *options)
    found = command("evaluate", run, *options, "--plots", tmp_path)["reliability"]
    assert {f"reliability.{kind}" for kind in ("svg", "png")} <= {path.name for path in tmp_path.iterdir()}
    engine, truth = Engine.open(run), KnownFacts(load(data).split.graph("train", "valid", "test"))
    chosen = load(data).queries(queries).take(limit)
    for name in chosen.ids:
        said, true = [], []
        for plan in chosen.plans(name):
            asked = engine.ask(Encoded(parse("a/r"), plan), only="predicted")  # the words do not matter, the plan does
            said += [answer.score for answer in asked]
            answers = set(truth.plan_answers(plan).tolist())
            true += [engine.graph.entities.id(answer.entity) in answers for answer in asked]
        if said:
            assert found[name]["brier"] == pytest.approx(np.mean((np.array(said) - np.array(true)) ** 2))
            assert sum(each["pairs"] for each in found[name]["bins"]) == len(said)
    assert set(found) <= set(chosen.ids)


def test_two_runs_on_the_same_queries(command: Command, runs: tuple[Path, Path], queries: Path) -> None:
    result = command("compare", *runs, "--task", "queries", "--queries", queries, "--limit", 1)
    one, other = (result["runs"][str(run)]["mean_with_negation"]["mrr"] for run in runs)
    found = result["differences"][str(runs[1])]["mrr with negation"]
    assert found["difference"] == pytest.approx(other - one)


def test_queries_that_are_refused(runs: tuple[Path, Path], data: Path, queries: Path, tmp_path: Path) -> None:
    run = runs[0]

    def refused(error: type[Exception], **options: object) -> str:
        with pytest.raises(error) as failure:
            blockhole.evaluate(run, **{"task": "queries", **options})  # type: ignore[arg-type]
        return str(failure.value)

    assert refused(EvaluationError) == "name a set of queries with --queries, such as betae, or give a file of them."
    assert refused(EvaluationError, queries=queries, split="dev") == (
        "complex queries take the split test or valid, not dev."
    )
    assert refused(DataError, queries="beta").startswith(f"{data} has no query set beta, nor is that a file; ")
    assert refused(EvaluationError, task="ranking", queries=queries).endswith("or add --task queries.")
    strange = QuerySet("strange", {"1p": np.array([[0, 99]], dtype=np.int32)})
    assert refused(EvaluationError, queries=strange).startswith(
        "strange is a query set of another graph: a 1p query names relation 99, but here ids end at 3; "
    )
    shutil.copytree(run, tmp_path / "bare")
    (tmp_path / "bare" / "calibration.json").unlink()
    with pytest.raises(RunError, match="has no calibration for its weights, which turns scores into probabilities; "):
        blockhole.evaluate(tmp_path / "bare", task="queries", queries=queries)
    assert "a memory cap of 1 MB is too small for one query" in refused(EvaluationError, queries=queries, memory="1MB")


def test_a_file_with_an_unknown_type_of_query(refusal: Command, runs: tuple[Path, Path], tmp_path: Path) -> None:
    import polars as pl

    file = tmp_path / "mine-test.parquet"
    pl.DataFrame({"type": ["4p"], "ids": [[0, 0]]}).write_parquet(file)
    shown = refusal("evaluate", runs[0], "--task", "queries", "--queries", file)
    assert shown.startswith(f"error: {file}: there is no query type '4p'; ")
