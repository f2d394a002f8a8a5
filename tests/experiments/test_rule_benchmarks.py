"""The benchmark of rules, as the guide says to run it."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _benchmarks_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(ROOT), *sys.path])


@pytest.mark.parametrize("length", ["1", "2", "3"])
def test_a_model_that_may_propose_all_bodies_misses_no_rule(
    length: str, family_run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from benchmarks.bench_rules import main

    monkeypatch.setattr(sys, "argv", ["bench_rules", str(family_run), "--length", length])
    main()
    said = capsys.readouterr().out
    assert ", recall 1.000\n" in said
    (best,) = re.findall(r"best: ([\d.]+) to ([\d.]+)", said)
    assert float(best[0]) >= float(best[1]) > 0
    assert said.count("listed, ") == 6
