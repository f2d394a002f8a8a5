"""Path queries work where there is nothing but torch and NumPy, as on a machine lent for its GPU."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys

import pytest
for missing in ("numba", "polars", "scipy", "pyoxigraph", "pandas", "networkx", "backports"):
    sys.modules[missing] = None
import numpy as np, torch
from blockhole.graph.knowledge_graph import SplitGraph
from blockhole.graph.vocabulary import Vocabulary
from blockhole.queries.answer_masks import AnswerMasks
from blockhole.queries.exact import answer_sets, holds
from blockhole.queries.path_sets import build_paths
from blockhole.queries.language import encode_chain
triples = np.array([(0, 0, 1), (1, 0, 2), (2, 1, 0)], dtype=np.int32)
split = SplitGraph(Vocabulary("abc", "entity"), Vocabulary(["p", "q"], "relation"), triples, triples[:1])
graph = split.graph("train")
train = build_paths(split).train
assert holds(graph, train).all()
(sets,) = answer_sets(graph, train)
mask = AnswerMasks(graph)(*(torch.tensor(a) for a in (train.source, train.path, train.length)))
assert mask[sets.row, sets.entities].all() and mask.sum() == len(sets.entities)
print(encode_chain("a/p/^q", graph))
"""


@pytest.mark.slow
def test_nothing_but_torch_and_numpy() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stderr == ""
    assert done.stdout == "(0, [0, 3])\n"
