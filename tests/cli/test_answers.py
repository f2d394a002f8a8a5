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
        "known": "all",
        "negation": None,
    }


def test_names_go_to_standard_output_and_the_count_beside_it(capsys: pytest.CaptureFixture[str], facts: str) -> None:
    code, out, err = answers(capsys, facts, 'Andrew/fatherOf/"lives in"')
    assert (code, out) == (0, "London (UK)\n")
    assert err == '1 answer to Andrew/fatherOf/"lives in"\n'


def test_no_answer_is_an_answer(capsys: pytest.CaptureFixture[str], facts: str) -> None:
    code, out, _ = answers(capsys, facts, "William/fatherOf", "--json")
    assert (code, json.loads(out)["answers"], json.loads(out)["count"]) == (0, [], 0)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("Charles/fatherOf & !William", ["Harry"]),
        ("Charles/fatherOf and not William", ["Harry"]),
        ("(Charles/fatherOf & Charles/brotherOf)", []),
        ("(Charles | Charles/brotherOf)/fatherOf", ["Beatrice", "Eugenie", "Harry", "William"]),
        ("Charles/(fatherOf|brotherOf)", ["Andrew", "Harry", "William"]),
    ],
)
def test_sets_are_joined(capsys: pytest.CaptureFixture[str], facts: str, query: str, found: list[str]) -> None:
    code, out, _ = answers(capsys, facts, query)
    assert (code, out.splitlines()) == (0, found)


def test_a_negation_is_said_to_be_over_known_facts(capsys: pytest.CaptureFixture[str], facts: str) -> None:
    _, out, err = answers(capsys, facts, "Charles/fatherOf & !Charles/brotherOf/fatherOf")
    said = "negation is over known facts: a fact that is missing may exclude some of these\n"
    assert err.endswith(said)
    _, out, _ = answers(capsys, facts, "Charles/fatherOf & !Charles/brotherOf/fatherOf", "--json")
    assert json.loads(out)["negation"] == "over known facts"
    _, out, err = answers(capsys, facts, "Charles/fatherOf & !William")  # whoever is named is excluded for certain
    assert (out, err) == ("Harry\n", "1 answer to Charles/fatherOf & !William\n")


def test_added_facts_are_known_too(capsys: pytest.CaptureFixture[str], folder: str, tmp_path: Path) -> None:
    added = tmp_path / "added.tsv"
    added.write_text("Andrew\tfatherOf\tLouise\n", encoding="utf-8")
    _, out, _ = answers(capsys, folder, "Andrew/fatherOf", "--known", "train", "--facts", str(added))
    assert out.splitlines() == ["Eugenie", "Louise"]


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ((), ["Eugenie", "William"]),
        (("--known", "all"), ["Eugenie", "William"]),
        (("--known", "train"), ["Eugenie"]),
        (("--split", "train"), ["Eugenie"]),
    ],
)
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
    assert answers(capsys, facts, "Andrew/fatherOf", "--known", "half")[0] == 2
