"""The demo, with fewer epochs: its report, and what holds whatever it learned."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from blockhole.cli import demo
from blockhole.cli.main import main


def _run(*arguments: str) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["demo", *arguments])
    assert stop.value.code in (0, None)


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    for settings in demo.MODELS.values():
        monkeypatch.setitem(settings, "training.epochs", 1)


@pytest.mark.usefixtures("short")
def test_blockhole_tells_the_two_queries_apart_and_complex_cannot(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _run("--out", str(tmp_path / "runs"), "--json")
    report = json.loads(capsys.readouterr().out)
    assert report["true"]["c"] == ["Harry", "William"]
    assert {"Beatrice", "Eugenie"} <= set(report["true"]["b"])
    blockhole, complex_ = report["models"]["blockhole"], report["models"]["complex"]
    assert complex_["largest_difference"] < 1e-4
    assert complex_["ranks"]["b"] == complex_["ranks"]["c"]
    assert blockhole["largest_difference"] > 0.1
    assert (Path(blockhole["run"]) / "weights.safetensors").is_file()


@pytest.mark.usefixtures("short")
def test_a_second_demo_replaces_the_first_and_prints_a_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _run("--out", str(tmp_path / "runs"), "--json")
    capsys.readouterr()
    _run("--out", str(tmp_path / "runs"))
    shown = capsys.readouterr().out
    for word in ("blockhole (b)", "complex (c)", "Beatrice", "Eugenie", "William", "Harry", "✓", "blockhole serve "):
        assert word in shown
