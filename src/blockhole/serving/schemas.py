"""The bodies of requests, and the two shapes of responses: one for success, one for everything else."""

from __future__ import annotations

from typing import Annotated, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from blockhole.answering.answers import Status
from blockhole.answering.connections import LONGEST
from blockhole.serving.settings import MAX_ANSWERS, MAX_CHAINS, MAX_PATHS, MAX_TEXT

Result = TypeVar("Result")

QueryText = Annotated[
    str,
    Field(
        max_length=MAX_TEXT,
        description="A source entity and then relations, ^ before an inverse.",
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


class Body(BaseModel):
    """What all questions have in common."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    run: RunName = None


class AskBody(Body):
    """A question for ranked answers."""

    query: QueryText
    top: int = _most(MAX_ANSWERS, 10, "How many answers.")
    candidates: Literal["typed", "all"] = Field(
        "typed", description="Answers that the last relation takes in the graph, or any entity."
    )
    only: Status | None = Field(None, description="Leave out the other answers.")


class CheckBody(Body):
    """Whether a path holds between its source and an entity."""

    query: QueryText
    entity: EntityName


class ExplainBody(Body):
    """Why an entity is an answer."""

    query: QueryText
    entity: EntityName
    top: int = _most(MAX_CHAINS, 5, "How many chains.")


class PathsBody(Body):
    """Which relation paths connect two entities."""

    source: EntityName
    target: EntityName
    max_length: int = _most(LONGEST, 3, "Hops of the longest path.")
    top: int = _most(MAX_PATHS, 20, "How many paths.")


class Success(BaseModel, Generic[Result]):
    """Every response of status 200: `result` is what the command line prints; `run` is who answered, if any run did."""

    run: str | None
    result: Result


class Place(BaseModel):
    """Where in the request it went wrong; `column` counts characters from 0."""

    field: str
    text: str | None = None
    column: int | None = None


class Problem(BaseModel):
    """What went wrong: `message` is the sentence that the command line prints; `nearest` are names that look alike."""

    kind: str
    message: str
    place: Place | None = None
    nearest: tuple[str, ...] = ()


class Failure(BaseModel):
    """Every response of another status than 200."""

    error: Problem
    request_id: str
