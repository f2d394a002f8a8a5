"""The data behind a run."""

from __future__ import annotations

from blockhole.data.dataset import DataSet
from blockhole.errors import RunError
from blockhole.training.run import Run


def data_of(run: Run) -> DataSet:
    """The data set that the run was trained on."""
    if run.config.data is None:
        raise RunError("the run was trained on a graph in memory and names no data set; give the data as well.")
    from blockhole.data.load import load

    data = load(run.config.data)
    require_same_names(run, data)
    return data


def require_same_names(run: Run, data: DataSet) -> None:
    """Refuse data whose ids mean other names than the run's: they would give wrong answers, not none."""
    if (data.split.entities, data.split.relations) != (run.entities, run.relations):
        raise RunError(f"the run was trained on other data than {data.name}: its names differ; give the same data.")
