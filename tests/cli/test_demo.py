"""The demo, with fewer epochs: its report, what it leaves alone, and the commands it prints."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from blockhole.cli import demo
from blockhole.cli.main import main
from blockhole.runs.folder import PICTURES
from tests.outcomes import Outcome, command

PROGRAM = f"""#!{sys.executable}
from blockhole.cli.main import main
from blockhole.runs.folder import PICTURES
main()
"""


def _run(capsys: pytest.CaptureFixture[str], *arguments: str) -> Outcome:
    return command(main, capsys, "demo")(*arguments)


def _short(patch: pytest.MonkeyPatch) -> None:
    for settings in demo.MODELS.values():
        for name in ("training.epochs", "training.threads"):
            patch.setitem(settings, name, 1)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a demo's two runs, and beside it what the demo printed."""
    folder = tmp_path_factory.mktemp("demo")
    with pytest.MonkeyPatch.context() as patch, (folder / "report.json").open("w") as report:
        _short(patch)
        patch.setattr("sys.stdout", report)
        with pytest.raises(SystemExit) as stop:
            main(["demo", "--out", str(folder / "runs"), "--json"])
    assert not stop.value.code
    return folder / "runs"


@pytest.fixture
def left(finished: Path, tmp_path: Path) -> Path:
    """What an earlier demo left, in a folder of the test's own."""
    return Path(shutil.copytree(finished, tmp_path / "runs"))


@pytest.mark.slow
def test_blockhole_tells_the_two_queries_apart_and_complex_cannot(finished: Path) -> None:
    report = json.loads((finished.parent / "report.json").read_text(encoding="utf-8"))
    assert report["true"]["c"] == ["Harry", "William"]
    assert {"Beatrice", "Eugenie"} <= set(report["true"]["b"])
    blockhole, complex_ = report["models"]["blockhole"], report["models"]["complex"]
    assert complex_["largest_difference"] < 1e-4
    assert complex_["ranks"]["b"] == complex_["ranks"]["c"]
    assert blockhole["largest_difference"] > 0.1
    assert (Path(blockhole["run"]) / "weights.safetensors").is_file()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["blockhole", "complex"])
@pytest.mark.parametrize("change", ["no mark", "trained further", "a file more", "no run", "a file", "a link"])
def test_what_a_person_made_is_never_replaced(
    name: str, change: str, left: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = left / name
    match change:
        case "no mark":
            (run / demo.MARK).unlink()
        case "trained further":
            (run / "state.json").write_text("{}", encoding="utf-8")
        case "a file more":
            (run / "vectors.parquet").write_bytes(b"mine")
        case "no run":
            shutil.rmtree(run)
            run.mkdir()
            (run / "thesis.tex").write_text("years of work", encoding="utf-8")
        case "a file":
            shutil.rmtree(run)
            run.write_text("years of work", encoding="utf-8")
        case "a link":
            run.rename(left / "elsewhere")
            run.symlink_to(left / "elsewhere")
    before = {path: path.read_bytes() for path in left.rglob("*") if path.is_file()}
    assert _run(capsys, "--out", str(left)) == (
        1,
        "",
        f"error: {run} holds something that the demo did not make and would replace; choose another folder with "
        "--out, or move it away.\n",
    )
    assert {path: path.read_bytes() for path in left.rglob("*") if path.is_file()} == before


@pytest.mark.slow
def test_out_is_a_folder(left: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = left / "blockhole" / "state.json"
    assert _run(capsys, "--out", str(file)) == (1, "", f"error: {file} is a file; choose a folder with --out.\n")


@pytest.mark.parametrize("seed", ["-1", "x"])
def test_a_seed_is_a_number_from_0_on(seed: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(capsys, "--out", str(tmp_path / "runs"), "--seed", seed).status == 2
    assert not (tmp_path / "runs").exists()


def _script(folder: Path) -> Path:
    script = folder / ".venv" / "bin" / "blockhole"
    script.parent.mkdir(parents=True)
    script.write_text(PROGRAM, encoding="utf-8")
    script.chmod(0o755)
    return script


def test_the_program_is_called_as_the_shell_finds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script, other = _script(tmp_path / "a b"), _script(tmp_path / "other")
    monkeypatch.chdir(tmp_path)
    typed = str(script.relative_to(tmp_path))
    monkeypatch.setattr("sys.argv", [typed, "demo"])
    for path, name in (("/bin", f"'{typed}'"), (other.parent, f"'{typed}'"), (script.parent, "blockhole")):
        monkeypatch.setenv("PATH", str(path))
        assert demo.command_name() == name
    monkeypatch.setattr("sys.argv", ["src/blockhole/__main__.py", "demo"])
    assert demo.command_name() == f"{sys.executable} -m blockhole"


@pytest.mark.slow
def test_a_second_demo_replaces_the_first_and_the_commands_that_it_prints_work_as_typed(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _script(tmp_path)
    _short(monkeypatch)
    left = Path(shutil.copytree(finished, tmp_path / "runs" / "demo"))
    before = (left / "blockhole" / demo.MARK).read_bytes()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", [".venv/bin/blockhole", "demo"])
    for name, value in (("PATH", "/usr/bin:/bin"), ("COLUMNS", "60"), ("XDG_STATE_HOME", str(tmp_path))):
        monkeypatch.setenv(name, value)
    shown = _run(capsys, "--seed", "1").out
    for word in ("blockhole (b)", "complex (c)", "Beatrice", "Eugenie", "William", "Harry", "✓"):
        assert word in shown
    assert (left / "blockhole" / demo.MARK).read_bytes() != before
    assert sorted(path.name for path in left.iterdir()) == ["blockhole", "complex"]

    ask, serve = (line.partition(": ")[2] for line in shown.splitlines()[-2:])
    assert ask == ".venv/bin/blockhole ask runs/demo/blockhole"
    assert serve == ".venv/bin/blockhole serve runs/demo/blockhole runs/demo/complex"
    question = "William/^fatherOf/brotherOf/fatherOf\n"
    asked = subprocess.run(["sh", "-c", ask], input=question, capture_output=True, text=True, check=False)
    assert asked.returncode == 0, asked.stderr
    assert asked.stdout.count("predicted") == 10
    # On a free port, for the usual one may be taken on this machine; otherwise as it was printed.
    command = ["sh", "-c", f"exec {serve} --port 0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert server.stdout.readline().startswith("serving blockhole, complex at http://127.0.0.1:")
        server.send_signal(signal.SIGTERM)
    assert server.returncode == 0
    for name in ("blockhole", "complex"):  # which have been asked and explored, and may be replaced nevertheless
        for picture in PICTURES:
            (left / name / picture).write_text("{}", encoding="utf-8")
        demo.check_replaceable(left / name)
