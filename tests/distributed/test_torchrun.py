"""The command line under torchrun: a killed worker, several hosts, and one error for all."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from blockhole.cli.main import main
from blockhole.fitting import train
from tests.distributed.runs import SETTINGS, assert_equal, write_facts
from tests.sweep import WHOLE
from tests.workers import quiet_port

pytestmark = pytest.mark.slow

BLOCKHOLE = str(Path(sys.executable).with_name("blockhole"))
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}
LIMIT = 300


def torchrun(*options: str) -> list[str]:
    return [sys.executable, "-m", "torch.distributed.run", *options, "--no-python", BLOCKHOLE, "train", "--json"]


def training(facts: Path, out: Path) -> list[str]:
    settings = [word for key, value in SETTINGS.items() for word in ("--set", f"{key}={json.dumps(value)}")]
    return ["--data", str(facts), "--out", str(out), *settings]


def ended(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=False, timeout=LIMIT)


def test_restarts_leave_a_run_alone_that_others_began(tmp_path: Path) -> None:
    facts = write_facts(tmp_path / "facts")
    settings = training(facts, tmp_path / "run")
    train(facts, settings=SETTINGS | {"training.epochs": 1}, out=tmp_path / "run")
    before = {path: path.read_bytes() for path in sorted((tmp_path / "run").iterdir()) if path.is_file()}
    done = ended([*torchrun("--nproc-per-node", "2" if WHOLE else "1", "--max-restarts", "1"), *settings])
    assert done.returncode == 1
    assert done.stderr.count("already holds a run, at epoch 1; add --resume") == 2  # once for each attempt
    assert {path: path.read_bytes() for path in before} == before


def test_one_error_ends_every_process(tmp_path: Path) -> None:
    facts = tmp_path / "facts.tsv"
    facts.write_text("a\tr\ta\n")
    done = ended(
        [*torchrun("--nproc-per-node", "2"), *training(facts, tmp_path / "run"), "--set", "early_stop.metric="]
    )
    assert done.returncode == 1
    assert done.stdout == ""
    errors = [line for line in done.stderr.splitlines() if line.startswith("error:")]
    assert errors == [
        "error: 2 shards are too many for 1 entity: one would hold none; start fewer processes, or split the batches "
        "instead with --mesh 2x1."
    ]
    assert done.stderr.count("exitcode  : 1 ") == 2
    assert not (tmp_path / "run").exists()


def test_a_mesh_needs_processes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match=r"^1$"):
        main(["train", *training(tmp_path, tmp_path / "run"), "--mesh", "2x2"])
    out, err = capsys.readouterr()
    assert out == ""
    assert err == (
        "error: the mesh 2x2 is for several processes, and this one was started alone; start it with "
        "torchrun --nproc-per-node N --no-python blockhole train …\n"
    )


# Last, as another worker may still be training what this is held against.


def start_hosts(facts: Path, out: Path, *more: str) -> list[subprocess.Popen[str]]:
    """Two launchers with a process each, which meet at a port of the first."""
    endpoint = f"localhost:{quiet_port()}"
    options = ("--nnodes", "2", "--nproc-per-node", "1", "--rdzv-backend", "c10d", "--rdzv-endpoint", endpoint)
    command = [*torchrun(*options, "--rdzv-id", "test", *more), *training(facts, out)]
    return [
        subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]


def kill_one_worker(launcher: subprocess.Popen[str], state: Path) -> bool:
    """Kill the launcher's last worker with SIGKILL once the run is in its second epoch; whether it was."""
    while launcher.poll() is None:
        if state.exists():
            place = json.loads(state.read_text())["training"]
            if place["epoch"] == 1 and place["batch"] >= 2:
                children = Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children").read_text().split()
                os.kill(int(children[-1]), signal.SIGKILL)
                return True
        time.sleep(0.005)
    return False


@pytest.mark.parametrize("host", [None, 0, 1] if WHOLE else [1])
def test_a_killed_worker_changes_nothing(
    folder: Path, statuses: dict[str, list[int]], tmp_path: Path, host: int | None
) -> None:
    """On a host alone, or on one of two.

    Of two launchers each counts its own restarts: that of the worker that was killed is one ahead of the other.
    """
    facts = folder / "facts"
    if host is None:
        command = [*torchrun("--nproc-per-node", "2", "--max-restarts", "1"), *training(facts, tmp_path / "run")]
        launchers = [
            subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        ]
    else:
        launchers = start_hosts(facts, tmp_path / "run", "--max-restarts", "2")
    struck = launchers[host or 0]
    killed = kill_one_worker(struck, tmp_path / "run" / "state.json")
    said = {each: each.communicate(timeout=LIMIT) for each in launchers}
    assert killed
    assert [each.returncode for each in launchers] == [0] * len(launchers), said
    assert "exitcode: -9" in said[struck][1]
    assert [json.loads(out)["complete"] for out, _ in said.values() if out] == [True]
    assert statuses["undisturbed"] == [0, 0]
    assert_equal(folder / "undisturbed", tmp_path / "run")
