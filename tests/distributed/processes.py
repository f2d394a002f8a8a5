"""Groups of processes for the scripts of these tests: forked, so that a group costs milliseconds.

Only for scripts that have imported everything and used nothing that starts threads: a process that is forked beside a
thread may wait for ever for what the thread held. The stores where groups meet have threads, so a process of its own
keeps them.
"""

from __future__ import annotations

import gc
import os
import traceback
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from multiprocessing import Pipe
from multiprocessing.connection import Connection

from torch.distributed import TCPStore  # type: ignore[attr-defined]


def start_group(processes: int, work: Callable[[], None]) -> list[int]:
    """Fork processes that see what torchrun would tell them, and let each do `work`; their process ids."""
    # What trainings import late is imported here once: it would take each of a hundred children two seconds of
    # processor. Workers that run the tests import this module too, and need none of it.
    import numba  # noqa: F401
    import scipy.optimize  # noqa: F401
    import torch._dynamo  # noqa: F401

    gc.freeze()  # or every child would look through all of it, and copy it
    keeper = _store_keeper()
    keeper.send(None)
    port = keeper.recv()
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
                "MASTER_PORT": str(port),
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


@cache
def _store_keeper() -> Connection:
    """The way to a process that makes a store whenever it is sent something, and sends back its port.

    As torchrun's, stores outlive the groups that meet there: they end when this process does, with all that it forked.
    """
    here, there = Pipe()
    if os.fork() == 0:
        here.close()
        try:
            _keep_stores(there)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)
    there.close()
    return here


def _keep_stores(asked: Connection) -> None:
    stores = []
    with suppress(EOFError):
        while True:
            asked.recv()
            stores.append(TCPStore("localhost", 0, is_master=True, wait_for_workers=False))
            asked.send(stores[-1].port)


def end_group(children: list[int]) -> list[int]:
    """Wait for the processes of a group; their exit statuses."""
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
