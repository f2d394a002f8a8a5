"""Version, changelog and citation file tell of the same release."""

from __future__ import annotations

import re
from datetime import date

import yaml

import blockhole
from tests.packaging.wheel import ROOT

SECTION = re.compile(r"^## \[(?P<version>\d+\.\d+\.\d+)\] - (?P<date>\d{4}-\d{2}-\d{2})$", re.MULTILINE)
DOI = re.compile(r"10\.\d{4,9}/\S+")


def _citation() -> dict[str, object]:
    read = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert isinstance(read, dict)
    return read


def test_the_newest_section_of_the_changelog_is_this_version() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    newest = SECTION.search(text)
    assert newest is not None
    assert newest["version"] == blockhole.__version__
    assert text.index("## [Unreleased]") < newest.start()


def test_the_citation_file_is_of_this_version_and_its_day() -> None:
    citation = _citation()
    assert str(citation["version"]) == blockhole.__version__
    newest = SECTION.search((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))
    assert newest is not None
    assert citation["date-released"] == date.fromisoformat(newest["date"])


def test_the_citation_file_has_what_its_format_asks_for_and_cites_the_paper() -> None:
    citation = _citation()
    assert {"cff-version", "message", "title", "authors"} <= set(citation)
    assert (citation["type"], citation["license"]) == ("software", "Apache-2.0")
    references = citation["references"]
    assert isinstance(references, list)
    (paper,) = references
    assert paper["title"] == "A Non-commutative Bilinear Model for Answering Path Queries in Knowledge Graphs"
    assert [author["family-names"] for author in paper["authors"]] == ["Hayashi", "Shimbo"]
    assert DOI.fullmatch(paper["doi"])
