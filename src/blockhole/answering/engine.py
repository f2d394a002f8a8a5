"""Names in, ranked answers out."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from shlex import quote
from typing import Literal, NamedTuple, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from blockhole.answering.answers import Answer, Answers, Status
from blockhole.answering.batch import find_answers
from blockhole.answering.calibration import Calibration, load_calibration
from blockhole.answering.index import ApproximateIndex, ExactIndex, LoadedIndex, load_index
from blockhole.answering.known import KnownFacts
from blockhole.answering.vectors import Vectors, norms
from blockhole.errors import BlockholeWarning, ConfigError, QueryError, RunError, UnknownName
from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.queries.language import PathQuery, encode, parse
from blockhole.queries.paths import PathQueries
from blockhole.runs.run import Run

Candidates = Literal["typed", "all"]
"""Which entities can be answers: those that the last relation takes in the graph, or every one."""

_MANY = 50_000
"""Candidates that an approximate index is worth its errors for; fewer are searched exactly in a few milliseconds."""
_SCORES = 2**22
"""Scores of a product that questions share, at most."""
_SHARED = 20
"""Rows of a shared product that cost as much as gathering one row and multiplying with it."""
_SCORED_AT_ONCE = 4096
"""Pairs whose vectors are in memory together: those of 20,000 pairs, with every step of their walks, took 240 MB."""
MAX_HOPS = 64
"""Longer queries are refused: they are mistakes, and say nothing that numbers of this precision could tell."""


@final
@dataclass(frozen=True, slots=True)
class Question:
    """A query and what is wanted of its answers, as `Engine.ask` takes it."""

    query: str | PathQuery
    top: int = 10
    candidates: Candidates = "typed"
    only: Status | None = None


class _Posed(NamedTuple):
    """A question in ids: `known` answers, entities that may be answers (None: all), and the query vector [1, width]."""

    query: str
    length: int
    top: int
    known: NDArray[np.int32]
    allowed: NDArray[np.int32] | None
    vector: Tensor


@final
@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a path holds between two entities: it is known to, or its probability is at least one half."""

    holds: bool
    probability: float
    score: float
    status: Status


@final
class Engine:
    """A trained model and the facts it knows, ready for questions; open it once and ask often.

    `graph` holds the facts that make an answer known, by default those the run was trained on; another graph over the
    same names may be given, such as one with newer facts. Without a `calibration` there are no probabilities. An
    approximate index in `loaded` shortlists single queries over many candidates; all else is searched exactly.
    """

    def __init__(
        self,
        vectors: Vectors,
        graph: KnowledgeGraph,
        calibration: Calibration | None = None,
        loaded: LoadedIndex | None = None,
    ) -> None:
        if vectors.num_entities != graph.num_entities:
            raise ValueError(f"{vectors.num_entities} vectors do not fit {graph.num_entities} entities")
        self.vectors = vectors
        self.graph = graph
        self.calibration = calibration
        self.known = KnownFacts(graph)
        self.index = (loaded and loaded.exact) or ExactIndex(vectors.all_candidates())
        self.approximate = loaded.approximate if loaded else None

    @classmethod
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

        A run that has none is warned about, or refused where it has to be `calibrated`. Vectors are views of the run's
        files, or copies of their own `in_memory`, which outlive files that are overwritten.
        """
        if not isinstance(run, Run):
            run = Run.open(run)
        if calibration is None and run.folder is not None:
            calibration = load_calibration(run.folder)
            if calibration is None and calibrated:
                raise RunError(not_calibrated(run.folder) + ".")
            if calibration is None:
                message = not_calibrated(run.folder) + ", or answers will have no probabilities."
                warnings.warn(message, BlockholeWarning, stacklevel=2)
        loaded = load_index(run.folder) if run.folder is not None else None
        vectors = Vectors.of(run)
        if in_memory:
            vectors, loaded = vectors.copied(), loaded and loaded.copied()
        return cls(vectors, run.graph if graph is None else graph, calibration, loaded)

    def ask(
        self,
        query: str | PathQuery,
        *,
        top: int = 10,
        candidates: Candidates = "typed",
        only: Status | None = None,
    ) -> Answers:
        """The `top` best answers to a query; `only` keeps those that are known, or those that are predicted."""
        return self._answer(self._pose(Question(query, top, candidates, only)))

    def ask_together(self, questions: Sequence[Question]) -> list[Answers]:
        """What `ask` gives for each question, which may all differ: one product with all entities serves them.

        It is for the few questions that arrive at about the same time. `ask_many` is faster for thousands of queries
        of one kind, which it sorts by their candidates.
        """
        posed = [self._pose(question) for question in questions]
        wide = [i for i, each in enumerate(posed) if self._reads_all_rows(each)]
        size = max(1, _SCORES // max(self.graph.num_entities, 1))
        answers: dict[int, Answers] = {}
        for first in range(0, len(wide), size):
            block = wide[first : first + size]
            rough = torch.cat([posed[i].vector for i in block]).float() @ self.index.vectors.T
            answers |= {i: self._answer(posed[i], rough[row]) for row, i in enumerate(block)}
        return [answers[i] if i in answers else self._answer(each) for i, each in enumerate(posed)]

    def ask_many(
        self,
        queries: Iterable[str | PathQuery],
        *,
        top: int = 10,
        candidates: Candidates = "typed",
        only: Status | None = None,
    ) -> list[Answers]:
        """What `ask` gives for each query, in order, found for all of them together."""
        check_top(top)
        encoded = [self.encode(query) for query in queries]
        found = find_answers(self, _as_arrays([(source, path) for _, source, path in encoded]), top, candidates, only)
        length = np.array([len(path) for _, _, path in encoded], dtype=np.int64)[found.row]
        named = self._name(found.entity, found.score, found.evidence, found.known, length)
        starts = found.starts(len(encoded)).tolist()
        return [
            Answers(str(parsed), named[first:last])
            for (parsed, _, _), (first, last) in zip(encoded, pairwise(starts), strict=True)
        ]

    def check(self, query: str | PathQuery, entity: str) -> Verdict:
        """Whether the path leads from its source to `entity`."""
        _, source, path = self.encode(query)
        target = self.graph.entities.id(entity)
        known = bool(np.isin(target, self.known.answers(source, path)))
        vector = self.vectors.query(source, path)
        score = float((vector * self.vectors.candidates(np.array([target]))).sum())
        probability = 1.0 if known else float(self.probability(score / norms(vector), len(path))[0])
        return Verdict(probability >= 0.5, probability, score, "known" if known else "predicted")

    def encode(self, query: str | PathQuery) -> tuple[PathQuery, int, list[int]]:
        """A query as names, as the id of its source, and as relation ids in the space of 2R."""
        parsed = parse(query) if isinstance(query, str) else query
        check_hops(parsed)
        graph = self.graph
        try:
            source = graph.entities.id(parsed.source)
            return parsed, source, [graph.relation_id(hop.relation, hop.inverse) for hop in parsed.hops]
        except UnknownName:
            encode(query, graph)  # says the same and points at the name
            raise

    def query_vector(self, query: str | PathQuery) -> NDArray[np.float32]:
        """The vector whose inner products with exported vectors are the scores; shape [width]."""
        _, source, path = self.encode(query)
        vector: NDArray[np.float32] = self.vectors.query(source, path)[0].float().numpy()
        return vector

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

    def probability(self, evidence: NDArray[np.float64], length: int) -> NDArray[np.float64]:
        """The probabilities of predicted answers to a query of `length` hops; shape [N] → [N]."""
        if self.calibration is None:
            raise RunError("the run has no calibration, so scores cannot become probabilities; " + _REMEDY)
        return self.calibration.probability(evidence, length)

    def _pose(self, question: Question) -> _Posed:
        check_top(question.top)
        parsed, source, path = self.encode(question.query)
        known = self.known.answers(source, path)
        allowed = self._allowed(path[-1], known, question.candidates, question.only)
        vector = self.vectors.query(source, path)
        return _Posed(str(parsed), len(path), min(question.top, self.graph.num_entities), known, allowed, vector)

    def _answer(self, posed: _Posed, rough: Tensor | None = None) -> Answers:
        """The answers to a question; `rough` are its float32 scores of all entities [E], where they are at hand."""
        vector = posed.vector
        if rough is None:
            entities = self._index_for(posed.allowed).shortlist(vector[0], posed.top, posed.allowed)
        else:
            entities = self.index.shortlist_of(rough, vector[0], posed.top, posed.allowed)
        scores = (vector * self.vectors.candidates(entities)).sum(dim=1).numpy()
        best = np.lexsort((entities, -scores))[: posed.top]
        is_known = np.isin(entities[best], posed.known)
        evidence = scores[best] / norms(vector)
        length = np.full(len(best), posed.length)
        return Answers(posed.query, self._name(entities[best], scores[best], evidence, is_known, length))

    def _reads_all_rows(self, posed: _Posed) -> bool:
        """Whether a product with all entities, shared with other questions, beats gathering this one's candidates."""
        if self._index_for(posed.allowed) is not self.index:
            return False
        return posed.allowed is None or _SHARED * len(posed.allowed) > self.graph.num_entities

    def _allowed(
        self, last: int, known: NDArray[np.int32], candidates: Candidates, only: Status | None
    ) -> NDArray[np.int32] | None:
        """The entities that may be answers; None for all."""
        if only == "known":
            return known
        if candidates == "all" and only is None:
            return None
        allowed = (
            self.known.candidates(last) if candidates == "typed" else np.arange(self.graph.num_entities, dtype=np.int32)
        )
        return allowed if only is None else np.setdiff1d(allowed, known, assume_unique=True)

    def _index_for(self, allowed: NDArray[np.int32] | None) -> ExactIndex | ApproximateIndex:
        many = allowed is None or len(allowed) > _MANY
        return self.approximate if self.approximate is not None and many else self.index

    def _name(
        self,
        entities: NDArray[np.integer],
        scores: NDArray[np.float64],
        evidence: NDArray[np.float64],
        known: NDArray[np.bool_],
        length: NDArray[np.int64],
    ) -> tuple[Answer, ...]:
        """Answers of these ids, in order; shapes [N]."""
        probability: list[float] | list[None] = [None] * len(entities)
        if self.calibration is not None:
            certain = known.astype(np.float64)  # what follows from the facts needs no model to be believed
            for k in np.unique(length).tolist():
                rows = ~known & (length == k)
                certain[rows] = self.calibration.probability(evidence[rows], k)
            probability = certain.tolist()
        return tuple(
            Answer(self.graph.entities[entity], score, p, "known" if is_known else "predicted")
            for entity, score, p, is_known in zip(
                entities.tolist(), scores.tolist(), probability, known.tolist(), strict=True
            )
        )


def ask(
    run: Engine | Run | Path | str,
    query: str | PathQuery,
    *,
    top: int = 10,
    candidates: Candidates = "typed",
    only: Status | None = None,
) -> Answers:
    """The best answers to a path query, such as ask("runs/family", "William/^fatherOf/brotherOf/fatherOf").

    Answers are ordered by score. `candidates` are the entities that the last relation takes in the graph ("typed"), or
    all; `only` keeps the known or the predicted ones. Open an `Engine` to ask more than once.
    """
    return open_engine(run).ask(query, top=top, candidates=candidates, only=only)


def check(run: Engine | Run | Path | str, query: str | PathQuery, entity: str) -> Verdict:
    """Whether the path leads from its source to `entity`, as check("runs/family", "William/^fatherOf", "Charles").

    The run must be calibrated: a verdict on what the graph does not know is a probability.
    """
    return open_engine(run, calibrated=True).check(query, entity)


def open_engine(run: Engine | Run | Path | str, *, calibrated: bool = False) -> Engine:
    """The engine itself, or that of a run or of the run in a folder, which may have to be `calibrated`."""
    return run if isinstance(run, Engine) else Engine.open(run, calibrated=calibrated)


def check_hops(query: PathQuery) -> None:
    """Refuse a query that is too long to mean anything."""
    if len(query.hops) > MAX_HOPS:
        raise QueryError(f"the query has {len(query.hops):,} hops; a query may have {MAX_HOPS} at most.")


def check_top(top: int) -> None:
    """Refuse a number of answers that is no number of answers."""
    if top < 1:
        raise ConfigError(f"top is the number of answers, at least 1; it cannot be {top}.")


_REMEDY = "make it with: blockhole calibrate RUN"


def not_calibrated(folder: Path | str) -> str:
    """That a run has no calibration, and what to do."""
    return (
        f"{folder} has no calibration for its weights, which turns scores into probabilities; "
        f"make it with `blockhole calibrate {quote(str(folder))}`"
    )


def _as_arrays(queries: list[tuple[int, list[int]]]) -> PathQueries:
    """Queries of any lengths as arrays; their targets are zero and mean nothing."""
    path = np.zeros((len(queries), max((len(path) for _, path in queries), default=1)), dtype=np.int32)
    for row, (_, relations) in enumerate(queries):
        path[row, : len(relations)] = relations
    return PathQueries(
        source=np.array([source for source, _ in queries], dtype=np.int32),
        path=path,
        length=np.array([len(relations) for _, relations in queries], dtype=np.int32),
        target=np.zeros(len(queries), dtype=np.int32),
    )
