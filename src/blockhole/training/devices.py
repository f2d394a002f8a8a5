"""Where to train: the device, and the number of CPU threads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from blockhole.errors import ConfigError


def choose_device(name: str) -> torch.device:
    """The device `name` means; auto is CUDA where there is one, then MPS, then the CPU."""
    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    kind, colon, number = name.partition(":")
    present = {
        "cpu": 1,
        "cuda": torch.cuda.device_count(),
        "mps": int(torch.backends.mps.is_available()),
    }
    if kind not in present or (colon and not number.isdecimal()):
        raise ConfigError(f"{name!r} is no device; use auto, cpu, cuda, cuda:N or mps.")
    if int(number or 0) >= present[kind]:
        raise ConfigError(f"the device {name!r} is not on this machine; use auto, or cpu.")
    return torch.device(name)


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Let torch use `count` CPU threads within the block."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
