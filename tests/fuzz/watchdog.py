"""Runs a target in a process of its own, and watches it: no foreign exception, no hang, no growth, no crash."""

from __future__ import annotations

import json
import os
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from blockhole.errors import BlockholeError
from tests.fuzz.kinds import Target, files_of, write_files

HANG = 10.0
"""Seconds that one input may take, not counting those in which the machine is busy with others."""
GROWTH = 1 << 30
"""Bytes of memory that one input, or all of a process together, may add."""
_START = 120.0
"""Seconds a process may take to make its valid inputs."""
_CORPUS = 400
"""Inputs kept to damage further, at most."""
_KEPT = 3
"""Inputs kept of those that fail in the same way."""


class Limits(NamedTuple):
    """How long an input may take, how much memory, and how many inputs there are at most."""

    seconds: float = HANG
    growth: int = GROWTH
    inputs: float = inf


USUAL = Limits()


@dataclass
class Tally:
    """What came of a target: how many inputs, how many failed and in how many ways, the slowest and the largest."""

    inputs: int = 0
    failures: int = 0
    ways: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    growth: int = 0


# In the process that works.


def work(target: Target, place: Path, seed: str, say: Callable[[dict[str, Any]], object], first: int = 0) -> None:
    """Damage and read one input after the other without end, and `say` what came of each.

    An input that is refused in a way not seen before joins those that are damaged further: so the search comes past
    the first check that a damaged file fails.
    """
    warnings.simplefilter("ignore")
    home = place / "seeds"
    home.mkdir(parents=True, exist_ok=True)
    corpus = list(target.seeds(home))
    valid = len(corpus)
    known: set[str] = set()
    watched = target.watched() or os.getpid()
    before = _memory(watched, "VmRSS")
    say({"watched": watched})
    for number in _from(first):
        rng = Random(f"{seed}/{number}")
        # Gone before the next is made: where making it fails, the last one is not to blame.
        shutil.rmtree(place / "input", ignore_errors=True)
        # The valid ones first, as they are.
        files = corpus[number] if number < valid else target.damaged(rng, rng.choice(corpus), rng.choice(corpus))
        (place / "input").mkdir()
        with suppress(OSError, ValueError):  # a name that no file can have
            write_files(files, place / "input")
        outcome, trace, seconds = read_one(target, place)
        say({"number": number, "seconds": seconds, "growth": _memory(watched, "VmHWM") - before, "trace": trace})
        if trace is None and outcome not in known and len(corpus) < _CORPUS:
            known.add(outcome)
            corpus.append(files)


def _from(first: int) -> Iterator[int]:
    while True:
        yield first
        first += 1


def read_one(target: Target, place: Path) -> tuple[str, str | None, float]:
    """What came of the input in `place`, the trace where that is a foreign exception, and the seconds it took."""
    processes = {os.getpid(), target.watched() or os.getpid()}
    began, trace = own_time(processes), None
    try:
        target.read(place / "input")
        outcome = "read"
    except BlockholeError as refusal:
        outcome = re.sub(r"\d+|'[^']*'|\"[^\"]*\"|\([^)]*\)|/\S+", "", f"{type(refusal).__name__} {refusal}"[:500])
    except KeyboardInterrupt:
        raise
    except BaseException:  # a panic of polars is no Exception
        outcome, trace = "foreign", traceback.format_exc()
    return outcome, trace, own_time(processes) - began


def own_time(processes: Iterable[int]) -> float:
    """A clock that stands still while a process could run, but the machine is busy with others."""
    waited = 0
    for process in processes:
        with suppress(OSError, ValueError, IndexError):
            waited += int(Path(f"/proc/{process}/schedstat").read_text(encoding="ascii").split()[1])
    return time.monotonic() - waited / 1e9


def _memory(process: int, line: str) -> int:
    """VmRSS, what a process holds, or VmHWM, the most that it held since it was last asked."""
    status = Path(f"/proc/{process}/status").read_text(encoding="ascii", errors="replace")
    found = re.search(rf"{line}:\s+(\d+) kB", status)
    with suppress(OSError):
        Path(f"/proc/{process}/clear_refs").write_text("5", encoding="ascii")
    return 1024 * int(found.group(1)) if found else 0


# In the process that watches.


def watch(
    name: str,
    seconds: float,
    seed: int,
    kept: Path,
    tell: Callable[[Tally], object] = lambda tally: None,
    limits: Limits = USUAL,
    command: tuple[str, ...] = (sys.executable, "-m", "tests.fuzz"),
) -> Tally:
    """Work on a target for so many seconds; a process that hangs, grows or crashes is replaced by a new one.

    `command` starts such a process, given the target, where to work, a seed, the number of the first input, and the
    descriptor of a file to say in what came of each; after each it waits for a line on its standard input.
    """
    tally = Tally()
    end = time.monotonic() + seconds
    with tempfile.TemporaryDirectory(prefix=f"fuzz-{name}-") as folder:
        while time.monotonic() < end and tally.inputs < limits.inputs:
            place = Path(folder) / str(tally.inputs)
            failure = _follow(command, name, place, seed, end, tally, kept, limits, tell)
            if failure is not None:
                tally.inputs += 1
                _keep(kept, name, tally, place, failure)
            shutil.rmtree(place, ignore_errors=True)
    return tally


def _follow(
    command: tuple[str, ...],
    name: str,
    place: Path,
    seed: int,
    end: float,
    tally: Tally,
    kept: Path,
    limits: Limits,
    tell: Callable[[Tally], object],
) -> str | None:
    """Start a process and hear what it says until the end, or until it can no longer be used: then, why."""
    place.mkdir()
    reader, writer = os.pipe()
    with (place / "log").open("wb") as log:
        task = ["--work", str(place), "--seed", str(seed), "--first", str(tally.inputs), "--say", str(writer)]
        process = subprocess.Popen(
            [*command, name, *task],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            pass_fds=[writer],
            start_new_session=True,
            env={**os.environ, **_ONE_THREAD},
        )
    os.close(writer)
    try:
        with os.fdopen(reader, "rb") as messages:
            return _listen(process, messages, name, place, end, tally, kept, limits, tell)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # its server too
        process.wait()
        if process.stdin is not None:
            process.stdin.close()


_ONE_THREAD = {"OMP_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1", "RAYON_NUM_THREADS": "1"}


def _listen(
    process: subprocess.Popen[bytes],
    messages: Any,
    name: str,
    place: Path,
    end: float,
    tally: Tally,
    kept: Path,
    limits: Limits,
    tell: Callable[[Tally], object],
) -> str | None:
    assert process.stdin is not None
    watched, patience, told = process.pid, _START, time.monotonic()
    heard = own_time({process.pid})
    while (now := time.monotonic()) < end and tally.inputs < limits.inputs:
        if now > told + 10:
            told = now
            tell(tally)
        if not select.select([messages], [], [], 0.1)[0]:
            if own_time({process.pid, watched}) - heard > patience:
                return f"hang: no end after {patience:g} s"
            with suppress(OSError):
                if _resident(watched) > 4 * limits.growth:  # before the machine has none left
                    return f"growth: {_resident(watched) / 2**20:,.0f} MB, and not at its end"
            continue
        line = messages.readline()
        if not line:
            # It says no more as soon as an exception begins to end it, and only then writes what it was.
            status = process.wait()
            log = (place / "log").read_text(encoding="utf-8", errors="replace")
            return f"crash: the process ended with {_status(status)}\n{log[-3000:]}"
        message = json.loads(line)
        if "watched" in message:
            watched, patience = message["watched"], limits.seconds
        heard = own_time({process.pid, watched})
        if "watched" in message:
            process.stdin.write(b"\n")
            continue
        tally.inputs += 1
        tally.seconds, tally.growth = max(tally.seconds, message["seconds"]), max(tally.growth, message["growth"])
        if failure := message["trace"] or _excess(limits, message["seconds"], message["growth"]):
            _keep(kept, name, tally, place, failure)
            if message["growth"] > limits.growth:
                return None  # a new process begins small again
        process.stdin.write(b"\n")  # so that the input stays until it is kept
    return None


def _status(status: int) -> str:
    """The signal by name, where it was one."""
    if status >= 0:
        return f"status {status}"
    with suppress(ValueError):
        return signal.Signals(-status).name
    return f"signal {-status}"


def _resident(process: int) -> int:
    pages = Path(f"/proc/{process}/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def _excess(limits: Limits, seconds: float, growth: int) -> str | None:
    if seconds > limits.seconds:
        return f"hang: {seconds:.1f} s"
    return f"growth: {growth / 2**20:,.0f} MB" if growth > limits.growth else None


def _keep(kept: Path, name: str, tally: Tally, place: Path, failure: str) -> None:
    """Count a failure, and keep the first inputs that fail in this way, with how to try them again."""
    frames = re.findall(r'File ".*?((?:blockhole|tests)/\S+)", line (\d+)', failure)
    last = failure.strip().splitlines()[-1 if failure.startswith("Traceback") else 0]
    way = re.sub(r"\d+", "", last)[:80] + (f" at {':'.join(frames[-1])}" if frames else "")
    tally.failures += 1
    tally.ways[way] += 1
    if tally.ways[way] > _KEPT:
        return
    folder = kept / f"{name}-{tally.inputs}"
    shutil.rmtree(folder, ignore_errors=True)
    if (place / "input").is_dir():
        write_files(files_of(place / "input"), folder / "input")
    folder.mkdir(parents=True, exist_ok=True)
    replay = f"python -m tests.fuzz {name} --replay {shlex.quote(str(folder / 'input'))}"
    (folder / "failure.txt").write_text(f"{replay}\n\n{failure}\n", encoding="utf-8", errors="replace")
