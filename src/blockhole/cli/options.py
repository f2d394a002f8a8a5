"""Arguments and options that several verbs share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run.")]
QueryArgument = Annotated[str, typer.Argument(help="Such as William/^fatherOf/brotherOf/fatherOf.")]
TopOption = Annotated[int, typer.Option(help="How many answers.")]
TableOption = Annotated[str, typer.Option(help="Table of the database.")]
