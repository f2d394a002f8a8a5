"""A stranger's path from a Turtle file or a table to answers, with the installed command alone; then the mistakes."""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import time
from pathlib import Path

import httpx
import numpy as np
import pytest

from tests.journey.conftest import EPOCHS, Blockhole
from tests.journey.towns import FILE, iri, write_table
from tests.packaging.wheel import Installation, environment

LAND = f"{iri('Zoë Müller')}/{iri('née à')}/{iri('liegt_in')}"
"""In which land Zoë was born."""
BRAZIL = "http://exemple.org/Brésil"


def test_the_file_is_understood(command: Blockhole) -> None:
    stats = command("data", "stats", FILE, "--json")
    assert json.loads(stats.out) | {"lengths": None} == {
        "entities": 162, "relations": 5, "train": 276, "valid": 0, "test": 0, "paths": None, "lengths": None,
        "query_sets": None,
    }  # fmt: skip
    answers = command("answers", FILE, LAND)
    assert answers.out.split() == [BRAZIL]


def test_evaluate(blockhole: Blockhole, run: str) -> None:
    evaluated = blockhole("evaluate", run, "--json")
    assert evaluated.status == 0, evaluated.err
    figures = json.loads(evaluated.out)
    assert figures["run"] == run
    assert 50 < figures["mq"] <= 100


def test_ask(blockhole: Blockhole, run: str) -> None:
    asked = blockhole("ask", run, LAND, "--json")
    answers = json.loads(asked.out)["answers"]
    assert answers[0]["entity"] == BRAZIL
    assert {answer["status"] for answer in answers} <= {"known", "predicted"}
    assert all(0 <= answer["probability"] <= 1 for answer in answers)
    named = blockhole("ask", run, f'"\\"Zoë Müller\\""/^{iri("nom")}', "--top", 1)
    assert "http://exemple.org/Zoë_Müller" in named.out
    assert "warning" not in named.err


def test_explain(blockhole: Blockhole, run: str) -> None:
    explained = blockhole("explain", run, LAND, BRAZIL)
    assert explained.status == 0, explained.err
    answer, best = explained.out.splitlines()[:2]
    assert answer == f"{BRAZIL}: known, probability 1.000"
    assert re.match(r"[01]\.\d{3}  http://exemple.org/Zoë_Müller → <http://exemple.org/née_à> → ", best)
    assert best.endswith(f"→ {BRAZIL}")


def test_export(blockhole: Blockhole, run: str, folder: Path) -> None:
    exported = blockhole("export", run, "--to", "npz", "--out", "vecteurs à moi.npz")
    assert exported.status == 0, exported.err
    with np.load(folder / "vecteurs à moi.npz", allow_pickle=False) as held:
        names = {name: held[name] for name in held.files}
    assert any(BRAZIL in values.tolist() for values in names.values() if values.ndim == 1)
    assert any(values.ndim == 2 and len(values) == 162 for values in names.values())


def test_serve_and_ask_over_http(command: Blockhole, run: str, installation: Installation, folder: Path) -> None:
    local = json.loads(command("ask", run, LAND, "--top", 3, "--json").out)["answers"]
    serving = [str(installation.command), "serve", run, "--port", "0", "--json"]
    with subprocess.Popen(
        serving, cwd=folder, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stdout is not None
            url = json.loads(server.stdout.readline())["url"]
            with httpx.Client(base_url=url, timeout=60, verify=False) as client:
                asked = client.post("/api/ask", json={"query": LAND, "top": 3}).json()
                assert asked["run"] == "premier"
                assert asked["result"]["answers"] == local
                names = client.get("/api/entities", params={"prefix": "http://exemple.org/São"}).json()["result"]
                assert "http://exemple.org/São_Paulo" in json.dumps(names, ensure_ascii=False)
                page = client.get("/")
                assert page.headers["content-type"].startswith("text/html")
                wrong = client.post("/api/ask", json={"query": f"Zürich/{iri('liegt_in')}"})
                assert wrong.status_code == 404
                message = wrong.json()["error"]["message"]
                assert message.startswith("unknown entity 'Zürich'; did you mean ")
                assert iri("Zürich") in message
            server.send_signal(signal.SIGINT)
            assert server.wait(60) == 0
        finally:
            server.kill()


def test_interrupt_and_resume(blockhole: Blockhole, run: str, installation: Installation, folder: Path) -> None:
    """Ctrl-C in mid-training, then the command that the program itself suggests."""
    # With a preset there is no look at the graph, which the first run has taken.
    options = ["--data", "facts", "--out", "mes runs/deuxième", "--epochs", "1000000", "--threads", "1"]
    options += ["--preset", "small"]
    command = [str(installation.command), "train", *options]
    metrics = folder / "mes runs" / "deuxième" / "metrics.jsonl"
    with subprocess.Popen(command, cwd=folder, env=environment(), stderr=subprocess.PIPE, text=True) as training:
        try:
            until = time.monotonic() + 300
            while not (metrics.is_file() and metrics.stat().st_size) and time.monotonic() < until:
                time.sleep(0.1)
            training.send_signal(signal.SIGINT)
            _, err = training.communicate(timeout=120)
        finally:
            training.kill()
    assert training.returncode == 1
    told = re.search(r"interrupted after epoch (\d+).*; continue with: blockhole (.*)", err)
    assert told is not None, err
    epochs = int(told[1]) + 3
    resumed = blockhole(*shlex.split(told[2]), "--epochs", epochs, "--json")
    assert resumed.status == 0, resumed.err
    report = json.loads(resumed.out)
    assert (report["epochs"], report["complete"], report["run"]) == (epochs, True, "mes runs/deuxième")
    seen = [line["epoch"] for line in map(json.loads, metrics.read_text().splitlines()) if line["event"] == "epoch"]
    assert seen == list(range(1, epochs + 1))


# Tables as spreadsheets and databases write them


@pytest.mark.parametrize(
    ("name", "header", "order", "separator", "told", "noted"),
    [
        ("excel.csv", "from;to;type;since", (0, 2, 1), ";", None,
         "columns 1 (from), 3 (type) and 2 (to); left out: since; facts have no time; "
         "fields are separated by semicolons."),
        ("base.csv", ":START_ID,:END_ID,:TYPE,weight", (0, 2, 1), ",", None,
         "columns 1 (:START_ID), 3 (:TYPE) and 2 (:END_ID); left out: weight; "
         "a fact holds or does not, so weights do not count."),
        ("export.tsv", "Subject\tPredicate\tObject\trow", (0, 1, 2), "\t", None,
         "columns 1 (Subject), 2 (Predicate) and 3 (Object); left out: row."),
        ("maison.csv", "qui,quoi,lien,depuis", (0, 2, 1), ",", "qui,lien,quoi", None),
    ],
)  # fmt: skip
def test_a_table_is_understood(
    blockhole: Blockhole,
    folder: Path,
    name: str,
    header: str,
    order: tuple[int, int, int],
    separator: str,
    told: str | None,
    noted: str | None,
) -> None:
    write_table(folder / name, header, order, separator)
    columns = () if told is None else ("--columns", told)
    stats = blockhole("data", "stats", name, "--json", *columns)
    sizes = json.loads(stats.out)
    assert (sizes["entities"], sizes["relations"], sizes["train"]) == (84, 4, 198)
    assert stats.err == (f"{name}: left out: depuis.\n" if noted is None else
                         f"{name}: source, relation and target are {noted}\n")  # fmt: skip
    assert blockhole("answers", name, '"Zoë Müller"/"née à"/liegt_in', *columns).out == "Brésil\n"


def test_a_run_remembers_how_its_table_was_read(blockhole: Blockhole, folder: Path) -> None:
    write_table(folder / "maison.csv", "qui,quoi,lien,depuis", (0, 2, 1), ",")
    told = ("--columns", "qui,lien,quoi")
    split = blockhole("data", "split", "maison.csv", "--out", "maison", "--valid", 0.1, "--test", 0.1, *told)
    assert split.status == 0, split.err
    trained = blockhole("train", "--data", "maison.csv", "--out", "run", "--epochs", 2, "--threads", 1, *told)
    assert trained.status == 0, trained.err
    again = blockhole("train", "--out", "run", "--resume", "--epochs", 3)
    assert again.status == 0, again.err


# Mistakes that a stranger makes, and the sentence that each is met with.

BORN = iri("née à")


def _failure(blockhole: Blockhole, *arguments: object) -> str:
    """What a command prints that fails for a reason the user can act on: one error, no traceback, no output."""
    outcome = blockhole(*arguments)
    assert (outcome.status, outcome.out) == (1, ""), outcome
    assert outcome.err.startswith("error: ")
    assert "Traceback" not in outcome.err
    return outcome.err.removeprefix("error: ").rstrip("\n")


def _refusal(blockhole: Blockhole, *arguments: object) -> str:
    """What a command prints that is typed wrongly."""
    outcome = blockhole(*arguments)
    assert (outcome.status, outcome.out) == (2, ""), outcome
    return outcome.err


def test_1_a_verb_is_misspelt(blockhole: Blockhole) -> None:
    assert "Did you mean 'train'?" in _refusal(blockhole, "trian", "--data", FILE)


def test_2_the_file_is_elsewhere(blockhole: Blockhole) -> None:
    assert _failure(blockhole, "train", "--data", "mes donnees.ttl", "--out", "x") == (
        "there is no data set, file or folder 'mes donnees.ttl'; the data sets are family, wn11, fb13, fb15k-237, "
        "wn18rr, umls, kinship, nell, fb15k-237-q2b. A file or a folder of facts can be given too."
    )


def test_3_turtle_with_a_space_in_a_name(blockhole: Blockhole, folder: Path) -> None:
    (folder / "faux.ttl").write_text("<http://ex.org/São Paulo> <http://ex.org/in> <http://ex.org/Brésil> .\n")
    assert _failure(blockhole, "train", "--data", "faux.ttl", "--out", "x") == (
        "faux.ttl: an empty IRI, a character that IRIs cannot hold, or a triple inside a triple in "
        "<http://ex.org/São Paulo> <http://ex.org/in> <http://ex.org/Brésil> .; "
        "write plain IRIs (a space is %20), blank nodes and literals."
    )


def test_4_a_name_without_its_address(blockhole: Blockhole, run: str) -> None:
    sentence, *drawn = _failure(blockhole, "ask", run, f"Zoë_Müller/{BORN}").splitlines()
    assert sentence.startswith("unknown entity 'Zoë_Müller'; did you mean ")
    assert iri("Zoë Müller") in sentence
    assert drawn == [f"  Zoë_Müller/{BORN}", "  ^"]


def test_5_a_space_without_quotes(blockhole: Blockhole, run: str) -> None:
    assert _failure(blockhole, "ask", run, f"Zoë Müller/{BORN}") == (
        'expected / & or | here; put a name with spaces or punctuation in double quotes: "a b"\n'
        f"  Zoë Müller/{BORN}\n      ^"
    )


def test_6_a_run_in_the_way(blockhole: Blockhole, run: str) -> None:
    assert _failure(blockhole, "train", "--data", "facts", "--out", run) == (
        f"{run} already holds a run, at epoch {EPOCHS}; add --resume to continue it, or choose another folder."
    )


def test_7_a_setting_is_misspelt(blockhole: Blockhole) -> None:
    assert _failure(blockhole, "train", "--data", FILE, "--out", "x", "--set", "optimizer.learning_rat=0.1") == (
        "there is no setting optimizer.learning_rat; did you mean optimizer.learning_rate?"
    )


def test_8_a_folder_that_is_no_run(blockhole: Blockhole) -> None:
    assert _failure(blockhole, "ask", "mes runs 2", "a/b") == (
        "there is no run mes runs 2; train one with: blockhole train --data NAME --out 'mes runs 2'"
    )


def test_9_measuring_without_facts_set_aside(blockhole: Blockhole, unsplit_run: str) -> None:
    assert _failure(blockhole, "evaluate", unsplit_run).endswith(
        f"{FILE} has no test facts to measure on; choose another split, or set facts aside with `blockhole data split` "
        "and train on what it writes."
    )


def test_10_probabilities_without_facts_set_aside(blockhole: Blockhole, folder: Path, unsplit_run: str) -> None:
    """One sentence leads to the next."""
    query = f"{iri('Zoë Müller')}/{BORN}"
    assert blockhole("explain", unsplit_run, query, "http://exemple.org/São_Paulo").out.startswith(
        "http://exemple.org/São_Paulo: known, probability 1.000\n"
    )
    aside = f"`blockhole data split {shlex.quote(str(folder / FILE))} --out FOLDER`"
    assert _failure(blockhole, "explain", unsplit_run, query, "http://exemple.org/Kraków") == (
        "tout has no calibration, which turns scores into probabilities, and its data no validation facts to fit one "
        f"on; set some aside with {aside} and train on FOLDER."
    )
    assert _failure(blockhole, "calibrate", unsplit_run).endswith(
        f"{FILE} has no validation facts, by which probabilities are fitted; set some aside with "
        "`blockhole data split` and train on what it writes, or name other data with --data."
    )


def test_11_a_header_that_names_no_column_we_know(blockhole: Blockhole, folder: Path) -> None:
    write_table(folder / "maison.csv", "qui,quoi,lien,depuis", (0, 2, 1), ",")
    assert _failure(blockhole, "train", "--data", "maison.csv", "--out", "x") == (
        "maison.csv, line 1: 4 columns (qui, quoi, lien, depuis), which do not say what they are; "
        "say which are source, relation and target with --columns qui,quoi,lien (columns= in Python) or the like, "
        "or say --columns 1,2,3 if it is a fact."
    )
    assert _failure(blockhole, "data", "stats", "maison.csv", "--columns", "qui,lien,ou") == (
        "maison.csv, line 1: no column is called 'ou'; there are qui, quoi, lien, depuis; name these."
    )


def test_12_a_table_of_pairs(blockhole: Blockhole, folder: Path) -> None:
    (folder / "paires.csv").write_text("source,target,weight\nZoë,José,0.5\nJosé,Łukasz,1\n", encoding="utf-8")
    assert _failure(blockhole, "train", "--data", "paires.csv", "--out", "x") == (
        "paires.csv, line 1: the first line (source, target, weight) names no relation; "
        "add a column that names the relation of each row, or say --columns 1,2,3 if it is a fact."
    )
