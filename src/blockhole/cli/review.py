"""`blockhole predict`, `audit` and `rules`: what is missing, what may be wrong, what facts follow."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

import blockhole
from blockhole.cli.options import ColumnsOption, RunArgument, engine_with
from blockhole.cli.output import JsonFlag, plain_table, print_json, print_whole, stderr, stdout
from blockhole.errors import counted

if TYPE_CHECKING:
    from blockhole.answering.engine import Engine
    from blockhole.answering.rules import RuleList
    from blockhole.data.reviews import FactList

app = typer.Typer(add_completion=False)

_PRINTED = 20
_WRITTEN = 1000

RelationOption = Annotated[str | None, typer.Option(metavar="R", help="Only facts of this relation (default: all).")]
TopOption = Annotated[
    int | None, typer.Option(min=1, help=f"How many facts (default: {_WRITTEN:,} to a file, {_PRINTED} without --out).")
]
OutOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Write a list to review: .parquet, .csv, .tsv or .jsonl.")
]
ReviewedOption = Annotated[
    list[Path] | None,
    typer.Option(metavar="LIST", help="A list with decisions, whose facts are not listed again; may be repeated."),
]
FactsOption = Annotated[
    Path | None, typer.Option("--facts", help="File of additional facts, or a list whose accepted rows are.")
]


@app.command(short_help="The most probable facts that the graph lacks, as a list to review.")
def predict(
    run: RunArgument,
    relation: RelationOption = None,
    min_probability: Annotated[
        float | None, typer.Option(metavar="P", help="Leave out facts that are less probable.")
    ] = None,
    top: TopOption = None,
    candidates: Annotated[
        Literal["typed", "all"],
        typer.Option(help="Subjects and objects: those that a relation has in the graph, or all entities."),
    ] = "typed",
    known: Annotated[
        Literal["all", "train"],
        typer.Option(help="Facts of the data that are not listed: all, or those of train, to see what was held out."),
    ] = "all",
    reviewed: ReviewedOption = None,
    facts: FactsOption = None,
    columns: ColumnsOption = None,
    out: OutOption = None,
    json: JsonFlag = False,
) -> None:
    """List the most probable missing facts of the whole graph, each with its probability and a reason.

    The list has an empty column `decision`: write accept or reject there. `blockhole data review` then adds what was
    accepted to the data, --facts takes it as known at once, and --reviewed keeps decided rows out of the next list.
    """
    from blockhole.cli.progress import working_bar

    _check_out(out)
    engine: Engine | Path = run if facts is None and columns is None else engine_with(run, facts, columns)
    data = None if facts is None else blockhole.Run.open(run).load_data()
    with working_bar("predicting") as bar:
        listed = blockhole.predict(
            engine, relation=relation, top=top or (_PRINTED if out is None else _WRITTEN),
            min_probability=min_probability, candidates=candidates, known=known, reviewed=reviewed or (), data=data,
            progress=bar,
        )  # fmt: skip
    _give(run, listed, out, json)


@app.command(short_help="The known facts that would be least probable, likely errors, as a list to review.")
def audit(
    run: RunArgument,
    relation: RelationOption = None,
    top: TopOption = None,
    reviewed: ReviewedOption = None,
    out: OutOption = None,
    json: JsonFlag = False,
) -> None:
    """List the facts that would be least probable had they been missing, the most doubtful first.

    The list has an empty column `decision`: write accept where a fact is right and reject where it is wrong.
    `blockhole data review` then leaves out what was rejected.
    """
    from blockhole.cli.progress import working_bar

    _check_out(out)
    with working_bar("auditing") as bar:
        listed = blockhole.audit(
            run, relation=relation, top=top or (_PRINTED if out is None else _WRITTEN), reviewed=reviewed or (),
            progress=bar,
        )  # fmt: skip
    _give(run, listed, out, json)


def _check_out(out: Path | None) -> None:
    if out is not None:
        from blockhole.data.reviews import check_list_file

        check_list_file(out)


def _give(run: Path, listed: FactList, out: Path | None, json: bool) -> None:
    """Write a list to its file, or print it."""
    if out is not None:
        listed.write(out)
    if json:
        place = {} if out is None else {"out": str(out)}
        print_json({"run": str(run), **place, "count": len(listed), "facts": listed.to_dicts() if out is None else []})
        return
    if out is not None:
        stdout().print(f"{counted(len(listed), 'fact')} written to {out}; write accept or reject under decision")
    elif not len(listed):
        stdout().print("no facts")
    else:
        table = plain_table("source", "relation", "target", listed.value, "reason", right=(listed.value,))
        for fact in listed:
            table.add_row(fact.source, fact.relation, fact.target, f"{fact.score:.3g}", fact.reason)
        print_whole(table)
        stderr().print("--out FILE writes a list to review")


@app.command(short_help="The rules that facts follow, such as brotherOf/fatherOf ⇒ uncleOf.")
def rules(
    run: RunArgument,
    head: Annotated[str | None, typer.Option(metavar="R", help="Only rules for this relation (default: all).")] = None,
    max_length: Annotated[int, typer.Option(help="Relations of the longest body, 1 to 3.")] = 3,
    top: Annotated[
        int | None,
        typer.Option(min=1, help=f"How many rules (default: {_WRITTEN:,} to a file, {_PRINTED} without --out)."),
    ] = None,
    min_support: Annotated[int, typer.Option(min=1, help="Leave out rules with less support.")] = 10,
    redundant: Annotated[
        bool, typer.Option("--redundant", help="Also list rules that are not better than a part of them.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the rules here: .parquet, .csv, .tsv or .jsonl.")
    ] = None,
    json: JsonFlag = False,
) -> None:
    """List rules body ⇒ head, those with the highest PCA confidence first.

    The model proposes bodies whose matrices multiply to one like the head's; the facts of the run decide. support
    counts pairs that body and head both say, confidence is their share of what the body says, and PCA confidence their
    share of what it says about subjects that have the head. valid is the share of its new pairs about subjects with
    validation facts of the head that are such facts.
    """
    from blockhole.cli.progress import working_bar

    _check_out(out)
    with working_bar("counting") as bar:
        found = blockhole.rules(
            run, head=head, max_length=max_length, top=top or (_PRINTED if out is None else _WRITTEN),
            min_support=min_support, redundant=redundant, progress=bar,
        )  # fmt: skip
    if out is not None:
        found.write(out)
    if json:
        place = {} if out is None else {"out": str(out)}
        print_json({"run": str(run), **place, "count": len(found), "rules": found.to_dicts() if out is None else []})
    elif out is not None:
        stdout().print(f"{counted(len(found), 'rule')} written to {out}")
    else:
        _print_rules(found, min_support)


def _print_rules(found: RuleList, min_support: int) -> None:
    if not len(found):
        rarer = f" with a support of {min_support:,}; --min-support 2 lets rarer ones in" if min_support > 2 else ""
        stdout().print(f"no rules{rarer}")
        return
    numbers = ("support", "confidence", "pca", "valid", "similarity")
    table = plain_table("rule", *numbers, right=numbers)
    for rule in found:
        valid = "–" if rule.valid_confidence is None else f"{rule.valid_confidence:.3f}"
        table.add_row(
            str(rule), f"{rule.support:,}", f"{rule.confidence:.3f}", f"{rule.pca_confidence:.3f}", valid,
            f"{rule.similarity:.3f}",
        )  # fmt: skip
    print_whole(table)
