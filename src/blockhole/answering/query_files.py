"""Files of queries in, files of answers out."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from blockhole.answering.answers import Answers, answers_frame
from blockhole.errors import ConfigError, DataError, MalformedFile, QueryError
from blockhole.queries.language import Query, hop_in_column, parse
from blockhole.saving import replacing

if TYPE_CHECKING:
    from blockhole.answering.engine import Engine

_REMEDY = "write one query a line, such as William/^fatherOf"


def read_queries(path: Path) -> dict[int, Query]:
    """The queries of a file by the number of their line, in order.

    JSON lines (.jsonl, .ndjson) hold objects with a key "query"; any other file is read as TSV: a query a line in the
    path language, or a source and then relations in the columns after it, ^ or ** before an inverse. Empty lines
    are passed over.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")  # a name may hold what else splits lines, as U+2028
    except OSError as failure:
        raise DataError(f"{path}: cannot be read ({failure.strerror}); name a file of queries.") from None
    except UnicodeDecodeError:
        raise MalformedFile(path, "it is not text in UTF-8", "save it as UTF-8") from None
    read = _read_json if path.suffix in (".jsonl", ".ndjson") else _read_tsv
    queries = {number: read(path, number, line) for number, line in enumerate(lines, start=1) if line.strip()}
    if not queries:
        raise MalformedFile(path, "it holds no queries", _REMEDY)
    return queries


def _read_json(path: Path, number: int, line: str) -> Query:
    try:
        value = json.loads(line)
    except ValueError:
        raise MalformedFile(path, "this is no JSON", 'write {"query": "William/^fatherOf"}', number) from None
    text = value.get("query") if isinstance(value, dict) else value
    if not isinstance(text, str):
        raise MalformedFile(path, 'there is no text under "query"', 'write {"query": "William/^fatherOf"}', number)
    return _parse(path, number, text)


def _read_tsv(path: Path, number: int, line: str) -> Query:
    fields = line.split("\t")
    if len(fields) == 1:
        return _parse(path, number, line)
    hops = [hop_in_column(field) for field in fields[1:]]
    if not fields[0] or not all(hop.relation for hop in hops):
        raise MalformedFile(path, "a column is empty", _REMEDY, number)
    with _in_line(path, number):
        return Query(fields[0], hops)


def _parse(path: Path, number: int, text: str) -> Query:
    with _in_line(path, number):
        return parse(text)


def check_queries(path: Path, queries: Mapping[int, Query], engine: Engine) -> None:
    """Refuse queries of a file that `engine` cannot answer, and say in which line they stand."""
    for number, query in queries.items():
        with _in_line(path, number):
            engine.encode(query)


@contextmanager
def _in_line(path: Path, number: int) -> Iterator[None]:
    """Say of a query that is refused in which line it stands."""
    try:
        yield
    except QueryError as failure:
        raise QueryError(f"{path}, line {number}: {failure}") from None


def check_answers_file(path: Path) -> None:
    """Refuse the name of a file that answers cannot be written to, before any are looked for."""
    if path.suffix not in (".parquet", ".jsonl"):
        raise ConfigError(f"{path}: answers are written as .parquet or .jsonl; name such a file with --out.")


def write_answers(path: Path, answers: Sequence[Answers]) -> None:
    """Write answers, whole or not at all: a row an answer as Parquet, or an object a query as JSON lines."""
    check_answers_file(path)
    with replacing(path) as temporary:
        if path.suffix == ".parquet":
            answers_frame(answers).write_parquet(temporary)
        else:
            lines = (
                json.dumps({"query": each.query, "answers": each.to_dicts()}, ensure_ascii=False) for each in answers
            )
            temporary.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
