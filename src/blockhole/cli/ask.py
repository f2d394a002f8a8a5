"""Questions to a run, a graph, a database: `ask`, `check`, `explain`, `paths`, `answers`, `sparql`, `ask-database`."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Literal

import typer

import blockhole
from blockhole.cli.options import (
    CandidatesOption,
    ColumnsOption,
    DeadlineOption,
    FactsOption,
    LiteralsOption,
    NamesOption,
    QueryArgument,
    RunArgument,
    TableOption,
    TopOption,
    deadline_in,
    engine_with,
    refuse_idle,
)
from blockhole.cli.output import (
    JsonFlag,
    plain_table,
    print_answers,
    print_json,
    print_whole,
    shown_names,
    stderr,
    stdout,
)
from blockhole.errors import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from blockhole.answering.answers import Answers
    from blockhole.answering.engine import Engine, Question
    from blockhole.answering.proofs import Explanation
    from blockhole.answering.rules import RuleReason
    from blockhole.answering.search import Deadline
    from blockhole.answering.sparql.results import Solutions

app = typer.Typer(add_completion=False)


@app.command(short_help="Answers to a query, known and predicted, each with its probability.")
def ask(
    run: RunArgument,
    query: Annotated[
        str | None,
        typer.Argument(help="Such as 'William/^fatherOf/brotherOf & !Andrew'; without one, a prompt opens."),
    ] = None,
    top: TopOption = 10,
    candidates: CandidatesOption = "typed",
    only: Annotated[Literal["known", "predicted"] | None, typer.Option(help="Print only these answers.")] = None,
    offset: Annotated[int, typer.Option(min=0, help="Pass over so many known and so many predicted answers.")] = 0,
    file: Annotated[Path | None, typer.Option(help="File of queries: TSV or JSON lines.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write the answers here: .parquet, .csv, .tsv, .jsonl or .arrow.")
    ] = None,
    device: Annotated[str, typer.Option(help="Where --file is answered: cpu, cuda, cuda:N or auto.")] = "cpu",
    facts: FactsOption = None,
    columns: ColumnsOption = None,
    names: NamesOption = "full",
    reasons: Annotated[
        Literal["rules"] | None,
        typer.Option(help="rules: why each predicted answer is one, by the rules behind its best proof."),
    ] = None,
    deadline: DeadlineOption = None,
    json: JsonFlag = False,
) -> None:
    """Print the answers to a query: those that follow from facts, then the best that the model predicts.

    --top and --offset choose a part of each of the two lists. An answer that a negation may still exclude is known with
    less than certainty: a missing fact may refute it.

    New facts count as known at once; an entity that the run has never seen is placed by its facts.
    """
    if file is not None and query is not None:
        raise typer.BadParameter("give a query or a file of queries, not both", param_hint="--file")
    if file is not None and out is None:
        raise typer.BadParameter("--file needs --out, where its answers go", param_hint="--out")
    if out is not None and file is None and query is None:
        raise typer.BadParameter("--out needs a query or a file of queries", param_hint="--out")
    if json and file is None and query is None:
        raise typer.BadParameter("--json needs a query or a file of queries", param_hint="--json")
    refuse_idle("--device", given=device != "cpu", use="a file of queries (--file)", used=file is not None)
    refuse_idle("--offset", given=offset > 0, use="one QUERY", used=query is not None)
    refuse_idle("--deadline", given=deadline is not None, use="one QUERY", used=query is not None)
    printed = query is not None and out is None
    refuse_idle("--names", given=names != "full", use="printed answers to one QUERY", used=printed)
    refuse_idle("--reasons", given=reasons is not None, use="printed answers to one QUERY", used=printed)
    from blockhole.answering.engine import Question, check_top
    from blockhole.answering.query_files import check_answers_file, read_queries

    check_top(top)
    if out is not None:
        check_answers_file(out)
    engine = engine_with(run, facts, columns)
    if file is not None and out is not None:
        _write_answers(
            partial(
                engine.ask_many, read_queries(file, engine), top=top, candidates=candidates, only=only, device=device
            ),
            out,
            json,
        )
    elif query is not None and out is not None:
        question = Question(query, top, candidates, only, offset, deadline_in(deadline))
        _write_answers(lambda: engine.ask_together([question]), out, json)
    elif query is not None:
        question = Question(query, top, candidates, only, offset, deadline_in(deadline))
        _answer(engine, question, names, reasons is not None, json)
    else:
        from blockhole.cli.prompt import open_prompt

        open_prompt(engine, top, candidates, only)


def _answer(
    engine: Engine, question: Question, names: Literal["full", "short", "label"], reasons: bool, json: bool
) -> None:
    from blockhole.answering.answers import AnswersReport

    began = perf_counter()
    (answers,) = engine.ask_together([question])
    rules = _rules_of(engine, answers, question.deadline) if reasons else {}
    seconds = perf_counter() - began
    if json:
        report = asdict(AnswersReport.of(answers, seconds))
        if reasons:
            report["reasons"] = {entity: [asdict(rule) for rule in own] for entity, own in rules.items()}
        print_json(report)
    else:
        print_answers(answers, shown_names(engine.graph, names), question.offset)
        for entity, own in rules.items():
            stdout().print(f"{entity}: " + ("; ".join(map(str, own)) or "no rule, the model alone"))


def _rules_of(engine: Engine, answers: Answers, deadline: Deadline) -> dict[str, list[RuleReason]]:
    """The rules behind the best proof of each predicted answer."""
    from blockhole.answering.proofs import explain, rules_behind

    predicted = [answer.entity for answer in answers if answer.status == "predicted"]
    found = {entity: explain(engine, answers.query, entity, top=1, deadline=deadline).proofs for entity in predicted}
    return {entity: [rule for proof in proofs for rule in rules_behind(proof.tree)] for entity, proofs in found.items()}


def _write_answers(ask: Callable[[], list[Answers]], out: Path, json: bool) -> None:
    from blockhole.answering.query_files import write_answers

    began = perf_counter()
    answers = ask()
    seconds = perf_counter() - began
    write_answers(out, answers)
    count = sum(map(len, answers))
    if json:
        milliseconds = round(1000 * seconds, 3)
        print_json({"queries": len(answers), "answers": count, "out": str(out), "milliseconds": milliseconds})
    else:
        asked = counted(len(answers), "query", "queries")
        stdout().print(f"{counted(count, 'answer')} to {asked} in {seconds:.2f} s: {out}")


@app.command(short_help="Whether an entity answers a query.")
def check(
    run: RunArgument,
    query: QueryArgument,
    entity: Annotated[str, typer.Argument(help="The answer to check, such as Beatrice.")],
    facts: FactsOption = None,
    columns: ColumnsOption = None,
    deadline: DeadlineOption = None,
    json: JsonFlag = False,
) -> None:
    """Say yes if the entity is known to answer the query, or if the model finds that more likely than not.

    Any entity can be checked; the probability is that of `ask --candidates all`.
    """
    verdict = engine_with(run, facts, columns, quietly=True).check(query, entity, deadline=deadline_in(deadline))
    if json:
        print_json(asdict(verdict))
        return
    stdout().print(f"{'yes' if verdict.holds else 'no'}: probability {verdict.probability:.3f}, {verdict.status}")


@app.command(short_help="Why an entity is an answer: its most probable proofs.")
def explain(
    run: RunArgument,
    query: QueryArgument,
    entity: Annotated[str, typer.Argument(help="The answer to explain, such as Beatrice.")],
    top: Annotated[int, typer.Option(help="How many proofs.")] = 5,
    dot: Annotated[bool, typer.Option("--dot", help="Print the proofs as a graph for Graphviz.")] = False,
    facts: FactsOption = None,
    columns: ColumnsOption = None,
    deadline: DeadlineOption = None,
    json: JsonFlag = False,
) -> None:
    """Print the best proofs of an answer: an entity for every step of the query, each hop known or predicted.

    Below a proof stand the rules that its predicted hops follow from, each with the share of known cases in which it is
    right and the facts that fire it. A proof is as probable as its hops together. The answer is at least as probable as
    its best proof: for a path, the model's composed vector may know more than any one way.
    """
    engine = engine_with(run, facts, columns, quietly=True)
    explanation = blockhole.explain(engine, query, entity, top=top, deadline=deadline_in(deadline))
    if dot:
        from blockhole.answering.proofs import to_dot

        typer.echo(to_dot(explanation), nl=False)
    elif json:
        print_json(asdict(explanation))
    else:
        _print_proofs(explanation)


def _print_proofs(explanation: Explanation) -> None:
    from blockhole.answering.proofs import in_words, rules_behind

    said = f"{explanation.entity}: {explanation.status}, probability {explanation.probability:.3f}"
    stdout().print(said if explanation.proofs else f"{said}; no proof is plausible")
    for proof in explanation.proofs:
        stdout().print(f"{proof.probability:.3f}  {in_words(proof.tree)}")
        for rule in rules_behind(proof.tree):
            stdout().print(f"       by {rule}")


@app.command(short_help="Which relation paths connect two entities.")
def paths(
    run: RunArgument,
    source: Annotated[str, typer.Argument(help="Where the paths begin.")],
    target: Annotated[str, typer.Argument(help="Where the paths lead.")],
    max_length: Annotated[int, typer.Option(help="Hops of the longest path.")] = 3,
    top: Annotated[int, typer.Option(help="How many paths.")] = 20,
    facts: FactsOption = None,
    columns: ColumnsOption = None,
    deadline: DeadlineOption = None,
    json: JsonFlag = False,
) -> None:
    """Print the relation paths that lead from one entity to another: known ones first, then as the model ranks them."""
    engine = engine_with(run, facts, columns)
    found = blockhole.paths(engine, source, target, max_length=max_length, top=top, deadline=deadline_in(deadline))
    if json:
        print_json(asdict(found))
        return
    table = plain_table("path", "probability", "status")
    for each in found:
        table.add_row(each.path, f"{each.probability:.3f}", each.status)
    print_whole(table)


@app.command(short_help="Exact answers to a query over a graph.")
def answers(
    data: Annotated[str, typer.Argument(metavar="NAME|FILE", help="A named data set, a folder, or a file of facts.")],
    query: Annotated[str, typer.Argument(metavar="QUERY", help="Such as 'William/^fatherOf/brotherOf & !Andrew'.")],
    known: Annotated[
        Literal["all", "train"],
        typer.Option("--known", "--split", help="Which facts count as known: all, or those of train."),
    ] = "all",
    facts: Annotated[
        Path | None, typer.Option("--facts", help="File of additional facts, which are known too.")
    ] = None,
    columns: ColumnsOption = None,
    literals: LiteralsOption = None,
    names: NamesOption = "full",
    json: JsonFlag = False,
) -> None:
    """Print every entity that answers a query over known facts, one per line, sorted by name.

    A query is a source and then relations, separated by /. ^ before a relation takes it backwards; (r|s) is one
    relation or the other. Sets of answers are joined by & | and ! (and, or, not), in parentheses where needed:
    (a/r & !b/s)/t. A name with spaces or marks goes in double quotes or < >.
    """
    more = None if facts is None else blockhole.read_graph(facts, columns=columns, literals=literals)
    told = columns is not None or literals is not None or names != "full"
    where = blockhole.load(data, columns=columns, literals=literals) if told else data
    found = blockhole.answers(where, query, known=known, facts=more)
    if json:
        entities = {"answers": found.entities, "count": len(found.entities)}
        print_json({"query": found.query, **entities, "known": found.known, "negation": found.negation})
        return
    shown = str if isinstance(where, str) else shown_names(where.split.graph("train", "valid", "test"), names)
    for name in found.entities:
        typer.echo(shown(name))
    stderr().print(f"{counted(len(found.entities), 'answer')} to {found.query}")
    if found.negation:
        stderr().print("negation is over known facts: a fact that is missing may exclude some of these")


@app.command(short_help="The results of a SPARQL query, over known and predicted edges.")
def sparql(
    run: RunArgument,
    query: Annotated[str, typer.Argument(help="A query, a file that holds one, or - for standard input.")],
    format: Annotated[
        Literal[
            "table", "json", "xml", "csv", "tsv", "turtle", "ntriples", "rdfxml", "jsonld", "turtle-1.2", "ntriples-1.2"
        ]
        | None,
        typer.Option(
            "--format",
            help="table, json, xml, csv or tsv; for CONSTRUCT turtle, ntriples, rdfxml, jsonld, turtle-1.2 or "
            "ntriples-1.2.",
        ),
    ] = None,
    known: Annotated[bool, typer.Option("--known", help="Only what facts say, as any SPARQL engine has it.")] = False,
    threshold: Annotated[
        float | None,
        typer.Option(
            help="The least probability of predicted answers (default: 0.5, or all that are plausible "
            "where the query names ?probability or ?status)."
        ),
    ] = None,
    candidates: CandidatesOption = "typed",
    names: NamesOption = "full",
    deadline: DeadlineOption = None,
    json: JsonFlag = False,
) -> None:
    """Print the rows of a SELECT, the truth of an ASK, or the triples of a CONSTRUCT, over known and predicted edges.

    ?probability and ?status are bound where the query names them. A name that is not an IRI is <urn:blockhole:name>,
    percent-encoded, for which : is a prefix unless the run has its own.
    """
    from blockhole.answering.sparql.results import Solutions, written

    engine = blockhole.Engine.opened(run)
    result = engine.sparql(
        _query_text(query), known=known, threshold=threshold, candidates=candidates, deadline=deadline_in(deadline)
    )
    if format in (None, "table") and not json and isinstance(result, Solutions):
        _print_solutions(result, shown_names(engine.graph, names))
    else:
        typer.echo(written(result, "json" if json else format).rstrip("\n"))
    if not result.complete:
        stderr().print("the search ended at a limit: there may be better answers that it has not seen")


def _query_text(query: str) -> str:
    """The query that an argument is, or that stands in the file that it names."""
    from blockhole.errors import DataError, quoted, why

    if query == "-":
        return typer.get_text_stream("stdin").read().removeprefix("\ufeff")
    if "{" in query:
        return query
    try:
        return Path(query).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as failure:
        reason = failure.strerror if isinstance(failure, OSError) else why(failure)
        raise DataError(
            f"{quoted(query)} is neither a query, which has braces, nor a file that can be read ({reason}); "
            "write one, such as 'SELECT ?x { :a :r ?x }'."
        ) from None


def _print_solutions(solutions: Solutions, shown: Callable[[str], str]) -> None:
    from blockhole.answering.sparql.terms import plainly

    if not len(solutions):
        stdout().print("no answers")
        return
    table = plain_table(*solutions.variables)
    for row in solutions:
        table.add_row(*("" if term is None else plainly(term, shown) for term in row.terms))
    print_whole(table)


@app.command("ask-database", short_help="Answers from a database that a run was exported to.")
def ask_database(
    address: Annotated[str, typer.Argument(help="postgresql://…, where `blockhole export` wrote a run.")],
    query: QueryArgument,
    top: TopOption = 10,
    table: TableOption = "blockhole_entity",
    json: JsonFlag = False,
) -> None:
    """Print the best answers among all entities. No run is needed: everything comes from the database."""
    from blockhole.answering.export import DatabaseQueries

    ranked = DatabaseQueries(address, table).ask(query, top)
    if json:
        print_json({"query": query, "answers": [answer._asdict() for answer in ranked]})
        return
    for entity, score in ranked:
        stdout().print(f"{score:10.3f}  {entity}")
