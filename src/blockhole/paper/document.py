"""docs/results.md and its figures, written from the records."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from blockhole.evaluation.report import Table, markdown
from blockhole.graph.replacing import replacing
from blockhole.paper.claims import claims_table, goals_table
from blockhole.paper.figures import FIGURES, write_figures
from blockhole.paper.record import Record
from blockhole.paper.summary import SHOWN_TABLES, group_records, summarise
from blockhole.paper.tables import MISSING, missing_seeds, tables_of

DOCUMENT = "results.md"
FIGURE_FOLDER = "figures"

_INTRODUCTION = """\
# Results

Written by `blockhole results --write` from the records in `results/`; a test fails when it is stale. A figure is the
mean over seeds ± their standard deviation; *missing* says that there is no record. Intervals are over queries: the
means of the bounds that each seed's bootstrap gives. Records hold seed, settings, commit, device and wall time.

All settings were chosen on dev queries, and test was measured with what had been chosen: once, but FB13's ranking,
WN18RR and WN11's triples twice, since the first time was before their last choices on dev, and the order of relations
four times, since three settings left one of its two sides short (`docs/experiments.md`).

`blockhole reproduce ranking` (`classification`, `order`, `completion`, `triples`, `time`) makes the records again, on a
GPU or on a CPU; `blockhole results --json` prints every mean and deviation.
"""

_TEXTS = {
    "ranking": """\
## Ranking (Table 3 of the paper)

A column is a model and its size, trained on paths; with -edges after it, on edges alone. *Base* are the test facts as
queries of length 1, *all* is deduction and induction together. F\\* = train + valid + test, a tie counts half, and
queries without negatives are left out (the strict reading). *paper* is what Table 3 prints. Loss, penalty, rate and
epochs were chosen for blockhole-2x25 on each data set, and are the same for all columns but *best*, edges having more
epochs, and RESCAL and HolE on paths a smaller rate, since they diverge at that of the others. On WN11 *best* is
trained on the words of entity names too, which no published result on this data uses; *best-without-words* is the
same without them.

The paper's P@10 of WN11's base and induction (80.9 and 54.9 for b = 2) are out of reach of every published system under
the protocol it states; the best that Guu et al. measured on WN11's base is 27.3. The paper does not say whether P@10
leaves out the queries without negatives; where there are some, the other reading stands beside.

Other systems' figures are as they were printed. Guu et al. and CoKE take F\\* = train + test and break ties otherwise
(`docs/explanation/protocol.md`).
""",
    "classification": """\
## Classification (the accuracy figure of the paper)

Paths of the test with two hops or more, against their reversed paths that do not hold; φ ≥ 0 says that a path holds.
The plain columns have the paper's training, with random objects as negatives; -corrupted: with paths that do not hold
as negatives too. The paper draws its figures and prints no numbers.
""",
    "order": """\
## The order of relations (Table 4 of the paper)

Every query of FB13 with …/parents/religion/… in its path, against the same with …/religion/parents/… where that does
not hold. The plain columns have the paper's training; -corrupted: with paths that do not hold as negatives too.
""",
    "completion": """\
## Completion

Both sides of every test fact, ranked among all entities, other known answers removed; fractions of 1.
""",
    "triples": """\
## Triple classification

The labelled test triples of Socher et al. 2013. Each relation has one threshold, and one kind of evidence it is for:
the score, or the share of the object or of the subject among those the relation takes; both are what is best on dev.
*By score alone* leaves that choice out. The words of entity names are trained on, as by Socher et al. (NTN), not by
the others.
""",
    "time": """\
## Run time (the run-time figure of the paper)

One epoch over WN11's train facts with the paper's training (five negatives, batches of 1,024) in the fused engine on
one CPU thread, the best of several rounds. *slope* and *R²* are those of a line through the times; *exponent* is the
slope on logarithmic axes: 1 for what is proportional to n, 2 for what is quadratic. Every n is a multiple of 128, so
that blocks have 16 numbers or more; smaller ones are not on the line (`docs/experiments.md`).
""",
}


def write_document(records: Sequence[Record], docs: Path) -> list[Path]:
    """Write results.md and the figures below the folder `docs`; the files."""
    file = docs / DOCUMENT
    with replacing(file) as temporary:
        temporary.write_text(document(records), encoding="utf-8")
    return [file, *write_figures(summarise(records), docs / FIGURE_FOLDER)]


def document(records: Sequence[Record]) -> str:
    """The text of results.md."""
    summary = summarise(records)
    sections = [_INTRODUCTION, markdown([claims_table(summary), goals_table(summary)])]
    for table in SHOWN_TABLES:
        sections.append(_TEXTS[table])
        if table in FIGURES and FIGURES[table][0](summary) is not None:
            sections.append(f"![{table}]({FIGURE_FOLDER}/{table}.svg)\n")
        sections.append(_below(tables_of(summary, table)))
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
                group[0].members,
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
