"""Starts a worker of a benchmark, alone or in processes that torchrun starts together, each with one thread."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from typing import Any


def add_sizes(parser: ArgumentParser) -> None:
    """The options that a benchmark of steps and its worker share."""
    parser.add_argument("--data", default="wn11")
    parser.add_argument("--loss", default="softmax")
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=30)


def figures_of(worker: Sequence[str], processes: int | None = None) -> Any:
    """What the module worker[0], given the rest as arguments, prints as JSON last; `processes` absent: no torchrun."""
    together = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    done = subprocess.run(
        [sys.executable, *(together if processes else []), "-m", *worker],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])
