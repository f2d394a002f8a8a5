"""Where a figure comes from: the commit of the code, the device, the version of torch."""

from __future__ import annotations

import platform
import subprocess
from pathlib import Path
from typing import NamedTuple

import torch

_DIRTY = "-dirty"


class Commit(NamedTuple):
    """A commit, and whether files that git tracks differed from it; no hash where there is no repository to ask."""

    hash: str | None
    dirty: bool | None

    @classmethod
    def parse(cls, description: str) -> Commit:
        """The commit in what `git describe --always --dirty --abbrev=40 --exclude '*'` prints."""
        return cls(description.removesuffix(_DIRTY), description.endswith(_DIRTY))


def current_commit() -> Commit:
    """The commit this package runs from."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude", "*"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parent)
    except FileNotFoundError:
        return Commit(None, None)
    return Commit.parse(done.stdout.strip()) if done.returncode == 0 else Commit(None, None)


def describe_device(device: torch.device) -> str:
    """The name of the GPU, or of the processor."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    information = Path("/proc/cpuinfo")
    lines = information.read_text(encoding="utf-8").splitlines() if information.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
