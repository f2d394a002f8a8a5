"""Starts a worker of a benchmark, alone or in processes that torchrun starts together, each with one thread."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any


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
