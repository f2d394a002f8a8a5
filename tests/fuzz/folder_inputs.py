"""Targets of a whole folder: data sets, and what the program itself wrote: runs, packed graphs, exports."""

from __future__ import annotations

import gzip
import json
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING

from tests.fuzz.damage import (
    Damage,
    damage_end,
    damage_json,
    damage_numpy,
    damage_pickle,
    damage_safetensors,
    text_damage,
)
from tests.fuzz.file_inputs import ANY_TEXT, CSV, LABELLED, NT, seldom
from tests.fuzz.kinds import Files, FolderTarget, Target, attempt, files_of, write_files

if TYPE_CHECKING:
    from blockhole.serving.pictures import MapReport


def _openke(folder: Path) -> list[Path]:
    place = folder / "openke"
    place.mkdir(exist_ok=True)
    texts = {"entity2id": "3\na b\t0\nc\t1\nd\t2\n", "relation2id": "2\nr\t0\ns\t1\n", "train2id": "2\n0 1 0\n1 2 1\n",
             "test2id": "1\n2 0 1\n", "valid2id": "1\n1\t1\t0\n"}  # fmt: skip
    for name, text in texts.items():
        (place / f"{name}.txt").write_text(text)
    return [place]


def _splits(folder: Path) -> list[Path]:
    """Facts with path queries, facts of several formats, path queries alone, and folders of ids with query sets."""
    from blockhole.data.dataset import load, store
    from blockhole.queries.path_sets import build_paths
    from tests.answering.toys import write_clockwork
    from tests.files.published import write_published

    data = load(write_clockwork(folder / "data"))
    paths = build_paths(data.split, seed=0)
    store(data.split, folder / "whole", origin={}, paths=paths)
    mixed = folder / "mixed"
    mixed.mkdir(exist_ok=True)
    write_files({"train.csv": CSV, "dev.nt": NT, "test.tsv.gz": gzip.compress(LABELLED), "entities.txt": b"x\nAda\n",
                 "relations.txt": b"knows\n"}, mixed)  # fmt: skip
    alone = folder / "alone"
    write_files({Path(name).name: text for name, text in files_of(folder / "whole" / "paths").items()}, alone)
    return [
        folder / "whole",
        mixed,
        alone,
        *_openke(folder),
        _ids(folder / "ids"),
        write_published(folder / "published"),
    ]


def _ids(folder: Path) -> Path:
    import polars as pl

    folder.mkdir(exist_ok=True)
    write_files({"entities.txt": b"a\nb\nc\n", "relations.txt": b"r\ns\n"}, folder)
    facts = {
        "split": ["train", "valid", "test"] * 2,
        "subject": [0, 1, 2] * 2,
        "relation": [0, 1] * 3,
        "object": [1] * 6,
    }
    pl.DataFrame(facts).write_parquet(folder / "facts.parquet")
    queries = {"type": ["2p", "pni", "2p"], "ids": [[0, 1, 2], [0, 1, 2, 1, 3], [2, 0, 0]]}
    pl.DataFrame(queries).write_parquet(folder / "mine-test.parquet")
    return folder


def _read_splits(folder: Path) -> None:
    from blockhole.data.dataset import DataSet, load
    from blockhole.data.packing import pack
    from blockhole.files.readers import read_split
    from blockhole.queries.path_sets import PATH_PARTS
    from blockhole.queries.query_sets import count_answers

    data: list[DataSet] = []
    attempt(
        lambda: data.append(load(folder)),
        lambda: read_split(folder),
        lambda: seldom(folder) and pack(folder, folder.parent / "packed", overwrite=True),
        *(lambda part=part: data and data[0].paths(part) for part in PATH_PARTS),
        lambda: data and [count_answers(data[0].split, data[0].queries(name)) for name in data[0].query_sets],
    )


# Folders that the program itself wrote.


BY_SUFFIX: Mapping[str, Damage] = {
    ".json": damage_json, ".jsonl": text_damage(b"{", b"}", b"[", b":", b'"loss"', b"1e999"), ".parquet": damage_end,
    ".safetensors": damage_safetensors, ".npy": damage_numpy, ".tsv": ANY_TEXT, ".txt": ANY_TEXT,
    ".csv": ANY_TEXT, ".nt": ANY_TEXT, ".pkl": damage_pickle,
}  # fmt: skip


def with_sums(record: str) -> Callable[[Files], Files]:
    """Put right the SHA-256 sums that JSON files hold of their neighbours, where they can still be read."""

    def renew(files: Files) -> Files:
        renewed = dict(files)
        for name in (record, "index.json"):
            with suppress(ValueError, RecursionError, KeyError):
                content = json.loads(renewed[name])
                match content:
                    case {"sha256": dict(sums)}:
                        sums.update({each: sha256(renewed[each]).hexdigest() for each in sums if each in renewed})
                    # faiss believes what it reads, so that only the sum stands before it: SECURITY.md says so.
                    case {"file": str(file), "sha256": str()} if not file.endswith(".faiss"):
                        content["sha256"] = sha256(renewed[file]).hexdigest()
                if isinstance(content, dict):
                    content.pop("seal", None)  # it would refuse every change before anything else is read
                renewed[name] = json.dumps(content).encode()
        return renewed

    return renew


def _runs(folder: Path) -> list[Path]:
    """A run with its sums and an index, and those that version 0.1.0 wrote, whose sums stop no damage."""
    from blockhole.answering.engine import Engine
    from blockhole.answering.index import build_index
    from blockhole.answering.vectors import Vectors
    from blockhole.runs.run import Run
    from tests.runs.kept import copy_kept
    from tests.serving.random_run import write_random_run

    kept = copy_kept(folder / "kept")
    place = write_random_run(folder / "run", E=30, R=3, facts=60)
    build_index(place, Vectors.of(Run.open(place)), Engine.open(place).graph, "exact")
    _draw(place)
    return [place, *(kept / name for name in ("run", "part", "merged", "sharded"))]


def _draw(folder: Path) -> MapReport:
    """What a server makes of a run for its pages, or has kept in its folder."""
    from blockhole.serving.pictures import Pictures
    from blockhole.serving.served_runs import ServedRun, run_page

    served, pictures = ServedRun.load("run", folder), Pictures()
    run_page(served)
    for draw in (pictures.map, pictures.validation):
        while draw(served).state == "making":
            sleep(0.01)
    return pictures.map(served)


def _read_run(folder: Path) -> None:
    from blockhole.answering.auditing import audit
    from blockhole.answering.connections import paths
    from blockhole.answering.engine import Engine
    from blockhole.answering.export import export
    from blockhole.answering.predicting import predict
    from blockhole.answering.proofs import explain
    from blockhole.answering.rules import rules
    from blockhole.runs.checkpoint import load_checkpoint
    from blockhole.runs.compressing import compress_run
    from blockhole.runs.run import Run
    from blockhole.runs.verification import verify

    def look() -> None:
        run = Run.open(folder)
        _ = repr(run), run.complete, run.metrics(), run.graph, run.model

    def ask() -> None:
        engine = Engine.open(folder)
        if not len(engine.graph.entities) or not len(engine.graph.relations):
            return
        source, relation = engine.graph.entities[0], engine.graph.relations[0]
        from blockhole.queries.language import Hop, Query

        query = Query(source, [Hop(relation, inverse=False), Hop(relation, inverse=True)])
        attempt(
            lambda: engine.ask(query, top=5),
            lambda: engine.ask(query, candidates="all"),
            lambda: engine.check(query, source),
            lambda: explain(engine, query, source),
            lambda: paths(engine, source, source, max_length=2),
            lambda: export(engine, folder.parent / "vectors.npz"),
            lambda: seldom(folder) and predict(engine, top=3),
            lambda: seldom(folder) and audit(engine, top=3),
            lambda: seldom(folder) and rules(engine, top=3),
            lambda: seldom(folder) and _draw(folder),
            lambda: seldom(folder) and compress_run(folder, folder.parent / "smaller"),
        )

    attempt(look, ask, lambda: load_checkpoint(folder), lambda: verify(folder))


def _indexed_runs(folder: Path) -> list[Path]:
    from blockhole.answering.index import IndexKind, build_index
    from blockhole.answering.vectors import Vectors
    from blockhole.runs.run import Run
    from tests.serving.random_run import write_random_run

    kinds: tuple[IndexKind, ...] = ("exact", "hnsw", "ivf")
    for kind in kinds:
        run = Run.open(write_random_run(folder / kind, E=200, R=3, facts=400))
        with warnings.catch_warnings(action="ignore"):  # of indexes that no question will use
            build_index(folder / kind, Vectors.of(run), run.graph, kind)
    return [folder / kind for kind in kinds]


def _search_index(folder: Path) -> None:
    """Search by the index alone: an engine takes an approximate one only where there are very many candidates."""
    import numpy as np

    from blockhole.answering.index import load_index
    from blockhole.answering.vectors import Vectors
    from blockhole.runs.run import Run

    loaded = load_index(folder, Vectors.of(Run.open(folder)))
    if loaded is None:
        return
    if loaded.approximate is not None:
        loaded.approximate.shortlists(np.ones((1, 24)), 5)
    if loaded.exact is not None:
        loaded.exact @ np.ones(24)


def _packed_graphs(folder: Path) -> list[Path]:
    from blockhole.data.packing import pack
    from tests.answering.toys import write_clockwork
    from tests.runs.kept import KEPT

    pack(write_clockwork(folder / "data"), folder / "packed", overwrite=True)
    return [folder / "packed", KEPT / "packed"]


def _read_packed(folder: Path) -> None:
    from blockhole.files.readers import read_split
    from blockhole.queries.walks import sample_walks
    from blockhole.runs.verification import verify

    def walk() -> None:
        split = read_split(folder)
        _ = list(split.entities)[:3], list(split.relations)[:3], split.entities.nearest("number", 2)
        sample_walks(split.graph("train"), 20, lengths=(1, 3), seed=0)

    attempt(walk, lambda: verify(folder))


def _exports(folder: Path) -> list[Path]:
    from blockhole.answering.export import export
    from tests.answering.toys import make_engine

    for suffix in ("parquet", "npz"):
        (folder / suffix).mkdir(exist_ok=True)
        export(make_engine()[0], folder / suffix / f"vectors.{suffix}")
    return [folder / "parquet", folder / "npz"]


def _read_export(folder: Path) -> None:
    from blockhole.runs.verification import verify

    attempt(lambda: verify(folder), *(lambda path=path: verify(path) for path in sorted(folder.iterdir())))


def folder_targets() -> dict[str, Target]:
    """All of them by name."""
    return {
        "splits": FolderTarget(_splits, _read_splits, BY_SUFFIX),
        "run": FolderTarget(_runs, _read_run, BY_SUFFIX, with_sums("state.json")),
        "index": FolderTarget(_indexed_runs, _search_index, BY_SUFFIX, with_sums("state.json"), part="index"),
        "packed": FolderTarget(_packed_graphs, _read_packed, BY_SUFFIX, with_sums("packed.json")),
        "export": FolderTarget(_exports, _read_export, BY_SUFFIX),
    }
