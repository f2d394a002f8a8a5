"""Files and folders that appear whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex

from blockhole.errors import DataError


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary file in the folder of `path`: it becomes `path` at the end, and vanishes on failure."""
    path = path.resolve()  # through a link, so that the link stays one
    if path.is_dir():
        raise DataError(f"{path}: is a folder; name a file to write.")
    temporary = path.with_name(f".{path.name}.{token_hex(8)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.touch(exist_ok=False)  # not mkstemp, whose files only their owner can read
    except OSError as failure:
        raise DataError(f"{path}: cannot be written ({failure.strerror}); choose another place.") from None
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def replacing_folder(folder: Path) -> Iterator[Path]:
    """A new folder beside `folder`: it takes the place of `folder` at the end, and vanishes on failure."""
    folder = folder.resolve()
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as temporary:
            fresh, replaced = Path(temporary) / "fresh", Path(temporary) / "replaced"
            fresh.mkdir()
            yield fresh
            try:
                if folder.exists():
                    # A rename cannot replace a folder that has contents: the old one steps aside and is then deleted.
                    folder.rename(replaced)
                fresh.rename(folder)
            finally:
                if replaced.exists() and not folder.exists():
                    replaced.rename(folder)  # the new one did not come, so the old one comes back
    except OSError as failure:
        raise DataError(f"cannot write {folder}: {failure.strerror or failure}; name another folder.") from failure
