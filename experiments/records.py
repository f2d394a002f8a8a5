"""Records: what an experiment measured, where the figures come from, and their means over seeds.

A record is a JSON file, `TABLE/DATA/COLUMN-seedK.json` below the folder of records. Trials that no table counts, but
that the notebook cites, are lines of one file: `read_trials`.
"""

from __future__ import annotations

import json
import platform
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, NamedTuple, final

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from blockhole.errors import DataError, why
from blockhole.runs.config import TrainConfig, overlay
from blockhole.saving import replacing
from experiments.declared import TABLES, Split

TRIALS = "trials.jsonl"

SHOWN_TABLES = (*TABLES, "time")

Summary = dict[str, dict[str, dict[str, dict[str, Any]]]]
"""Table → data set → column → figures: means over seeds and deviations, as `results --json` prints them."""

_DIRTY = "-dirty"


@final
class Record(BaseModel):
    """Figures of one experiment, and all it takes to get them again.

    `settings` are as declared; `epochs` and `best_epoch` say what came of them.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    table: str
    data: str
    column: str
    seed: int
    split: str
    truth: str | None
    settings: dict[str, Any]
    members: int = 1
    words: int = 0
    lean: float = 0.0
    beside: dict[str, Any] = Field(default_factory=dict)
    parameters: int | None
    epochs: int | None
    best_epoch: int | None
    loss: float | None
    seconds: float
    training_seconds: float
    device: str
    torch: str
    commit: str | None
    dirty: bool | None
    figures: dict[str, Any]


def record_file(results: Path, name: str) -> Path:
    """Where the record of the experiment `name` is kept below the folder `results`."""
    return results / f"{name}.json"


def write_record(results: Path, name: str, record: Record) -> Path:
    """Keep a record; the file."""
    file = record_file(results, name)
    text = json.dumps(record.model_dump(mode="json"), indent=1, ensure_ascii=False, allow_nan=False)
    with replacing(file) as temporary:
        temporary.write_text(text + "\n", encoding="utf-8")
    return file


def read_record(file: Path) -> Record:
    """The record in `file`."""
    try:
        return Record.model_validate_json(file.read_bytes())
    except OSError as failure:
        raise DataError(f"{file} cannot be read ({failure.strerror}).") from None
    except ValidationError as failure:
        raise DataError(
            f"{file} is not a whole record ({why(failure)}); "
            "remove it and run the experiment again, or restore it from a copy."
        ) from None


def read_records(results: Path) -> Iterator[Record]:
    """All records below a folder, in the order of their names."""
    if not results.is_dir():
        raise DataError(f"there is no folder {results} of results; name one with --results, or make records first.")
    for file in sorted(results.glob("*/*/*.json")):
        yield read_record(file)


def read_trials(results: Path) -> dict[str, list[Record]]:
    """The records of trials that the notebook cites, by the name of the trial; no table counts them.

    Each line of the file has a `trial` and its `record`.
    """
    trials: dict[str, list[Record]] = {}
    for line in (results / TRIALS).read_text(encoding="utf-8").splitlines():
        kept = json.loads(line)
        trials.setdefault(kept["trial"], []).append(Record.model_validate(kept["record"]))
    return trials


class Commit(NamedTuple):
    """A commit, and whether files that git tracks differed from it; no hash where no repository tracks this file."""

    hash: str | None
    dirty: bool | None

    @classmethod
    def parse(cls, description: str) -> Commit:
        """The commit in what `git describe --always --dirty --abbrev=40 --exclude '*'` prints."""
        return cls(description.removesuffix(_DIRTY), description.endswith(_DIRTY))


def current_commit() -> Commit:
    """The commit this code runs from."""
    # A copy inside another project lies in that project's repository, untracked.
    if _git("ls-files", "--error-unmatch", Path(__file__).name) is None:
        return Commit(None, None)
    description = _git("describe", "--always", "--dirty", "--abbrev=40", "--exclude", "*")
    return Commit(None, None) if description is None else Commit.parse(description)


def _git(*arguments: str) -> str | None:
    """What git says in the folder of this file; None where it fails or is not installed."""
    try:
        done = subprocess.run(
            ["git", *arguments], capture_output=True, text=True, check=False, cwd=Path(__file__).parent
        )
    except FileNotFoundError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def describe_device(device: torch.device) -> str:
    """The name of the GPU, or of the processor."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    information = Path("/proc/cpuinfo")
    lines = information.read_text(encoding="utf-8").splitlines() if information.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def group_records(records: Iterable[Record], split: Split = "test") -> dict[tuple[str, str, str], list[Record]]:
    """The records of one split by (table, data, column), by seed within; seeds must not differ in settings."""
    groups: dict[tuple[str, str, str], list[Record]] = {}
    for record in records:
        if record.split == split:
            groups.setdefault((record.table, record.data, record.column), []).append(record)
    for key, group in groups.items():
        group.sort(key=lambda record: record.seed)
        if any(_apart_from_seed(record) != _apart_from_seed(group[0]) for record in group):
            raise DataError(
                f"the records of {'/'.join(key)} have different settings, so that they have no mean; "
                "run the experiment again for all seeds."
            )
    return groups


def summarise(records: Iterable[Record], split: Split = "test") -> Summary:
    """Means over seeds; beside each figure x its deviation x_deviation, and `seeds`, how many there are."""
    summary: Summary = {table: {} for table in SHOWN_TABLES}
    for (table, data, column), group in group_records(records, split).items():
        figures = _mean([record.figures for record in group])
        summary.setdefault(table, {}).setdefault(data, {})[column] = figures
    return summary


def look_up(summary: Summary, *place: str) -> Any:
    """The figure at a place such as ("ranking", "wn11", "complex-50", "all", "mq"); None where it is missing."""
    found: Any = summary
    for key in place:
        if not isinstance(found, Mapping) or key not in found:
            return None
        found = found[key]
    return found


def _apart_from_seed(record: Record) -> dict[str, Any]:
    # What a record does not know was added after it, and has its default: that of before.
    settings = overlay(TrainConfig().model_dump(mode="json"), record.settings)
    training = {key: value for key, value in settings["training"].items() if key != "seed"}
    return settings | {
        "training": training,
        "members": record.members,
        "words": record.words,
        "lean": record.lean,
        "beside": record.beside,
    }


def _mean(figures: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Key by key over the seeds; a key that one of them lacks is left out."""
    means: dict[str, Any] = {}
    for key in figures[0]:
        if not all(key in each for each in figures):
            continue
        values = [each[key] for each in figures]
        if isinstance(values[0], Mapping):
            means[key] = _mean(values)
        elif isinstance(values[0], list):
            means[key] = [fmean(bounds) for bounds in zip(*values, strict=True)]
        elif isinstance(values[0], float):
            whole = None not in values
            means[key] = fmean(values) if whole else None
            means[f"{key}_deviation"] = stdev(values) if whole and len(values) > 1 else None
        else:
            means[key] = values[0] if len(set(values)) == 1 else None
    if "intervals" in means:
        means["seeds"] = len(figures)
    return means
