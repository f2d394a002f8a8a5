"""Files and folders appear whole or not at all; what cannot be written is one sentence whose advice fits the cause."""

from __future__ import annotations

import errno
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from blockhole.cli.main import main
from blockhole.errors import DataError, Unwritable
from blockhole.saving import replacing, replacing_folder, system_failure, write_file
from tests.runs.kept import copy_kept
from tests.sweep import WHOLE

QUERIES = "data queries facts" if WHOLE else "data queries facts --types 2p --count 1"
"""One query is refused as thousands are, for which ten seconds are sampled first."""


def test_a_written_file_may_be_read_by_whom_the_umask_allows(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        with replacing(tmp_path / "facts.tsv") as temporary:
            temporary.write_text("whole", encoding="utf-8")
    finally:
        os.umask(before)
    assert [file.name for file in tmp_path.iterdir()] == ["facts.tsv"]
    assert (tmp_path / "facts.tsv").stat().st_mode & 0o777 == 0o640


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "kept.tsv"
    path.write_text("old")

    def fail() -> None:
        with replacing(path) as temporary:
            temporary.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("kept.tsv", "old")]


def test_what_cannot_be_written_in_a_folder_is_named_by_where_it_would_stand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    def fail() -> None:
        with replacing_folder(Path("data")) as fresh:
            (fresh / "taken").touch()
            write_file(fresh / "taken" / "names.txt", b"")

    with pytest.raises(Unwritable, match=r"^data/taken/names\.txt: cannot be written \(Not a directory\)"):
        fail()
    assert not list(tmp_path.iterdir())


def test_the_old_folder_comes_back_where_the_new_one_cannot_take_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = Path.rename

    def interrupted(self: Path, target: Path) -> Path:
        if self.name == "fresh":
            raise KeyboardInterrupt
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", interrupted)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "old.txt").touch()
    with pytest.raises(KeyboardInterrupt), replacing_folder(tmp_path / "data") as fresh:
        (fresh / "new.txt").touch()
    assert [file.relative_to(tmp_path).as_posix() for file in tmp_path.rglob("*")] == ["data", "data/old.txt"]


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (errno.ENOSPC, "No space left on device); make room, or choose another place."),
        (errno.EFBIG, "File too large); make room, or choose another place."),
        (errno.EROFS, "Read-only file system); make the file system writable, or choose another place."),
        (errno.EACCES, "Permission denied); allow writing there, or choose another place."),
        (errno.EIO, "Input/output error); check the disk, or choose another place."),
    ],
)
@pytest.mark.parametrize("library", ["python", "rust", "faiss"])
def test_advice_fits_the_cause_whatever_library_writes(code: int, advice: str, library: str, tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "file").write_text("old", encoding="utf-8")
    failures: dict[str, Exception] = {
        "python": OSError(code, os.strerror(code)),
        "rust": ValueError(f"Error while serializing: I/O error: {os.strerror(code)} (os error {code})"),
        "faiss": RuntimeError(f"Error in write_index: write error in f: 65491 != 960000 ({os.strerror(code)})"),
    }
    if library == "faiss" and code == errno.EACCES:
        pytest.skip("faiss opens a file that is there already")
    for context, path in ((replacing, tmp_path / "file"), (replacing_folder, tmp_path / "old")):
        with pytest.raises(Unwritable) as caught, context(path):
            raise failures[library]
        assert str(caught.value) == f"{path}: cannot be written ({advice}"
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "old"]
    assert (tmp_path / "file").read_text(encoding="utf-8") == "old"


@pytest.mark.parametrize("error", [ValueError("no such key"), DataError("No space left on device (os error 28)")])
def test_other_failures_stay_what_they_are(error: Exception, tmp_path: Path) -> None:
    with pytest.raises(type(error), match=r"no such key|^No space left"), replacing(tmp_path / "file"):
        raise error
    assert list(tmp_path.iterdir()) == []


def test_names_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Unwritable, match=r"\(Not a directory\); choose a path that does not lead through a file\.$"):
        write_file(tmp_path / "file" / "below", b"")
    with pytest.raises(Unwritable, match=r"\(Not a directory\); choose a path that does not lead through a file\.$"):
        write_file(tmp_path / "file" / "far" / "below", b"")
    with pytest.raises(Unwritable, match=r"\(File name too long\); choose a shorter name\.$"):
        write_file(tmp_path / ("x" * 300), b"")
    write_file(tmp_path / ("ж" * 127), b"as long as a name can be")
    assert sorted(len(path.name) for path in tmp_path.iterdir()) == [4, 127]


def test_a_device_is_written_to_and_stays_one() -> None:
    write_file(Path("/dev/null"), b"gone")
    assert not Path("/dev/null").is_file()


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system with the runs of version 0.1.0 and no room left; only root may mount one."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=600k", "tmpfs", str(place)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("mounting a small disk is not allowed here")
    copy_kept(place / "kept")
    (place / "ballast").write_bytes(b"x" * (os.statvfs(place).f_bavail * os.statvfs(place).f_bsize))
    yield place
    # Lazily: what failed there holds its files for as long as its traceback lives.
    subprocess.run(["umount", "--lazy", str(place)], check=True)


@pytest.mark.parametrize(
    "command",
    [
        *(f"export run --to {kind}" for kind in ("parquet", "npz", "faiss")),
        *(f"index run --kind {kind}" for kind in ("exact", "hnsw")),
        "calibrate run",
        *(f"data convert facts out.{kind}" for kind in ("tsv", "csv", "parquet", "nt", "tsv.gz", "nt.zst")),
        "data pack facts --out out",
        "data build facts --out out",
        "data split facts/train.txt --out out",
        "data family --people 30 --out out",
        *(f"ask run --file queries.txt --out out.{kind}" for kind in ("parquet", "jsonl")),
        *(f"evaluate run --report out.{kind}" for kind in ("md", "json")),
        "evaluate run --plots out",
        "compare run part --report out.md",
        "merge run part --out out",
        "train --data facts --out out --preset small --epochs 1",
        *(f"predict run --out out.{kind}" for kind in ("csv", "parquet")),
        "audit run --out out.jsonl",
        "rules run --out out.tsv",
        "compress run --out out",
        f"{QUERIES} --out out",
        "data review facts decided.csv --out out",
        "tune facts --out out --trials 1",
        "demo --out out",
    ],
)
def test_a_full_disk_is_one_sentence(
    command: str,
    full_disk: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(full_disk / "kept")
    monkeypatch.setenv("MPLCONFIGDIR", str(tmp_path))
    monkeypatch.setattr("blockhole.data.packing._require_room", lambda folder, needed: None)
    (tmp_path / "queries.txt").write_text("Anna/brotherOf\n", encoding="utf-8")
    (tmp_path / "decided.csv").write_text(
        "source,relation,target,decision\nAnna,brotherOf,Anna,accept\n", encoding="utf-8"
    )
    before = _files(full_disk)
    outside = {"queries.txt", "decided.csv"}
    with pytest.raises(SystemExit, match=r"^1$"):
        main([str(tmp_path / word) if word in outside else word for word in command.split()])
    said = capsys.readouterr().err.splitlines()  # notes and warnings may stand beside the error
    errors = [line for line in said if line.startswith("error: ")]
    assert len(errors) == 1, said
    assert not any(line.startswith("Traceback") for line in said), said
    (error,) = errors
    assert "No space left on device" in error
    assert "ake room" in error
    left = {name: size for name, size in _files(full_disk).items() if name not in before}
    assert all(not size and name.startswith("kept/out/") for name, size in left.items()), left
    assert before.items() <= _files(full_disk).items()


def _files(folder: Path) -> dict[str, int]:
    return {str(path.relative_to(folder)): path.stat().st_size for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    "command",
    ["predict run --out {}.csv", "export run --to faiss --out {}", "compress run --out {}", "demo --out {}",
     f"{QUERIES} --out {{}}", "data review facts {} --out {}", "tune facts --out {} --trials 1"],
)  # fmt: skip
def test_a_path_through_a_file_is_one_sentence(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(copy_kept(tmp_path / "kept"))
    (tmp_path / "file").touch()
    with pytest.raises(SystemExit, match=r"^1$"):
        main(command.replace("{}", str(tmp_path / "file" / "out")).split())
    (error,) = (line for line in capsys.readouterr().err.splitlines() if line.startswith("error: "))
    assert str(tmp_path / "file") in error


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no disk that is always full")
@pytest.mark.parametrize("arguments", [["data", "list"], ["--help"], ["data", "stats", "family", "--json"]])
def test_standard_output_without_room_is_one_sentence(arguments: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "blockhole", *arguments], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert ended.returncode == 1
    assert ended.stderr.splitlines() == [
        "error: standard output: cannot be written (No space left on device); make room, or choose another place."
    ]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no disk that is always full")
@pytest.mark.parametrize(("query", "status"), [("Anna/brotherOf", 0), ("Nobody/brotherOf", 1)])
def test_notes_without_room_are_lost_and_nothing_else(query: str, status: int, tmp_path: Path) -> None:
    run = copy_kept(tmp_path / "kept") / "run"
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "blockhole", "ask", str(run), query, "--top", "1"]
        ended = subprocess.run(command, stdout=subprocess.PIPE, stderr=full, text=True, check=False)
    assert ended.returncode == status
    assert ("predicted" in ended.stdout) == (status == 0)


@pytest.mark.parametrize("closed", ["2>&-", ">&-"])
def test_what_the_shell_has_closed_ends_no_command(closed: str, tmp_path: Path) -> None:
    run = copy_kept(tmp_path / "kept") / "run"
    asked = [sys.executable, "-m", "blockhole", "ask", str(run), "Anna/brotherOf", "--top", "1"]
    command = f"exec {shlex.join(asked)} {closed}"
    ended = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert ended.returncode == 0
    assert ("predicted" in ended.stdout) == (closed == "2>&-")
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    ("code", "name", "said"),
    [
        (errno.EACCES, "place", "place: cannot be used (Permission denied); allow this user"),
        (errno.ENOENT, "place", "place: cannot be used (No such file or directory); check the name."),
        (errno.EROFS, "place", "place: cannot be used (Read-only file system); make the file system writable."),
        (errno.ENOSPC, None, "standard output: cannot be written (No space left on device); make room"),
        (errno.EADDRINUSE, None, None),  # of which something else has to tell
    ],
)
def test_what_the_system_refuses_is_told_at_the_end(code: int, name: str | None, said: str | None) -> None:
    told = system_failure(OSError(code, os.strerror(code), name))
    assert str(told).startswith(str(said))
