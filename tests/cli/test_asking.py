"""ask, check, explain, paths, calibrate, index and export as their users meet them."""

from __future__ import annotations

import io
import json
import os
import re
import select
import shutil
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from blockhole.cli.main import main
from blockhole.cli.prompt import Completer, history_file
from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.graph.vocabulary import Vocabulary
from tests.answering.toys import make_engine
from tests.outcomes import Command, command

QUERY = '"number 3"/next/double'


@pytest.fixture
def blockhole(capsys: pytest.CaptureFixture[str]) -> Command:
    return command(main, capsys)


@pytest.fixture(scope="module")
def run(clockwork: Path) -> Path:
    return clockwork


@pytest.fixture
def own_run(run: Path, tmp_path: Path) -> Path:
    shutil.copytree(run, tmp_path / "run")
    return tmp_path / "run"


def test_ask_prints_one_object(blockhole: Command, run: Path) -> None:
    result = blockhole("ask", run, QUERY, "--top", 3, "--json").json()
    assert set(result) == {"query", "answers", "known_count", "predicted_count", "negation", "milliseconds"}
    assert (result["query"], result["negation"], result["predicted_count"]) == (QUERY, None, 3)
    assert [set(answer) for answer in result["answers"]] == [{"entity", "score", "probability", "status"}] * (
        3 + result["known_count"]
    )
    for status in ("known", "predicted"):
        listed = [answer["probability"] for answer in result["answers"] if answer["status"] == status]
        assert listed == sorted(listed, reverse=True)


def test_ask_takes_queries_of_every_kind(blockhole: Command, run: Path) -> None:
    both = '("number 3"/next | "number 4"/next)/next & not "number 5"/next'
    outcome = blockhole("ask", run, both, "--only", "known")
    assert outcome.out.splitlines()[1].split()[:2] == ["number", "5"]
    assert outcome.err == "negation is over known facts: a fact that is missing may exclude some of these\n"
    result = blockhole("ask", run, both, "--json").json()
    assert (result["known_count"], result["negation"]) == (1, "over known facts")
    assert "number 6" not in [answer["entity"] for answer in result["answers"]]


def test_known_answers_are_paged(blockhole: Command, run: Path) -> None:
    every = blockhole("ask", run, '"remainder/1"/^mod6', "--only", "known", "--top", 99, "--json").json()
    assert len(every["answers"]) == every["known_count"] > 4
    page = blockhole("ask", run, '"remainder/1"/^mod6', "--only", "known", "--top", 2, "--offset", 2, "--json").json()
    assert (page["answers"], page["known_count"]) == (every["answers"][2:4], every["known_count"])
    said = blockhole("ask", run, '"remainder/1"/^mod6', "--top", 2).err
    assert said == f"2 of {every['known_count']} known answers; --offset 2 shows more\n"
    last = every["known_count"]
    for offset, said in (
        (1, f"2 to 3 of {last} known answers; --offset 3 shows more\n"),
        (last - 2, f"{last - 1} to {last} of {last} known answers\n"),
    ):
        assert blockhole("ask", run, '"remainder/1"/^mod6', "--top", 2, "--offset", offset).err == said
    behind = blockhole("ask", run, '"remainder/1"/^mod6', "--offset", 999)
    assert (behind.out, behind.err) == ("no further answers behind 999 of each list\n", "")


def test_ask_as_people_read_it(blockhole: Command, run: Path) -> None:
    outcome = blockhole("ask", run, '"number 3"/next', "--top", 2)
    lines = outcome.out.splitlines()
    assert lines[0].split() == ["answer", "probability", "status"]
    assert lines[1].startswith("number 4 ")
    assert lines[1].split()[-2:] == ["1.000", "known"]
    assert outcome.err == ""


def test_ask_keeps_to_candidates_and_status(blockhole: Command, run: Path) -> None:
    typed = blockhole("ask", run, '"number 3"/mod6', "--top", 99, "--json").json()["answers"]
    assert {answer["entity"] for answer in typed} == {f"remainder/{i}" for i in range(6)}
    everything = blockhole("ask", run, '"number 3"/mod6', "--top", 99, "--candidates", "all", "--json").json()
    assert len(everything["answers"]) == 66
    predicted = blockhole("ask", run, '"number 3"/mod6', "--only", "predicted", "--json").json()["answers"]
    assert {answer["status"] for answer in predicted} == {"predicted"}


@pytest.mark.parametrize("name", ["answers.parquet", "answers.jsonl"])
def test_a_file_of_queries_becomes_a_file_of_answers(blockhole: Command, run: Path, tmp_path: Path, name: str) -> None:
    queries = tmp_path / "queries.tsv"
    queries.write_text(f"{QUERY}\nnumber 4\tmod6\n", encoding="utf-8")
    result = blockhole("ask", run, "--file", queries, "--out", tmp_path / name, "--top", 2, "--json").json()
    alone = [blockhole("ask", run, q, "--top", 2, "--json").json() for q in (QUERY, '"number 4"/mod6')]
    count = sum(len(each["answers"]) for each in alone)
    assert (result["queries"], result["answers"], result["out"]) == (2, count, str(tmp_path / name))
    if name.endswith("parquet"):
        assert pl.read_parquet(tmp_path / name)["entity"].to_list() == [
            answer["entity"] for each in alone for answer in each["answers"]
        ]
    else:
        lines = (tmp_path / name).read_text(encoding="utf-8").splitlines()
        assert [json.loads(line)["query"] for line in lines] == [QUERY, '"number 4"/mod6']


@pytest.mark.parametrize(
    ("words", "use"),
    [
        (("ask", QUERY, "--device", "gpu"), "--device: it is for a file of queries (--file) alone"),
        (("ask", QUERY, "--columns", "1,2,3"), "--columns: it is for a file of --facts alone"),
        (
            ("ask", "--file", "q.tsv", "--out", "a.jsonl", "--offset", "1"),
            "--offset: it is for one QUERY alone",
        ),
        (("ask", "--names", "label"), "--names: it is for printed answers to one QUERY alone"),
        (("ask", QUERY, "--out", "a.csv", "--names", "label"), "--names: it is for printed answers to one QUERY alone"),
        (("predict", "--columns", "1,2,3"), "--columns: it is for a file of --facts alone"),
    ],
    ids=lambda words: " ".join(words) if isinstance(words, tuple) else "",
)
def test_an_option_that_would_change_nothing_is_refused(
    blockhole: Command, run: Path, words: tuple[str, ...], use: str
) -> None:
    verb, *rest = words
    outcome = blockhole(verb, run, *rest)
    assert (outcome.status, outcome.out) == (2, "")
    assert f"Invalid value for {use}; leave it out here" in " ".join(outcome.err.replace("│", " ").split())


def test_one_answer_to_one_query_is_said_so(blockhole: Command, run: Path, tmp_path: Path) -> None:
    (tmp_path / "queries.tsv").write_text(f"{QUERY}\n", encoding="utf-8")
    options = ("--file", tmp_path / "queries.tsv", "--out", tmp_path / "answers.jsonl", "--only", "predicted")
    assert blockhole("ask", run, *options, "--top", 1).out.startswith("1 answer to 1 query in ")
    assert blockhole("ask", run, *options, "--top", 2).out.startswith("2 answers to 1 query in ")


def test_a_bad_query_in_a_file_leaves_no_output(blockhole: Command, run: Path, tmp_path: Path) -> None:
    queries = tmp_path / "queries.tsv"
    queries.write_text('"number 3"/next\n"number 3"/nxt\n', encoding="utf-8")
    out = tmp_path / "answers.parquet"
    failure = blockhole("ask", run, "--file", queries, "--out", out).failure()
    assert failure.startswith(f"{queries}, line 2: unknown relation 'nxt'; did you mean 'next'?")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["queries.tsv"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["Numbr 3/next"], "expected / & or | here; put a name with spaces"),
        (['"numbr 3"/next'], "unknown entity 'numbr 3'; did you mean \"number 3\""),
        ([""], "the query is empty: write source/relation"),
        (["a" + "/next" * 10_000], "the query has 10,000 hops; a query may have 64 at most."),
        (['!"number 3"/next'], "! takes answers away, and here there are none to take them from"),
        ([QUERY, "--top", "0"], "top must be a whole number of at least 1, not 0."),
        ([QUERY, "--top", "-1"], "top must be a whole number of at least 1, not -1."),
    ],
)
def test_bad_questions_are_one_clear_error(blockhole: Command, run: Path, arguments: list[str], expected: str) -> None:
    assert expected in blockhole("ask", run, *arguments).failure()


def test_a_folder_that_is_no_run(blockhole: Command, tmp_path: Path) -> None:
    assert "there is no run" in blockhole("ask", tmp_path / "none", QUERY).failure()


@pytest.mark.parametrize(
    "arguments", [["a/b", "--file", "q.tsv", "--out", "a.jsonl"], ["--file", "q.tsv"], ["--json"], ["--only", "some"]]
)
def test_wrong_usage_is_status_2(blockhole: Command, run: Path, arguments: list[str]) -> None:
    assert blockhole("ask", run, *arguments).status == 2


def test_check_says_yes_or_no(blockhole: Command, run: Path) -> None:
    result = blockhole("check", run, '"number 3"/next', "number 4", "--json").json()
    assert set(result) == {"holds", "probability", "status"}
    assert (result["holds"], result["probability"], result["status"]) == (True, 1.0, "known")
    assert blockhole("check", run, '"number 3"/next', "number 4").out.startswith("yes: probability 1.000, known")
    assert blockhole("check", run, '"number 3"/mod6', "remainder/4").out.startswith("no: probability 0.")


@pytest.mark.slow
def test_a_run_without_calibration(blockhole: Command, own_run: Path) -> None:
    (own_run / "calibration.json").unlink()
    outcome = blockhole("ask", own_run, QUERY, "--json")
    assert {answer["probability"] for answer in outcome.json()["answers"]} == {None}
    assert outcome.err.startswith(f"warning: {own_run} has no calibration for its weights, which turns scores into")
    known = ['"number 3"/next', "number 4"]
    assert blockhole("check", own_run, *known).out == "yes: probability 1.000, known\n"
    assert blockhole("explain", own_run, *known).out.splitlines()[1] == "1.000  number 3 → next → number 4"
    listed = blockhole("paths", own_run, "number 3", "number 4")
    assert "predicted" not in listed.out
    assert listed.err == outcome.err
    for verb in (["check", QUERY, "number 4"], ["explain", QUERY, "number 4"]):
        refused = blockhole(verb[0], own_run, *verb[1:]).failure()
        assert refused.startswith(f"{own_run} has no calibration for its weights, which turns scores into")
        assert refused.rstrip().endswith(f"make it with `blockhole calibrate {own_run}`.")
    report = blockhole("calibrate", own_run, "--test", "--json").json()
    assert {"scale", "hop", "chains", "facts", "brier", "sampling_error"} <= set(report)
    assert report["test"]["1 hop"]["ece"] < 0.15
    assert blockhole("check", own_run, '"number 3"/mod6', "remainder/4").status == 0


@pytest.mark.slow
def test_calibrate_draws_its_reliability(blockhole: Command, own_run: Path, tmp_path: Path) -> None:
    outcome = blockhole("calibrate", own_run, "--plots", tmp_path / "plots")
    assert "expected calibration error on test, 2 hops: " in outcome.out
    assert outcome.out.startswith("p = 1 / (1 + exp(-(")
    assert sorted(path.name for path in (tmp_path / "plots").iterdir()) == ["reliability.png", "reliability.svg"]


def test_explain_gives_proofs(blockhole: Command, run: Path) -> None:
    query = '"number 3"/next/next'
    result = blockhole("explain", run, query, "number 5", "--top", 1, "--json").json()
    assert (result["probability"], result["status"]) == (1.0, "known")
    (proof,) = result["proofs"]
    assert proof["probability"] == 1.0
    assert set(proof["tree"]) == {"entity", "relation", "status", "probability", "rule", "parts", "excluded"}
    assert (proof["tree"]["entity"], proof["tree"]["parts"][0]["entity"]) == ("number 5", "number 4")
    shown = blockhole("explain", run, query, "number 5", "--top", 1).out
    expected = "1.000  number 3 → next → number 4 → next → number 5"
    assert shown == f"number 5: known, probability 1.000\n{expected}\n"
    assert blockhole("explain", run, query, "number 5", "--dot").out.startswith("digraph proofs {")
    nothing = blockhole("explain", run, f'{query} & "number 9"', "number 5").out
    assert nothing == "number 5: predicted, probability 0.000; no proof is plausible\n"


def test_explain_shows_what_a_negation_leaves(blockhole: Command, run: Path) -> None:
    query = '"number 3"/next/next & !"number 3"/double'
    shown = blockhole("explain", run, query, "number 5", "--top", 1).out.splitlines()
    assert shown[0].startswith("number 5: known, probability ")
    assert "→ number 5) & (not (0." in shown[1]


def test_paths_connects_two_entities(blockhole: Command, run: Path) -> None:
    result = blockhole("paths", run, "number 3", "number 5", "--max-length", 2, "--json").json()
    known = {path["path"] for path in result["paths"] if path["status"] == "known"}
    assert {"next/next", "double/^next"} <= known
    assert "next/next" in blockhole("paths", run, "number 3", "number 5").out
    assert "…" not in blockhole("paths", run, "number 3", "number 5").out
    refused = blockhole("paths", run, "number 3", "number 5", "--max-length", 9)
    assert refused.failure() == "the longest path may have 1 to 4 hops, not 9."


def test_a_search_ends_at_its_deadline(blockhole: Command, run: Path) -> None:
    """With an error, not with what it has found; one that has time enough says what it says without."""
    questions = [
        ("ask", QUERY),
        ("check", QUERY, "number 8"),
        ("explain", QUERY, "number 8"),
        ("paths", "number 3", "number 8"),
    ]
    for verb, *asked in [*questions, ("sparql", "SELECT ?x { <urn:blockhole:number%203> :next/:double ?x }")]:
        outcome = blockhole(verb, run, *asked, "--deadline", 1e-9)
        assert outcome.status == 1
        assert "the search did not end within 1e-09 s" in outcome.err
        assert outcome.out == ""
        assert blockhole(verb, run, *asked, "--deadline", 600).out == blockhole(verb, run, *asked).out
        assert "above 0, not -1" in blockhole(verb, run, *asked, "--deadline", -1).err
    refused = blockhole("ask", run, "--deadline", 5)
    assert "it is for one QUERY alone" in refused.err


def test_new_facts_can_be_given(blockhole: Command, run: Path, tmp_path: Path) -> None:
    facts = tmp_path / "facts.tsv"
    facts.write_text("number 60\tnext\tnumber 1\nnumber 59\tnext\tnumber 60\n", encoding="utf-8")
    result = blockhole("ask", run, '"number 60"/next/next', "--facts", facts, "--json").json()
    known = [answer["entity"] for answer in result["answers"] if answer["status"] == "known"]
    assert known == ["number 2"]
    given = ("--facts", facts, "--json")
    assert blockhole("check", run, '"number 59"/next', "number 60", *given).json()["status"] == "known"
    explained = blockhole("explain", run, '"number 60"/next', "number 1", *given).json()
    assert (explained["status"], explained["proofs"][0]["tree"]["parts"][0]["entity"]) == ("known", "number 60")
    assert blockhole("paths", run, "number 60", "number 1", *given).json()["paths"][0]["path"] == "next"


def test_index_says_its_recall(blockhole: Command, own_run: Path) -> None:
    report = blockhole("index", own_run, "--json").json()
    assert (report["kind"], report["recall_at_10"], report["width"]) == ("exact", 1.0, None)
    before = blockhole("ask", own_run, QUERY, "--candidates", "all", "--json").json()["answers"]
    report = blockhole("index", own_run, "--kind", "hnsw", "--json").json()
    assert report["recall_at_10"] >= 0.95
    assert blockhole("ask", own_run, QUERY, "--candidates", "all", "--json").json()["answers"] == before
    outcome = blockhole("index", own_run, "--kind", "ivf")
    assert "recall@10" in outcome.out
    assert outcome.err.startswith(f"warning: {own_run} has 66 entities, and questions over 50,000 candidates or fewer")


def test_index_says_what_it_costs_where_that_is_much(
    blockhole: Command, own_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "on one core" not in blockhole("index", own_run, "--kind", "ivf").err
    monkeypatch.setattr("blockhole.cli.export._LONG", 0)
    said = blockhole("index", own_run, "--kind", "ivf", "--json").err
    assert re.match(r"building an ivf index of 66 vectors of \d+ numbers: about 10 s on one core, and 0 MB in ", said)


def test_without_the_file_of_its_index_a_run_answers(blockhole: Command, own_run: Path, tmp_path: Path) -> None:
    (tmp_path / "queries").write_text(QUERY + "\n", encoding="utf-8")
    (own_run / blockhole("index", own_run, "--json").json()["file"]).unlink()
    for arguments in (
        ["ask", own_run, QUERY],
        ["ask", own_run, "--file", tmp_path / "queries", "--out", tmp_path / "answers.jsonl"],
        ["check", own_run, QUERY, "number 4"],
        ["explain", own_run, QUERY, "number 4"],
        ["paths", own_run, "number 3", "number 4"],
    ):
        outcome = blockhole(*arguments)
        assert outcome.status == 0
        assert outcome.err.startswith("warning: answers are searched for without the index: ")
        assert outcome.err.endswith(f" is missing; build it again with: blockhole index {own_run} --kind exact\n")
        assert outcome.err.count("\n") == 1


@pytest.mark.parametrize("kind", ["parquet", "npz", "faiss"])
def test_export_writes_a_file(blockhole: Command, run: Path, tmp_path: Path, kind: str) -> None:
    out = tmp_path / f"vectors.{kind}"
    report = blockhole("export", run, "--to", kind, "--out", out, "--json").json()
    assert (report["entities"], report["place"]) == (66, str(out))
    assert out.stat().st_size > 66 * report["width"] * 4


def test_export_to_nowhere(blockhole: Command, run: Path) -> None:
    assert blockhole("export", run, "--to", "csv").status == 2
    assert blockhole("export", run, "--to", "postgresql://u@h/x", "--out", "x.parquet").status == 2
    refused = blockhole("export", run, "--to", "postgresql://u:secret@127.0.0.1:9/x")
    assert refused.failure().startswith("cannot reach the database (")
    assert "secret" not in refused.err


def test_the_prompt_answers_and_goes_on_after_mistakes(
    blockhole: Command, run: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr("sys.stdin", io.StringIO('"number 3"/nxt\n\n"number 3"/next\n'))
    outcome = blockhole("ask", run, "--top", 1)
    assert outcome.status == 0
    assert "number 4" in outcome.out
    assert "unknown relation 'nxt'; did you mean 'next'?" in outcome.err
    assert history_file() == tmp_path / "blockhole" / "queries"


def test_completion_offers_entities_then_relations() -> None:
    graph = KnowledgeGraph(
        Vocabulary(["Prince William", "priscilla", "Andrew"]),
        Vocabulary(["fatherOf", "friendOf"], "relation"),
        make_engine()[0].graph.triples[:0],
    )
    completer = Completer(graph)
    assert completer.complete("PRI") == ['"Prince William"', "priscilla"]
    assert completer.complete('"prince') == ['"Prince William"']
    assert completer.complete("Andrew/f") == ["Andrew/fatherOf", "Andrew/friendOf"]
    assert completer.complete("Andrew/fatherOf/^fr") == ["Andrew/fatherOf/^friendOf"]
    assert completer.complete("Andrew/x") == []
    assert completer.complete("Andrew/f & pri") == ['Andrew/f & "Prince William"', "Andrew/f & priscilla"]
    assert completer.complete("(Andrew/fatherOf | !an") == ["(Andrew/fatherOf | !Andrew"]
    assert completer.complete("Andrew/(fatherOf|^fr") == ["Andrew/(fatherOf|^friendOf"]
    assert completer.complete("(Andrew/fatherOf & priscilla)/fr") == ["(Andrew/fatherOf & priscilla)/friendOf"]
    assert completer.complete("(Andrew/fatherOf)") == []
    assert len(completer.complete("")) == 3


def test_completion_takes_a_slash_inside_a_name_for_a_part_of_it() -> None:
    graph = KnowledgeGraph(
        Vocabulary(["http://example.org/Q42", "AC/DC"]),
        Vocabulary(["http://example.org/P22", "in/out"], "relation"),
        make_engine()[0].graph.triples[:0],
    )
    completer = Completer(graph)
    assert completer.complete("<http://example.org/q") == ["<http://example.org/Q42>"]
    assert completer.complete('"ac/') == ['"AC/DC"']
    assert completer.complete("<http://example.org/Q42>/^<http://ex") == [
        "<http://example.org/Q42>/^<http://example.org/P22>"
    ]
    assert completer.complete('"AC/DC"/in') == ['"AC/DC"/"in/out"']


@pytest.mark.slow
def test_tab_completes_at_a_terminal(run: Path, tmp_path: Path) -> None:
    pty = pytest.importorskip("pty", reason="Windows has no pseudo-terminals")
    terminal, theirs = pty.openpty()
    command = [sys.executable, "-m", "blockhole", "ask", str(run), "--top", "1"]
    environment = os.environ | {"XDG_STATE_HOME": str(tmp_path), "TERM": "xterm", "COLUMNS": "100"}
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as prompt:
        os.close(theirs)
        _read_until(terminal, "? ")
        os.write(terminal, b'"number 5\t\t')  # the names that begin so, and the line again
        assert '"number 57"' in _read_until(terminal, '? "number 5')
        os.write(terminal, b'7"/ne\t\n')
        assert "number 58" in _read_until(terminal, "? ")
        os.write(terminal, b"\x04")
        assert prompt.wait(timeout=60) == 0
    os.close(terminal)


def _read_until(terminal: int, end: str) -> str:
    """What a terminal shows until it shows `end` last."""
    seen = ""
    while not seen.endswith(end):
        ready, _, _ = select.select([terminal], [], [], 60)
        assert ready, f"the terminal shows {seen!r} and no more"
        seen += os.read(terminal, 4096).decode()
    return seen


@pytest.mark.parametrize(
    "words",
    [
        ("ask", QUERY),
        pytest.param(("check", QUERY, "number 8"), marks=pytest.mark.slow),
        pytest.param(("explain", QUERY, "number 8"), marks=pytest.mark.slow),
        pytest.param(("paths", "number 3", "number 8"), marks=pytest.mark.slow),
    ],
    ids=lambda words: words[0],
)
def test_a_question_waits_for_no_training_library(run: Path, words: tuple[str, ...]) -> None:
    program = (
        "import sys\nfrom blockhole.cli.main import main\n"
        "try:\n    main(sys.argv[1:])\nfinally:\n"
        "    print(sorted({'torch', 'numba', 'scipy', 'pandas', 'pyoxigraph'} & set(sys.modules)), file=sys.stderr)"
    )
    verb, *arguments = words
    command = [sys.executable, "-c", program, verb, str(run), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout
    assert done.stderr == "[]\n"
