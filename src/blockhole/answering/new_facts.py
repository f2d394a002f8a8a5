"""Facts that came after training, also about entities the model has never seen, without training again.

Write each fact of a new entity u as (u, r, t), inverses included. The row e of u is the most probable one under the
model's own softmax, read from either end, and the normal distribution of the rows there are::

    Σ_(r,t) log softmax(⟨q(e, r), c_t⟩) + log softmax(⟨q(e_t, r⁻¹), c(e)⟩) - ½ ‖(e - μ)/σ‖²

where each softmax is over the answer and a fixed sample of the entities that the relation takes. It is one row that is
solved for, so a few steps of L-BFGS suffice, and every model can be extended, distances included.
"""

from __future__ import annotations

from typing import final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from blockhole.answering.engine import Engine
from blockhole.data.dataset import graph_with_facts
from blockhole.errors import DataError, quoted
from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.machine import torch_threads

_SAMPLE = 512
_STEPS = 30


def with_facts(engine: Engine, facts: KnowledgeGraph, *, seed: int = 0) -> Engine:
    """An engine that knows `facts` as well; entities that it has never seen are placed by them.

    Names are what joins the two graphs; relations must be the run's. The engine given is left as it is.
    """
    graph = graph_with_facts(engine.graph, facts)
    triples = graph.triples[len(engine.graph) :]
    placer = _Placer(engine, seed)
    with torch_threads(1):  # the products of one row are over before other threads would have begun
        rows = [
            placer.place(graph.entities[entity], _facts_about(entity, triples, engine.graph))
            for entity in range(engine.graph.num_entities, graph.num_entities)
        ]
    vectors = engine.vectors.extended(np.stack(rows)) if rows else engine.vectors
    extended = Engine(vectors, graph, engine.calibrated)
    extended.lacking = engine.lacking
    return extended


def _facts_about(entity: int, triples: NDArray[np.int32], known: KnowledgeGraph) -> NDArray[np.int64]:
    """The facts of one new entity as pairs (r, t) with t an entity the model knows; shape [N, 2]."""
    source, relation, target = triples.astype(np.int64).T
    leaving = (source == entity) & (target < known.num_entities)
    arriving = (target == entity) & (source < known.num_entities)
    inverse = (relation[arriving] + known.num_relations) % (2 * known.num_relations)
    return np.concatenate(
        [
            np.column_stack([relation[leaving], target[leaving]]),
            np.column_stack([inverse, source[arriving]]),
        ]
    )


@final
class _Placer:
    """Solves for one row after the other; all share the prior and the sampled candidates."""

    def __init__(self, engine: Engine, seed: int) -> None:
        self._engine = engine
        self._rng = np.random.default_rng(seed)
        self._samples: dict[int, NDArray[np.int64]] = {}
        rows = engine.vectors.entity
        self._mean = torch.from_numpy(rows.mean(axis=0, dtype=np.float64))
        self._spread = torch.from_numpy(rows.std(axis=0, dtype=np.float64)).clamp_min(1e-6)

    def place(self, name: str, facts: NDArray[np.int64]) -> NDArray[np.float64]:
        """The row of an entity with the given facts (r, t) [N, 2]: [entity width]."""
        if not len(facts):
            raise DataError(
                f"{quoted(name)} cannot be placed: none of its facts is about an entity that the run knows; "
                "add one that is."
            )
        from scipy.optimize import minimize

        vectors, operators = self._engine.vectors, self._engine.vectors.operators
        inverses = np.array([self._engine.graph.inverse(relation) for relation in facts[:, 0].tolist()])
        relation = torch.from_numpy(facts[:, 0])
        others = torch.from_numpy(np.stack([vectors.candidates(self._sample(r)) for r in facts[:, 0].tolist()]))
        answer = torch.from_numpy(vectors.candidates(facts[:, 1]))
        asked = torch.from_numpy(vectors.finish(vectors.model.hop(vectors.rows(facts[:, 1]), inverses)))
        rivals = torch.from_numpy(np.stack([vectors.candidates(self._sample(r)) for r in inverses.tolist()]))
        rival_score = torch.einsum("nw,ncw->nc", asked, rivals)

        def loss(point: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
            row = torch.from_numpy(point).requires_grad_()
            query = operators.finish_query(operators.hop(row.expand(len(facts), -1), relation))
            leaving = _first_of((query * answer).sum(dim=1), torch.einsum("nw,ncw->nc", query, others))
            arriving = _first_of(asked @ operators.finish_candidate(row[None])[0], rival_score)
            prior = ((row - self._mean) / self._spread).square().sum() / 2
            total = prior - leaving.sum() - arriving.sum()
            (gradient,) = torch.autograd.grad(total, row)
            return total.item(), gradient.numpy()

        found = minimize(loss, self._mean.numpy(), jac=True, method="L-BFGS-B", options={"maxiter": _STEPS})
        row: NDArray[np.float64] = found.x
        return row

    def _sample(self, relation: int) -> NDArray[np.int64]:
        """A fixed sample of the entities that a relation takes, with repetition so that all are of one size."""
        if relation not in self._samples:
            taken = self._engine.known.candidates(relation)
            pool = taken if len(taken) else np.arange(self._engine.graph.num_entities)
            self._samples[relation] = self._rng.choice(pool, _SAMPLE).astype(np.int64)
        return self._samples[relation]


def _first_of(score: Tensor, rivals: Tensor) -> Tensor:
    """log softmax of each score against its rivals: [N], [N, C] → [N]."""
    return score - torch.logaddexp(score, rivals.logsumexp(dim=1))
