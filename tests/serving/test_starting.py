"""What keeps a server from starting: one clear line and status 1."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from blockhole.cli.main import main
from blockhole.machine import use_one_torch_thread
from blockhole.saving import read_sealed
from blockhole.serving.served_runs import names_of
from tests.serving.random_run import write_random_run


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """The one line that `blockhole serve` prints when it cannot start."""

    def start(*arguments: object, status: int = 1) -> str:
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            main(["serve", *map(str, arguments)])
        assert stop.value.code == status
        out, err = capsys.readouterr()
        assert out == ""
        if status == 1:
            assert err.startswith("error: ")
            assert err.count("\n") == 1
        return err.removeprefix("error: ").rstrip("\n")

    return start


def test_torch_is_told_to_use_one_thread_and_not_loaded_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[int] = []
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(set_num_threads=told.append))
    monkeypatch.delenv("OMP_NUM_THREADS")
    use_one_torch_thread()
    assert (told, os.environ.get("OMP_NUM_THREADS")) == ([1], None)
    monkeypatch.delitem(sys.modules, "torch")
    use_one_torch_thread()
    assert (told, os.environ.get("OMP_NUM_THREADS"), "torch" in sys.modules) == ([1], "1", False)


def test_a_port_in_use(refused: Callable[..., str], run: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert refused(run, "--port", port) == (
            f"port {port} of 127.0.0.1 is in use; name another with --port, or 0 for a free one."
        )


def test_an_address_of_another_machine(refused: Callable[..., str], run: Path) -> None:
    assert refused(run, "--host", "no such host", "--port", 0) == (
        "'no such host' is not an address of this machine; name one with --host, such as 127.0.0.1."
    )
    assert refused(run, "--host", "192.0.2.1", "--port", 8000).startswith("port 8000 of 192.0.2.1 cannot be opened (")


def test_a_missing_run(refused: Callable[..., str], tmp_path: Path) -> None:
    missing = tmp_path / "none"
    assert refused(missing, "--port", 0) == (
        f"there is no run {missing}; train one with: blockhole train --data NAME --out {missing}"
    )


@pytest.mark.parametrize("content", [b"", b"cut short", None])
@pytest.mark.parametrize(
    "name",
    ["config.json", "vocabulary.parquet", "facts.parquet", "weights.safetensors", "state.json"],
)
def test_a_corrupted_run(refused: Callable[..., str], own_run: Path, name: str, content: bytes | None) -> None:
    path = own_run / name
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2] if content is None else content)
    line = refused(own_run, "--port", 0)
    assert name in line


def test_weights_of_another_run(refused: Callable[..., str], own_run: Path, tmp_path: Path) -> None:
    other = write_random_run(tmp_path / "other", E=10, R=2, facts=5)
    for name in ("weights.safetensors", "state.json", "calibration.json"):
        (own_run / name).write_bytes((other / name).read_bytes())
    assert refused(own_run, "--port", 0) == (
        f"{own_run / 'vocabulary.parquet'} is damaged: its bytes are not those that were saved; "
        "restore the folder from a copy, or train again into another folder."
    )
    state = read_sealed(own_run / "state.json")
    (own_run / "state.json").write_text(json.dumps(state | {"sha256": {}}), encoding="utf-8")  # as 0.1.0 kept it
    assert refused(own_run, "--port", 0) == (
        f"{own_run}: the saved weights do not fit config.json and vocabulary.parquet; "
        "these files do not belong to one run."
    )


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--max-length", 0], "--max-length is a number of hops from 1 to 64; it cannot be 0."),
        (["--max-length", 65], "--max-length is a number of hops from 1 to 64; it cannot be 65."),
        (["--timeout", 0], "--timeout must be a number above zero."),
        (["--timeout", "nan"], "--timeout must be a number above zero."),
        (["--queue", 0], "--queue must be a number above zero."),
        (["--threads", -1], "--threads must be a number above zero."),
        (["--threads", 100_000], "--threads must be at most 1024, not 100000."),
        (
            ["--allowed-host", "https://kg.example.org"],
            "--allowed-host is a name without scheme and port, such as kg.example.org; "
            "it cannot be 'https://kg.example.org'.",
        ),
        (
            ["--trusted-proxy", "my-proxy"],
            "--trusted-proxy is an address or network, such as 127.0.0.1 or 10.0.0.0/8, not 'my-proxy'.",
        ),
    ],
)
def test_settings_out_of_range(refused: Callable[..., str], run: Path, arguments: list[object], line: str) -> None:
    assert refused(run, *arguments) == line


def test_keys_that_are_none(
    refused: Callable[..., str], run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "key"
    assert refused(run, "--api-key-file", file) == (
        f"the API key in {file} cannot be read (No such file or directory); name a file that holds it."
    )
    file.write_text(" \n", encoding="utf-8")
    empty = "is empty or holds spaces; write one word, preferably of random letters."
    assert refused(run, "--api-key-file", file) == f"the API key in {file} {empty}"
    monkeypatch.setenv("BLOCKHOLE_API_KEY", "")
    assert refused(run) == f"the API key in $BLOCKHOLE_API_KEY {empty}"


def test_a_run_named_twice(refused: Callable[..., str], run: Path) -> None:
    assert refused(run, run / ".." / "run", "--port", 0) == f"{run}/../run is named twice; name every run once."


def test_no_run_is_wrong_usage(refused: Callable[..., str]) -> None:
    assert "Missing argument" in refused(status=2)


def test_without_the_extra_the_install_command_is_named(
    refused: Callable[..., str], run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in [name for name in sys.modules if name.startswith("blockhole.serving")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert refused(run) == "serving needs an optional dependency; install it with: pip install 'blockhole[serve]'"


def test_runs_of_one_name_are_told_apart_by_the_folders_above() -> None:
    def names(*folders: str) -> list[str]:
        return names_of([Path(folder) for folder in folders])

    assert names("/a/run") == ["run"]
    assert names("/a/first", "/b/second") == ["first", "second"]
    assert names("/x/a/run", "/x/b/run", "/y/other") == ["a/run", "b/run", "y/other"]
