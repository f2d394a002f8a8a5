"""The tables and the cost model of docs/scaling.md."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.scale_model import GPU_TERMS, Fit, Task, fit, predict
from benchmarks.scale_report import BEGIN, END, PAGE, PLOT, report
from blockhole.training.distributed.mesh import MeshShape


def test_the_page_holds_what_is_made_from_the_results() -> None:
    page = PAGE.read_text(encoding="utf-8")
    written = page.split(BEGIN)[1].split(END)[0]
    assert written == report(), "run: python -m benchmarks.scale_report --write"
    assert PLOT.is_file()


def test_a_fit_finds_the_costs_it_was_made_of_and_the_errors_of_what_is_left_out() -> None:
    sizes = [(1, 10, 3), (1, 20, 5), (1, 40, 1), (1, 80, 9), (1, 160, 2)]
    exact = [2 + 0.5 * x + 4 * y for _, x, y in sizes]
    model = fit(("1", "x", "y"), sizes, exact)
    np.testing.assert_allclose(model.coefficients, [2, 0.5, 4], rtol=1e-6)
    np.testing.assert_allclose(model.errors, 0, atol=1e-6)
    assert model(1, 100, 1) == pytest.approx(56)
    spoiled = fit(("1", "x", "y"), sizes, [*exact[:4], 2 * exact[4]])
    assert spoiled.errors[4] == pytest.approx(0.5)


def test_a_step_sends_what_volume_counts() -> None:
    task = Task(entities=1000, relations=3, edges=10_000, blocks=2, block_size=5, negatives=4, queries=8)
    step = Fit(GPU_TERMS, np.array([0.5, 0.0, 0.0]), np.zeros(0))
    alone = predict(task, MeshShape(1, 1), step, 0.01)
    assert (alone.sent, alone.sending, alone.making) == (0, 0, 0.08)
    assert alone.epoch_seconds == pytest.approx(10_000 / 8 * 0.58)
    shards = predict(task, MeshShape(1, 2), step, 0.01)
    assert shards.sent == 4 * (2 * 8 * 20 + 8 * (4 + 20)) + 4 * 4 * 3
    assert shards.making == 0.04
    parts = predict(task, MeshShape(2, 1), step, 0.1)
    assert parts.sent == 4 * (2 * 8 * 6 * 20 + 2 * 3 * 2 * 20 + 1) + 4 * 8 * 3
    assert parts.held > shards.held
    assert (parts.making, parts.edges_per_second) == pytest.approx((0.8, 16 / 1.3))
