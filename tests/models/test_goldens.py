"""One score of every model worked by hand; the arithmetic is in the comments."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch

from blockhole.models.analogy import ANALOGY
from blockhole.models.blockhole import BlockHolE
from blockhole.models.complex import ComplEx
from blockhole.models.contract import Model
from blockhole.models.distmult import DistMult
from blockhole.models.hole import HolE
from blockhole.models.rescal import RESCAL
from blockhole.models.simple import SimplE
from blockhole.models.spatial import BlockHolESpatial
from blockhole.models.transe import TransE


def score(
    model: Model, source: Sequence[float], relation: Sequence[float], target: Sequence[float], hops: int
) -> float:
    """φ(s, r/…/r, o) with entities 0 = s and 1 = o and relation 0 = r given as stored rows."""
    model.double()
    with torch.no_grad():
        model.entity.copy_(torch.tensor([source, target]))
        model.relation[0] = torch.tensor(relation)
    path = torch.zeros(1, hops, dtype=torch.long)
    value = model.score(torch.tensor([0]), path, torch.tensor([hops]), torch.tensor([1]))
    return float(value.detach())


def test_blockhole() -> None:
    # e_s = (1+2i, 3-i), W = [[1+i, 2], [0, -i]], e_o = (2-i, 1+i); stored: real parts, then imaginary parts.
    source, relation, target = [1, 3, 2, -1], [1, 2, 0, 0, 1, 0, 0, -1], [2, 1, -1, 1]
    model = BlockHolE(2, 1, blocks=2, block_size=1)
    # e_s W = (-1+3i, 1+i); Re((-1+3i)(2+i) + (1+i)(1-i)) = -5 + 2
    assert score(model, source, relation, target, 1) == pytest.approx(-3)
    # e_s W W = (-4+2i, -1+5i); Re((-4+2i)(2+i) + (-1+5i)(1-i)) = -10 + 4
    assert score(model, source, relation, target, 2) == pytest.approx(-6)


def test_blockhole_keeps_frequencies_apart() -> None:
    # Frequency 1 as in the test above; frequency 2 real: (1, 2) [[0, 1], [3, 0]] = (6, 1), times (1, 1) = 7.
    source = [1, 1, 3, 2, 2, 0, -1, 0]
    relation = [1, 0, 2, 1, 0, 3, 0, 0, 1, 0, 0, 0, 0, 0, -1, 0]
    target = [2, 1, 1, 1, -1, 0, 1, 0]
    assert score(BlockHolE(2, 1, blocks=2, block_size=2), source, relation, target, 1) == pytest.approx(-3 + 7)


def test_blockhole_spatial() -> None:
    # circ(1, 0, 2) = [[1, 2, 0], [0, 1, 2], [2, 0, 1]]; times e_o = (1, 1, -1) is (3, -1, 1)
    model = BlockHolESpatial(2, 1, blocks=1, block_size=3)
    # (1, 2, 3)·(3, -1, 1) = 3 - 2 + 3
    assert score(model, [1, 2, 3], [1, 0, 2], [1, 1, -1], 1) == pytest.approx(4)
    # circ times (3, -1, 1) is (1, 1, 7); 1 + 2 + 21
    assert score(model, [1, 2, 3], [1, 0, 2], [1, 1, -1], 2) == pytest.approx(24)


def test_blockhole_spatial_places_its_blocks() -> None:
    # m = 1: e_sᵀ [[1, 2], [3, 4]] e_o with (1, 2) and (5, -1), as RESCAL below.
    model = BlockHolESpatial(2, 1, blocks=2, block_size=1)
    assert score(model, [1, 2], [1, 2, 3, 4], [5, -1], 1) == pytest.approx(25)


def test_hole() -> None:
    # e_s ⋆ e_o with e_s = (1, 2, 3), e_o = (1, 1, -1): (0, 3·1 + 1·1 - 2·1, 2·1 + 3·1 - 1·1) = (0, 2, 4)
    model = HolE(2, 1, dim=3)
    # (1, 0, 2)·(0, 2, 4)
    assert score(model, [1, 2, 3], [1, 0, 2], [1, 1, -1], 1) == pytest.approx(8)
    # w * e_s = (5, 8, 5) and w * (5, 8, 5) = (21, 18, 15); times e_o: 21 + 18 - 15
    assert score(model, [1, 2, 3], [1, 0, 2], [1, 1, -1], 2) == pytest.approx(24)


def test_rescal() -> None:
    model = RESCAL(2, 1, dim=2)
    # (1, 2) [[1, 2], [3, 4]] = (7, 10); times (5, -1) = 35 - 10
    assert score(model, [1, 2], [1, 2, 3, 4], [5, -1], 1) == pytest.approx(25)
    # (7, 10) [[1, 2], [3, 4]] = (37, 54); 185 - 54
    assert score(model, [1, 2], [1, 2, 3, 4], [5, -1], 2) == pytest.approx(131)


def test_distmult() -> None:
    model = DistMult(2, 1, dim=3)
    # 1·2·1 + 2·(-1)·1 + 3·1·2
    assert score(model, [1, 2, 3], [2, -1, 1], [1, 1, 2], 1) == pytest.approx(6)
    # 1·4·1 + 2·1·1 + 3·1·2
    assert score(model, [1, 2, 3], [2, -1, 1], [1, 1, 2], 2) == pytest.approx(12)


def test_complex() -> None:
    # e_s = (1+i, 2), w = (2-i, i), e_o = (1, 1-i)
    model = ComplEx(2, 1, dim=2)
    # e_s ⊙ w = (3+i, 2i); Re((3+i) + 2i(1+i)) = 3 - 2
    assert score(model, [1, 2, 1, 0], [2, 0, -1, 1], [1, 1, 0, -1], 1) == pytest.approx(1)
    # ⊙ w again = (7-i, -2); Re((7-i) - 2(1+i)) = 7 - 2
    assert score(model, [1, 2, 1, 0], [2, 0, -1, 1], [1, 1, 0, -1], 2) == pytest.approx(5)


def test_transe() -> None:
    model = TransE(2, 1, dim=2)
    # -‖(1, 2) + (0.5, -1) - (1, 0)‖² = -(0.25 + 1)
    assert score(model, [1, 2], [0.5, -1], [1, 0], 1) == pytest.approx(-1.25)
    # -‖(1, 2) + 2·(0.5, -1) - (1, 0)‖² = -1
    assert score(model, [1, 2], [0.5, -1], [1, 0], 2) == pytest.approx(-1)


def test_analogy() -> None:
    # Two scalars and one pair: e_s = (1, 2, 3+4i), w = (2, -1, 1+2i), e_o = (1, 2, 2+i)
    model = ANALOGY(2, 1, dim=4)
    # (2, -2, -5+10i): 2 - 4 - 10 + 10
    assert score(model, [1, 2, 3, 4], [2, -1, 1, 2], [1, 2, 2, 1], 1) == pytest.approx(-2)
    # (4, 2, -25): 4 + 4 - 50
    assert score(model, [1, 2, 3, 4], [2, -1, 1, 2], [1, 2, 2, 1], 2) == pytest.approx(-42)


def test_simple() -> None:
    # h_s = (1, 2), t_s = (3, -1), h_o = (2, 1), t_o = (1, 4), v = (1, 3), u = (2, -1)
    # ½ (1·1·1 + 2·3·4 + 2·2·3 + 1·(-1)·(-1)) = ½ (25 + 13)
    model = SimplE(2, 1, dim=2)
    assert score(model, [1, 2, 3, -1], [1, 3, 2, -1], [2, 1, 1, 4], 1) == pytest.approx(19)
