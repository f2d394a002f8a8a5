"""`blockhole predict`, `audit` and `data review`: from a run to a list, decisions, and data to train on."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

import blockhole
from blockhole.cli.main import main
from tests.serving.random_run import write_random_run

Ran = Callable[..., tuple[int, str, str]]


@pytest.fixture
def ran(capsys: pytest.CaptureFixture[str]) -> Ran:
    """Status, standard output and standard error of a command."""

    def run(*arguments: object) -> tuple[int, str, str]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            main([*map(str, arguments)])
        out, err = capsys.readouterr()
        return int(stop.value.code or 0), out, err

    return run


@pytest.mark.parametrize("verb", ["predict", "audit"])
def test_printed_as_the_function_gives_it(verb: str, clockwork: Path, ran: Ran) -> None:
    status, out, _ = ran(verb, clockwork, "--top", 3, "--json")
    given = getattr(blockhole, verb)(clockwork, top=3)
    assert status == 0
    assert json.loads(out) == {"run": str(clockwork), "count": 3, "facts": given.to_dicts()}
    status, out, err = ran(verb, clockwork)
    assert status == 0
    assert len(out.splitlines()) == 21
    assert given[0].source in out
    assert "--out FILE writes a list to review" in err


def test_a_review_from_list_to_data(clockwork: Path, tmp_path: Path, ran: Ran) -> None:
    data = tmp_path / "train.tsv"
    blockhole.write_graph(blockhole.Run.open(clockwork).graph, data)
    listed, doubtful = tmp_path / "missing.csv", tmp_path / "doubtful.parquet"
    status, out, _ = ran("predict", clockwork, "--relation", "mod6", "--out", listed, "--top", 5)
    assert (status, out) == (0, f"5 facts written to {listed}; write accept or reject under decision\n")
    rows = pl.read_csv(listed, infer_schema=False)
    assert rows.columns == ["source", "relation", "target", "probability", "reason", "decision"]
    assert set(rows["relation"]) == {"mod6"}
    rows.with_columns(decision=pl.Series(["accept", "reject", "", "", ""])).write_csv(listed)
    assert ran("audit", clockwork, "--out", doubtful, "--top", 3)[0] == 0
    suspects = pl.read_parquet(doubtful)
    suspects.with_columns(decision=pl.Series(["reject", "accept", ""])).write_parquet(doubtful)

    status, out, _ = ran("data", "review", data, listed, doubtful, "--out", tmp_path / "new", "--json")
    assert (status, json.loads(out)["added"], json.loads(out)["removed"]) == (0, 1, 1)
    train = blockhole.load(tmp_path / "new").split.graph("train")
    facts = {(train.entities[s], train.relations[r], train.entities[o]) for s, r, o in train.triples.tolist()}
    assert rows.row(0)[:3] in facts
    assert suspects.row(0)[:3] not in facts

    _, out, _ = ran("predict", clockwork, "--relation", "mod6", "--top", 3, "--reviewed", listed, "--json")
    assert [fact["target"] for fact in json.loads(out)["facts"]] == rows["target"][2:].to_list()
    with pytest.warns(UserWarning, match="1 line labelled -1 or rejected"):
        known = blockhole.read_graph(listed)
    assert len(known) == 1


def test_names_that_a_review_brings_in_are_told(tmp_path: Path, ran: Ran) -> None:
    (tmp_path / "facts.tsv").write_text("a\tr\tb\nb\tr\tc\n")
    (tmp_path / "list.csv").write_text("source;relation;target;decision\na;r;c;Accept \na;r;01. Mrz;YES\n;;;\n")
    status, out, err = ran("data", "review", tmp_path / "facts.tsv", tmp_path / "list.csv", "--out", tmp_path / "new")
    assert status == 0
    assert f"2 facts added, 0 removed; written to {tmp_path / 'new'}" in out
    assert f"1 entity of accepted facts, such as '01. Mrz', is new to {tmp_path / 'facts.tsv'}." in err


def test_what_is_refused(clockwork: Path, tmp_path: Path, ran: Ran) -> None:
    for arguments, said in (
        (("predict", clockwork, "--out", tmp_path / "list.txt"), "a list is written as .parquet, .csv, .tsv or .jsonl"),
        (("predict", clockwork, "--relation", "mod7"), "unknown relation 'mod7'; did you mean 'mod6'?"),
        (("predict", clockwork, "--min-probability", 2), "min_probability must be a number from 0 to 1, not 2."),
        (("predict", tmp_path / "none"), "there is no run"),
        (("audit", clockwork, "--reviewed", tmp_path / "none.csv"), "no such file; name a list"),
    ):
        status, out, err = ran(*arguments)
        assert (status, out) == (1, "")
        assert said in err


def test_accepted_facts_are_known_at_once(clockwork: Path, tmp_path: Path, ran: Ran) -> None:
    first = blockhole.predict(clockwork, top=2)
    first.write(tmp_path / "list.tsv")
    rows = pl.read_csv(tmp_path / "list.tsv", separator="\t", infer_schema=False)
    decided = rows.with_columns(decision=pl.Series(["accept", ""]))
    decided.write_csv(tmp_path / "list.tsv", separator="\t", quote_style="always")
    _, out, _ = ran("predict", clockwork, "--facts", tmp_path / "list.tsv", "--top", 50, "--json")
    listed = {(fact["source"], fact["relation"], fact["target"]) for fact in json.loads(out)["facts"]}
    assert (first[0].source, first[0].relation, first[0].target) not in listed
    assert (first[1].source, first[1].relation, first[1].target) in listed


def test_rules_are_printed_and_written(family_run: Path, tmp_path: Path, ran: Ran) -> None:
    given = blockhole.rules(family_run, top=3, max_length=2)
    status, out, _ = ran("rules", family_run, "--top", 3, "--max-length", 2, "--json")
    assert (status, json.loads(out)) == (0, {"run": str(family_run), "count": 3, "rules": given.to_dicts()})
    status, out, _ = ran("rules", family_run, "--top", 3, "--max-length", 2)
    assert status == 0
    assert out.splitlines()[0].split() == ["rule", "support", "confidence", "pca", "valid", "similarity"]
    assert [line.split("  ")[0] for line in out.splitlines()[1:]] == [str(rule) for rule in given]
    file = tmp_path / "rules.parquet"
    status, out, _ = ran("rules", family_run, "--top", 3, "--max-length", 2, "--out", file)
    assert (status, out) == (0, f"3 rules written to {file}\n")
    assert len(pl.read_parquet(file)) == 3
    status, out, _ = ran("rules", family_run, "--head", "spouseOf", "--min-support", 100_000)
    assert (status, out) == (0, "no rules with a support of 100,000; --min-support 2 lets rarer ones in\n")


def test_nobody_is_told_to_lower_a_support_that_is_low(tmp_path: Path, ran: Ran) -> None:
    run = write_random_run(tmp_path / "run", "blockhole", E=30, R=2, facts=2)
    assert ran("rules", run, "--min-support", 2)[:2] == (0, "no rules\n")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--head", "uncleOf"), "unknown relation 'uncleOf'"),
        (("--max-length", 4), "1 to 3, not 4"),
        (("--out", "rules.txt"), "a list is written as .parquet"),
    ],
)
def test_rules_that_cannot_be_had(options: tuple[object, ...], said: str, family_run: Path, ran: Ran) -> None:
    status, _, err = ran("rules", family_run, *options)
    assert status == 1
    assert said in err


def test_answers_with_the_rules_behind_them(family_run: Path, ran: Ran) -> None:
    asked = ("ask", family_run, "William/^fatherOf", "--only", "predicted", "--top", 1, "--reasons", "rules")
    status, out, _ = ran(*asked)
    assert status == 0
    assert "⇒ fatherOf, right in" in out
    status, out, _ = ran(*asked, "--json")
    report = json.loads(out)
    ((entity, rules),) = report["reasons"].items()
    assert entity == report["answers"][0]["entity"]
    assert rules[0]["facts"]
    status, out, _ = ran("explain", family_run, "William/^fatherOf", entity, "--top", 1)
    assert f"       by {rules[0]['rule']}, right in" in out


def test_a_run_is_compressed(family_run: Path, tmp_path: Path, ran: Ran) -> None:
    status, out, err = ran("compress", family_run, "--out", tmp_path / "half", "--keep", 0.25)
    assert status == 0
    kept, of = (int(number.replace(",", "")) for number in (out.split()[1], out.split()[3]))
    assert kept == of // 4
    assert "blockhole calibrate" in err
    status, out, _ = ran("compress", family_run, "--out", tmp_path / "third", "--json")
    assert json.loads(out)["kept"] == of // 2
    status, _, err = ran("compress", family_run, "--out", tmp_path / "none", "--keep", 0)
    assert (status, err) == (1, "error: keep must be a share above 0, at most 1, not 0.\n")


def test_a_compressed_run_without_validation_facts_is_not_told_to_calibrate(tmp_path: Path, ran: Ran) -> None:
    facts, run = tmp_path / "facts.tsv", tmp_path / "run"
    facts.write_text("".join(f"e{i}\tnext\te{i + 1}\n" for i in range(20)), encoding="utf-8")
    small = ("--blocks", 1, "--block-size", 2, "--threads", 1, "--epochs", 1)
    assert ran("train", "--data", facts, "--out", run, *small)[0] == 0
    status, _, err = ran("compress", run, "--out", tmp_path / "half")
    assert status == 0
    assert "its data no validation facts to fit one on; set some aside with `blockhole data split" in err
