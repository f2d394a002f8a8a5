"""Searching settings: what is searched, that it goes on, that its best config trains, and what is refused."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import blockhole
from blockhole.data.dataset import DataSet
from blockhole.errors import BlockholeError, ConfigError, RunError
from blockhole.evaluation.plots import plot_settings
from blockhole.files.writers import write_split
from blockhole.tuning import SettingsSearch, Span, Tuned, tune
from experiments.graphs import generate

pytest.importorskip("optuna")

SPACE = ("penalty.dura=0.001..0.1:log", "model.block_size=4,8", "loss.relation_weight=0..1")
SHORT = {"model.blocks": 2, "training.steps": 20, "training.on": "base"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dense graph on disk, as several processes need it."""
    place = tmp_path_factory.mktemp("tuned")
    write_split(generate("dense").split, place / "dense")
    return place


@pytest.fixture(scope="module")
def tuned(folder: Path) -> Tuned:
    lines: list[str] = []
    found = tune(folder / "dense", folder / "search", search=SPACE, trials=3, settings=SHORT, say=lines.append)
    assert [line.split(":")[0] for line in lines] == ["trial 1", "trial 2", "trial 3"]
    return found


@pytest.mark.slow
def test_a_search_keeps_its_best_settings_for_train(tuned: Tuned) -> None:
    figures = [trial["mrr"] for trial in tuned.trials]
    assert tuned.best == max(figures)
    assert tuned.settings == tuned.trials[figures.index(tuned.best)]["settings"]
    run = blockhole.train(config=tuned.config, threads=1, device="cpu")
    assert run.config.penalty.dura == tuned.settings["penalty.dura"]
    assert run.config.model.block_size == tuned.settings["model.block_size"]
    assert run.state.best_figure == pytest.approx(100 * tuned.best)


def test_a_search_leaves_a_report_and_plots(tuned: Tuned) -> None:
    assert json.loads((tuned.folder / "report.json").read_text(encoding="utf-8")) == tuned.to_dict()
    for name in ("search", "settings"):
        assert (tuned.folder / f"{name}.png").stat().st_size > 1000
        assert "</svg>" in (tuned.folder / f"{name}.svg").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_same_call_goes_on_and_a_finished_search_says_so(tuned: Tuned, folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"search has 3 trials already; ask for more with --trials, or train with"):
        tune(folder / "dense", tuned.folder, search=SPACE, trials=3, settings=SHORT)
    more = tune(folder / "dense", tuned.folder, search=SPACE, trials=5, settings=SHORT, workers=2)
    assert [trial["number"] for trial in more.trials] == [1, 2, 3, 4, 5]
    assert more.trials[:3] == tuned.trials
    assert len({json.dumps(trial["settings"]) for trial in more.trials}) == 5
    with pytest.raises(ConfigError, match=r"holds a search of other settings or data; name a new folder\.$"):
        tune(folder / "dense", tuned.folder, search=SPACE[:1], trials=9, settings=SHORT)


def test_columns_and_literals_are_read_as_train_reads_them(folder: Path, tmp_path: Path) -> None:
    split = generate("dense").split
    for name, facts in (("train", split.train), ("valid", split.valid), ("test", split.test)):
        rows = [f"{split.relations[r]},{split.entities[o]},{split.entities[s]}" for s, r, o in facts.tolist()]
        (tmp_path / f"{name}.csv").write_text("\n".join(["what,whom,who", *rows]))
    with pytest.raises(BlockholeError, match="--columns"):
        tune(tmp_path, tmp_path / "search", trials=1, settings=SHORT)
    columns = "who,what,whom"
    found = tune(
        tmp_path, tmp_path / "search", columns=columns, literals="drop", search=SPACE, trials=1, settings=SHORT
    )
    same = tune(folder / "dense", tmp_path / "other", search=SPACE, trials=1, settings=SHORT)
    assert len(found.trials) == len(same.trials) == 1
    kept = json.loads(found.config.read_text(encoding="utf-8"))
    assert (kept["columns"], kept["literals"]) == (["who", "what", "whom"], "drop")
    run = blockhole.train(config=found.config, epochs=1, threads=1, device="cpu")
    assert len(run.graph) == len(split.train)


def test_processes_that_search_together_never_draw_from_the_same_seed(tmp_path: Path) -> None:
    search = SettingsSearch(tmp_path, None, (), {}, seed=3)
    seeds = [search.sampler_seed(number, ended) for number in range(8) for ended in range(100)]
    assert len(set(seeds)) == len(seeds)


def test_a_budget_too_short_for_one_trial_is_one_sentence(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"^no trial came to its end in 0\.001 s; give the search more time"):
        tune(folder / "dense", tmp_path / "search", seconds=0.001, settings=SHORT)


def test_a_trial_that_takes_too_long_ends_with_the_best_it_has_reached(folder: Path, tmp_path: Path) -> None:
    lines: list[str] = []
    settings = {**SHORT, "early_stop.every": 1, "training.steps": 40}
    short = tune(
        folder / "dense",
        tmp_path / "short",
        search=SPACE,
        trials=2,
        settings=settings,
        trial_seconds=1e-9,
        say=lines.append,
    )
    whole = tune(folder / "dense", tmp_path / "whole", search=SPACE, trials=1, settings=settings)
    assert [trial["reason"] for trial in short.trials] == ["cut short: it took too long"] * 2
    assert all(", cut short after " in line for line in lines)
    assert 0 < short.trials[0]["mrr"] < whole.trials[0]["mrr"]
    assert short.best == max(trial["mrr"] for trial in short.trials)
    assert whole.trials[0]["reason"] is None


def test_once_three_trials_have_ended_one_may_take_three_times_their_median(tmp_path: Path) -> None:
    search = SettingsSearch(tmp_path, None, (), {}, seed=0)
    study = search.study()
    limits = []
    for seconds in (2.0, 100.0, 5.0, 4.0):
        limits.append(search.longest(study))
        trial = study.ask()
        trial.set_user_attr("seconds", seconds)
        study.tell(trial, 0.5)
    assert [*limits, search.longest(study)] == [math.inf, math.inf, math.inf, 15.0, 13.5]
    assert replace(search, trial_seconds=7.0).longest(study) == 7.0


def test_data_that_cannot_be_searched_are_refused(tmp_path: Path) -> None:
    data = generate("dense")
    bare = DataSet("bare", replace(data.split, valid=data.split.valid[:0]))
    with pytest.raises(ConfigError, match=r"^bare has no validation facts to search by; split it"):
        tune(bare, tmp_path / "search")
    with pytest.raises(ConfigError, match=r"^workers must be at most \d+ here, four for each core, not 100000\.$"):
        tune("family", tmp_path / "search", workers=100_000)
    with pytest.raises(
        ConfigError, match=r"^trial_seconds must be more than 0; leave it out for three times the median"
    ):
        tune("family", tmp_path / "search", trial_seconds=0)
    with pytest.raises(ConfigError, match=r"^each of several workers reads the data for itself"):
        tune(data, tmp_path / "search", workers=2)
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "to whom").write_text("…", encoding="utf-8")
    with pytest.raises(BlockholeError, match="holds other things than a search; name a new folder"):
        tune(data, tmp_path / "letters")


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("penalty.dura=0.01..1:log", Span("penalty.dura", low=0.01, high=1, log=True)),
        ("model.block_size=4..16", Span("model.block_size", low=4, high=16, whole=True)),
        ("training.on=base,paths", Span("training.on", choices=("base", "paths"))),
        ("loss.relation_weight=0,0.5", Span("loss.relation_weight", choices=(0, 0.5))),
    ],
)
def test_what_is_searched_is_read(text: str, span: Span) -> None:
    assert Span.parse(text) == span


def test_few_numbers_of_a_range_are_drawn_where_they_are() -> None:
    trials = [
        {"mrr": mrr, "settings": {"penalty.dura": dura, "model.blocks": blocks}}
        for mrr, dura, blocks in ((0.7, 0.010789816816, 4), (0.6, 0.166419933, 4), (0.8, 0.0120229836, 8))
    ]
    numbers, choices = plot_settings(trials, ["penalty.dura", "model.blocks"]).axes
    assert list(map(float, np.asarray(numbers.lines[0].get_xdata()))) == [0.010789816816, 0.166419933, 0.0120229836]
    assert [label.get_text() for label in choices.get_xticklabels()] == ["4", "8"]


@pytest.mark.parametrize(
    ("search", "message"),
    [
        (("penalty.dara=1..2",), "there is no setting penalty.dara; did you mean penalty.dura?"),
        (("penalty.dura",), "write KEY=LOW..HIGH, KEY=LOW..HIGH:log or KEY=A,B,C."),
        (("penalty.dura=2..1",), "write a lower and a higher number"),
        (("penalty.dura=0..1:log",), "write a lower and a higher number, with :log above 0"),
        (("penalty.dura=a..b",), "cannot read 'a' in 'penalty.dura=a..b' as a number"),
        (("penalty.dura=-1..1",), "penalty.dura = -1 cannot be used"),
        (("penalty.dura=0..1", "penalty.dura=1,2"), "a setting is searched twice"),
        (("data=family,umls",), "data says what is trained on; search settings of how, such as penalty.dura."),
        (("training.steps=5..10",), "training.steps is set and searched; leave one of the two out."),
    ],
)
def test_what_cannot_be_searched_is_one_sentence(search: tuple[str, ...], message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        tune(generate("dense"), tmp_path / "search", search=search, settings={"training.steps": 5})
    assert message in str(refused.value)
    assert not (tmp_path / "search").exists()
