"""`blockhole check`: whether a path holds between two entities."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from blockhole.cli.output import JsonFlag, print_json, stdout

app = typer.Typer(add_completion=False)


@app.command()
def check(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run.")],
    query: Annotated[str, typer.Argument(help="Such as William/^fatherOf/brotherOf/fatherOf.")],
    entity: Annotated[str, typer.Argument(help="The answer to check, such as Beatrice.")],
    json: JsonFlag = False,
) -> None:
    """Say yes where the path is known to lead to the entity, or where the model holds that for more likely than not."""
    from dataclasses import asdict

    from blockhole.answering.engine import Engine

    verdict = Engine.open(run, calibrated=True).check(query, entity)
    if json:
        print_json(asdict(verdict))
        return
    stdout().print(
        f"{'yes' if verdict.holds else 'no'}: probability {verdict.probability:.3f}, {verdict.status}, "
        f"score {verdict.score:.3f}"
    )
