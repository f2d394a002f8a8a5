"""The files of a run's folder beside its checkpoint: settings, names and facts, and what is made from the weights.

One process at a time writes a run, so a file under way has the name it will have with `.next` behind it: what a crash
leaves is known by that, and written over or cleared away by the next process that trains.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from blockhole.errors import ConfigError, DamagedRun, why
from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.graph.parquet import reading_parquet
from blockhole.graph.vocabulary import Vocabulary
from blockhole.runs.config import TrainConfig, validate
from blockhole.saving import is_intact, read_sealed, replacing, sealed

CONFIG = "config.json"
VOCABULARY = "vocabulary.parquet"
FACTS = "facts.parquet"
METRICS = "metrics.jsonl"
PARTS = "parts.json"
"""Only in a run that was merged from others: what it was merged from."""
MAP, VALIDATION, RULES = "map.json", "validation.json", "rules.json"
PICTURES = (MAP, VALIDATION, RULES)
"""What a server adds to a run that is explored."""
NEXT = ".next"

_ROWS = 1 << 20
"""Facts written at a time."""
_Record = TypeVar("_Record", bound=BaseModel)


def replacing_next(path: Path) -> AbstractContextManager[Path]:
    """A file `path`.next that becomes `path` at the end."""
    return replacing(path, temporary=path.with_name(path.name + NEXT))


def write_json(path: Path, content: object) -> None:
    """Write a JSON file of a run."""
    with replacing_next(path) as unfinished:
        unfinished.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def write_config(folder: Path, config: TrainConfig) -> None:
    """Write config.json."""
    with replacing_next(folder / CONFIG) as unfinished:
        unfinished.write_text(sealed(config.model_dump(mode="json")), encoding="utf-8")


def read_config(folder: Path) -> TrainConfig:
    """Read config.json."""
    try:
        return validate(read_sealed(folder / CONFIG))
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
    with replacing_next(path) as unfinished:
        kept = {_PREFIXES: json.dumps(entities.prefixes)} if entities.prefixes else None
        frame.write_parquet(unfinished, metadata=kept)


_PREFIXES = "prefixes"
"""Where the file of names keeps the prefixes of RDF, as JSON."""


def read_vocabularies(path: Path, sha256: str | None = None) -> tuple[Vocabulary, Vocabulary]:
    """Entities and relations."""
    import polars

    try:
        check_sum(path, sha256)
        with reading_parquet(path):
            frame = polars.read_parquet(path).sort("id", maintain_order=True)
            prefixes = json.loads(polars.read_parquet_metadata(path).get(_PREFIXES, "{}"))
        columns = [frame.filter(polars.col("kind") == kind)["name"] for kind in ("entity", "relation")]
        if any(names.dtype != polars.String or names.null_count() or names.is_duplicated().any() for names in columns):
            raise ValueError("its names are not distinct texts")
        if not isinstance(prefixes, dict) or not all(isinstance(iri, str) for iri in prefixes.values()):
            raise ValueError("its prefixes are not texts")
        entities, relations = (names.to_list() for names in columns)
    except (OSError, ValueError, polars.exceptions.PolarsError) as failure:
        raise DamagedRun(f"{path} cannot be read ({why(failure)}); restore it from a copy.") from None
    return Vocabulary(entities, "entity", prefixes), Vocabulary(relations, "relation", prefixes)


def write_facts(path: Path, graph: KnowledgeGraph) -> None:
    """Write the facts of a graph in order, columns source, relation, target: ids of the vocabularies."""
    import polars
    from polars.io.plugins import register_io_source

    columns = dict.fromkeys(("source", "relation", "target"), polars.Int32)

    def slices(*_: object) -> Iterator[polars.DataFrame]:
        for first in range(0, len(graph), _ROWS):
            yield polars.DataFrame(graph.triples[first : first + _ROWS], schema=columns)

    with replacing_next(path) as unfinished:
        register_io_source(slices, schema=columns).sink_parquet(unfinished)  # the facts may be more than memory holds


def read_run_facts(
    path: Path, entities: Vocabulary, relations: Vocabulary, sha256: str | None = None
) -> KnowledgeGraph:
    """The graph of the facts in a run's folder."""
    import polars

    try:
        check_sum(path, sha256)
        with reading_parquet(path):
            columns = polars.read_parquet(path).select("source", "relation", "target").cast(polars.Int32)
        return KnowledgeGraph(entities, relations, columns.to_numpy())
    except (OSError, ValueError, polars.exceptions.PolarsError) as failure:
        raise DamagedRun(f"{path} cannot be read ({why(failure)}); restore it from a copy.") from None


def read_derived(path: Path, kind: type[_Record], remedy: str) -> _Record | None:
    """The contents of a JSON file that was made from the weights; None where there is no such file."""
    try:
        return kind.model_validate(read_sealed(path))
    except FileNotFoundError:
        return None
    except OSError as failure:
        raise DamagedRun(f"{path} cannot be read ({failure.strerror}); {remedy}") from None
    except ValueError:
        raise DamagedRun(f"{path} is damaged: it is not what was saved; {remedy}") from None


_KINDS = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "I64": np.int64, "I32": np.int32, "U8": np.uint8}


def map_safetensors(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of a safetensors file as views of it, without torch; what is written to them stays in this process.

    The package itself reads them as copies, or as views for torch alone.
    """
    from safetensors import SafetensorError, safe_open

    with safe_open(path, framework="np"):  # refuses a file whose header is not true of it
        stored = np.asarray(np.memmap(path, dtype=np.uint8, mode="c"))
    first = 8 + int.from_bytes(stored[:8].tobytes(), "little")
    header = json.loads(stored[8:first].tobytes())
    arrays = {}
    for name, entry in header.items():
        if name != "__metadata__":
            if entry["dtype"] not in _KINDS:
                raise SafetensorError(f"its {name} holds numbers of the kind {entry['dtype']}")
            begin, end = entry["data_offsets"]
            arrays[name] = stored[first + begin : first + end].view(_KINDS[entry["dtype"]]).reshape(entry["shape"])
    return arrays


def check_sum(path: Path, sha256: str | None) -> None:
    """Refuse a file whose bytes are not those that were saved; `sha256` is unknown in runs of version 0.1."""
    if not is_intact(path, sha256):
        raise DamagedRun(
            f"{path} is damaged: its bytes are not those that were saved; restore the folder from a copy, "
            "or train again into another folder."
        )
