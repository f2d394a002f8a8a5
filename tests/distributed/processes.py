"""Groups of processes for the scripts of these tests: forked, so that a group costs milliseconds.

Only for scripts that have imported everything and used nothing that starts threads.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable

from torch.distributed import TCPStore  # type: ignore[attr-defined]

_STORES: list[TCPStore] = []
"""As torchrun's, they outlive the processes that meet there."""


def start_group(processes: int, work: Callable[[], None]) -> list[int]:
    """Fork processes that see what torchrun would tell them, and let each do `work`; their process ids."""
    store = TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
    _STORES.append(store)
    children = []
    for rank in range(processes):
        child = os.fork()
        if child == 0:
            os.environ |= {
                "RANK": str(rank),
                "WORLD_SIZE": str(processes),
                "LOCAL_RANK": str(rank),
                "LOCAL_WORLD_SIZE": str(processes),
                "MASTER_ADDR": "localhost",
                "MASTER_PORT": str(store.port),
                "TORCHELASTIC_USE_AGENT_STORE": "True",
            }
            status = 1
            try:
                work()
                status = 0
            except SystemExit as end:
                status = int(end.code or 0)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
        children.append(child)
    return children


def end_group(children: list[int]) -> list[int]:
    """Wait for the processes of a group; their exit statuses."""
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
