"""What is measured for each table: a trained model and a data set in, figures as JSON takes them out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import numpy as np
import torch

from blockhole.data.dataset import DataSet
from blockhole.errors import EvaluationError
from blockhole.evaluation.classification import evaluate_classification
from blockhole.evaluation.completion import evaluate_completion
from blockhole.evaluation.order import evaluate_order
from blockhole.evaluation.ranking import rank
from blockhole.evaluation.ranking_report import ranking_figures
from blockhole.evaluation.ranks import Ranks
from blockhole.evaluation.splits import queries_of
from blockhole.evaluation.triple_evidence import Evidence
from blockhole.evaluation.triples import evaluate_triples
from blockhole.evaluation.truth import Reading, Truth, build_truth
from blockhole.models.contract import Model
from blockhole.paper.experiment import Split, Table
from blockhole.paths.queries import PathQueries

Figures = dict[str, Any]
Measure = Callable[[Model, DataSet, Split, torch.device], Figures]

SWAPPED = ("parents", "religion")
"""The pair of relations of Table 4."""

READING: dict[Split, Reading] = {"test": "all", "dev": "split"}
"""F* of test queries is the paper's, train + valid + test. That of dev queries, which settings are chosen by, is
train + valid: test facts stay out of every choice."""

_QUERIES: dict[Split, dict[str, str]] = {
    "test": {"base": "base", "deduction": "deduction", "induction": "induction", "all": "all"},
    "dev": {"base": "valid", "deduction": "dev_deduction", "induction": "dev_induction", "all": "dev"},
}
"""The four parts of the ranking table, as `evaluation.splits` calls them."""


def check_measurable(table: Table, data: DataSet) -> None:
    """Refuse data that lacks what a table measures, before a model is trained on it."""
    if table == "order" and (lacking := [name for name in SWAPPED if name not in data.split.relations]):
        raise EvaluationError(f"{data.name} has no relation {lacking[0]!r}, which Table 4 asks about; FB13 has it.")
    if table == "triples" and not (len(data.split.valid_negatives) and len(data.split.test_negatives)):
        raise EvaluationError(
            f"{data.name} has no lines labelled -1 in valid and test, which triple classification needs; "
            "WN11 and FB13 have them."
        )
    if not (len(data.split.valid) and len(data.split.test)):
        raise EvaluationError(f"{data.name} has no valid or no test facts to measure on; give data that has both.")


def measure(table: Table, model: Model, data: DataSet, split: Split, device: torch.device) -> Figures:
    """The figures of one experiment, each with its bootstrap interval."""
    return _MEASURES[table](model, data, split, device)


def _truth(data: DataSet, split: Split) -> Truth:
    return build_truth(data.split, READING[split], "valid" if split == "dev" else "test")


def _ranking(model: Model, data: DataSet, split: Split, device: torch.device) -> Figures:
    """MQ and P@10 of base, deduction, induction and the last two together; of those also by path length."""
    truth, names = _truth(data, split), _QUERIES[split]
    parts = {part: queries_of(data, names[part]) for part in ("base", "deduction", "induction")}
    ranks = {part: rank(model, queries, truth, device=device) for part, queries in parts.items()}
    paths = (ranks["deduction"], ranks["induction"])
    ranks["all"] = Ranks(
        *(np.concatenate([getattr(part, name) for part in paths]) for name in ("better", "tied", "negatives"))
    )
    figures: Figures = {part: ranking_figures(each).to_dict() for part, each in ranks.items()}
    length = np.concatenate([parts["deduction"].length, parts["induction"].length])
    figures["all"]["by_length"] = {
        str(hops): ranking_figures(ranks["all"].take(length == hops)).to_dict() for hops in np.unique(length).tolist()
    }
    return figures


def _classification(model: Model, data: DataSet, split: Split, device: torch.device) -> Figures:
    """Accuracy on the paths of two hops or more, and on their reversed paths that do not hold."""
    queries = queries_of(data, _QUERIES[split]["all"])
    report = evaluate_classification(model, queries, _truth(data, split), device=device)
    by_length = {str(length): part.to_dict() for length, part in report.by_length.items()}
    return {**report.total.to_dict(), "by_length": by_length}


def _order(model: Model, data: DataSet, split: Split, device: torch.device) -> Figures:
    """Accuracy on every query with parents/religion, and on the same with religion/parents that do not hold."""
    names = ("train", "dev_deduction", "dev_induction")
    queries = (
        queries_of(data, "paths") if split == "test" else PathQueries.concatenate([data.paths(part) for part in names])
    )
    first, second = (data.split.relations.id(name) for name in SWAPPED)
    report = evaluate_order(model, queries, _truth(data, split), first, second, device=device)
    return report.total.to_dict()


def _completion(model: Model, data: DataSet, split: Split, device: torch.device) -> Figures:
    """Filtered MR, MRR and Hits@k of both sides of every fact."""
    triples = data.split.valid if split == "dev" else data.split.test
    report = evaluate_completion(model, triples, _truth(data, split), device=device).to_dict()
    return {
        name: report[name] for name in ("queries", "mr", "mrr", "hits_at_1", "hits_at_3", "hits_at_10", "intervals")
    }


def _triples(model: Model, data: DataSet, split: Split, device: torch.device) -> Figures:
    """Accuracy on labelled triples, by rules from dev: from all of it for test, from nine tenths for the tenth.

    `by_score` is the accuracy where the score is the only evidence.
    """
    report = evaluate_triples(model, data.split, on=split, evidence=get_args(Evidence), device=device)
    by_score = evaluate_triples(model, data.split, on=split, device=device)
    return {
        **report.total.to_dict(),
        "by_score": by_score.total.accuracy,
        "by_relation": {name: part.accuracy for name, part in report.by_relation.items()},
        "evidence": {name: report.rules[name].evidence for name in report.by_relation},
    }


_MEASURES: dict[Table, Measure] = {
    "ranking": _ranking,
    "classification": _classification,
    "order": _order,
    "completion": _completion,
    "triples": _triples,
}
