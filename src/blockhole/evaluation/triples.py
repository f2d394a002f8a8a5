"""Triple classification (Socher et al. 2013): labelled triples, one threshold per relation, chosen on dev."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple, final

import numpy as np
import torch
from numpy.typing import NDArray

from blockhole.errors import EvaluationError
from blockhole.evaluation.classification import Accuracy, accuracy_metrics, accuracy_table, measure_accuracy
from blockhole.evaluation.completion import inverted
from blockhole.evaluation.report import Table, Timing
from blockhole.evaluation.scorer import Scorer
from blockhole.graph.knowledge_graph import SplitGraph
from blockhole.models.contract import Model
from blockhole.queries.paths import PathQueries

Evidence = Literal["score", "share_of_objects", "share_of_subjects"]
"""score: φ(s, r, o). share_of_objects: the logarithm of the share of o, φ(s, r, o) - log Σ_e exp φ(s, r, e) over the
objects e that r takes in train. share_of_subjects: the same of s for (o, r⁻¹, ?); it is small where the known subjects
of o leave nothing for another."""

FOLDS = 10
"""Parts of dev, each judged by what the others say, when dev itself is measured."""

Lines = NDArray[np.int32]
Measured = Mapping[Evidence, NDArray[np.float64]]


class Rule(NamedTuple):
    """How the triples of a relation are judged: true if their `evidence` is `threshold` or more."""

    evidence: Evidence
    threshold: float


@final
@dataclass(frozen=True, slots=True)
class TriplesReport:
    """Triple classification on one split; `rules` by relation name, `judged` and `label` positives first."""

    split: str
    total: Accuracy
    by_relation: dict[str, Accuracy]
    rules: dict[str, Rule]
    timing: Timing
    judged: NDArray[np.bool_] = field(repr=False)
    label: NDArray[np.bool_] = field(repr=False)
    digits: ClassVar[int] = 1
    remark: ClassVar[str | None] = None

    @property
    def metrics(self) -> dict[str, NDArray[np.float64]]:
        """100 or 0 for each triple: over all, over positives, over negatives."""
        return accuracy_metrics(self.label, self.judged)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the scores of single triples."""
        return {
            "task": "triples",
            "split": self.split,
            "queries": len(self.label),
            **self.total.to_dict(),
            "by_relation": {relation: part.to_dict() for relation, part in self.by_relation.items()},
            "evidence": {relation: rule.evidence for relation, rule in self.rules.items()},
            "thresholds": {relation: rule.threshold for relation, rule in self.rules.items()},
            **self.timing.to_dict(),
        }

    def tables(self) -> list[Table]:
        """All triples, then by relation."""
        return [
            accuracy_table(f"Triple classification on {self.split}, per cent", "triples", {"all": self.total}),
            accuracy_table("By relation", "relation", self.by_relation),
        ]


def evaluate_triples(
    model: Model,
    split: SplitGraph,
    *,
    on: Literal["dev", "test"] = "test",
    evidence: Sequence[Evidence] = ("score",),
    device: torch.device | str = "cpu",
    seed: int = 0,
) -> TriplesReport:
    """Choose a rule for each relation on the labelled valid triples and judge the labelled test triples by it.

    Each relation takes the evidence and the threshold that are right most often on its valid triples, the first of
    `evidence` where several are. A relation that valid lacks takes what is best over all valid triples. On dev, each of
    ten parts is judged by rules from the other nine, so that settings can be chosen there; the rules reported are those
    of all dev.
    """
    for name, negatives in (("valid", split.valid_negatives), ("test", split.test_negatives)):
        if len(negatives) == 0:
            raise EvaluationError(
                f"the {name} facts have no lines labelled -1, which triple classification needs (WN11 and FB13 have "
                "them); give files with a fourth column of 1 and -1, or choose another task."
            )
    start = time.perf_counter()
    scorer, relations = Scorer(model, split.graph(), device), len(split.relations)
    dev, dev_label = _labelled(split.valid, split.valid_negatives)
    measured = measure_evidence(scorer, split.train, relations, dev, evidence)
    rules = _choose_rules(measured, dev_label, dev[:, 1], relations)
    if on == "test":
        lines, label = _labelled(split.test, split.test_negatives)
        judged = _judge(measure_evidence(scorer, split.train, relations, lines, evidence), lines[:, 1], rules)
    else:
        lines, label = dev, dev_label
        judged = _judge_by_others(measured, label, lines[:, 1], relations, seed)
    timing = Timing(len(lines), time.perf_counter() - start)

    by_relation = {}
    for relation in np.unique(lines[:, 1]):
        part = lines[:, 1] == relation
        by_relation[split.relations[relation]] = measure_accuracy(label[part], judged[part], seed)
    named = dict(zip(split.relations, rules, strict=True))
    return TriplesReport(on, measure_accuracy(label, judged, seed), by_relation, named, timing, judged, label)


def _labelled(positives: Lines, negatives: Lines) -> tuple[Lines, NDArray[np.bool_]]:
    return np.concatenate([positives, negatives]), np.arange(len(positives) + len(negatives)) < len(positives)


def _choose_rules(measured: Measured, label: NDArray[np.bool_], relation: Lines, relations: int) -> list[Rule]:
    """The rule of every relation, from lines with these labels and relations; [N] each."""
    rules = [_best_rule(measured, label, slice(None))] * relations
    for each in np.unique(relation).tolist():
        rules[each] = _best_rule(measured, label, relation == each)
    return rules


def _best_rule(measured: Measured, label: NDArray[np.bool_], part: NDArray[np.bool_] | slice) -> Rule:
    rules = [Rule(name, best_threshold(score[part], label[part])) for name, score in measured.items()]
    return max(rules, key=lambda rule: int(((measured[rule.evidence][part] >= rule.threshold) == label[part]).sum()))


def best_threshold(score: NDArray[np.float64], label: NDArray[np.bool_]) -> float:
    """The t for which `score ≥ t` agrees with `label` most often; of several the one in the widest gap of scores.

    Among equally wide gaps the lowest. The ends, all true and all false, are taken only when they are strictly best.
    """
    order = np.argsort(score, kind="stable")
    score, label = score[order], label[order]
    # right[i]: how many are right when the first i are judged false.
    right = label.sum() + np.concatenate([[0], np.cumsum(np.where(label, -1, 1))])
    between = np.flatnonzero(np.diff(score) > 0) + 1
    places = np.concatenate([[0], between, [len(score)]])
    gaps = np.concatenate([[0.0], score[between] - score[between - 1], [0.0]])
    gaps[right[places] < right[places].max()] = -1.0
    place = int(places[np.argmax(gaps)])
    if place == 0:
        return float(score[0])
    if place == len(score):
        return float(np.nextafter(score[-1], np.inf))
    middle = score[place - 1] + (score[place] - score[place - 1]) / 2
    return float(middle if middle > score[place - 1] else score[place])


def _judge(measured: Measured, relation: Lines, rules: Sequence[Rule]) -> NDArray[np.bool_]:
    judged = np.zeros(len(relation), dtype=bool)
    for each in np.unique(relation).tolist():
        part = relation == each
        judged[part] = measured[rules[each].evidence][part] >= rules[each].threshold
    return judged


def _judge_by_others(
    measured: Measured, label: NDArray[np.bool_], relation: Lines, relations: int, seed: int
) -> NDArray[np.bool_]:
    """Every line judged by rules from the other folds; [N].

    A positive and the negative of the same number share a fold: in Socher's files one is made from the other.
    """
    draw = np.random.default_rng(seed)
    order = draw.permutation(max(label.sum(), (~label).sum()))
    fold = np.concatenate([order[: label.sum()], order[: (~label).sum()]]) % FOLDS
    judged = np.zeros(len(label), dtype=bool)
    for each in np.unique(fold):
        others, part = fold != each, fold == each
        if not others.any():
            raise EvaluationError("dev has too few labelled lines to be judged by each other; measure test.")
        rest = {name: score[others] for name, score in measured.items()}
        rules = _choose_rules(rest, label[others], relation[others], relations)
        judged[part] = _judge({name: score[part] for name, score in measured.items()}, relation[part], rules)
    return judged


def measure_evidence(
    scorer: Scorer, train: NDArray[np.int32], relations: int, lines: NDArray[np.int32], wanted: Sequence[Evidence]
) -> dict[Evidence, NDArray[np.float64]]:
    """Each kind of evidence that is `wanted` for each line (s, r, o); train [T, 3], lines [N, 3] → [N] each."""
    measured: dict[Evidence, NDArray[np.float64]] = {}
    for kind in wanted:
        if kind == "share_of_subjects":
            measured[kind] = _log_share(scorer, inverted(train, relations), inverted(lines, relations))
        elif kind == "share_of_objects":
            measured[kind] = _log_share(scorer, train, lines)
        else:
            measured[kind] = scorer.score(PathQueries.from_triples(lines))
    return measured


def _log_share(scorer: Scorer, train: NDArray[np.int32], lines: NDArray[np.int32]) -> NDArray[np.float64]:
    """φ - log Σ exp φ over the objects of the relation in train; where it has none there, over the line's own."""
    share = scorer.score(PathQueries.from_triples(lines))
    for relation in np.unique(lines[:, 1]):
        part = np.flatnonzero(lines[:, 1] == relation)
        rivals = np.unique(train[train[:, 1] == relation, 2])
        if not len(rivals):
            rivals = np.unique(lines[part, 2])
        # Lines that share their subject share the sum.
        _, first, place = np.unique(lines[part, 0], return_index=True, return_inverse=True)
        share[part] -= scorer.log_sum_exp(PathQueries.from_triples(lines[part[first]]), rivals)[place]
    return share
