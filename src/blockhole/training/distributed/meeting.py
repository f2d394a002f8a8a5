"""How the processes of one attempt find each other in a launcher's store that earlier attempts have written to."""

from __future__ import annotations

from datetime import timedelta
from time import monotonic, sleep
from uuid import uuid4

from torch.distributed.distributed_c10d import PrefixStore, Store

from blockhole.errors import RunError

WITHIN = timedelta(minutes=10)
_PAUSE = 0.02


def store_of_attempt(shared: Store, rank: int, processes: int, within: timedelta = WITHIN) -> Store:
    """The part of the launcher's store that belongs to this attempt alone.

    The store outlives an attempt that failed, and with it the addresses of processes that are gone. No number of the
    launcher's tells attempts apart: on several hosts each launcher counts its own restarts. So process 0 makes up a
    name for the attempt. Every other process leaves a word that nobody has used before, and finds the name under it;
    words that earlier processes left are answered too, and read by none.
    """
    meeting = PrefixStore("blockhole/meeting", shared)
    name = _tell_name(meeting, processes, within) if rank == 0 else _learn_name(meeting, rank, within)
    return PrefixStore(f"blockhole/{name}", shared)


def _tell_name(meeting: Store, processes: int, within: timedelta) -> str:
    """Process 0: answer until every other process has read the name."""
    name, end = uuid4().hex, monotonic() + within.total_seconds()
    answered: dict[int, str] = {}
    absent = set(range(1, processes))
    while absent:
        for rank in sorted(absent):
            if meeting.check([f"{name}/{rank}"]):
                absent.remove(rank)
            elif meeting.check([f"word/{rank}"]) and (word := meeting.get(f"word/{rank}").decode()) != answered.get(
                rank
            ):
                meeting.set(f"name/{word}", name)
                answered[rank] = word
        if absent and monotonic() > end:
            raise RunError(
                f"process {min(absent)} of the run has not come within {within.total_seconds():.0f} s; "
                "see that every host has started its processes."
            )
        sleep(_PAUSE if absent else 0)
    return name


def _learn_name(meeting: Store, rank: int, within: timedelta) -> str:
    word = uuid4().hex
    meeting.set(f"word/{rank}", word)
    try:
        meeting.wait([f"name/{word}"], within)
    except RuntimeError:
        raise RunError(
            f"process 0 of the run has not come within {within.total_seconds():.0f} s; "
            "see that every host has started its processes."
        ) from None
    name: str = meeting.get(f"name/{word}").decode()
    meeting.set(f"{name}/{rank}", "")
    return name
