"""How many queries of the published tests are evaluated, and how many have no negatives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from blockhole.data.dataset import load
from blockhole.evaluation.truth import build_truth, queries_of
from blockhole.queries.exact import answer_sets
from tests.sweep import WHOLE

COUNTS = [("wn11", 1, 46_577, 0), ("fb13", 1, 98_056, 11_501) if WHOLE else ("fb13", 8, 12_244, 1_451)]
"""Of FB13 every eighth query, and the part of the published counts that falls to these: all have a billion answers."""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::blockhole.files.readers.UnseenEntities")
@pytest.mark.parametrize(("name", "every", "evaluated", "excluded"), COUNTS)
def test_published_counts(data_root: Path, name: str, every: int, evaluated: int, excluded: int) -> None:
    data = load(data_root / name)
    queries, truth = queries_of(data, "all").take(slice(None, None, every)), build_truth(data.split, "split")
    candidates = np.diff(truth.candidate_start)[queries.last_relation]
    answers = np.concatenate([np.diff(sets.indptr) for sets in answer_sets(truth.graph, queries)])
    # Every answer is a candidate, so the sets are equal where their sizes are.
    without = candidates == answers
    assert (int((~without).sum()), int(without.sum())) == (evaluated, excluded)
