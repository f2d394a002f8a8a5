"""Ten mistakes that a stranger makes, and the sentence that each is met with."""

from __future__ import annotations

from pathlib import Path

from tests.journey.conftest import Blockhole
from tests.journey.towns import FILE, iri

BORN = iri("née à")


def _failure(blockhole: Blockhole, *arguments: object) -> str:
    """What a command prints that fails for a reason the user can act on: one error, no traceback, no output."""
    outcome = blockhole(*arguments)
    assert (outcome.status, outcome.out) == (1, ""), outcome
    assert outcome.err.startswith("error: ")
    assert "Traceback" not in outcome.err
    return outcome.err.removeprefix("error: ").rstrip("\n")


def _refusal(blockhole: Blockhole, *arguments: object) -> str:
    """What a command prints that is typed wrongly."""
    outcome = blockhole(*arguments)
    assert (outcome.status, outcome.out) == (2, ""), outcome
    return outcome.err


def test_1_a_verb_is_misspelt(blockhole: Blockhole) -> None:
    assert "Did you mean 'train'?" in _refusal(blockhole, "trian", "--data", FILE)


def test_2_the_file_is_elsewhere(blockhole: Blockhole) -> None:
    assert _failure(blockhole, "train", "--data", "mes donnees.ttl", "--out", "x") == (
        "there is no data set, file or folder 'mes donnees.ttl'; the data sets are family, wn11, fb13, fb15k-237, "
        "wn18rr, umls, kinship. A file or a folder of facts can be given too."
    )


def test_3_turtle_with_a_space_in_a_name(blockhole: Blockhole, folder: Path) -> None:
    (folder / "faux.ttl").write_text("<http://ex.org/São Paulo> <http://ex.org/in> <http://ex.org/Brésil> .\n")
    assert _failure(blockhole, "train", "--data", "faux.ttl", "--out", "x") == (
        "faux.ttl: an empty IRI, a character that IRIs cannot hold, or a triple inside a triple in "
        "<http://ex.org/São Paulo> <http://ex.org/in> <http://ex.org/Brésil> .; "
        "write plain IRIs (a space is %20), blank nodes and literals."
    )


def test_4_a_name_without_its_address(blockhole: Blockhole, run: str) -> None:
    sentence, *drawn = _failure(blockhole, "ask", run, f"Zoë_Müller/{BORN}").splitlines()
    assert sentence.startswith("unknown entity 'Zoë_Müller'; did you mean ")
    assert iri("Zoë Müller") in sentence
    assert drawn == [f"  Zoë_Müller/{BORN}", "  ^"]


def test_5_a_space_without_quotes(blockhole: Blockhole, run: str) -> None:
    assert _failure(blockhole, "ask", run, f"Zoë Müller/{BORN}") == (
        f'expected / here; put a name with spaces or punctuation in double quotes: "a b"\n  Zoë Müller/{BORN}\n      ^'
    )


def test_6_a_run_in_the_way(blockhole: Blockhole, run: str) -> None:
    assert _failure(blockhole, "train", "--data", "facts", "--out", run) == (
        f"{run} already holds a run, at epoch 60; add --resume to continue it, or choose another folder."
    )


def test_7_a_setting_is_misspelt(blockhole: Blockhole) -> None:
    assert _failure(blockhole, "train", "--data", FILE, "--out", "x", "--set", "optimizer.learning_rat=0.1") == (
        "there is no setting optimizer.learning_rat; did you mean optimizer.learning_rate?"
    )


def test_8_a_folder_that_is_no_run(blockhole: Blockhole) -> None:
    assert _failure(blockhole, "ask", "mes runs 2", "a/b") == (
        "there is no run mes runs 2; train one with: blockhole train --data NAME --out 'mes runs 2'"
    )


def test_9_measuring_without_facts_set_aside(blockhole: Blockhole, unsplit_run: str) -> None:
    assert _failure(blockhole, "evaluate", unsplit_run).endswith(
        f"{FILE} is empty; choose another split, or data that has it: `blockhole data split` sets facts aside."
    )


def test_10_probabilities_without_facts_set_aside(blockhole: Blockhole, unsplit_run: str) -> None:
    """One sentence leads to the next."""
    first = _failure(blockhole, "explain", unsplit_run, f"{iri('Zoë Müller')}/{BORN}", "http://exemple.org/São_Paulo")
    assert first == (
        "tout has no calibration for its weights, which turns scores into probabilities; "
        "make it with `blockhole calibrate tout`."
    )
    assert _failure(blockhole, "calibrate", unsplit_run).endswith(
        f"{FILE} has no validation facts, on which probabilities are measured; set some aside with "
        "`blockhole data split` and train on what it writes, or name other data with --data."
    )
