"""Settings: where they come from, and what is said about bad ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from blockhole.errors import ConfigError, DamagedRun
from blockhole.runs.config import (
    PRESETS,
    TrainConfig,
    flatten,
    gather,
    known_keys,
    parse_assignment,
    read_config_file,
    validate,
)
from blockhole.runs.folder import read_config, write_config


def test_later_sources_win(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("[optimizer]\nlearning_rate = 0.25\n[training]\nepochs = 7\n", encoding="utf-8")
    asked = gather(preset="paper", file=file, overrides={"training.epochs": 9})
    config = validate(asked)
    assert config.loss.negatives == 5  # the preset's
    assert config.optimizer.learning_rate == 0.25  # the file's, over the preset's
    assert config.training.epochs == 9  # the caller's, over the file's
    assert config.early_stop.queries == TrainConfig().early_stop.queries  # nobody's: the default


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_are_valid(preset: str) -> None:
    config = validate(gather(preset=preset))
    assert set(flatten(gather(preset=preset))) <= set(known_keys())
    sized = preset == "small" or preset.startswith(("best-", "queries"))
    assert (config.model == TrainConfig().model) is not sized  # otherwise sizes are the user's choice


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.toml", "[training]\nepochs = 3\n"),
        ("a.yaml", "training:\n  epochs: 3\n"),
        ("a.yml", "training: {epochs: 3}\n"),
        ("a.json", '{"training": {"epochs": 3}}'),
    ],
)
def test_file_formats(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert read_config_file(tmp_path / name) == {"training": {"epochs": 3}}


def test_as_many_threads_as_no_machine_has() -> None:
    with pytest.raises(ConfigError, match=r"training\.threads = 100000 cannot be used: it must be at most"):
        validate({"training": {"threads": 100_000}})


def test_a_time_that_is_none_is_refused_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("!!timestamp x: 1\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"a value with the tag !!timestamp is not a time"):
        read_config_file(tmp_path / "config.yaml")


def test_yaml_knows_the_setting_on(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(
        "training:\n  on: base\nloss: {mask_known_answers: true, self_adversarial: 1.5}\n", encoding="utf-8"
    )
    assert read_config_file(file) == {
        "training": {"on": "base"},
        "loss": {"mask_known_answers": True, "self_adversarial": 1.5},
    }


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.toml", b"[training", "is not valid TOML"),
        ("a.json", b"{", "is not valid JSON"),
        ("a.yaml", b"a: [", "is not valid YAML"),
        ("a.yaml", b"just words", "must hold sections of settings, such as [training]."),
        ("a.ini", b"", "must end in .toml, .yaml or .json."),
        ("a.toml", b"\xff", "is not UTF-8 text; save it as UTF-8."),
        ("a.toml", b"a = " + b"[" * 50_000, "is nested too deeply; write sections of settings."),
        ("a.yaml", b"[" * 50_000, "is nested too deeply; write sections of settings."),
        ("a.json", b"[" * 50_000, "is not valid JSON: it is nested too deeply"),
        ("a.yaml", b"loss:\n" * 50_000, "is larger than 64 KB; name a file of settings."),
        ("a.yaml", b"a: &a 1\nb: [" + b"*a, " * 17 + b"]", "more than 16 aliases; write out what they stand for"),
    ],
)
def test_bad_files(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        read_config_file(tmp_path / name)
    assert said in str(caught.value)
    assert str(tmp_path / name) in str(caught.value)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read the config file .* \(No such file or directory\)"):
        read_config_file(tmp_path / "none.toml")


BAD: list[tuple[dict[str, Any], str]] = [
    (
        {"optimizer.learning_rate": -0.1},
        "optimizer.learning_rate = -0.1 cannot be used: it must be more than 0 (step size).",
    ),
    (
        {"optimizer.learning_rate": float("nan")},
        "optimizer.learning_rate = nan cannot be used: it must be a finite number (step size).",
    ),
    (
        {"penalty.l2": -1},
        "penalty.l2 = -1 cannot be used: it must be at least 0 "
        "(weight of the squared norm of a positive's parameters (λ in the paper)).",
    ),
    (
        {"penalty.dura": float("nan")},
        "penalty.dura = nan cannot be used: it must be a finite number (weight of ‖e_s‖² + ‖query vector‖² + ‖e_o‖²).",
    ),
    (
        {"training.on": "edges"},
        "training.on = 'edges' cannot be used: it must be 'base' or 'paths' "
        "(base: the train edges; paths: the train edges and paths over them).",
    ),
    ({"learning_rate": 1}, "there is no setting learning_rate; did you mean optimizer.learning_rate?"),
    (
        {"optimizer.learning_rat": 1},
        "there is no setting optimizer.learning_rat; did you mean optimizer.learning_rate?",
    ),
    (
        {"zzz.q": 1},
        "there is no setting zzz; the sections are data, columns, literals, names, texts, words, choice, model, "
        "loss, penalty, optimizer, training, early_stop.",
    ),
    (
        {"\udcff": 1},  # as a command line that is not UTF-8 gives it
        "there is no setting '\\udcff'; the sections are data, columns, literals, names, texts, words, choice, model, "
        "loss, penalty, optimizer, training, early_stop.",
    ),
    (
        {"training.epochs": [[[[[1]]]]]},
        "training.epochs = [[[[...]]]] cannot be used: it must be a whole number "
        "(passes over the positives; absent: as many as make up `steps`).",
    ),
    ({"model.name": "blokhole"}, "unknown model 'blokhole'; did you mean blockhole?"),
    (
        {"model.blocks": 3, "model.block_size": 5, "model.dim": 16},
        "b·m does not fit dim: 3 blocks of size 5 make 15, not 16; leave one of the three out.",
    ),
    (
        {"loss.kind": "softmax", "loss.self_adversarial": 1.0},
        "loss: self_adversarial weights need kind = 'logistic'; softmax already weighs negatives by their scores.",
    ),
    (
        {"loss.kind": "softmax", "loss.balanced": True},
        "loss: balanced needs kind = 'logistic'; the scores of softmax are not log odds.",
    ),
    (
        {"loss.kind": "softmax", "loss.typed_share": 0.5},
        "loss: typed_share needs sampled negatives; softmax takes every entity.",
    ),
    (
        {"loss.kind": "logistic", "loss.rare_weight": 0.1},
        "loss: rare_weight needs kind = 'softmax' or 'sampled_softmax'.",
    ),
    (
        {"model.name": "transe", "model.dim": 4, "penalty.dura_back": 0.1},
        "penalty.dura_back needs one of the models analogy, blockhole, blockhole-spatial, complex, distmult, hole, "
        "rescal, not transe.",
    ),
    (
        {"model.name": "transe", "model.dim": 4, "penalty.rules": 0.1},
        "penalty.rules needs one of the models analogy, blockhole, blockhole-spatial, complex, distmult, hole, rescal, "
        "not transe.",
    ),
    (
        {"model.name": "distmult", "model.dim": 4, "penalty.l1_product": 0.1},
        "penalty.l1_product needs imaginary parts, those of blockhole or complex, not distmult.",
    ),
]


@pytest.mark.parametrize(("settings", "said"), BAD)
def test_bad_settings_are_named(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        validate(gather(overrides=settings))
    assert str(caught.value) == said


def test_settings_are_sections() -> None:
    with pytest.raises(ConfigError, match="settings are sections with keys and values"):
        validate([])  # type: ignore[arg-type]


def test_unknown_preset() -> None:
    with pytest.raises(
        ConfigError, match=r"^unknown preset 'quick'; the presets are paper, small, .*, queries-walks\.$"
    ):
        gather(preset="quick")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a.b=1", 1),
        ("a.b=0.5", 0.5),
        ("a.b=adam", "adam"),
        ("a.b=true", True),
        ("a.b=['x']", ["x"]),
        ("a.b = x=y", "x=y"),
        ("a.b=", None),
        ("a.b = ", None),
        ("a.b=" + "[" * 50_000, "[" * 50_000),
        ("a.b=" + "9" * 50_000, "9" * 50_000),
    ],
)
def test_assignments(text: str, value: object) -> None:
    assert parse_assignment(text) == ("a.b", value)


@pytest.mark.parametrize("text", ["adam", "=adam", "="])
def test_an_assignment_needs_a_key(text: str) -> None:
    with pytest.raises(ConfigError, match=f"cannot read the setting '{text}'; write it as KEY=VALUE"):
        parse_assignment(text)


def test_an_assignment_takes_a_setting_of_the_preset_back() -> None:
    assert validate(gather(preset="best")).early_stop.metric == "mq"
    config = validate(gather(preset="best", overrides=dict([parse_assignment("early_stop.metric=")])))
    assert config.early_stop == TrainConfig().early_stop.model_copy(update={"patience": 3})
    with pytest.raises(ConfigError, match=r"^training\.batch_size = None cannot be used: it must be a whole number"):
        validate(gather(overrides=dict([parse_assignment("training.batch_size=")])))


def test_configuration_survives_json() -> None:
    config = validate(gather(preset="best", overrides={"model.dim": 12, "data": "wn11"}))
    assert validate(json.loads(json.dumps(config.model_dump(mode="json")))) == config


def test_every_setting_is_described() -> None:
    def undescribed(section: type[Any], prefix: str = "") -> list[str]:
        return [f"{prefix}{name}" for name, field in section.model_fields.items() if not field.description] + [
            missing
            for name, field in section.model_fields.items()
            if hasattr(field.annotation, "model_fields")
            for missing in undescribed(field.annotation, f"{prefix}{name}.")
        ]

    assert undescribed(TrainConfig) == []


def test_the_documentation_lists_every_setting() -> None:
    text = (Path(__file__).parents[2] / "docs" / "reference" / "settings.md").read_text(encoding="utf-8")
    listed = {line.split("`")[1] for line in text.splitlines() if line.startswith("| `") and line.count("|") == 5}
    assert set(known_keys()) <= listed


def test_the_settings_of_a_run_serve_another_also_when_they_were_changed(tmp_path: Path) -> None:
    write_config(tmp_path, TrainConfig())
    sealed = (tmp_path / "config.json").read_text(encoding="utf-8")
    (tmp_path / "config.json").write_text(sealed.replace('"seed": 0', '"seed": 7'), encoding="utf-8")
    settings = read_config_file(tmp_path / "config.json")
    assert validate(settings) == validate({"training": {"seed": 7}})
    with pytest.raises(DamagedRun, match=r'not what was saved; if you changed it yourself, take "seal" out of it$'):
        read_config(tmp_path)
