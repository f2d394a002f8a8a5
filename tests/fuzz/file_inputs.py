"""Targets of one file: queries, pickles, facts in every format, lists to review, path queries, texts, settings."""

from __future__ import annotations

import gzip
import json
import pickle
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any
from zlib import crc32

from tests.fuzz.damage import damage_bytes, damage_end, damage_json, damage_pickle, text_damage
from tests.fuzz.kinds import FileTarget, Target, attempt

if TYPE_CHECKING:
    from blockhole.answering.engine import Engine


@cache
def _engine() -> Engine:
    from tests.answering.toys import make_engine

    return make_engine()[0]


# Queries.


QUERIES = (
    "e1/a", "e1/^a/b", '"e 1"/a^-1', "<http://x/e>/^<http://x/r>", "e1 / a / ^ b", r'"a\"b"/"c\\d"', "e1/^^a",
    r'"\u0041\n"/a', "e1/a/b/c/a/b/c/^a", "'e1'/a", "e1", "^a", "_:b0/a", '"x"@en/a',
    "e1/r0", "e1/^r0/r1", "e1 / r0 / ^ r1", "(e1/r0 & !e2/r1)/^r0", "e1/(r0|^r1/r2) | e2",
    "e1/r0 and not (e2 or e3/r1)", "((e1 | e2)/r0 & (e3 | e4)/^r1 & !(e5/r2))/(r0|r1)/(^r0|r2)", "e1/r0/r1/r2/r0/r1/r2",
)  # fmt: skip


QUERY_WORDS = (
    b"/", b"^", b'"', b"'", b"<", b">", b"\\", b"\\u", b"\\U0011", b"^-1", b"^^", b"**", b"(", b"|", b"*",
    b")", b"&", b"!", b" and ", b" or ", b" not ", b" ", b"a", b"e1", b"e2/r1", b"r0", b"^r1", b"(r0|^r1)", b" & e3/r0",
    b" & !e4/r2", b" | e5",
)  # fmt: skip

damage_query = text_damage(*QUERY_WORDS)


_LINE_WORDS = (b"\t", b"\n", b'{"query": "e1/r0"}', b"[", b"{")
_ENOUGH = 5.0
"""Seconds that a question may take; one that needs more is refused."""


def _queries(folder: Path) -> list[tuple[str, bytes]]:
    return [("query", query.encode()) for query in (*QUERIES, "e1" + "/r0" * 10_000)]


def _read_query(path: Path) -> None:
    from blockhole.queries import language
    from blockhole.queries.exact import plan_answers

    text = path.read_bytes().decode(errors="surrogateescape")[: 1 << 15]  # as arguments of a command come
    graph = _engine().graph
    attempt(
        lambda: language.encode_chain(text, graph),
        lambda: plan_answers(graph, language.encode_tree(text, graph)),
        lambda: language.encode_prefix(text, graph),
        lambda: language.encode_hop(text, graph.relations),
        lambda: language.encode_entity(text, graph.entities, graph.relations),
        lambda: language.encode_path(text, graph.relations),
        lambda: language.parse(str(language.parse(text))),
        lambda: language.pieces(text),
        lambda: language.last_part(text),
        lambda: language.typed_hop(text),
        lambda: language.typed_name(text),
        lambda: language.write_name(text),
        lambda: language.hop_in_column(text),
    )


def _read_question(path: Path) -> None:
    """What a server does with a query: answers, a verdict, proofs, the pieces of its text."""
    from blockhole.answering.proofs import explain, to_dot
    from blockhole.answering.search import Deadline
    from blockhole.serving.schemas import pieces_of

    engine = _engine()
    text = path.read_bytes().decode(errors="surrogateescape")[:4000]
    attempt(
        lambda: engine.ask(text, top=3, deadline=Deadline(_ENOUGH)).to_dicts(),
        lambda: engine.ask(text, candidates="all", only="predicted", offset=2, deadline=Deadline(_ENOUGH)),
        lambda: engine.check(text, "e7", deadline=Deadline(_ENOUGH)),
        lambda: to_dot(explain(engine, text, "e7", top=3, deadline=Deadline(_ENOUGH))),
        lambda: pieces_of(text),
    )


SPARQL = (
    "SELECT ?x ?probability { :e1 :r0 ?x FILTER(?probability > 0.1) } ORDER BY DESC(?probability) LIMIT 3 OFFSET 1",
    "PREFIX a: <urn:blockhole:> SELECT DISTINCT * { a:e1 ^:r0/:r1? ?x . ?x (:r0|:r2)+ ?y OPTIONAL { ?y :r1 ?z } }",
    "ASK { :e1 :r0 ?x MINUS { ?x :r1 :e2 } VALUES ?x { :e3 UNDEF <a:b> 7 'text'@en } }",
    "SELECT ?x (COUNT(DISTINCT ?y) AS ?n) { { ?x :r0 ?y } UNION { ?y :r1 [] } MINUS { ?x :r2 ?y } } GROUP BY ?x",
    "CONSTRUCT { ?x :r0 _:b } WHERE { ?x :r0* :e4 . FILTER(REGEX(STR(?x), 'e[12]') || ?x IN (:e5, :e6)) }",
)
_SPARQL_WORDS = (
    b"{", b"}", b"(", b")", b"?x", b":e1", b"^", b"/", b"|", b"*", b"+", b"?", b"<", b">", b'"', b"'", b"\\", b".",
    b" UNION ", b" MINUS ", b" OPTIONAL ", b" FILTER ", b" VALUES ", b" BIND ", b"_:b", b"[]", b"#", b"\n",
    b"PREFIX ", b"((.|.)*)*!", b"REGEX(STR(?x), ",
)  # fmt: skip


def _sparql_queries(folder: Path) -> list[tuple[str, bytes]]:
    return [("query", query.encode()) for query in SPARQL]


def _read_sparql(path: Path) -> None:
    from blockhole.answering.search import Deadline

    text = path.read_bytes().decode(errors="surrogateescape")
    _engine().sparql(text, known=seldom(path), deadline=Deadline(_ENOUGH))


def _query_files(folder: Path) -> list[tuple[str, bytes]]:
    lines = [query for query in QUERIES if "/" in query and "a" not in query]
    return [
        ("queries.txt", "\n".join(lines).encode()),
        ("queries.tsv", b"e1\tr0\t^r1\r\ne2\t**r0\n\ne3/r0 & !e2\n"),
        ("queries.jsonl", "".join(json.dumps({"query": query}) + "\n" for query in lines).encode()),
        ("queries.ndjson", b'"e1/r0"\n{"query": "e2/r1 | e3", "more": [1, {}]}\n'),
    ]


def _read_query_file(path: Path) -> None:
    from blockhole.answering.query_files import read_queries, write_answers

    queries = read_queries(path, _engine())
    if seldom(path):
        answers = _engine().ask_many(queries[:3], top=2)
        for kind in ("parquet", "jsonl"):
            write_answers(path.parent.with_name(f"answers.{kind}"), answers)


# Pickles.


def _pickles(folder: Path) -> list[tuple[str, bytes]]:
    from tests.files.published import ENTITIES, QUERIES, defaulting

    values = (defaulting(QUERIES), dict(enumerate(ENTITIES)), [{1.5: (None, True)}, frozenset("ab"), {2**63, "é\n"}])
    return [("p.pkl", pickle.dumps(value, protocol)) for value in values for protocol in range(6)]


def _read_pickle(path: Path) -> None:
    from blockhole.files.plain_pickles import read_plain_pickle

    repr(read_plain_pickle(path))


# Files of facts.


def read_graphs(path: Path) -> None:
    """Read a file of facts; some are packed as well, which takes much longer."""
    from blockhole.data.packing import pack
    from blockhole.files.readers import read_graph

    attempt(
        lambda: read_graph(path),
        lambda: seldom(path) and pack(path, path.parent / "packed", overwrite=True),
    )


def seldom(place: Path) -> bool:
    """For one input in ten, a file or a folder, the same ones each time."""
    files = sorted(place.iterdir()) if place.is_dir() else [place]
    return crc32(b"".join(file.read_bytes() for file in files if file.is_file())) % 10 == 0


TSV = b"source\trelation\ttarget\nAda\tknows\tBob\nBob\tknows\tC\xc3\xa9line\n\nBob\tlikes\tAda\r\n"
LABELLED = b"a\tr\tb\t1\nb\tr\tc\t-1\nc\tr\ta\t1\n"
CSV = b'head,relation,tail\nAda,knows,"Bob, ""B"""\n"two\nlines",knows,Ada\n\nx,r,y\n'
NT = (
    b'<http://x/a> <http://x/r> <http://x/b> .\n_:b0 <http://x/r> "lit\\"eral"@en . # why\n'
    b'<http://x/a>\t<http://x/r> "1"^^<http://www.w3.org/2001/XMLSchema#integer>.\n\n'
    b"<urn:blockhole:a%20b> <urn:blockhole:r> <urn:blockhole:%C3%A9> .\n"
)
NQ = NT.replace(b"/b> .", b"/b> <http://x/g> .")
TURTLE = (
    b'@prefix : <http://x/> .\n@base <http://y/> .\nPREFIX z: <http://z/>\n:a :r :b , "x"@en ; :s <rel> , 4.2 .\n'
    b":c z:r [ :r ( :a :b ) ] .\n_:n a :T ; :s '''long\nstring''' , true .\n"
)
TRIG = b"@prefix : <http://x/> .\n:g { :a :r :b . }\nGRAPH :h { :b :r [] }\n" + TURTLE
XML = (
    b'<?xml version="1.0"?>\n<!DOCTYPE rdf:RDF [<!ENTITY x "http://x/"><!ENTITY y "&x;y">]>\n'
    b'<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:x="http://x/" xml:base="http://b/">\n'
    b'<rdf:Description rdf:about="&y;a"><x:r rdf:resource="#b"/><x:s xml:lang="en">text &amp; more</x:s>\n'
    b'<x:t rdf:parseType="Resource"><x:r rdf:nodeID="n"/></x:t></rdf:Description>\n'
    b'<x:Class rdf:ID="c" x:p="v"><x:l rdf:parseType="Collection"><rdf:Description rdf:about="http://x/d"/></x:l>\n'
    b'<x:q rdf:parseType="Literal"><b>bold</b></x:q></x:Class></rdf:RDF>\n'
)
_RDF_WORDS = (
    b"<http://x/a>", b"<", b">", b"<>", b"_:b", b'"x"', b'"', b"'''", b'"""', b"@en", b"@prefix", b"@base", b"^^", b".",
    b";", b",", b"[", b"]", b"(", b")", b"{", b"}", b"<<", b">>", b"<<(", b"a", b"true", b"1.0e5", b"#", b"\\u0000",
    b"\\uD800", b"\\U0010FFFF", b"\\U00110000", b"GRAPH", b"PREFIX", b"urn:blockhole:%FF", b"<urn:blockhole:>", b"_:",
    b"@version", b"{|", b"|}", b"~", b":",
)  # fmt: skip
_XML_WORDS = (
    b"<", b">", b"/>", b"</", b"&", b"&x;", b"&y;", b"&#0;", b"&#x110000;", b"<!--", b"-->", b"<![CDATA[",
    b"]]>", b"<?",
    b'<!ENTITY z "&x;&x;&x;&x;&x;&x;&x;&x;">', b'<!ENTITY x "&z;&z;&z;&z;">', b"<!ENTITY % p 'q'>",
    b"<!DOCTYPE a [", b"]>",
    b'<!ENTITY e SYSTEM "file:///etc/passwd">', b'xmlns="http://x/"', b"rdf:parseType=", b"rdf:about=", b"rdf:ID=",
    b"<x:r>", b"</x:r>", b"<rdf:li>", b"rdf:_1", b'encoding="UTF-16"', b"xml:lang=",
)  # fmt: skip
_TABLE_WORDS = (
    b"\t",
    b"\n",
    b"\r\n",
    b",",
    b'"',
    b'""',
    b"1",
    b"-1",
    b"source\trelation\ttarget\n",
    b"a\tr\tb\n",
    b"a,r,b\n",
)
JSON_LD = (
    b'{"@context": {"ex": "http://x/", "r": {"@id": "ex:r", "@type": "@id"}}, "@graph": [{"@id": "ex:a", "r": ["ex:b", '
    b'"ex:c"], "ex:name": {"@value": "A", "@language": "en"}}, {"@id": "_:b", "r": {"@id": "ex:a"}}]}'
)
ANY_TEXT = text_damage(*_TABLE_WORDS, *_RDF_WORDS)


def _texts(folder: Path) -> list[tuple[str, bytes]]:
    return [
        ("f.tsv", TSV), ("f.txt", LABELLED), ("f.csv", CSV), ("f.nt", NT), ("f.nq", NQ), ("f.ttl", TURTLE),
        ("f.trig", TRIG),
        ("f.rdf", XML),
    ]  # fmt: skip


def _compressed(folder: Path) -> list[tuple[str, bytes]]:
    from tests.files.facts import compress_zstd

    packs: tuple[tuple[str, Callable[[bytes], bytes]], ...] = ((".gz", gzip.compress), (".zst", compress_zstd))
    texts = [*_texts(folder), ("zeros.tsv", bytes(300_000)), ("row.csv", b'"' + b"a" * 300_000)]
    return [(name + suffix, pack(text)) for suffix, pack in packs for name, text in texts]


def parquets(folder: Path) -> list[tuple[str, bytes]]:
    """Tables of facts and of path queries, of several types, encodings and writers."""
    import polars as pl

    facts: dict[str, Sequence[Any]] = {"source": ["a", "b", "cé"] * 9, "relation": ["r"] * 27, "target": ["b"] * 27}
    tables = [
        pl.DataFrame(facts),
        pl.DataFrame({**facts, "label": [1, -1, 1] * 9}),
        pl.DataFrame({"x": list(range(5)), "y": [0.5] * 5, "z": [True] * 5}),
        pl.DataFrame({"a": [b"\xff\x00", b"b"], "b": ["r", None], "c": [[1], [2]]}),
        pl.DataFrame({name: pl.Series([], dtype=pl.String) for name in facts}),
        pl.DataFrame(facts).with_columns(pl.all().cast(pl.Categorical)),
        pl.DataFrame({"head": ["a" * 2000], "relation": ["r"], "tail": ["b"], "extra": [None]}),
    ]
    written = []
    for number, table in enumerate(tables):
        for compression in ("zstd", "snappy", "uncompressed"):
            table.write_parquet(folder / "f.parquet", compression=compression, row_group_size=10)
            written.append((f"{number}{compression}.parquet", (folder / "f.parquet").read_bytes()))
    with suppress(ImportError):
        import pyarrow
        from pyarrow import parquet

        for version in ("1.0", "2.0"):
            parquet.write_table(pyarrow.table(facts), folder / "a.parquet", data_page_version=version)
            written.append((f"arrow{version}.parquet", (folder / "a.parquet").read_bytes()))
    return written


def _path_sets(folder: Path) -> list[tuple[str, bytes]]:
    import polars as pl

    rows = b"e1\tr0,**r1\te2\ne2\tr2\te3\ne1\t**r0,**r0,r1\te1\n"
    table = pl.DataFrame({"source": ["e1", "e2"], "path": ["r0,**r1", "r2"], "target": ["e3", "e4"]})
    table.write_parquet(folder / "p.parquet")
    return [("p.tsv", rows), ("p.tsv.gz", gzip.compress(rows)), ("p.parquet", (folder / "p.parquet").read_bytes())]


def _read_path_set(path: Path) -> None:
    from blockhole.queries.path_sets import read_paths

    graph = _engine().graph
    read_paths(path, graph.entities, graph.relations)


_damage_path_text = text_damage(b"\t", b"\n", b"r0", b"**", b",", b"**r1,", b"e1", b"e1\tr0\te2\n", b"e9", b"1")


def _damage_path_set(rng: Random, data: bytes, other: bytes) -> bytes:
    return (_damage_path_text if data[:2] == b"e1" else damage_end)(rng, data, other)


# Lists of facts to review, and what is asked for them.


def _reviews(folder: Path) -> list[tuple[str, bytes]]:
    """Lists as they are written, some with decisions, one edited by hand."""
    from blockhole.answering.predicting import predict

    listed = predict(_engine(), top=4)
    written = [("hand.jsonl", b'{"source": "e1", "relation": "r0", "target": "new", "decision": null}\n')]
    for suffix in ("csv", "tsv", "jsonl", "parquet"):
        listed.write(folder / f"list.{suffix}")
        content = (folder / f"list.{suffix}").read_bytes()
        written.append((f"list.{suffix}", content))
        if suffix != "parquet":
            decided = content.replace(b'""', b'"accept"', 1).replace(b'""', b'"reject"', 1)
            written.append((f"decided.{suffix}", decided))
    return written


def _read_review(path: Path) -> None:
    """A list is read alone, applied to data, taken for facts, and kept out of the next lists."""
    from blockhole.answering.auditing import audit
    from blockhole.answering.predicting import predict
    from blockhole.data.reviews import read_decisions, with_decisions
    from blockhole.files.readers import read_graph
    from blockhole.graph.knowledge_graph import SplitGraph

    graph = _engine().graph
    split = SplitGraph(graph.entities, graph.relations, graph.triples[6:], graph.triples[:3], graph.triples[3:6])
    attempt(
        lambda: read_decisions(path),
        lambda: with_decisions(split, [path]),
        lambda: read_graph(path),
        lambda: seldom(path) and predict(_engine(), top=3, reviewed=[path]),
        lambda: seldom(path) and audit(_engine(), top=3, reviewed=[path]),
    )


_damage_list_text = text_damage(
    *_TABLE_WORDS, b"accept", b"reject", b"Accept ", b"perhaps", b"decision", b"probability", b"score", b"e1", b"r0",
    b"e99", b"null", b"{", b"}", b":", b'{"source": "e1", "relation": "r1", "target": "e2", "decision": "accept"}',
)  # fmt: skip


def _damage_review(rng: Random, data: bytes, other: bytes) -> bytes:
    return (damage_end if data[:4] == b"PAR1" else _damage_list_text)(rng, data, other)


WISHES: tuple[dict[str, object], ...] = (
    {"relation": "r0", "top": 5, "min_probability": 0.01, "candidates": "typed", "known": "all", "reviewed": []},
    {"relation": None, "top": 3, "min_probability": None, "candidates": "all", "known": "train", "reviewed": ["none"]},
    {"head": "r0", "max_length": 2, "top": 4, "min_support": 1, "candidates": 20, "redundant": True},
    {"keep": 0.5},
)
"""Arguments of `predict`, of which `audit` takes some, of `rules` and of `compress_run`."""


def _wishes(folder: Path) -> list[tuple[str, bytes]]:
    return [("wish.json", json.dumps(wish).encode()) for wish in WISHES]


def _read_wish(path: Path) -> None:
    """Call all that takes such arguments, of any value; what is no JSON object is passed over."""
    from blockhole.answering.auditing import audit
    from blockhole.answering.predicting import predict
    from blockhole.answering.rules import rules
    from blockhole.runs.compressing import compress_run

    wish: Any = None
    with suppress(ValueError, RecursionError):
        wish = json.loads(path.read_bytes())
    if not isinstance(wish, dict):
        return

    def some(*keys: str) -> dict[str, Any]:
        return {key: wish[key] for key in keys if key in wish}

    if "keep" in wish:
        compress_run("no-run", "nowhere", **some("keep"))
    elif "head" in wish:
        rules(_engine(), **some(*WISHES[2]))
    else:
        attempt(
            lambda: predict(_engine(), **some(*WISHES[0])),
            lambda: audit(_engine(), **some("relation", "top", "reviewed")),
        )


# Settings.


def _text_tables(folder: Path) -> list[tuple[str, bytes]]:
    import polars as pl

    pl.DataFrame({"id": ["Q1", "Q2"], "about": ["red", None]}).write_parquet(folder / "texts.parquet")
    table = b'id,label,about\nQ1,"red, round",ball\nQ2,cube,\n'
    return [
        ("t.csv", table),
        ("t.tsv", table.replace(b",", b"\t")),
        ("t.parquet", (folder / "texts.parquet").read_bytes()),
    ]


def _read_texts(path: Path) -> None:
    from blockhole.data.words import read_texts

    read_texts(path)


def _configs(folder: Path) -> list[tuple[str, bytes]]:
    import yaml

    from blockhole.runs.config import PRESETS, TrainConfig, read_preset

    written = [
        ("c.toml", b'[model]\nname = "complex"\ndim = 8\n[training]\non = "base"\nepochs = 3\n[loss]\nkind="softmax"\n')
    ]
    for preset in PRESETS:
        settings = read_preset(preset)
        written += [("c.json", json.dumps(settings).encode()), ("c.yaml", yaml.safe_dump(settings).encode())]
    whole = TrainConfig().model_dump(mode="json")
    anchors = (
        b"a: &a [x, x]\nb: &b [*a, *a]\ntraining: {on: base, epochs: 3}\nloss: &l {kind: softmax}\npenalty: {<<: *l}\n"
    )
    return [
        *written,
        ("c.json", json.dumps(whole).encode()),
        ("c.yml", yaml.safe_dump(whole).encode()),
        ("c.yaml", anchors),
    ]


def _read_config(path: Path) -> None:
    from blockhole.runs.config import gather, parse_assignment, validate

    text = path.read_bytes().decode(errors="surrogateescape")
    attempt(
        lambda: validate(gather(preset="paper", file=path)),
        *(
            lambda line=line: validate(gather(overrides=dict([parse_assignment(line)])))
            for line in text.split("\n")[:5]
        ),
    )


_damage_config_text = text_damage(
    b"[training]", b"[", b"]", b"{", b"}", b"=", b":", b"- ", b"&a", b"*a", b"*b", b"<<: *a",
    b"!!python/object:os.system",
    b"!!binary", b"!!set", b"!!timestamp", b"2020-99-99", b"on", b"epochs", b"nan", b"1_000", b"0x", b"---",
    b"...", b"|",
    b">", b"? ", b"'''", b'"""', b"a.b.c", b"1979-05-27T07:32:00Z", b"\n  ",
    b"c: &c [*b, *b, *b, *b, *b, *b, *b, *b]\n",
)  # fmt: skip


def _damage_config(rng: Random, data: bytes, other: bytes) -> bytes:
    is_json = data[:1] == b"{"
    return damage_json(rng, data, other) if is_json and rng.random() < 0.7 else _damage_config_text(rng, data, other)


def file_targets() -> dict[str, Target]:
    """All of them by name."""

    def text(name: str, content: bytes, *words: bytes) -> FileTarget:
        return FileTarget(lambda _: [(name, content)], text_damage(*words), read_graphs)

    return {
        "query": FileTarget(_queries, damage_query, _read_query),
        "question": FileTarget(_queries, damage_query, _read_question),
        "sparql": FileTarget(_sparql_queries, text_damage(*_SPARQL_WORDS), _read_sparql),
        "pickle": FileTarget(_pickles, damage_pickle, _read_pickle),
        "query-file": FileTarget(_query_files, text_damage(*QUERY_WORDS, *_LINE_WORDS), _read_query_file),
        "tsv": FileTarget(lambda _: [("f.tsv", TSV), ("f.txt", LABELLED)], text_damage(*_TABLE_WORDS), read_graphs),
        "csv": text("f.csv", CSV, *_TABLE_WORDS),
        "parquet": FileTarget(parquets, damage_end, read_graphs),
        "n-triples": text("f.nt", NT, *_RDF_WORDS),
        "n-quads": text("f.nq", NQ, *_RDF_WORDS),
        "turtle": text("f.ttl", TURTLE, *_RDF_WORDS),
        "trig": text("f.trig", TRIG, *_RDF_WORDS),
        "rdf-xml": text("f.rdf", XML, *_XML_WORDS),
        "n3": text("f.n3", TURTLE, *_RDF_WORDS, b"{", b"}", b"=>", b"?x"),
        "json-ld": text("f.jsonld", JSON_LD, b"{", b"}", b"[", b'"@id"', b'"@context"', b'"@graph"', b'"@value"', b":"),
        "compressed": FileTarget(_compressed, damage_bytes, read_graphs),
        "path-set": FileTarget(_path_sets, _damage_path_set, _read_path_set),
        "texts": FileTarget(_text_tables, text_damage(*_TABLE_WORDS), _read_texts),
        "review": FileTarget(_reviews, _damage_review, _read_review),
        "wish": FileTarget(_wishes, damage_json, _read_wish),
        "config": FileTarget(_configs, _damage_config, _read_config),
    }
