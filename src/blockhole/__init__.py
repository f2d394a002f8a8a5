"""BlockHolE: path queries over knowledge graphs that miss edges.

>>> import blockhole
>>> family = blockhole.load("family")
>>> run = blockhole.train(family, out="runs/family")
>>> for answer in blockhole.ask(run, "William/^fatherOf/brotherOf/fatherOf", top=3):
...     print(answer.entity, answer.status)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from blockhole.answering.engine import Engine, ask
    from blockhole.data.dataset import load
    from blockhole.errors import BlockholeError
    from blockhole.files.readers import read_graph, read_split
    from blockhole.files.writers import write_graph
    from blockhole.fitting import train
    from blockhole.runs.run import Run

__version__ = "0.1.0"

__all__ = [
    "BlockholeError",
    "Engine",
    "Run",
    "__version__",
    "ask",
    "load",
    "read_graph",
    "read_split",
    "train",
    "write_graph",
]

# Imported when first used: `import blockhole` costs nothing, and the core runs without the table libraries.
_HOMES = {
    "BlockholeError": "blockhole.errors",
    "Engine": "blockhole.answering.engine",
    "Run": "blockhole.runs.run",
    "ask": "blockhole.answering.engine",
    "load": "blockhole.data.dataset",
    "read_graph": "blockhole.files.readers",
    "read_split": "blockhole.files.readers",
    "train": "blockhole.fitting",
    "write_graph": "blockhole.files.writers",
}


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'blockhole' has no attribute {name!r}")
