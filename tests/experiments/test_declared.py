"""The declared experiments, and the names they are asked for by."""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest

from blockhole.errors import ConfigError
from blockhole.models.catalogue import ModelSettings, build_model
from experiments.declared import TABLES, TableName, find_experiments, patterns, read_declaration

EDGES = ("completion", "queries", "rules")
"""Tables of models that are trained on edges."""


@pytest.mark.parametrize("table", TABLES)
def test_every_declared_experiment_has_valid_settings(table: TableName) -> None:
    plan = read_declaration(table)
    found = find_experiments([table])
    assert len(found) == sum(len(plan.columns_of(data)) for data in plan.data) * len(plan.seeds)
    assert {f"{experiment.data}/{experiment.column}" for experiment in found}.isdisjoint(plan.leave_out)
    assert len({experiment.name for experiment in found}) == len(found)


@pytest.mark.parametrize("table", TABLES)
def test_every_rule_is_for_some_column(table: TableName) -> None:
    plan = read_declaration(table)
    names = [f"{data}/{column}" for data in plan.data for column in plan.columns_of(data)]
    assert {f"{data}/{column}" for data in plan.data for column in plan.columns} >= set(plan.leave_out)
    for pattern in (each for rule in plan.settings for each in patterns(rule)):
        assert any(fnmatchcase(name, pattern) for name in names), pattern


def test_columns_are_the_models_they_are_named_after() -> None:
    for experiment in find_experiments([*TABLES]):
        name, _, size = experiment.column.removesuffix("-edges").removesuffix("-corrupted").partition("-")
        model = experiment.config.model
        if name != "best" and size:
            assert model.name == name, experiment.name
            shape = "x".join(map(str, model.block_shape)) if "x" in size else str(model.dim)
            assert shape == size, experiment.name
        assert (
            experiment.config.training.on
            == (
                "base"
                if "edges" in experiment.column or experiment.table in ("completion", "queries", "rules")
                else "paths"
            )
            or name == "best"
        ), experiment.name


def test_the_papers_training_is_the_papers() -> None:
    for experiment in find_experiments(["classification/*/complex-50", "classification/*/blockhole-*", "order"]):
        config, corrupted = experiment.config, experiment.column.endswith("-corrupted")
        assert config.loss.kind == "logistic"
        assert config.training.epochs is not None
        assert config.training.epochs <= 500
        assert (config.loss.corrupted_paths > 0) == corrupted
        if not corrupted:
            assert config.loss.negatives == 5


def test_order_is_not_stopped_early() -> None:
    assert all(experiment.config.early_stop.metric is None for experiment in find_experiments(["order"]))


def test_names_come_in_the_order_asked_for_and_once() -> None:
    names = ["ranking/fb13/complex-50-seed1", "ranking/*/complex-50", "ranking/wn11/complex-50"]
    assert [experiment.name for experiment in find_experiments(names, seeds=[0, 1])] == [
        "ranking/fb13/complex-50-seed1",
        "ranking/wn11/complex-50-seed0",
        "ranking/fb13/complex-50-seed0",
        "ranking/wn11/complex-50-seed1",
    ]


def test_overrides_go_over_the_declaration_and_other_data_may_be_named() -> None:
    (found,) = find_experiments(["ranking/umls/complex-50-seed7"], split="dev", overrides={"training.epochs": 3})
    assert (found.data, found.seed, found.config.training.epochs) == ("umls", 7, 3)
    assert found.name == "ranking/umls/complex-50-seed7-dev"
    assert found.config.data == "umls"


def test_overrides_of_what_is_declared_beside_the_settings() -> None:
    overrides = {"words": 3, "lean": 0.5, "members": 2}
    (found,) = find_experiments(["ranking/wn11/complex-50-seed0"], overrides=overrides)
    assert (found.words, found.lean, found.members) == (3, 0.5, 2)
    with pytest.raises(ConfigError, match=r"^members = 0 cannot be used: it must be at least 1 \("):
        find_experiments(["ranking/wn11/complex-50"], overrides={"members": 0})
    with pytest.raises(ConfigError, match=r"^lean = 'far' cannot be used: it must be a number"):
        find_experiments(["ranking/wn11/complex-50"], overrides={"words": 1, "lean": "far"})
    with pytest.raises(ConfigError, match=r"^rows can lean on the words of names only where words are trained on"):
        find_experiments(["ranking/wn11/complex-50"], overrides={"lean": 1.0})


def test_columns_of_queries_are_models_of_edges_and_on_nell_those_with_a_model_of_paths_beside() -> None:
    (alone,) = find_experiments(["queries/fb15k-237-q2b"], seeds=[0])
    assert (alone.column, alone.beside, alone.words, alone.config.loss.relation_weight) == ("best", {}, 0, 4.0)
    assert [config.training.seed for config in alone.trainings] == [0]
    merged, best = find_experiments(["queries/nell"], seeds=[0])
    assert (merged.settings, merged.beside) == (best.settings, best.beside)
    assert (merged.words, best.words) == (0, 1)
    edges, paths = merged.trainings
    assert (edges.model, edges.loss.relation_weight) == (alone.config.model, 0.0)
    assert edges.model.dimension == 1024
    assert paths.loss.relation_weight == 0
    assert [config.training.seed for config in (edges, paths)] == [0, 1]
    assert (paths.training.on, paths.training.walks, paths.training.epochs) == ("paths", "fresh", 8)
    # Its scales are those that a model has which names none.
    plain = build_model(ModelSettings(blocks=2, block_size=256), 3, 2, seed=0)
    assert (paths.model.entity_scale, paths.model.relation_scale) == (plain.entity_scale, plain.relation_scale)


def test_data_sets_that_would_write_over_each_others_records_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"^a/town and b/town would have the same records, ranking/town/best-seed0; "):
        find_experiments(["ranking/a/town/best", "ranking/b/town/best"])


def test_names_that_mean_nothing() -> None:
    with pytest.raises(ConfigError, match=r"^rankin: there is no table 'rankin'; did you mean ranking\?$"):
        find_experiments(["rankin"])
    with pytest.raises(ConfigError, match=r"there is no table 'x'; the tables are ranking, classification, order"):
        find_experiments(["x/wn11"])
    with pytest.raises(ConfigError, match=r"^order/fb13/hole: the table order has no column 'hole'; its columns are"):
        find_experiments(["order/fb13/hole"])
    with pytest.raises(ConfigError, match=r"training.seed = -1 cannot be used"):
        find_experiments(["ranking/wn11/best"], seeds=[-1])


def test_settings_of_a_record_that_knows_fewer_keys() -> None:
    """A setting that came later has its default in older records, so they stay valid."""
    (found,) = find_experiments(["ranking/wn11/best-seed0"])
    kept = found.settings
    assert found.has_settings(kept)
    del kept["early_stop"]["patience"]
    assert found.has_settings(kept)
    kept["training"]["seed"] = 1
    assert not found.has_settings(kept)
    assert not found.has_settings({"no": "settings"})
