"""Ranked answers as a table on standard output."""

from __future__ import annotations

from typing import TYPE_CHECKING

from blockhole.cli.output import stdout

if TYPE_CHECKING:
    from blockhole.answering.answers import Answers


def print_answers(answers: Answers) -> None:
    """Print answers as people read them."""
    from rich.table import Table

    table = Table("answer", "score", "probability", "status", box=None, pad_edge=False, header_style="bold")
    for column in table.columns[1:3]:
        column.justify = "right"
    for answer in answers:
        probability = "" if answer.probability is None else f"{answer.probability:.3f}"
        table.add_row(answer.entity, f"{answer.score:.3f}", probability, answer.status)
    stdout().print(table if len(answers) else "no answers")
