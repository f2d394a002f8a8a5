"""`blockhole serve`: an HTTP API and the explorer page."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from blockhole.cli.output import JsonFlag, print_json, stdout

if TYPE_CHECKING:
    from collections.abc import Callable

app = typer.Typer(add_completion=False)

KEY_VARIABLE = "BLOCKHOLE_API_KEY"
SERVER_PACKAGES = ("fastapi", "fastapi_swagger", "uvicorn", "httptools", "prometheus_client", "rapidfuzz", "starlette")
"""What the extra `serve` installs."""


@app.command(short_help="Answer over HTTP, with an explorer page.")
def serve(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders of runs; the first is the default.")],
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 for all of them.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 for a free one.")] = 8000,
    api_key_file: Annotated[
        Path | None, typer.Option(help=f"File with a key that requests must carry; it can also be in ${KEY_VARIABLE}.")
    ] = None,
    allowed_host: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Another host name that the server answers to; repeatable.")
    ] = None,
    trusted_proxy: Annotated[
        list[str] | None,
        typer.Option(metavar="ADDRESS", help="A proxy that is trusted to name the client; repeatable."),
    ] = None,
    cors_origin: Annotated[
        list[str] | None,
        typer.Option(metavar="ORIGIN", help="A site whose pages may ask /sparql, as https://host; repeatable."),
    ] = None,
    max_length: Annotated[int, typer.Option(help="Hops of the longest query.")] = 16,
    timeout: Annotated[float, typer.Option(help="Seconds that a request may take.")] = 10.0,
    queue: Annotated[int, typer.Option(help="Most requests of each kind in progress or waiting.")] = 128,
    per_caller: Annotated[
        int | None, typer.Option(help="Most requests of one address in progress (default: any number).")
    ] = None,
    threads: Annotated[
        int | None, typer.Option(help="Threads for each kind of request (default: as many as cores).")
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Answer questions over HTTP, and show the explorer page, until Ctrl-C or SIGTERM.

    Requests under way are finished before it ends. SIGHUP loads runs that were trained again. Logs are JSON lines on
    standard error.
    """
    from blockhole.compiled import available_threads
    from blockhole.errors import MissingExtra

    try:
        from blockhole.serving.server import serve as serve_runs
        from blockhole.serving.settings import ServerSettings, check_key, read_key
    except ModuleNotFoundError as missing:
        if missing.name not in SERVER_PACKAGES:
            raise
        raise MissingExtra("serving", "serve") from None

    key = os.environ.get(KEY_VARIABLE)
    if api_key_file is not None:
        key = read_key(api_key_file)
    elif key is not None:
        key = check_key(key, f"${KEY_VARIABLE}")
    settings = ServerSettings(
        api_key=key,
        allowed_hosts=tuple(allowed_host or ()),
        trusted_proxies=tuple(trusted_proxy or ()),
        cors_origins=tuple(cors_origin or ()),
        max_length=max_length,
        timeout=timeout,
        queue=queue,
        per_caller=per_caller,
        threads=available_threads() if threads is None else threads,
    )
    serve_runs(runs, host, port, settings, _announce(json))


@app.command(short_help="Answer agents, by the Model Context Protocol.")
def mcp(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders of runs; the first is the default.")],
    max_length: Annotated[int, typer.Option(help="Hops of the longest query.")] = 16,
    timeout: Annotated[float, typer.Option(help="Seconds that an answer may take.")] = 10.0,
) -> None:
    """Give an agent tools to search, ask and explain, over standard input and output, until it ends.

    `blockhole serve` has the same tools under /mcp, for agents that are elsewhere.
    """
    from blockhole.errors import MissingExtra

    try:
        from blockhole.serving.agents import serve_agents
        from blockhole.serving.settings import ServerSettings
    except ModuleNotFoundError as missing:
        if missing.name not in (*SERVER_PACKAGES, "mcp"):
            raise
        raise MissingExtra("answering agents", "mcp") from None

    serve_agents(runs, ServerSettings(max_length=max_length, timeout=timeout, threads=1))


def _announce(json: bool) -> Callable[[str, tuple[str, ...]], None]:
    def announce(url: str, names: tuple[str, ...]) -> None:
        if json:
            print_json({"url": url, "runs": list(names)})
        else:
            stdout().print(f"serving {', '.join(names)} at {url}")

    return announce
