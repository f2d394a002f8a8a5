"""docs/results.md and its figures are what the committed records say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from experiments.declared import BESIDE_SETTINGS, TABLES, find_experiments
from experiments.document import DOCUMENT, FIGURE_FOLDER, FIGURES, digest, document, write_figures
from experiments.parts import parts_tables
from experiments.records import Record, Summary, read_records, summarise

ROOT = Path(__file__).parents[2]
STALE = "write it anew with: python -m experiments results --write"
RECORDS = ROOT / "experiments" / "records"


@pytest.fixture(scope="module")
def records() -> list[Record]:
    return list(read_records(RECORDS))


def test_the_document_is_current(records: list[Record]) -> None:
    assert (ROOT / "docs" / DOCUMENT).read_text(encoding="utf-8") == document(records, parts_tables(RECORDS)), STALE


def test_the_figures_are_current(records: list[Record]) -> None:
    folder, summary = ROOT / "docs" / FIGURE_FOLDER, summarise(records)
    for name, (gather, _) in FIGURES.items():
        file, data = folder / f"{name}.svg", gather(summary)
        assert file.is_file() == (data is not None), f"{file}: {STALE}"
        if data is not None:
            assert digest(data) in file.read_text(encoding="utf-8"), f"{file}: {STALE}"


def test_records_have_the_declared_settings_and_say_where_they_come_from(records: list[Record]) -> None:
    trained = [record for record in records if record.table in TABLES]
    for record in trained:
        name = f"{record.table}/{record.data}/{record.column}-seed{record.seed}"
        (experiment,) = find_experiments([name])
        assert experiment.has_settings(record.settings), f"{name} is declared otherwise now; run it again"
        for beside in BESIDE_SETTINGS:
            assert getattr(record, beside) == getattr(experiment, beside), f"{name}: {beside} is declared otherwise now"
    for record in records:
        assert record.split == "test"
        assert record.commit is not None
        assert re.fullmatch("[0-9a-f]{40}", record.commit)
        assert record.seconds > 0


def test_figures_are_drawn_from_what_there_is_and_alike_each_time(tmp_path: Path) -> None:
    curve = {"by_dimension": {"40": {"seconds": 0.1}, "80": {"seconds": 0.2}}, "intercept": 0.0, "slope": 0.0025}
    summary: Summary = summarise([]) | {
        "classification": {"wn11": {"rescal-50": {"accuracy": 90.0, "accuracy_deviation": None}}},
        "time": {"wn11": {"blockhole-b2": curve, "rescal": curve}},
    }
    files = write_figures(summary, tmp_path / "a")
    assert [file.name for file in files] == ["classification.svg", "time.svg"]
    for file, again in zip(files, write_figures(summary, tmp_path / "b"), strict=True):
        assert file.read_bytes() == again.read_bytes()
        data = FIGURES[file.stem][0](summary)
        assert data is not None
        assert digest(data) in file.read_text(encoding="utf-8")
    assert write_figures(summarise([]), tmp_path / "a") == []
    assert list((tmp_path / "a").iterdir()) == []
