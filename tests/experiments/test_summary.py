"""Means over seeds, published figures and claims, against figures worked by hand."""

from __future__ import annotations

from typing import Any

import pytest

from blockhole.errors import DataError
from blockhole.evaluation.query_ranking import FAMILIES
from blockhole.evaluation.report import Table
from experiments.document import document
from experiments.records import SHOWN_TABLES, Record, Summary, look_up, summarise
from experiments.tables import GOALS, PAPER, QUERIES, claims_table, goals_table, missing_seeds, tables_of
from experiments.timing import DIMENSIONS, growth


def record(figures: dict[str, Any], *, table: str = "ranking", column: str = "best", **more: Any) -> Record:
    plain: dict[str, Any] = {
        "table": table, "data": "wn11", "column": column, "seed": 0, "split": "test", "truth": "all",
        "settings": {"training": {"seed": 0}}, "parameters": 1, "epochs": 1, "best_epoch": None, "loss": 1.0,
        "seconds": 1.0, "training_seconds": 1.0, "device": "cpu", "torch": "2", "commit": "a" * 40, "dirty": False,
    }  # fmt: skip
    return Record(**(plain | more), figures=figures)


def part(mq: float | None, low: float = 0.0, queries: int = 3) -> dict[str, Any]:
    return {"all": {"mq": mq, "queries": queries, "intervals": {"mq": [low, 100.0]}}}


def test_means_and_deviations_over_seeds() -> None:
    records = [record(part(80.0, 70.0)), record(part(84.0, 74.0), seed=1), record(part(88.0, 78.0), seed=2)]
    found = look_up(summarise(records), "ranking", "wn11", "best", "all")
    assert found == {
        "mq": 84.0, "mq_deviation": 4.0, "queries": 3, "intervals": {"mq": [74.0, 100.0]}, "seeds": 3,
    }  # fmt: skip


def test_one_seed_has_no_deviation_and_a_figure_over_no_queries_stays_none() -> None:
    found = look_up(summarise([record(part(80.0))]), "ranking", "wn11", "best", "all")
    assert (found["mq"], found["mq_deviation"], found["seeds"]) == (80.0, None, 1)
    none = look_up(summarise([record(part(None)), record(part(None), seed=1)]), "ranking", "wn11", "best", "all")
    assert none["mq"] is None


def test_dev_records_count_in_no_summary_of_test() -> None:
    records = [record(part(80.0)), record(part(20.0), split="dev")]
    assert look_up(summarise(records), "ranking", "wn11", "best", "all", "mq") == 80.0
    assert look_up(summarise(records, "dev"), "ranking", "wn11", "best", "all", "mq") == 20.0


def test_records_of_different_settings_have_no_mean() -> None:
    other = {"training": {"seed": 1, "epochs": 9}}
    with pytest.raises(DataError, match=r"^the records of ranking/wn11/best have different settings"):
        summarise([record(part(80.0)), record(part(80.0), seed=1, settings=other)])


def test_a_setting_that_an_older_record_does_not_know_has_its_default() -> None:
    newer = {"training": {"seed": 1}, "loss": {"rare_weight": 1.0}}
    assert summarise([record(part(80.0)), record(part(82.0), seed=1, settings=newer)])
    with pytest.raises(DataError, match="different settings"):
        summarise([record(part(80.0)), record(part(82.0), seed=1, settings=newer | {"loss": {"rare_weight": 0.5}})])


def test_without_records_everything_is_missing_and_nothing_is_made_up() -> None:
    empty = summarise([])
    assert empty == {table: {} for table in SHOWN_TABLES}
    for name in SHOWN_TABLES:
        for table in tables_of(empty, name):
            ours = [row for row in table.text() if row[1] == "missing"]
            assert ours
            for row in ours:
                assert all(cell in ("missing", "–") or header == "paper" for header, cell in _cells(table, row))
    assert {row[-1] for row in claims_table(empty).rows + goals_table(empty).rows} == {"missing"}


def test_declared_seeds_without_a_record_are_named() -> None:
    (row,) = [
        line for line in document([record({}), record({}, seed=2)]).splitlines() if line.startswith("| ranking/wn11")
    ]
    assert row.split(" | ")[:2] == ["| ranking/wn11/best", "0, 2 (1 missing)"]
    assert missing_seeds("time", [0]) == []


def _cells(table: Table, row: list[str]) -> list[tuple[str, str]]:
    return list(zip(table.header[1:], row[1:], strict=True))


def test_a_table_shows_mean_deviation_and_the_papers_figure() -> None:
    figures = {
        name: {"mq": mq, "p_at_10": 30.0, "p_at_10_with_excluded": 31.0, "excluded": 2, "intervals": {"mq": [1.0, 2.0]}}
        for name, mq in (("base", 85.0), ("deduction", 99.0), ("induction", 84.0), ("all", 95.0))
    }
    records = [record(figures, column="blockhole-2x25"), record(figures, column="blockhole-2x25", seed=1)]
    mq, hits, other, intervals, overall = tables_of(summarise(records), "ranking")[:5]
    row = next(row for row in mq.text() if row[0] == "blockhole-2x25")
    assert row[1:] == ["85.0 ± 0.0", "83.4", "99.0 ± 0.0", "99.5", "84.0 ± 0.0", "81.0", "95.0 ± 0.0"]
    assert next(row for row in hits.text() if row[0] == "blockhole-2x25")[2] == "80.9"
    assert "counted as hits" in other.title
    assert next(row for row in other.text() if row[0] == "blockhole-2x25")[1] == "31.0 ± 0.0"
    assert next(row for row in intervals.text() if row[0] == "blockhole-2x25")[1] == "1.0–2.0"
    assert ["CoKE (Wang et al. 2019)", "94.2", "67.9"] in overall.text()


@pytest.mark.parametrize(
    ("data", "deduction", "induction", "metric", "overall"),
    [
        ("wn11", 24_749, 21_828, "mq", 90.8),
        ("wn11", 24_749, 21_828, "p_at_10", 63.0),
        ("fb13", 77_883, 31_674, "mq", 91.1),
        ("fb13", 77_883, 31_674, "p_at_10", 73.9),
    ],
)
def test_the_papers_figures_were_typed_in_as_printed(
    data: str, deduction: int, induction: int, metric: str, overall: float
) -> None:
    """Weighted by the sizes of its Table 2 they give the known overall figures of b = 2, m = 25."""
    parts = [PAPER["ranking", data, "blockhole-2x25", name, metric].figure for name in ("deduction", "induction")]
    mean = (parts[0] * deduction + parts[1] * induction) / (deduction + induction)
    assert mean == pytest.approx(overall, abs=0.05)
    assert len(PAPER) == 5 * 12 + 4


def test_published_means_of_queries_are_those_of_their_types() -> None:
    """Typed in as printed: the means that were printed differ from those of the types by rounding alone."""
    for systems in QUERIES.values():
        for figures in systems.values():
            for family, types in FAMILIES.items():
                mean, parts = figures.get(f"mean_{family}".replace(" ", "_")), [figures.get(name) for name in types]
                if mean is not None:
                    assert mean == pytest.approx(sum(part for part in parts if part is not None) / len(types), abs=0.1)
    assert {place: len(systems) for place, systems in QUERIES.items() if place[2] == "mrr"} == {
        ("nell", "betae", "mrr"): 5, ("nell", "query2box", "mrr"): 1, ("fb15k-237-q2b", "query2box", "mrr"): 1,
    }  # fmt: skip


def test_queries_beside_published_figures() -> None:
    def of(mrr: float) -> dict[str, Any]:
        lacking = {"1": {"mrr": mrr / 2, "queries": 2, "answers": 3, "intervals": {"mrr": [0.0, 1.0]}}}
        return {"mrr": mrr, "hits_at_3": mrr, "queries": 3, "intervals": {"mrr": [0.1, 0.9]}, "lacking": lacking}

    figures = {"betae": {"types": {"1p": of(0.6)}, "mean_without_negation": of(0.345), "mean_with_negation": of(0.1)}}
    other = {"betae": {"types": {"1p": of(0.7)}, "mean_without_negation": of(0.355), "mean_with_negation": of(0.2)}}
    summary = summarise(
        [
            record(each, table="queries", column="merged", data="nell", truth=None, seed=seed)
            for seed, each in enumerate((figures, other))
        ]
    )
    mrr, hits, lacking, *_ = tables_of(summary, "queries")
    assert mrr.title == "nell, betae: MRR"
    assert [row[0] for row in mrr.rows[:2]] == ["merged", "best"]
    (row,) = [row for row in mrr.text() if row[0] == "merged"]
    assert row[1:6] == ["0.350 ± 0.007", "0.100–0.900", "0.150 ± 0.071", "0.100–0.900", "0.650 ± 0.071"]
    assert row[6] == "missing"
    (peer,) = [row for row in mrr.text() if row[0].startswith("QTO")]
    assert peer[1:6] == ["0.329", "–", "0.129", "–", "0.607"]
    assert [row[0] for row in hits.rows] == ["merged", "best"]
    assert lacking.text()[0][1:4] == ["0.175 ± 0.004", "missing", "missing"]
    reached = {row[0]: row[1:] for row in goals_table(summary).rows if str(row[0]).startswith("queries nell merged")}
    assert reached["queries nell merged betae mean_without_negation mrr"] == ("0.345", "0.3500 ± 0.0071", "yes")
    assert reached["queries nell merged query2box mean_without_negation hits_at_3"] == ("0.450", "missing", "missing")


def test_records_that_differ_in_what_is_beside_have_no_mean() -> None:
    with pytest.raises(DataError, match="different settings"):
        summarise([record(part(80.0)), record(part(80.0), seed=1, beside={"training": {"epochs": 2}})])


def test_claims_hold_or_do_not() -> None:
    def ranked(**mq: float) -> Summary:
        columns = {
            f"{name.replace('_', '-')}": {part: {"mq": value} for part in ("base", "deduction", "induction")}
            for name, value in mq.items()
        }
        return summarise([]) | {"ranking": {"wn11": columns}}

    better = ranked(blockhole_2x25=80.0, complex_50=79.0, distmult_50=70.0, rescal_50=79.5)
    worse = ranked(blockhole_2x25=80.0, complex_50=81.0, distmult_50=70.0, rescal_50=79.5)
    assert claims_table(better).rows[0][1:] == ("smallest lead +0.5 MQ", "yes")
    assert claims_table(worse).rows[0][1:] == ("smallest lead -1.0 MQ", "no")

    def ordered(suffix: str, negative: float) -> list[tuple[str, ...]]:
        columns = {
            f"blockhole-2x25{suffix}": {"accuracy_positive": 99.5, "accuracy_negative": 99.0},
            f"complex-50{suffix}": {"accuracy_positive": 96.0, "accuracy_negative": negative},
        }
        rows = claims_table(summarise([]) | {"order": {"fb13": columns}}).rows
        return [tuple(map(str, row[1:])) for row in rows if str(row[0]).startswith("Table 4")]

    for place, suffix in enumerate(("", "-corrupted")):
        seen = ordered(suffix, 4.0)
        assert seen[place] == ("BlockHolE 99.5 / 99.0, ComplEx 96.0 / 4.0", "yes")
        assert seen[1 - place][1] == "missing"
        assert ordered(suffix, 40.0)[place][1] == "no"


@pytest.mark.parametrize(("power", "linear"), [(0.8, "yes"), (1.0, "yes"), (1.5, "no"), (2.0, "no")])
def test_what_grows_faster_than_n_is_not_linear_however_well_a_line_fits(power: float, linear: str) -> None:
    assert _linear(_curve(DIMENSIONS, power)) == linear


def test_a_line_through_two_points_shows_nothing() -> None:
    assert _linear(_curve(DIMENSIONS[:2], 1.0)) == "missing"


def _curve(dimensions: tuple[int, ...], power: float) -> dict[str, Any]:
    seconds = [float(n) ** power for n in dimensions]
    points = {str(n): {"seconds": each} for n, each in zip(dimensions, seconds, strict=True)}
    return {"by_dimension": points, **growth(dimensions, seconds)}


def _linear(last: dict[str, Any]) -> str:
    """What is said of linear times where the curve of b = 8 is the `last` and the others are lines."""
    columns = {f"blockhole-b{b}": _curve(DIMENSIONS, 1.0) for b in (1, 2, 4)} | {"blockhole-b8": last}
    summary = summarise([]) | {"time": {"wn11": columns}}
    (row,) = [row for row in claims_table(summary).rows if "linear in n" in str(row[0])]
    return str(row[2])


def test_goals_are_reached_or_not() -> None:
    place = ("triples", "wn11", "best", "accuracy")
    for accuracy, reached in ((GOALS[place], "yes"), (GOALS[place] - 0.01, "no")):
        summary = summarise([]) | {"triples": {"wn11": {"best": {"accuracy": accuracy, "accuracy_deviation": 0.1}}}}
        row = next(row for row in goals_table(summary).rows if row[0] == " ".join(place))
        assert row[1:] == ("89.0", f"{accuracy:.2f} ± 0.10", reached)
