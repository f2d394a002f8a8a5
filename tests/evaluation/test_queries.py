"""Complex queries: figures against plain loops over the definitions, for all fourteen types."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blockhole.errors import EvaluationError
from blockhole.evaluation.query_ranking import (
    FAMILIES,
    BoundedRanker,
    Graphs,
    QueryReport,
    evaluate_queries,
    rank_answers,
)
from blockhole.evaluation.ranking import TieRule
from blockhole.evaluation.report import compare_reports
from blockhole.evaluation.truth import align
from blockhole.graph.knowledge_graph import SplitGraph
from blockhole.graph.vocabulary import Vocabulary
from blockhole.queries.plans import Steps
from blockhole.queries.query_sets import QUERY_TYPES, QuerySet, QuerySplit, graphs_of_split, slots_of_type
from tests.evaluation import oracle

E, R = 9, 2
METRICS = ("mrr", "hits_at_1", "hits_at_3", "hits_at_10")


def _split(seed: int) -> SplitGraph:
    rng = np.random.default_rng(seed)
    facts = np.unique(np.column_stack([rng.integers(high, size=30) for high in (E, R, E)]), axis=0).astype(np.int32)
    parts = np.array_split(rng.permutation(facts), [len(facts) // 2, 3 * len(facts) // 4])
    return SplitGraph(
        Vocabulary([f"e{i}" for i in range(E)]), Vocabulary([f"r{i}" for i in range(R)], "relation"), *parts
    )


def _queries(seed: int, count: int = 4, types: Sequence[str] = tuple(QUERY_TYPES)) -> QuerySet:
    rng = np.random.default_rng(seed)
    high = {"e": E, "r": 2 * R}
    columns = {name: [rng.integers(high[slot], size=count) for slot in slots_of_type(name)] for name in types}
    return QuerySet("mine", {name: np.column_stack(own).astype(np.int32) for name, own in columns.items()})


def _value(ids: Sequence[int], entity: int) -> float:
    """Any value, with many ties, which neither rises nor falls with anything."""
    return (sum((place + 2) * each for place, each in enumerate(ids)) * 7 + entity * entity * 5) % 4 / 4


def _values(steps: Steps, ids: np.ndarray, sought: Sequence[np.ndarray]) -> list[tuple[np.ndarray, np.ndarray]]:
    assert len(ids) == len(sought)
    rows = [np.array([_value(row, entity) for entity in range(E)]) for row in ids.tolist()]
    return [(row, row) for row in rows]


def _evaluate(
    seed: int,
    which: QuerySplit = "test",
    ties: TieRule = "half",
    progress: Callable[[int], None] | None = None,
    **options: Any,
) -> QueryReport:
    split = _split(seed)
    graphs = Graphs(split.graph("train"), *graphs_of_split(split, which))
    queries = QuerySet("mine", _queries(seed).ids, which)
    return evaluate_queries(BoundedRanker(_values, graphs, **options), queries, ties=ties, progress=progress)


def _expected(seed: int, which: QuerySplit, ties: TieRule) -> dict[str, list[oracle.Judged]]:
    split = _split(seed)
    train, valid, test = ({(s, r, o) for s, r, o in each.tolist()} for each in (split.train, split.valid, split.test))
    easy, truth = (train, train | valid) if which == "valid" else (train | valid, train | valid | test)
    found = {}
    for name, ids in _queries(seed).ids.items():
        answers = oracle.judge(name, ids.tolist(), _value, train, easy, truth, E, R, ties)
        if answers:
            found[name] = answers
    return found


@given(
    seed=st.integers(0, 50),
    which=st.sampled_from(["valid", "test"]),
    ties=st.sampled_from(["half", "paper", "pessimistic"]),
)
@settings(max_examples=12, deadline=None)
@pytest.mark.slow
def test_figures_equal_the_definitions(seed: int, which: QuerySplit, ties: TieRule) -> None:
    report = _evaluate(seed, which, ties).to_dict()
    expected = _expected(seed, which, ties)
    assert list(report["types"]) == list(expected)
    figures = {name: oracle.over_queries(answers) for name, answers in expected.items()}
    for name, answers in expected.items():
        own = report["types"][name]
        assert {key: own[key] for key in figures[name]} == pytest.approx(figures[name])
        assert set(own["lacking"]) == {str(answer.lacking) for answer in answers}
        assert "0" not in own["lacking"]
        for number, part in own["lacking"].items():
            alone = oracle.over_queries([answer for answer in answers if answer.lacking == int(number)])
            assert {key: part[key] for key in alone} == pytest.approx(alone)
    for family, names in FAMILIES.items():
        of = [figures[name] for name in names if name in figures]
        mean = report[f"mean_{family}".replace(" ", "_")]
        for metric in METRICS:
            assert mean[metric] == pytest.approx(sum(each[metric] for each in of) / len(of))
            assert mean["intervals"][metric][0] <= mean[metric] <= mean["intervals"][metric][1]
    assert report["answers"] == sum(map(len, expected.values()))
    assert report["queries"] + report["excluded"] == 4 * len(QUERY_TYPES)


def test_the_fourteen_types_are_nine_and_five() -> None:
    assert [len(names) for names in FAMILIES.values()] == [9, 5]


def test_how_many_are_asked_together_changes_nothing() -> None:
    heard: list[int] = []
    whole = _evaluate(3, progress=heard.append)
    assert sum(heard) == 4 * len(QUERY_TYPES)
    from blockhole.machine import resident_bytes

    room = 2**24
    tight = _evaluate(3, memory=resident_bytes() + room, bytes_per_query=room // 2)
    timing = whole.timing.to_dict().keys()
    own, other = ({k: v for k, v in each.to_dict().items() if k not in timing} for each in (whole, tight))
    assert own == other
    with pytest.raises(EvaluationError, match="a memory cap of 1 MB is too small for one query"):
        _evaluate(3, memory=1_000_000, bytes_per_query=1)


def test_bounds_that_leave_a_place_open_give_the_worst_and_are_counted() -> None:
    low = np.array([0.5, 0.4, 0.2, 0.1])
    high = np.array([0.5, 0.6, 0.2, 0.1])
    hard, easy = np.array([0]), np.array([3])
    worst, best = rank_answers(low, high, hard, easy)
    assert (worst.rank().tolist(), best.rank().tolist()) == ([2.0], [1.0])
    assert worst.negatives.tolist() == [2]
    split = _split(1)

    def unsure(steps: Steps, ids: np.ndarray, sought: Sequence[np.ndarray]) -> list[tuple[np.ndarray, np.ndarray]]:
        return [(np.zeros(E), np.ones(E)) for _ in ids]

    graphs = Graphs(split.graph("train"), *graphs_of_split(split, "test"))
    unsettled = evaluate_queries(BoundedRanker(unsure, graphs), _queries(1))
    report = unsettled.to_dict()
    assert unsettled.tables()[0].title.endswith(
        f"; {report['answers']} answers too costly to settle, with the worst rank possible"
    )
    assert report["unsettled"]["answers"] == report["answers"]
    assert report["unsettled"]["mrr"] > 0
    assert _evaluate(1).to_dict()["unsettled"] == {"answers": 0, "mrr": 0}


def test_tables_show_types_means_and_what_proofs_lack() -> None:
    report = _evaluate(2)
    figures, lacking = report.tables()
    assert figures.header == ("type", "MRR", "95 %", "Hits@1", "Hits@3", "Hits@10", "queries", "answers")
    assert [row[0] for row in figures.rows[-2:]] == ["mean without negation", "mean with negation"]
    assert figures.rows[0][1] == report.types[str(figures.rows[0][0])].all.means["mrr"]
    assert lacking.header[:3] == ("type", "lacks 1", "answers")


def test_two_models_are_compared_on_the_same_queries() -> None:
    one, other = _evaluate(4), _evaluate(4, ties="pessimistic")
    comparison = compare_reports({"one": one, "other": other})
    for family, report in one.means.items():
        assert comparison.means["one"][f"mrr {family}"] == pytest.approx(report.all.means["mrr"])
    assert comparison.differences["other"]["mrr without negation"].mean < 0


def test_queries_in_the_ids_of_a_model() -> None:
    split = _split(0)
    entities = Vocabulary([f"e{i}" for i in reversed(range(E))])
    relations = Vocabulary([f"r{i}" for i in reversed(range(R))], "relation")
    moved = align(split, entities, relations).query_set(_queries(0))
    for name, ids in _queries(0).ids.items():
        for slot, before, after in zip(slots_of_type(name), ids.T, moved.ids[name].T, strict=True):
            names = [(split.entities, entities), (split.relations, relations)][slot == "r"]
            count = len(names[0])
            assert [names[0][i % count] for i in before] == [names[1][i % count] for i in after]
            assert [i >= count for i in before] == [i >= count for i in after]


@pytest.mark.parametrize(
    ("ids", "sentence"),
    [
        ([[0, 1], [E, 0]], "mine is a query set of another graph: a 1p query names entity 9, but here ids end at 8; "),
        ([[0, 2 * R]], "mine is a query set of another graph: a 1p query names relation 4, but here ids end at 3; "),
    ],
)
def test_queries_over_another_graph(ids: list[list[int]], sentence: str) -> None:
    split = _split(0)
    with pytest.raises(EvaluationError, match=f"^{sentence}"):
        align(split, split.entities, split.relations).query_set(QuerySet("mine", {"1p": np.array(ids, dtype=np.int32)}))


def test_nothing_to_rank() -> None:
    split = _split(0)
    graphs = Graphs(split.graph("train"), *graphs_of_split(split, "test"))
    with pytest.raises(EvaluationError, match=r"^mine has no queries; name a set that has some"):
        evaluate_queries(BoundedRanker(_values, graphs), QuerySet("mine", {}))
    known = Graphs(graphs.truth, graphs.truth, graphs.truth)
    with pytest.raises(EvaluationError, match=r"^no query of mine has a hard answer"):
        evaluate_queries(BoundedRanker(_values, known), _queries(0))
