"""What `evaluate` and `compare` share: from a run and the options of a command to a report, its file and its plots."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np
import torch
from numpy.typing import NDArray

from blockhole.cli.measuring_options import Task
from blockhole.cli.output import stderr
from blockhole.data.dataset import load
from blockhole.errors import EvaluationError
from blockhole.evaluation.classification import ClassificationReport, evaluate_classification, evaluate_order
from blockhole.evaluation.completion import evaluate_completion
from blockhole.evaluation.path_ranking import RankingReport, evaluate_ranking
from blockhole.evaluation.ranking import TieRule
from blockhole.evaluation.report import Report, Table, markdown
from blockhole.evaluation.triples import evaluate_triples
from blockhole.evaluation.truth import Alignment, Reading, Truth, align, build_truth, evaluated_facts, queries_of
from blockhole.graph.knowledge_graph import KnowledgeGraph, SplitGraph
from blockhole.machine import choose_device, parse_size
from blockhole.queries.language import encode, write_name
from blockhole.queries.path_sets import read_paths
from blockhole.queries.paths import PathQueries
from blockhole.runs.run import Run
from blockhole.saving import replacing


@final
@dataclass(frozen=True, slots=True)
class Wanted:
    """The options of the two commands; None is what was not given."""

    data: str | None
    task: Task
    split: str | None
    truth: Reading
    ties: TieRule
    memory: str
    order: str | None
    device: str
    seed: int


class _Material(NamedTuple):
    """What a run is measured on, in the ids of its model; `facts` [T, 3] are those of a file of queries."""

    split: SplitGraph
    queries: PathQueries
    name: str
    facts: NDArray[np.int32] | None


def measure(run: Run, wanted: Wanted) -> Report:
    """Measure one run."""
    memory, device = parse_size(wanted.memory), choose_device(wanted.device)
    if wanted.order is not None and wanted.task != "classification":
        raise EvaluationError("--order belongs to --task classification.")
    if wanted.task == "triples":
        return evaluate_triples(run.model, _labelled_split(run, wanted), device=device, seed=wanted.seed)
    split, queries, name, facts = _material(run, wanted)
    truth = build_truth(split, wanted.truth, evaluated_facts(name), facts)
    if wanted.task == "classification":
        return _classify(run, queries, truth, name, wanted, device)
    triples = _as_triples(queries, len(split.relations)) if wanted.task == "completion" else None
    with _progress(len(queries) if triples is None else 2 * len(queries)) as progress:
        if triples is not None:
            return evaluate_completion(
                run.model, triples, truth,
                split=name, ties=wanted.ties, memory=memory, device=device, seed=wanted.seed, progress=progress,
            )  # fmt: skip
        return evaluate_ranking(
            run.model, queries, truth,
            split=name, ties=wanted.ties, memory=memory, device=device, seed=wanted.seed, progress=progress,
        )  # fmt: skip


def _classify(
    run: Run, queries: PathQueries, truth: Truth, name: str, wanted: Wanted, device: torch.device
) -> ClassificationReport:
    if wanted.order is None:
        return evaluate_classification(run.model, queries, truth, split=name, device=device, seed=wanted.seed)
    first, second = relation_pair(wanted.order, truth.graph)
    return evaluate_order(run.model, queries, truth, first, second, split=name, device=device, seed=wanted.seed)


def relation_pair(text: str, graph: KnowledgeGraph) -> tuple[int, int]:
    """The ids of R1/R2, written as in a query."""
    # The language has no paths without a source, so any entity stands in for one.
    _, path = encode(f"{write_name(graph.entities[0])}/{text}", graph)
    if len(path) != 2:
        raise EvaluationError(f"--order takes two relations, such as parents/religion, not {text!r}.")
    return path[0], path[1]


def _labelled_split(run: Run, wanted: Wanted) -> SplitGraph:
    if wanted.split not in (None, "base") or _is_file(wanted.data):
        raise EvaluationError("triple classification takes the labelled test facts of a data set: no --split, no file.")
    data = load(_trained_on(run) if wanted.data is None else wanted.data)
    return _aligned(run, data.split, data.name).split(data.split)


def _material(run: Run, wanted: Wanted) -> _Material:
    if wanted.data is not None and _is_file(wanted.data):
        if wanted.split is not None:
            raise EvaluationError(f"the queries of {wanted.data} are one split; leave --split out.")
        data = load(_trained_on(run))
        queries = read_paths(wanted.data, run.entities, run.relations)
        if len(queries) == 0:
            raise EvaluationError(f"{wanted.data} has no queries; give a file with some.")
        facts = _as_triples(queries.take(queries.length == 1), len(run.relations))
        return _Material(_aligned(run, data.split, data.name).split(data.split), queries, wanted.data, facts)
    data = load(_trained_on(run) if wanted.data is None else wanted.data)
    alignment = _aligned(run, data.split, data.name)
    name = wanted.split or _default_split(wanted, data.has_paths)
    if wanted.task == "completion" and name not in ("base", "valid"):
        raise EvaluationError(f"completion takes the split base (the test facts) or valid, not {name}.")
    return _Material(alignment.split(data.split), alignment.queries(queries_of(data, name)), name, None)


def _default_split(wanted: Wanted, has_paths: bool) -> str:
    if wanted.order is not None:
        return "paths"
    if wanted.task == "completion" or (wanted.task == "ranking" and not has_paths):
        return "base"
    return "all"


def _trained_on(run: Run) -> str:
    if run.config.data is None:
        raise EvaluationError("the run does not say which data it was trained on; name it with --data.")
    return run.config.data


def _is_file(data: str | None) -> bool:
    return data is not None and Path(data).is_file()


def _aligned(run: Run, split: SplitGraph, name: str) -> Alignment:
    return align(split, run.entities, run.relations, name)


def _as_triples(queries: PathQueries, num_relations: int) -> NDArray[np.int32]:
    """Queries of length 1 as facts [T, 3]; s/^r → o is the fact (o, r, s)."""
    if (queries.length > 1).any():
        raise EvaluationError("completion takes single relations, and some of the queries have longer paths.")
    relation = queries.path[:, 0]
    inverse = relation >= num_relations
    source = np.where(inverse, queries.target, queries.source)
    target = np.where(inverse, queries.source, queries.target)
    return np.column_stack([source, relation % num_relations, target]).astype(np.int32)


@contextmanager
def _progress(queries: int) -> Iterator[Callable[[int], None]]:
    from rich.progress import Progress

    console = stderr()
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("ranking", total=queries)
        yield lambda finished: bar.advance(task, finished)


def check_outputs(report: Path | None, plots: Path | None) -> None:
    """Refuse a report or plots that could not be written, before anything is measured."""
    if report is not None and report.suffix not in (".md", ".json"):
        raise EvaluationError(f"{report}: a report is Markdown or JSON; end its name in .md or .json.")
    if plots is not None:
        from blockhole.evaluation.plots import check_drawing

        check_drawing()


def write_report(path: Path, title: str, tables: Sequence[Table], result: Mapping[str, Any]) -> None:
    """Write the tables as Markdown, or the result as JSON, whichever the name says."""
    if path.suffix == ".md":
        text = f"# {title}\n\n{markdown(tables)}"
    else:
        text = json.dumps(result, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def draw(folder: Path, runs: Mapping[str, Run], reports: Mapping[str, Report]) -> None:
    """Draw what there is to draw about some runs and their reports."""
    from blockhole.evaluation import plots

    ranking = {name: report for name, report in reports.items() if isinstance(report, RankingReport)}
    judged = {name: report for name, report in reports.items() if isinstance(report, ClassificationReport)}
    curves = {name: metrics for name, run in runs.items() if (metrics := run.metrics())}
    if ranking:
        plots.save_figure(plots.plot_quantile_by_length(ranking), folder, "quantile-by-length")
    if judged:
        plots.save_figure(plots.plot_reliability(judged), folder, "reliability")
    if curves:
        plots.save_figure(plots.plot_training_curves(curves), folder, "training-curves")


def with_data(wanted: Wanted, runs: Mapping[str, Run]) -> Wanted:
    """The options with the data that all runs are to be measured on."""
    if wanted.data is not None:
        return wanted
    trained = {name: _trained_on(run) for name, run in runs.items()}
    if len(set(trained.values())) > 1:
        listed = ", ".join(f"{name} on {data}" for name, data in trained.items())
        raise EvaluationError(f"the runs were trained on different data ({listed}); name one with --data.")
    return replace(wanted, data=next(iter(trained.values())))
