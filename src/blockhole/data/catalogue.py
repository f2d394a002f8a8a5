"""The named data sets: their files, checksums, public homes and sizes; the facts are in `catalogue.toml`."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources
from typing import final

from pydantic import BaseModel, ConfigDict


class _Entry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


@final
class Download(_Entry):
    """One published file: its path below the public home, and the SHA-256 sum of its bytes."""

    home: str
    sha256: str


@final
class DataFile(_Entry):
    """One file of a data set; without a `home` of its own it is in the data set's archive."""

    sha256: str
    home: str | None = None


@final
class NamedDataSet(_Entry):
    """A data set known by name: `files` by the name they have on disk, and the sizes `data list` shows."""

    name: str
    title: str
    licence: str
    entities: int
    relations: int
    train: int
    valid: int
    test: int
    files: dict[str, DataFile] = {}
    archive: Download | None = None

    @property
    def is_bundled(self) -> bool:
        """Whether the data set comes with the package, so that nothing is fetched."""
        return not self.files

    @property
    def fact_files(self) -> list[str]:
        """The files a usable copy must have; lists of names beside them are welcome but not necessary."""
        return [name for name in self.files if name not in ("entities.txt", "relations.txt")]


@cache
def catalogue() -> dict[str, NamedDataSet]:
    """Every named data set, by name."""
    text = resources.files(__package__).joinpath("catalogue.toml").read_text(encoding="utf-8")
    return {name: NamedDataSet(name=name, **entry) for name, entry in tomllib.loads(text).items()}
