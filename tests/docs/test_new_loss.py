"""The guide to a new loss works: made in a copy of the package, it trains, answers, and is what it says by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.pages import ROOT, apply_changes, commands, copy_package, examples, run_steps

GUIDE = ROOT / "docs" / "how-to" / "new-loss.md"
BY_HAND = """
import torch
from blockhole.runs.config import LossConfig
from blockhole.training.losses import LOSSES

positive, negative = torch.tensor([1.0, 0.0]), torch.tensor([[0.5, -3.0], [4.0, 9.0]])
counted = torch.tensor([[True, True], [True, False]])
loss = LOSSES["hinge"].formula(positive, negative, counted, LossConfig(kind="hinge", margin=2))
assert loss.item() == (1.5 + 6.0) / 2, loss
"""


def _block(language: str) -> str:
    return next(example.text for example in examples(GUIDE) if example.language == language)


@pytest.mark.slow
def test_the_new_loss_trains_and_answers(tmp_path: Path, one_core: None) -> None:
    copy_package(tmp_path)
    losses = tmp_path / "src" / "blockhole" / "training" / "losses.py"
    text, table = losses.read_text(encoding="utf-8"), "LOSSES: Mapping"
    assert text.count(table) == 1
    losses.write_text(text.replace(table, f"{_block('python')}\n\n{table}"), encoding="utf-8")
    apply_changes(_block("diff"), tmp_path)
    (console,) = [example for example in examples(GUIDE) if example.language == "console"]
    run_steps([BY_HAND, *(command.text.split() for command in commands(console.text))], tmp_path, tmp_path / "src")


def test_the_guide_is_short_and_touches_two_files() -> None:
    assert len(GUIDE.read_text(encoding="utf-8").splitlines()) <= 60
    changed = [line for line in _block("diff").splitlines() if line.startswith("#")]
    assert changed == ["# src/blockhole/runs/config.py", "# src/blockhole/training/losses.py"]
