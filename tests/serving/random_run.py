"""A run of any size without training: random weights, random facts, and a calibration that nothing was fitted on."""

from __future__ import annotations

from pathlib import Path

from blockhole.answering.calibration import save_calibration
from blockhole.runs.checkpoint import TrainingState
from blockhole.runs.config import TrainConfig
from blockhole.runs.writer import RunWriter
from blockhole.training.steppers import AutogradStepper
from tests.answering.toys import SIZES, calibration_by_hand, make_engine


def write_random_run(folder: Path, *, E: int, R: int, facts: int) -> Path:
    """A run in `folder` over entities e0, e1, … and relations r0, r1, …"""
    engine, model = make_engine(E=E, R=R, facts=facts)
    config = TrainConfig(model=SIZES["blockhole"])
    folder.mkdir()
    writer = RunWriter(folder, model, AutogradStepper(model, config, engine.graph))
    writer.begin(config, engine.graph)
    writer.save(TrainingState(epoch=1), None, best_changed=False)
    writer.close()
    save_calibration(calibration_by_hand(), folder)
    return folder
