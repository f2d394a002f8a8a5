"""`blockhole answers`: what it prints, and how it fails."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from blockhole.cli.main import main

FACTS = "Charles\tfatherOf\tWilliam\nCharles\tfatherOf\tHarry\nCharles\tbrotherOf\tAndrew\nAndrew\tfatherOf\tEugenie\n"


@pytest.fixture
def facts(tmp_path: Path) -> str:
    path = tmp_path / "facts.tsv"
    path.write_text(FACTS + "Andrew\tfatherOf\tBeatrice\nEugenie\tlives in\tLondon (UK)\n", encoding="utf-8")
    return str(path)


@pytest.fixture
def folder(tmp_path: Path) -> str:
    (tmp_path / "train.tsv").write_text(FACTS, encoding="utf-8")
    (tmp_path / "test.tsv").write_text("Andrew\tfatherOf\tWilliam\n", encoding="utf-8")
    return str(tmp_path)


def answers(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stopped:
        main(["answers", *arguments])
    out, err = capsys.readouterr()
    assert isinstance(stopped.value.code, int)
    return stopped.value.code, out, err


def test_json_is_one_object(capsys: pytest.CaptureFixture[str], facts: str) -> None:
    code, out, _ = answers(capsys, facts, "William/**fatherOf/brotherOf/fatherOf", "--json")
    assert code == 0
    assert json.loads(out) == {
        "query": "William/^fatherOf/brotherOf/fatherOf",
        "answers": ["Beatrice", "Eugenie"],
        "count": 2,
    }


def test_names_go_to_standard_output_and_the_count_beside_it(capsys: pytest.CaptureFixture[str], facts: str) -> None:
    code, out, err = answers(capsys, facts, 'Andrew/fatherOf/"lives in"')
    assert (code, out) == (0, "London (UK)\n")
    assert err == '1 answer to Andrew/fatherOf/"lives in"\n'


def test_no_answer_is_an_answer(capsys: pytest.CaptureFixture[str], facts: str) -> None:
    code, out, _ = answers(capsys, facts, "William/fatherOf", "--json")
    assert (code, json.loads(out)) == (0, {"query": "William/fatherOf", "answers": [], "count": 0})


@pytest.mark.parametrize(("options", "found"), [((), ["Eugenie", "William"]), (("--split", "train"), ["Eugenie"])])
def test_the_graph_is_all_facts_or_train(
    capsys: pytest.CaptureFixture[str], folder: str, options: tuple[str, ...], found: list[str]
) -> None:
    _, out, _ = answers(capsys, folder, "Andrew/fatherOf", "--json", *options)
    assert json.loads(out)["answers"] == found


def test_a_bad_query_is_pointed_at(capsys: pytest.CaptureFixture[str], facts: str) -> None:
    assert answers(capsys, facts, "William/", "--json") == (
        1,
        "",
        "error: a relation is missing at the end\n  William/\n          ^\n",
    )


def test_an_unknown_name_comes_with_a_suggestion(capsys: pytest.CaptureFixture[str], facts: str) -> None:
    code, out, err = answers(capsys, facts, "Wiliam/fatherOf")
    assert (code, out) == (1, "")
    assert err == "error: unknown entity 'Wiliam'; did you mean 'William'?\n  Wiliam/fatherOf\n  ^\n"


def test_wrong_usage_exits_with_2(capsys: pytest.CaptureFixture[str], facts: str) -> None:
    assert answers(capsys, facts)[0] == 2
    assert answers(capsys, facts, "Andrew/fatherOf", "--split", "half")[0] == 2
