"""The order of relations: queries with …/a/b/… against the same with …/b/a/… (Table 4 of the paper)."""

from __future__ import annotations

import numpy as np
import torch

from blockhole.errors import EvaluationError
from blockhole.evaluation.classification import ClassificationReport, classify
from blockhole.evaluation.truth import Truth
from blockhole.models.contract import Model
from blockhole.paths.answers import holds
from blockhole.paths.queries import PathQueries


def swap_adjacent(queries: PathQueries, first: int, second: int) -> tuple[PathQueries, PathQueries]:
    """The queries whose path holds `first`/`second`, and the same with the first such pair the other way round."""
    here, following = queries.path[:, :-1], queries.path[:, 1:]
    inside = np.arange(1, queries.path.shape[1]) < queries.length[:, None]
    pair = (here == first) & (following == second) & inside
    chosen = np.flatnonzero(pair.any(axis=1))
    position = pair[chosen].argmax(axis=1)
    found = queries.take(chosen)
    path = found.path.copy()
    row = np.arange(len(chosen))
    path[row, position], path[row, position + 1] = second, first
    return found, PathQueries(found.source, path, found.length, found.target)


def evaluate_order(
    model: Model,
    queries: PathQueries,
    truth: Truth,
    first: int,
    second: int,
    *,
    split: str = "all",
    device: torch.device | str = "cpu",
    seed: int = 0,
) -> ClassificationReport:
    """Classify the queries that hold in G(F*) along …/first/second/…, and their swapped paths where those do not."""
    found, swapped = swap_adjacent(queries, first, second)
    true = holds(truth.graph, found, device)
    names = [truth.graph.relation_name(relation) for relation in (first, second)]
    pair = "/".join(f"^{name}" if inverse else name for name, inverse in names)
    if not true.any():
        raise EvaluationError(f"no query of the split {split} has {pair} in its path; choose another pair or split.")
    title = f"{split} with {pair}"
    return classify(model, found.take(true), swapped.take(true), truth, split=title, device=device, seed=seed)
