"""One build and one installation for all tests of packaging."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.packaging.wheel import Installation, build, install


@pytest.fixture(scope="package")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist of this tree, and the wheel that was built from the sdist."""
    folder = tmp_path_factory.mktemp("dist")
    build(folder)
    return folder


@pytest.fixture(scope="package")
def installation(distributions: Path, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    (wheel,) = distributions.glob("*.whl")
    return install(tmp_path_factory.mktemp("installed"), wheel)
