"""Experiments run where there is nothing but torch, NumPy, safetensors, pydantic and rich, as on a lent GPU machine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from blockhole.data.dataset import DataSet, load
from blockhole.graph.knowledge_graph import SplitGraph
from blockhole.graph.vocabulary import Vocabulary
from blockhole.models import bilinear
from blockhole.queries.path_sets import PATH_PARTS, PathSplits
from blockhole.queries.paths import PathQueries
from blockhole.training import optimizers
from experiments.material import Material, read_encoded, write_encoded
from experiments.run_experiments import main

ROOT = Path(__file__).parents[2]
PROGRAM = """
import sys
for missing in ("numba", "polars", "scipy", "pyoxigraph", "pandas", "networkx", "backports", "filelock", "typer",
                "yaml", "pooch", "requests", "matplotlib", "optuna"):
    sys.modules[missing] = None
from experiments.run_experiments import main
sys.exit(main(sys.argv[1:]))
"""
SMALL = (
    "--split", "test", "--seed", "0", "--device", "cpu", "--threads", "1", "--commit", "f" * 40 + "-dirty",
    "--set", "training.epochs=1",
)  # fmt: skip


def test_encoded_and_named_data_give_the_same_experiment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same figures to the last bit: from the data set here, from its file where hardly anything is installed; by
    torch's own operations, since compiled loops, which are missing there, add up in another order.
    """
    for module in (bilinear, optimizers):
        monkeypatch.setattr(module, "numba_installed", lambda: False)
    family = Material().open("family", paths=True)
    write_encoded(family, tmp_path)
    names = ("ranking/family/blockhole-2x25", "completion/family/blockhole")
    here, there = tmp_path / "here", tmp_path / "there"
    assert main([*names, *SMALL, "--out", str(here)]) == 0
    bare = [sys.executable, "-W", "error", "-c", PROGRAM, *names, *SMALL]
    done = subprocess.run(
        [*bare, "--encoded", str(tmp_path), "--out", str(there)],
        cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for name in names:
        mine, theirs = (json.loads((folder / f"{name}-seed0.json").read_text()) for folder in (here, there))
        for record in (mine, theirs):
            assert (record["commit"], record["dirty"], record["epochs"]) == ("f" * 40, True, 1)
            del record["seconds"], record["training_seconds"]
        assert mine == theirs


def test_encoded_data_is_the_data(tmp_path: Path) -> None:
    family = Material().open("family", paths=True)
    write_encoded(family, tmp_path)
    again = read_encoded(tmp_path, "family")
    assert again.split.relations == family.split.relations
    assert len(again.split.entities) == len(family.split.entities)
    for part in ("train", "valid", "test"):
        assert np.array_equal(getattr(again.split, part), getattr(family.split, part))
    for part in PATH_PARTS:
        for axis in ("source", "path", "length", "target"):
            expected = getattr(family.paths(part), axis)
            if part == "train":
                expected = expected[np.argsort(family.paths(part).source, kind="stable")]
            assert np.array_equal(getattr(again.paths(part), axis), expected)
    write_encoded(load("family"), tmp_path)
    assert not read_encoded(tmp_path, "family").has_paths


def test_query_sets_go_with_the_data_with_paths_and_without(queried_town: Path, tmp_path: Path) -> None:
    named = load(queried_town)
    write_encoded(named, tmp_path)
    for material, name in ((Material(), str(queried_town)), (Material(tmp_path), "queried")):
        for paths in (True, False):
            data = material.open(name, paths=paths)
            assert data.has_paths == paths
            assert data.query_sets == ("sampled-test", "sampled-valid")
            for set_ in data.query_sets:
                found, expected = data.queries(set_), named.queries(set_)
                assert (found.name, found.split) == (expected.name, expected.split)
                assert {type_: ids.tolist() for type_, ids in found.ids.items()} == {
                    type_: ids.tolist() for type_, ids in expected.ids.items()
                }


def test_relations_of_any_number_keep_their_ids(tmp_path: Path) -> None:
    relations = Vocabulary((f"r{i}" for i in range(20_000)), "relation")
    split = SplitGraph(Vocabulary(("a", "b")), relations, np.array([[0, 19_999, 1]], dtype=np.int32))
    there, back = PathQueries.from_triples(split.train), PathQueries.from_triples(np.array([[1, 39_999, 0]], np.int32))
    write_encoded(DataSet("many", split, splits=PathSplits(there, back, back, back, back)), tmp_path)
    again = read_encoded(tmp_path, "many")
    assert again.paths("train").path.tolist() == [[19_999]]
    assert again.paths("dev_deduction").path.tolist() == [[39_999]]
