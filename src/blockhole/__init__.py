"""BlockHolE: path queries over knowledge graphs that miss edges.

>>> import blockhole
>>> family = blockhole.load("family")
>>> run = blockhole.train(family, out="runs/family")
>>> for answer in blockhole.ask(run, "William/^fatherOf/brotherOf/fatherOf", top=3):
...     print(answer.entity, answer.status)

Every verb of the command line that asks or does something with a run is a function here, with the same options.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from blockhole.answering.auditing import audit
    from blockhole.answering.calibrating import calibrate
    from blockhole.answering.connections import paths
    from blockhole.answering.engine import Engine, ask, check, sparql
    from blockhole.answering.export import export
    from blockhole.answering.predicting import predict
    from blockhole.answering.proofs import explain
    from blockhole.answering.rules import rules
    from blockhole.data.dataset import answers_from_facts as answers
    from blockhole.data.dataset import load, sample_queries
    from blockhole.errors import BlockholeError
    from blockhole.files.readers import read_graph, read_split
    from blockhole.files.writers import write_graph
    from blockhole.fitting import train
    from blockhole.measuring import compare, evaluate
    from blockhole.runs.compressing import compress_run as compress
    from blockhole.runs.merging import merge_runs as merge
    from blockhole.runs.run import Run
    from blockhole.tuning import tune

__version__ = "0.2.0"

__all__ = [
    "BlockholeError",
    "Engine",
    "Run",
    "__version__",
    "answers",
    "ask",
    "audit",
    "calibrate",
    "check",
    "compare",
    "compress",
    "evaluate",
    "explain",
    "export",
    "load",
    "merge",
    "paths",
    "predict",
    "read_graph",
    "read_split",
    "rules",
    "sample_queries",
    "sparql",
    "train",
    "tune",
    "write_graph",
]

# Imported when first used: `import blockhole` costs nothing, and the core runs without the table libraries.
_HOMES = {
    "BlockholeError": "blockhole.errors.BlockholeError",
    "Engine": "blockhole.answering.engine.Engine",
    "Run": "blockhole.runs.run.Run",
    "answers": "blockhole.data.dataset.answers_from_facts",
    "ask": "blockhole.answering.engine.ask",
    "audit": "blockhole.answering.auditing.audit",
    "calibrate": "blockhole.answering.calibrating.calibrate",
    "check": "blockhole.answering.engine.check",
    "compare": "blockhole.measuring.compare",
    "compress": "blockhole.runs.compressing.compress_run",
    "evaluate": "blockhole.measuring.evaluate",
    "explain": "blockhole.answering.proofs.explain",
    "export": "blockhole.answering.export.export",
    "load": "blockhole.data.dataset.load",
    "merge": "blockhole.runs.merging.merge_runs",
    "paths": "blockhole.answering.connections.paths",
    "predict": "blockhole.answering.predicting.predict",
    "read_graph": "blockhole.files.readers.read_graph",
    "read_split": "blockhole.files.readers.read_split",
    "rules": "blockhole.answering.rules.rules",
    "sample_queries": "blockhole.data.dataset.sample_queries",
    "sparql": "blockhole.answering.engine.sparql",
    "train": "blockhole.fitting.train",
    "tune": "blockhole.tuning.tune",
    "write_graph": "blockhole.files.writers.write_graph",
}


def __getattr__(name: str) -> object:
    if name in _HOMES:
        module, _, own_name = _HOMES[name].rpartition(".")
        return getattr(import_module(module), own_name)
    raise AttributeError(f"module 'blockhole' has no attribute {name!r}")
