"""How good `train` without settings is, on eight generated graphs and four published ones.

Beside it stand chance, counting, and on the generated graphs a search of 30 trials.

Each graph leaves a record, `records/defaults/GRAPH.json`; what it has is not done again. Every figure is the filtered
MRR of the test facts, both sides, with F* = all facts: by probability as `evaluate` has it, and by score, which is all
that some records have. The search chooses by scores of validation facts, and its best is measured once, by score too.
Larger graphs are trained into folders, `records/runs`, and a search is kept in `records/searches`, so that both go on
where they were stopped.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from blockhole.data.dataset import DataSet, load
from blockhole.evaluation.completion import CompletionReport
from blockhole.evaluation.report import Table
from blockhole.fitting import train
from blockhole.measuring import evaluate
from blockhole.runs.run import Run
from blockhole.saving import write_file
from blockhole.tuning import tune
from experiments.graphs import TUNING, generate
from experiments.records import Commit

PUBLISHED: Final = ("kinship", "umls", "wn18rr", "fb15k-237")
LARGE: Final = PUBLISHED[2:]
"""Those that take minutes, and that are left out unless they are named."""
TRIALS: Final = 30
SEARCH_STEPS: Final = 300
"""Steps of a trial: a third of what `train` may take, and what the best settings are then trained for is the whole."""


def completed(run: Run, data: DataSet) -> CompletionReport:
    """Completion of the test facts by a run, beside chance and counting."""
    report = evaluate(run, task="completion", data=data, device="cpu")
    assert isinstance(report, CompletionReport)
    return report


def _by_score(report: CompletionReport) -> dict[str, float]:
    """The figures by score alone."""
    found = report.to_dict()
    figures = found if report.by == "score" else found["by_score"]
    return {name: figures[name] for name in report.metrics}


def record_graph(
    name: str, seeds: Sequence[int], records: Path, commit: Commit, say: Callable[[str], None], *, search: bool = True
) -> None:
    """Measure what the record of a graph has not yet, and keep each figure as it comes."""
    file = records / "defaults" / f"{name}.json"
    record: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}

    purpose = "published" if name in PUBLISHED else "tuning" if name in TUNING else "confirmation"

    def keep(**figures: Any) -> None:
        record.update(figures, graph=name, purpose=purpose, commit=commit.hash)
        write_file(file, (json.dumps(record, indent=1) + "\n").encode())
        say(f"{name}: {', '.join(figures)}")

    data = load(name) if name in PUBLISHED else generate(name)
    for seed in seeds:
        if "mrr" not in record.get("defaults", {}).get(str(seed), {}):
            clock, cpu = time.perf_counter(), time.process_time()
            folder = records / "runs" / f"{name}-{seed}" if name in LARGE else None
            run = train(name if folder else data, seed=seed, device="cpu", out=folder, resume=folder is not None)
            if not run.complete:
                raise KeyboardInterrupt
            seconds = {"seconds": time.perf_counter() - clock, "cpu_seconds": time.process_time() - cpu}
            report = completed(run, data)
            assert report.baselines is not None
            figures = {
                **{key: float(values.mean()) for key, values in report.metrics.items()},
                "interval": list(report.intervals["mrr"]),
                "by_score": _by_score(report),
                "choice": run.config.choice,
                **{key: round(value, 1) for key, value in seconds.items()},
            }
            beside = {key: figures["mrr"] for key, figures in report.baselines.to_dict().items()}
            keep(**beside, defaults={**record.get("defaults", {}), str(seed): figures})
    if search and name not in PUBLISHED and "search" not in record:
        folder = records / "searches" / name
        found = tune(data, folder, trials=TRIALS, settings={"training.steps": SEARCH_STEPS}, say=say)
        settings = json.loads(found.config.read_text(encoding="utf-8"))
        del settings["training"]["steps"], settings["choice"]
        best = train(data, preset="small", settings=_flat(settings), seed=0, device="cpu")
        measured = _by_score(completed(best, data))
        keep(
            search={"by_score": measured, "valid": found.best, "settings": found.settings, "trials": len(found.trials)}
        )


def _flat(settings: dict[str, Any]) -> dict[str, Any]:
    """Sections as dotted keys."""
    return {
        f"{section}.{key}": value
        for section, values in settings.items()
        if isinstance(values, dict)
        for key, value in values.items()
    }


def defaults_table(records: Path, names: Sequence[str]) -> Table:
    """A row for each graph that has a record."""
    rows = []
    for name in names:
        file = records / "defaults" / f"{name}.json"
        if not file.is_file():
            continue
        record = json.loads(file.read_text(encoding="utf-8"))
        runs = list(record.get("defaults", {}).values())
        found = [run["mrr"] for run in runs if "mrr" in run]
        by_score = [run["by_score"]["mrr"] for run in runs]
        bounds = " to ".join(f"{bound:.3f}" for bound in runs[0]["interval"]) if found else ""
        means = [fmean(each) if each else None for each in (found, by_score)]
        shown = [
            record.get("chance"),
            record.get("counting"),
            *means,
            record.get("search", {}).get("by_score", {}).get("mrr"),
        ]
        cells = ["–" if value is None else f"{value:.3f}" for value in shown]
        rows.append((name, record["purpose"], *cells[:3], bounds, str(len(found)), cells[3], str(len(runs)), cells[4]))
    header = (
        "graph", "for", "chance", "counting", "defaults", "95 % of seed 0", "seeds", "by score", "seeds",
        f"best of {TRIALS} trials, by score",
    )  # fmt: skip
    return Table("Filtered MRR of test facts", header, tuple(rows))
