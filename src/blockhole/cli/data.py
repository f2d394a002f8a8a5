"""`blockhole data`: list, fetch, describe, split, build, review, convert and pack data sets, and sample queries."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from blockhole.cli.options import ColumnsOption, LiteralsOption
from blockhole.cli.output import JsonFlag, plain_table, print_json, print_whole, stderr, stdout
from blockhole.errors import counted, listed, note, quoted

if TYPE_CHECKING:
    from rich.table import Table

    from blockhole.data.dataset import DataSet
    from blockhole.graph.knowledge_graph import SplitGraph

app = typer.Typer(
    name="data",
    no_args_is_help=True,
    add_completion=False,
    help="List, fetch, describe, split, build, review, convert and pack data sets; sample queries over them.",
)

SIZES = ("entities", "relations", "train", "valid", "test")

Source = Annotated[str, typer.Argument(help="A named data set, a folder with train, valid and test, or a file.")]
Seed = Annotated[int, typer.Option(min=0, help="The same seed gives the same files.")]
Out = Annotated[Path, typer.Option(help="Folder to write, for use wherever a data set can be named.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the folder even if it holds other files.")]


@app.command("list")
def list_data_sets(json: JsonFlag = False) -> None:
    """Show the named data sets, their sizes, and where they are on this machine."""
    from blockhole.data.catalogue import catalogue, find

    rows: list[dict[str, Any]] = []
    for entry in catalogue().values():
        folder = find(entry)
        rows.append(
            entry.model_dump(exclude={"files", "archive", "by_hand", "preset"})
            | {"folder": None if folder is None else str(folder)}
        )
    if json:
        print_json({"data_sets": rows})
        return
    table, notes = plain_table("name", *SIZES, "here", right=SIZES), plain_table("name", "contents", "licence")
    for row in rows:
        table.add_row(row["name"], *(f"{row[size]:,}" for size in SIZES), "yes" if row["folder"] else "no")
        notes.add_row(row["name"], row["title"], row["licence"])
    print_whole(table)
    stdout().print()
    print_whole(notes)


@app.command("fetch")
def fetch_data_set(
    name: Annotated[str, typer.Argument(help="A name that `blockhole data list` shows.")], json: JsonFlag = False
) -> None:
    """Download a named data set, verify it, and keep it in the cache."""
    from blockhole.data.catalogue import locate
    from blockhole.data.dataset import find_entry

    folder = locate(find_entry(name))
    if json:
        print_json({"name": name, "folder": str(folder)})
    else:
        stdout().print(f"{name} is in {folder}")


@app.command("stats")
def describe_data_set(
    source: Source, columns: ColumnsOption = None, literals: LiteralsOption = None, json: JsonFlag = False
) -> None:
    """Count the entities, relations, facts and queries of a data set.

    Queries of sets are counted by type, with their hard answers: those that a split's own facts add.
    """
    from blockhole.data.dataset import load

    with _telling(f"reading {source}") as tell:
        stats = _describe(load(source, columns=columns, literals=literals), tell)
    if json:
        print_json(stats)
        return
    print_whole(_size_table(stats))
    if stats["paths"] is not None:
        print_whole(_path_table(stats["paths"], stats["lengths"]))
    if stats["query_sets"] is not None:
        print_whole(_query_table(stats["query_sets"]))


@app.command("split")
def split_facts(
    source: Annotated[str, typer.Argument(help="A file of facts, or a folder with only train.")],
    out: Out,
    valid: Annotated[float, typer.Option(help="Share of the facts for validation and calibration.")] = 0.075,
    test: Annotated[float, typer.Option(help="Share of the facts for evaluation.")] = 0.075,
    seed: Seed = 0,
    columns: ColumnsOption = None,
    literals: LiteralsOption = None,
    overwrite: Overwrite = False,
    json: JsonFlag = False,
) -> None:
    """Set facts aside at random, to evaluate a run and to calibrate its probabilities.

    Every entity and relation keeps a fact in train, so a small or sparse graph may give up fewer than asked for.
    """
    from numpy.random import default_rng

    from blockhole.data.dataset import check_destination, find_source, load, store
    from blockhole.data.edge_split import split_edges
    from blockhole.errors import DataError

    check_destination(out, find_source(source), overwrite=overwrite)
    whole = load(source, columns=columns, literals=literals).split
    if len(whole.valid) or len(whole.test):
        raise DataError(f"{source} has facts for validation or test already; train on it as it is.")
    split = split_edges(whole.entities, whole.relations, whole.train, default_rng(seed), valid=valid, test=test)
    store(split, out, origin={"split_from": source, "valid": valid, "test": test, "seed": seed})
    _report_written(split, out, json)
    parts = {"valid": (valid, split.valid), "test": (test, split.test)}
    if empty := [part for part, (share, facts) in parts.items() if share and not len(facts)]:
        note(f"{source}: nothing set aside for {listed(empty, 'and')}, so that each entity and relation keeps a fact.")


@app.command("build")
def build_path_queries(
    source: Source,
    out: Out,
    seed: Seed = 0,
    lengths: Annotated[str, typer.Option(metavar="MIN-MAX", help="Lengths of the walks.")] = "2-5",
    train_factor: Annotated[int, typer.Option(min=0, help="Walks per train fact.")] = 20,
    eval_factor: Annotated[int, typer.Option(min=0, help="Walks per valid or test fact.")] = 4,
    columns: ColumnsOption = None,
    literals: LiteralsOption = None,
    overwrite: Overwrite = False,
    json: JsonFlag = False,
) -> None:
    """Sample path queries over a data set, as Guu et al. (2015) did, and write both to a folder."""
    from blockhole.data.dataset import check_destination, find_source, load, store
    from blockhole.queries.path_sets import PATH_PARTS, build_paths

    start = time.perf_counter()
    span = _parse_lengths(lengths)
    check_destination(out, find_source(source), overwrite=overwrite)
    with _telling(f"reading {source}") as tell:
        data = load(source, columns=columns, literals=literals)
        tell("sampling path queries")
        paths = build_paths(data.split, lengths=span, train_factor=train_factor, eval_factor=eval_factor, seed=seed)
        tell(f"writing {out}")
        settings = {"lengths": span, "train_factor": train_factor, "eval_factor": eval_factor, "seed": seed}
        store(data.split, out, paths=paths, origin={"built_from": source, **settings})
    seconds = round(time.perf_counter() - start, 3)
    if json:
        print_json({"folder": str(out), "paths": paths.counts(), "seconds": seconds})
    else:
        print_whole(_path_table(paths.counts(), {part: getattr(paths, part).lengths() for part in PATH_PARTS}))
        stdout().print(f"written to {out} in {seconds:.1f} s")


@app.command("queries")
def sample_query_sets(
    source: Source,
    out: Out,
    types: Annotated[
        str,
        typer.Option(metavar="TYPES", help="Types with commas between, such as 2p,3i,pni; all fourteen by default."),
    ] = "all",
    count: Annotated[int, typer.Option(min=1, help="Queries of each type.")] = 1000,
    seed: Seed = 0,
    split: Annotated[
        Literal["valid", "test", "both"], typer.Option(help="Whose facts make answers hard; both where there are any.")
    ] = "both",
    max_answers: Annotated[int, typer.Option(min=1, help="Most hard answers of a query.")] = 100,
    columns: ColumnsOption = None,
    literals: LiteralsOption = None,
    overwrite: Overwrite = False,
    json: JsonFlag = False,
) -> None:
    """Sample queries of fourteen types over a data set, as BetaE does, and write both to a folder.

    The folder holds the facts, sampled-valid.parquet and sampled-test.parquet; see `blockhole data stats` of it.
    """
    from blockhole.data.dataset import check_destination, find_source, load, sample_queries, store
    from blockhole.queries.query_sets import QUERY_TYPES, check_type, count_answers

    start = time.perf_counter()
    wanted = list(QUERY_TYPES) if types == "all" else [type_.strip() for type_ in types.split(",")]
    for type_ in wanted:
        check_type(type_)
    check_destination(out, find_source(source), overwrite=overwrite)
    with _telling(f"reading {source}") as tell:
        data = load(source, columns=columns, literals=literals)
        splits = _splits_with_facts(data.split) if split == "both" else [split]
        sets = [
            sample_queries(
                data,
                split=which,
                types=wanted,
                count=count,
                seed=seed,
                max_answers=max_answers,
                progress=lambda *found: tell("sampling {} queries: {:,} of {:,}".format(*found)),
            )
            for which in splits
        ]
        counts = {each.name: count_answers(data.split, each) for each in sets}
        tell(f"writing {out}")
        settings = {"types": wanted, "count": count, "max_answers": max_answers, "seed": seed}
        store(data.split, out, queries=sets, origin={"sampled_from": source, **settings})
    seconds = round(time.perf_counter() - start, 3)
    if json:
        print_json({"folder": str(out), "query_sets": counts, "seconds": seconds})
    else:
        print_whole(_query_table(counts))
        stdout().print(f"written to {out} in {seconds:.1f} s")


@app.command("review")
def apply_review(
    source: Source,
    lists: Annotated[
        list[Path], typer.Argument(metavar="LIST…", help="Lists of `blockhole predict` or `audit`, with decisions.")
    ],
    out: Out,
    columns: ColumnsOption = None,
    literals: LiteralsOption = None,
    overwrite: Overwrite = False,
    json: JsonFlag = False,
) -> None:
    """Write a data set with the facts that a review accepted, and without those that it rejected.

    Accepted facts join train. Rejected ones are left out of train, valid and test. Rows without a decision change
    nothing.
    """
    from blockhole.data.dataset import check_destination, find_source, load, store
    from blockhole.data.reviews import with_decisions

    check_destination(out, find_source(source), overwrite=overwrite)
    whole = load(source, columns=columns, literals=literals).split
    reviewed = with_decisions(whole, lists)
    store(reviewed.split, out, origin={"reviewed_from": source, "lists": [str(file) for file in lists]})
    if json:
        print_json({"folder": str(out), "added": reviewed.added, "removed": reviewed.removed, **_sizes(reviewed.split)})
    else:
        print_whole(_size_table(_sizes(reviewed.split)))
        stdout().print(f"{counted(reviewed.added, 'fact')} added, {reviewed.removed:,} removed; written to {out}")
    if new := len(reviewed.split.entities) - len(whole.entities):
        first = quoted(reviewed.split.entities[len(whole.entities)])
        are = "is" if new == 1 else "are"
        note(f"{counted(new, 'entity', 'entities')} of accepted facts, such as {first}, {are} new to {source}.")


@app.command("convert")
def convert_graph(
    source: Annotated[Path, typer.Argument(metavar="IN", help="A file of facts in any supported format.")],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="File to write; its suffix decides the format.")],
    columns: ColumnsOption = None,
    literals: LiteralsOption = None,
    json: JsonFlag = False,
) -> None:
    """Convert a graph from one file format to another."""
    from blockhole.files.writers import convert

    written = convert(source, out, columns=columns, literals=literals)
    if json:
        print_json(written)
    else:
        stdout().print(f"{counted(int(str(written['facts'])), 'fact')} written to {out}")


@app.command("pack")
def pack_graph(
    source: Annotated[Path, typer.Argument(help="A file of facts, or a folder with train, valid and test.")],
    out: Out,
    memory: Annotated[str, typer.Option(help="Most memory to use, such as 3GB.")] = "3GB",
    columns: ColumnsOption = None,
    literals: LiteralsOption = None,
    overwrite: Overwrite = False,
    json: JsonFlag = False,
) -> None:
    """Pack a graph of any size into a folder that is used from disk, without reading it all into memory."""
    from blockhole.data.packing import pack
    from blockhole.files.columns import Reading
    from blockhole.machine import parse_size, peak_bytes

    start = time.perf_counter()
    with _telling(f"reading {source}") as tell:
        packed = pack(
            source,
            out,
            memory=parse_size(memory),
            overwrite=overwrite,
            reading=Reading.of(columns, literals),
            tell=tell,
        )
    report = {"folder": str(out), **asdict(packed), "seconds": round(time.perf_counter() - start, 3)}
    if json:
        print_json(report | {"peak_rss_mb": round(peak_bytes() / 2**20, 1)})
    else:
        stdout().print(
            f"{counted(packed.facts, 'fact')} over {counted(packed.entities, 'entity', 'entities')} and "
            f"{counted(packed.relations, 'relation')}, {counted(packed.edges, 'edge')} both ways, packed into {out} "
            f"in {report['seconds']:.1f} s",
        )


@app.command("family")
def generate_family_trees(
    people: Annotated[int, typer.Option(min=1, help="How many people.")],
    out: Out,
    seed: Seed = 0,
    overwrite: Overwrite = False,
    json: JsonFlag = False,
) -> None:
    """Generate family trees of any size, for which every answer is known."""
    from blockhole.data.dataset import check_destination, store
    from blockhole.data.family_tree import generate_family

    check_destination(out, overwrite=overwrite)
    split = generate_family(people, seed)
    store(split, out, origin={"generated": "family", "people": people, "seed": seed})
    _report_written(split, out, json)


@contextmanager
def _telling(first: str) -> Iterator[Callable[[str], None]]:
    """Say on standard error what is being done while the block runs."""
    from rich.text import Text

    with stderr().status(Text(first)) as status:  # as text, for a status takes [brackets] in strings for markup
        yield lambda line: status.update(Text(line))


def _report_written(split: SplitGraph, out: Path, json: bool) -> None:
    sizes = _sizes(split)
    if json:
        print_json({"folder": str(out), **sizes})
    else:
        print_whole(_size_table(sizes))
        stdout().print(f"written to {out}")


def _parse_lengths(text: str) -> tuple[int, int]:
    first, dash, last = text.partition("-")
    try:
        shortest, longest = int(first), int(last if dash else first)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a range such as 2-5", param_hint="--lengths") from None
    if not 1 <= shortest <= longest:
        raise typer.BadParameter(f"{text!r} must start at 1 or more and not fall", param_hint="--lengths")
    return shortest, longest


def _describe(data: DataSet, tell: Callable[[str], None]) -> dict[str, Any]:
    from blockhole.queries.path_sets import PATH_PARTS
    from blockhole.queries.query_sets import count_answers

    described: dict[str, Any] = {**_sizes(data.split), "paths": None, "lengths": None, "query_sets": None}
    if data.has_paths:
        parts = {part: data.paths(part) for part in PATH_PARTS}
        described["paths"] = {part: len(queries) for part, queries in parts.items()}
        described["lengths"] = {part: queries.lengths() for part, queries in parts.items()}
    if data.query_sets:
        described["query_sets"] = {}
        for name in data.query_sets:
            tell(f"answering {name}")
            described["query_sets"][name] = count_answers(data.split, data.queries(name))
    return described


def _splits_with_facts(split: SplitGraph) -> list[Literal["valid", "test"]]:
    """Those of valid and test that have facts; test where neither has, which then is said to lack them."""
    parts: dict[Literal["valid", "test"], int] = {"valid": len(split.valid), "test": len(split.test)}
    return [name for name, facts in parts.items() if facts] or ["test"]


def _sizes(split: SplitGraph) -> dict[str, int]:
    return {
        "entities": len(split.entities),
        "relations": len(split.relations),
        "train": len(split.train),
        "valid": len(split.valid),
        "test": len(split.test),
    }


def _size_table(sizes: Mapping[str, int]) -> Table:
    table = plain_table(*SIZES, right=SIZES)
    table.add_row(*(f"{sizes[size]:,}" for size in SIZES))
    return table


def _path_table(paths: dict[str, int], lengths: dict[str, dict[int, int]]) -> Table:
    hops = sorted({length for counts in lengths.values() for length in counts})
    counts = ["queries", *(f"length {hop}" for hop in hops)]
    table = plain_table("part", *counts, right=counts)
    for part, count in paths.items():
        table.add_row(part, f"{count:,}", *(f"{lengths[part].get(hop, 0):,}" for hop in hops))
    return table


def _query_table(sets: dict[str, dict[str, dict[str, int | None]]]) -> Table:
    counts = ["queries", "hard answers", "a query"]
    table = plain_table("query set", "type", *counts, right=counts)
    for name, types in sets.items():
        for type_, found in types.items():
            queries, hard = found["queries"] or 0, found["hard_answers"]
            answers = ("–", "–") if hard is None else (f"{hard:,}", f"{hard / queries:.1f}")
            table.add_row(name, type_, f"{queries:,}", *answers)
    return table
