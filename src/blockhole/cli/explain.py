"""`blockhole explain`: why an entity is an answer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from blockhole.cli.output import JsonFlag, print_json, stdout

if TYPE_CHECKING:
    from blockhole.answering.explanation import Explanation

app = typer.Typer(add_completion=False)


@app.command()
def explain(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run.")],
    query: Annotated[str, typer.Argument(help="Such as William/^fatherOf/brotherOf/fatherOf.")],
    entity: Annotated[str, typer.Argument(help="The answer to explain, such as Beatrice.")],
    top: Annotated[int, typer.Option(help="How many chains.")] = 5,
    json: JsonFlag = False,
) -> None:
    """Print the best chains of intermediate entities to an answer, each hop known or predicted with its probability.

    Where the graph has the path, its chains are exact. Otherwise known and predicted edges are searched together.
    """
    from dataclasses import asdict

    from blockhole.answering.engine import Engine
    from blockhole.answering.explanation import explain as find_chains

    explanation = find_chains(Engine.open(run, calibrated=True), query, entity, top=top)
    if json:
        print_json(asdict(explanation))
    else:
        _print(explanation)


def _print(explanation: Explanation) -> None:
    for chain in explanation.chains:
        line = chain.hops[0].source
        for hop in chain.hops:
            mark = "" if hop.status == "known" else f" ({hop.probability:.3f})"
            line += f" → {hop.relation}{mark} → {hop.target}"
        stdout().print(f"{chain.probability:.3f}  {line}", soft_wrap=True)
    if not explanation.chains:
        stdout().print(f"no chain is plausible: the best has probability {explanation.best:.2g}")
