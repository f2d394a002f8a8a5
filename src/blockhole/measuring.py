"""Measure trained runs, from a run and the name of a task to a report: what `evaluate` and `compare` call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from blockhole.answering.engine import Engine
from blockhole.answering.reliability import judge_answers, measured_by_type
from blockhole.answering.search import Candidates
from blockhole.answering.sweep import Sweep, rank_hops
from blockhole.data.dataset import DataSet, load
from blockhole.errors import Count, EvaluationError, Seed, checked, quoted
from blockhole.evaluation.classification import ClassificationReport, evaluate_classification, evaluate_order
from blockhole.evaluation.completion import By, evaluate_completion
from blockhole.evaluation.path_ranking import evaluate_ranking
from blockhole.evaluation.query_ranking import BoundedRanker, Graphs, QueryReport, Ranker, evaluate_queries
from blockhole.evaluation.ranking import TieRule
from blockhole.evaluation.report import Comparison, Report, compare_reports
from blockhole.evaluation.triples import evaluate_triples
from blockhole.evaluation.truth import Reading, Truth, align, build_truth, evaluated_facts, queries_of
from blockhole.graph.knowledge_graph import KnowledgeGraph, SplitGraph
from blockhole.machine import DEFAULT_MEMORY, choose_device, parse_size, torch_threads
from blockhole.queries.language import encode_path, pieces
from blockhole.queries.path_sets import read_paths
from blockhole.queries.paths import PathQueries
from blockhole.queries.query_sets import QuerySet, QuerySplit, graphs_of_split
from blockhole.runs.run import Run

Task = Literal["ranking", "classification", "triples", "completion", "queries"]
"""What can be measured; docs/explanation/measures.md defines the figures of each."""

Progress = Callable[[int, int], None]
"""Hears how many queries have been ranked, of how many."""


class _Material(NamedTuple):
    """What a run is measured on, in the ids of its model; `facts` [T, 3] are those of a file of queries."""

    split: SplitGraph
    queries: PathQueries
    name: str
    facts: NDArray[np.int32] | None


@checked
def evaluate(
    run: Run | Path | str,
    *,
    task: Task = "ranking",
    split: str | None = None,
    data: DataSet | Path | str | None = None,
    truth: Reading = "all",
    ties: TieRule = "half",
    by: By | None = None,
    memory: int | str = DEFAULT_MEMORY,
    order: str | None = None,
    queries: QuerySet | Path | str | None = None,
    limit: Count | None = None,
    candidates: Candidates = "all",
    reliability: bool = False,
    device: str = "auto",
    seed: Seed = 0,
    progress: Progress | None = None,
) -> Report:
    """Measure a run, or the run in a folder, on test queries.

    `data` is a data set, its name or path, or a file of queries over the run's own data; by default what the run was
    trained on. `split` names the queries (see docs/explanation/protocol.md), by default all path queries, or the test
    facts (base) where there are none. `truth` says which facts count as true, `ties` how a tie counts, `memory` is the
    most memory to use, in bytes or as a text such as "2GB". Completion orders entities `by` their probabilities, as
    `ask` does, with figures by score beside them; by "score" alone if asked to, or where the run is not calibrated.
    With an `order` R1/R2, classification tells paths with R1/R2 from the same with R2/R1. The task "queries" takes a
    set of complex `queries` of the data by its name, a file of them or the set itself, at most `limit` of each type,
    drawn by `seed`, and ranks `candidates`: all entities, or those that a relation takes in the graph ("typed"); with
    `reliability` it also compares the probabilities of the ten best predicted answers with what is true. `seed` draws
    the bootstrap intervals too. `progress` hears how far a ranking has come. Ranking and completion have baselines
    beside their figures: chance, and counting how often a relation has an object in train; `remark` says where the
    model does not beat them.
    """
    run = _opened(run)
    allowed = parse_size(memory) if isinstance(memory, str) else memory
    place = choose_device(device)
    if order is not None and task != "classification":
        raise EvaluationError(
            "an order (--order) is judged by classification; leave it out, or add --task classification."
        )
    if by is not None and task != "completion":
        raise EvaluationError("what orders entities (--by) is for completion; leave it out, or add --task completion.")
    if task == "queries":
        chosen = _query_set(run, data, queries, split)
        engine = Engine.open(run, graph=chosen.data.graph("train"), calibrated=True)
        return judge_queries(
            engine, chosen.data, chosen.queries if limit is None else chosen.queries.take(limit, seed), place,
            name=chosen.name, ties=ties, candidates=candidates, reliability=reliability, memory=allowed, seed=seed,
            progress=progress,
        )  # fmt: skip
    if queries is not None or limit is not None or candidates != "all" or reliability:
        raise EvaluationError(
            "a set of queries (--queries), its --limit, its --candidates and its reliability are for the task queries; "
            "leave them out, or add --task queries."
        )
    if task == "triples":
        return evaluate_triples(run.model, _labelled_split(run, data, split), device=place, seed=seed)
    material = _material(run, task, split, data, order)
    facts = build_truth(material.split, truth, evaluated_facts(material.name), material.facts)
    if task == "classification":
        return _classify(run, material, facts, order, place, seed)
    if task == "completion":
        triples, train = _as_triples(material.queries, len(run.relations)), material.split.graph("train")
        asked = None if by == "score" else _with_probabilities(run, train, required=by is not None)
        advance = _counting(progress, 2 * len(triples) * (1 if asked is None else 2))
        by_probability = asked and partial(
            rank_hops, asked, truth=facts, device=place, memory=allowed, progress=advance
        )
        return evaluate_completion(
            run.model, triples, facts, split=material.name, ties=ties, memory=allowed, device=place, seed=seed,
            train=train, by_probability=by_probability, progress=advance,
        )  # fmt: skip
    return evaluate_ranking(
        run.model, material.queries, facts, split=material.name, ties=ties, memory=allowed, device=place, seed=seed,
        train=material.split.graph("train"), progress=_counting(progress, len(material.queries)),
    )  # fmt: skip


@checked
def compare(
    runs: Sequence[Run | Path | str],
    *,
    task: Task = "ranking",
    split: str | None = None,
    data: DataSet | Path | str | None = None,
    truth: Reading = "all",
    ties: TieRule = "half",
    by: By | None = None,
    memory: int | str = DEFAULT_MEMORY,
    order: str | None = None,
    queries: QuerySet | Path | str | None = None,
    limit: Count | None = None,
    candidates: Candidates = "all",
    reliability: bool = False,
    device: str = "auto",
    seed: Seed = 0,
    progress: Progress | None = None,
) -> Comparison:
    """Measure several runs on the same queries, and each one's difference from the first (paired bootstrap).

    The arguments are those of `evaluate`. Runs go by their folders; one that is only in memory by its place, "run 2".
    """
    opened = dict(_named(runs))
    if len(opened) < 2:
        raise EvaluationError("a comparison needs two or more different runs.")
    if data is None:
        data = _common_data(opened)
    if task == "completion" and by is None and any(_with_probabilities(run) is None for run in opened.values()):
        by = "score"  # the same for all
    reports = {
        name: evaluate(
            run, task=task, split=split, data=data, truth=truth, ties=ties, by=by, memory=memory, order=order,
            queries=queries, limit=limit, candidates=candidates, reliability=reliability, device=device, seed=seed,
            progress=progress,
        )
        for name, run in opened.items()
    }  # fmt: skip
    return compare_reports(reports, seed)


class _Complex(NamedTuple):
    """A set of complex queries and the graph they are over, in the ids of a model."""

    data: SplitGraph
    name: str
    queries: QuerySet


def _query_set(
    run: Run, data: DataSet | Path | str | None, queries: QuerySet | Path | str | None, split: str | None
) -> _Complex:
    if split not in (None, "valid", "test"):
        raise EvaluationError(f"complex queries take the split test or valid, not {split}.")
    if queries is None:
        raise EvaluationError("name a set of queries with --queries, such as betae, or give a file of them.")
    which: QuerySplit | None = None if split is None else "valid" if split == "valid" else "test"
    loaded = _load(run, data)
    found = queries if isinstance(queries, QuerySet) else loaded.queries(queries, which)
    if found.split not in ("valid", "test"):
        raise EvaluationError(f"{found.name} holds queries of train, whose answers are all known; name another set.")
    alignment = align(loaded.split, run.entities, run.relations, loaded.name)
    return _Complex(alignment.split(loaded.split), loaded.name, alignment.query_set(found))


def judge_queries(
    engine: Engine,
    split: SplitGraph,
    queries: QuerySet,
    device: torch.device,
    *,
    name: str = "the data set",
    ties: TieRule = "half",
    candidates: Candidates = "all",
    reliability: bool = False,
    memory: int = DEFAULT_MEMORY,
    seed: int = 0,
    progress: Progress | None = None,
) -> QueryReport:
    """Rank the hard answers of complex queries by the probabilities of a calibrated engine.

    The facts of `split`, the data called `name`, say which answers are easy and which hard; the engine reads those of
    its own graph, and all ids are its. With `reliability`, the probabilities of the ten best predicted answers are
    judged by the same facts.
    """
    engine.require_calibration()  # a run in memory has none
    graphs = Graphs(engine.graph, *graphs_of_split(split, queries.split, name))
    advance = _counting(progress, len(queries) * (1 + reliability)) or (lambda asked: None)
    with torch_threads(1):
        report = evaluate_queries(
            _ranker(engine, graphs, queries, candidates, memory, device), queries, ties=ties, candidates=candidates,
            seed=seed, progress=advance,
        )  # fmt: skip
        if not reliability:
            return report
        judged = {
            type_: judge_answers(
                engine, queries.plans(type_), graphs.truth, candidates=candidates, device=device, progress=advance
            )
            for type_ in queries.ids
        }
    return replace(report, reliability=measured_by_type(judged))


def _ranker(
    engine: Engine, graphs: Graphs, queries: QuerySet, candidates: Candidates, memory: int, device: torch.device
) -> Ranker:
    """What ranks answers on a device: a GPU opens every row, a processor those that matter."""
    if device.type == "cuda":
        from blockhole.answering.device import DeviceRanker, DeviceSweep

        return DeviceRanker(DeviceSweep(engine, device, candidates), graphs)
    sweep = Sweep(engine, candidates)
    return BoundedRanker(
        sweep.bounds, graphs, memory=memory, bytes_per_query=sweep.bytes_per_query,
        bytes_ahead=sweep.bytes_ahead(queries),
    )  # fmt: skip


def _with_probabilities(run: Run, graph: KnowledgeGraph | None = None, *, required: bool = False) -> Engine | None:
    """The engine of a run over some facts; none where it has no probabilities, or they take long in a large graph."""
    engine = Engine.opened(run, graph)
    engine.require_calibration(unless=not required)
    kept = engine.calibrated and engine.calibrated.normalisers is not None
    return engine if required or kept else None


def relation_pair(text: str, graph: KnowledgeGraph) -> tuple[int, int]:
    """The ids of R1/R2, written as in a query."""
    if len(pieces(text)) != 2 or not all(text[piece.column : piece.end].strip() for piece in pieces(text)):
        raise EvaluationError(f"an order (--order) is two relations, such as parents/religion, not {quoted(text)}.")
    first, second = encode_path(text, graph.relations)
    return first, second


def _opened(run: Run | Path | str) -> Run:
    return run if isinstance(run, Run) else Run.open(run)


def _named(runs: Sequence[Run | Path | str]) -> list[tuple[str, Run]]:
    named = []
    for place, given in enumerate(runs, start=1):
        run = _opened(given)
        named.append((f"run {place}" if run.folder is None else str(run.folder), run))
    return named


def _common_data(runs: Mapping[str, Run]) -> DataSet:
    trained = {name: run.config.data for name, run in runs.items()}
    if len(set(trained.values())) > 1:
        listed = ", ".join(f"{name} on {data}" for name, data in trained.items())
        raise EvaluationError(f"the runs were trained on different data ({listed}); name one with --data.")
    return _trained_on(next(iter(runs.values())))


def _trained_on(run: Run) -> DataSet:
    data = run.load_data()
    if data is None:
        raise EvaluationError("the run does not say which data it was trained on; name it with --data.")
    return data


def _load(run: Run, data: DataSet | Path | str | None) -> DataSet:
    if isinstance(data, DataSet):
        return data
    return _trained_on(run) if data is None else load(data)


def _labelled_split(run: Run, data: DataSet | Path | str | None, split: str | None) -> SplitGraph:
    if split not in (None, "base") or _query_file(data) is not None:
        raise EvaluationError(
            "triple classification takes the labelled test facts of a data set; leave --split out, and name no file."
        )
    loaded = _load(run, data)
    return align(loaded.split, run.entities, run.relations, loaded.name).split(loaded.split)


def _material(
    run: Run, task: Task, split: str | None, data: DataSet | Path | str | None, order: str | None
) -> _Material:
    file = _query_file(data)
    if file is not None:
        if split is not None:
            raise EvaluationError(f"the queries of {file} are one split; leave --split out.")
        return _queries_of_file(run, file)
    loaded = _load(run, data)
    alignment = align(loaded.split, run.entities, run.relations, loaded.name)
    name = split or _default_split(task, order, loaded.has_paths)
    if task == "completion" and name not in ("base", "valid"):
        raise EvaluationError(f"completion takes the split base (the test facts) or valid, not {name}.")
    return _Material(alignment.split(loaded.split), alignment.queries(queries_of(loaded, name)), name, None)


def _queries_of_file(run: Run, file: Path | str) -> _Material:
    queries = read_paths(file, run.entities, run.relations)
    if len(queries) == 0:
        raise EvaluationError(f"{file} has no queries; give a file with some.")
    data = _trained_on(run)
    split = align(data.split, run.entities, run.relations, data.name).split(data.split)
    facts = _as_triples(queries.take(queries.length == 1), len(run.relations))
    return _Material(split, queries, str(file), facts)


def _query_file(data: DataSet | Path | str | None) -> Path | str | None:
    return data if isinstance(data, Path | str) and Path(data).is_file() else None


def _default_split(task: Task, order: str | None, has_paths: bool) -> str:
    if order is not None:
        return "paths"
    if task == "completion" or (task == "ranking" and not has_paths):
        return "base"
    return "all"


def _classify(
    run: Run, material: _Material, truth: Truth, order: str | None, device: torch.device, seed: int
) -> ClassificationReport:
    queries, name = material.queries, material.name
    if order is None:
        return evaluate_classification(run.model, queries, truth, split=name, device=device, seed=seed)
    first, second = relation_pair(order, truth.graph)
    return evaluate_order(run.model, queries, truth, first, second, split=name, device=device, seed=seed)


def _as_triples(queries: PathQueries, num_relations: int) -> NDArray[np.int32]:
    """Queries of length 1 as facts [T, 3]; s/^r → o is the fact (o, r, s)."""
    if (queries.length > 1).any():
        raise EvaluationError("completion takes single relations, and some of the queries have longer paths.")
    relation = queries.path[:, 0]
    inverse = relation >= num_relations
    source = np.where(inverse, queries.target, queries.source)
    target = np.where(inverse, queries.source, queries.target)
    return np.column_stack([source, relation % num_relations, target]).astype(np.int32)


def _counting(progress: Progress | None, total: int) -> Callable[[int], None] | None:
    """What the ranking tells of each block, added up for `progress`."""
    if progress is None:
        return None
    done = 0

    def advance(finished: int) -> None:
        nonlocal done
        done += finished
        progress(done, total)

    return advance
