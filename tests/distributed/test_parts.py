"""What processes divide between them: meshes, rows and digests, without any process."""

from __future__ import annotations

import pytest
import torch

from benchmarks.volume import StepSizes, step_bytes
from blockhole.data.dataset import DataSet
from blockhole.errors import ConfigError
from blockhole.graph.knowledge_graph import SplitGraph
from blockhole.machine import launched, speaks
from blockhole.training.distributed import sharded
from blockhole.training.distributed.group import data_digests, first_difference, settings_digest
from blockhole.training.distributed.mesh import MeshShape
from tests.training.worlds import config, random_data, random_split


def test_a_mesh_is_data_times_entities() -> None:
    assert MeshShape.parse("2x4", 8) == MeshShape(data=2, entities=4)
    assert MeshShape.parse(None, 8) == MeshShape(data=1, entities=8)


@pytest.mark.parametrize("text", ["4", "2x", "ax2", "0x4", "2x2x1", "-2x-2", ""])
def test_other_texts_are_no_mesh(text: str) -> None:
    with pytest.raises(ConfigError, match=r"is not of the form DATAxENTITIES; write two numbers, such as 2x4\.$"):
        MeshShape.parse(text, 4)


@pytest.mark.parametrize(("shards", "entities"), [(1, 1), (2, 2), (3, 5), (4, 7), (4, 100)])
def test_every_shard_has_an_entity(shards: int, entities: int) -> None:
    MeshShape(1, shards).check(entities)


@pytest.mark.parametrize(("shards", "entities"), [(2, 1), (5, 4), (4, 5), (4, 6), (1, 0)])
def test_a_shard_without_an_entity_is_refused(shards: int, entities: int) -> None:
    with pytest.raises(ConfigError, match=f"^{shards} shards are too many for {entities} entit(y|ies):"):
        MeshShape(1, shards).check(entities)


@pytest.mark.parametrize("rows_drawn", [16, 48, 2**14])
@pytest.mark.parametrize(("count", "width"), [(1, 3), (5, 3), (16, 1), (47, 3), (48, 4), (49, 5), (200, 7), (160, 2)])
def test_rows_are_those_of_the_whole_table(
    monkeypatch: pytest.MonkeyPatch, rows_drawn: int, count: int, width: int
) -> None:
    monkeypatch.setattr(sharded, "_ROWS_DRAWN", rows_drawn)
    whole_generator = torch.Generator().manual_seed(3)
    whole = torch.empty(count, width).normal_(0.0, 0.1, generator=whole_generator)
    for held in (range(count), range(count // 3, count // 2), range(count // 2, count)):
        generator = torch.Generator().manual_seed(3)
        rows = sharded.draw_rows(count, width, 0.1, generator, held)
        assert torch.equal(rows, whole[held.start : held.stop])
        assert torch.equal(generator.get_state(), whole_generator.get_state())  # what is drawn next is the same, too


def test_digests_tell_what_differs() -> None:
    own, other = random_data(), random_data(seed=1)
    assert data_digests(own, paths=False) == data_digests(random_data(), paths=False)
    fewer = SplitGraph(own.split.entities, own.split.relations, own.split.train, own.split.valid[1:])
    renamed = random_split(entities=21, facts=60)
    seen = [data_digests(DataSet("", split), paths=False) for split in (own.split, own.split, fewer)]
    assert first_difference(seen[:2]) is None
    assert first_difference(seen) == ("validation facts", [2])
    assert first_difference([seen[0], data_digests(other, paths=False)]) == ("train facts", [1])
    assert first_difference([seen[0], data_digests(DataSet("", renamed), paths=False)]) == ("entity names", [1])


def test_a_process_may_have_a_device_of_its_own() -> None:
    first = settings_digest(config(training__device="cpu", training__threads=1, data="/here"))
    assert first == settings_digest(config(training__device="auto", training__threads=2, data="/there"))
    assert first != settings_digest(config(training__seed=1))


def test_a_process_alone_speaks(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    assert launched() is None
    assert speaks()
    for name, value in {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "host", "MASTER_PORT": "1"}.items():
        monkeypatch.setenv(name, value)
    launch = launched()
    assert launch is not None
    assert (launch.rank, launch.processes) == (1, 2)
    assert not speaks()


def test_the_volume_of_a_step_by_hand() -> None:
    sizes = StepSizes(queries=10, ends=15, per_query=3, touched=7, width=4, candidate_width=6, dense=20)
    along_entities, along_data = 4 * (15 * 4 + 10 * (3 + 6)), 4 * (7 * 4 + 20 + 1)
    assert step_bytes(MeshShape(1, 1), sizes) == 0
    assert step_bytes(MeshShape(1, 2), sizes) == along_entities
    assert step_bytes(MeshShape(1, 4), sizes) == 1.5 * along_entities
    assert step_bytes(MeshShape(2, 1), sizes) == along_data
    assert step_bytes(MeshShape(2, 2), sizes) == along_entities + along_data
