"""Distributions built from this tree, and the wheel installed where its `blockhole` command can be run."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from typing import NamedTuple

from tests.outcomes import Outcome

ROOT = Path(__file__).resolve().parents[2]

EXTRAS = {
    "frames": ("pandas", "pyarrow", "networkx"),
    "plots": ("matplotlib",),
    "tracking": ("tensorboard", "mlflow", "sqlalchemy", "alembic"),
    "faiss": ("faiss",),
    "postgres": ("psycopg", "pgvector"),
    "gpu": ("triton",),
    "tune": ("optuna",),
    "sparql": ("rdflib",),
    "serve": ("fastapi", "httptools", "prometheus_client", "rapidfuzz", "uvicorn", "uvloop"),
    "mcp": ("mcp",),
    "map": ("openTSNE", "sklearn"),
}
"""The modules that each extra of pyproject.toml brings."""


class Installation(NamedTuple):
    """The folder of an environment that has the wheel."""

    folder: Path

    @property
    def command(self) -> Path:
        return self.folder / "bin" / "blockhole"

    def run(self, *arguments: object, cwd: Path, env: dict[str, str] | None = None) -> Outcome:
        """`blockhole` with these arguments, as somebody in the folder `cwd` types it."""
        done = subprocess.run(
            [self.command, *map(str, arguments)],
            cwd=cwd,
            env=environment() | (env or {}),
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        return Outcome(done.returncode, done.stdout, done.stderr)


class Console:
    """One process of an installation in which command after command runs: imports take most of the time of each."""

    def __init__(self, installation: Installation, cwd: Path, env: dict[str, str] | None = None) -> None:
        self._process = subprocess.Popen(
            [installation.folder / "bin" / "python", "-c", _CONSOLE],
            cwd=cwd,
            env=environment() | (env or {}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Console:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=60)

    def run(self, *arguments: object) -> Outcome:
        """`blockhole` with these arguments."""
        return Outcome(*self._sent(list(map(str, arguments))))

    def execute(self, program: str) -> Outcome:
        """A program in Python."""
        return Outcome(*self._sent(program))

    def _sent(self, step: str | list[str]) -> tuple[int, str, str]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(step) + "\n")
        self._process.stdin.flush()
        status, out, err = json.loads(self._process.stdout.readline())
        return status, out, err


_CONSOLE = """
import contextlib, io, json, sys, traceback
from blockhole.cli.main import main
for line in sys.stdin:
    step = json.loads(line)
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        status = 0
        try:
            exec(step, {}) if isinstance(step, str) else main(step)
        except SystemExit as end:
            status = int(end.code or 0)
        except BaseException:
            traceback.print_exc()
            status = 1
    print(json.dumps([status, out.getvalue(), err.getvalue()]), flush=True)
"""


def environment() -> dict[str, str]:
    """The variables of somebody who knows none of ours, with a wide window."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("BLOCKHOLE_", "PYTHON"))}
    return kept | {"COLUMNS": "200"}


def build(out: Path, source: Path = ROOT, *options: str) -> None:
    """`python -m build` of a source tree, with the tools that are installed here."""
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", out, *options, source],
        check=True,
        capture_output=True,
        timeout=600,
    )


def installed() -> Path | None:
    """The environment that `BLOCKHOLE_INSTALLED` names, which has the wheel and its dependencies already."""
    named = os.environ.get("BLOCKHOLE_INSTALLED")
    return Path(named).resolve() if named else None


def install(wheel: Path, folder: Path) -> None:
    """The wheel in an environment of its own, which finds what the wheel depends on in this one."""
    venv.create(folder, symlinks=True)
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--python", str(python)]
    subprocess.run([*pip, "install", "--no-deps", "--no-index", str(wheel)], check=True, timeout=600)
    mine = Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))
    # A line of a .pth file is a folder to search after ours; .pth files in that folder, such as the one that leads to
    # this tree, are not read. An environment may lie over another.
    folders = dict.fromkeys([sysconfig.get_path("purelib"), *(each for each in sys.path if each.endswith("-packages"))])
    (mine / "dependencies.pth").write_text("\n".join(folders) + "\n", encoding="utf-8")
    _take_compiled_loops(mine)


def _take_compiled_loops(site: Path) -> None:
    """Give an installed package the loops that were compiled from this tree, instead of compiling them once more.

    Numba knows by the times of files whether its own are of this source.
    """
    for file in (ROOT / "src").rglob("*"):
        other = site / file.relative_to(ROOT / "src")
        if file.suffix == ".py" and other.read_bytes() == file.read_bytes():
            shutil.copystat(file, other)
        elif file.suffix in {".nbi", ".nbc"}:
            other.parent.mkdir(exist_ok=True)
            shutil.copy2(file, other)


def without(folder: Path, modules: tuple[str, ...]) -> dict[str, str]:
    """Variables under which no Python process finds these modules, as where nobody has installed them."""
    folder.mkdir(exist_ok=True)
    lines = ["import sys", *(f"sys.modules[{name!r}] = None" for name in modules)]
    (folder / "sitecustomize.py").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return {"PYTHONPATH": str(folder)}
