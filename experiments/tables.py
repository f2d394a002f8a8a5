"""The tables: recorded figures beside published ones, which claims of the paper hold, which goals are reached."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean
from typing import NamedTuple

from blockhole.evaluation.query_ranking import FAMILIES
from blockhole.evaluation.report import Cell, Table
from blockhole.queries.query_sets import QUERY_TYPES
from experiments.declared import TABLES, Declaration, read_declaration
from experiments.records import Summary, look_up
from experiments.timing import BLOCKS, DIMENSIONS, TIMED_DATA

# Published figures, as they were printed; in per cent unless said otherwise.


class Published(NamedTuple):
    """A figure, and the place it was printed at."""

    figure: float
    place: str


_TABLE_3 = "Table 3 (tab:exp-path-rank)"
_TABLE_4 = "Table 4 (tab:analysis)"

_RANKING_HEADER = tuple(
    (data, part, metric)
    for data in ("wn11", "fb13")
    for part in ("base", "deduction", "induction")
    for metric in ("p_at_10", "mq")
)
_RANKING_ROWS = {
    "distmult-50": (45.6, 83.0, 33.5, 97.7, 29.6, 79.8, 62.7, 91.6, 63.6, 86.4, 59.3, 86.5),
    "complex-50": (60.9, 83.1, 68.7, 99.2, 46.1, 79.7, 76.8, 93.0, 71.5, 90.0, 70.5, 88.9),
    "rescal-50": (51.8, 74.2, 43.2, 97.9, 51.2, 76.8, 65.2, 91.1, 66.9, 88.4, 69.8, 89.0),
    "blockhole-2x25": (80.9, 83.4, 70.2, 99.5, 54.9, 81.0, 79.2, 93.2, 75.0, 91.5, 71.3, 90.0),
    "blockhole-4x25": (80.5, 75.6, 69.3, 99.2, 54.5, 77.4, 76.2, 92.1, 72.1, 90.5, 70.9, 89.5),
}

PAPER: dict[tuple[str, ...], Published] = {
    ("ranking", data, column, part, metric): Published(figure, _TABLE_3)
    for column, figures in _RANKING_ROWS.items()
    for (data, part, metric), figure in zip(_RANKING_HEADER, figures, strict=True)
} | {
    ("order", "fb13", "complex-50", "accuracy_positive"): Published(96.7, _TABLE_4),
    ("order", "fb13", "complex-50", "accuracy_negative"): Published(3.3, _TABLE_4),
    ("order", "fb13", "blockhole-2x25", "accuracy_positive"): Published(100.0, _TABLE_4),
    ("order", "fb13", "blockhole-2x25", "accuracy_negative"): Published(100.0, _TABLE_4),
}
"""The figures of the paper (Hayashi and Shimbo 2019), by where they stand in `results --json`.

Its figures of classification accuracy and of run time are drawings without numbers.
"""

OVERALL: dict[str, dict[str, tuple[float, float]]] = {
    "CoKE (Wang et al. 2019)": {"wn11": (94.2, 67.9), "fb13": (95.0, 77.7)},
    "ROP ARC2-GRU (Yin et al. 2018)": {"fb13": (89.6, 54.9)},
    "TransE, on paths (Guu et al. 2015)": {"wn11": (93.3, 43.5), "fb13": (88.0, 50.5)},
    "Bilinear-Diag, on paths (Guu et al. 2015)": {"wn11": (90.4, 31.1), "fb13": (84.8, 38.6)},
    "Bilinear, on paths (Guu et al. 2015)": {"wn11": (89.4, 54.3), "fb13": (83.5, 42.1)},
}
"""MQ and P@10 of the whole path test, deduction and induction together, as others printed them."""

COMPLETION: dict[str, dict[str, float]] = {
    "ComplEx with relation prediction (Chen et al. 2021)": {"fb15k-237": 0.388},
    "ComplEx-DURA": {"fb15k-237": 0.371, "wn18rr": 0.491},
    "RESCAL-DURA": {"fb15k-237": 0.368, "wn18rr": 0.498},
    "ComplEx-N3": {"fb15k-237": 0.37, "wn18rr": 0.49},
}
"""Filtered MRR as others printed it, as a fraction."""

RULES: dict[str, dict[str, tuple[float | None, float | None, float | None, float | None]]] = {
    "AnyBURL (Meilicke et al. 2019, 1,000 s)": {
        "fb15k-237": (None, 0.230, None, 0.479),
        "wn18rr": (None, 0.446, None, 0.555),
    },
    "the successor of AnyBURL": {"fb15k-237": (None, 0.273, None, 0.522), "wn18rr": (None, 0.457, None, 0.577)},
    "SAFRAN (Ott et al. 2021)": {"fb15k-237": (0.389, None, None, None), "wn18rr": (0.502, None, None, None)},
}
"""Completion by rules: system → data set → MRR, Hits@1, Hits@3, Hits@10 as printed; their rules name entities too."""

TRIPLES: dict[str, dict[str, float]] = {
    "DistMult-HRS": {"wn11": 88.9, "fb13": 89.0},
    "NTN": {"wn11": 86.2, "fb13": 90.0},
    "TransD": {"wn11": 86.4, "fb13": 89.1},
    "DistMult": {"wn11": 87.1, "fb13": 86.2},
}
"""Accuracy of triple classification as others printed it."""

_BETAE_HEADER = ("mean_without_negation", "mean_with_negation", *QUERY_TYPES)
_BETAE_NELL = {
    "BetaE (Ren and Leskovec 2020)":
        (24.6, 5.9, 53.0, 13.0, 11.4, 37.6, 47.5, 24.1, 14.3, 12.2, 8.5, 5.1, 7.8, 10.0, 3.1, 3.5),
    "CQD-Beam (Arakelyan et al. 2021)":
        (28.6, None, 60.4, 20.6, 11.6, 39.3, 46.6, 25.4, 23.9, 17.5, 12.2, None, None, None, None, None),
    "GNN-QE (Zhu et al. 2022)":
        (28.9, 9.7, 53.3, 18.9, 14.9, 42.4, 52.5, 30.8, 18.9, 15.9, 12.6, 9.9, 14.6, 11.4, 6.3, 6.3),
    "CQD-A (Arakelyan et al. 2023)":
        (32.3, 13.3, 60.4, 22.9, 16.7, 43.4, 52.6, 32.1, 26.4, 20.0, 17.0, 15.1, 18.6, 15.8, 10.7, 6.5),
    "QTO (Bai et al. 2023)":
        (32.9, 12.9, 60.7, 24.1, 21.6, 42.5, 50.6, 31.3, 26.5, 20.4, 17.9, 13.8, 17.9, 16.9, 9.9, 5.9),
}  # fmt: skip
_QUERY2BOX_HEADER = ("1p", "2p", "3p", "2i", "3i", "ip", "pi", "2u", "up")
_QUERY2BOX = {
    ("fb15k-237-q2b", "hits_at_3"): (51.2, 27.9, 21.9, 35.2, 45.7, 12.9, 24.9, 28.4, 12.8),
    ("fb15k-237-q2b", "mrr"): (None, 26.2, 20.8, 30.6, 41.2, 12.3, 23.0, 25.3, 12.3),
    ("nell", "hits_at_3"): (66.7, 34.3, 29.7, 41.0, 52.9, 16.8, 28.3, 53.6, 15.7),
    ("nell", "mrr"): (None, 31.4, 27.9, 35.9, 47.5, 15.5, 26.0, 46.4, 14.0),
}


def _with_mean(figures: dict[str, float | None]) -> dict[str, float | None]:
    """With the mean of all types where none is missing."""
    known = [figure for figure in figures.values() if figure is not None]
    return {"mean_without_negation": fmean(known) if len(known) == len(figures) else None, **figures}


QUERIES: dict[tuple[str, str, str], dict[str, dict[str, float | None]]] = {
    ("nell", "betae", "mrr"): {
        name: dict(zip(_BETAE_HEADER, figures, strict=True)) for name, figures in _BETAE_NELL.items()
    }
} | {
    (data, "query2box", metric): {
        "CQD-Beam (Arakelyan et al. 2021)": _with_mean(dict(zip(_QUERY2BOX_HEADER, figures, strict=True)))
    }
    for (data, metric), figures in _QUERY2BOX.items()
}
"""Complex queries: data set, query set and figure → system → type or mean → what others printed; those of CQD-Beam on
the sets of query2box are computed from its published result files, and their mean from them."""


# A summary as tables, with the published figures beside; what has no record says so.


MISSING = "missing"

_PARTS = ("base", "deduction", "induction", "all")
_METRICS = {"mq": "MQ", "p_at_10": "P@10"}
_HITS = "p_at_10_with_excluded"


def tables_of(summary: Summary, table: str) -> list[Table]:
    """The tables of one table of the paper, each data set in turn."""
    found: list[Table] = []
    for data in data_sets(summary, table):
        found += _TABLES[table](summary, data, columns_of(summary, table, data))
    return found


def recorded_tables(summary: Summary, table: str) -> list[Table]:
    """The same for data sets and columns that have records alone."""
    found: list[Table] = []
    for data in summary[table]:
        found += _TABLES[table](summary, data, list(summary[table][data]))
    return found


def data_sets(summary: Summary, table: str) -> list[str]:
    """The declared data sets, then others that have records."""
    planned = _plan(table).data
    return [*planned, *(data for data in summary[table] if data not in planned)]


def columns_of(summary: Summary, table: str, data: str) -> list[str]:
    """The declared columns, then others that have records; of data that is not declared, those with records."""
    plan, recorded = _plan(table), summary[table].get(data, {})
    planned = [column for column in plan.columns_of(data) if data in plan.data or column in recorded]
    return [*planned, *(column for column in recorded if column not in planned)]


def missing_seeds(table: str, seeds: Sequence[int]) -> list[int]:
    """The declared seeds of a table that are not among `seeds`."""
    return [seed for seed in _plan(table).seeds if seed not in seeds]


def _plan(table: str) -> Declaration:
    for known in TABLES:
        if table == known:
            return read_declaration(known)
    return Declaration(data=(TIMED_DATA,), columns=tuple(BLOCKS), seeds=(0,))


def show(summary: Summary, *place: str, digits: int = 1) -> str:
    """A figure as tables show it: the mean and, of several seeds, the deviation."""
    figure, deviation = look_up(summary, *place), look_up(summary, *place[:-1], f"{place[-1]}_deviation")
    if figure is None:
        return MISSING
    return f"{figure:.{digits}f}" + (f" ± {deviation:.{digits}f}" if deviation is not None else "")


def _published(*place: str) -> Cell:
    return PAPER[place].figure if place in PAPER else None


def _ranking(summary: Summary, data: str, columns: Sequence[str]) -> list[Table]:
    tables = [
        _ranking_table(summary, data, columns, metric, metric, f"{data}: {name}, per cent")
        for metric, name in _METRICS.items()
    ]
    if any(look_up(summary, "ranking", data, column, part, "excluded") for column in columns for part in _PARTS):
        title = f"{data}: P@10 if queries without negatives counted as hits, per cent"
        tables.append(_ranking_table(summary, data, columns, _HITS, "p_at_10", title))
    return [*tables, _interval_table(summary, data, columns), _overall_table(summary, data, columns)]


def _ranking_table(summary: Summary, data: str, columns: Sequence[str], metric: str, printed: str, title: str) -> Table:
    header = ["column", *(word for part in _PARTS[:3] for word in (part, "paper")), "all"]
    rows: list[tuple[Cell, ...]] = []
    for column in columns:
        cells: list[Cell] = [column]
        for part in _PARTS:
            cells.append(show(summary, "ranking", data, column, part, metric))
            if part != "all":
                cells.append(_published("ranking", data, column, part, printed))
        rows.append(tuple(cells))
    return Table(title, tuple(header), tuple(rows))


def _interval_table(summary: Summary, data: str, columns: Sequence[str]) -> Table:
    """Intervals over queries; of several seeds the mean of their bounds."""
    rows = []
    for column in columns:
        cells: list[Cell] = [column]
        for metric in _METRICS:
            for part in _PARTS:
                bounds = look_up(summary, "ranking", data, column, part, "intervals", metric)
                cells.append(MISSING if bounds is None else f"{bounds[0]:.1f}–{bounds[1]:.1f}")
        rows.append(tuple(cells))
    header = ("column", *(f"{part} {name}" for name in _METRICS.values() for part in _PARTS))
    return Table(f"{data}: 95 % intervals over queries, per cent", header, tuple(rows))


def _overall_table(summary: Summary, data: str, columns: Sequence[str]) -> Table:
    """The whole path test beside what others printed."""
    ours: list[tuple[Cell, ...]] = [
        (column, *(show(summary, "ranking", data, column, "all", metric) for metric in _METRICS))
        for column in ("blockhole-2x25", "best-without-words", "best")
        if column in columns
    ]
    others = [(name, *figures[data]) for name, figures in OVERALL.items() if data in figures]
    header = ("all paths (deduction and induction)", *_METRICS.values())
    return Table(f"{data}: beside other systems, per cent", header, (*ours, *others))


def _accuracy(summary: Summary, table: str, data: str, columns: Sequence[str], title: str) -> Table:
    names = ("accuracy", "accuracy_positive", "accuracy_negative")
    rows: list[tuple[Cell, ...]] = []
    for column in columns:
        bounds = look_up(summary, table, data, column, "intervals", "accuracy")
        interval = MISSING if bounds is None else f"{bounds[0]:.1f}–{bounds[1]:.1f}"
        positive, negative = (_published(table, data, column, name) for name in names[1:])
        all_, true, false = (show(summary, table, data, column, name) for name in names)
        rows.append((column, all_, interval, true, positive, false, negative))
    header = ("column", "accuracy", "95 %", "on positives", "paper", "on negatives", "paper")
    return Table(title, header, tuple(rows))


def _classification(summary: Summary, data: str, columns: Sequence[str]) -> list[Table]:
    return [_accuracy(summary, "classification", data, columns, f"{data}: does the path hold? Per cent")]


def _order(summary: Summary, data: str, columns: Sequence[str]) -> list[Table]:
    title = f"{data}: …/parents/religion/… against …/religion/parents/…, per cent"
    return [_accuracy(summary, "order", data, columns, title)]


def _completion(summary: Summary, data: str, columns: Sequence[str]) -> list[Table]:
    names = {"mrr": "MRR", "hits_at_1": "Hits@1", "hits_at_3": "Hits@3", "hits_at_10": "Hits@10"}
    rows: list[tuple[Cell, ...]] = [
        (column, *(show(summary, "completion", data, column, name, digits=3) for name in names)) for column in columns
    ]
    rows += [(name, each[data], None, None, None) for name, each in COMPLETION.items() if data in each]
    return [Table(f"{data}: completion, filtered", ("column", *names.values()), tuple(rows), digits=3)]


_RULES = {
    "rules_maximum": "rules, maximum",
    "rules_noisy_or": "rules, noisy-or",
    "rules_non_redundant": "rules, non-redundant noisy-or",
    "model": "model",
    "together_alike": "both, alike for all relations",
    "together": "both",
    "by_probability.model": "model by probability",
    "by_probability.together_alike": "both by probability, alike for all relations",
    "by_probability.together": "both by probability",
}


def _rules(summary: Summary, data: str, columns: Sequence[str]) -> list[Table]:
    """What rules complete, alone and beside the model, and what others' rules do."""
    names = {"mrr": "MRR", "hits_at_1": "Hits@1", "hits_at_3": "Hits@3", "hits_at_10": "Hits@10"}
    rows: list[tuple[Cell, ...]] = [
        (
            f"{column}: {said}",
            *(show(summary, "rules", data, column, *way.split("."), name, digits=3) for name in names),
        )
        for column in columns
        for way, said in _RULES.items()
    ]
    rows += [(name, *each[data]) for name, each in RULES.items() if data in each]
    return [Table(f"{data}: completion by rules, filtered", ("column", *names.values()), tuple(rows), digits=3)]


def _triples(summary: Summary, data: str, columns: Sequence[str]) -> list[Table]:
    rows: list[tuple[Cell, ...]] = []
    for column in columns:
        names = ("accuracy", "accuracy_positive", "accuracy_negative", "by_score")
        rows.append((column, *(show(summary, "triples", data, column, name) for name in names)))
    rows += [(name, each[data], None, None, None) for name, each in TRIPLES.items() if data in each]
    header = ("column", "accuracy", "on positives", "on negatives", "by score alone")
    return [Table(f"{data}: triple classification, per cent", header, tuple(rows))]


_QUERY_METRICS = {"mrr": "MRR", "hits_at_3": "Hits@3"}
_MEANS = {f"mean_{family}".replace(" ", "_"): f"mean {family}" for family in FAMILIES}


def _queries(summary: Summary, data: str, columns: Sequence[str]) -> list[Table]:
    """Of each query set MRR and Hits@3 by type, the intervals of the means, and MRR by what proofs lack."""
    recorded = [name for column in columns for name in summary["queries"].get(data, {}).get(column, {})]
    published = [name for known, name, _ in QUERIES if known == data]
    tables: list[Table] = []
    for name in dict.fromkeys([*published, *recorded]):
        tables += [_query_table(summary, data, columns, name, metric) for metric in _QUERY_METRICS]
        tables.append(_lacking_table(summary, data, columns, name))
    return tables


def _query_table(summary: Summary, data: str, columns: Sequence[str], name: str, metric: str) -> Table:
    """The means with their intervals, and every type, beside what others printed."""
    others = QUERIES.get((data, name, metric), {})
    types = _types(summary, data, columns, name)
    means = _means(types)
    rows: list[tuple[Cell, ...]] = []
    for column in columns:
        place = "queries", data, column, name
        cells: list[Cell] = [column]
        for mean in means:
            bounds = look_up(summary, *place, mean, "intervals", metric)
            interval = MISSING if bounds is None else f"{bounds[0]:.3f}–{bounds[1]:.3f}"
            cells += [show(summary, *place, mean, metric, digits=3), interval]
        cells += [show(summary, *place, "types", type_, metric, digits=3) for type_ in types]
        rows.append(tuple(cells))
    for system, figures in others.items():
        printed: list[Cell] = [system]
        for mean in means:
            printed += [_fraction(figures.get(mean)), None]
        rows.append((*printed, *(_fraction(figures.get(type_)) for type_ in types)))
    header = ("column", *(word for mean in means for word in (_MEANS[mean], "95 %")), *types)
    return Table(f"{data}, {name}: {_QUERY_METRICS[metric]}", header, tuple(rows), digits=3)


def _types(summary: Summary, data: str, columns: Sequence[str], name: str) -> list[str]:
    """The types of a query set that have a figure, recorded or published."""
    known = {
        type_ for column in columns for type_ in look_up(summary, "queries", data, column, name, "types") or ()
    } | {
        type_
        for (of, own, _), systems in QUERIES.items()
        if (of, own) == (data, name)
        for figures in systems.values()
        for type_ in figures
    }
    return [type_ for type_ in QUERY_TYPES if type_ in known]


def _means(types: Sequence[str]) -> list[str]:
    """The means that some of the types are in."""
    return [mean for mean, family in zip(_MEANS, FAMILIES.values(), strict=True) if set(family) & set(types)]


def _fraction(printed: float | None) -> float | None:
    return None if printed is None else printed / 100


def _lacking_table(summary: Summary, data: str, columns: Sequence[str], name: str) -> Table:
    """The mean MRR of answers whose easiest proof lacks one fact, two, three."""
    numbers, means = ("1", "2", "3"), _means(_types(summary, data, columns, name))
    rows: list[tuple[Cell, ...]] = []
    for column in columns:
        places = [("queries", data, column, name, mean, "lacking", number) for mean in means for number in numbers]
        rows.append((column, *(show(summary, *place, "mrr", digits=3) for place in places)))
    header = (
        "column",
        *(f"{_MEANS[mean].removeprefix('mean ')}, lacks {number}" for mean in means for number in numbers),
    )
    return Table(f"{data}, {name}: mean MRR by the facts that the easiest proof lacks", header, tuple(rows), digits=3)


def _time(summary: Summary, data: str, columns: Sequence[str]) -> list[Table]:
    dimensions = sorted(
        {int(n) for column in summary["time"].get(data, {}).values() for n in column["by_dimension"]} or DIMENSIONS
    )
    rows: list[tuple[Cell, ...]] = []
    for column in columns:
        times = [show(summary, "time", data, column, "by_dimension", str(n), "seconds", digits=3) for n in dimensions]
        slope = look_up(summary, "time", data, column, "slope")
        shown = MISSING if slope is None else f"{1000 * slope:.2f}"
        fit = [show(summary, "time", data, column, name, digits=3) for name in ("r2", "exponent")]
        rows.append((column, *times, shown, *fit))
    header = ("column", *(f"n = {n}" for n in dimensions), "slope, ms", "R²", "exponent")
    return [Table(f"{data} Base: seconds of an epoch on one CPU thread", header, tuple(rows))]


_TABLES = {
    "ranking": _ranking,
    "classification": _classification,
    "order": _order,
    "completion": _completion,
    "triples": _triples,
    "queries": _queries,
    "rules": _rules,
    "time": _time,
}


# The paper's claims and this project's goals, each beside what the records show.


DATA = ("wn11", "fb13")
FAR = 5.0
"""Points of accuracy that count as far above."""
LINEAR = 0.98
"""R² from which a line is said to fit."""
STEEPEST = 1.1
"""Exponent up to which time is said to grow no faster than n: a line fits n to the power of 1.7 with R² = 0.98 too."""


class Finding(NamedTuple):
    """What the records show about a claim; `holds` is None where records are missing."""

    seen: str
    holds: bool | None


class Claim(NamedTuple):
    """A statement, and how it is looked into."""

    text: str
    find: Callable[[Summary], Finding]


def claims_table(summary: Summary) -> Table:
    """Every claim of the paper with what was seen."""
    words = {True: "yes", False: "no", None: MISSING}
    findings = [claim.find(summary) for claim in CLAIMS]
    rows = tuple((claim.text, each.seen, words[each.holds]) for claim, each in zip(CLAIMS, findings, strict=True))
    return Table("Claims of the paper", ("claim", "measured", "holds"), rows)


def goals_table(summary: Summary) -> Table:
    """Every goal with the figure that was measured, to one digit more: a goal just missed does not look met."""
    rows = []
    for place, goal in GOALS.items():
        figure = look_up(summary, *place)
        digits = 3 if place[0] in ("completion", "queries", "rules") else 1
        reached = MISSING if figure is None else "yes" if figure >= goal else "no"
        rows.append((" ".join(place), f"{goal:.{digits}f}", show(summary, *place, digits=digits + 1), reached))
    return Table("Goals", ("figure", "goal", "measured", "reached"), tuple(rows))


def _lead(leads: list[float | None], least: float, unit: str) -> Finding:
    """The smallest of some leads, which must be above `least`."""
    known = [lead for lead in leads if lead is not None]
    if len(known) < len(leads):
        return Finding(MISSING, None)
    return Finding(f"smallest lead {min(known):+.1f} {unit}", min(known) > least)


def _difference(summary: Summary, first: tuple[str, ...], second: tuple[str, ...]) -> float | None:
    one, other = look_up(summary, *first), look_up(summary, *second)
    return None if one is None or other is None else one - other


def _above_on_mq(data: str) -> Claim:
    def find(summary: Summary) -> Finding:
        leads = [
            _difference(summary, ("ranking", data, "blockhole-2x25", part, "mq"), ("ranking", data, rival, part, "mq"))
            for part in ("base", "deduction", "induction")
            for rival in ("complex-50", "distmult-50", "rescal-50")
        ]
        return _lead(leads, 0.0, "MQ")

    rivals = "ComplEx, DistMult and RESCAL"
    return Claim(f"BlockHolE (2,25) has a higher MQ than {rivals} on base, deduction and induction of {data}", find)


def _above_on_accuracy(data: str, suffix: str, training: str) -> Claim:
    def find(summary: Summary) -> Finding:
        leads = [
            _difference(
                summary,
                ("classification", data, f"{model}{suffix}", "accuracy"),
                ("classification", data, f"{rival}{suffix}", "accuracy"),
            )
            for model in ("blockhole-2x25", "rescal-50")
            for rival in ("complex-50", "distmult-50")
        ]
        return _lead(leads, FAR, "points")

    far = f"far better (by {FAR:.0f} points)"
    text = f"BlockHolE (2,25) and RESCAL classify paths of {data} {far} than ComplEx and DistMult"
    return Claim(f"{text}, {training}", find)


def _order_matters(suffix: str, training: str) -> Claim:
    def find(summary: Summary) -> Finding:
        names = [
            (model, name)
            for model in ("blockhole-2x25", "complex-50")
            for name in ("accuracy_positive", "accuracy_negative")
        ]
        found = [look_up(summary, "order", "fb13", f"{model}{suffix}", name) for model, name in names]
        if None in found:
            return Finding(MISSING, None)
        seen = f"BlockHolE {found[0]:.1f} / {found[1]:.1f}, ComplEx {found[2]:.1f} / {found[3]:.1f}"
        return Finding(seen, min(found[:2]) >= 99 and found[3] <= 10)

    text = "Table 4: BlockHolE has at least 99 on positives and negatives, ComplEx at most 10 on negatives"
    return Claim(f"{text}, {training}", find)


def _linear_in_n() -> Claim:
    columns = ("blockhole-b1", "blockhole-b2", "blockhole-b4", "blockhole-b8")

    def find(summary: Summary) -> Finding:
        # A line through fewer points, such as two, would always fit.
        points = [
            look_up(summary, "time", TIMED_DATA, column, "by_dimension", str(n), "seconds")
            for column in columns
            for n in DIMENSIONS
        ]
        if None in points:
            return Finding(MISSING, None)
        fits, exponents = (
            [look_up(summary, "time", TIMED_DATA, column, name) for column in columns] for name in ("r2", "exponent")
        )
        seen = f"smallest R² of a line {min(fits):.3f}, largest exponent {max(exponents):.2f}"
        return Finding(seen, min(fits) >= LINEAR and max(exponents) <= STEEPEST)

    return Claim(f"The time of an epoch is linear in n for b = 1, 2, 4, 8 (R² ≥ {LINEAR}, exponent ≤ {STEEPEST})", find)


_PAPERS, _CORRUPTED = "with the paper's training", "with path-corrupting negatives"

CLAIMS = (
    *(_above_on_mq(data) for data in DATA),
    *(_above_on_accuracy(data, "", _PAPERS) for data in DATA),
    *(_above_on_accuracy(data, "-corrupted", _CORRUPTED) for data in DATA),
    _order_matters("", _PAPERS),
    _order_matters("-corrupted", _CORRUPTED),
    _linear_in_n(),
)

GOALS: dict[tuple[str, ...], float] = {
    ("ranking", "wn11", "blockhole-2x25", "base", "mq"): 85.5,
    ("ranking", "wn11", "blockhole-2x25", "deduction", "p_at_10"): 92.0,
    ("ranking", "wn11", "blockhole-2x25", "deduction", "mq"): 99.6,
    ("ranking", "wn11", "blockhole-2x25", "induction", "mq"): 84.5,
    ("ranking", "fb13", "blockhole-2x25", "base", "p_at_10"): 81.0,
    ("ranking", "fb13", "blockhole-2x25", "base", "mq"): 93.4,
    ("ranking", "fb13", "blockhole-2x25", "deduction", "p_at_10"): 75.0,
    ("ranking", "fb13", "blockhole-2x25", "deduction", "mq"): 94.0,
    ("ranking", "fb13", "blockhole-2x25", "induction", "p_at_10"): 72.0,
    ("ranking", "fb13", "blockhole-2x25", "induction", "mq"): 90.5,
    ("ranking", "wn11", "best", "all", "mq"): 95.0,
    ("ranking", "wn11", "best", "all", "p_at_10"): 70.0,
    ("ranking", "fb13", "best", "all", "mq"): 95.2,
    ("ranking", "fb13", "best", "all", "p_at_10"): 78.5,
    ("completion", "fb15k-237", "blockhole", "mrr"): 0.371,
    ("completion", "wn18rr", "blockhole", "mrr"): 0.498,
    ("rules", "fb15k-237", "blockhole", "together", "mrr"): 0.395,
    ("rules", "wn18rr", "blockhole", "together", "mrr"): 0.515,
    **{
        ("rules", data, column, "by_probability", "together", "mrr"): goal
        for data, goal in (("fb15k-237", 0.395), ("wn18rr", 0.515))
        for column in ("blockhole", "small")
    },
    ("triples", "wn11", "best", "accuracy"): 89.0,
    ("triples", "fb13", "best", "accuracy"): 90.0,
    **{
        ("queries", "nell", column, *figure): goal
        for column in ("merged", "best")
        for figure, goal in (
            (("betae", "mean_without_negation", "mrr"), 0.345),
            (("betae", "mean_with_negation", "mrr"), 0.140),
            (("query2box", "mean_without_negation", "hits_at_3"), 0.45),
        )
    },
    ("queries", "fb15k-237-q2b", "best", "query2box", "mean_without_negation", "hits_at_3"): 0.395,
}
"""What this project set out to reach, by where the figure stands in `results --json`."""
