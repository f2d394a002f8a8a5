"""Runs merged into one whose scores are the sum of theirs: a run like any other, but that it cannot be resumed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from blockhole.errors import ConfigError, RunError, checked
from blockhole.models.contract import Model
from blockhole.models.merging import merge_models, merged_settings
from blockhole.runs.checkpoint import (
    BEST,
    WEIGHTS,
    Checkpoint,
    TrainingState,
    explaining_failed_save,
    read_record,
    recover,
    save_checkpoint,
)
from blockhole.runs.config import TrainConfig
from blockhole.runs.folder import FACTS, PARTS, VOCABULARY, write_config, write_facts, write_json, write_vocabularies
from blockhole.runs.run import Run, check_free
from blockhole.runs.writer import sole_writer
from blockhole.saving import sha256_of


@checked
def merge_runs(runs: Sequence[Run | Path | str], out: Path | str, weights: Sequence[float] | None = None) -> Run:
    """Write to `out` the run with φ = Σ_k w_k φ_k over runs that are kept in folders; each w_k is 1 unless given.

    It has the facts and names of its parts, which must be the same, the most epochs that one of them has, and otherwise
    the settings of the first. parts.json names each part, its weight, the SHA-256 of the file its weights were in, and
    its settings.
    """
    out, parts = Path(out), [_folder(run) for run in runs]
    opened = [Run.open(part) for part in parts]
    if len(opened) < 2:
        raise ConfigError(f"merging takes two runs or more, not {len(opened)}.")
    check_free(out, resumable=False)
    digests = [_digest(part) for part in parts]
    first = opened[0]
    for other in opened[1:]:
        _check_same_data(first, other)
    model = merge_models([run.model for run in opened], weights)
    epoch = max(run.state.epoch for run in opened)
    config = _merged_config(first.config, [run.model for run in opened], epoch)
    state = TrainingState(
        epoch=epoch,
        paths=sum(run.state.paths for run in opened),
        seconds=sum(run.state.seconds for run in opened),
    )
    tensors = {name: value.detach() for name, value in model.state_dict().items()}
    with sole_writer(out):
        recover(out)
        with explaining_failed_save(out, then="merge again"):
            write_vocabularies(out / VOCABULARY, first.entities, first.relations)
            write_facts(out / FACTS, first.graph)
            _write_parts(out, parts, opened, weights or [1.0] * len(opened), digests)
            write_config(out, config)
        save_checkpoint(out, Checkpoint(state, tensors, {}, None, metrics_bytes=0), best_changed=False)
    return Run(config, first.entities, first.relations, state, model=model, graph=first.graph, folder=out)


def _folder(run: Run | Path | str) -> Path:
    if not isinstance(run, Run):
        return Path(run)
    if run.folder is None:
        raise RunError("a run that is only in memory cannot be merged; train it into a folder (out=…).")
    return run.folder


def _merged_config(first: TrainConfig, models: Sequence[Model], epochs: int) -> TrainConfig:
    training = first.training.model_copy(update={"epochs": epochs or None})
    # Parts answer without the words of names that they were trained on, and so does what is made of them.
    return first.model_copy(update={"model": merged_settings(models), "training": training, "words": 0})


def _check_same_data(first: Run, other: Run) -> None:
    same_names = (first.entities, first.relations) == (other.entities, other.relations)
    if not same_names or first.graph != other.graph:
        raise RunError(
            f"{first.folder} and {other.folder} were trained on different data: their "
            f"{'facts' if same_names else 'names'} differ; merge runs over the same data."
        )


def _write_parts(
    folder: Path, parts: Sequence[Path], runs: Sequence[Run], weights: Sequence[float], digests: Sequence[str]
) -> None:
    content = [
        {
            "run": str(part.absolute()),
            "weight": weight,
            "sha256": digest,
            "config": run.config.model_dump(mode="json"),
        }
        for part, run, weight, digest in zip(parts, runs, weights, digests, strict=True)
    ]
    write_json(folder / PARTS, content)


def _digest(part: Path) -> str:
    """SHA-256 of the file whose weights answer for a run."""
    record = read_record(part)
    if record.shards is not None:
        raise RunError(
            f"{part} lies in shards, as the processes that train it left them; resume it to its end, and merge it then."
        )
    name = BEST if BEST in record.files else WEIGHTS
    return sha256_of(part / name)
