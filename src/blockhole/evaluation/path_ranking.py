"""Path QA ranking: MQ and P@10 with intervals, over all queries, by path length and by last relation.

The figures are those of `PATH_METRICS` in `evaluation/ranking.py`.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, ClassVar, final

import numpy as np
import torch
from numpy.typing import NDArray

from blockhole.errors import EvaluationError
from blockhole.evaluation.baselines import Baselines, baselines
from blockhole.evaluation.ranking import PATH_METRICS, Ranks, TieRule, TiesCountAsWins, rank, values_of
from blockhole.evaluation.report import Interval, Table, Timing, mean, mean_intervals, spell_interval
from blockhole.evaluation.truth import Reading, Truth
from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.models.contract import Model
from blockhole.queries.paths import PathQueries


@final
@dataclass(frozen=True, slots=True)
class RankingFigures:
    """The figures of one set of queries, in per cent; None where no query has a negative.

    `queries` are evaluated, `excluded` have no negatives and count in no figure but `p_at_10_with_excluded`, the
    reading under which they are hits. `tied` is the share of evaluated queries with a tie.
    """

    queries: int
    excluded: int
    tied: float | None
    means: dict[str, float | None]
    p_at_10_with_excluded: float
    intervals: dict[str, Interval]

    @property
    def mq(self) -> float | None:
        """The mean quantile."""
        return self.means["mq"]

    @property
    def p_at_10(self) -> float | None:
        """The share of queries whose true answer ranks tenth or better."""
        return self.means["p_at_10"]

    def to_dict(self) -> dict[str, Any]:
        """Every figure, as JSON takes it."""
        return {
            "queries": self.queries,
            "excluded": self.excluded,
            "tied": self.tied,
            **self.means,
            "p_at_10_with_excluded": self.p_at_10_with_excluded,
            "intervals": {name: list(interval) for name, interval in self.intervals.items()},
        }


def ranking_figures(ranks: Ranks, ties: TieRule = "half", seed: int = 0) -> RankingFigures:
    """Summarise the ranks of one set of queries, at least one."""
    counted = ranks.evaluated
    values = _values(ranks, ties)
    tied = mean(ranks.tied[counted] > 0)
    return RankingFigures(
        queries=int(counted.sum()),
        excluded=int((~counted).sum()),
        tied=None if tied is None else 100 * tied,
        means={name: mean(each) for name, each in values.items()},
        p_at_10_with_excluded=float(100 * (ranks.hit(10, ties) | ~counted).mean()),
        intervals=mean_intervals(values, seed),
    )


def _values(ranks: Ranks, ties: TieRule) -> dict[str, NDArray[np.float64]]:
    """What the metrics give to each query that has negatives."""
    return values_of(PATH_METRICS, ranks.take(ranks.evaluated), ties)


@final
@dataclass(frozen=True, slots=True)
class RankingReport:
    """Ranking on one split; `ranks` are those of its queries, in order."""

    split: str
    truth: Reading
    ties: TieRule
    total: RankingFigures
    by_length: dict[int, RankingFigures]
    by_relation: dict[str, RankingFigures]
    timing: Timing
    ranks: Ranks = field(repr=False)
    baselines: Baselines | None = None
    digits: ClassVar[int] = 1

    @property
    def remark(self) -> str | None:
        """That the model does not beat a baseline, by MQ, where it does not."""
        return self.baselines and self.baselines.remark(PATH_METRICS[0], self.total.mq)

    @property
    def metrics(self) -> dict[str, NDArray[np.float64]]:
        """The values of each evaluated query, in per cent."""
        return _values(self.ranks, self.ties)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the ranks of single queries."""
        return {
            "task": "ranking",
            "split": self.split,
            "truth": self.truth,
            "ties": self.ties,
            **self.total.to_dict(),
            "by_length": {str(length): part.to_dict() for length, part in self.by_length.items()},
            "by_relation": {relation: part.to_dict() for relation, part in self.by_relation.items()},
            "baselines": self.baselines and self.baselines.to_dict(),
            "remark": self.remark,
            **self.timing.to_dict(),
        }

    def tables(self) -> list[Table]:
        """All queries with what was measured, then by length, then by last relation."""
        total = _table(f"Ranking on {self.split} (F* = {self.truth}, ties {self.ties}), per cent", {"all": self.total})
        hits = {"p_at_10": self.total.p_at_10_with_excluded}
        cells = chain.from_iterable((hits.get(metric.name), None) for metric in PATH_METRICS)
        others = ("excluded as hits", *cells, None, None, None)
        beside = []
        for name, own in self.baselines.rows() if self.baselines else ():
            figures = chain.from_iterable((own.get(metric.name), None) for metric in PATH_METRICS)
            beside.append((name, *figures, None, None, None))
        relations = tuple(
            (name, *part.means.values(), part.queries, part.excluded, part.tied)
            for name, part in self.by_relation.items()
        )
        titles = tuple(metric.title for metric in PATH_METRICS)
        return [
            replace(total, rows=(*total.rows, others, *beside)),
            _table("By path length", {str(length): part for length, part in self.by_length.items()}),
            Table("By last relation", ("relation", *titles, "evaluated", "excluded", "tied"), relations),
        ]


def _table(title: str, parts: dict[str, RankingFigures]) -> Table:
    """A row for each part: every metric, and its interval beside it."""
    figures = [cell for metric in PATH_METRICS for cell in (metric.title, "95 %")]
    rows = []
    for name, part in parts.items():
        spelled = [(mean, spell_interval(part.intervals.get(metric))) for metric, mean in part.means.items()]
        rows.append((name, *chain.from_iterable(spelled), part.queries, part.excluded, part.tied))
    return Table(title, ("queries", *figures, "evaluated", "excluded", "tied"), tuple(rows))


def evaluate_ranking(
    model: Model,
    queries: PathQueries,
    truth: Truth,
    *,
    split: str = "all",
    ties: TieRule = "half",
    memory: int | None = None,
    device: torch.device | str = "cpu",
    seed: int = 0,
    train: KnowledgeGraph | None = None,
    progress: Callable[[int], None] | None = None,
) -> RankingReport:
    """Rank every query and report; `split` names the queries, `seed` draws the intervals.

    With the `train` graph the report has baselines.
    """
    start = time.perf_counter()
    ranks = rank(model, queries, truth, memory=memory, device=device, progress=progress)
    timing = Timing(len(queries), time.perf_counter() - start)
    if ties == "paper" and ranks.tied[ranks.evaluated].any():
        _warn_of_ties(ranks)
    last = queries.last_relation
    by_relation = {}
    for relation in np.unique(last).tolist():
        by_relation[truth.relation_text(relation)] = ranking_figures(ranks.take(last == relation), ties, seed)
    by_length = {
        length: ranking_figures(ranks.take(queries.length == length), ties, seed) for length in queries.lengths()
    }
    beside = None if train is None else baselines(queries, truth, train, ranks, PATH_METRICS, "typed")
    figures = ranking_figures(ranks, ties, seed)
    return RankingReport(split, truth.reading, ties, figures, by_length, by_relation, timing, ranks, beside)


def _warn_of_ties(ranks: Ranks) -> None:
    counted = ranks.take(ranks.evaluated)
    paper, half = 100 * counted.quantile("paper").mean(), 100 * counted.quantile("half").mean()
    warnings.warn(
        f"the paper's rule counts ties as wins, and {100 * (counted.tied > 0).mean():.1f} % of the queries have some: "
        f"MQ {paper:.1f}, against {half:.1f} when a tie counts half.",
        TiesCountAsWins,
        stacklevel=3,
    )


def subset(queries: PathQueries, limit: int, seed: int = 0) -> PathQueries:
    """At most `limit` of the queries, drawn without replacement from `seed`, in their order."""
    if len(queries) <= limit:
        return queries
    return queries.take(np.sort(np.random.default_rng(seed).choice(len(queries), limit, replace=False)))


def validation_ranking(
    model: Model, queries: PathQueries, truth: Truth, *, device: torch.device | str = "cpu"
) -> dict[str, float]:
    """The figures of early stopping: means over the queries that have negatives, a tie counting half."""
    ranks = rank(model, queries, truth, device=device)
    if not ranks.evaluated.any():
        raise EvaluationError("no validation query has a negative candidate; give more validation queries.")
    return {name: float(values.mean()) for name, values in _values(ranks, "half").items()}
