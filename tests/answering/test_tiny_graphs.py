"""Graphs of a few facts are trained on and asked like any other; what cannot be probable is still known."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

import blockhole
from blockhole.errors import BlockholeWarning, RunError
from blockhole.runs.run import Run

Facts = list[tuple[str, str, str]]
TINY: dict[str, Facts] = {
    "one fact": [("a", "r", "b")],
    "a loop": [("a", "r", "a")],
    "five facts": [("a", "r", "b"), ("b", "r", "c"), ("c", "s", "a"), ("a", "s", "d"), ("d", "r", "a")],
    "one relation": [("a", "r", "b"), ("b", "r", "c"), ("c", "r", "d")],
    "one component per fact": [(f"a{i}", "r", f"b{i}") for i in range(5)],
}


@pytest.mark.parametrize("case", TINY)
@pytest.mark.parametrize("kept", [True, False])
def test_tiny_graphs_are_trained_on_and_asked(case: str, kept: bool, tmp_path: Path) -> None:
    facts = TINY[case]
    run = blockhole.train(facts, epochs=2, threads=1, out=tmp_path / "run" if kept else None)
    source, relation, target = facts[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BlockholeWarning)  # that there are no probabilities
        known = blockhole.ask(run, f"{source}/{relation}", only="known")
        connections = blockhole.paths(run, source, target)
    assert [(answer.entity, answer.probability) for answer in known] == [(target, None)]
    assert blockhole.check(run, f"{source}/{relation}", target).holds
    explained = blockhole.explain(run, f"{source}/{relation}/^{relation}", source)
    assert (explained.status, explained.probability) == ("known", 1.0)
    for proof in explained.proofs:
        there = proof.tree.parts[0]
        assert (source, relation, there.entity) in facts
        assert (proof.tree.status, there.status, proof.probability) == ("known", "known", 1.0)
    assert explained.proofs
    assert connections[0].path in ((relation, f"^{relation}") if source == target else (relation,))
    assert {path.status for path in connections} == {"known"}


def test_what_only_a_model_knows_needs_a_calibration() -> None:
    run = blockhole.train(TINY["five facts"], epochs=2, threads=1)
    for verb in (blockhole.check, blockhole.explain):
        with pytest.raises(RunError, match="the run has no calibration, so shares cannot become probabilities"):
            verb(run, "a/r", "c")


@pytest.mark.parametrize(("valid", "said"), [
    ("", r"its data no validation facts to fit one on; set some aside with `blockhole data split "),
    ("a\tr\tc\nb\tr\ta\n", "its data 2 validation facts, where it takes 10 to fit one"),
    ("".join(f"a\tr\tn{i}\n" for i in range(10)), "make it with `blockhole calibrate "),
])  # fmt: skip
def test_what_a_run_without_probabilities_lacks(valid: str, said: str, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "train.tsv").write_text("".join("\t".join(fact) + "\n" for fact in TINY["five facts"]))
    run = blockhole.train(data, epochs=1, threads=1, out=tmp_path / "run")
    if valid:
        (data / "valid.tsv").write_text(valid)
    with pytest.warns(BlockholeWarning, match=said):
        blockhole.ask(run, "a/r")


@pytest.fixture(scope="module")
def in_memory() -> Run:
    """A run over the royal family that no folder keeps."""
    return blockhole.train(blockhole.load("family"), epochs=2, threads=1)


@pytest.mark.slow
def test_a_run_in_memory_is_calibrated_on_its_validation_facts(in_memory: Run) -> None:
    answers = blockhole.ask(in_memory, "William/^fatherOf/brotherOf/fatherOf", top=3)
    assert all(answer.probability is not None for answer in answers)
    assert blockhole.explain(in_memory, "William/^fatherOf", "Charles").status == "predicted"


@pytest.mark.slow
def test_a_run_shows_itself_in_a_notebook(tmp_path: Path) -> None:
    run = blockhole.train([("<a>", "r", "b")], epochs=2, threads=1, out=tmp_path / "<run>")
    shown = run._repr_html_()
    assert shown.startswith("<table><caption>Run</caption><tr><th>model</th><td>blockhole</td></tr>")
    assert "<th>trained</th><td>epoch 2</td>" in shown
    assert "&lt;run&gt;</td></tr></table>" in shown
    first, last = (float(loss) for row in run.metrics() if (loss := row.get("loss")) is not None)
    assert shown.count('<polyline points="0.0,0.0 300.0,80.0"') == (first > last)
    assert shown.endswith(f"<figcaption>loss by epoch: {first:.4f} to {last:.4f}</figcaption></figure>")
    assert "<svg" not in blockhole.train([("a", "r", "b")], epochs=2, threads=1)._repr_html_()
