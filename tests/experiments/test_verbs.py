"""`python -m experiments reproduce` and `results` as their users meet them, on a town of sixty."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from experiments.__main__ import RECORDS, main
from tests.outcomes import Command, command

SMALL = ("--set", "training.epochs=2", "--set", "training.batch_size=256", "--device", "cpu", "--threads", "1")


@pytest.fixture
def laboratory(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.chdir(tmp_path)
    return command(main, capsys)


def test_ranking_gives_every_part_with_its_seeds(laboratory: Command, town: Path) -> None:
    options = ("--data", town, "--column", "complex-50", "--column", "blockhole-2x25-edges", *SMALL)
    found = laboratory("reproduce", "ranking", *options, "--seed", 0, "--seed", 1, "--json").json()
    columns = found["ranking"]["town"]
    assert set(columns) == {"complex-50", "blockhole-2x25-edges"}
    for column in columns.values():
        assert set(column) == {"base", "deduction", "induction", "all"}
        for part in column.values():
            assert 0 <= part["mq"] <= 100
            assert part["mq_deviation"] >= 0
            assert part["seeds"] == 2
            low, high = part["intervals"]["p_at_10"]
            assert low <= part["p_at_10"] <= high
    record = json.loads((RECORDS / "ranking/town/complex-50-seed1.json").read_text(encoding="utf-8"))
    assert (record["seed"], record["split"], record["truth"], record["epochs"]) == (1, "test", "all", 2)
    assert record["settings"]["model"]["name"] == "complex"
    assert record["seconds"] > record["training_seconds"] > 0
    assert record["torch"]
    assert record["device"]

    again = laboratory("reproduce", "ranking", *options, "--seed", 0, "--seed", 1, "--json")
    assert again.err.count("there already") == 4
    assert again.json() == found

    total = laboratory("results", "--json").json()
    assert total["ranking"] == found["ranking"]
    assert set(total) == {"ranking", "classification", "order", "completion", "triples", "queries", "rules", "time"}


def test_set_replaces_no_record(laboratory: Command, town: Path) -> None:
    options = ("--data", town, "--column", "distmult-50", "--seed", 0, *SMALL)
    first = laboratory("reproduce", "ranking", *options, "--json").json()
    changed = ("reproduce", "ranking", *options, "--set", "penalty.dura=0.05", "--json")
    file = RECORDS / "ranking/town/distmult-50-seed0.json"
    assert laboratory(*changed).failure() == (
        f"{file} has other settings, and --set would replace it; name a folder with --out."
    )
    assert laboratory("results", "--json").json()["ranking"] == first["ranking"]
    assert laboratory(*changed, "--out", "trial").json() != first


def test_a_record_of_other_settings_than_the_declared_is_made_anew(laboratory: Command, town: Path) -> None:
    # As after a change of what is declared, which a record of other settings stands for here.
    options = ("--data", town, "--column", "distmult-50-edges", "--seed", 0, "--threads", 1)
    laboratory("reproduce", "ranking", *options, "--set", "training.epochs=1", "--json").json()
    anew = laboratory("reproduce", "ranking", *options, "--json")
    assert "settings have changed, once more" in anew.err
    record = json.loads((RECORDS / "ranking/town/distmult-50-edges-seed0.json").read_text(encoding="utf-8"))
    assert record["epochs"] == 100


def test_dev_figures_are_kept_apart_from_those_of_test(laboratory: Command, town: Path) -> None:
    options = ("--data", town, "--column", "distmult-50", "--seed", 0, *SMALL)
    found = laboratory("reproduce", "ranking", *options, "--split", "dev", "--json").json()
    assert found["ranking"]["town"]["distmult-50"]["base"]["queries"] <= 20
    assert (RECORDS / "ranking/town/distmult-50-seed0-dev.json").is_file()
    assert laboratory("results", "--json").json()["ranking"] == {}


def test_classification_and_order(laboratory: Command, town: Path) -> None:
    options = ("--data", town, "--column", "complex-50-corrupted", "--seed", 0, *SMALL)
    for table in ("classification", "order"):
        found = laboratory("reproduce", table, *options, "--json").json()[table]["town"]["complex-50-corrupted"]
        assert 0 <= found["accuracy"] <= 100
        # ComplEx cannot tell a path from its reversal: what it says of one it says of the other.
        assert found["accuracy_positive"] + found["accuracy_negative"] == pytest.approx(100, abs=15)
        assert found["seeds"] == 1
        assert found["accuracy_deviation"] is None


@pytest.mark.parametrize(
    ("table", "column", "figure"), [("completion", "blockhole", "mrr"), ("triples", "best", "accuracy")]
)
def test_completion_and_triples(table: str, column: str, figure: str, laboratory: Command, town: Path) -> None:
    options = ("--data", town, "--column", column, "--seed", 0, "--set", "model.block_size=4", *SMALL)
    found = laboratory("reproduce", table, *options, "--json").json()[table]["town"][column]
    assert found[figure] > 0
    shown = laboratory("reproduce", table, *options)
    assert shown.status == 0
    assert "town" in shown.out


def test_queries_are_measured_by_set_type_and_what_proofs_lack(laboratory: Command, queried_town: Path) -> None:
    sizes = ("model.block_size=4", "beside.model.block_size=3", "beside.training.epochs=1")
    small = [word for size in sizes for word in ("--set", size)]
    options = ("--data", queried_town, "--column", "merged", "--seed", 1, *SMALL, *small)
    found = laboratory("reproduce", "queries", *options, "--json").json()["queries"]["queried"]["merged"]["sampled"]
    assert set(found["types"]) == {"1p", "2p", "2u", "2in"}
    for part in (*found["types"].values(), found["mean_without_negation"], found["mean_with_negation"]):
        assert 0 < part["hits_at_1"] + part["mrr"] <= part["hits_at_3"] + 1 <= part["hits_at_10"] + 1 <= 2
        low, high = part["intervals"]["mrr"]
        assert low <= part["mrr"] <= high
        assert (part["seeds"], part["mrr_deviation"]) == (1, None)
        assert sum(lacking["answers"] for lacking in part["lacking"].values()) == part["answers"]
        assert "0" not in part["lacking"]
    without = [found["types"][name]["mrr"] for name in ("1p", "2p", "2u")]
    assert found["mean_without_negation"]["mrr"] == pytest.approx(sum(without) / 3)
    assert found["mean_with_negation"]["mrr"] == found["types"]["2in"]["mrr"]

    record = json.loads((RECORDS / "queries/queried/merged-seed1.json").read_text(encoding="utf-8"))
    assert (record["truth"], record["members"], record["epochs"]) == (None, 1, 2)
    assert record["beside"]["model"]["block_size"] == 3
    beside = {"on": "paths", "walks": "fresh", "epochs": 1, "average_epochs": 1, "batch_size": 8192}
    assert record["beside"]["training"] == beside
    assert record["settings"]["model"]["block_size"] == 4
    again = laboratory("reproduce", "queries", *options)
    assert "there already" in again.err
    assert "queried, sampled: Hits@3" in re.sub(r"\s+", " ", again.out)
    changed = laboratory("reproduce", "queries", *options, "--set", "beside.training.epochs=2")
    assert "merged-seed1.json has other settings, and --set would replace it" in changed.failure()


def test_valid_queries_are_measured_for_dev(laboratory: Command, queried_town: Path) -> None:
    options = ("--data", queried_town, "--column", "best", "--seed", 0, *SMALL, "--set", "model.block_size=6")
    outcome = laboratory("reproduce", "queries", *options, "--split", "dev", "--json")
    found = outcome.json()["queries"]["queried"]["best"]["sampled"]
    shown = f"{found['mean_without_negation']['mrr']:.4f}/{found['mean_with_negation']['mrr']:.4f}"
    assert f" s, sampled {shown}, in " in outcome.err
    assert (RECORDS / "queries/queried/best-seed0-dev.json").is_file()


def test_time_records_curves_and_how_they_grow(laboratory: Command, town: Path) -> None:
    columns = ("--column", "blockhole-b2", "--column", "rescal")
    options = ("--data", town, "--dimension", 8, "--dimension", 16, "--rounds", 1, *columns)
    found = laboratory("reproduce", "time", *options, "--json").json()["time"]["town"]
    assert list(found) == ["blockhole-b2", "rescal"]
    for curve in found.values():
        assert set(curve["by_dimension"]) == {"8", "16"}
        assert all(point["seconds"] > 0 for point in curve["by_dimension"].values())
        assert {"slope", "intercept", "r2", "exponent"} <= set(curve)


def test_what_cannot_be_run_says_why(laboratory: Command, town: Path) -> None:
    def fails(*arguments: object) -> str:
        return laboratory("reproduce", *arguments).failure()

    assert fails("ranking", "--column", "blockhole-2x52") == (
        "ranking/*/blockhole-2x52: the table ranking has no column 'blockhole-2x52'; did you mean blockhole-2x25?"
    )
    assert "there is no data set, file or folder 'wn12'; did you mean wn11" in fails("ranking", "--data", "wn12")
    assert fails("order", "--data", "family") == (
        "family has no relation 'parents', which Table 4 asks about; FB13 has it."
    )
    assert fails("triples", "--data", "family") == (
        "family has no lines labelled -1 in valid and test, which triple classification needs; WN11 and FB13 have them."
    )
    assert fails("queries", "--data", "family", "--split", "dev") == (
        "family has no sets of valid queries; nell and fb15k-237-q2b have some, and "
        "`blockhole data queries family --out FOLDER` writes a data set with sampled ones."
    )
    assert fails("queries", "--data", town, "--column", "merged", "--set", "beside.model.inverses=tied") == (
        "models are merged with those beside them, so that kind and inverses must be the same."
    )
    assert fails("queries", "--data", town, "--set", "beside.training.epoch=1").startswith(
        "there is no setting training.epoch; did you mean training.epochs"
    )
    assert fails("ranking", "--data", town, "--set", "training.epochs=0").startswith(
        "training.epochs = 0 cannot be used"
    )
    assert fails("time", "--column", "blockhole-b3") == (
        "the table time has no column 'blockhole-b3'; did you mean blockhole-b8?"
    )
    assert fails("time", "--data", town, "--dimension", 12, "--dimension", 16) == (
        "n = 12 cannot be cut into the 8 blocks of blockhole-b8."
    )
    assert fails("time", "--data", town, "--dimension", 16) == (
        "how time grows with n needs two different n at least; give --dimension twice."
    )
    assert fails("grid", "--data", town, "--model", "rescale") == (
        "the paper's grid has no model 'rescale'; did you mean rescal?"
    )
    assert not RECORDS.exists()


def test_a_seed_below_zero_is_wrong_usage(laboratory: Command) -> None:
    outcome = laboratory("reproduce", "ranking", "--seed", -1)
    assert outcome.status == 2
    assert "it must be at least 0, not -1." in re.sub(r"\s+", " ", outcome.err)


def test_a_training_that_diverges_leaves_the_others_alone(laboratory: Command, town: Path) -> None:
    options = ("--data", town, "--column", "distmult-50", "--column", "complex-50", "--seed", 0, *SMALL)
    outcome = laboratory("reproduce", "ranking", *options, "--set", "optimizer.learning_rate=1e38")
    assert outcome.status == 1
    assert outcome.err.count(": failed: ") == 2
    assert outcome.err.splitlines()[-1] == (
        "error: 2 of 2 experiments failed, ranking/town/distmult-50-seed0 first; see above."
    )


def test_no_training_begins_after_the_limit(laboratory: Command, town: Path) -> None:
    options = ("--data", town, "--column", "distmult-50", "--seed", 0, *SMALL)
    outcome = laboratory("reproduce", "ranking", *options, "--limit-seconds", 0)
    assert outcome.status == 0
    assert "ranking/town/distmult-50-seed0: not begun, 0 s are over" in outcome.err
    assert not RECORDS.exists()


def test_results_says_what_is_wrong_with_a_folder(laboratory: Command, tmp_path: Path) -> None:
    assert laboratory("results", "--results", "nowhere").failure() == (
        "there is no folder nowhere of results; name one with --results, or make records first."
    )
    file = tmp_path / "cut" / "ranking" / "wn11" / "complex-50-seed0.json"
    file.parent.mkdir(parents=True)
    file.write_text('{"table": "ranking", "da', encoding="utf-8")
    failure = laboratory("results", "--results", "cut").failure()
    assert failure.startswith("cut/ranking/wn11/complex-50-seed0.json is not a whole record (it is not valid JSON); ")
    assert failure.endswith("remove it and run the experiment again, or restore it from a copy.")


def test_results_are_written_as_a_document(laboratory: Command, town: Path) -> None:
    options = ("--data", town, "--column", "complex-50", "--seed", 0, *SMALL)
    assert laboratory("reproduce", "ranking", *options).status == 0
    outcome = laboratory("results", "--write")
    assert (outcome.status, outcome.out) == (0, "")
    assert outcome.err == "wrote docs/results.md\n"
    text = Path("docs/results.md").read_text(encoding="utf-8")
    assert "### town: MQ, per cent" in text
    assert "missing" in text
    shown = re.sub(r"\s+", " ", laboratory("results").out)
    assert "town: P@10, per cent" in shown
    assert f"{RECORDS} has no records of classification, order, completion, triples, queries, rules, time." in shown
