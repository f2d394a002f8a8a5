"""How probable an engine says its best predicted answers are, beside what is true: by what a probability is judged."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from blockhole.answering.engine import Engine, in_order
from blockhole.answering.known import KnownFacts
from blockhole.answering.search import UNLIMITED, Candidates, Search, Wanted
from blockhole.errors import QueryTooCostly
from blockhole.evaluation.classification import Measured
from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.queries.plans import Plan

if TYPE_CHECKING:
    import torch

SHOWN = 10
"""Predicted answers taken of each query: what people see of it."""


class Judged(NamedTuple):
    """The probabilities of some answers, and whether each is true: [N], [N]."""

    said: NDArray[np.float64]
    true: NDArray[np.bool_]

    @classmethod
    def joined(cls, parts: Sequence[Judged]) -> Judged:
        """All of them together."""
        said = np.concatenate([np.zeros(0), *(part.said for part in parts)])
        return cls(said, np.concatenate([np.zeros(0, dtype=bool), *(part.true for part in parts)]))


def judge_answers(
    engine: Engine,
    plans: Sequence[Plan],
    truth: KnowledgeGraph,
    *,
    candidates: Candidates = "typed",
    device: torch.device | None = None,
    progress: Callable[[int], None] = lambda asked: None,
) -> Judged:
    """The ten best predicted answers to queries of one shape, by what `truth` says; queries too costly are left out.

    A GPU, where `device` is one, answers all of them at once. `progress` hears of each query that was asked.
    """
    facts, judged = KnownFacts(truth), []
    for plan, best in zip(plans, _best_predicted(engine, plans, candidates, device), strict=True):
        if best:
            entities, values = zip(*best, strict=True)
            true = np.isin(np.array(entities), facts.plan_answers(plan))
            judged.append(Judged(np.array(values, dtype=np.float64), true))
        progress(1)
    return Judged.joined(judged)


def _best_predicted(
    engine: Engine, plans: Sequence[Plan], candidates: Candidates, device: torch.device | None
) -> Iterator[Sequence[tuple[int, float]]]:
    """The ten best predicted answers to each query, and their probabilities."""
    part = slice(0, SHOWN)
    if plans and device is not None and device.type == "cuda":
        from blockhole.answering.device import DeviceSweep

        ids = np.array([plan.ids for plan in plans])
        for settled in DeviceSweep(engine, device, candidates).settled(plans[0].steps, ids, SHOWN):
            yield in_order(settled.predicted, settled.predicted_value, part, engine.graph.entities)
        return
    for plan in plans:
        known = engine.known.plan_answers(plan)
        among = np.ones(engine.graph.num_entities, dtype=bool)
        among[known] = False
        try:
            low = Search(engine, plan, candidates, UNLIMITED).settle(Wanted(among, SHOWN, known[:0])).low
        except QueryTooCostly:
            yield ()
            continue
        predicted = np.flatnonzero(among & (low > 0))
        yield in_order(predicted, low[predicted], part, engine.graph.entities)


def measured_by_type(judged: Mapping[str, Judged]) -> dict[str, Measured]:
    """The measures of each type of query that has answers."""
    return {name: Measured.of(*each) for name, each in judged.items() if len(each.said)}
