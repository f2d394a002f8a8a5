"""Progress bars on standard error, shown where that is a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Self, final

from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TextColumn, TimeRemainingColumn
from rich.text import Text

from blockhole.cli.output import stderr


@contextmanager
def working_bar(doing: str) -> Iterator[Callable[[int, int], None]]:
    """A bar for what is done piece by piece: what is yielded takes how many are done, of how many."""
    console = stderr()
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(doing, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@final
class _Speed(ProgressColumn):
    """Positives per second."""

    def render(self, task: Task) -> Text:
        return Text(f"{task.finished_speed or task.speed or 0:,.0f} paths/s")


@final
class TrainingBar:
    """Shows training as it goes, if this process is the one to show it; see training.trainer.Progress."""

    def __init__(self, *, shown: bool = True) -> None:
        console = stderr()
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("loss {task.fields[loss]}"),
            _Speed(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[figures]}"),
            console=console,
            transient=True,
            disable=not (shown and console.is_terminal),
        )
        self._task: TaskID | None = None
        self._before = 0
        self._paths = 0

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def epoch_begins(self, epoch: int, epochs: int, paths: int) -> None:
        """The bar runs over all epochs that are left, so that the time left is the run's."""
        if self._task is None:
            self._task = self._bar.add_task("", total=paths * (epochs - epoch + 1), loss="–", figures="")
        else:
            self._before += self._paths
        self._paths = paths
        self._bar.update(self._task, description=f"epoch {epoch}/{epochs}")

    def batches_done(self, paths: int, loss: float) -> None:
        """Move the bar on."""
        assert self._task is not None
        self._bar.update(self._task, completed=self._before + paths, loss=f"{loss:.4f}")

    def validated(self, figures: Mapping[str, float]) -> None:
        """Show the newest figures beside the bar."""
        assert self._task is not None
        self._bar.update(self._task, figures="  ".join(f"{name} {value:.2f}" for name, value in figures.items()))
