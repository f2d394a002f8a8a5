"""Digests of what processes must have in common before they train together."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from blockhole.data.dataset import DataSet
from blockhole.graph.vocabulary import Vocabulary
from blockhole.training.config import TrainConfig

PACKAGE = Path(__file__).resolve().parents[2]

OWN_SETTINGS: dict[str, Any] = {"data": True, "training": {"threads", "device"}}
"""Settings that each process may have for itself; what data it reads is compared by contents, not by its path."""


def versions() -> dict[str, str]:
    """What is installed, as far as training depends on it; BlockHolE by its source, which tells checkouts apart."""
    modules = {path.relative_to(PACKAGE).as_posix(): path.read_bytes() for path in sorted(PACKAGE.rglob("*.py"))}
    source = _digest(part for name, text in modules.items() for part in (name.encode(), text))
    return {"BlockHolE": source, "torch": torch.__version__, "NumPy": np.__version__}


def settings_digest(config: TrainConfig) -> str:
    """A digest of the settings that must be equal."""
    return _digest([json.dumps(config.model_dump(mode="json", exclude=OWN_SETTINGS), sort_keys=True).encode()])


def data_digests(data: DataSet, *, paths: bool) -> dict[str, str]:
    """Digests of names, facts and, if asked, train paths, by what they are of."""
    split = data.split
    digests = {
        "kind of graph (packed, or not)": str(split.packed),
        "entity names": _digest_names(split.entities),
        "relation names": _digest_names(split.relations),
        "train facts": _digest([np.ascontiguousarray(split.train).data]),
        "validation facts": _digest([np.ascontiguousarray(split.valid).data]),
    }
    if paths:
        queries = data.paths("train")
        arrays = (queries.source, queries.path, queries.length, queries.target)
        digests["path queries"] = _digest(np.ascontiguousarray(array).data for array in arrays)
    return digests


def first_difference(seen: Sequence[Mapping[str, str]]) -> tuple[str, list[int]] | None:
    """The first thing of which processes have another digest than process 0, and those processes; absent: none."""
    for what, expected in seen[0].items():
        others = [rank for rank, digests in enumerate(seen) if digests.get(what) != expected]
        if others:
            return what, others
    return None


def _digest_names(names: Vocabulary) -> str:
    return _digest(name.encode() + b"\0" for name in names.names)


def _digest(parts: Iterable[bytes | memoryview]) -> str:
    total = hashlib.sha256()
    for part in parts:
        total.update(part)
    return total.hexdigest()
