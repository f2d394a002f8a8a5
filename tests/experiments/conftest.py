"""A small town as a data set: who has which parents and religion; it has all that the tables measure."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from blockhole.data.dataset import load, sample_queries, store
from blockhole.training import steppers

PEOPLE = 60
RELIGIONS = 4


@pytest.fixture(autouse=True)
def _no_fused_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trainings step with autograd: a fused step is compiled for seconds a geometry, and experiments have many."""
    monkeypatch.setattr(steppers, "numba_installed", lambda: False)


@pytest.fixture(scope="session")
def town(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of train, dev and test; dev and test have lines labelled 1 and -1."""
    draw = random.Random(0)
    facts = [(f"p{i}", "parents", f"p{i // 2}") for i in range(2, PEOPLE)]
    facts += [(f"p{i}", "religion", f"faith{i % RELIGIONS}") for i in range(1, PEOPLE)]
    facts += [(f"p{i}", "neighbour", f"p{(i + 7) % PEOPLE}") for i in range(PEOPLE)]
    draw.shuffle(facts)
    folder = tmp_path_factory.mktemp("data") / "town"
    folder.mkdir()
    parts = {"train": facts[:-40], "dev": facts[-40:-20], "test": facts[-20:]}
    for name, part in parts.items():
        lines = ["\t".join(fact) for fact in part]
        if name != "train":
            lines = [f"{line}\t1" for line in lines]
            lines += [f"{target}\t{relation}\t{source}\t-1" for source, relation, target in part]
        (folder / f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def queried_town(town: Path) -> Path:
    """The town with sets of valid and test queries of four types, one with negation."""
    data, folder = load(town), town.parent / "queried"
    types = ("1p", "2p", "2u", "2in")
    sets = [sample_queries(data, split=split, types=types, count=6) for split in ("valid", "test")]
    store(data.split, folder, origin={}, queries=sets)
    return folder
