"""Tools for agents, asked by the protocol's own client: over standard input and output, and under the server."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import blockhole
from blockhole.answering.engine import Engine
from blockhole.answering.proofs import in_words
from blockhole.queries.language import write_name
from tests.serving.processes import ServerProcess

mcp = pytest.importorskip("mcp")

TOOLS = {"search_entities", "see_entity", "list_relations", "ask", "check", "explain", "connect"}


def _with(server: Any, ask: Callable[[Any], Awaitable[None]]) -> None:
    async def run() -> None:
        async with mcp.Client(server, read_timeout_seconds=60) as client:
            await ask(client)

    asyncio.run(run())


async def _said(client: Any, tool: str, **arguments: object) -> Any:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    return result.structured_content


async def _refused(client: Any, tool: str, **arguments: object) -> str:
    result = await client.call_tool(tool, arguments)
    assert result.is_error
    text: str = result.content[0].text
    return text


def test_over_standard_input_and_output(run: Path) -> None:
    """As an agent's host starts it; nothing but the protocol is on standard output."""
    graph = Engine.open(run).graph
    query = f"{write_name(graph.entities[0])}/{graph.relations[0]}"
    command = "from blockhole.cli.main import main; main()"
    server = mcp.StdioServerParameters(command=sys.executable, args=["-c", command, "mcp", str(run)])

    async def ask(client: Any) -> None:
        listed = (await client.list_tools()).tools
        assert {tool.name for tool in listed} == TOOLS
        assert all(tool.description and tool.output_schema and tool.annotations.read_only_hint for tool in listed)
        assert "^ follows a relation" in client.instructions
        assert (await _said(client, "ask", query=query, top=3))["query"] == query

    _with(server, ask)


def test_every_tool_says_what_the_library_does(server: ServerProcess, run: Path) -> None:
    engine = Engine.open(run)
    source = engine.graph.entities[0]
    relation = engine.graph.relations[0]
    query = f"{write_name(source)}/{relation}/{relation}"
    answers = engine.ask(query, top=4)

    async def ask(client: Any) -> None:
        said = await _said(client, "ask", query=query, top=4, reasons=1)
        assert (said["query"], said["known_count"], said["note"]) == (query, answers.known_count, None)
        found = [(each["entity"], each["status"], each["probability"]) for each in said["answers"]]
        assert found == [(each.entity, each.status, round(each.probability or 0, 4)) for each in answers]
        reasons = {each["entity"]: each["reason"] for each in said["answers"] if each["reason"]}
        predicted = next(each.entity for each in answers if each.status == "predicted")
        assert reasons == {predicted: in_words(blockhole.explain(engine, query, predicted, top=1).proofs[0].tree)}

        verdict, own = await _said(client, "check", query=query, entity=predicted), engine.check(query, predicted)
        assert verdict == {"holds": own.holds, "status": own.status, "probability": round(own.probability, 4)}
        explained = await _said(client, "explain", query=query, entity=predicted, top=2)
        proofs = blockhole.explain(engine, query, predicted, top=2).proofs
        assert explained["proofs"] == [f"{proof.probability:.3f}  {in_words(proof.tree)}" for proof in proofs]

        connected = await _said(client, "connect", source=source, target=predicted, max_length=2, top=3)
        paths = blockhole.paths(engine, source, predicted, max_length=2, top=3)
        assert [each["path"] for each in connected["paths"]] == [each.path for each in paths]

        seen = await _said(client, "see_entity", name=source, limit=2)
        assert seen["entity"] == source
        assert seen["facts"] == sum(each["count"] for each in seen["relations"]) > 0
        assert all(len(each["entities"]) == min(2, each["count"]) for each in seen["relations"])
        assert source in (await _said(client, "search_entities", text=source))["entities"]
        relations = await _said(client, "list_relations", after=write_name(source))
        assert relation in {each["relation"] for each in relations["relations"]}

    _with(f"{server.url}mcp", ask)


@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE"])
def test_nothing_is_held_open_for_news_that_never_come(method: str, server: ServerProcess) -> None:
    with server.client(Accept="text/event-stream") as client:
        response = client.request(method, "/mcp")
    assert (response.status_code, response.headers["allow"]) == (405, "POST")


def test_failures_are_sentences(server: ServerProcess, run: Path) -> None:
    engine = Engine.open(run)
    source, relation = engine.graph.entities[0], engine.graph.relations[0]
    start = write_name(source)

    async def ask(client: Any) -> None:
        wrong = await _refused(client, "ask", query=f"{write_name(source + 'x')}/{relation}")
        assert f"unknown entity '{source}x'" in wrong
        assert f"Perhaps: {start}/{relation}" in wrong
        assert "a relation is missing at the end" in await _refused(client, "ask", query=f"{start}/")
        assert "runs are" in await _refused(client, "check", query=f"{start}/{relation}", entity=source, run="none")
        said = await _said(client, "ask", query=f"{start}/{relation}", run="bare", only="predicted")
        assert said["note"] == "this run has no probabilities; answers are in the model's order"
        assert all(each["probability"] is None and each["reason"] is None for each in said["answers"])
        assert "calibrate" in await _refused(client, "explain", query=f"{start}/{relation}", entity=source, run="bare")
        for arguments, sentence in (
            ({"query": start, "topp": 3}, "there is no argument 'topp'; did you mean top?"),
            ({"query": start, "top": 0}, "top must be at least 1."),
            ({"query": start, "top": "many"}, "top must be a whole number."),
            ({"query": start, "only": "true"}, "only must be 'known' or 'predicted'."),
            ({"top": 3}, "query is missing; the tool needs it."),
            ({"query": "x" * 20_000}, "query must be at most 16384 characters long."),
        ):
            assert await _refused(client, "ask", **arguments) == sentence

    _with(f"{server.url}mcp", ask)
