"""Kinds of target: how inputs of one file and inputs of a whole folder are damaged and read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Protocol, final

from blockhole.errors import BlockholeError
from tests.fuzz.damage import Damage, damage_bytes

Files = dict[str, bytes]
"""An input: the files of a folder."""


class Target(Protocol):
    """One thing that reads what others wrote."""

    def seeds(self, folder: Path) -> Sequence[Files]:
        """Valid inputs; `folder` is a place to work in."""

    def damaged(self, rng: Random, files: Files, other: Files) -> Files:
        """A damaged input; parts of the other one may be taken."""

    def read(self, folder: Path) -> None:
        """Read the input in `folder` as a user would, in every way there is; only a `BlockholeError` may come of it."""

    def watched(self) -> int | None:
        """The process whose memory is measured, where it is not this one."""


@final
class FileTarget:
    """Inputs that are one file each; its name ends in the suffix of the valid file it was made from."""

    def __init__(
        self, valid: Callable[[Path], Sequence[tuple[str, bytes]]], damage: Damage, read: Callable[[Path], object]
    ) -> None:
        self._valid = valid
        self._damage = damage
        self._read = read

    def seeds(self, folder: Path) -> Sequence[Files]:
        return [{name: content} for name, content in self._valid(folder)]

    def damaged(self, rng: Random, files: Files, other: Files) -> Files:
        ((name, content),) = files.items()
        (borrowed,) = other.values()
        return {name: self._damage(rng, content, borrowed)}

    def read(self, folder: Path) -> None:
        (path,) = folder.iterdir()
        self._read(path)

    def watched(self) -> int | None:
        return None


@final
class FolderTarget:
    """Inputs that are folders, of which one or a few files are damaged, each in the way of its suffix.

    With a `part`, only files are whose names begin so.
    """

    def __init__(
        self,
        valid: Callable[[Path], Sequence[Path]],
        read: Callable[[Path], object],
        damage: Mapping[str, Damage],
        sums: Callable[[Files], Files] = lambda files: files,
        part: str = "",
    ) -> None:
        self._valid = valid
        self._read = read
        self._damage = damage
        self._sums = sums
        self._part = part

    def seeds(self, folder: Path) -> Sequence[Files]:
        return [files_of(place) for place in self._valid(folder)]

    def damaged(self, rng: Random, files: Files, other: Files) -> Files:
        changed = dict(files)
        for _ in range(rng.choice((1, 1, 1, 2))):
            name = rng.choice(sorted(name for name in changed if name.startswith(self._part)) or ["empty"])
            content = changed.get(name, b"")
            match rng.randrange(20):
                case 0:
                    changed.pop(name, None)
                case 1:
                    changed[name] = rng.choice(sorted(other.items()))[1] if other else b""
                case 2:  # as a crash leaves it behind
                    changed[name + ".next"] = content[: rng.randrange(len(content) + 1)]
                case _:
                    damage = self._damage.get(Path(name).suffix, damage_bytes)
                    changed[name] = damage(rng, content, other.get(name, b""))
        # A file that fits its sum gets further than one that does not.
        return self._sums(changed) if rng.random() < 0.7 else changed

    def read(self, folder: Path) -> None:
        self._read(folder)

    def watched(self) -> int | None:
        return None


def files_of(folder: Path) -> Files:
    """The files of a folder and of those in it."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def write_files(files: Files, folder: Path) -> None:
    """Write an input; a name that the damage made too odd for a file is passed over."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def attempt(*steps: Callable[[], object]) -> None:
    """Take all steps, whichever are refused; then tell of the first refusal."""
    refusals = []
    for step in steps:
        try:
            step()
        except BlockholeError as refusal:
            refusals.append(refusal)
    if refusals:
        raise refusals[0]
