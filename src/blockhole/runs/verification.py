"""Every byte of a run, a packed graph or an exported file against the SHA-256 sum that was kept when it was written."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from blockhole.errors import DamagedRun, DataError
from blockhole.packed.folder import is_packed, read_packed, read_sums
from blockhole.runs.checkpoint import load_checkpoint, read_record
from blockhole.runs.folder import NEXT
from blockhole.runs.run import Run, is_run
from blockhole.saving import SEAL, SUM, is_intact, kept_sum, read_json, read_sealed

Verified = dict[str, Literal["intact", "no sum kept"]]
"""File → what is known of it."""


def verify(place: Path) -> Verified:
    """Read the files of a run, of a packed graph, or one exported file, in full; raises where one is damaged.

    Of a run the tensors must also fit its settings and be finite. Version 0.1 kept no sums, nor are there any of a
    checkpoint in shards; files made from a run have theirs beside them.
    """
    if place.is_file():
        sums: dict[str, str | None] = {place.name: kept_sum(place)}
        if sums[place.name] is None:
            raise DataError(f"{place}: there is no checksum of it in {place.name}{SUM}; export it again.")
        return _checked(place.parent, sums)
    if is_packed(place):
        found = _checked(place, dict(read_sums(place)))
        read_packed(place, thoroughly=True)
        return found
    if not is_run(place):
        Run.open(place)  # says what is there instead
    record = read_record(place)
    kept = {name: record.sha256.get(name) for name in (*record.files, *record.sha256)}
    found = _checked(place, kept | _beside(place), _sealed(place))
    run = Run.open(place)
    _ = run.model, run.graph, load_checkpoint(place)  # each refuses what does not fit
    return found


def _beside(folder: Path) -> dict[str, str | None]:
    """The sums of files made from a run: of an index in the JSON file that names it, of an export beside it."""
    sums = {path.stem: kept_sum(path.with_suffix("")) for path in sorted(folder.glob(f"*{SUM}"))}
    for path in sorted(folder.glob("*.json")):
        with suppress(ValueError):
            match read_json(path):
                case {"file": str(name), "sha256": str(sha256)} if name == Path(name).name:
                    sums[name] = sha256
    return sums


def _sealed(folder: Path) -> dict[str, bool]:
    """The JSON files of a run that hold a sum of their own content, or no JSON any more: whether each is intact."""
    found = {}
    for path in sorted(folder.glob("*.json")):
        try:
            if isinstance(stored := read_json(path), dict) and SEAL in stored:
                read_sealed(path)
                found[path.name] = True
        except ValueError:
            found[path.name] = False
    return found


def _checked(folder: Path, sums: dict[str, str | None], seals: Mapping[str, bool] = MappingProxyType({})) -> Verified:
    damaged = [name for name, sha256 in sums.items() if not _is_whole(folder / name, sha256)]
    damaged += [name for name, intact in seals.items() if not intact]
    if damaged:
        raise DamagedRun(
            f"{folder}: {', '.join(damaged)} {'is' if len(damaged) == 1 else 'are'} damaged, not the bytes that were "
            "written; restore from a copy, or make it again."
        )
    found: Verified = {name: "intact" if sha256 is not None else "no sum kept" for name, sha256 in sums.items()}
    return found | dict.fromkeys(seals, "intact")


def _is_whole(path: Path, sha256: str | None) -> bool:
    """Whether a file is as it was written; one of a checkpoint may still have the name it was written under."""
    places = (path, path.with_name(path.name + NEXT))
    try:
        return any(place.is_file() and is_intact(place, sha256) for place in places)
    except (OSError, ValueError):  # a name that no file can have
        return False
