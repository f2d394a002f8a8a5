"""Trains runs into a folder in several ways, and makes processes fail together; a script of conftest.py.

python -m tests.distributed.run_worker FOLDER
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars  # noqa: F401 — so that no child has to
import torch

from blockhole import fitting
from blockhole.errors import BlockholeError, DataError
from blockhole.fitting import train
from blockhole.graph.knowledge_graph import SplitGraph
from blockhole.runs.checkpoint import SHARDS
from blockhole.saving import read_sealed
from blockhole.training.distributed import group
from blockhole.training.workers import joined
from tests.distributed.processes import end_group, start_group
from tests.distributed.runs import AVERAGED, PACKED, PATIENT, SETTINGS, data, packed, write_facts
from tests.training.worlds import random_split


class Crash:
    """A Progress that ends the process without a word in the middle of the third epoch."""

    def __init__(self) -> None:
        self._epoch = 0

    def epoch_begins(self, epoch: int, epochs: int, paths: int) -> None:
        self._epoch = epoch

    def batches_done(self, paths: int, loss: float) -> None:
        if self._epoch == 3 and paths > 100:
            os._exit(9)

    def validated(self, figures: Mapping[str, float]) -> None:
        pass


class Ahead:
    """A Progress that begins the folder of a checkpoint to come, as a process does that commits none."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def epoch_begins(self, epoch: int, epochs: int, paths: int) -> None:
        if epoch == 2:
            self._folder.mkdir()
        assert epoch < 2 or self._folder.is_dir()

    def batches_done(self, paths: int, loss: float) -> None:
        pass

    def validated(self, figures: Mapping[str, float]) -> None:
        pass


def ahead(folder: Path) -> None:
    train(data(), settings=SETTINGS, out=folder, progress=Ahead(folder / SHARDS / "to come"))


def undisturbed(facts: Path, folder: Path) -> None:
    """The run that test_torchrun.py disturbs."""
    train(str(facts), settings=SETTINGS, out=folder)


def crash(folder: Path, settings: Mapping[str, Any] = SETTINGS) -> None:
    train(data(), settings=settings, out=folder, progress=Crash())


def go_on(folder: Path, mesh: str | None = None, settings: Mapping[str, Any] = PATIENT) -> None:
    torch.set_num_threads(1)
    run = train(data(), settings=settings, out=folder, resume=True, mesh=mesh)
    assert run.complete
    assert run.model.num_entities == 30


def in_memory(folder: Path, mesh: str) -> None:
    """A run that no folder keeps: every process has the model."""
    torch.set_num_threads(1)
    run = train(data(), settings=PATIENT, mesh=mesh)
    np.save(folder / f"entity-{os.environ['RANK']}.npy", run.model.entity.detach().numpy())


def packed_in_memory(folder: Path, mesh: str) -> None:
    """The same of a packed graph, whose batches the processes make together."""
    torch.set_num_threads(1)
    run = train(packed(), settings=PACKED, mesh=mesh)
    np.save(folder / f"packed-{os.environ['RANK']}.npy", run.model.entity.detach().numpy())


def uncalibrated(work: Callable[[], None]) -> Callable[[], None]:
    """The same without probabilities, which take longer than the training; those of the mesh 1x2 are fitted."""

    def done() -> None:
        fitting._calibrate = lambda run, data: None
        work()

    return done


def too_many_shards(folder: Path) -> None:
    train(random_split(entities=4), settings=SETTINGS, out=folder / "none")


def other_facts(folder: Path) -> None:
    split = data()
    if os.environ["RANK"] == "1":
        split = SplitGraph(split.entities, split.relations, train=split.train[1:], valid=split.valid)
    train(split, settings=SETTINGS)


def other_settings(folder: Path) -> None:
    train(data(), settings=SETTINGS | {"training.seed": int(os.environ["RANK"])})


def other_mesh(folder: Path) -> None:
    train(data(), settings=SETTINGS, mesh="3x1" if os.environ["RANK"] == "1" else "1x3")


def one_packed(folder: Path) -> None:
    """The same facts, but batches are made in another way."""
    split = data()
    plain = SplitGraph(split.entities, split.relations, train=split.train)
    train(packed() if os.environ["RANK"] == "1" else plain, preset="fast", settings=PACKED)


def other_version(folder: Path) -> None:
    if os.environ["RANK"] == "2":
        group.PACKAGE = Path(__file__).parent
    train(data(), settings=SETTINGS)


def other_graph(folder: Path) -> None:
    train(random_split(entities=31, facts=150), settings=SETTINGS, out=folder / "1x2", resume=True)


def missing_file(folder: Path) -> None:
    name = "absent" if os.environ["RANK"] == "1" else "family"
    train(name, settings=SETTINGS)


def wrong_mesh(folder: Path) -> None:
    train(data(), settings=SETTINGS, mesh="2x2")


def no_validation(folder: Path) -> None:
    split = data()
    train(SplitGraph(split.entities, split.relations, train=split.train), settings=SETTINGS)


def other_optimizer(folder: Path) -> None:
    """Fails in every process after all have agreed to begin."""
    run = folder / f"other-{os.environ['RANK']}"
    shutil.copytree(folder / "1x2", run)
    config = read_sealed(run / "config.json")
    (run / "config.json").write_text(json.dumps(config | {"optimizer": {"kind": "adam"}}))
    train(data(), out=run, resume=True)


def no_folder(folder: Path) -> None:
    """Nothing can be written where checkpoints belong."""
    run = folder / "blocked"
    if os.environ["RANK"] == "0":
        run.mkdir()
        (run / SHARDS).touch()
    train(data(), settings=SETTINGS, out=run)


def one_alone(folder: Path) -> None:
    """Fails in one process only, outside of what they do together; the others are told by the connection."""
    with joined() as workers:
        if os.environ["RANK"] == "1":
            raise DataError("process 1 alone.")
        while not workers.agree(False):
            pass


FAILURES = {
    work.__name__: work
    for work in (
        too_many_shards,
        other_facts,
        other_settings,
        other_mesh,
        one_packed,
        other_version,
        other_graph,
        missing_file,
        wrong_mesh,
        no_validation,
        other_optimizer,
        no_folder,
        one_alone,
    )
}


def reported(work: Callable[[Path], None], folder: Path) -> None:
    """Do what fails, write how, and end as the command line would."""
    try:
        work(folder)
    except BlockholeError as failure:
        report = {"error": type(failure).__name__, "text": str(failure)}
        (folder / f"{work.__name__}-{os.environ['RANK']}.json").write_text(json.dumps(report))
        sys.exit(1)


def main(folder: Path) -> None:
    # Those that need nothing of each other train at the same time: what most of them do most is wait.
    begin: list[tuple[str, int, Callable[[], None]]] = [
        ("1x2", 2, partial(go_on, folder / "1x2")),
        ("2x1", 2, partial(go_on, folder / "2x1", "2x1")),
        ("memory", 2, partial(in_memory, folder, "1x2")),
        ("packed", 4, partial(packed_in_memory, folder, "2x2")),
        ("ahead", 1, partial(ahead, folder / "ahead")),
        ("undisturbed", 2, partial(undisturbed, write_facts(folder / "facts"), folder / "undisturbed")),
        *((f"crash {name}", 2, partial(crash, folder / name)) for name in ("to 2x2", "to 1x2", "to one")),
        ("averaged", 2, partial(go_on, folder / "averaged", None, AVERAGED)),
        (
            "crash averaged",
            2,
            partial(crash, folder / "averaged to 2x2", AVERAGED | {"training.checkpoint_seconds": 0}),
        ),
        ("averaged by one", 1, partial(go_on, folder / "averaged to 1x2", None, AVERAGED | {"training.epochs": 2})),
    ]
    go_on_with: list[tuple[str, int, Callable[[], None]]] = [
        ("to 2x2", 4, partial(go_on, folder / "to 2x2", "2x2")),
        ("to 1x2", 2, partial(go_on, folder / "to 1x2")),
        ("averaged to 2x2", 4, partial(go_on, folder / "averaged to 2x2", "2x2", AVERAGED)),
        ("averaged to 1x2", 2, partial(go_on, folder / "averaged to 1x2", None, AVERAGED)),
        *((name, 3, partial(reported, work, folder)) for name, work in FAILURES.items()),
    ]
    # Here once, so that the processes find what is imported late, and loops that are compiled, in their memory.
    torch.set_num_threads(1)
    train(data(), settings=PATIENT)
    train(packed(), settings=PACKED)
    statuses: dict[str, list[int]] = {}
    for steps in (begin, go_on_with):
        started = {
            name: start_group(processes, work if name == "1x2" else uncalibrated(work))
            for name, processes, work in steps
        }
        statuses |= {name: end_group(children) for name, children in started.items()}
    (folder / "statuses.json").write_text(json.dumps(statuses))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
