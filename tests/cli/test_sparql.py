"""`blockhole sparql` prints what `blockhole.sparql` gives, as a table or in the standard's formats."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

import blockhole
from blockhole.answering.sparql.results import Solutions, written
from blockhole.cli.main import main

QUERY = "SELECT ?x ?y ?probability ?status { :number%203 :next ?x . ?x :double ?y }"


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stop:
        main(["sparql", *map(str, arguments)])
    out, err = capsys.readouterr()
    return int(stop.value.code or 0), out, err


def test_a_table(clockwork: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, clockwork, QUERY)
    lines = [line.split("  ") for line in out.splitlines()]
    assert status == 0
    assert [each.strip() for each in lines[0] if each] == ["x", "y", "probability", "status"]
    assert [each.strip() for each in lines[1] if each] == ["number 4", "number 8", "1", "known"]


@pytest.mark.parametrize("form", ["json", "xml", "csv", "tsv"])
def test_formats(form: str, clockwork: Path, capsys: pytest.CaptureFixture[str]) -> None:
    query = "SELECT ?x ?y ?probability { ?x :double ?y }"
    expected = blockhole.sparql(clockwork, query, threshold=0.1, candidates="all")
    _, out, _ = run(capsys, clockwork, query, "--format", form, "--threshold", 0.1, "--candidates", "all")
    assert out.replace("\r\n", "\n").rstrip() == written(expected, form).replace("\r\n", "\n").rstrip()
    assert isinstance(expected, Solutions)
    assert {row.status for row in expected} == {"known", "predicted"}


def test_a_query_comes_from_a_file_or_standard_input(
    clockwork: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    query = "SELECT (COUNT(*) AS ?n) { ?x :double ?y }"
    (tmp_path / "count.rq").write_text(query)
    _, from_file, _ = run(capsys, clockwork, tmp_path / "count.rq", "--json", "--known")
    assert json.loads(from_file)["results"]["bindings"][0]["n"]["value"] == "42"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(query.encode())))
    assert run(capsys, clockwork, "-", "--json", "--known")[1] == from_file


def test_truth_and_triples(clockwork: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, clockwork, "ASK { :number%203 :next :number%204 }")[1] == "true\n"
    assert json.loads(run(capsys, clockwork, "ASK { :number%203 :next :number%205 }", "--json")[1])["boolean"] is False
    triples = run(capsys, clockwork, "CONSTRUCT WHERE { :number%203 :next ?x }", "--format", "ntriples")[1]
    assert triples == "<urn:blockhole:number%203> <urn:blockhole:next> <urn:blockhole:number%204> .\n"
    assert run(capsys, clockwork, "SELECT ?x { :number%203 :mod6/:mod6 ?x }", "--known")[1] == "no answers\n"


def test_what_is_refused(clockwork: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capsys, clockwork, "SELECT ?x { :number%203 :nxt ?x }")
    assert (status, out) == (1, "")
    assert err.startswith("error: line 1, column 25: unknown relation 'nxt'; did you mean <urn:blockhole:next>?\n")
    assert "is neither a query, which has braces, nor a file" in run(capsys, clockwork, "nothing.rq")[2]
    assert "results are written as json, xml, csv or tsv" in run(capsys, clockwork, QUERY, "--format", "turtle")[2]
    assert "threshold must be a probability" in run(capsys, clockwork, QUERY, "--threshold", 2)[2]
