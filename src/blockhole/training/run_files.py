"""The files of a run's folder beside its checkpoint: settings, names and facts, written and read."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from errno import EIO
from pathlib import Path

from blockhole.errors import ConfigError, DamagedRun
from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.graph.vocabulary import Vocabulary
from blockhole.training.checkpoint import NEXT, write_bytes
from blockhole.training.config import TrainConfig
from blockhole.training.config_sources import validate

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
