"""The files in deploy/ say what the program and the Makefile say."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from typer.main import get_command

from blockhole.cli.serve import app

ROOT = Path(__file__).resolve().parents[2]


def _options() -> set[str]:
    serve = get_command(app).commands["serve"]  # type: ignore[attr-defined]
    return {option for parameter in serve.params for option in parameter.opts if option.startswith("--")}


def test_the_unit_starts_the_server_with_options_it_has() -> None:
    unit = (ROOT / "deploy" / "blockhole.service").read_text(encoding="utf-8")
    (start,) = re.findall(r"^ExecStart=(.*)$", unit, re.MULTILINE)
    words = shlex.split(start)
    assert words[0].endswith("/bin/blockhole")
    assert words[1] == "serve"
    assert {word for word in words if word.startswith("--")} <= _options()
    assert "ExecReload=/bin/kill -HUP $MAINPID" in unit


def test_the_unit_is_one_that_systemd_takes(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("there is no systemd-analyze on this machine")
    unit = (ROOT / "deploy" / "blockhole.service").read_text(encoding="utf-8")
    own = tmp_path / "blockhole.service"
    own.write_text(unit.replace("/opt/blockhole/.venv/bin/blockhole", shutil.which("true") or ""), encoding="utf-8")
    result = subprocess.run([analyze, "verify", str(own)], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")


def test_the_image_installs_what_the_makefile_installs() -> None:
    dockerfile = (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    torch, package = re.findall(r"pip install --quiet --no-cache-dir (.*)$", dockerfile, re.MULTILINE)
    assert f"pip install --quiet {torch}\n" in makefile
    (extras,) = re.findall(r"'\.\[(.*)\]'", package)
    (installed,) = re.findall(r"--editable '\.\[(.*)\]'", makefile)
    assert set(extras.split(",")) <= set(installed.split(","))
    for name in re.findall(r"^COPY (.*) \./", dockerfile, re.MULTILINE):
        assert all((ROOT / part).exists() for part in name.split())


def test_every_option_is_documented() -> None:
    text = (ROOT / "docs" / "how-to" / "serve.md").read_text(encoding="utf-8")
    assert {option for option in _options() if f"`{option}" not in text} == set()
