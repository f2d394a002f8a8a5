"""Rows that lean on the words of names."""

from __future__ import annotations

import numpy as np
import torch

from blockhole.models.blockhole import BlockHolE
from experiments.word_rows import PRIOR, lean_on_words


def test_rows_move_by_what_a_ridge_regression_predicts() -> None:
    model = BlockHolE(9, 2, blocks=2, block_size=3, entity_scale=1.0, seed=0)
    words = np.array([[0, 0], [0, 1], [1, 0], [2, 1], [2, 2], [3, 2], [4, 0], [4, 2], [7, 3], [8, 3]])
    before = model.entity.detach().double().numpy().copy()
    lean_on_words(model, words, 0.5)

    named = np.unique(words[:, 0])
    matrix = np.zeros((9, 4))
    matrix[words[:, 0], words[:, 1]] = 1
    centred = before[named] - before[named].mean(axis=0)
    inner = matrix[named].T @ matrix[named] + PRIOR * np.eye(4)
    expected = before.copy()
    expected[named] += 0.5 * matrix[named] @ np.linalg.solve(inner, matrix[named].T @ centred)
    np.testing.assert_allclose(model.entity.detach().numpy(), expected, rtol=0, atol=1e-6)
    assert np.array_equal(model.entity.detach().numpy()[[5, 6]], before[[5, 6]].astype(np.float32))


def test_no_words_and_rows_without_a_difference() -> None:
    model = BlockHolE(3, 1, blocks=1, block_size=2, seed=0)
    before = model.entity.detach().clone()
    lean_on_words(model, np.zeros((0, 2), dtype=np.int64), 1.0)
    assert torch.equal(model.entity, before)
    with torch.no_grad():
        model.entity.fill_(0.25)
    lean_on_words(model, np.array([[0, 0], [1, 0]]), 1.0)
    assert torch.equal(model.entity, torch.full_like(before, 0.25))
