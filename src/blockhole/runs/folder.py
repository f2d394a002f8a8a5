"""The files of a run's folder beside its checkpoint: settings, names and facts."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from errno import EIO
from pathlib import Path
from typing import Any

from blockhole.errors import ConfigError, DamagedRun, RunError
from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.graph.vocabulary import Vocabulary
from blockhole.runs.checkpoint import NEXT, write_bytes
from blockhole.runs.config import TrainConfig, flatten, merge, validate

# The files of a run's folder beside its checkpoint: settings, names and facts, written and read.


CONFIG = "config.json"
VOCABULARY = "vocabulary.parquet"
FACTS = "facts.parquet"
METRICS = "metrics.jsonl"
PARTS = "parts.json"
"""Only in a run that was merged from others: what it was merged from."""
_ROWS = 1 << 20
"""Facts written at a time."""


def write_config(folder: Path, config: TrainConfig) -> None:
    """Write config.json."""
    text = json.dumps(config.model_dump(mode="json"), indent=1, ensure_ascii=False)
    write_bytes(folder / (CONFIG + NEXT), text.encode() + b"\n")
    os.replace(folder / (CONFIG + NEXT), folder / CONFIG)


def read_config(folder: Path) -> TrainConfig:
    """Read config.json."""
    try:
        return validate(json.loads((folder / CONFIG).read_text(encoding="utf-8")))
    except (OSError, ValueError, ConfigError) as failure:
        raise DamagedRun(f"{folder / CONFIG} cannot be used; restore it from a copy: {failure}") from None


def write_vocabularies(path: Path, entities: Vocabulary, relations: Vocabulary) -> None:
    """Write the names of both kinds in id order, columns kind, id, name."""
    import polars

    frame = polars.concat(
        polars.select(
            kind=polars.repeat(kind, len(names)),
            id=polars.int_range(len(names), dtype=polars.Int32),
            name=names.column(),
        )
        for kind, names in (("entity", entities), ("relation", relations))
    )
    with _replacing(path) as unfinished:
        frame.write_parquet(unfinished)


def read_vocabularies(path: Path) -> tuple[Vocabulary, Vocabulary]:
    """Entities and relations."""
    import polars

    try:
        frame = polars.read_parquet(path).sort("id", maintain_order=True)
        names = {kind: frame.filter(polars.col("kind") == kind)["name"].to_list() for kind in ("entity", "relation")}
    except (OSError, polars.exceptions.PolarsError) as failure:
        reason = str(failure).splitlines()[0]
        raise DamagedRun(f"{path} cannot be read ({reason}); restore it from a copy.") from None
    return Vocabulary(names["entity"], "entity"), Vocabulary(names["relation"], "relation")


def write_facts(path: Path, graph: KnowledgeGraph) -> None:
    """Write the facts of a graph in order, columns source, relation, target: ids of the vocabularies."""
    import polars
    from polars.io.plugins import register_io_source

    columns = dict.fromkeys(("source", "relation", "target"), polars.Int32)

    def slices(*_: object) -> Iterator[polars.DataFrame]:
        for first in range(0, len(graph), _ROWS):
            yield polars.DataFrame(graph.triples[first : first + _ROWS], schema=columns)

    with _replacing(path) as unfinished:
        register_io_source(slices, schema=columns).sink_parquet(unfinished)  # the facts may be more than memory holds


@contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """A name to write to that becomes `path` at the end; what polars cannot write is an OSError, as everywhere."""
    from polars.exceptions import PolarsError

    unfinished = path.with_name(path.name + NEXT)
    try:
        yield unfinished
    except PolarsError as failure:
        raise OSError(EIO, str(failure).splitlines()[0]) from failure
    os.replace(unfinished, path)


def read_facts(path: Path, entities: Vocabulary, relations: Vocabulary) -> KnowledgeGraph:
    """The graph of the facts in a run's folder."""
    import polars

    try:
        columns = polars.read_parquet(path).select("source", "relation", "target").cast(polars.Int32)
        return KnowledgeGraph(entities, relations, columns.to_numpy())
    except (OSError, ValueError, polars.exceptions.PolarsError) as failure:
        reason = str(failure).splitlines()[0]
        raise DamagedRun(f"{path} cannot be read ({reason}); restore it from a copy.") from None


# With which settings a run goes on.


FREE_TO_CHANGE = frozenset(
    {"training.epochs", "training.threads", "training.device", "training.checkpoint_seconds", "early_stop.patience"}
)
"""Settings that may change when a run is resumed; another device or number of threads ends equality bit for bit."""


def resumed_config(folder: Path, asked: Mapping[str, Any]) -> TrainConfig:
    """The settings of the run in `folder`, with those asked for over them where a run may change them on its way."""
    if (folder / PARTS).exists():
        raise RunError(
            f"{folder} was merged from other runs and has no optimizer to go on with; "
            f"resume the runs that its {PARTS} names, and merge them again."
        )
    saved = read_config(folder)
    config = validate(merge(saved.model_dump(mode="json"), asked))
    before, after = flatten(saved.model_dump(mode="json")), flatten(config.model_dump(mode="json"))
    for key, value in after.items():
        if value != before[key] and key not in FREE_TO_CHANGE:
            raise ConfigError(
                f"{folder} was trained with {key} = {before[key]!r}, not {value!r}; "
                "leave that setting out to resume it, or train another run."
            )
    return config
