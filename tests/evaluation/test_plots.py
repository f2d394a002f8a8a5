from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from blockhole.errors import MissingExtra
from blockhole.evaluation import plots
from blockhole.evaluation.classification import Measured, evaluate_classification, reliability
from blockhole.evaluation.path_ranking import evaluate_ranking
from blockhole.evaluation.truth import build_truth
from tests.evaluation.worlds import World, make_world

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(scope="module")
def world() -> World:
    return make_world(8, E=30, R=3, facts=150, queries=120)


def test_figures_are_written_as_svg_and_png(world: World, tmp_path: Path) -> None:
    figure = plots.plot_quantile_by_length(
        {"model": evaluate_ranking(world.model, world.queries, build_truth(world.split))}
    )
    svg, png = plots.save_figure(figure, tmp_path / "plots", "quantile")
    assert (svg.name, png.name) == ("quantile.svg", "quantile.png")
    assert "<svg" in svg.read_text(encoding="utf-8")
    assert png.read_bytes().startswith(PNG)
    assert sorted(path.name for path in (tmp_path / "plots").iterdir()) == ["quantile.png", "quantile.svg"]


def test_the_line_of_quantiles_goes_through_the_figures(world: World) -> None:
    report = evaluate_ranking(world.model, world.queries, build_truth(world.split))
    (axes,) = plots.plot_quantile_by_length({"model": report}).axes
    drawn = axes.get_lines()[0].get_ydata()
    assert np.asarray(drawn).tolist() == [part.mq for part in report.by_length.values()]


def test_reliability_bins_hold_every_query(world: World) -> None:
    report = evaluate_classification(world.model, world.queries, build_truth(world.split))
    said, true, size = reliability(0.5 * (1 + np.tanh(report.score / 2)), report.label)
    assert size.sum() == len(report.label)
    assert (true * size).sum() == pytest.approx(report.label.sum())
    assert (said * size).sum() == pytest.approx((1 / (1 + np.exp(-report.score))).sum())
    assert (np.diff(said) > 0).all()
    left, right = plots.plot_reliability({"model": report}).axes
    assert (left.get_ylabel(), right.get_ylabel()) == ("share that is true", "queries")


def test_each_type_of_query_has_a_panel_and_each_model_a_line() -> None:
    said, label = np.linspace(0, 1, 60), np.arange(60) % 3 == 0
    one = Measured.of(said, label)
    figure = plots.plot_reliability_by_type({"now": {"1p": one, "2i": one}, "before": {"1p": one}}, "title")
    first, second = figure.axes
    assert (len(first.get_lines()), len(second.get_lines())) == (3, 2)  # the diagonal too
    assert np.asarray(first.get_lines()[1].get_ydata()).tolist() == one.bins.true.tolist()
    assert first.get_title() == f"1p: ECE {one.bins.error:.3f} and {one.bins.error:.3f}"
    assert one.brier == pytest.approx(np.mean((said - label) ** 2))
    seven = plots.plot_reliability_by_type({"now": {f"{hops}p": one for hops in range(7)}}, "title")
    assert [axes.get_visible() for axes in seven.axes] == [True] * 7 + [False] * 3


def test_training_curves_show_validation_where_there_is_one() -> None:
    epochs: plots.Metrics = [{"event": "epoch", "epoch": i, "loss": 1 / i} for i in (1, 2, 3)]
    assert len(plots.plot_training_curves({"run": epochs}).axes) == 1
    measured: plots.Metrics = [*epochs, {"event": "validation", "epoch": 2, "mq": 80.0}]
    loss, quantile = plots.plot_training_curves({"run": measured, "other": epochs}).axes
    assert [np.asarray(line.get_ydata()).tolist() for line in loss.get_lines()] == [[1, 1 / 2, 1 / 3]] * 2
    assert [np.asarray(line.get_xdata()).tolist() for line in quantile.get_lines()] == [[2.0], []]


def test_without_matplotlib_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtra, match=r"drawing plots needs .* pip install 'blockhole\[plots\]'"):
        plots.plot_training_curves({})
