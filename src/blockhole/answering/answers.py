"""What a query gives back: answers in order, each known or predicted, as plain objects, frames and JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, final

from blockhole.errors import MissingExtra
from blockhole.files.tables import Listed

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

Status = Literal["known", "predicted"]
"""known: the path leads there over facts of the graph; predicted: only the model says so."""


@final
@dataclass(frozen=True, slots=True)
class Answer:
    """One entity as an answer; `score` orders answers: the probability, or where a run has none, the share."""

    entity: str
    score: float
    probability: float | None
    status: Status


@final
@dataclass(frozen=True, slots=True)
class Answers(Listed[Answer]):
    """Answers to `query`: known ones, of which there are `known_count` in all, and then predicted ones; best first.

    Where the query has a `negation`, known answers are those that no known fact refutes, each with the probability that
    no missing one does.
    """

    _rows: ClassVar = "ranked"
    query: str
    ranked: tuple[Answer, ...]
    known_count: int
    negation: bool = False

    def to_dicts(self) -> list[dict[str, str | float | None]]:
        """One dictionary an answer: entity, score, probability, status."""
        return [asdict(answer) for answer in self.ranked]

    def to_polars(self) -> pl.DataFrame:
        """One row an answer, best first: columns query, rank, entity, score, probability, status."""
        return answers_frame([self])

    def to_pandas(self) -> pd.DataFrame:
        """The same rows and columns as `to_polars`."""
        try:
            import pandas as pd
        except ImportError:
            raise MissingExtra("a pandas frame", "frames") from None

        frame = pd.DataFrame(self.to_polars().to_dict(as_series=False))
        return frame.astype({"rank": "int32", "score": "float64", "probability": "float64"})


@final
@dataclass(frozen=True, slots=True)
class Spread:
    """How probable the predicted answers to a query are: `counts` has how many there are in each hundredth, from 0 on.

    All that are as probable as `least` are counted; that is 0 where every candidate was looked at.
    """

    query: str
    counts: tuple[int, ...]
    least: float


def answers_frame(many: Sequence[Answers]) -> pl.DataFrame:
    """The answers of many queries as one frame, in order: columns query, rank, entity, score, probability, status."""
    import polars as pl

    rows = [(answers.query, rank, answer) for answers in many for rank, answer in enumerate(answers, start=1)]
    return pl.DataFrame(
        {
            "query": [query for query, _, _ in rows],
            "rank": [rank for _, rank, _ in rows],
            "entity": [answer.entity for _, _, answer in rows],
            "score": [answer.score for _, _, answer in rows],
            "probability": [answer.probability for _, _, answer in rows],
            "status": [answer.status for _, _, answer in rows],
        },
        schema={
            "query": pl.String,
            "rank": pl.Int32,
            "entity": pl.String,
            "score": pl.Float64,
            "probability": pl.Float64,
            "status": pl.String,
        },
    )


@final
@dataclass(frozen=True, slots=True)
class AnswersReport:
    """The answers to a query, and how long they took to find: what --json prints and the server sends.

    First the known ones, then the predicted ones, each best first; `known_count` is how many known answers there are in
    all, `predicted_count` how many predicted ones are listed. `negation` says what it is over, where there is one.
    """

    query: str
    answers: tuple[Answer, ...]
    known_count: int
    predicted_count: int
    negation: Literal["over known facts"] | None
    milliseconds: float

    @classmethod
    def of(cls, answers: Answers, seconds: float) -> AnswersReport:
        """The report of answers that took so long."""
        predicted = sum(answer.status == "predicted" for answer in answers.ranked)
        negation: Literal["over known facts"] | None = "over known facts" if answers.negation else None
        return cls(answers.query, answers.ranked, answers.known_count, predicted, negation, round(1000 * seconds, 3))
