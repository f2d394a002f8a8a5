"""How times grow with n."""

from __future__ import annotations

import pytest

from experiments.timing import BLOCKS, DIMENSIONS, ROUNDS, TimingPlan, growth, time_config


def test_a_line_and_a_power_are_found() -> None:
    line = growth((40, 80, 120), (0.5, 0.9, 1.3))
    assert (line["slope"], line["intercept"], line["r2"]) == pytest.approx((0.01, 0.1, 1.0))
    square = growth((40, 80, 160), (1.0, 4.0, 16.0))
    assert square["exponent"] == pytest.approx(2.0)
    assert square["r2"] < 0.99


def test_all_columns_are_timed_unless_some_are_named() -> None:
    columns = ("blockhole-b1", "blockhole-b2", "blockhole-b4", "blockhole-b8", "rescal")
    assert TimingPlan.of() == (columns, DIMENSIONS, ROUNDS)
    assert TimingPlan.of(["rescal"], [16, 8, 16], 1) == (("rescal",), (8, 16), 1)


def test_every_curve_has_the_dimension_it_says() -> None:
    for column, blocks in BLOCKS.items():
        for n in DIMENSIONS:
            config = time_config(column, n)
            assert config.model.dimension == n
            assert blocks is None or config.model.block_shape[0] == blocks
            assert (config.training.on, config.training.threads, config.loss.negatives) == ("base", 1, 5)
