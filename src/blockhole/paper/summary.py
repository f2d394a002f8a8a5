"""Records of several seeds as means and deviations: the structure `blockhole results --json` prints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, stdev
from typing import Any

from blockhole.errors import DataError
from blockhole.paper.experiment import TABLES, Split
from blockhole.paper.record import Record
from blockhole.training.config import TrainConfig
from blockhole.training.config_sources import merge

Summary = dict[str, dict[str, dict[str, dict[str, Any]]]]
"""Table → data set → column → figures."""

SHOWN_TABLES = (*TABLES, "time")


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
    settings = merge(TrainConfig().model_dump(mode="json"), record.settings)
    training = {key: value for key, value in settings["training"].items() if key != "seed"}
    return settings | {
        "training": training,
        "members": record.members,
        "words": record.words,
        "lean": record.lean,
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
