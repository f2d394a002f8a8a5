"""One epoch of training on a packed graph, in a process of its own: `bench_scale.py` runs it and reads its JSON object.

    python -m benchmarks.scale_epoch PACKED RUN '{"model.blocks": 2, …}'

Time is that of the epoch after its first batch, which waits for compiled loops, by the clock and by the processor;
memory is that of all of `blockhole train`, with what it stated before it began. RSS is the kernel's mark, and counts
pages of mapped files as well.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from time import perf_counter, process_time
from typing import final

from blockhole.fitting import plan_memory, train
from blockhole.machine import peak_bytes

TOLD = 50
"""How often an epoch says on standard error how far it is."""


@final
class Clock:
    """Progress that is only timed: from the end of the first batch to the end of the last."""

    def __init__(self) -> None:
        self._marks: list[tuple[int, float, float]] = []
        self._paths = self._told = 0

    def epoch_begins(self, epoch: int, epochs: int, paths: int) -> None:
        """See Progress."""
        self._paths = paths

    def batches_done(self, paths: int, loss: float) -> None:
        """See Progress."""
        self._marks[1:] = [(paths, perf_counter(), process_time())]
        if len(self._marks) == 2 and paths >= self._told + self._paths / TOLD:
            self._told = paths
            positives, _, processor = self.spent()
            print(f"{paths:,} facts, {1e6 * processor / positives:.3f} processor µs each", file=sys.stderr, flush=True)

    def validated(self, figures: Mapping[str, float]) -> None:
        """See Progress."""

    def spent(self) -> tuple[int, float, float]:
        """Positives, and the seconds they took by the clock and by the processor."""
        (first, *start), (last, *end) = self._marks
        return last - first, end[0] - start[0], end[1] - start[1]


def main() -> None:
    packed, folder, settings = Path(sys.argv[1]), Path(sys.argv[2]), json.loads(sys.argv[3])
    clock = Clock()
    stated = plan_memory(packed, settings=settings)
    run = train(packed, settings=settings, out=folder, progress=clock)
    positives, seconds, processor = clock.spent()
    report = {
        "positives": positives,
        "seconds": round(seconds, 1),
        "processor_seconds": round(processor, 1),
        "microseconds_per_positive": round(1e6 * seconds / positives, 3),
        "processor_microseconds_per_positive": round(1e6 * processor / positives, 3),
        "loss": run.state.loss,
        "stated_mb": round(stated.held / 2**20),
        "stated_mapped_mb": round(stated.mapped / 2**20),
        "peak_rss_mb": round(peak_bytes() / 2**20),
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
