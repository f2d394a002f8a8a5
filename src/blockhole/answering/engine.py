"""Names in, ranked answers out: `ask`, `check`, and the `Engine` behind them."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from shlex import quote
from typing import Literal, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from blockhole.answering.answers import Answer, Answers, Status
from blockhole.answering.calibration import Calibration, load_calibration
from blockhole.answering.index import ExactIndex, LoadedIndex, load_index
from blockhole.answering.known import KnownFacts
from blockhole.answering.search import Found, find_answers
from blockhole.answering.vectors import Vectors, norms
from blockhole.errors import (
    BlockholeWarning,
    ConfigError,
    Count,
    DamagedRun,
    MissingExtra,
    QueryError,
    RunError,
    check_argument,
    checked,
    counted,
)
from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.queries.language import Query, encode_chain, encode_entity, find_chain, parse
from blockhole.queries.paths import PathQueries
from blockhole.runs.run import Run

Candidates = Literal["typed", "all"]
"""Which entities can be answers: those that the last relation takes in the graph, or every one."""

_SCORED_AT_ONCE = 4096
"""Pairs whose vectors are in memory together: those of 20,000 pairs, with every step of their walks, took 240 MB."""


class Encoded(NamedTuple):
    """A query whose names have been looked up: the id of its source, and relation ids in the space of 2R."""

    query: Query
    source: int
    path: list[int]


@final
@dataclass(frozen=True, slots=True)
class Question:
    """A query and what is wanted of its answers, as `Engine.ask` takes it."""

    query: str | Query | Encoded
    top: Count = 10
    candidates: Candidates = "typed"
    only: Status | None = None


@final
@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a path holds between two entities: it is known to, or its probability is at least one half."""

    holds: bool
    probability: float
    score: float
    status: Status


@checked
def ask(
    run: Engine | Run | Path | str,
    query: str | Query,
    *,
    top: Count = 10,
    candidates: Candidates = "typed",
    only: Status | None = None,
) -> Answers:
    """The best answers to a path query, such as ask("runs/family", "William/^fatherOf/brotherOf/fatherOf").

    Answers are ordered by score. `candidates` are the entities that the last relation takes in the graph ("typed"), or
    all; `only` keeps the known or the predicted ones. Open an `Engine` to ask more than once.
    """
    return open_engine(run).ask(query, top=top, candidates=candidates, only=only)


@checked
def check(run: Engine | Run | Path | str, query: str | Query, entity: str) -> Verdict:
    """Whether the path leads from its source to `entity`, as check("runs/family", "William/^fatherOf", "Charles").

    The run must be calibrated: a verdict on what the graph does not know is a probability.
    """
    return open_engine(run, calibrated=True).check(query, entity)


def open_engine(run: Engine | Run | Path | str, *, calibrated: bool = False) -> Engine:
    """The engine itself, or that of a run or of the run in a folder, which may have to be `calibrated`."""
    return run if isinstance(run, Engine) else Engine.open(run, calibrated=calibrated)


@final
class Engine:
    """A trained model and the facts it knows, ready for questions; open it once and ask often.

    `graph` holds the facts that make an answer known, by default those the run was trained on; another graph over the
    same names may be given, such as one with newer facts. Without a `calibration` there are no probabilities. An
    approximate index in `loaded` shortlists queries over many candidates; all else is searched exactly.
    """

    @checked
    def __init__(
        self,
        vectors: Vectors,
        graph: KnowledgeGraph,
        calibration: Calibration | None = None,
        loaded: LoadedIndex | None = None,
    ) -> None:
        if vectors.num_entities != graph.num_entities:
            entities = counted(graph.num_entities, "entity", "entities")
            raise ConfigError(f"the graph has {entities}, but there are vectors of {vectors.num_entities:,}.")
        self.vectors = vectors
        self.graph = graph
        self.calibration = calibration
        self.known = KnownFacts(graph)
        self.index = (loaded and loaded.exact) or ExactIndex(vectors.all_candidates())
        self.approximate = loaded.approximate if loaded else None

    @classmethod
    @checked
    def open(
        cls,
        run: Run | Path | str,
        *,
        graph: KnowledgeGraph | None = None,
        calibration: Calibration | None = None,
        calibrated: bool = False,
        in_memory: bool = False,
    ) -> Engine:
        """The engine of a run, or of the run in a folder, with the calibration kept there unless another is given.

        A run that has none is warned about, or refused where it has to be `calibrated`; one whose index cannot be used
        is warned about and searched without it. Vectors are views of the run's files, or copies of their own
        `in_memory`, which outlive files that are overwritten.
        """
        if not isinstance(run, Run):
            run = Run.open(run)
        vectors, loaded = Vectors.of(run), None
        if run.folder is not None:
            try:
                loaded = load_index(run.folder, vectors)
            except (RunError, MissingExtra) as failure:
                warnings.warn(f"answers are searched for without the index: {failure}", BlockholeWarning, stacklevel=3)
            if calibration is None:
                calibration, lacking = _kept_calibration(run.folder)
                if calibration is None and calibrated:
                    raise RunError(lacking + ".")
                if calibration is None:
                    message = f"{lacking}, or answers will have no probabilities."
                    warnings.warn(message, BlockholeWarning, stacklevel=3)
        if in_memory:
            vectors, loaded = vectors.copied(), loaded and loaded.copied()
        return cls(vectors, run.graph if graph is None else graph, calibration, loaded)

    @checked
    def ask(
        self,
        query: str | Query | Encoded,
        *,
        top: Count = 10,
        candidates: Candidates = "typed",
        only: Status | None = None,
    ) -> Answers:
        """The `top` best answers to a query; `only` keeps those that are known, or those that are predicted."""
        return self.ask_together([Question(query, top, candidates, only)])[0]

    @checked
    def ask_many(
        self,
        queries: Iterable[str | Query | Encoded],
        *,
        top: Count = 10,
        candidates: Candidates = "typed",
        only: Status | None = None,
    ) -> list[Answers]:
        """What `ask` gives for each query, in order, found for all of them together."""
        return self.ask_together([Question(query, top, candidates, only) for query in queries])

    @checked
    def ask_together(self, questions: Sequence[Question]) -> list[Answers]:
        """The answers to any number of questions, which may all differ, in order.

        An answer, its score and its probability are the same bit for bit whatever else is asked together with it;
        questions that share their candidates share the work.
        """
        for question in questions:
            check_top(question.top)
        encoded = [self.encode(question.query) for question in questions]
        alike: dict[tuple[Candidates, Status | None], list[int]] = {}
        for i, question in enumerate(questions):
            alike.setdefault((question.candidates, question.only), []).append(i)
        answers: dict[int, Answers] = {}
        for (candidates, only), members in alike.items():
            queries = PathQueries.of_paths([encoded[i].source for i in members], [encoded[i].path for i in members])
            top = np.array([questions[i].top for i in members], dtype=np.int64)
            found = find_answers(self, queries, top, candidates, only)
            named = self._name(found, queries.length[found.row])
            for i, (first, last) in zip(members, pairwise(found.starts(len(members)).tolist()), strict=True):
                answers[i] = Answers(str(encoded[i].query), named[first:last])
        return [answers[i] for i in range(len(questions))]

    @checked
    def check(self, query: str | Query, entity: str) -> Verdict:
        """Whether the path leads from its source to `entity`."""
        _, source, path = self.encode(query)
        target = encode_entity(entity, self.graph.entities)
        known = bool(np.isin(target, self.known.answers(source, path)))
        vector = self.vectors.query(source, path)
        score = float((vector * self.vectors.candidates(np.array([target]))).sum())
        probability = 1.0 if known else float(self.probability(score / norms(vector), len(path))[0])
        return Verdict(probability >= 0.5, probability, score, "known" if known else "predicted")

    @checked
    def encode(self, query: str | Query | Encoded) -> Encoded:
        """A query with its names looked up, once."""
        if isinstance(query, Encoded):
            return query
        parsed = parse(query) if isinstance(query, str) else query
        check_ranked(parsed)
        return Encoded(parsed, *encode_chain(parsed, self.graph))

    @checked
    def encode_known(self, query: Query) -> Encoded | None:
        """The same without delay: None where `encode` would look for names like one that is unknown, or refuse."""
        found = find_chain(query, self.graph) if query.is_chain else None
        return found and Encoded(query, *found)

    @checked
    def query_vector(self, query: str | Query) -> NDArray[np.float32]:
        """The vector whose inner products with exported vectors are the scores; shape [width]."""
        _, source, path = self.encode(query)
        vector: NDArray[np.float32] = self.vectors.query(source, path)[0].float().numpy()
        return vector

    @checked
    def scores(self, queries: PathQueries) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """φ(s, p, o) of each query and its target, and the evidence for it; shapes [N], [N]."""
        scores, evidence = np.zeros(len(queries)), np.zeros(len(queries))
        for first in range(0, len(queries), _SCORED_AT_ONCE):
            rows = slice(first, first + _SCORED_AT_ONCE)
            block = queries.take(rows)
            vector = self.vectors.queries(block)
            scores[rows] = (vector * self.vectors.candidates(block.target)).sum(dim=1).numpy()
            evidence[rows] = scores[rows] / norms(vector)
        return scores, evidence

    @checked
    def probability(self, evidence: NDArray[np.float64], length: int) -> NDArray[np.float64]:
        """The probabilities of predicted answers to a query of `length` hops; shape [N] → [N]."""
        if self.calibration is None:
            raise RunError("the run has no calibration, so scores cannot become probabilities; " + _REMEDY)
        return self.calibration.probability(evidence, length)

    def _name(self, found: Found, length: NDArray[np.int32]) -> tuple[Answer, ...]:
        """The answers that were found to queries of these lengths [S], in order."""
        probability: list[float] | list[None] = [None] * len(found.row)
        if self.calibration is not None:
            certain = found.known.astype(np.float64)  # what follows from the facts needs no model to be believed
            for k in set(length.tolist()):
                rows = ~found.known & (length == k)
                certain[rows] = self.calibration.probability(found.evidence[rows], k)
            probability = certain.tolist()
        return tuple(
            Answer(self.graph.entities[entity], score, p, "known" if is_known else "predicted")
            for entity, score, p, is_known in zip(
                found.entity.tolist(), found.score.tolist(), probability, found.known.tolist(), strict=True
            )
        )


# What is refused


def check_ranked(query: Query) -> None:
    """Refuse a query whose answers no model ranks yet."""
    if not query.is_chain:
        raise QueryError(
            f"{query} has &, | or !, and only the answers to paths are ranked so far; "
            "`blockhole answers DATA QUERY` gives the known ones."
        )


def check_top(top: int) -> None:
    """Refuse a number of answers that is not one."""
    check_argument("top", top, Count)


_REMEDY = "make it with: blockhole calibrate RUN"


def _kept_calibration(folder: Path) -> tuple[Calibration | None, str]:
    """The calibration in a run's folder, and what to say where there is none that can be used."""
    try:
        return load_calibration(folder), not_calibrated(folder)
    except DamagedRun as failure:
        return None, str(failure)


def not_calibrated(folder: Path | str) -> str:
    """That a run has no calibration, and what to do."""
    return (
        f"{folder} has no calibration for its weights, which turns scores into probabilities; "
        f"make it with `blockhole calibrate {quote(str(folder))}`"
    )
