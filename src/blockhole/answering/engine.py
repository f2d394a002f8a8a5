"""Names in, ranked answers out."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from blockhole.answering.answers import Answer, Answers, Status
from blockhole.answering.exact import ExactIndex
from blockhole.answering.known import KnownFacts
from blockhole.answering.vectors import Vectors
from blockhole.errors import ConfigError, QueryError, RunError
from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.paths.language import PathQuery, encode, parse
from blockhole.training.run import Run

Candidates = Literal["typed", "all"]
"""Which entities can be answers: those that the last relation takes in the graph, or every one."""

MAX_HOPS = 64
"""Longer queries are refused: they are mistakes, and say nothing that numbers of this precision could tell."""


@final
class Engine:
    """A trained model and the facts it knows, ready for questions; open it once and ask often.

    `graph` holds the facts that make an answer known, by default those the run was trained on; another graph over the
    same names may be given, such as one with newer facts.
    """

    def __init__(self, vectors: Vectors, graph: KnowledgeGraph) -> None:
        if vectors.num_entities != graph.num_entities:
            raise ValueError(f"{vectors.num_entities} vectors do not fit {graph.num_entities} entities")
        self.vectors = vectors
        self.graph = graph
        self.known = KnownFacts(graph)
        self.index = ExactIndex(vectors.all_candidates())

    @classmethod
    def open(cls, run: Run | Path | str, *, graph: KnowledgeGraph | None = None) -> Engine:
        """The engine of a run, or of the run in a folder."""
        if not isinstance(run, Run):
            run = Run.open(run)
        return cls(Vectors.of(run), graph or _graph_of(run))

    def ask(
        self,
        query: str | PathQuery,
        *,
        top: int = 10,
        candidates: Candidates = "typed",
        only: Status | None = None,
    ) -> Answers:
        """The `top` best answers to a query; `only` keeps those that are known, or those that are predicted."""
        check_top(top)
        parsed, source, path = self.encode(query)
        known = self.known.answers(source, path)
        allowed = self._allowed(path[-1], known, candidates, only)
        vector = self._query_vector(source, path)
        entities = self.index.shortlist(vector[0], min(top, self.graph.num_entities), allowed)
        scores = self._scores(vector, entities)
        best = np.lexsort((entities, -scores))[:top]
        return Answers(str(parsed), self._name(entities[best], scores[best], np.isin(entities[best], known)))

    def encode(self, query: str | PathQuery) -> tuple[PathQuery, int, list[int]]:
        """A query as names, as the id of its source, and as relation ids in the space of 2R."""
        parsed = parse(query) if isinstance(query, str) else query
        if len(parsed.hops) > MAX_HOPS:
            raise QueryError(f"the query has {len(parsed.hops):,} hops; a query may have {MAX_HOPS} at most.")
        return parsed, *encode(query, self.graph)

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

    def _query_vector(self, source: int, path: list[int]) -> Tensor:
        vector = self.vectors.query(source, path)
        if not torch.isfinite(vector).all():
            raise RunError(
                "the model's scores for this query are not finite: the run has diverged; "
                "train it again with a lower learning rate or a stronger penalty."
            )
        return vector

    def _scores(self, vector: Tensor, entities: NDArray[np.integer]) -> NDArray[np.float64]:
        """φ of one query vector [1, width] with each of the entities, in float64: [count]."""
        scores: NDArray[np.float64] = (vector * self.vectors.candidates(entities)).sum(dim=1).numpy()
        return scores

    def _name(
        self, entities: NDArray[np.integer], scores: NDArray[np.float64], known: NDArray[np.bool_]
    ) -> tuple[Answer, ...]:
        return tuple(
            Answer(self.graph.entities[entity], score, None, "known" if is_known else "predicted")
            for entity, score, is_known in zip(entities.tolist(), scores.tolist(), known.tolist(), strict=True)
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
    engine = run if isinstance(run, Engine) else Engine.open(run)
    return engine.ask(query, top=top, candidates=candidates, only=only)


def check_top(top: int) -> None:
    """Refuse a number of answers that is no number of answers."""
    if top < 1:
        raise ConfigError(f"top is the number of answers, at least 1; it cannot be {top}.")


def _graph_of(run: Run) -> KnowledgeGraph:
    from blockhole.data.load import load

    assert run.config.data is not None
    return load(run.config.data).split.graph("train")
