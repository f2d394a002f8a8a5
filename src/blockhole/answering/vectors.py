"""Query vectors and candidate vectors of a trained model, without copying its entities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from blockhole.errors import DamagedRun, RunError
from blockhole.models.blocks import ArrayModel, BlockArrays
from blockhole.models.catalogue import ModelSettings, build_model, settings_of
from blockhole.queries.paths import PathQueries
from blockhole.runs.checkpoint import map_best_weights
from blockhole.runs.run import Run, weights_without_words

if TYPE_CHECKING:
    from torch import Tensor

    from blockhole.models.contract import Model

Floats = NDArray[np.float64]
Table = NDArray[np.float32]

_LANES = 8
WALKED = 2**15
"""Rows are walked in whole multiples of 8, and never so many that torch would share them out among threads: the vector
instructions for complex products round what is left over at an end otherwise than what is not (HolE shows it)."""
_ROWS = 2**14
"""Rows that are finished at a time."""


@final
class Vectors:
    """The rows of all entities in float32, and the relations as operators in float64.

    The rows of a run on disk are a view of its weights file, so that opening one costs nothing and processes share
    its pages. Query vectors are walked in float64, as in evaluation: an answer's place among the others then depends
    on the parameters alone. Models of blocks are walked without torch. Shape of `entity`: [E, entity width].
    """

    def __init__(
        self, settings: ModelSettings, entity: Table, others: Mapping[str, NDArray[Any]], num_relations: int
    ) -> None:
        self.settings = settings
        self.entity = entity
        self._others = others
        self.num_relations = num_relations

    @classmethod
    def of(cls, run: Run) -> Vectors:
        """The vectors of a run: those in its folder, or of its model where it is in memory only."""
        if run.folder is None:
            return cls.of_weights(run.config.model, run.model.state_dict(), len(run.relations))
        weights = map_best_weights(run.folder)
        try:
            if run.config.words:
                weights = weights_without_words(weights, len(run.entities), len(run.relations))
            vectors = cls.of_weights(run.config.model, weights, len(run.relations))
        except (KeyError, ValueError, RuntimeError):  # a table is missing, or of another shape
            vectors = None
        if vectors is None or vectors.num_entities != len(run.entities):
            raise DamagedRun(
                f"{run.folder}: the saved weights do not fit config.json and vocabulary.parquet; "
                "these files do not belong to one run."
            )
        return vectors

    @classmethod
    def of_model(cls, model: Model) -> Vectors:
        """The vectors of a model in memory, on whatever device."""
        weights = {name: table.cpu() for name, table in model.state_dict().items()}
        return cls.of_weights(settings_of(model), weights, model.num_relations)

    @classmethod
    def of_weights(
        cls, settings: ModelSettings, weights: Mapping[str, NDArray[Any] | Tensor], num_relations: int
    ) -> Vectors:
        """The vectors of a model given by its saved parameters."""
        arrays = {name: np.asarray(table) for name, table in weights.items()}
        vectors = cls(settings, arrays.pop("entity"), arrays, num_relations)
        _ = vectors.model  # refuses tables of another shape
        return vectors

    @classmethod
    def of_operators(cls, settings: ModelSettings, relation: NDArray[Any], num_relations: int) -> Vectors:
        """The relations of a model [rows, relation width] without its entities: the rows to walk from are elsewhere."""
        entity = build_model(settings, 1, num_relations, seed=0).entity
        return cls.of_weights(settings, {"entity": entity.detach(), "relation": relation}, num_relations)

    def extended(self, rows: Floats) -> Vectors:
        """The same with further entities, whose rows [count, entity width] follow the present ones."""
        return self._with(np.concatenate([self.entity, rows.astype(self.entity.dtype)]))

    def copied(self) -> Vectors:
        """The same with tables of its own, no longer views of a file."""
        others = {name: table.copy() for name, table in self._others.items()}
        return Vectors(self.settings, self.entity.copy(), others, self.num_relations)

    def _with(self, entity: Table) -> Vectors:
        return Vectors(self.settings, entity, self._others, self.num_relations)

    @property
    def num_entities(self) -> int:
        """E."""
        return len(self.entity)

    @cached_property
    def width(self) -> int:
        """How many numbers a query vector and a candidate vector have."""
        return int(self.model.finish_candidate(self.rows(np.array([0]))).shape[1])

    @cached_property
    def part(self) -> NDArray[np.intp]:
        """Which of the models that it was merged from each number of a vector belongs to; all to the first if none."""
        geometry, dims = self.settings.block_geometry, self.settings.merged_from
        if geometry is None or not dims:
            return np.zeros(self.width, dtype=np.intp)
        own = np.repeat(np.arange(len(dims)), dims)  # of a model of one block, or of one frequency
        if geometry.freqs > 1:
            own = np.tile(np.repeat(np.arange(len(dims)), np.array(dims) // geometry.blocks), geometry.blocks)
        return np.tile(own, geometry.parts)

    def weighed(self, weights: Sequence[float]) -> Floats | float:
        """What vectors are multiplied with so that each part counts by its weight: [parts] → [width], or one number."""
        return weights[0] if len(weights) == 1 else np.array(weights)[self.part]

    @cached_property
    def model(self) -> ArrayModel:
        """The model behind the hops, as hops over arrays; it holds no entities."""
        geometry = self.settings.block_geometry
        if geometry is None or set(self._others) != {"relation"}:
            from blockhole.models.contract import TorchArrays

            return TorchArrays(self.operators)
        tied, relation = self.settings.inverses == "tied", self._others["relation"]
        expected = ((1 if tied else 2) * self.num_relations, geometry.relation_width)
        if relation.shape != expected or self.entity.shape[1:] != (geometry.entity_width,):
            raise ValueError(f"the relations have shape {relation.shape}, not {expected}, or entities another width")
        return BlockArrays(geometry, relation, self.num_relations, tied)

    @cached_property
    def operators(self) -> Model:
        """The same as a torch model in float64, for gradients and other devices; torch is loaded for it."""
        import torch

        # The operators need no entities: one row stands for them, so that none are drawn only to be replaced.
        operators = build_model(self.settings, 1, self.num_relations, seed=0).double().eval().requires_grad_(False)
        tables = {"entity": self.entity[:1], **self._others}
        operators.load_state_dict({name: torch.tensor(table) for name, table in tables.items()})
        return operators

    def rows(self, entities: NDArray[np.integer]) -> Floats:
        """The parameters of entities in float64: [count, entity width]."""
        rows: Floats = self.entity[entities].astype(np.float64)
        return rows

    def queries(self, queries: PathQueries) -> Floats:
        """The vectors of path queries: [N, width] float64, each the same bit for bit whatever others come with it."""
        size = max(_LANES, WALKED // self.entity.shape[1] // _LANES * _LANES)
        parts = [
            self._queries(queries, first, min(first + size, len(queries))) for first in range(0, len(queries), size)
        ]
        return np.concatenate(parts) if parts else self.finish(self.rows(queries.source))

    def _queries(self, queries: PathQueries, first: int, last: int) -> Floats:
        """The vectors of some queries, walked with the last of them repeated to whole lanes."""
        index = np.minimum(np.arange(first, last + (first - last) % _LANES), last - 1)
        rows = self.rows(queries.source[index])
        return self.finish(self.model.walk(rows, queries.path[index], queries.length[index]))[: last - first]

    def query(self, source: int, path: Sequence[int]) -> Floats:
        """The vector of one query: [1, width] float64."""
        return self.queries(PathQueries.of_paths([source], [path]))

    def walk(self, rows: Floats, path: Sequence[int]) -> Floats:
        """The query vectors of one path from each of the given rows: [N, entity width] → [N, width]."""
        paths = np.broadcast_to(np.array(path, dtype=np.int64), (len(rows), len(path)))
        return self.finish(self.model.walk(rows, paths, np.full(len(rows), len(path))))

    def finish(self, rows: Floats) -> Floats:
        """The query vectors of rows that have been walked: [N, entity width] → [N, width]."""
        vector = self.model.finish_query(rows)
        if not np.isfinite(vector).all():
            raise diverged("the model's scores for this query")
        return vector

    def candidates(self, entities: NDArray[np.integer]) -> Floats:
        """The candidate vectors of entities in float64: [count, width]."""
        return self.model.finish_candidate(self.rows(entities))

    def all_candidates(self) -> Table:
        """The candidate vectors of all entities in float32: [E, width]; no copy where rows are taken as they are.

        Others are computed in float64 like those of `candidates`, so that they are rounded once.
        """
        if self.model.plain_candidates:
            return self.entity
        table = np.empty((self.num_entities, self.width), dtype=np.float32)
        for first in range(0, len(table), _ROWS):
            part = self.entity[first : first + _ROWS].astype(np.float64)
            table[first : first + _ROWS] = self.model.finish_candidate(part)
        return table


def diverged(what: str) -> RunError:
    """That `what` is not finite, and what to do."""
    return RunError(
        f"{what} are not finite: the run has diverged; train it again with a lower learning rate or a stronger penalty."
    )


def norms(query: Floats) -> Floats:
    """The norm of each query vector, 1 for a vector of zeros: [N, width] → [N]."""
    norm: Floats = np.linalg.norm(query, axis=1)
    norm[norm == 0] = 1.0
    return norm
