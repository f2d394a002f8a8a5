"""Completion figures of PyKEEN's evaluator on umls, for weights that anyone can draw again.

Runs in the environment of the peers and writes the golden that tests/evaluation/test_pykeen_golden.py compares with:

    .venv-peers/bin/python benchmarks/peers/golden_pykeen_umls.py DATA/umls tests/evaluation/goldens/pykeen_umls.json
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import pykeen
import torch
from numpy.typing import NDArray
from pykeen.evaluation import RankBasedEvaluator
from pykeen.models import ComplEx
from pykeen.triples import TriplesFactory

DIM = 8
METRICS = {
    "mr": "arithmetic_mean_rank",
    "mrr": "inverse_harmonic_mean_rank",
    "hits_at_1": "hits_at_1",
    "hits_at_3": "hits_at_3",
    "hits_at_10": "hits_at_10",
}
COMMAND = (
    ".venv-peers/bin/python benchmarks/peers/golden_pykeen_umls.py DATA/umls tests/evaluation/goldens/pykeen_umls.json"
)


def draw(kind: str, rows: int, seed: int) -> NDArray[np.complex128]:
    """Complex weights [rows, DIM]: normal, or small whole numbers, whose scores tie exactly and often."""
    generator = np.random.Generator(np.random.Philox(seed))
    if kind == "normal":
        parts = generator.standard_normal((2, rows, DIM))
    else:
        parts = generator.integers(-1, 2, size=(2, rows, DIM)).astype(np.float64)
    return np.asarray(parts[0] + 1j * parts[1])


def evaluate(kind: str, factories: dict[str, TriplesFactory]) -> dict[str, Any]:
    model = ComplEx(triples_factory=factories["train"], embedding_dim=DIM, random_seed=0).double()
    for table, seed in ((model.entity_representations[0], 1), (model.relation_representations[0], 2)):
        weights = torch.from_numpy(draw(kind, table.max_id, seed))
        with torch.no_grad():
            table._embeddings.weight.copy_(torch.view_as_real(weights).reshape(table.max_id, -1))
    results = RankBasedEvaluator(filtered=True).evaluate(
        model,
        factories["test"].mapped_triples,
        additional_filter_triples=[factories["train"].mapped_triples, factories["valid"].mapped_triples],
        use_tqdm=False,
    )
    return {
        side: {ours: float(results.get_metric(f"{side}.realistic.{theirs}")) for ours, theirs in METRICS.items()}
        for side in ("both", "head", "tail")
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    arguments = parser.parse_args()
    lines = {
        split: [
            tuple(line.split("\t"))
            for line in (arguments.data / f"{split}.txt").read_text(encoding="utf-8").splitlines()
        ]
        for split in ("train", "valid", "test")
    }
    facts = [fact for part in lines.values() for fact in part]
    entities = {name: i for i, name in enumerate(sorted({name for s, _, o in facts for name in (s, o)}))}
    relations = {name: i for i, name in enumerate(sorted({r for _, r, _ in facts}))}
    factories = {
        split: TriplesFactory.from_labeled_triples(
            np.array(part, dtype=str), entity_to_id=entities, relation_to_id=relations
        )
        for split, part in lines.items()
    }
    golden = {
        "command": COMMAND,
        "pykeen": pykeen.get_version(),
        "torch": torch.__version__,
        "weights": "Philox(1) entities, Philox(2) relations, in the order of sorted names; see draw() in the script",
        "dim": DIM,
        **{kind: evaluate(kind, factories) for kind in ("normal", "whole")},
    }
    arguments.out.write_text(json.dumps(golden, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
