"""Where the files of a named data set are: with the package, in a folder of the user's, in the cache, or on the web.

Three environment variables steer it: BLOCKHOLE_DATA names a folder of data sets (`wn11/train.txt`, …) that is used
as it is; BLOCKHOLE_CACHE moves the cache; BLOCKHOLE_MIRROR serves the published paths from another address.
"""

from __future__ import annotations

import logging
import os
import shutil
import tarfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from blockhole.data.catalogue import Download, NamedDataSet
from blockhole.data.download import OTHER_WAY, ResumingDownloader
from blockhole.errors import BlockholeWarning, FetchError

PUBLIC_HOME = "https://raw.githubusercontent.com"


def locate(entry: NamedDataSet) -> Path:
    """The folder of a named data set, fetched when it is nowhere on this machine."""
    folder = find(entry)
    if folder is not None:
        return folder
    named = os.environ.get("BLOCKHOLE_DATA")
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
            f"cannot write to the cache {folder}: {failure.strerror or failure}; make room there, or name another "
            f"folder in BLOCKHOLE_CACHE."
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
        raise FetchError(f"BLOCKHOLE_MIRROR is {mirror!r}; give it an address that starts with https:// or unset it.")
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
