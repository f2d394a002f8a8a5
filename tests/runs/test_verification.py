"""Every byte that is written for machines has a sum: a flipped bit is noticed on opening, and by `show --verify`."""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import torch

from blockhole.answering.calibration import load_calibration
from blockhole.answering.engine import Engine
from blockhole.answering.export import FileKind, export_file
from blockhole.answering.index import IndexKind, build_index, load_index
from blockhole.answering.vectors import Vectors
from blockhole.cli.main import main
from blockhole.data.packing import pack
from blockhole.errors import BlockholeError, BlockholeWarning, DamagedRun, DataError, NotARun
from blockhole.files.readers import read_split
from blockhole.fitting import train
from blockhole.queries.language import write_name
from blockhole.runs.checkpoint import load_checkpoint, save_checkpoint
from blockhole.runs.run import Run
from blockhole.runs.verification import verify
from blockhole.saving import read_sealed, sha256_of
from tests.runs.kept import copy_kept
from tests.serving.random_run import write_random_run
from tests.sweep import WHOLE


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What was kept of an older version, with its run trained further."""
    kept = copy_kept(tmp_path_factory.mktemp("saved") / "kept")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(kept)
        train(out=kept / "run", settings={"training.epochs": 4}, resume=True)
    return kept


@pytest.fixture
def run(saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run with all files that a run can have, saved as they are now."""
    kept = Path(shutil.copytree(saved, tmp_path / "kept"))
    monkeypatch.chdir(kept)
    return kept / "run"


def flip(path: Path) -> None:
    """Flip a bit in the middle, where numbers and names stand: the file still reads well."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("name", ["weights.safetensors", "best.safetensors", "optimizer.safetensors",
                                  "vocabulary.parquet", "facts.parquet"])  # fmt: skip
def test_a_flipped_bit_in_a_run(name: str, run: Path) -> None:
    assert verify(run)[name] == "intact"
    flip(run / name)
    with pytest.raises(DamagedRun, match=rf"{name} is damaged: its bytes are not those that were saved; restore"):
        _ = Run.open(run).graph, load_checkpoint(run)
    with pytest.raises(DamagedRun, match=rf"{name} is damaged: its bytes are not those that were saved; restore"):
        train(out=run, settings={"training.epochs": 5}, resume=True)
    with pytest.raises(DamagedRun, match=rf"run: {name} is damaged, not the bytes that were written"):
        verify(run)


@pytest.mark.parametrize("name", ["calibration.json", "index.json"])
def test_a_flipped_bit_in_what_a_run_has_besides(name: str, written: dict[str, Path], tmp_path: Path) -> None:
    run = Path(shutil.copytree(written["run"], tmp_path / "run"))
    assert verify(run)[name] == "intact"
    whole = (run / name).read_bytes()
    for at in range(0, len(whole), max(1, len(whole) // 20)):
        (run / name).write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
        with pytest.raises(DamagedRun, match=f"run: .*{name} .* damaged"):
            verify(run)
    (run / name).write_bytes(whole.replace(b" ", b"  "))  # only what it says counts
    verify(run)


@pytest.mark.parametrize("kind", ["exact", "hnsw", "ivf"])
@pytest.mark.filterwarnings("ignore:.* index will not be used")
def test_a_flipped_bit_in_an_index(kind: IndexKind, run: Path) -> None:
    opened = Run.open(run)
    vectors = Vectors.of(opened)
    file = run / build_index(run, vectors, opened.graph, kind).file
    assert verify(run)[file.name] == "intact"
    assert file.stat().st_mode == (run / "weights.safetensors").stat().st_mode
    content = bytearray(file.read_bytes())
    content[-100] ^= 1
    file.write_bytes(content)
    with pytest.raises(DamagedRun, match=rf"{file.name} is damaged: its bytes .* --kind {kind}$"):
        load_index(run, vectors)
    with pytest.raises(DamagedRun, match=f"{file.name} is damaged"):
        verify(run)


@pytest.mark.parametrize("kind", ["parquet", "npz", "faiss"])
def test_a_flipped_bit_in_an_export(kind: FileKind, run: Path) -> None:
    path = run / f"vectors.{kind}"
    with pytest.warns(match="no calibration"):
        export_file(Engine.open(Run.open(run.parent / "sharded")), kind, path)
    assert verify(path) == {path.name: "intact"}
    assert (run / f"{path.name}.sha256").read_text(encoding="utf-8") == f"{sha256_of(path)}  {path.name}\n"
    flip(path)
    for place in (path, run):
        with pytest.raises(DamagedRun, match=f"{path.name} is damaged"):
            verify(place)


def test_a_flipped_bit_in_a_packed_graph(tmp_path: Path) -> None:
    facts = copy_kept(tmp_path / "kept") / "facts"
    pack(facts, tmp_path / "packed")
    files = sorted(verify(tmp_path / "packed"))
    assert len(files) == 9
    for name in files:
        whole = (tmp_path / "packed" / name).read_bytes()
        flip(tmp_path / "packed" / name)
        for use in (read_split, verify):
            with pytest.raises(BlockholeError, match=rf"{name}"):
                use(tmp_path / "packed")
        (tmp_path / "packed" / name).write_bytes(whole)
    read_split(tmp_path / "packed")


def test_large_packed_graphs_are_believed_on_opening_but_not_by_verify(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pack(copy_kept(tmp_path / "kept") / "facts", tmp_path / "packed")
    flip(tmp_path / "packed" / "train.npy")
    monkeypatch.setattr("blockhole.packed.folder.READ_AT_ONCE", 1000)
    read_split(tmp_path / "packed")
    with pytest.raises(DamagedRun, match=r"train\.npy is damaged"):
        verify(tmp_path / "packed")


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("use", [lambda run: run.model, Vectors.of])
def test_weights_that_are_not_finite_answer_nothing(number: float, use: Callable[[Run], object], run: Path) -> None:
    checkpoint = load_checkpoint(run)
    assert checkpoint.best is not None
    checkpoint.best["entity"][3, 2] = number
    save_checkpoint(run, checkpoint, best_changed=True)
    with pytest.raises(
        DamagedRun, match=r"best\.safetensors: the saved entity holds numbers that are not finite; restore"
    ):
        use(Run.open(run))


@pytest.mark.parametrize(("name", "files"), [("run", 3), ("part", 2), ("merged", 2), ("sharded", 0), ("packed", 0)])
def test_what_0_1_0_wrote_has_no_sums(name: str, files: int, tmp_path: Path) -> None:
    assert list(verify(copy_kept(tmp_path / "kept") / name).values()) == files * ["no sum kept"]


# Whichever byte of whichever file


def _ask(folder: Path) -> object:
    """What a run gives: its settings, how far it is, and answers, searched for with its index."""
    run = Run.open(folder)
    engine = Engine.open(run)
    asked = f"{write_name(engine.graph.entities[0])}/{write_name(engine.graph.relations[0])}"
    return run.config, run.state, engine.ask(asked, top=5, candidates="all")


def _look_through(folder: Path) -> object:
    split = read_split(folder)
    graph = split.graph("train", "valid", "test")
    return list(graph.entities), list(graph.relations), graph.triples.tolist()


def _read_export(folder: Path) -> object:
    return verify(folder / "vectors.npz"), (folder / "vectors.npz").read_bytes()


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A run with an index that is used, a packed graph, and an export: small, and saved as they are now."""
    folder = tmp_path_factory.mktemp("written")
    run = write_random_run(folder / "run", E=30, R=3, facts=60)
    opened = Run.open(run)
    with pytest.warns(BlockholeWarning, match="index will not be used"):
        build_index(run, Vectors.of(opened), opened.graph, "hnsw")
    pack(copy_kept(folder / "kept") / "facts", folder / "packed")
    (folder / "export").mkdir()
    export_file(Engine.open(run), "npz", folder / "export" / "vectors.npz")
    return {name: folder / name for name in ("run", "packed", "export")}


@pytest.mark.parametrize(("place", "use"), [("run", _ask), ("packed", _look_through), ("export", _read_export)])
def test_a_flipped_bit_anywhere_is_told_or_changes_nothing(
    place: str, use: Callable[[Path], object], written: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("blockhole.answering.engine.MANY", 10)
    folder = written[place]
    expected = use(folder)
    silent = []
    for path in sorted(folder.iterdir()):
        whole = path.read_bytes()
        step = 1 if WHOLE else max(1, len(whole) // (30 if path.suffix == ".json" else 5))
        for at in range(0, len(whole), step):
            path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << at % 7]) + whole[at + 1 :])
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                try:
                    same = use(folder) == expected
                except BlockholeError as failure:
                    same = len(str(failure).splitlines()) == 1
            if not same and not any(issubclass(each.category, BlockholeWarning) for each in told):
                silent.append((path.name, at))
        path.write_bytes(whole)
    assert silent == []


def test_what_cannot_be_verified(tmp_path: Path) -> None:
    with pytest.raises(NotARun, match="there is no run"):
        verify(tmp_path / "none")
    (tmp_path / "vectors.npz").touch()
    with pytest.raises(DataError, match=r"there is no checksum of it in vectors\.npz\.sha256; export it again\.$"):
        verify(tmp_path / "vectors.npz")


def test_show_verifies(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match=r"^0$"):
        main(["show", str(run), "--verify", "--json"])
    assert json.loads(capsys.readouterr().out)["files"]["weights.safetensors"] == "intact"
    flip(run / "optimizer.safetensors")
    with pytest.raises(SystemExit, match=r"^1$"):
        main(["show", str(run), "--verify"])
    assert capsys.readouterr().err.startswith(f"error: {run}: optimizer.safetensors is damaged")


def test_sums_are_those_of_the_bytes_that_were_meant(run: Path) -> None:
    """Loading gives what was saved, to the last bit."""
    before = load_checkpoint(run)
    save_checkpoint(run, before, best_changed=False)
    after = load_checkpoint(run)
    assert all(torch.equal(value, after.weights[name]) for name, value in before.weights.items())
    assert set(verify(run).values()) == {"intact"}


def test_a_checkpoint_that_a_kill_left_under_its_other_name_is_intact(run: Path) -> None:
    """Committed, but not yet renamed: the files that it replaces are still there."""
    old = {name: (run / name).read_bytes() for name in ("weights.safetensors", "state.json")}
    train(out=run, settings={"training.epochs": 5}, resume=True)
    for name, content in old.items():
        (run / name).rename(run / f"{name}.next")
        (run / name).write_bytes(content)
    assert verify(run)["weights.safetensors"] == "intact"
    flip(run / "weights.safetensors.next")
    with pytest.raises(DamagedRun, match=r"run: weights\.safetensors is damaged"):
        verify(run)


def _record(change: Callable[[dict[str, Any]], object]) -> Callable[[bytes], bytes]:
    def changed(content: bytes) -> bytes:
        record = json.loads(content)
        del record["seal"]
        change(record)
        return json.dumps(record).encode()

    return changed


def _names(*values: str | None) -> Callable[[bytes], bytes]:
    def changed(content: bytes) -> bytes:
        frame = pl.read_parquet(content)
        written = BytesIO()
        frame.with_columns(name=pl.Series([*values, *frame["name"][len(values) :]])).write_parquet(written)
        return written.getvalue()

    return changed


DEEP = b"[" * 50_000


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("config.json", lambda _: DEEP, r"config\.json cannot be used; .* it is nested too deeply"),
        ("config.json", lambda _: b"[]", r"config\.json cannot be used; .* settings are sections"),
        ("state.json", lambda _: DEEP, r"state\.json cannot be read \(it is nested too deeply\)"),
        ("metrics.jsonl", lambda _: DEEP + b"\n", r"metrics\.jsonl cannot be read \(it is nested too deeply\)"),
        ("calibration.json", lambda _: DEEP, r"calibration\.json is damaged: it is not what was saved"),
        ("state.json", _record(lambda it: it["files"].pop("optimizer.safetensors")), "does not tell which optimizer"),
        ("state.json", _record(lambda it: it["files"].clear()), "does not tell which weights"),
        ("state.json", _record(lambda it: it["sha256"].update({"x" * 300: "0"})), "x is damaged, not the bytes"),
        ("vocabulary.parquet", _names("twice", "twice"), r"vocabulary\.parquet cannot be read \(its names are not"),
        ("vocabulary.parquet", _names(None), r"vocabulary\.parquet cannot be read \(its names are not"),
    ],
)
def test_what_somebody_else_wrote_is_refused_in_a_sentence(
    name: str, change: Callable[[bytes], bytes], said: str, run: Path
) -> None:
    (run / name).write_bytes(change((run / name).read_bytes()))
    if name.endswith(".parquet"):
        state = read_sealed(run / "state.json")
        state["sha256"][name] = sha256_of(run / name)
        (run / "state.json").write_text(json.dumps(state), encoding="utf-8")

    def look() -> None:
        _ = Run.open(run).metrics(), load_calibration(run), Run.open(run).model, load_checkpoint(run), verify(run)

    with pytest.raises(BlockholeError, match=said) as failure:
        look()
    assert len(str(failure.value).splitlines()) == 1


def test_a_shard_with_another_header_is_refused_in_a_sentence(tmp_path: Path) -> None:
    folder = copy_kept(tmp_path / "kept") / "sharded"
    shard = sorted((folder / "shards").rglob("*.safetensors"))[0]
    content = shard.read_bytes()
    shard.write_bytes(content.replace(b"saved_offsets", b"saved_offseta"))
    with pytest.raises(DamagedRun, match=r"the sharded checkpoint .* cannot be read"):
        load_checkpoint(folder)
