"""The processes of one launch: how they meet, agree, fail together, and divide the work."""

from __future__ import annotations

import hashlib
import json
import signal
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from time import monotonic, sleep
from typing import Any, final
from uuid import uuid4

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch import distributed as dist
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous
from torch.distributed.tensor import DTensor

from blockhole.compiled import available_threads
from blockhole.data.dataset import DataSet
from blockhole.errors import BlockholeError, ConfigError, FailedElsewhere, RunError, counted
from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.graph.vocabulary import Vocabulary
from blockhole.machine import Launch, choose_device
from blockhole.models.catalogue import build_model
from blockhole.models.contract import Model
from blockhole.runs.config import TrainConfig
from blockhole.runs.tracking import Tracker
from blockhole.runs.writer import Writer
from blockhole.training.distributed.mesh import EntityMesh, MeshShape, inside
from blockhole.training.distributed.sharded import ShardedStepper, build_sharded_model
from blockhole.training.distributed.sharded_writer import ShardedRunWriter
from blockhole.training.learner import Learner, Validation, set_other_rows, sum_of_rows
from blockhole.training.steppers import Stepper

SPEAKS_WITHIN = timedelta(seconds=5)
"""How long a process that failed waits for process 0 to say so, before it speaks itself."""


@contextmanager
def join(launch: Launch, mesh: str | None) -> Iterator[Group]:
    """Meet the other processes of the launch; leave them at the end of the block."""
    shared, rank, processes = next(rendezvous("env://"))
    store = store_of_attempt(shared, rank, processes)
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    dist.init_process_group(backend, store=PrefixStore("group", store), rank=rank, world_size=processes)
    failures = PrefixStore("failures", store)
    try:
        yield Group(launch, mesh, PrefixStore("blockhole/begun", shared))
    except FailedElsewhere:
        raise
    except BlockholeError as failure:
        if _spoken_for(failure, failures, rank):
            raise FailedElsewhere(str(failure)) from None
        raise
    except RuntimeError as failure:
        if not (isinstance(failure, dist.DistError) or "gloo" in str(failure)):
            raise
        lost = RunError("lost contact with another process of the run; what was saved last can be continued.")
        if _spoken_for(lost, failures, rank):
            raise FailedElsewhere(str(lost)) from None
        raise lost from None
    finally:
        # Without it an interpreter that ends may abort in the threads of gloo, whatever status it was to end with.
        dist.destroy_process_group()


def _spoken_for(failure: BlockholeError, failures: Store, rank: int) -> bool:
    """Whether this process may end in silence: process 0 has failed as well and says why."""
    _end_by_itself()
    if rank == 0:
        failures.set("0", str(failure))
        return False
    try:
        failures.wait(["0"], SPEAKS_WITHIN)
    except RuntimeError:  # it goes on, or is gone
        return False
    return True


@final
class Group:
    """All processes of a launch; Workers. Process 0 speaks for them."""

    mesh: EntityMesh

    def __init__(self, launch: Launch, mesh: str | None, begun: Store) -> None:
        self._launch = launch
        self._mesh = mesh
        self._begun = begun
        self._control = dist.new_group(backend="gloo")
        self.saving = dist.new_group(backend="gloo")  # apart: checkpoints are written while training goes on

    @property
    def speaks(self) -> bool:
        """See Workers."""
        return self._launch.rank == 0

    def has_begun(self, folder: Path) -> bool:
        """See Workers; the launcher's store knows, which its processes' failures do not touch."""
        return bool(self._begun.check([str(folder.absolute())]))

    def begin(self, folder: Path) -> None:
        """See Workers."""
        self._begun.set(str(folder.absolute()), "")

    @contextmanager
    def together(self) -> Iterator[None]:
        """See Workers; process 0 ends with the error of the first that has one, the others in silence."""
        own: BlockholeError | None = None
        try:
            yield
        except BlockholeError as failure:
            own = failure
        texts: list[str | None] = [None] * self._launch.processes
        dist.all_gather_object(texts, None if own is None else str(own), group=self._control)
        failed = [rank for rank, text in enumerate(texts) if text is not None]
        if not failed:
            return
        _end_by_itself()
        if not self.speaks:
            raise FailedElsewhere(str(texts[failed[0]]))
        raise own or RunError(f"process {failed[0]}: {texts[failed[0]]}")

    def agree(self, mine: bool) -> bool:
        """See Workers."""
        answer = torch.tensor(int(mine))
        dist.all_reduce(answer, dist.ReduceOp.MAX, group=self._control)
        return bool(answer)

    def settle(self, config: TrainConfig, data: DataSet) -> torch.device:
        """See Workers."""
        with self.together():
            device = self._device(config.training.device)
            shape = MeshShape.parse(self._mesh, self._launch.processes)
            shape.check(len(data.split.entities))
            own = {"mesh": f"{shape.data}x{shape.entities}", "settings": settings_digest(config)}
            own |= data_digests(data, paths=config.training.on_stored_paths)
        with self.together():
            self._compare(versions(), "has another version of {what}", "install the same one on all hosts")
        with self.together():
            self._compare(own, "sees other {what}", "give all processes the same data, settings and mesh")
        self.mesh = EntityMesh(shape, device)
        return device

    def _device(self, name: str) -> torch.device:
        """The CPU, or the GPU of this host that is this process' own."""
        device = choose_device(name)
        if device.type == "cpu":
            return device
        if device.type != "cuda":
            raise ConfigError(f"several processes train on the CPU or on CUDA, not on {device}; use --device cpu.")
        if self._launch.local_processes > torch.cuda.device_count():
            raise ConfigError(
                f"this host has {counted(torch.cuda.device_count(), 'GPU')} for "
                f"{self._launch.local_processes} processes; start one process per GPU, or use --device cpu."
            )
        torch.cuda.set_device(self._launch.local_rank)
        return torch.device("cuda", self._launch.local_rank)

    def _compare(self, own: Mapping[str, str], differs: str, remedy: str) -> None:
        seen: list[Mapping[str, str]] = [{}] * self._launch.processes
        dist.all_gather_object(seen, own, group=self._control)
        difference = first_difference(seen)
        if difference is not None:
            what, others = difference
            raise RunError(f"process {others[0]} {differs.format(what=what)} than process 0; {remedy}.")

    def sharing(self) -> EntityMesh:
        """See Workers."""
        return self.mesh

    def threads(self) -> int:
        """See Workers; the processes of a host share its cores."""
        return max(1, available_threads() // self._launch.local_processes)

    def build_model(self, config: TrainConfig, num_entities: int, num_relations: int) -> Model:
        """See Workers."""
        return build_sharded_model(config.model, num_entities, num_relations, config.training.seed, self.mesh)

    def build_stepper(
        self, model: Model, config: TrainConfig, graph: KnowledgeGraph, threads: int, seen: NDArray[np.int64] | None
    ) -> Stepper:
        """See Workers."""
        return ShardedStepper(model, config, graph, self.mesh, seen)

    def build_writer(self, folder: Path, learner: Learner, trackers: Sequence[Tracker]) -> Writer:
        """See Workers."""
        return ShardedRunWriter(folder, learner.model, learner, self, trackers)

    def measure(self, validation: Validation, model: Model, config: TrainConfig) -> Mapping[str, float]:
        """See Workers; process 0 puts the table together and measures, and tells the others."""
        entity = self.mesh.gather(_local(model.entity), model.num_entities)
        figures: list[Mapping[str, float] | None] = [None]
        with self.together():
            if entity is not None:
                plain = build_model(config.model, model.num_entities, model.num_relations, seed=0)
                plain.load_state_dict({**model.state_dict(), "entity": entity})
                figures = [validation.measure(plain.to(self.mesh.device))]
        dist.broadcast_object_list(figures, src=0, group=self._control)
        assert figures[0] is not None
        return figures[0]

    @torch.no_grad()
    def average_unseen(self, model: Model, seen: NDArray[np.int64]) -> None:
        """See Workers."""
        shard, held = _local(model.entity), self.mesh.held(model.num_entities)
        known = torch.from_numpy(seen)
        own = (known[inside(known, held)] - held.start).to(shard.device)
        set_other_rows(shard, own, self.mesh.total(sum_of_rows(shard, own)) / len(seen))

    def finish(self, learner: Learner, *, kept: bool) -> Model | None:
        """See Workers; a run without a folder is put together in every process."""
        if kept:
            return None
        for name, value in (learner.best or learner.model.state_dict()).items():
            whole = value.full_tensor() if isinstance(value, DTensor) else value
            setattr(learner.model, name, nn.Parameter(whole.detach().cpu()))
        return learner.model


def _local(table: Tensor) -> Tensor:
    """The rows of a sharded table that this process holds, without a copy."""
    assert isinstance(table, DTensor)
    return table.to_local().detach()


def _end_by_itself() -> None:
    """Ignore SIGTERM from here on.

    The launcher ends a group as soon as one of its processes has failed; but all of them are about to end, and
    process 0 has to say why.
    """
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


# How the processes of one attempt find each other in a launcher's store that earlier attempts have written to.


WITHIN = timedelta(minutes=10)
_PAUSE = 0.02


def store_of_attempt(shared: Store, rank: int, processes: int, within: timedelta = WITHIN) -> Store:
    """The part of the launcher's store that belongs to this attempt alone.

    The store outlives an attempt that failed, and with it the addresses of processes that are gone. No number of the
    launcher's tells attempts apart: on several hosts each launcher counts its own restarts. So process 0 makes up a
    name for the attempt. Every other process leaves a word that nobody has used before, and finds the name under it;
    words that earlier processes left are answered too, and read by none.
    """
    meeting = PrefixStore("blockhole/meeting", shared)
    name = _tell_name(meeting, processes, within) if rank == 0 else _learn_name(meeting, rank, within)
    return PrefixStore(f"blockhole/{name}", shared)


def _tell_name(meeting: Store, processes: int, within: timedelta) -> str:
    """Process 0: answer until every other process has read the name."""
    name, end = uuid4().hex, monotonic() + within.total_seconds()
    answered: dict[int, str] = {}
    absent = set(range(1, processes))
    while absent:
        for rank in sorted(absent):
            if meeting.check([f"{name}/{rank}"]):
                absent.remove(rank)
            elif meeting.check([f"word/{rank}"]) and (word := meeting.get(f"word/{rank}").decode()) != answered.get(
                rank
            ):
                meeting.set(f"name/{word}", name)
                answered[rank] = word
        if absent and monotonic() > end:
            raise RunError(
                f"process {min(absent)} of the run has not come within {within.total_seconds():.0f} s; "
                "see that every host has started its processes."
            )
        sleep(_PAUSE if absent else 0)
    return name


def _learn_name(meeting: Store, rank: int, within: timedelta) -> str:
    word = uuid4().hex
    meeting.set(f"word/{rank}", word)
    try:
        meeting.wait([f"name/{word}"], within)
    except RuntimeError:
        raise RunError(
            f"process 0 of the run has not come within {within.total_seconds():.0f} s; "
            "see that every host has started its processes."
        ) from None
    name: str = meeting.get(f"name/{word}").decode()
    meeting.set(f"{name}/{rank}", "")
    return name


# Digests of what processes must have in common before they train together.


PACKAGE = Path(__file__).resolve().parents[2]

OWN_SETTINGS: dict[str, Any] = {"data": True, "training": {"threads", "device"}}
"""Settings that each process may have for itself; what data it reads is compared by contents, not by its path."""


def versions() -> dict[str, str]:
    """What is installed, as far as training depends on it; BlockHolE by its source, which tells checkouts apart."""
    modules = {path.relative_to(PACKAGE).as_posix(): path.read_bytes() for path in sorted(PACKAGE.rglob("*.py"))}
    source = _digest(part for name, text in modules.items() for part in (name.encode(), text))
    return {"BlockHolE": source, "torch": torch.__version__, "NumPy": np.__version__}


def settings_digest(config: TrainConfig) -> str:
    """A digest of the settings that must be equal."""
    return _digest([json.dumps(config.model_dump(mode="json", exclude=OWN_SETTINGS), sort_keys=True).encode()])


def data_digests(data: DataSet, *, paths: bool) -> dict[str, str]:
    """Digests of names, facts and, if asked, train paths, by what they are of."""
    split = data.split
    digests = {
        "kind of graph (packed, or not)": str(split.packed),
        "entity names": _digest_names(split.entities),
        "relation names": _digest_names(split.relations),
        "train facts": _digest([np.ascontiguousarray(split.train).data]),
        "validation facts": _digest([np.ascontiguousarray(split.valid).data]),
    }
    if paths:
        queries = data.paths("train")
        arrays = (queries.source, queries.path, queries.length, queries.target)
        digests["path queries"] = _digest(np.ascontiguousarray(array).data for array in arrays)
    return digests


def first_difference(seen: Sequence[Mapping[str, str]]) -> tuple[str, list[int]] | None:
    """The first thing of which processes have another digest than process 0, and those processes; absent: none."""
    for what, expected in seen[0].items():
        others = [rank for rank, digests in enumerate(seen) if digests.get(what) != expected]
        if others:
            return what, others
    return None


def _digest_names(names: Vocabulary) -> str:
    return _digest(name.encode() + b"\0" for name in names.names)


def _digest(parts: Iterable[bytes | memoryview]) -> str:
    total = hashlib.sha256()
    for part in parts:
        total.update(part)
    return total.hexdigest()
