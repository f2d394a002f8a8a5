"""From settings to a model: sizes, defaults, parameter counts, and what does not fit."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from blockhole.errors import ConfigError
from blockhole.models.blockhole import BlockHolE
from blockhole.models.catalogue import MODELS, OWN_MODELS, ModelSettings, build_model, find_model, name_of, settings_of
from blockhole.models.complex import ComplEx
from blockhole.models.contract import Model
from blockhole.models.spatial import BlockHolESpatial

E, R = 13, 4


def test_every_name_has_a_model_of_that_name() -> None:
    for name, place in MODELS.items():
        model = build_model(ModelSettings(name=name), E, R, seed=0)
        assert f"{type(model).__module__}:{type(model).__name__}" == place
        assert name_of(type(model)) == name


@pytest.mark.parametrize("name", list(MODELS))
def test_a_model_tells_the_settings_it_can_be_built_from(name: str) -> None:
    size = {"blocks": 3, "block_size": 4} if find_model(name).sized_by_blocks else {"dim": 12}
    for inverses in ("own", "tied"):
        given = ModelSettings.model_validate({"name": name, "inverses": inverses, **size})
        model = build_model(given, E, R, seed=0)
        assert settings_of(model) == given
        assert settings_of(model, (12, 24)).dimension == 36


OWN = """
from typing import final
from blockhole.models.contract import Model, Widths

@final
class Still(Model):
    @classmethod
    def layout(cls, dim, blocks):
        return Widths(dim, 1)

    def hop(self, vector, relation):
        return vector

number = 3
"""


def test_a_class_of_ones_own_is_found_where_it_is_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "still_model.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delenv(OWN_MODELS, raising=False)

    def refused(name: str) -> str:
        with pytest.raises(ConfigError) as error:
            ModelSettings(name=name)
        return str(error.value)

    name = "still_model:Still"
    assert refused(name) == f"the model {name} is not one of blockhole's; if you trust it, set BLOCKHOLE_MODELS={name}."
    assert "still_model" not in sys.modules
    monkeypatch.setenv(OWN_MODELS, f"absent_model:Absent, {name}")
    try:
        model = build_model(ModelSettings(name=name, dim=4), E, R, seed=0)
        assert model.entity.shape == (E, 4)
        assert type(model) is find_model(name_of(type(model)))
        assert refused("absent_model:Absent") == (
            "cannot load the model absent_model:Absent: No module named 'absent_model'; put the folder of absent_model "
            "on PYTHONPATH."
        )
        for wrong in ("number", "absent", "Model"):
            message = f"still_model has no model {wrong}; it must be a class that implements Model."
            assert refused(f"still_model:{wrong}") == message
        assert refused("?").endswith("analogy, simple, absent_model:Absent, still_model:Still.")
        monkeypatch.delenv(OWN_MODELS)
        assert find_model(name) is type(model)  # whoever imported it trusts it
    finally:
        sys.modules.pop("still_model", None)


@pytest.mark.parametrize(
    ("model", "given", "message"),
    [
        (BlockHolE, {"dim": 6}, "BlockHolE takes blocks and block_size, and no dim"),
        (ComplEx, {}, "ComplEx takes dim, and neither blocks nor block_size"),
        (ComplEx, {"dim": 6, "blocks": 2}, "ComplEx takes dim, and neither blocks nor block_size"),
    ],
)
def test_a_constructor_takes_the_sizes_of_its_model(model: type[Model], given: dict[str, int], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        model(E, R, **given)  # type: ignore[arg-type]


def test_settings_load_without_torch() -> None:
    program = "import sys, blockhole.models.catalogue, blockhole.runs.config; print('torch' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "False"


@pytest.mark.parametrize(
    ("blocks", "block_size", "dim", "shape"),
    [
        (None, None, None, (2, 25)),
        (4, None, None, (4, 25)),
        (None, 10, None, (2, 10)),
        (None, None, 100, (2, 50)),
        (4, None, 100, (4, 25)),
        (None, 20, 100, (5, 20)),
        (4, 25, 100, (4, 25)),
        (1, None, 7, (1, 7)),
    ],
)
def test_blocks_block_size_and_dim_determine_each_other(
    blocks: int | None, block_size: int | None, dim: int | None, shape: tuple[int, int]
) -> None:
    settings = ModelSettings(blocks=blocks, block_size=block_size, dim=dim)
    assert settings.block_shape == shape
    assert settings.dimension == shape[0] * shape[1]


def test_other_models_have_fifty_dimensions_unless_told() -> None:
    assert ModelSettings(name="complex").dimension == 50
    assert ModelSettings(name="rescal", dim=30).dimension == 30


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"dim": 51}, "b·m does not fit dim: 51 cannot be cut into 2 blocks; choose a multiple."),
        (
            {"dim": 50, "blocks": 3},
            "b·m does not fit dim: 50 cannot be cut into 3 blocks; choose a multiple.",
        ),
        (
            {"dim": 50, "block_size": 60},
            "b·m does not fit dim: 50 cannot be cut into blocks of size 60; choose a multiple.",
        ),
        (
            {"dim": 50, "blocks": 2, "block_size": 24},
            "b·m does not fit dim: 2 blocks of size 24 make 48, not 50; leave one of the three out.",
        ),
        (
            {"name": "complex", "blocks": 2},
            "blocks and block size belong to blockhole, not to complex; give its size with dim.",
        ),
        ({"name": "blokhole"}, "unknown model 'blokhole'; did you mean blockhole?"),
        ({"name": "ComplEx"}, "unknown model 'ComplEx'; did you mean complex?"),
        (
            {"name": "?"},
            "unknown model '?'; the models are blockhole, blockhole-spatial, rescal, distmult, complex, hole, transe, "
            "analogy, simple.",
        ),
    ],
)
def test_what_does_not_fit_is_said_at_once(given: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        ModelSettings.model_validate(given)
    assert str(error.value) == message


@pytest.mark.parametrize(
    "given",
    [
        {"blocks": 0},
        {"block_size": -1},
        {"dim": 0},
        {"inverses": "both"},
        {"entity_scale": 0.0},
        {"entity_scale": float("nan")},
        {"relation_scale": float("inf")},
        {"size": 3},
    ],
)
def test_a_value_out_of_range_is_refused(given: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match=next(iter(given))):
        ModelSettings.model_validate(given)


def test_every_field_carries_its_help() -> None:
    assert all(field.description for field in ModelSettings.model_fields.values())


@pytest.mark.parametrize("inverses", ["own", "tied"])
@pytest.mark.parametrize(("b", "m"), [(1, 5), (2, 25), (3, 4), (7, 1)])
def test_parameter_counts_are_the_papers(b: int, m: int, inverses: str) -> None:
    """Spatial bm|E| + b²m|R|, Fourier 2n|E| + 2bn|R|; R counts the relations with parameters of their own."""
    relations = R if inverses == "tied" else 2 * R
    size = {"blocks": b, "block_size": m, "inverses": inverses}
    spatial = build_model(ModelSettings.model_validate({"name": "blockhole-spatial", **size}), E, R, seed=0)
    fourier = build_model(ModelSettings.model_validate({"name": "blockhole", **size}), E, R, seed=0)
    n = b * m
    assert spatial.parameter_count() == b * m * E + b * b * m * relations
    assert fourier.parameter_count() == 2 * n * E + 2 * b * n * relations


@pytest.mark.parametrize(
    ("name", "per_entity", "per_relation"),
    [
        ("rescal", 6, 36),
        ("distmult", 6, 6),
        ("complex", 12, 12),
        ("hole", 6, 6),
        ("transe", 6, 6),
        ("analogy", 6, 6),
        ("simple", 12, 12),
    ],
)
def test_parameter_counts_of_the_other_models(name: str, per_entity: int, per_relation: int) -> None:
    model = build_model(ModelSettings(name=name, dim=6), E, R, seed=0)
    assert model.parameter_count() == per_entity * E + per_relation * 2 * R


def test_scales_are_standard_deviations() -> None:
    settings = ModelSettings(name="blockhole", blocks=2, block_size=50, entity_scale=0.3, relation_scale=0.7)
    model = build_model(settings, 500, 200, seed=0)
    assert float(model.entity.detach().std()) == pytest.approx(0.3, rel=0.05)
    assert float(model.relation.detach().std()) == pytest.approx(0.7, rel=0.05)


def test_a_model_without_blocks_is_refused() -> None:
    with pytest.raises(ValueError, match="b and m must be at least 1, not b=0, m=3"):
        BlockHolE(E, R, blocks=0, block_size=3)
    with pytest.raises(ValueError, match="b and m must be at least 1, not b=2, m=0"):
        BlockHolESpatial(E, R, blocks=2, block_size=0)
    with pytest.raises(ValueError, match="dim must be at least 1, not 0"):
        ComplEx(E, R, dim=0)
