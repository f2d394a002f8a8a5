"""What the name at the caret may become: entities first, then only relations that make sense next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import nlargest
from typing import Literal

from rapidfuzz.distance import OSA
from rapidfuzz.process import extract

from blockhole.errors import QueryError
from blockhole.graph.vocabulary import NameIndex
from blockhole.queries.language import (
    Hop,
    Piece,
    encode_entity,
    encode_prefix,
    encode_tree,
    find_plan,
    parse,
    pieces,
    typed_hop,
    typed_name,
    write_name,
)
from blockhole.queries.repairs import repairs
from blockhole.serving.schemas import (
    FoundEntity,
    PieceReport,
    ReadReport,
    RelationReport,
    Suggestion,
    SuggestionsReport,
)
from blockhole.serving.served_runs import ServedRun
from blockhole.serving.settings import MAX_NAMES

_ENTITIES_SHOWN = 12


def suggest(run: ServedRun, text: str, caret: int) -> SuggestionsReport:
    """What the piece at the caret may become; nothing behind a beginning that has a mistake: asking will say which."""
    typed = pieces(text)
    piece = next((piece for piece in typed if caret <= piece.end), typed[-1])
    own = text[piece.column : piece.end]
    if piece.finished and caret > piece.end:  # behind the last ), where nothing has a name
        suggestions = []
    elif piece.kind == "entity":
        suggestions = _suggested_entities(run, own, piece)
    else:
        suggestions = _suggested_relations(run, piece)
    complete = any(suggestion.text == own.strip() for suggestion in suggestions)
    return SuggestionsReport(text, PieceReport.of(text, piece), complete, tuple(suggestions))


def _suggested_entities(run: ServedRun, typed: str, piece: Piece) -> list[Suggestion]:
    found = find_entities(run, typed, _ENTITIES_SHOWN)
    return [
        Suggestion(each.text, each.name, _hit(each.name, piece.name), None, each.match == "similar") for each in found
    ]


def _suggested_relations(run: ServedRun, piece: Piece) -> list[Suggestion]:
    try:
        following = relations_after(run, piece.after)
    except QueryError:
        return []
    fitting = [(_fit(each.name, piece.name), each) for each in following if each.inverse or not piece.inverse]
    fitting = [(fit, each) for fit, each in fitting if fit]
    # A mark that was not typed comes after: William/bro means brotherOf before ^brotherOf, whatever facts say.
    fitting.sort(key=lambda found: (-found[0], piece.name == "" and not found[1].known, found[1].inverse))
    suggestions = []
    for _, each in fitting[:MAX_NAMES]:
        first, last = _hit(each.name, piece.name)
        shift = int(each.inverse)
        suggestions.append(
            Suggestion(each.text, "^" * shift + each.name, (first + shift, last + shift), each.known, False)
        )
    return suggestions


def _fit(name: str, typed: str) -> int:
    """How well a relation fits what is typed: 3 it begins so, 2 it holds it, 1 it has its letters in order, 0 not."""
    name, typed = name.casefold(), typed.casefold()
    if typed in name:
        return 3 if name.startswith(typed) else 2
    letters = iter(name)
    return int(all(letter in letters for letter in typed))


def _hit(name: str, typed: str) -> tuple[int, int]:
    """Where in a name stands what was typed; an empty place where it does not stand as it was."""
    lower = name.lower()
    first = lower.find(typed.lower()) if len(lower) == len(name) else -1
    return (0, 0) if first < 0 else (first, first + len(typed))


# Whole texts.


def read_text(run: ServedRun, text: str) -> ReadReport:
    """What a text is: the name of an entity, quoted or not, or a query, if need be with quotes around its names."""
    graph, whole = run.engine.graph, text.strip()
    named = pieces(whole)
    alone = len(named) == 1 and named[0].kind == "entity"
    for name in dict.fromkeys([whole, named[0].name.strip()] if alone else [whole]):
        if name and (found := graph.entities.find(name)) is not None:
            return ReadReport(graph.entities[found], None, False)
    if alone:
        alike = [graph.entities[i] for i in run.entities.beginning(named[0].name.strip(), 2)]
        same = [name for name in alike if name.casefold() == named[0].name.strip().casefold()]
        if len(same) == 1:
            return ReadReport(same[0], None, True)
        encode_entity(named[0].name.strip() or whole, graph.entities, graph.relations)  # raises what looks alike
    meant = [each for each in repairs(whole) if find_plan(parse(each), graph) is not None]
    if meant:
        return ReadReport(None, meant[0], True)
    encode_tree(whole, graph)  # raises what is wrong, if anything is
    return ReadReport(None, whole, False)


# Relations.


def relations_after(run: ServedRun, beginning: str | None) -> list[RelationReport]:
    """The relations that make sense after the beginning of a query, of its last path; without one, all."""
    graph = run.engine.graph
    known = run.following
    path = beginning
    if beginning is not None and (next_hop := pieces(f"{beginning}/")[-1]).kind == "relation":
        path = next_hop.after
    following = known.anywhere() if path is None else known.after(encode_prefix(path, graph))
    hops = [(Hop(*graph.relation_name(each.relation)), each) for each in following]
    return [
        RelationReport(hop.relation, hop.inverse, str(hop), each.known, each.facts, each.entities) for hop, each in hops
    ]


def beginning_as(relations: Sequence[RelationReport], typed: str) -> list[RelationReport]:
    """Those that begin as the hop that was typed: an inverse mark wants inverses alone, none has them come last."""
    hop = typed_hop(typed)
    begun = [each for each in relations if each.name.casefold().startswith(hop.name.casefold())]
    if hop.inverse:
        return [each for each in begun if each.inverse]
    return begun if not hop.name else sorted(begun, key=lambda each: each.inverse)


# Entities.


_CHUNK = 10_000
"""Names compared at a time: Python's lock is held for a few milliseconds, and then others have their turn."""
_SHORTEST = 3
_ALIKE = 0.7


def find_entities(run: ServedRun, typed: str, limit: int) -> list[FoundEntity]:
    """Names that begin with what was typed; where those are few, names that hold it, and then similar ones."""
    typed = typed_name(typed)
    names = run.engine.graph.entities
    found: dict[int, Literal["prefix", "within", "similar"]] = dict.fromkeys(
        run.entities.beginning(typed, limit), "prefix"
    )
    if len(found) < limit:
        found |= dict.fromkeys(run.entities.holding(typed, limit - len(found)), "within")
    if len(found) < limit:
        others = [i for i in similar(run.entities, typed, limit) if i not in found]
        found |= dict.fromkeys(others[: limit - len(found)], "similar")
    return [FoundEntity(names[i], write_name(names[i]), match) for i, match in found.items()]


def similar(index: NameIndex, typed: str, count: int) -> list[int]:
    """At most `count` ids of names that begin almost as `typed`: letters swapped, wrong, missing or too many.

    Beginnings one letter longer than what was typed are compared, for the rest of the name is yet to come.
    """
    wanted = typed.casefold()
    if not _SHORTEST <= len(wanted) <= 64:
        return []
    best = nlargest(count, _alike(index, wanted, count), key=lambda found: (found[0], -found[1]))
    return index.ids([place for _, place in best])


def _alike(index: NameIndex, wanted: str, count: int) -> Iterator[tuple[float, int]]:
    """The best of each chunk of names, as likeness and place."""
    for first in range(0, len(index), _CHUNK):
        beginnings = [name[: len(wanted) + 1] for name in index.folded[first : first + _CHUNK]]
        found = extract(wanted, beginnings, scorer=OSA.normalized_similarity, score_cutoff=_ALIKE, limit=count)
        for _, likeness, place in found:
            yield likeness, first + place
