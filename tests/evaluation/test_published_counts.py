"""How many queries of the published tests are evaluated, and how many have no negatives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from blockhole.data.dataset import load
from blockhole.evaluation.truth import build_truth, queries_of
from blockhole.queries.exact import answer_sets


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::blockhole.files.readers.UnseenEntities")
@pytest.mark.parametrize(("name", "evaluated", "excluded"), [("wn11", 46_577, 0), ("fb13", 98_056, 11_501)])
def test_published_counts(data_root: Path, name: str, evaluated: int, excluded: int) -> None:
    data = load(data_root / name)
    queries, truth = queries_of(data, "all"), build_truth(data.split, "split")
    candidates = np.diff(truth.candidate_start)[queries.last_relation]
    answers = np.concatenate([np.diff(sets.indptr) for sets in answer_sets(truth.graph, queries)])
    # Every answer is a candidate, so the sets are equal where their sizes are.
    without = candidates == answers
    assert (int((~without).sum()), int(without.sum())) == (evaluated, excluded)
