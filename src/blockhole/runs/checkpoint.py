"""Checkpoints in a run folder that survive a crash at any moment, and damage that shows.

A checkpoint is a set of files that belong together: weights, optimizer, sometimes the best weights, and state.json.
Every tensor file carries the checkpoint's id in its header; state.json names the id of each and its SHA-256 sum, and
the sums of names and facts, which never change. A file is checked when it is read.

Saving: write each file as NAME.next and sync it; write state.json.next last, which commits the set; then rename all,
state.json last. Opening: if state.json.next is complete, the new set is the valid one, renamed or not yet; if it is
not, the old one is, and *.next is left over. So at every moment exactly one complete set can be read.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, TypeVar, final
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field
from safetensors import SafetensorError, safe_open

from blockhole.errors import DamagedRun, NotARun, RunError, Unwritable, why
from blockhole.runs.folder import FACTS, NEXT, VOCABULARY, check_sum, map_safetensors
from blockhole.saving import (
    READ_AT_ONCE,
    read_sealed,
    remedy,
    sealed,
    sha256_of,
    sync,
    write_failure,
    write_in_place,
)

if TYPE_CHECKING:
    from torch import Tensor

    Tensors = dict[str, Tensor]

STATE = "state.json"
WEIGHTS = "weights.safetensors"
OPTIMIZER = "optimizer.safetensors"
BEST = "best.safetensors"
SHARDS = "shards"
FORMAT = 1

Arrays = dict[str, NDArray[Any]]
_Read = TypeVar("_Read")
_Array = TypeVar("_Array", "Tensor", NDArray[Any])


@final
class TrainingState(BaseModel):
    """A place in a run, between two batches. The loop counts it on; state.json holds a copy of it."""

    model_config = ConfigDict(extra="forbid")

    epoch: int = Field(default=0, ge=0, description="epochs completed")
    batch: int = Field(default=0, ge=0, description="batches done of the epoch under way")
    epoch_loss: float = Field(default=0.0, description="sum of the losses of the positives seen in the epoch under way")
    epoch_paths: int = Field(default=0, ge=0, description="positives seen in the epoch under way")
    paths: int = Field(default=0, ge=0, description="positives seen in all")
    seconds: float = Field(default=0.0, ge=0, description="time spent training, without validation and saving")
    last_loss: float | None = Field(default=None, description="mean loss per positive of the last complete epoch")
    best_figure: float | None = Field(default=None, description="best validation figure so far")
    best_epoch: int | None = Field(default=None, description="the number of epochs it was reached after")
    since_best: int = Field(default=0, ge=0, description="measurements since the best one")
    stopped_early: bool = Field(default=False, description="whether early stopping has ended the run")

    @property
    def loss(self) -> float | None:
        """Mean loss per positive of the last complete epoch, or of the first one's part that is done."""
        if self.last_loss is None and self.epoch_paths:
            return self.epoch_loss / self.epoch_paths
        return self.last_loss

    def __str__(self) -> str:
        return f"epoch {self.epoch}" + (f" and {self.batch} batches" if self.batch else "")


@final
@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Everything a run needs to go on; `best` are the weights that answer for it, where these are not the last ones."""

    state: TrainingState
    weights: Tensors
    optimizer: Tensors
    best: Tensors | None
    metrics_bytes: int


@final
class Record(BaseModel):
    """The contents of state.json: the place in the run, and which files belong to it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: int = Field(ge=1, le=FORMAT)
    files: dict[str, str] = Field(description="tensor file → id of the checkpoint it was written for")
    shards: str | None = Field(
        default=None, description="folder in shards/ that holds the tensors instead of files, while several train"
    )
    sha256: dict[str, str] = Field(
        default_factory=dict, description="file → its SHA-256 sum; none of shards, nor in runs of version 0.1"
    )
    metrics_bytes: int = Field(ge=0, description="length of metrics.jsonl at this place")
    training: TrainingState


@contextmanager
def explaining_failed_save(folder: Path, then: str | None = None) -> Iterator[None]:
    """Turn a failed write, such as on a full disk, into one sentence; the last checkpoint stays as it was.

    The sentence ends in what to do `then`: by default, to go on from the checkpoint, or to begin again without one.
    """
    try:
        yield
    except (OSError, Unwritable) as failure:
        for left_over in folder.glob(f"*{NEXT}"):
            with suppress(OSError):
                left_over.unlink()
        if isinstance(failure, Unwritable):
            reason, advice = failure.reason, failure.remedy
        else:
            cause = write_failure(failure) or failure
            reason, advice = cause.strerror or str(cause), remedy(cause)
        saved = (folder / STATE).exists()
        again = f"continue with `blockhole train --out {quote(str(folder))} --resume`"
        then = then or (again if saved else "begin again")
        kept = f"the checkpoint of {_read_record(folder / STATE).training} is intact" if saved else "nothing was saved"
        raise RunError(
            f"cannot save the run in {folder}: {reason}; {kept}. {advice[0].upper()}{advice[1:]} and {then}."
        ) from failure


def save_checkpoint(folder: Path, checkpoint: Checkpoint, *, best_changed: bool) -> None:
    """Make `checkpoint` the one that `folder` holds; `best` is written only if it changed."""
    identity = uuid4().hex
    before = _record_before(folder)
    parts: dict[str, Tensors] = {WEIGHTS: checkpoint.weights, OPTIMIZER: checkpoint.optimizer}
    files = {WEIGHTS: identity, OPTIMIZER: identity}
    with explaining_failed_save(folder):
        sums = _unchanging_sums(folder, before)
        if checkpoint.best is not None:
            kept = None if best_changed or before is None else before.files.get(BEST)
            files[BEST] = kept or identity
            if kept is None:  # changed, or in shards until now
                parts[BEST] = checkpoint.best
            elif before is not None and BEST in before.sha256:
                sums[BEST] = before.sha256[BEST]
        sums |= {name: _write_tensors(folder / (name + NEXT), part, identity) for name, part in parts.items()}
        record = Record(
            format=FORMAT,
            files=files,
            sha256=sums,
            metrics_bytes=checkpoint.metrics_bytes,
            training=checkpoint.state.model_copy(),
        )
        _commit(folder, record)
    _roll_forward(folder, record)
    shutil.rmtree(folder / SHARDS, ignore_errors=True)


def commit_shards(folder: Path, shards: str, state: TrainingState, metrics_bytes: int) -> None:
    """Make the sharded checkpoint shards/`shards`, which is on disk, the one that `folder` holds."""
    before = _record_before(folder)
    record = Record(
        format=FORMAT,
        files={},
        shards=shards,
        sha256=_unchanging_sums(folder, before),
        metrics_bytes=metrics_bytes,
        training=state,
    )
    _commit(folder, record)
    _roll_forward(folder, record)


def recover(folder: Path) -> None:
    """Finish a save that a crash cut short after its commit, or clear away one cut short before."""
    with suppress(DamagedRun, FileNotFoundError):
        _roll_forward(folder, _read_record(folder / (STATE + NEXT)))
    for left_over in folder.glob(f"*{NEXT}"):
        left_over.unlink()


def load_checkpoint(folder: Path) -> Checkpoint:
    """The checkpoint of `folder`, changing nothing there."""

    def read(record: Record) -> Checkpoint:
        return Checkpoint(
            state=record.training,
            weights=_read_tensors(folder, WEIGHTS, record),
            optimizer=_read_tensors(folder, OPTIMIZER, record),
            best=_read_tensors(folder, BEST, record) if _has_best(record) else None,
            metrics_bytes=record.metrics_bytes,
        )

    return _read_consistently(folder, read)


def load_best_weights(folder: Path) -> Tensors:
    """The weights that answer for the run: of the best validation figure, or the average, or else the last ones."""

    def read(record: Record) -> Tensors:
        return _read_tensors(folder, BEST if _has_best(record) else WEIGHTS, record)

    return _read_consistently(folder, read)


def map_best_weights(folder: Path) -> Arrays:
    """The same as views of their file, without torch; a large file is not read through only to check it."""

    def read(record: Record) -> Arrays:
        name = BEST if _has_best(record) else WEIGHTS
        if record.shards is not None:
            return {key: tensor.numpy() for key, tensor in _read_tensors(folder, name, record).items()}
        return _read_file(folder, name, record, map_safetensors, READ_AT_ONCE)

    return _read_consistently(folder, read)


def has_checkpoint(folder: Path) -> bool:
    """Whether a checkpoint was ever committed in `folder`; a first one that a crash cut short was not."""
    if (folder / STATE).is_file():
        return True
    with suppress(DamagedRun, FileNotFoundError):
        _read_record(folder / (STATE + NEXT))
        return True
    return False


def read_record(folder: Path) -> Record:
    """The valid state: state.json.next if it is complete, for then the whole set is, else state.json."""
    with suppress(DamagedRun, FileNotFoundError):
        return _read_record(folder / (STATE + NEXT))
    try:
        return _read_record(folder / STATE)
    except FileNotFoundError:
        raise NotARun(f"{folder} holds no checkpoint: {STATE} is missing.") from None


def weights_id(folder: Path) -> str:
    """What tells the weights that answer questions from all others of the run in `folder`."""
    record = read_record(folder)
    if record.shards is not None:
        return record.shards
    return _identity(folder, BEST if BEST in record.files else WEIGHTS, record)


def _identity(folder: Path, name: str, record: Record) -> str:
    """The id of the checkpoint that a file belongs to."""
    if name not in record.files:
        raise DamagedRun(
            f"{folder / STATE} does not tell which {name} is the run's; restore the folder from a copy, "
            "or train again into another folder."
        )
    return record.files[name]


def _read_consistently(folder: Path, read: Callable[[Record], _Read]) -> _Read:
    """`read` the files of the valid record, again if training replaced them in between."""
    record = read_record(folder)
    try:
        return read(record)
    except DamagedRun:
        newer = read_record(folder)
        if newer == record:
            raise
        return read(newer)


def _commit(folder: Path, record: Record) -> None:
    write_in_place(folder / (STATE + NEXT), sealed(record.model_dump(mode="json")).encode())
    sync(folder)


def _roll_forward(folder: Path, record: Record) -> None:
    for name in (*record.files, STATE):
        with suppress(FileNotFoundError):  # renamed before the crash, or not part of this save
            os.replace(folder / (name + NEXT), folder / name)
    sync(folder)


def _record_before(folder: Path) -> Record | None:
    """The record that a new one replaces; one that cannot be read any more has nothing to hand on."""
    with suppress(DamagedRun, FileNotFoundError):
        return _read_record(folder / STATE)
    return None


def _unchanging_sums(folder: Path, before: Record | None) -> dict[str, str]:
    """The sums of names and facts: as the record before has them, or taken now."""
    known = before.sha256 if before is not None else {}
    return {
        name: known[name] if name in known else sha256_of(folder / name)
        for name in (VOCABULARY, FACTS)
        if (folder / name).is_file()
    }


def _write_tensors(path: Path, tensors: Mapping[str, Tensor], identity: str) -> str:
    """Write a tensor file; its SHA-256 sum."""
    from safetensors.torch import save

    on_cpu = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    # safetensors' own file writer goes through a hidden file that only the owner may read and a kill leaves behind.
    content = save(on_cpu, metadata={"checkpoint": identity})
    write_in_place(path, content)
    return sha256(content).hexdigest()


def _has_best(record: Record) -> bool:
    return BEST in record.files or (record.shards is not None and record.training.best_epoch is not None)


def _read_tensors(folder: Path, name: str, record: Record) -> Tensors:
    """The tensors that belong to `record`, of a file or of shards."""
    if record.shards is not None:
        from blockhole.runs.shards import read_shards

        return read_shards(folder / SHARDS / record.shards, Path(name).stem)
    from safetensors.torch import load_file

    return _read_file(folder, name, record, load_file)


def _read_file(
    folder: Path, name: str, record: Record, load: Callable[[Path], dict[str, _Array]], at_most: int | None = None
) -> dict[str, _Array]:
    """The file that belongs to `record`: renamed already, or still under its .next name.

    One of more than `at_most` bytes is not read through: its sum is believed, and that its numbers are finite.
    """
    identity, damage = _identity(folder, name, record), None
    for path in (folder / name, folder / (name + NEXT)):
        try:
            with safe_open(path, framework="np") as file:
                if (file.metadata() or {}).get("checkpoint") == identity:
                    tensors = load(path)
                    if at_most is None or path.stat().st_size <= at_most:
                        check_sum(path, record.sha256.get(name))
                        if name != OPTIMIZER:
                            _refuse_infinite(path, tensors)
                    return unpacked(path, tensors)
            damage = damage or "is not of the same checkpoint as state.json"
        except FileNotFoundError:
            damage = damage or "is missing"
        except (SafetensorError, OSError) as failure:
            damage = damage or f"is cut short or not a safetensors file ({failure})"
    raise DamagedRun(f"{folder / name} {damage}; restore the folder from a copy, or train again into another folder.")


# Tables of which most numbers are 0: the others, and a bit for each number that says which they are.

_VALUES, _KEPT, _SHAPE = ".values", ".kept", ".shape"


def packed(name: str, table: Tensor) -> Tensors:
    """A table as a file keeps it without its zeros."""
    import torch

    kept = table.flatten() != 0
    bits = torch.from_numpy(np.packbits(kept.numpy()))
    return {
        name + _VALUES: table.flatten()[kept],
        name + _KEPT: bits,
        name + _SHAPE: torch.tensor(table.shape, dtype=torch.int64),
    }


def unpacked(path: Path, tensors: dict[str, _Array]) -> dict[str, _Array]:
    """The tables of a file, with their zeros where they are kept without."""
    names = [name.removesuffix(_KEPT) for name in tensors if name.endswith(_KEPT)]
    if not names:
        return tensors
    whole = {name: table for name, table in tensors.items() if not name.endswith((_VALUES, _KEPT, _SHAPE))}
    for name in names:
        try:
            values, bits, shape = (np.asarray(tensors[name + end]) for end in (_VALUES, _KEPT, _SHAPE))
            table = np.zeros(int(np.prod(shape)), dtype=values.dtype)
            table[np.unpackbits(bits, count=len(table)).astype(bool)] = values
        except (KeyError, ValueError, IndexError) as failure:
            raise DamagedRun(f"{path}: what is kept of {name} does not fit together ({failure}).") from None
        whole[name] = _like(tensors[name + _VALUES], table.reshape(shape))
    return whole


def _like(example: _Array, table: NDArray[Any]) -> _Array:
    """An array, as a tensor where the example is one."""
    if isinstance(example, np.ndarray):
        return table
    import torch

    return torch.from_numpy(table)


def _refuse_infinite(path: Path, tensors: Mapping[str, Tensor | NDArray[Any]]) -> None:
    for name, tensor in tensors.items():
        if 0 not in tensor.shape and not np.isfinite([float(tensor.min()), float(tensor.max())]).all():
            raise DamagedRun(
                f"{path}: the saved {name} holds numbers that are not finite; restore the folder from a copy, "
                "or train again into another folder."
            )


def _read_record(path: Path) -> Record:
    try:
        return Record.model_validate(read_sealed(path))
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as failure:
        raise DamagedRun(
            f"{path} cannot be read ({why(failure)}); restore the folder from a copy, "
            "or train again into another folder."
        ) from None
