"""Complex queries: MRR and Hits@k of hard answers by type of query, and by how many facts their easiest proof lacks.

A hard answer is one that facts held back make an answer. Each is ranked among the entities that are no answers at all,
neither easy nor hard. Reciprocal ranks and hits are averaged over the hard answers of a query, then over the queries of
a type, then over types.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, final

import numpy as np
from numpy.typing import NDArray

from blockhole.errors import EvaluationError, counted
from blockhole.evaluation.classification import Measured
from blockhole.evaluation.ranking import COMPLETION_METRICS, Ranks, TieRule, values_of
from blockhole.evaluation.report import Interval, Table, Timing, percentiles, resampled_means, spell_interval
from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.machine import resident_bytes, rows_within
from blockhole.queries.missing import MissingFacts
from blockhole.queries.plans import Follow, Plan, Steps
from blockhole.queries.query_sets import QUERY_TYPES, QuerySet, QuerySplit, easy_and_hard, steps_of_type

Floats = NDArray[np.float64]
Ids = NDArray[np.int32]

METRICS = tuple(metric for metric in COMPLETION_METRICS if metric.name != "mr")
"""The figures, as fractions of 1."""

Values = Callable[[Steps, Ids, Sequence[Ids]], Sequence[tuple[Floats, Floats]]]
"""What says how probable every entity is, at least and at most, for queries of a shape: ids [N, slots], N × [E].

It is told which answers are to be ranked, and may leave apart bounds that tell their places as well as values do.
"""

Family = Literal["without negation", "with negation"]
FAMILIES: dict[Family, tuple[str, ...]] = {
    "without negation": tuple(name for name, query in QUERY_TYPES.items() if "!" not in query),
    "with negation": tuple(name for name, query in QUERY_TYPES.items() if "!" in query),
}
"""The types that a mean is taken over: nine and five."""

_TOGETHER = 256
"""Queries that are asked together at most: more take memory, and share little more."""


@final
@dataclass(frozen=True, slots=True)
class Figures:
    """The means of some hard answers over the queries that have any, and those of 1,000 bootstrap draws, [1000, M]."""

    means: dict[str, float]
    queries: int
    answers: int
    resampled: Floats = field(repr=False)

    @property
    def intervals(self) -> dict[str, Interval]:
        """The bootstrap interval of each mean."""
        return dict(zip(self.means, percentiles(self.resampled), strict=True))

    def to_dict(self) -> dict[str, Any]:
        """The figures as JSON takes them."""
        intervals = {name: list(interval) for name, interval in self.intervals.items()}
        return {**self.means, "queries": self.queries, "answers": self.answers, "intervals": intervals}


@final
@dataclass(frozen=True, slots=True, eq=False)
class RankedAnswers:
    """The hard answers of one type's queries, in the order of the queries.

    `ranks` are the worst that bounds allow and `best` the best, nearly always the same; `query` [A] is the row of the
    query, `lacking` [A] how many facts the easiest proof lacks.
    """

    ranks: Ranks
    best: Ranks
    query: NDArray[np.int64]
    lacking: NDArray[np.int16]

    def take(self, index: NDArray[np.bool_] | NDArray[np.intp]) -> RankedAnswers:
        """Some of them."""
        return RankedAnswers(self.ranks.take(index), self.best.take(index), self.query[index], self.lacking[index])

    @property
    def unsettled(self) -> int:
        """How many answers have more than one rank that bounds allow."""
        return int(((self.ranks.better != self.best.better) | (self.ranks.tied != self.best.tied)).sum())

    def by_query(self, ties: TieRule, *, best: bool = False) -> Floats:
        """The means over the answers of each query that has some, in order: [Q, M]."""
        values = values_of(METRICS, self.best if best else self.ranks, ties)
        _, row = np.unique(self.query, return_inverse=True)
        size = np.bincount(row)
        return np.column_stack([np.bincount(row, weights=each) / size for each in values.values()])

    def figures(self, ties: TieRule, seed: Sequence[int]) -> Figures:
        """What is averaged over queries."""
        values = self.by_query(ties)
        means = dict(zip((metric.name for metric in METRICS), values.mean(axis=0).tolist(), strict=True))
        return Figures(means, len(values), len(self.ranks), resampled_means(values, seed))


@final
@dataclass(frozen=True, slots=True)
class TypeReport:
    """One type, or the mean of several: all hard answers, and those whose easiest proof lacks 1, 2, … facts."""

    all: Figures
    lacking: dict[int, Figures]

    def to_dict(self) -> dict[str, Any]:
        """The figures as JSON takes them."""
        parts = {str(number): figures.to_dict() for number, figures in self.lacking.items()}
        return {**self.all.to_dict(), "lacking": parts}


@final
@dataclass(frozen=True, slots=True)
class QueryReport:
    """A set of complex queries, as fractions of 1; `answers` hold the ranks of every type's hard answers.

    `reliability` has, by type, how the probabilities of the ten best predicted answers compare with what is true, where
    this was measured.
    """

    name: str
    split: QuerySplit
    ties: TieRule
    candidates: str
    excluded: int
    types: dict[str, TypeReport]
    means: dict[Family, TypeReport]
    timing: Timing
    answers: Mapping[str, RankedAnswers] = field(repr=False)
    reliability: Mapping[str, Measured] = field(default_factory=dict, repr=False)
    digits: ClassVar[int] = 4
    remark: ClassVar[str | None] = None

    @property
    def metrics(self) -> dict[str, Floats]:
        """The MRR of each query by type; where a family has several types, its figures, by weights the means' own."""
        values = {name: answers.by_query(self.ties) for name, answers in self.answers.items()}
        found: dict[str, Floats] = {}
        for family in self.means:
            own = [values[name] for name in FAMILIES[family] if name in values]
            total = sum(map(len, own))
            even = np.concatenate([each * (total / (len(own) * len(each))) for each in own])
            found |= {f"{metric.name} {family}": even[:, place] for place, metric in enumerate(METRICS)}
        return found | {f"mrr {name}": each[:, 0] for name, each in values.items()}

    @property
    def unsettled(self) -> dict[str, float]:
        """The answers whose rank is only known to lie between two, and by how much MRR could be higher for them."""
        more = {
            name: float((each.by_query(self.ties, best=True) - each.by_query(self.ties))[:, 0].mean())
            for name, each in self.answers.items()
        }
        return {"answers": sum(each.unsettled for each in self.answers.values()), "mrr": max(more.values(), default=0)}

    def to_dict(self) -> dict[str, Any]:
        """Everything but the ranks of single answers."""
        means = {f"mean {family}".replace(" ", "_"): self.means.get(family) for family in FAMILIES}
        said = {name: each.to_dict() for name, each in self.reliability.items()}
        return {
            "task": "queries",
            "queries_of": self.name,
            "split": self.split,
            "ties": self.ties,
            "candidates": self.candidates,
            "queries": sum(report.all.queries for report in self.types.values()),
            "answers": sum(report.all.answers for report in self.types.values()),
            "excluded": self.excluded,
            "unsettled": self.unsettled,
            "types": {name: report.to_dict() for name, report in self.types.items()},
            **{name: report and report.to_dict() for name, report in means.items()},
            **({"reliability": said} if said else {}),
            **self.timing.to_dict(),
        }

    def tables(self) -> list[Table]:
        """Every type and the means, then MRR by the number of facts that the easiest proof lacks, and reliability."""
        named = {**self.types, **{f"mean {family}": report for family, report in self.means.items()}}
        rows = tuple((name, *self._row(report.all)) for name, report in named.items())
        title = f"Queries of {self.name}, {self.split}, ties {self.ties}"
        if unsettled := int(self.unsettled["answers"]):
            title += f"; {counted(unsettled, 'answer')} too costly to settle, with the worst rank possible"
        header = ("type", "MRR", "95 %", *(metric.title for metric in METRICS[1:]), "queries", "answers")
        numbers = sorted({number for report in self.types.values() for number in report.lacking})
        by_lacking = tuple((name, *_lacking_cells(report, numbers)) for name, report in named.items())
        lacking = tuple(cell for number in numbers for cell in (f"lacks {number}", "answers"))
        return [
            Table(title, header, rows, self.digits),
            Table("MRR by the facts that the easiest proof lacks", ("type", *lacking), by_lacking, self.digits),
            *([reliability_table(self.reliability)] if self.reliability else []),
        ]

    def _row(self, figures: Figures) -> tuple[float | str | int | None, ...]:
        first, *others = figures.means.values()
        interval = spell_interval(figures.intervals["mrr"], self.digits)
        return (first, interval, *others, figures.queries, figures.answers)


def reliability_table(measured: Mapping[str, Measured]) -> Table:
    """What was said of the ten best predicted answers by type, and what is true."""
    rows = []
    for name, (bins, brier) in measured.items():
        said, true = (float(np.average(values, weights=bins.size)) for values in (bins.said, bins.true))
        rows.append((name, said, true, bins.error, brier, int(bins.size.sum())))
    header = ("type", "said", "true", "ECE", "Brier", "answers")
    return Table("Probabilities of the ten best predicted answers", header, tuple(rows), 3)


def _lacking_cells(report: TypeReport, numbers: Sequence[int]) -> Iterator[float | int | None]:
    for number in numbers:
        figures = report.lacking.get(number)
        yield None if figures is None else figures.means["mrr"]
        yield None if figures is None else figures.answers


class Graphs(NamedTuple):
    """The facts that may be read, those whose answers are easy, and those whose answers are easy or hard."""

    known: KnowledgeGraph
    easy: KnowledgeGraph
    truth: KnowledgeGraph


class Ranker(Protocol):
    """What ranks the hard answers of queries: by values within bounds (`BoundedRanker`), or on a GPU."""

    def rank(self, type_: str, ids: Ids, progress: Callable[[int], None]) -> RankedAnswers:
        """The hard answers of a type's queries, ids [N, slots]; `progress` hears how many have been ranked."""


def evaluate_queries(
    ranker: Ranker,
    queries: QuerySet,
    *,
    ties: TieRule = "half",
    candidates: str = "all",
    seed: int = 0,
    progress: Callable[[int], None] | None = None,
) -> QueryReport:
    """Rank the hard answers of every query; `progress` hears how many queries have been ranked."""
    if not len(queries):
        raise EvaluationError(f"{queries.name} has no queries; name a set that has some.")
    start = time.perf_counter()
    answers = {name: ranker.rank(name, ids, progress or (lambda ranked: None)) for name, ids in queries.ids.items()}
    with_answers = {name: each for name, each in answers.items() if len(each.query)}
    if not with_answers:
        raise EvaluationError(f"no query of {queries.name} has a hard answer; are its queries those of this data?")
    types = {name: _type_report(name, each, ties, seed) for name, each in with_answers.items()}
    evaluated = sum(report.all.queries for report in types.values())
    means = {
        family: _mean_report([types[name] for name in names if name in types])
        for family, names in FAMILIES.items()
        if any(name in types for name in names)
    }
    timing = Timing(len(queries), time.perf_counter() - start)
    excluded = len(queries) - evaluated
    return QueryReport(queries.name, queries.split, ties, candidates, excluded, types, means, timing, with_answers)


@final
class BoundedRanker:
    """Ranks hard answers by what `values` says of every entity, at least and at most.

    `memory` caps the bytes the process holds, `bytes_per_query` of which one query takes in `values` and `bytes_ahead`
    what it will keep; they change no rank.
    """

    def __init__(
        self,
        values: Values,
        graphs: Graphs,
        *,
        memory: int | None = None,
        bytes_per_query: int = 0,
        bytes_ahead: int = 0,
    ) -> None:
        self._values = values
        self._graphs = graphs
        self._missing = MissingFacts(graphs.known, graphs.truth)
        self._together = _TOGETHER
        if memory is not None:
            held = resident_bytes() + bytes_ahead
            self._together = rows_within(memory, _TOGETHER, max(1, bytes_per_query), held)

    def rank(self, type_: str, ids: Ids, progress: Callable[[int], None]) -> RankedAnswers:
        """The hard answers of a type's queries, as many of which are asked together as memory allows."""
        graphs, steps = self._graphs, steps_of_type(type_)
        # Queries that end with the same relations are asked together: they look at the same rows.
        order = np.lexsort([ids[:, step.slot] for step in steps if isinstance(step, Follow)])
        worst: list[Ranks] = []
        best: list[Ranks] = []
        rows: list[NDArray[np.int64]] = []
        lacking: list[NDArray[np.int16]] = []
        for easy, hard in easy_and_hard(graphs.easy, graphs.truth, type_, ids[order], self._together):
            part = order[hard.first : hard.first + len(hard)]
            sought = [hard[row] for row in range(len(hard))]
            for row, (low, high) in enumerate(self._values(steps, ids[part], sought)):
                if len(sought[row]):
                    by_worst, by_best = rank_answers(low, high, sought[row], easy[row])
                    worst.append(by_worst)
                    best.append(by_best)
                    rows.append(np.full(len(sought[row]), part[row]))
                    lacking.append(self._missing.least(Plan(steps, tuple(ids[part[row]].tolist())))[sought[row]])
            progress(len(hard))
        none = np.zeros(0, dtype=np.int64)
        missing = np.concatenate([none.astype(np.int16), *lacking])
        ranked = RankedAnswers(_joined(worst), _joined(best), np.concatenate([none, *rows]), missing)
        return ranked.take(np.argsort(ranked.query, kind="stable"))


def _joined(ranks: Sequence[Ranks]) -> Ranks:
    none = np.zeros(0, dtype=np.int64)
    return Ranks(
        *(np.concatenate([none, *(getattr(each, name) for each in ranks)]) for name in ("better", "tied", "negatives"))
    )


def rank_answers(low: Floats, high: Floats, hard: Ids, easy: Ids) -> tuple[Ranks, Ranks]:
    """The places of hard answers among all that are no answers: the worst and the best that bounds [E] allow."""
    rival = np.ones(len(low), dtype=bool)
    rival[hard] = rival[easy] = False
    worst = _places(low[hard], high[rival])
    return worst, worst if high is low else _places(high[hard], low[rival])


def _places(own: Floats, rivals: Floats) -> Ranks:
    ascending = np.sort(rivals)
    reached = np.searchsorted(ascending, own, side="left")
    passed = np.searchsorted(ascending, own, side="right")
    return Ranks(len(rivals) - passed, passed - reached, np.full(len(own), len(rivals)))


def _type_report(type_: str, answers: RankedAnswers, ties: TieRule, seed: int) -> TypeReport:
    # The draws of one type tell nothing of another's.
    draws = [seed, list(QUERY_TYPES).index(type_)]
    lacking = {
        number: answers.take(answers.lacking == number).figures(ties, draws)
        for number in np.unique(answers.lacking).tolist()
    }
    return TypeReport(answers.figures(ties, draws), lacking)


def _mean_report(types: Sequence[TypeReport]) -> TypeReport:
    """The mean over types; by facts that are lacking, over the types that have such answers."""
    numbers = sorted({number for report in types for number in report.lacking})
    lacking = {number: [each.lacking[number] for each in types if number in each.lacking] for number in numbers}
    return TypeReport(_mean([each.all for each in types]), {number: _mean(each) for number, each in lacking.items()})


def _mean(figures: Sequence[Figures]) -> Figures:
    means = {name: float(np.mean([each.means[name] for each in figures])) for name in figures[0].means}
    resampled = np.mean([each.resampled for each in figures], axis=0)
    return Figures(means, sum(each.queries for each in figures), sum(each.answers for each in figures), resampled)
