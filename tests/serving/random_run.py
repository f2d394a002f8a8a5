"""A run of any size without training: random weights, random facts, and a calibration that nothing was fitted on."""

from __future__ import annotations

from pathlib import Path

from blockhole.answering.calibration import save_calibration
from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.models.contract import Model
from blockhole.runs.checkpoint import TrainingState
from blockhole.runs.config import TrainConfig
from blockhole.runs.writer import RunWriter
from blockhole.training.steppers import AutogradStepper
from tests.answering.toys import SIZES, calibration_by_hand, make_engine


def write_random_run(folder: Path, model: str = "blockhole", *, E: int, R: int, facts: int) -> Path:
    """A run in `folder` over entities e0, e1, … and relations r0, r1, …"""
    engine, made = make_engine(model, E=E, R=R, facts=facts)
    write_untrained(folder, model, made, engine.graph)
    save_calibration(calibration_by_hand(), folder)
    return folder


def write_untrained(folder: Path, name: str, model: Model, graph: KnowledgeGraph) -> None:
    """A run in `folder` of a model as it is."""
    config = TrainConfig(model=SIZES[name])
    folder.mkdir()
    writer = RunWriter(folder, model, AutogradStepper(model, config, graph))
    writer.begin(config, graph)
    writer.save(TrainingState(epoch=1), None, best_changed=False)
    writer.close()
