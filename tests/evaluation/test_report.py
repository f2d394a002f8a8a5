from __future__ import annotations

import json

import numpy as np
import pytest

from blockhole.evaluation.classification import evaluate_classification
from blockhole.evaluation.completion import evaluate_completion
from blockhole.evaluation.path_ranking import evaluate_ranking
from blockhole.evaluation.report import Report, Table, compare_reports, markdown, mean_intervals
from blockhole.evaluation.triples import evaluate_triples
from blockhole.evaluation.truth import build_truth
from tests.evaluation.integer_model import IntegerModel
from tests.evaluation.worlds import World, make_world


@pytest.fixture(scope="module")
def world() -> World:
    return make_world(8, E=30, R=3, facts=150, queries=120)


def report_of(task: str, world: World, model: IntegerModel) -> Report:
    truth = build_truth(world.split)
    match task:
        case "ranking":
            return evaluate_ranking(model, world.queries, truth)
        case "classification":
            return evaluate_classification(model, world.queries, truth)
        case "completion":
            return evaluate_completion(model, world.split.test, truth)
        case _:
            return evaluate_triples(model, world.split)


TASKS = ("ranking", "classification", "completion", "triples")


@pytest.mark.parametrize("task", TASKS)
def test_every_report_is_json_and_means_what_its_metrics_say(world: World, task: str) -> None:
    report = report_of(task, world, world.model)
    result = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert result["task"] == task
    for name, values in report.metrics.items():
        assert result[name] == pytest.approx(values.mean())
        low, high = result["intervals"][name]
        assert low <= result[name] <= high
    assert {"seconds", "queries_per_second", "peak_rss_mb"} <= set(result)


def test_the_ranking_report_has_the_promised_fields(world: World) -> None:
    result = report_of("ranking", world, world.model).to_dict()
    promised = {"split", "queries", "excluded", "tied", "mq", "p_at_10", "intervals", "by_length"}
    assert promised | {"seconds", "queries_per_second", "peak_rss_mb"} <= set(result)
    assert list(result["by_length"]) == ["1", "2", "3", "4"]
    assert result["queries"] + result["excluded"] == 120


@pytest.mark.parametrize("task", TASKS)
def test_every_table_is_rectangular(world: World, task: str) -> None:
    for table in report_of(task, world, world.model).tables():
        assert table.rows
        assert {len(row) for row in table.rows} == {len(table.header)}


def test_a_table_as_markdown() -> None:
    table = Table("Title", ("name", "value", "count"), (("a|b", 1.25, 12345), ("c", None, 0)), digits=2)
    assert markdown([table]) == (
        "## Title\n\n| name | value | count |\n| --- | ---: | ---: |\n| a\\|b | 1.25 | 12,345 |\n| c | – | 0 |\n"
    )


def test_metrics_of_different_sizes_have_intervals_of_their_own() -> None:
    found = mean_intervals({"a": np.ones(3), "b": np.zeros(5), "none": np.zeros(0), "c": np.full(3, 2.0)})
    assert found == {"a": (1.0, 1.0), "b": (0.0, 0.0), "c": (2.0, 2.0)}


@pytest.mark.parametrize("task", TASKS)
def test_a_comparison_is_against_the_first(world: World, task: str) -> None:
    other = IntegerModel(world.E, world.R, 3, seed=77)
    reports = {"first": report_of(task, world, world.model), "other": report_of(task, world, other)}
    comparison = compare_reports(reports)
    result = json.loads(json.dumps(comparison.to_dict(), allow_nan=False))
    assert result["against"] == "first"
    assert set(result["differences"]) == {"other"}
    for metric, found in result["differences"]["other"].items():
        expected = result["runs"]["other"][metric] - result["runs"]["first"][metric]
        assert found["difference"] == pytest.approx(expected)
        assert found["interval"][0] <= found["difference"] <= found["interval"][1]
    side_by_side, apart = comparison.tables()
    assert len(side_by_side.rows) == 2 * len(apart.rows) == 2 * len(reports["first"].metrics)
