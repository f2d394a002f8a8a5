"""The paper's claims and this project's goals, each beside what the records show."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from blockhole.evaluation.report import Table
from blockhole.paper.summary import Summary, look_up
from blockhole.paper.tables import MISSING, show
from blockhole.paper.timing_plan import DIMENSIONS, TIMED_DATA

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
    return Table("Claims of the paper", ("claim", "seen", "holds"), rows)


def goals_table(summary: Summary) -> Table:
    """Every goal with the figure that was measured, to one digit more: a goal just missed does not look met."""
    rows = []
    for place, goal in GOALS.items():
        figure = look_up(summary, *place)
        digits = 3 if place[0] == "completion" else 1
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

    return Claim(f"BlockHolE (2,25) is above ComplEx, DistMult and RESCAL on MQ in every column of {data}", find)


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

    text = (
        f"BlockHolE (2,25) and RESCAL classify paths of {data} far ({FAR:.0f} points) better than ComplEx and DistMult"
    )
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

    text = "Table 4: BlockHolE at least 99 on positives and negatives, ComplEx at most 10 on negatives"
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

    return Claim(f"An epoch's time is linear in n for b = 1, 2, 4, 8 (R² ≥ {LINEAR}, exponent ≤ {STEEPEST})", find)


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
    ("triples", "wn11", "best", "accuracy"): 89.0,
    ("triples", "fb13", "best", "accuracy"): 90.0,
}
"""What this project set out to reach, by where the figure stands in `blockhole results --json`."""
