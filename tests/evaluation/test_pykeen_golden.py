"""With the same weights, our completion figures are PyKEEN's (realistic, filtered) on umls."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from blockhole.evaluation.completion import evaluate_completion
from blockhole.evaluation.truth import build_truth
from blockhole.files.readers import read_split
from blockhole.graph.vocabulary import Vocabulary
from blockhole.models.complex import ComplEx

GOLDEN = json.loads((Path(__file__).parent / "goldens" / "pykeen_umls.json").read_text(encoding="utf-8"))


def weights(kind: str, names: Vocabulary, seed: int) -> torch.Tensor:
    """The weights the golden was made with, for names in our order; real parts, then imaginary parts."""
    generator = np.random.Generator(np.random.Philox(seed))
    shape = (2, len(names), GOLDEN["dim"])
    parts = generator.standard_normal(shape) if kind == "normal" else generator.integers(-1, 2, size=shape)
    place = {name: i for i, name in enumerate(sorted(names))}
    rows = parts[:, [place[name] for name in names]]
    return torch.from_numpy(np.concatenate([rows[0], rows[1]], axis=1).astype(np.float64))


@pytest.mark.parametrize("kind", ["normal", "whole"])
def test_completion_equals_pykeen(data_root: Path, kind: str) -> None:
    split = read_split(data_root / "umls")
    model = ComplEx(len(split.entities), len(split.relations), dim=GOLDEN["dim"], tied=True).double()
    with torch.no_grad():
        model.entity.copy_(weights(kind, split.entities, seed=1))
        model.relation.copy_(weights(kind, split.relations, seed=2))
    report = evaluate_completion(model, split.test, build_truth(split)).to_dict()
    golden = GOLDEN[kind]
    assert {name: report[name] for name in golden["both"]} == pytest.approx(golden["both"], rel=1e-6)
    for side in ("head", "tail"):
        assert report["sides"][side] == pytest.approx(golden[side], rel=1e-6)
    assert (report["tied"] > 50) == (kind == "whole")
