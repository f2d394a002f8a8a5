"""The guide to a new metric works: its one line, in a copy of the package, reaches JSON, tables and intervals."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from blockhole.evaluation.ranking import COMPLETION_METRICS, PATH_METRICS
from tests.docs.pages import ROOT, apply_changes, commands, copy_package, examples, run_steps
from tests.family import FAMILY

GUIDE = ROOT / "docs" / "how-to" / "new-metric.md"


@pytest.mark.slow
def test_the_new_metric_is_measured(tmp_path: Path, family_run: Path, one_core: None) -> None:
    changes, test, console = (e.text for e in examples(GUIDE) if e.language in ("diff", "python", "console"))
    copy_package(tmp_path)
    apply_changes(changes, tmp_path)
    train, shown, printed = (command.text for command in commands(console))
    assert train == FAMILY
    shutil.copytree(family_run, tmp_path / "runs" / "family")
    _, table, report = run_steps([test, shown.split(), printed.split()], tmp_path, tmp_path / "src")
    assert "MRR" in table
    result = json.loads(report)
    low, high = result["intervals"]["mrr"]
    assert 0 < low <= result["mrr"] <= high <= 100
    assert all(part["mrr"] > 0 for part in result["by_length"].values())


def test_the_protocol_defines_every_metric() -> None:
    protocol = (ROOT / "docs" / "explanation" / "protocol.md").read_text(encoding="utf-8")
    keys = [metric.name for metric in (*PATH_METRICS, *COMPLETION_METRICS)]
    assert [key for key in keys if f"`{key}`" not in protocol] == []


def test_the_guide_is_short() -> None:
    assert len(GUIDE.read_text(encoding="utf-8").splitlines()) <= 60
