from __future__ import annotations

import re
from pathlib import Path

import pytest
from pooch import file_hash

from blockhole.data.catalogue import catalogue

PUBLISHED = [name for name, entry in catalogue().items() if entry.files]


def test_the_names_are_those_that_scripts_rely_on() -> None:
    assert set(catalogue()) == {
        "wn11",
        "fb13",
        "fb15k-237",
        "wn18rr",
        "umls",
        "kinship",
        "family",
        "nell",
        "fb15k-237-q2b",
    }


@pytest.mark.parametrize("name", PUBLISHED)
def test_every_file_has_a_home_at_a_fixed_commit(name: str) -> None:
    entry = catalogue()[name]
    for file in entry.files.values():
        home = file.home or (entry.archive and entry.archive.home)
        assert home is not None
        assert re.fullmatch(r"[^/]+/[^/]+/[0-9a-f]{40}(/[^/]+)+", home)


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_checksums_are_those_of_the_published_files(data_root: Path, name: str) -> None:
    files = catalogue()[name].files
    assert {file: file_hash(data_root / name / file) for file in files} == {
        file: known.sha256 for file, known in files.items()
    }
