"""Tools for agents, by the Model Context Protocol: short typed answers with reasons, over stdio or under the server.

They ask what the routes ask, through the same lanes, with the same limits and deadlines.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, final

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.transport_security import TransportSecuritySettings
from mcp.types import CallToolResult, InputRequiredResult, ToolAnnotations
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from blockhole import __version__
from blockhole.answering.answers import Status
from blockhole.answering.proofs import in_words
from blockhole.errors import nearest_or_all, ought_to_be, quoted
from blockhole.serving.observing import Metrics
from blockhole.serving.schemas import AskBody, CheckBody, ExplainBody, PathsBody, Refusal
from blockhole.serving.served_runs import ServedRun, ServedRuns, names_of
from blockhole.serving.service import Asked, Service

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.types import ASGIApp

    from blockhole.serving.settings import ServerSettings

_INSTRUCTIONS = """\
A knowledge graph that misses edges, and a model that predicts them. Every answer is "known", when facts of the graph
lead to it, or "predicted", with the probability that it is true.

A query starts at an entity and follows relations: William/^fatherOf/brotherOf reads "brothers of William's father";
^ follows a relation backwards. Queries join with & and |, leave answers out with & !, and go on after parentheses:
(a/r & b/s)/t. A name that holds spaces or one of / ^ & | ! ( ) needs quotes: "New York"/^bornIn.

Find names with search_entities and list_relations, look at one entity's facts with see_entity, then ask. explain says
why an answer is one, check how probable one answer is, connect how two entities are related.\
"""

_READS = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)

RunName: TypeAlias = Annotated[str | None, Field(description="Which run answers, where there are several.")]
QueryText: TypeAlias = Annotated[str, Field(description="Such as William/^fatherOf/brotherOf/fatherOf.")]


class _Reply(BaseModel):
    model_config = ConfigDict(frozen=True)


@final
class FoundEntities(_Reply):
    """Names that begin with what was asked for, then names that hold it, then names that look alike."""

    entities: tuple[str, ...]


@final
class RelationFacts(_Reply):
    """Facts of one relation about an entity: how many there are, and some of the entities."""

    relation: str
    count: int
    entities: tuple[str, ...]


@final
class SeenEntity(_Reply):
    """An entity and its facts by relation; ^ marks facts that lead to it."""

    entity: str
    facts: int
    relations: tuple[RelationFacts, ...]


@final
class FoundRelation(_Reply):
    """A relation, as queries write it; `known` if facts lead on over it, else only predictions do."""

    relation: str
    known: bool
    entities: int


@final
class FoundRelations(_Reply):
    """Relations that can follow."""

    relations: tuple[FoundRelation, ...]


@final
class ReasonedAnswer(_Reply):
    """An answer; `reason` is the best proof of a predicted one, hops that are predicted with their probability."""

    entity: str
    status: Status
    probability: float | None
    reason: str | None


@final
class ReasonedAnswers(_Reply):
    """Known answers, of which there are `known_count`, then predicted ones; best first."""

    query: str
    known_count: int
    answers: tuple[ReasonedAnswer, ...]
    note: str | None


@final
class Reasons(_Reply):
    """How probable an answer is, and its best proofs, one a line."""

    query: str
    entity: str
    status: Status
    probability: float
    proofs: tuple[str, ...]


@final
class Checked(_Reply):
    """Whether an entity is an answer, by facts or with a probability of at least one half."""

    holds: bool
    status: Status
    probability: float


@final
class Connected(_Reply):
    """A relation path as queries write it, and how probable it is that it leads to the target."""

    path: str
    status: Status
    probability: float


@final
class Connections(_Reply):
    """Relation paths from one entity to another, most probable first."""

    source: str
    target: str
    paths: tuple[Connected, ...]


@final
class AgentServer(MCPServer[None]):
    """Says in our words what is wrong with the arguments of a tool, and passes over none that it does not have."""

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        """See MCPServer."""
        known = [
            key for tool in await self.list_tools() if tool.name == name for key in tool.input_schema["properties"]
        ]
        if known and (unknown := [key for key in arguments if key not in known]):
            advice = nearest_or_all(unknown[0], known, "the arguments are")
            raise ToolError(f"there is no argument {quoted(unknown[0])}; {advice}")
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as failure:
            if not isinstance(failure.__cause__, ValidationError):
                raise
            fault = failure.__cause__.errors()[0]
            wanted = "is missing; the tool needs it" if fault["type"] == "missing" else f"must be {ought_to_be(fault)}"
            raise ToolError(f"{fault['loc'][0]} {wanted}.") from None


def agent_server(runs: ServedRuns, service: Service) -> MCPServer[None]:
    """The tools over runs that are served."""
    server = AgentServer("blockhole", version=__version__, instructions=_INSTRUCTIONS, log_level="WARNING")
    tools = _Tools(runs, service)
    for tool in (
        tools.search_entities,
        tools.see_entity,
        tools.list_relations,
        tools.ask,
        tools.check,
        tools.explain,
        tools.connect,
    ):
        server.add_tool(tool, annotations=_READS)
    return server


def agent_app(server: MCPServer[None], path: str) -> ASGIApp:
    """The protocol's streamable HTTP at `path`; every request stands for itself, and has one answer.

    What a request may hold, which host it names and which page sent it has been looked at before it comes here.
    """
    trusting = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    return server.streamable_http_app(
        streamable_http_path=path, json_response=True, stateless_http=True, transport_security=trusting
    )


def serve_agents(folders: Sequence[Path], settings: ServerSettings) -> None:
    """Serve the runs in `folders` to the agent at the other end of standard input and output, until it ends them."""
    runs = ServedRuns([ServedRun.load(*each) for each in zip(names_of(folders), folders, strict=True)])
    service = Service(settings, Metrics())
    try:
        agent_server(runs, service).run("stdio")
    finally:
        service.close()


@final
class _Tools:
    """What agents can do; what they are told of a tool is its docstring."""

    def __init__(self, runs: ServedRuns, service: Service) -> None:
        self._runs = runs
        self._service = service

    async def search_entities(
        self,
        text: Annotated[str, Field(description="A name, or a part of one.")],
        limit: Annotated[int, Field(ge=1, le=100)] = 10,
        run: RunName = None,
    ) -> FoundEntities:
        """Find entities by name: exact beginnings first, then parts of names, then similar spellings."""
        with _refused():
            found = await self._service.entities(self._runs.find(run), text, limit)
        return FoundEntities(entities=tuple(each.name for each in found.entities))

    async def see_entity(
        self,
        name: Annotated[str, Field(description="The entity's full name.")],
        relation: Annotated[str | None, Field(description="Only this relation's facts, such as ^fatherOf.")] = None,
        limit: Annotated[int, Field(ge=1, le=100, description="Entities shown of each relation.")] = 10,
        run: RunName = None,
    ) -> SeenEntity:
        """The known facts about an entity, grouped by relation."""
        with _refused():
            seen = await self._service.entity(self._runs.find(run), name, limit, relation, 0)
        groups = tuple(
            RelationFacts(relation=each.text, count=each.total, entities=each.entities) for each in seen.relations
        )
        return SeenEntity(entity=seen.entity, facts=seen.facts, relations=groups)

    async def list_relations(
        self,
        after: Annotated[
            str | None, Field(description="The beginning of a query that they should follow; all without it.")
        ] = None,
        limit: Annotated[int, Field(ge=1, le=100)] = 50,
        run: RunName = None,
    ) -> FoundRelations:
        """The relations of the graph, or those that make sense after the beginning of a query."""
        with _refused():
            found = await self._service.relations(self._runs.find(run), after, "", limit)
        return FoundRelations(
            relations=tuple(
                FoundRelation(relation=each.text, known=each.known, entities=each.entities) for each in found.relations
            )
        )

    async def ask(
        self,
        query: QueryText,
        top: Annotated[int, Field(ge=1, le=100, description="Answers of either kind.")] = 10,
        only: Annotated[Literal["known", "predicted"] | None, Field(description="One kind of answers.")] = None,
        reasons: Annotated[int, Field(ge=0, le=10, description="Predicted answers that get a reason.")] = 3,
        run: RunName = None,
    ) -> ReasonedAnswers:
        """Answer a query: known answers, then the most probable missing ones, the first of these with a reason."""
        with _refused():
            served = self._runs.find(run)
            body = AskBody(query=query, top=top, only=only, candidates="typed")
            (report,) = await self._service.ask(served, body, Asked.report)
            predicted = [answer.entity for answer in report.answers if answer.status == "predicted"]
            reason = {}
            if served.engine.calibration is not None:
                for entity in predicted[:reasons]:
                    said = await self._service.explain(served, ExplainBody(query=query, entity=entity, top=1))
                    reason[entity] = in_words(said.proofs[0].tree) if said.proofs else None
        answers = tuple(
            ReasonedAnswer(
                entity=each.entity,
                status=each.status,
                probability=None if each.probability is None else round(each.probability, 4),
                reason=reason.get(each.entity) if each.status == "predicted" else None,
            )
            for each in report.answers
        )
        note = None if report.negation is None else "what is excluded is excluded by known facts"
        if served.engine.calibration is None:
            note = "this run has no probabilities; answers are in the model's order"
        return ReasonedAnswers(query=report.query, known_count=report.known_count, answers=answers, note=note)

    async def check(
        self, query: QueryText, entity: Annotated[str, Field(description="The answer to check.")], run: RunName = None
    ) -> Checked:
        """Whether an entity answers a query, and how probable that is."""
        with _refused():
            said = await self._service.check(self._runs.find(run), CheckBody(query=query, entity=entity))
        return Checked(holds=said.holds, status=said.status, probability=round(said.probability, 4))

    async def explain(
        self,
        query: QueryText,
        entity: Annotated[str, Field(description="The answer to explain.")],
        top: Annotated[int, Field(ge=1, le=20, description="Proofs.")] = 3,
        run: RunName = None,
    ) -> Reasons:
        """Why an entity answers a query: its best proofs, each hop known or predicted with its probability."""
        with _refused():
            body = ExplainBody(query=query, entity=entity, top=top)
            said = await self._service.explain(self._runs.find(run), body)
        proofs = tuple(f"{proof.probability:.3f}  {in_words(proof.tree)}" for proof in said.proofs)
        return Reasons(
            query=said.query,
            entity=said.entity,
            status=said.status,
            probability=round(said.probability, 4),
            proofs=proofs,
        )

    async def connect(
        self,
        source: Annotated[str, Field(description="Where the paths begin.")],
        target: Annotated[str, Field(description="Where they lead.")],
        max_length: Annotated[int, Field(ge=1, le=4, description="Hops of the longest path.")] = 3,
        top: Annotated[int, Field(ge=1, le=50)] = 10,
        run: RunName = None,
    ) -> Connections:
        """How two entities are related: relation paths between them, known and predicted."""
        with _refused():
            body = PathsBody(source=source, target=target, max_length=max_length, top=top)
            found = await self._service.paths(self._runs.find(run), body)
        paths = tuple(
            Connected(path=each.path, status=each.status, probability=round(each.probability, 4)) for each in found
        )
        return Connections(source=found.source, target=found.target, paths=paths)


@contextmanager
def _refused() -> Iterator[None]:
    """Tell an agent in one sentence what it can do about a failure, and which queries it may have meant."""
    try:
        yield
    except Refusal as refusal:
        mended = refusal.problem.mended
        meant = f" Perhaps: {', '.join(mended)}." if mended else ""
        raise ToolError(refusal.problem.message + meant) from None
