"""Where a figure comes from: the commit of the code, the device, the version of torch."""

from __future__ import annotations

import platform
import subprocess
from pathlib import Path
from typing import NamedTuple

import torch

_DIRTY = "-dirty"


class Commit(NamedTuple):
    """A commit, and whether files that git tracks differed from it; no hash where no repository tracks the package."""

    hash: str | None
    dirty: bool | None

    @classmethod
    def parse(cls, description: str) -> Commit:
        """The commit in what `git describe --always --dirty --abbrev=40 --exclude '*'` prints."""
        return cls(description.removesuffix(_DIRTY), description.endswith(_DIRTY))


def current_commit() -> Commit:
    """The commit this package runs from."""
    # Installed into an environment inside another project, the package lies in that project's repository, untracked.
    if _git("ls-files", "--error-unmatch", Path(__file__).name) is None:
        return Commit(None, None)
    description = _git("describe", "--always", "--dirty", "--abbrev=40", "--exclude", "*")
    return Commit(None, None) if description is None else Commit.parse(description)


def _git(*arguments: str) -> str | None:
    """What git says in the folder of this file; None where it fails or is not installed."""
    try:
        done = subprocess.run(
            ["git", *arguments], capture_output=True, text=True, check=False, cwd=Path(__file__).parent
        )
    except FileNotFoundError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def describe_device(device: torch.device) -> str:
    """The name of the GPU, or of the processor."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    information = Path("/proc/cpuinfo")
    lines = information.read_text(encoding="utf-8").splitlines() if information.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
