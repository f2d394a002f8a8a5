"""Writing to disk: a file or a folder appears whole or not at all, and one that cannot be written is one sentence.

What is written goes to a temporary name in the same folder, reaches the disk, and is then renamed. So a name either
keeps what it had or holds all that is new, also after a crash. A run's checkpoint is several files that change
together; `runs/checkpoint.py` builds its commit out of the same pieces.

A file of numbers looks as good after a flipped bit as before it. Where that matters its SHA-256 sum is kept: in the
JSON file that describes it, or as `NAME.sha256` beside it, which `sha256sum --check` understands too. A JSON file that
others rest on is sealed: it holds the sum of its own content.
"""

from __future__ import annotations

import errno
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import file_digest, sha256
from pathlib import Path
from secrets import token_hex
from typing import Any

from blockhole.errors import BlockholeError, DataError, Unwritable, too_long_a_name

SUM = ".sha256"
"""What is added to the name of a file for the file that holds its sum."""


@contextmanager
def replacing(path: Path, *, temporary: Path | None = None, summed: bool = False) -> Iterator[Path]:
    """A temporary file beside `path`: it becomes `path` at the end, and vanishes on failure.

    Its name is new each time, so that two processes may write one file, unless `temporary` is given. With `summed`,
    `path`.sha256 is written too.
    """
    with writing(path):
        if path.exists() and not (path.is_file() or path.is_dir()):
            yield path  # a device or a pipe, such as /dev/null, has no other name to be written under
            return
        path = path.resolve()  # through a link, so that the link stays one
        if path.is_dir():
            raise DataError(f"{path}: is a folder; name a file to write.")
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = temporary or path.with_name(_beside(path))
        temporary.unlink(missing_ok=True)
        try:
            temporary.touch(exist_ok=False)  # not mkstemp, whose files only their owner can read
            mode = temporary.stat().st_mode
            yield temporary
            temporary.chmod(mode)  # safetensors puts a file of its own there, which only its owner can read
            sync(temporary)
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
        with suppress(OSError):  # the file is there; some file systems open no folders
            sync(path.parent)
    if summed:
        write_file(sum_file(path), f"{sha256_of(path)}  {path.name}\n".encode())


def write_file(path: Path, content: bytes, *, temporary: Path | None = None) -> None:
    """Write a file whole or not at all."""
    with replacing(path, temporary=temporary) as unfinished:
        unfinished.write_bytes(content)


@contextmanager
def replacing_folder(folder: Path) -> Iterator[Path]:
    """A new folder beside `folder`: it takes the place of `folder` at the end, and vanishes on failure."""
    named = folder
    with writing(folder):
        folder = folder.resolve()
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=_beside(folder), dir=folder.parent) as temporary:
            fresh, replaced = Path(temporary) / "fresh", Path(temporary) / "replaced"
            fresh.mkdir()
            try:
                yield fresh
            except Unwritable as failure:  # people know the folder that they named, not the one beside it
                if not failure.path.is_relative_to(fresh):
                    raise
                raise Unwritable(named / failure.path.relative_to(fresh), failure.reason, failure.remedy) from failure
            for path in (*fresh.rglob("*"), fresh):
                sync(path)
            try:
                if folder.exists():
                    # A rename cannot replace a folder that has contents: the old one steps aside and is then deleted.
                    folder.rename(replaced)
                fresh.rename(folder)
            finally:
                if replaced.exists() and not folder.exists():
                    replaced.rename(folder)  # the new one did not come, so the old one comes back
        with suppress(OSError):
            sync(folder.parent)


def _beside(path: Path) -> str:
    """A new name, short enough for any file system, that tells which file or folder it will become."""
    return f".{path.name[:50]}.{token_hex(8)}"


def write_in_place(path: Path, content: bytes) -> None:
    """Write a file that nobody reads before all of it is on disk: one whose name or whose commit record comes later."""
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on disk."""
    if sys.platform == "win32":  # which opens no folders, and syncs no files that are open for reading
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# Failures.


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn what fails while `path` is written, in whatever library, into one sentence."""
    try:
        yield
    except Exception as failure:
        cause = None if isinstance(failure, BlockholeError) else write_failure(failure)
        if cause is None:
            raise
        raise Unwritable(path, cause.strerror or str(cause), remedy(cause)) from failure


_OS_ERROR = re.compile(r"\(os error (\d+)\)")
_TEXTS = {os.strerror(code): code for code in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO)}


def write_failure(failure: Exception) -> OSError | None:
    """The failure of the system behind an exception of any library; None for others.

    polars, safetensors and faiss have exceptions of their own, which tell the number of an error or its text.
    """
    if isinstance(failure, FileExistsError):  # a folder was to be made where a file is
        return NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    if isinstance(failure, OSError) and failure.errno is not None:
        return failure
    text = str(failure)
    if told := _OS_ERROR.search(text):
        return OSError(int(told[1]), os.strerror(int(told[1])))
    for meaning, code in _TEXTS.items():
        if meaning in text:
            return OSError(code, meaning)
    return failure if isinstance(failure, OSError) else None


def remedy(failure: OSError) -> str:
    """What to do about a failed write."""
    match failure.errno:
        case errno.ENOSPC | errno.EDQUOT | errno.EFBIG:
            return "make room"
        case errno.EROFS:
            return "make the file system writable"
        case errno.EACCES | errno.EPERM:
            return "allow writing there"
        case errno.ENOTDIR:
            return "choose a path that does not lead through a file"
        case errno.EISDIR:
            return "choose a file, not a folder"
        case errno.ENAMETOOLONG:
            return "choose a shorter name"
    return "check the disk"


def system_failure(failure: OSError) -> DataError | None:
    """The sentence for what the system refuses where nothing else explains it; None where it names no place.

    What has no name and cannot be written is standard output.
    """
    if failure.errno == errno.ENAMETOOLONG:
        return too_long_a_name(failure)
    reason, advice = failure.strerror or str(failure), remedy(failure)
    if failure.filename is None:
        written = failure.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
        return Unwritable("standard output", reason, advice) if written else None
    return DataError(f"{failure.filename}: cannot be used ({reason}); {_USE.get(failure.errno or 0, advice)}.")


_USE = {
    errno.ENOENT: "check the name",
    errno.EACCES: "allow this user to use it, or choose another place",
    errno.EPERM: "allow this user to use it, or choose another place",
}


# Reading what was written.


def read_json(path: Path) -> Any:
    """The value in a JSON file; ValueError where there is none, also where it is nested too deeply."""
    return parse_json(path.read_text(encoding="utf-8"))


def parse_json(text: str) -> Any:
    """The value that a text of JSON holds; ValueError where there is none, also where it is nested too deeply."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


SEAL = "seal"


def sealed(content: Mapping[str, Any]) -> str:
    """A JSON object as the text of a file, with a sum of all that is in it."""
    as_read = json.loads(json.dumps(content))  # keys may be numbers
    return json.dumps({**as_read, SEAL: _seal(as_read)}, indent=1, ensure_ascii=False) + "\n"


def read_sealed(path: Path) -> Any:
    """The value in a JSON file without its seal; ValueError where it is not what was sealed. One may have no seal.

    Version 0.1 sealed nothing, and who changes such a file by hand can take its seal out.
    """
    value = read_json(path)
    if isinstance(value, dict) and SEAL in value and value.pop(SEAL) != _seal(value):
        raise ValueError(f'it is not what was saved; if you changed it yourself, take "{SEAL}" out of it')
    return value


def _seal(content: Mapping[str, Any]) -> str:
    """A sum that neither spaces nor the order of keys change."""
    return sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


# Sums.


READ_AT_ONCE = 1 << 27
"""Bytes whose sum is taken in a tenth of a second: files up to this size are checked wherever they are opened."""


def sha256_of(path: Path) -> str:
    """The SHA-256 sum of a file, in hexadecimal; 100 MB take a tenth of a second."""
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def sum_file(path: Path) -> Path:
    """Where the sum of a file is kept that no JSON file describes."""
    return path.with_name(path.name + SUM)


def kept_sum(path: Path) -> str | None:
    """The sum kept beside `path`; None where there is none."""
    try:
        return sum_file(path).read_text(encoding="utf-8").split()[0]
    except (OSError, ValueError, IndexError):
        return None


def is_intact(path: Path, expected: str | None, *, at_most: int | None = None) -> bool:
    """Whether a file has the sum it should have, if that is known; files larger than `at_most` bytes are believed."""
    if expected is None or (at_most is not None and path.stat().st_size > at_most):
        return True
    return sha256_of(path) == expected
