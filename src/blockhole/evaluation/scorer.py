"""Scores in double precision, whatever precision the model was trained in."""

from __future__ import annotations

import copy
from typing import NamedTuple, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from blockhole.errors import EvaluationError, counted
from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.models.contract import Model, at_norm_1, float32_slack, longest_norm
from blockhole.queries.language import Hop, write_name
from blockhole.queries.paths import PathQueries

_CHUNK = 8192
"""Rows embedded at a time when nothing but their number matters; it bounds memory, not results."""

_CELLS = 2**24
"""Scores held at once where every query meets every candidate: 128 MB."""


class Columns(NamedTuple):
    """Candidate vectors divided by the scorer's unit; shapes [C, width], float64 and float32.

    `slack` bounds |float32 score - exact score| for a query vector of norm 1 (`float32_slack`).
    """

    exact: Tensor
    rough: Tensor
    slack: float


@final
class Scorer:
    """A copy of a model in float64 on one device; every score of the evaluation comes from here.

    Rankings divide query vectors by their norm and candidate vectors by `unit`, the root mean square of the
    candidates' norms: order and ties stay, and one tolerance fits all models.
    """

    def __init__(self, model: Model, graph: KnowledgeGraph, device: torch.device | str = "cpu") -> None:
        if (model.num_entities, model.num_relations) != (graph.num_entities, graph.num_relations):
            raise EvaluationError(
                f"the model has {counted(model.num_entities, 'entity', 'entities')} and "
                f"{counted(model.num_relations, 'relation')}, the data {graph.num_entities} and {graph.num_relations}; "
                "evaluate it on the data it was trained on."
            )
        # Apple's MPS has no float64; ranks must not depend on the device, so its models are evaluated on the CPU.
        device = torch.device(device)
        self.device = torch.device("cpu") if device.type == "mps" else device
        self._graph = graph
        self._model = copy.deepcopy(model).to(device=self.device, dtype=torch.float64).eval()
        self.unit, self._finite = self._measure_candidates()

    @torch.no_grad()
    def _measure_candidates(self) -> tuple[float, NDArray[np.bool_]]:
        """The root mean square norm of the candidates, and which of them are finite; shape [E]."""
        entities = torch.arange(self._graph.num_entities, device=self.device)
        square = torch.cat([self._candidates(chunk).square().sum(dim=1) for chunk in torch.split(entities, _CHUNK)])
        finite = torch.isfinite(square)
        unit = float(square[finite].mean().sqrt()) if finite.any() else 0.0
        return unit or 1.0, finite.cpu().numpy()

    def _candidates(self, entities: Tensor) -> Tensor:
        return self._model.candidates(entities).double()

    def _embed(self, queries: PathQueries) -> Tensor:
        source, path, length = (
            torch.from_numpy(ids.astype(np.int64)).to(self.device)
            for ids in (queries.source, queries.path, queries.length)
        )
        return self._model.embed_query(source, path, length).double()

    @property
    def width(self) -> int:
        """How many numbers a candidate vector has."""
        return int(self._candidates(torch.zeros(1, dtype=torch.int64, device=self.device)).shape[1])

    @torch.no_grad()
    def columns(self, entities: NDArray[np.int32]) -> Columns:
        """The candidate vectors of `entities`, to rank against."""
        exact = self._candidates(torch.from_numpy(entities.astype(np.int64)).to(self.device)) / self.unit
        return Columns(exact, exact.float(), float32_slack(exact.shape[1], longest_norm(exact)))

    @torch.no_grad()
    def embed(self, queries: PathQueries) -> Tensor:
        """The query vectors at norm 1 (zero stays zero), to rank with; shape [N, width] float64."""
        return at_norm_1(self._embed(queries))

    @torch.no_grad()
    def score(self, queries: PathQueries) -> NDArray[np.float64]:
        """φ(s, p, o) of each query, unscaled; shape [N]."""
        scores = np.empty(len(queries), dtype=np.float64)
        for first in range(0, len(queries), _CHUNK):
            part = queries.take(slice(first, first + _CHUNK))
            target = torch.from_numpy(part.target.astype(np.int64)).to(self.device)
            scores[first : first + _CHUNK] = (self._embed(part) * self._candidates(target)).sum(dim=1).cpu().numpy()
        unusable = ~np.isfinite(scores)
        if unusable.any():
            raise self._not_finite(queries, int(np.argmax(unusable)))
        return scores

    @torch.no_grad()
    def log_sum_exp(self, queries: PathQueries, entities: NDArray[np.int32]) -> NDArray[np.float64]:
        """log Σ_e exp φ(s, p, e) over `entities` [C] for each query; shape [N]."""
        columns = self._candidates(torch.from_numpy(entities.astype(np.int64)).to(self.device))
        rows = max(1, _CELLS // max(1, len(entities)))
        sums = [
            torch.logsumexp(self._embed(queries.take(slice(first, first + rows))) @ columns.T, dim=1).cpu().numpy()
            for first in range(0, len(queries), rows)
        ]
        return np.concatenate([np.empty(0), *sums])

    def finite(self, entities: NDArray[np.int32]) -> bool:
        """Whether the candidate vectors of `entities` hold neither NaN nor infinity."""
        return bool(self._finite[entities].all())

    @torch.no_grad()
    def refuse(self, queries: PathQueries, unscorable: NDArray[np.bool_]) -> EvaluationError:
        """The error that names the first query whose vector is not finite or that `unscorable` [N] marks."""
        for first in range(0, len(queries), _CHUNK):
            bad = ~torch.isfinite(self._embed(queries.take(slice(first, first + _CHUNK)))).all(dim=1).cpu().numpy()
            bad |= unscorable[first : first + _CHUNK]
            if bad.any():
                return self._not_finite(queries, first + int(np.argmax(bad)))
        raise ValueError("all queries can be scored")

    def _not_finite(self, queries: PathQueries, index: int) -> EvaluationError:
        return EvaluationError(
            f"the model's scores for query {index + 1}, {spell(self._graph, queries, index)}, are not finite: the "
            "run has diverged; train it again with a lower learning rate or a stronger penalty."
        )


def spell(graph: KnowledgeGraph, queries: PathQueries, index: int) -> str:
    """One query as people write it: s/r1/^r2 → o."""
    hops = (graph.relation_name(int(relation)) for relation in queries.path[index, : queries.length[index]])
    query = "/".join([write_name(graph.entities[queries.source[index]]), *(str(Hop(*hop)) for hop in hops)])
    return f"{query} → {write_name(graph.entities[queries.target[index]])}"
