"""The named data sets, and where their files are: with the package, in a folder, in the cache, or on the web.

Three environment variables steer it: BLOCKHOLE_DATA names a folder of data sets (`wn11/train.txt`, …) that is used
as it is; BLOCKHOLE_CACHE moves the cache; BLOCKHOLE_MIRROR serves the published paths from another address.
"""

from __future__ import annotations

import logging
import os
import shutil
import tarfile
import time
import tomllib
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib import resources
from pathlib import Path, PurePosixPath
from typing import final
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict

from blockhole.errors import BlockholeWarning, FetchError, quoted
from blockhole.files.id_folders import has_id_facts, is_published
from blockhole.saving import remedy


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
class ByHand(_Entry):
    """A data set that users fetch: the `folder` in BLOCKHOLE_DATA that it is looked for in, and where to get it."""

    folder: str
    home: str
    inside: str


@final
class NamedDataSet(_Entry):
    """A data set known by name: `files` by the name they have on disk, and the sizes `data list` shows.

    `preset` is what `train` takes for it where none is named, instead of a look at the graph.
    """

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
    by_hand: ByHand | None = None
    preset: str | None = None

    @property
    def is_bundled(self) -> bool:
        """Whether the data set comes with the package, so that nothing is fetched."""
        return not self.files and self.by_hand is None

    @property
    def fact_files(self) -> list[str]:
        """The files a usable copy must have; lists of names beside them are welcome but not necessary."""
        return [name for name in self.files if name not in ("entities.txt", "relations.txt")]


@cache
def catalogue() -> dict[str, NamedDataSet]:
    """Every named data set, by name."""
    text = resources.files(__package__).joinpath("catalogue.toml").read_text(encoding="utf-8")
    return {name: NamedDataSet(name=name, **entry) for name, entry in tomllib.loads(text).items()}


# Downloads that continue where a cut connection left them.


CONNECT_SECONDS, SILENT_SECONDS = 10, 30
CHUNK = 1 << 12  # what a cut connection can lose
OTHER_WAY = "or name a folder that holds the data sets in BLOCKHOLE_DATA"


@final
class ResumingDownloader:
    """A downloader for pooch that keeps what has arrived and asks the server for the rest.

    Bytes go to `partial`, which outlives a failure: the next attempt, or the next run of the program, continues it
    with a Range request, or starts again where the server knows no ranges. Only a file whose SHA-256 sum is right
    is handed to pooch, which checks it once more and gives it its final name.
    """

    def __init__(self, partial: Path, sha256: str, *, attempts: int = 4, first_wait: float = 0.3) -> None:
        self.partial = partial
        self.sha256 = sha256
        self.attempts = attempts
        self.first_wait = first_wait

    def __call__(self, url: str, output_file: str, pooch: object) -> None:
        """Download `url` into `output_file`; the signature is pooch's."""
        from pooch import file_hash

        resumed = self._download(url)
        if resumed and file_hash(self.partial) != self.sha256:
            # The kept beginning may belong to other bytes than the rest: only a fresh start tells.
            self.partial.unlink()
            self._download(url)
        actual = file_hash(self.partial)
        if actual != self.sha256:
            self.partial.unlink()
            raise FetchError(
                f"{url} is not the file that was published: its SHA-256 sum is {actual}, expected {self.sha256}; "
                f"what arrived was removed. Try again later, {OTHER_WAY}."
            )
        os.replace(self.partial, output_file)

    def _download(self, url: str) -> bool:
        """Complete the partial file in a few attempts; whether any of them continued an earlier one."""
        from requests import RequestException

        resumed = False
        with _progress_bar(Path(urlsplit(url).path).name) as show:
            for attempt in range(self.attempts):
                if attempt:
                    time.sleep(self.first_wait * 2 ** (attempt - 1))
                try:
                    resumed |= self._receive(url, show)
                except RequestException as failure:
                    last = failure
                else:
                    return resumed
        raise FetchError(self._explain(url, last)) from last

    def _receive(self, url: str, show: Callable[[int, int | None], None]) -> bool:
        """One request: append what the server sends; whether it continued at the end of the partial file."""
        import requests

        start = self.partial.stat().st_size if self.partial.exists() else 0
        # Bytes as stored: a range of a compressed answer could not be appended.
        headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={start}-"} if start else {})
        with requests.get(url, headers=headers, stream=True, timeout=(CONNECT_SECONDS, SILENT_SECONDS)) as response:
            if start and response.status_code == requests.codes.requested_range_not_satisfiable:
                return True  # nothing is left to send; the checksum decides whether that is right
            if response.status_code in (requests.codes.not_found, requests.codes.gone, requests.codes.forbidden):
                raise FetchError(
                    f"{url} answered {response.status_code} {response.reason}: the file is no longer there. "
                    f"Install a newer version, {OTHER_WAY}."
                )
            response.raise_for_status()
            resumed = response.status_code == requests.codes.partial_content
            received = start if resumed else 0
            expected = response.headers.get("Content-Length")
            total = received + int(expected) if expected else None
            with self.partial.open("ab" if resumed else "wb") as file:
                for chunk in response.iter_content(CHUNK):
                    file.write(chunk)
                    received += len(chunk)
                    show(received, total)
        return resumed

    def _explain(self, url: str, failure: Exception) -> str:
        import requests

        if isinstance(failure, requests.HTTPError):
            return f"{failure}, {self.attempts} times. Try again later, {OTHER_WAY}."
        kept = self.partial.stat().st_size if self.partial.exists() else 0
        if kept:
            return (
                f"the download of {url} was cut off {self.attempts} times; the {kept:,} bytes that arrived are kept: "
                f"run the command again to continue, {OTHER_WAY}."
            )
        host = urlsplit(url).netloc
        return f"cannot fetch {url}: nothing arrives from {host}; check the network and try again, {OTHER_WAY}."


@contextmanager
def _progress_bar(name: str) -> Iterator[Callable[[int, int | None], None]]:
    """A bar on standard error, where that is a terminal; the function it gives takes received and total bytes."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task(name, total=None)
        yield lambda received, total: progress.update(task, completed=received, total=total)


# Where the files of a named data set are: with the package, in a folder of the user's, in the cache, or on the web.


PUBLIC_HOME = "https://raw.githubusercontent.com"


def locate(entry: NamedDataSet) -> Path:
    """The folder of a named data set, fetched when it is nowhere on this machine."""
    folder = find(entry)
    if folder is not None:
        return folder
    named = os.environ.get("BLOCKHOLE_DATA")
    if entry.by_hand is not None:
        raise FetchError(
            f"{entry.name} is not on this machine, and is published only within an archive: unpack "
            f"{entry.by_hand.inside} of {entry.by_hand.home} and name that folder wherever a data set is wanted, such "
            f"as --data, or call it {entry.by_hand.folder} in the folder that BLOCKHOLE_DATA names."
        )
    if named:
        missing = next(name for name in entry.fact_files if not (Path(named) / entry.name / name).is_file())
        warnings.warn(
            f"BLOCKHOLE_DATA ({named}) has no {entry.name}/{missing}; fetching {entry.name} into {cache_folder()}",
            BlockholeWarning,
            stacklevel=2,
        )
    return fetch(entry)


def find(entry: NamedDataSet) -> Path | None:
    """The folder of a named data set on this machine; None when it must be fetched first."""
    if entry.is_bundled:
        return Path(__file__).parent / entry.name
    named = os.environ.get("BLOCKHOLE_DATA")
    if entry.by_hand is not None:
        place = Path(named or "") / entry.by_hand.folder
        return place if named and place.is_dir() and (has_id_facts(place) or is_published(place)) else None
    if named and all((Path(named) / entry.name / name).is_file() for name in entry.fact_files):
        return Path(named) / entry.name
    cached = cache_folder() / entry.name
    return None if _unverified(entry, cached) else cached


def cache_folder() -> Path:
    """The folder that keeps what was fetched."""
    named = os.environ.get("BLOCKHOLE_CACHE")
    if named:
        return Path(named)
    from pooch import os_cache

    return Path(os_cache("blockhole"))


def fetch(entry: NamedDataSet) -> Path:
    """Fetch what the cache lacks of a data set, verify it, and return its folder."""
    from filelock import FileLock

    folder = cache_folder() / entry.name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # Two programs that need the same files: the second waits, then finds them.
        with FileLock(folder / ".lock"):
            missing = _unverified(entry, folder)
            for name, file in entry.files.items():
                if name in missing and file.home is not None:
                    _retrieve(Download(home=file.home, sha256=file.sha256), folder / name)
            if missing and entry.archive is not None:
                archive = _retrieve(entry.archive, folder / PurePosixPath(entry.archive.home).name)
                _extract(archive, folder, {name: entry.files[name].sha256 for name in missing})
                archive.unlink()
    except OSError as failure:
        raise FetchError(
            f"cannot write to the cache {folder}: {failure.strerror or failure}; {remedy(failure)}, or name another "
            "folder in BLOCKHOLE_CACHE."
        ) from failure
    return folder


def _unverified(entry: NamedDataSet, folder: Path) -> set[str]:
    """The files of a data set that are missing or not as published."""
    from pooch import file_hash

    return {
        name
        for name, file in entry.files.items()
        if not (folder / name).is_file() or file_hash(folder / name) != file.sha256
    }


def _retrieve(download: Download, path: Path) -> Path:
    """Download one published file to `path`, which appears only when complete and verified."""
    from pooch import retrieve

    mirror = (os.environ.get("BLOCKHOLE_MIRROR") or PUBLIC_HOME).rstrip("/")
    if not mirror.startswith(("https://", "http://")):
        raise FetchError(
            f"BLOCKHOLE_MIRROR is {quoted(mirror)}; give it an address that starts with https:// or unset it."
        )
    downloader = ResumingDownloader(path.with_name(f"{path.name}.partial"), download.sha256)
    with _quiet_pooch():
        retrieve(
            url=f"{mirror}/{download.home}",
            known_hash=f"sha256:{download.sha256}",
            fname=path.name,
            path=path.parent,
            downloader=downloader,
        )
    return path


@contextmanager
def _quiet_pooch() -> Iterator[None]:
    """Hold back pooch's log lines: the progress bar and our errors say the same."""
    from pooch import get_logger

    logger = get_logger()
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)


def _extract(archive: Path, folder: Path, sums: Mapping[str, str]) -> None:
    """Take the named files out of a verified tar archive, wherever in it they lie, and verify each."""
    from pooch import file_hash

    found = set()
    with tarfile.open(archive) as members:
        for member in members:
            name = PurePosixPath(member.name).name
            content = members.extractfile(member) if name in sums else None
            if content is None:
                continue
            partial = folder / f"{name}.partial"
            with content, partial.open("wb") as file:
                shutil.copyfileobj(content, file)
            if file_hash(partial) == sums[name]:
                os.replace(partial, folder / name)
                found.add(name)
            else:
                partial.unlink()
    if lacking := sorted(sums.keys() - found):
        raise FetchError(f"{archive.name} does not hold the published {', '.join(lacking)}; try again, {OTHER_WAY}.")
