"""Runs with fewer numbers in their relations: what counts least is set to zero and no longer stored."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from blockhole.errors import ConfigError, RunError, checked
from blockhole.models.contract import Model
from blockhole.runs.checkpoint import (
    Checkpoint,
    TrainingState,
    explaining_failed_save,
    packed,
    recover,
    save_checkpoint,
)
from blockhole.runs.folder import FACTS, PARTS, VOCABULARY, write_config, write_facts, write_json, write_vocabularies
from blockhole.runs.run import Run, check_free
from blockhole.runs.writer import sole_writer


@checked
def compress_run(run: Run | Path | str, out: Path | str, keep: float = 0.5) -> Run:
    """Write to `out` the run with a share `keep` of the numbers of its relations, those that move scores most.

    A number of a block counts |w| √(E|e_i|² E|e_j|²), with the mean squares of what it joins over all entities. The new
    run loads, answers and exports as the old one, and cannot be resumed; parts.json names where it came from.
    """
    if not 0 < keep <= 1:
        raise ConfigError(f"keep must be a share above 0, at most 1, not {keep:g}.")
    run, out = run if isinstance(run, Run) else Run.open(run), Path(out)
    if run.folder is None:
        raise RunError("a run that is only in memory cannot be compressed; train it into a folder (out=…).")
    check_free(out, resumable=False)
    model = copy.deepcopy(run.model)  # whoever opened the run goes on with it
    with torch.no_grad():
        model.relation.masked_fill_(~most_important(model, keep), 0.0)
    tables = {name: value.detach() for name, value in model.state_dict().items()}
    tables |= packed("relation", tables.pop("relation"))
    state = TrainingState(epoch=run.state.epoch, paths=run.state.paths, seconds=run.state.seconds)
    training = run.config.training.model_copy(update={"epochs": run.state.epoch or None})
    # It answers without the words of names that it may have been trained on.
    config = run.config.model_copy(update={"training": training, "words": 0})
    with sole_writer(out):
        recover(out)
        with explaining_failed_save(out, then="compress again"):
            write_vocabularies(out / VOCABULARY, run.entities, run.relations)
            write_facts(out / FACTS, run.graph)
            write_json(out / PARTS, [{"run": str(run.folder.absolute()), "keep": keep}])
            write_config(out, config)
        save_checkpoint(out, Checkpoint(state, tables, {}, None, metrics_bytes=0), best_changed=False)
    return Run(config, run.entities, run.relations, state, model=model, graph=run.graph, folder=out)


def most_important(model: Model, keep: float) -> Tensor:
    """Which numbers of the relations are kept: a share `keep` of those that are not 0, bool [rows, relation width]."""
    weight = model.relation.detach().abs()
    if model.geometry is not None:
        square = model.entity.detach().view(-1, *model.geometry.entity_shape).square().mean(dim=0).sum(dim=0)
        joined = (square[:, None, :] * square[None, :, :]).sqrt()
        weight = (weight.view(-1, *model.geometry.relation_shape) * joined).view_as(weight)
    there = weight[model.relation != 0]
    count = int(np.ceil(keep * model.relation.numel()))
    if count >= len(there):
        return model.relation != 0
    return (weight >= there.topk(count).values[-1]) & (model.relation != 0)
