"""The bodies of requests and responses: one shape for success, one for every refusal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Generic, Literal, TypeVar, final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag

from blockhole.answering.answers import Status
from blockhole.answering.connections import LONGEST
from blockhole.answering.overview import Shared
from blockhole.answering.search import Candidates
from blockhole.errors import (
    BlockholeError,
    Cancelled,
    ConfigError,
    OutOfTime,
    QueryError,
    QuerySyntaxError,
    QueryTooCostly,
    RunError,
    SparqlError,
    UndefinedPath,
    UnknownName,
)
from blockhole.queries.language import (
    Anchor,
    Intersection,
    Negation,
    Node,
    Piece,
    Projection,
    Union,
    lex,
    pieces,
    write_name,
)
from blockhole.queries.repairs import repairs, with_name
from blockhole.serving.settings import MAX_ANSWERS, MAX_BODY, MAX_NAMED, MAX_PATHS, MAX_PROOFS, MAX_QUERIES, MAX_TEXT

Result = TypeVar("Result")

# Requests.


def _as_whole(value: object) -> object:
    """91.0 is an integer to JSON Schema, and to many programs that write JSON."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


WholeNumber = Annotated[int, BeforeValidator(_as_whole)]
QueryText = Annotated[
    str,
    Field(
        max_length=MAX_TEXT,
        description="A source entity and then relations, ^ before an inverse; sets of answers joined by & | and !.",
        examples=["William/^fatherOf/brotherOf/fatherOf"],
    ),
]
EntityName = Annotated[
    str, Field(max_length=MAX_TEXT, description="The plain name of an entity.", examples=["Beatrice"])
]
RunName = Annotated[
    str | None, Field(max_length=MAX_TEXT, description="Which run answers; the first one where none is named.")
]


def _most(most: int, default: int, description: str) -> int:
    # The bounds are checked by the code that the command line uses too, whose sentences say what to do.
    bounds: dict[str, int | float | str | bool | None] = {"minimum": 1, "maximum": most}
    number: int = Field(default, description=description, json_schema_extra={**bounds})
    return number


def _offset(description: str) -> int:
    number: int = Field(0, description=description, json_schema_extra={"minimum": 0, "maximum": 2**31 - 1})
    return number


_CANDIDATES: Candidates = Field(
    "typed", description="What a hop can lead to: entities that its relation takes in the graph, or any."
)


class Body(BaseModel):
    """What all questions have in common."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    run: RunName = None


def _one_or_many(value: object) -> str:
    return "many" if isinstance(value, list) else "one"


class AskBody(Body):
    """A question for ranked answers, or several."""

    query: Annotated[
        Annotated[QueryText, Tag("one")]
        | Annotated[list[QueryText], Field(min_length=1, max_length=MAX_QUERIES), Tag("many")],
        Discriminator(_one_or_many),
    ] = Field(examples=["William/^fatherOf/brotherOf/fatherOf"])
    top: WholeNumber = _most(MAX_ANSWERS, 10, "How many answers of each list; with only known ones, 1,000,000 at most.")
    candidates: Candidates = _CANDIDATES
    only: Status | None = Field(None, description="Leave out the other answers.")
    offset: WholeNumber = _offset("How many answers of each list to pass over.")


class SpreadBody(Body):
    """How probable the predicted answers to a query are."""

    query: QueryText
    candidates: Candidates = _CANDIDATES


class CheckBody(Body):
    """Whether an entity answers a query."""

    query: QueryText
    entity: EntityName


class ExplainBody(Body):
    """Why an entity is an answer."""

    query: QueryText
    entity: EntityName
    top: WholeNumber = _most(MAX_PROOFS, 5, "How many proofs.")


class FacetsBody(Body):
    """What the answers to a query have in common."""

    query: QueryText
    entities: list[EntityName] = Field(
        [], max_length=MAX_NAMED, description="Further answers that count, such as predicted ones that are shown."
    )


class PathsBody(Body):
    """Which relation paths connect two entities."""

    source: EntityName
    target: EntityName
    max_length: WholeNumber = _most(LONGEST, 3, "Hops of the longest path.")
    top: WholeNumber = _most(MAX_PATHS, 20, "How many paths.")


@final
@dataclass(frozen=True, slots=True)
class SparqlQuestion:
    """A SPARQL query, and which answers of which run are wanted."""

    query: str
    known: bool
    threshold: float | None
    candidates: Candidates
    run: str | None


# Responses: one shape for success, one for everything else.


class Success(BaseModel, Generic[Result]):
    """Every response of status 200: `result` is what the command line prints; `run` is who answered, if any run did."""

    run: str | None
    result: Result


@final
@dataclass(frozen=True, slots=True)
class SearchReport:
    """A search in progress: how long it has taken and may take, and how many steps it has made."""

    id: str
    seconds: float
    timeout: float
    steps: int


class Place(BaseModel):
    """Where in the request it went wrong: in `text`, from `column` to `end`, which count characters from 0."""

    field: str
    text: str | None = None
    column: int | None = None
    end: int | None = None


class Problem(BaseModel):
    """What went wrong: `message` is the sentence that the command line prints; `nearest` are names that look alike.

    `mended` has, for each of these, the text with that name in the place of the wrong one; without `nearest`,
    texts that are queries and close to the one that is none.
    """

    kind: str
    message: str
    place: Place | None = None
    nearest: tuple[str, ...] = ()
    mended: tuple[str, ...] = ()


class Failure(BaseModel):
    """Every response of another status than 200."""

    error: Problem
    request_id: str


# Results that only the server gives: runs, queries taken apart, names that fit what was typed.


@final
@dataclass(frozen=True, slots=True)
class PieceReport:
    """A part of a query, its source or a hop: `text` as it stands there from `column` to `end`, `name` as it is."""

    column: int
    end: int
    kind: Literal["entity", "relation"]
    inverse: bool
    name: str
    text: str

    @classmethod
    def of(cls, text: str, piece: Piece) -> PieceReport:
        """A part of a text."""
        own = text[piece.column : piece.end]
        return cls(piece.column, piece.end, piece.kind, piece.inverse, piece.name, own)


def pieces_of(text: str) -> tuple[PieceReport, ...]:
    """The parts of a query, also of one that is being typed."""
    return tuple(PieceReport.of(text, each) for each in pieces(text))


@final
@dataclass(frozen=True, slots=True)
class Example:
    """A query to begin with, in words, and the candidates that it is best asked with."""

    query: str
    candidates: Literal["typed", "all"]
    words: str
    pieces: tuple[PieceReport, ...]


@final
@dataclass(frozen=True, slots=True)
class RunReport:
    """A run that is served; `example` is a query that the facts answer, None where there are no facts."""

    name: str
    model: str
    data: str | None
    entities: int
    relations: int
    facts: int
    parameters: int
    epochs: int
    calibrated: bool
    loaded: str
    example: str | None
    examples: tuple[Example, ...]


@final
@dataclass(frozen=True, slots=True)
class RunsReport:
    """The runs that are served; `default` answers where none is named."""

    default: str
    runs: tuple[RunReport, ...]


@final
@dataclass(frozen=True, slots=True)
class Reordered:
    """A query with two neighbouring hops exchanged."""

    query: str
    pieces: tuple[PieceReport, ...]


@final
@dataclass(frozen=True, slots=True)
class NameReport:
    """A name as it is, and as queries hold it."""

    name: str
    text: str


@final
@dataclass(frozen=True, slots=True)
class HopReport:
    """A hop: its relation, which way, and as queries hold it."""

    name: str
    inverse: bool
    text: str


@final
@dataclass(frozen=True, slots=True)
class BranchReport:
    """A part of a query: it starts at `entity`, or where its `parts` are `joined`, and follows `hops`."""

    negated: bool
    entity: NameReport | None
    joined: Literal["and", "or"] | None
    parts: tuple[BranchReport, ...]
    hops: tuple[HopReport, ...]

    @classmethod
    def of(cls, node: Node) -> BranchReport:
        """A node of a query as people put it together."""
        negated = isinstance(node, Negation)
        node = node.of if isinstance(node, Negation) else node
        hops: list[HopReport] = []
        while isinstance(node, Projection):
            hops.insert(0, HopReport(node.hop.relation, node.hop.inverse, str(node.hop)))
            node = node.of
        if isinstance(node, Anchor):
            return cls(negated, NameReport(node.entity, write_name(node.entity)), None, (), tuple(hops))
        assert isinstance(node, Intersection | Union)  # a negation that hops follow is refused
        parts = tuple(map(cls.of, node.parts))
        return cls(negated, None, "and" if isinstance(node, Intersection) else "or", parts, tuple(hops))


@final
@dataclass(frozen=True, slots=True)
class ParsedReport:
    """A query taken apart, and the same relations in `orders` that differ by one exchange of neighbours."""

    query: str
    pieces: tuple[PieceReport, ...]
    tree: BranchReport
    orders: tuple[Reordered, ...]


@final
@dataclass(frozen=True, slots=True)
class ReadReport:
    """What a text is: the name of an `entity`, or a `query`; `repaired` if that is not quite what was typed."""

    entity: str | None
    query: str | None
    repaired: bool


@final
@dataclass(frozen=True, slots=True)
class TranslatedReport:
    """One question in both languages."""

    query: str
    sparql: str


@final
@dataclass(frozen=True, slots=True)
class FacetsReport:
    """What the known answers to a query, and others that were named, have in common; `entities` is how many these are.

    A facet's `branch`, joined to the query by &, leaves those that have it.
    """

    query: str
    entities: int
    facets: tuple[Shared, ...]


@final
@dataclass(frozen=True, slots=True)
class Training:
    """One line of figures: `value` by `epoch`."""

    name: str
    epoch: tuple[float, ...]
    value: tuple[float, ...]


@final
@dataclass(frozen=True, slots=True)
class RunPage:
    """A run: what it is, the settings it was trained with, and the figures of its training."""

    run: RunReport
    settings: dict[str, str]
    curves: tuple[Training, ...]
    brier: float | None


@final
@dataclass(frozen=True, slots=True)
class FoundEntity:
    """A known name, as it is and as queries hold it."""

    name: str
    text: str
    match: Literal["prefix", "within", "similar"]


@final
@dataclass(frozen=True, slots=True)
class EntitiesReport:
    """Names that what was typed may become: those that begin so, then those that hold it, then similar ones."""

    prefix: str
    entities: tuple[FoundEntity, ...]


@final
@dataclass(frozen=True, slots=True)
class RelationReport:
    """A relation that may come next; `known` if `facts` lead on over it, `entities` how many have a fact of it."""

    name: str
    inverse: bool
    text: str
    known: bool
    facts: int
    entities: int


@final
@dataclass(frozen=True, slots=True)
class RelationsReport:
    """Relations that make sense after the beginning of a query, None for the beginning itself."""

    after: str | None
    relations: tuple[RelationReport, ...]


@final
@dataclass(frozen=True, slots=True)
class Suggestion:
    """What a piece may become: `text` goes into the query, `label` is shown, `hit` is the part of it that was typed.

    Of a relation `known` says whether facts lead on over it; a name that only looks alike is `similar`.
    """

    text: str
    label: str
    hit: tuple[int, int]
    known: bool | None
    similar: bool


@final
@dataclass(frozen=True, slots=True)
class SuggestionsReport:
    """What the `piece` at the caret may become, best first; `complete` if it is one of the suggestions already."""

    text: str
    piece: PieceReport
    complete: bool
    suggestions: tuple[Suggestion, ...]


@final
@dataclass(frozen=True, slots=True)
class Health:
    """That the server answers."""

    status: Literal["ready"]
    version: str


# Why a request gets no answer: status, kind and sentence.


RETRY = {"Retry-After": "1"}

_STATUS: tuple[tuple[type[BlockholeError], int, str], ...] = (
    # The first that fits counts, so a class stands before those it derives from.
    (QuerySyntaxError, 400, "syntax"),
    (QueryTooCostly, 422, "query"),
    (SparqlError, 400, "sparql"),
    (UnknownName, 404, "unknown_name"),
    (QueryError, 422, "query"),
    (UndefinedPath, 422, "query"),
    (ConfigError, 422, "invalid"),
    (RunError, 422, "run"),
    (OutOfTime, 503, "timeout"),
    (Cancelled, 409, "cancelled"),
    (BlockholeError, 422, "invalid"),
)


@final
class Refusal(Exception):
    """A response of another status than 200."""

    def __init__(self, status: int, problem: Problem, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(problem.message)
        self.status = status
        self.problem = problem
        self.headers = dict(headers or {})

    @classmethod
    def of(cls, failure: BlockholeError, fields: Mapping[str, str | None], setting: str | None = None) -> Refusal:
        """What the command line would print of a failure, with the place in the one of `fields` that caused it.

        A value that is out of range is that of the `setting`, where one is named.
        """
        status, kind = next((status, kind) for each, status, kind in _STATUS if isinstance(failure, each))
        place = Place(field=setting) if setting is not None and isinstance(failure, ConfigError) else None
        nearest: tuple[str, ...] = ()
        mended: tuple[str, ...] = ()
        if isinstance(failure, QuerySyntaxError):
            place = _place(fields, failure.text, failure.column, _end_of_mistake(failure.text, failure.column))
            mended = tuple(repairs(failure.text))
        elif isinstance(failure, SparqlError):
            place = _place(fields, failure.text, failure.place, min(failure.place + 1, len(failure.text)))
            nearest = failure.nearest
        elif isinstance(failure, UnknownName):
            nearest = failure.nearest
            if failure.text is None or failure.column is None:  # a plain name, not one in a query
                place, mended = _place(fields, failure.name, 0, len(failure.name)), nearest
            else:
                column, text = failure.column, failure.text
                end = next(token.end for token in lex(text) if token.column == column)
                place = _place(fields, text, column, end)
                mended = tuple(with_name(text, column, end, name) for name in nearest)
        message = str(failure).partition("\n")[0]  # the lines behind it draw the place for people
        problem = Problem(kind=kind, message=message, place=place, nearest=nearest, mended=mended if place else ())
        return cls(status, problem, RETRY if status == 503 else None)


def _place(fields: Mapping[str, str | None], text: str, column: int, end: int) -> Place | None:
    for field, value in fields.items():
        if value == text:
            return Place(field=field, text=text, column=column, end=end)
    return None


def _end_of_mistake(text: str, column: int) -> int:
    """A mistake reaches to the end of the name that it is in, or is one character long."""
    piece = next((piece for piece in pieces(text) if piece.column <= column <= piece.end), None)
    end = column if piece is None else piece.column + len(text[piece.column : piece.end].rstrip())
    return max(end, column + 1)


def malformed(message: str) -> Refusal:
    """What was sent cannot be read."""
    return Refusal(400, Problem(kind="malformed", message=message))


def invalid(message: str, field: str | None = None) -> Refusal:
    """A value will not do: that of a field, where one is named."""
    place = None if field is None else Place(field=field)
    return Refusal(422, Problem(kind="invalid", message=message, place=place))


def busy() -> Refusal:
    """The queue is full."""
    message = "the server has as many requests as it can hold; ask again in a second."
    return Refusal(503, Problem(kind="busy", message=message), RETRY)


def out_of_time(seconds: float) -> Refusal:
    """The time that a request may take is over."""
    return Refusal(503, Problem(kind="timeout", message=str(OutOfTime(seconds))), RETRY)


def too_large() -> Refusal:
    """A body beyond the limit."""
    return Refusal(413, Problem(kind="too_large", message=f"a request's body may have {MAX_BODY:,} bytes at most."))


@contextmanager
def refusing(fields: Mapping[str, str | None], setting: str | None = None) -> Iterator[None]:
    """Turn failures that the user caused into refusals that point at what they are about, as `Refusal.of` does."""
    try:
        yield
    except BlockholeError as failure:
        raise Refusal.of(failure, fields, setting) from None
