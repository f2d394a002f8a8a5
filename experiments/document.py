"""docs/results.md and its figures, written from the records."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from blockhole.errors import MissingExtra
from blockhole.evaluation.plots import COLOURS
from blockhole.evaluation.report import Table, markdown
from blockhole.saving import replacing
from experiments.declared import models_merged
from experiments.records import SHOWN_TABLES, Record, Summary, group_records, look_up, summarise
from experiments.tables import MISSING, claims_table, goals_table, missing_seeds, tables_of
from experiments.timing import BLOCKS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DOCUMENT = "results.md"
FIGURE_FOLDER = "figures"

_BARS = ("blockhole-2x25", "blockhole-2x50", "rescal-50", "distmult-50", "complex-50")
_TRAININGS = {"": "the paper's training", "-corrupted": "with path-corrupting negatives"}

Data = dict[str, Any]

_INTRODUCTION = """\
# Results

Every table and figure of the paper, run again, beside what was published. A figure is the mean over seeds ± the
standard deviation; *missing* means that nothing was measured. Intervals are 95 % bootstrap intervals over queries,
averaged over seeds.

**How often test was looked at.** Settings were chosen on dev queries and then measured on test, once, with these
exceptions: FB13's ranking, WN18RR and WN11's triples were measured twice, because settings were improved on dev after
the first time; the order of relations was measured four times, because three settings left one of its two sides short;
FB15k-237's complex queries were measured once with an earlier formula of probabilities, which has no record, and those
of *best* again after the formula had changed.

This page is written from the records in `experiments/records/`, which hold the settings, seed, commit, device and wall
time of each training; `experiments/README.md` says how to run them again, and `experiments/notebook.md` what else was
tried. A test fails when the page does not show what the records say.
"""

_TEXTS = {
    "ranking": """\
## Ranking (Table 3 of the paper)

A column is a model with its size, trained on paths, or on edges alone (-edges). *Base* are the test facts as queries of
length 1; *all* is deduction and induction together. F\\* = train + valid + test, ties count half, and queries without
negatives are left out (the strict reading). *paper* is what Table 3 prints.

Loss, penalty, learning rate and epochs were chosen for blockhole-2x25 on each data set and are the same in all columns,
with three exceptions: *best* has its own settings, models trained on edges get more epochs, and RESCAL and HolE on
paths have a smaller learning rate, since they diverge at that of the others. On WN11, *best* is also trained on the
words of entity names, which no published result on this data uses; *best-without-words* does without them.

No published system comes near the paper's P@10 on WN11's base and induction (80.9 and 54.9 for b = 2) under the
protocol it states; the best of Guu et al. on WN11's base is 27.3. The paper does not say whether P@10 leaves out
queries without negatives, so where there are any, a second table counts them as hits.

Figures of other systems are as printed. Guu et al. and CoKE take F\\* = train + test and break ties differently
([protocol](explanation/protocol.md)).
""",
    "classification": """\
## Classification (the accuracy figure of the paper)

Does the path hold? Test paths of two hops or more, against their reversed paths that do not hold; φ ≥ 0 means yes.
The plain columns have the paper's training, with random objects as negatives; the -corrupted columns also have paths
that do not hold as negatives. The paper shows these results as a drawing, without numbers.
""",
    "order": """\
## The order of relations (Table 4 of the paper)

Every query of FB13 with …/parents/religion/… in its path, against the same with …/religion/parents/… where that does
not hold. The plain columns have the paper's training; the -corrupted columns also have paths that do not hold as
negatives.
""",
    "completion": """\
## Completion

Both sides of every test fact, ranked among all entities with other known answers removed; fractions of 1. Entities are
ordered by the model's scores, as published figures are made ([protocol](explanation/protocol.md#completion)).
""",
    "triples": """\
## Triple classification

The labelled test triples of Socher et al. 2013. Each relation is judged by one kind of evidence and one threshold, both
chosen on dev: the score, or the share of the object, or of the subject, among the entities that the relation takes.
*By score alone* leaves that choice out. Our models are also trained on the words of entity names, as is NTN (Socher et
al.); the other systems are not.
""",
    "queries": """\
## Complex queries

Published queries of fourteen types, in which p is a hop, i an intersection, u a union and n a negation
([query sets](how-to/query-sets.md)). NELL's set of BetaE has all of them, the sets of Query2box the nine without
negation. A hard answer is one that train and valid facts do not give. Each is ranked by its calibrated probability
among all entities that are not answers; ties count half, and only train facts are read. Reciprocal ranks and hits are
averaged over the hard answers of a query, then over queries, then over types; fractions of 1
([protocol](explanation/protocol.md#complex-queries)).

*merged* is the mean of a BlockHolE with b = 2 and m = 512 that is trained on single edges and of one with m = 256 that
is trained on fresh walks. *best* is, on NELL, *merged* with the words of entity names, such as `concept_city_oslo`, as
facts for the model of edges, which no published result on this data uses; on FB15k-237, whose names have no words and
where walks add nothing on valid queries, it is the model of edges alone. All settings were chosen on the valid queries
of Query2box and on valid facts; a prototype was measured on 1,000 test queries of each type before. Most published
queries need a single missing fact (Gregucci et al. 2025), so MRR is also shown by the number of facts that the easiest
proof of an answer lacks.

All were measured before τ was part of [the probability of a hop](explanation/probabilities.md) and before unions kept
the evidence of their paths, *merged* also before L and ν.

Figures of other systems are as printed, with ties left to the sort. Those of CQD-Beam on the sets of Query2box are
computed from its published result files, and their mean is taken here.
""",
    "rules": """\
## Rules as predictions

The completion of the same test facts by rules that a model proposes and train facts count
([rules](how-to/rules.md)): bodies of up to three relations, without named entities. *blockhole* is the model of the
completion table, *small* one of 256 numbers an entity that two cores train in minutes. A candidate that several rules
name has the greatest confidence, or the noisy-or of all, or of clusters of rules that say the same. *Both* adds what
rules say to the model's logits, or to those of its probabilities; weights are chosen on validation facts, for each
relation and side, or alike for all. *blockhole* on FB15k-237 was measured once without a record: .375 alone and .385
with rules, by score. AnyBURL and SAFRAN also have rules that name entities.
""",
    "time": """\
## Run time (the run-time figure of the paper)

One epoch over WN11's train facts with the paper's training (five negatives, batches of 1,024) in the fused stepper on
one CPU thread, the best of several rounds. *slope* and *R²* are those of a straight line through the times; *exponent*
is the slope on logarithmic axes: 1 means proportional to n, 2 quadratic. Every n is a multiple of 128, so that blocks
have at least 16 numbers: the compiler does not vectorise the loops over smaller blocks, and their times leave the line.
""",
}

_PARTS = """\
## What each part adds to complex queries

Rows 1 to 6 each add a part to the row before: from what the field does, the best witness by shares of a softmax and
products, to the whole engine. The models are small, 128 numbers an entity, and all trained alike on one core: 30 epochs
on edges against 1,024 entities at a time, 20 on edges and walks, one seed. So the rows compare with each other, and not
with the tables above, whose models are sixteen times as wide. *Forward shares* are n_f f alone, *kinds and limits* κ,
ω, η, L, σ and τ of [the probability of a hop](explanation/probabilities.md), *composed evidence* is a curve for paths.

**The queries are valid ones** where the heading says so, the same in all rows, and test stays untouched. No setting was
chosen for this table; but the engine was made by looking at valid queries, and curves are fitted on valid facts, whose
answers these queries ask for; rows 1 and 11 do without. A change is the difference from another row, with its 95 %
bootstrap interval over queries; the last is that of answers whose easiest proof lacks two facts or more
(`python -m experiments reproduce parts`).
"""


def write_document(records: Sequence[Record], docs: Path, parts: Sequence[Table] = ()) -> list[Path]:
    """Write results.md and its figures below the folder `docs`; the files."""
    file = docs / DOCUMENT
    with replacing(file) as temporary:
        temporary.write_text(document(records, parts), encoding="utf-8")
    return [file, *write_figures(summarise(records), docs / FIGURE_FOLDER)]


def document(records: Sequence[Record], parts: Sequence[Table] = ()) -> str:
    """The text of results.md; `parts` say what each part of the engine adds to complex queries."""
    summary = summarise(records)
    sections = [_INTRODUCTION, markdown([claims_table(summary), goals_table(summary)])]
    for table in SHOWN_TABLES:
        sections.append(_TEXTS[table])
        if table in FIGURES and FIGURES[table][0](summary) is not None:
            sections.append(f"![{table}]({FIGURE_FOLDER}/{table}.svg)\n")
        sections.append(_below(tables_of(summary, table)))
        if table == "queries" and parts:
            sections += [_PARTS, _below(parts)]
    sections += ["## Where the figures come from\n", _below([_provenance(records)])]
    return "\n".join(section.rstrip("\n") + "\n" for section in sections)


def _below(tables: Sequence[Table]) -> str:
    """Tables under a heading of the document: their own headings one level lower."""
    return markdown(tables).replace("## ", "### ")


def _provenance(records: Sequence[Record]) -> Table:
    rows = []
    for (table, data, column), group in group_records(records).items():
        rows.append(
            (
                f"{table}/{data}/{column}",
                _seeds(group),
                models_merged(group[0].members, group[0].beside),
                group[0].parameters,
                ", ".join(str(record.epochs) for record in group),
                f"{sum(record.seconds for record in group):.0f}",
                "; ".join(dict.fromkeys(record.device for record in group)),
                "; ".join(dict.fromkeys(record.torch for record in group)),
                "; ".join(dict.fromkeys(_commit(record) for record in group)),
            )
        )
    header = (
        "records",
        "seeds",
        "models merged",
        "parameters",
        "epochs",
        "seconds, all seeds",
        "device",
        "torch",
        "commit",
    )
    return Table("Records", header, tuple(rows))


def _seeds(group: Sequence[Record]) -> str:
    """The seeds that have a record, and those declared that have none."""
    recorded = [record.seed for record in group]
    absent = missing_seeds(group[0].table, recorded)
    return ", ".join(map(str, recorded)) + (f" ({', '.join(map(str, absent))} {MISSING})" if absent else "")


def _commit(record: Record) -> str:
    if record.commit is None:
        return "not known"
    return record.commit[:10] + (" with changes" if record.dirty else "")


# The figures.


def classification_data(summary: Summary) -> Data | None:
    """Accuracy and deviation by data set, training and column, None where missing; None if all are."""
    bars = {
        data: {
            suffix: {
                column: [
                    look_up(summary, "classification", data, f"{column}{suffix}", name)
                    for name in ("accuracy", "accuracy_deviation")
                ]
                for column in _BARS
            }
            for suffix in _TRAININGS
        }
        for data in ("wn11", "fb13")
    }
    seen = any(bar[0] is not None for each in bars.values() for training in each.values() for bar in training.values())
    return bars if seen else None


def time_data(summary: Summary) -> Data | None:
    """Points (n, seconds) of each curve, and its line; None if there are none."""
    curves = {column: summary["time"]["wn11"][column] for column in BLOCKS if column in summary["time"].get("wn11", {})}
    return {
        column: {
            "n": sorted(int(n) for n in curve["by_dimension"]),
            "seconds": [curve["by_dimension"][str(n)]["seconds"] for n in sorted(map(int, curve["by_dimension"]))],
            "line": [curve["intercept"], curve["slope"]],
        }
        for column, curve in curves.items()
    } or None


def digest(data: Any) -> str:
    """What a figure carries to tell which data it shows."""
    return "sha256:" + hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


def write_figures(summary: Summary, folder: Path) -> list[Path]:
    """Draw what there are records for, as SVG; a figure whose records are gone is removed."""
    written = []
    for name, (gather, draw) in FIGURES.items():
        file, data = folder / f"{name}.svg", gather(summary)
        if data is None:
            file.unlink(missing_ok=True)
            continue
        write_svg(file, data, draw)
        written.append(file)
    return written


def write_svg(file: Path, data: Any, draw: Callable[[Any], Figure]) -> None:
    """Draw `data`; the file carries its digest."""
    try:
        import matplotlib
    except ImportError:
        raise MissingExtra("drawing figures", "plots") from None
    # Names inside the file are drawn from a fixed salt, so that the same data give the same bytes.
    with matplotlib.rc_context({"svg.hashsalt": "blockhole"}), replacing(file) as temporary:
        draw(data).savefig(temporary, format="svg", metadata={"Date": None, "Description": digest(data)})


def _draw_classification(data: Data) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4), layout="constrained")
    panels = figure.subplots(1, len(data), sharey=True)
    for axes, (name, trainings) in zip(panels, data.items(), strict=True):
        for i, (suffix, bars) in enumerate(trainings.items()):
            known = [(place, *bar) for place, bar in enumerate(bars.values()) if bar[0] is not None]
            if not known:
                continue
            place, height, error = zip(*known, strict=True)
            axes.bar(
                [each + 0.4 * i - 0.2 for each in place],
                height,
                0.38,
                yerr=[each or 0.0 for each in error],
                capsize=2,
                color=COLOURS[i],
                label=_TRAININGS[suffix],
            )
        axes.set_xticks(range(len(_BARS)), [column.replace("-", "\n", 1) for column in _BARS])
        axes.set(title=name.upper(), xlim=(-0.6, len(_BARS) - 0.4), ylim=(0, 100))
        axes.axhline(50, color="grey", linewidth=0.8, linestyle=":")
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("accuracy (%)")
    shown = {label: bar for axes in panels for bar, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    panels[0].legend(shown.values(), shown.keys(), frameon=False, loc="upper right")
    return figure


def _draw_time(data: Data) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4), layout="constrained")
    lines, powers = figure.subplots(1, 2)
    for colour, (column, curve) in zip(COLOURS, data.items(), strict=False):
        powers.plot(curve["n"], curve["seconds"], "o-", color=colour, label=column, linewidth=1)
        if column != "rescal":
            intercept, slope = curve["line"]
            lines.plot(curve["n"], curve["seconds"], "o", color=colour, label=column)
            lines.plot(curve["n"], [intercept + slope * n for n in curve["n"]], color=colour, linewidth=1)
    lines.set(title="BlockHolE, with lines of least squares", ylim=(0, None), xlim=(0, None))
    powers.set(title="RESCAL beside them, both axes logarithmic", xscale="log", yscale="log")
    timed = sorted({n for curve in data.values() for n in curve["n"]})
    powers.set_xticks(timed, [str(n) for n in timed])
    powers.minorticks_off()
    powers.yaxis.set_major_formatter("{x:g}")
    for axes in (lines, powers):
        axes.set(xlabel="n", ylabel="seconds per epoch")
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.3)
        axes.legend(frameon=False)
    return figure


FIGURES = {"classification": (classification_data, _draw_classification), "time": (time_data, _draw_time)}
"""Each figure of docs/figures: what it shows, and how it is drawn."""
