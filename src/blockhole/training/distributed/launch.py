"""How torchrun says that it has started this process, and which of its processes it is; light to import."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True, slots=True)
class Launch:
    """Process `rank` of `processes`, `local_rank` of `local_processes` on this host."""

    rank: int
    processes: int
    local_rank: int
    local_processes: int


def launched() -> Launch | None:
    """The launch this process belongs to; absent where no launcher has started it."""
    environment = os.environ
    if not {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"} <= environment.keys():
        return None
    return Launch(
        rank=int(environment["RANK"]),
        processes=int(environment["WORLD_SIZE"]),
        local_rank=int(environment.get("LOCAL_RANK", "0")),
        local_processes=int(environment.get("LOCAL_WORLD_SIZE", "1")),
    )


def speaks() -> bool:
    """Whether this process is the one of its launch that prints."""
    launch = launched()
    return launch is None or launch.rank == 0
