"""Files of queries in, files of answers out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from blockhole.answering.answers import Answers, AnswersReport, answers_frame
from blockhole.answering.engine import Encoded, Engine
from blockhole.errors import ConfigError, DataError, MalformedFile, QueryError, listed
from blockhole.files.tables import ROW_FILES, write_rows
from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.queries.language import Hop, Query, encode_entity, encode_hop, parse
from blockhole.queries.plans import Plan
from blockhole.saving import parse_json, replacing

_REMEDY = "write one query per line, such as William/^fatherOf"


def read_queries(path: Path, engine: Engine) -> list[Encoded]:
    """The queries of a file, all of which `engine` can answer; what is wrong with one is said with its line.

    JSON lines (.jsonl, .ndjson) hold objects with a key "query"; any other file is read as TSV: a query a line in the
    path language, or a source and then hops in the columns after it, where names need no quotes. Empty lines are
    passed over.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")  # a name may hold what else splits lines, as U+2028
    except OSError as failure:
        raise DataError(f"{path}: cannot be read ({failure.strerror}); name a file of queries.") from None
    except UnicodeDecodeError:
        raise MalformedFile(path, "it is not text in UTF-8", "save it as UTF-8") from None
    read = _read_json if path.suffix in (".jsonl", ".ndjson") else _read_tsv
    queries = []
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                queries.append(engine.encode(read(path, number, line, engine.graph)))
            except QueryError as failure:
                raise QueryError(f"{path}, line {number}: {failure}") from None
    if not queries:
        raise MalformedFile(path, "it holds no queries", _REMEDY)
    return queries


def _read_json(path: Path, number: int, line: str, _: KnowledgeGraph) -> Query:
    try:
        value = parse_json(line)
    except ValueError:
        raise MalformedFile(path, "this is not JSON", 'write {"query": "William/^fatherOf"}', number) from None
    text = value.get("query") if isinstance(value, dict) else value
    if not isinstance(text, str):
        raise MalformedFile(path, 'there is no text under "query"', 'write {"query": "William/^fatherOf"}', number)
    return parse(text)


def _read_tsv(path: Path, number: int, line: str, graph: KnowledgeGraph) -> Query | Encoded:
    source, *hops = line.rstrip("\r").split("\t")
    if not hops:
        return parse(line)
    if not source or not all(hops):
        raise MalformedFile(path, "a column is empty", _REMEDY, number)
    start = encode_entity(source, graph.entities, graph.relations)
    relations = [encode_hop(hop, graph.relations) for hop in hops]
    query = Query(graph.entities[start], [Hop(*graph.relation_name(relation)) for relation in relations])
    return Encoded(query, Plan.of_chain(start, relations))


def check_answers_file(path: Path) -> None:
    """Refuse the name of a file that answers cannot be written to, before any are looked for."""
    if path.suffix not in ROW_FILES:
        raise ConfigError(f"{path}: answers are written as {listed(ROW_FILES)}; name such a file with --out.")


def write_answers(path: Path, answers: Sequence[Answers]) -> None:
    """Write answers, whole or not at all: a row an answer, but an object a query as JSON lines."""
    check_answers_file(path)
    with replacing(path) as temporary:
        if path.suffix != ".jsonl":
            write_rows(answers_frame(answers), temporary, path.suffix)
        else:
            lines = (json.dumps(_object(each), ensure_ascii=False) for each in answers)
            temporary.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _object(answers: Answers) -> dict[str, Any]:
    """What --json prints of the answers to one query, but for the time, which many took together."""
    fields = asdict(AnswersReport.of(answers, 0.0))
    del fields["milliseconds"]
    return fields
