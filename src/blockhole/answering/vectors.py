"""Query vectors and candidate vectors of a trained model, without copying its entities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from blockhole.errors import DamagedRun, RunError
from blockhole.models.catalogue import ModelSettings, build_model
from blockhole.models.contract import Model
from blockhole.queries.paths import PathQueries
from blockhole.runs.checkpoint import load_best_weights
from blockhole.runs.run import Run

_LANES = 8
_NUMBERS = 2**15
"""Rows are walked in whole multiples of 8, and never so many that torch would share them out among threads: the vector
instructions for complex products round what is left over at an end otherwise than what is not (HolE shows it)."""
_ROWS = 2**14
"""Rows that are finished at a time."""


@final
class Vectors:
    """The rows of all entities in float32, and the relations as operators in float64.

    The rows of a run on disk are a view of its weights file, so that opening one costs nothing and processes share
    its pages. Query vectors are walked in float64, as in evaluation: an answer's place among the others then depends
    on the parameters alone. Shape of `entity`: [E, entity width].
    """

    def __init__(self, settings: ModelSettings, entity: Tensor, operators: Model) -> None:
        self.settings = settings
        self.entity = entity
        self._operators = operators

    @classmethod
    def of(cls, run: Run) -> Vectors:
        """The vectors of a run: those in its folder, or of its model where it is in memory only."""
        if run.folder is None:
            return cls.of_weights(run.config.model, run.model.state_dict(), len(run.relations))
        weights = load_best_weights(run.folder, mapped=True)
        try:
            vectors = cls.of_weights(run.config.model, weights, len(run.relations))
        except (KeyError, RuntimeError):  # a table is missing, or of another shape
            vectors = None
        if vectors is None or vectors.num_entities != len(run.entities):
            raise DamagedRun(
                f"{run.folder}: the saved weights do not fit config.json and vocabulary.parquet; "
                "these files do not belong to one run."
            )
        return vectors

    @classmethod
    def of_weights(cls, settings: ModelSettings, weights: dict[str, Tensor], num_relations: int) -> Vectors:
        """The vectors of a model given by its saved parameters."""
        # The operators need no entities: one row stands for them, so that none are drawn only to be replaced.
        operators = build_model(settings, 1, num_relations, seed=0).double().eval().requires_grad_(False)
        operators.load_state_dict({**weights, "entity": weights["entity"][:1]})
        return cls(settings, weights["entity"].detach(), operators)

    @classmethod
    def of_operators(cls, settings: ModelSettings, relation: Tensor, num_relations: int) -> Vectors:
        """The relations of a model [rows, relation width] without its entities: the rows to walk from are elsewhere."""
        entity = build_model(settings, 1, num_relations, seed=0).entity.detach()
        return cls.of_weights(settings, {"entity": entity, "relation": relation}, num_relations)

    def extended(self, rows: Tensor) -> Vectors:
        """The same with further entities, whose rows [count, entity width] follow the present ones."""
        return Vectors(self.settings, torch.cat([self.entity, rows.to(self.entity.dtype)]), self._operators)

    def copied(self) -> Vectors:
        """The same with rows of its own, no longer a view of a file."""
        return Vectors(self.settings, self.entity.clone(), self._operators)

    @property
    def num_entities(self) -> int:
        """E."""
        return len(self.entity)

    @property
    def width(self) -> int:
        """How many numbers a query vector and a candidate vector have."""
        return self._operators.finish_candidate(self.entity[:1]).shape[1]

    @property
    def operators(self) -> Model:
        """The model behind the hops, in float64; it holds no entities."""
        return self._operators

    def rows(self, entities: NDArray[np.integer]) -> Tensor:
        """The parameters of entities in float64: [count, entity width]."""
        return self.entity.index_select(0, torch.from_numpy(entities.astype(np.int64))).double()

    def queries(self, queries: PathQueries) -> Tensor:
        """The vectors of path queries: [N, width] float64, each the same bit for bit whatever others come with it."""
        size = max(_LANES, _NUMBERS // self.entity.shape[1] // _LANES * _LANES)
        parts = [
            self._queries(queries, first, min(first + size, len(queries))) for first in range(0, len(queries), size)
        ]
        if not parts:
            return self.finish(self.rows(queries.source))
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def _queries(self, queries: PathQueries, first: int, last: int) -> Tensor:
        """The vectors of some queries, walked with the last of them repeated to whole lanes."""
        index = np.minimum(np.arange(first, last + (first - last) % _LANES), last - 1)
        path, length = (torch.from_numpy(ids[index].astype(np.int64)) for ids in (queries.path, queries.length))
        walked = self._operators.walk(self.rows(queries.source[index]), path, length)
        return self.finish(walked)[: last - first]

    def query(self, source: int, path: Sequence[int]) -> Tensor:
        """The vector of one query: [1, width] float64."""
        return self.queries(PathQueries.of_paths([source], [path]))

    def walk(self, rows: Tensor, path: list[int]) -> Tensor:
        """The query vectors of one path from each of the given rows: [N, entity width] → [N, width]."""
        paths = torch.tensor([path]).expand(len(rows), -1)
        walked = self._operators.walk(rows, paths, torch.full((len(rows),), len(path)))
        return self.finish(walked)

    def finish(self, rows: Tensor) -> Tensor:
        """The query vectors of rows that have been walked: [N, entity width] → [N, width]."""
        return _finite(self._operators.finish_query(rows))

    def candidates(self, entities: NDArray[np.integer]) -> Tensor:
        """The candidate vectors of entities in float64: [count, width]."""
        return self._operators.finish_candidate(self.rows(entities))

    def all_candidates(self) -> Tensor:
        """The candidate vectors of all entities in float32: [E, width]; no copy where rows are taken as they are.

        Others are computed in float64 like those of `candidates`, so that they are rounded once.
        """
        if type(self._operators).finish_candidate is Model.finish_candidate:
            return self.entity
        parts = torch.split(self.entity, _ROWS)
        return torch.cat([self._operators.finish_candidate(part.double()).float() for part in parts])


def _finite(vector: Tensor) -> Tensor:
    """The query vectors, where they are numbers."""
    if not np.isfinite(vector.numpy()).all():  # which is twice as fast as torch where there is one vector
        raise diverged("the model's scores for this query")
    return vector


def diverged(what: str) -> RunError:
    """That `what` is not finite, and what to do."""
    return RunError(
        f"{what} are not finite: the run has diverged; train it again with a lower learning rate or a stronger penalty."
    )


def norms(query: Tensor) -> NDArray[np.float64]:
    """The norm of each query vector, 1 for a vector of zeros: [N, width] → [N]."""
    norm: NDArray[np.float64] = torch.linalg.vector_norm(query, dim=1).numpy()
    norm[norm == 0] = 1.0
    return norm
