"""Every model's fast path against dense matrices multiplied in NumPy, in float64."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from blockhole.models.catalogue import ModelSettings, build_model
from blockhole.models.contract import Model

E, R = 9, 3
QUERIES = 25

Real = NDArray[np.float64]
Complex = NDArray[np.complex128]


def circulant(v: Real) -> Real:
    n = len(v)
    return np.array([[v[(j - k) % n] for k in range(n)] for j in range(n)])


def join(stored: Real) -> Complex:
    re, im = np.split(stored, 2)
    return np.asarray(re + 1j * im)


class Dense:
    """φ = Re(e_sᵀ M_{r1} … M_{rk} ē_o) with a vector per row of entities and a matrix per row of relations."""

    def __init__(self, vector: Callable[[Real], Complex], matrix: Callable[[Real], Complex]) -> None:
        self.vector = vector
        self.matrix = matrix

    def score(self, model: Model, source: int, path: list[int], target: int) -> float:
        entity, relation = model.entity.detach().numpy(), model.relation.detach().numpy()
        query = self.vector(entity[source])
        for r in path:
            inverse, named = divmod(r, R)
            if model.tied:
                matrix = self.matrix(relation[named])
                query = query @ (matrix.conj().T if inverse else matrix)
            else:
                query = query @ self.matrix(relation[r])
        return float((query @ self.vector(entity[target]).conj()).real)


def blockhole(b: int, m: int) -> Dense:
    def matrix(row: Real) -> Complex:
        w = join(row).reshape(b, b, m)
        return np.block([[np.diag(w[i, j]) for j in range(b)] for i in range(b)])

    return Dense(join, matrix)


def spatial(b: int, m: int) -> Dense:
    def matrix(row: Real) -> Complex:
        w = row.reshape(b, b, m)
        return np.block([[circulant(w[i, j]) for j in range(b)] for i in range(b)]).astype(complex)

    return Dense(lambda row: row.astype(complex), matrix)


def analogy_vector(row: Real) -> Complex:
    """Scalars, then the pairs (x1, y1), (x2, y2), … of the 2×2 blocks."""
    pairs = len(row) // 4
    scalars, x, y = row[: -2 * pairs], row[-2 * pairs : -pairs], row[-pairs:]
    return np.concatenate([scalars, np.stack([x, y], axis=1).reshape(-1)]).astype(complex)


def analogy_matrix(row: Real) -> Complex:
    n = len(row)
    pairs = n // 4
    matrix = np.diag(np.concatenate([row[: -2 * pairs], np.zeros(2 * pairs)]))
    for k, (x, y) in enumerate(zip(row[-2 * pairs : -pairs], row[-pairs:], strict=True)):
        at = n - 2 * pairs + 2 * k
        matrix[at : at + 2, at : at + 2] = [[x, y], [-y, x]]
    return matrix.astype(complex)


def simple_matrix(row: Real) -> Complex:
    v, u = np.split(row, 2)
    zero = np.zeros((len(v), len(v)))
    return np.block([[zero, np.diag(v / 2)], [np.diag(u / 2), zero]]).astype(complex)


def real(row: Real) -> Complex:
    return row.astype(complex)


SIZED_BY_DIM: dict[str, Callable[[int], Dense]] = {
    "rescal": lambda n: Dense(real, lambda row: row.reshape(n, n).astype(complex)),
    "distmult": lambda n: Dense(real, lambda row: np.diag(row).astype(complex)),
    "complex": lambda n: Dense(join, lambda row: np.diag(join(row))),
    "hole": lambda n: Dense(real, lambda row: circulant(row).T.astype(complex)),
    "analogy": lambda n: Dense(analogy_vector, analogy_matrix),
    "simple": lambda n: Dense(real, simple_matrix),
}

CASES: list[tuple[ModelSettings, Dense]] = [
    *(
        (ModelSettings(name="blockhole", blocks=b, block_size=m), blockhole(b, m))
        for b in (1, 2, 3)
        for m in (3, 4, 5, 8)
    ),
    *(
        (ModelSettings(name="blockhole-spatial", blocks=b, block_size=m), spatial(b, m))
        for b in (1, 2, 3)
        for m in (3, 4, 5, 8)
    ),
    *((ModelSettings(name=name, dim=n), make(n)) for name, make in SIZED_BY_DIM.items() for n in (4, 5, 8)),
]


def name_case(value: object) -> str:
    if isinstance(value, ModelSettings):
        size = f"{value.blocks}x{value.block_size}" if value.blocks else str(value.dim)
        return f"{value.name}-{size}"
    return "dense" if isinstance(value, Dense) else str(value)


def draw_queries(hops: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(hops)
    source, target = torch.randint(E, (2, QUERIES), generator=generator)
    path = torch.randint(2 * R, (QUERIES, hops), generator=generator)
    return source, path, torch.full((QUERIES,), hops), target


@pytest.mark.parametrize("inverses", ["own", "tied"])
@pytest.mark.parametrize(("settings", "dense"), CASES, ids=name_case)
def test_scores_equal_the_dense_product(settings: ModelSettings, dense: Dense, inverses: str) -> None:
    settings = settings.model_copy(update={"inverses": inverses, "entity_scale": 1.0})
    model = build_model(settings, E, R, seed=1).double()
    for hops in (1,) if settings.kind.why_no_paths else (1, 2, 4):
        source, path, length, target = draw_queries(hops)
        expected = [
            dense.score(model, int(s), p.tolist(), int(t)) for s, p, t in zip(source, path, target, strict=True)
        ]
        actual = model.score(source, path, length, target).detach()
        np.testing.assert_allclose(actual, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("inverses", ["own", "tied"])
def test_transe_is_the_negative_squared_distance(inverses: str) -> None:
    settings = ModelSettings(name="transe", dim=5).model_copy(update={"inverses": inverses})
    model = build_model(settings, E, R, seed=2).double()
    entity, relation = model.entity.detach().numpy(), model.relation.detach().numpy()
    for hops in (1, 2, 4):
        source, path, length, target = draw_queries(hops)
        steps = relation[path.numpy() % R] * np.where(path.numpy() < R, 1, -1)[:, :, None]
        if inverses == "own":
            steps = relation[path.numpy()]
        difference = entity[source] + steps.sum(axis=1) - entity[target]
        expected = -np.square(np.linalg.norm(difference, axis=1))
        np.testing.assert_allclose(model.score(source, path, length, target).detach(), expected, rtol=1e-10)
