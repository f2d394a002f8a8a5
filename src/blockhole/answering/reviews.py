"""Lists of facts for people to review: what `predict` and `audit` give, as files with a column for decisions.

A row is a fact and why it is listed. `decision` is left empty; people write accept where the fact is true and reject
where it is wrong. Such a file is read back wherever facts are: its accepted rows are facts, and no others.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, final, overload

import numpy as np
from numpy.typing import NDArray

from blockhole.errors import ConfigError, checked
from blockhole.files.decisions import read_decisions
from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.saving import replacing

if TYPE_CHECKING:
    import polars as pl

FORMATS = (".parquet", ".csv", ".tsv", ".jsonl")


@final
@dataclass(frozen=True, slots=True)
class ListedFact:
    """A fact; `score` orders the list: its probability if it were missing, or where a run has none, its share."""

    source: str
    relation: str
    target: str
    score: float
    probability: float | None
    reason: str


@final
@dataclass(frozen=True, slots=True)
class FactList(Sequence[ListedFact]):
    """Facts in the order in which they deserve a look."""

    facts: tuple[ListedFact, ...]

    def __len__(self) -> int:
        return len(self.facts)

    @overload
    def __getitem__(self, index: int) -> ListedFact: ...
    @overload
    def __getitem__(self, index: slice) -> FactList: ...
    def __getitem__(self, index: int | slice) -> ListedFact | FactList:
        return FactList(self.facts[index]) if isinstance(index, slice) else self.facts[index]

    @property
    def value(self) -> str:
        """What the numbers of the list are: "probability", or "share" where the run has no calibration."""
        return "probability" if all(fact.probability is not None for fact in self.facts) else "share"

    def to_dicts(self) -> list[dict[str, str | float | None]]:
        """One dictionary a fact: source, relation, target, score, probability, reason."""
        return [asdict(fact) for fact in self.facts]

    def to_polars(self) -> pl.DataFrame:
        """One row a fact: source, relation, target, probability (or share), reason, and an empty decision."""
        import polars as pl

        texts = {
            name: pl.Series([getattr(fact, name) for fact in self.facts], dtype=pl.String)
            for name in ("source", "relation", "target", "reason")
        }
        score = pl.Series([fact.score for fact in self.facts], dtype=pl.Float64)
        frame = pl.DataFrame({**texts, self.value: score, "decision": pl.Series([""] * len(self), dtype=pl.String)})
        return frame.select("source", "relation", "target", self.value, "reason", "decision")

    @checked
    def write(self, path: Path | str) -> None:
        """Write the rows of `to_polars` as Parquet, CSV, TSV or JSON lines, whichever the name says."""
        path = Path(path)
        check_list_file(path)
        frame = self.to_polars()
        with replacing(path) as temporary:
            if path.suffix == ".parquet":
                frame.write_parquet(temporary)
            elif path.suffix == ".jsonl":
                lines = (json.dumps(row, ensure_ascii=False) for row in frame.iter_rows(named=True))
                temporary.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
            else:
                # Quoted throughout in both: names and reasons may hold what separates fields.
                separator = "," if path.suffix == ".csv" else "\t"
                frame.write_csv(temporary, separator=separator, quote_style="always")


def check_list_file(path: Path) -> None:
    """Refuse the name of a file that a list cannot be written to, before anything is looked for."""
    if path.suffix not in FORMATS:
        raise ConfigError(f"{path}: a list is written as .parquet, .csv, .tsv or .jsonl; end its name in one of these.")


def decisions_in(files: Sequence[Path | str], graph: KnowledgeGraph) -> NDArray[np.int64]:
    """The facts of all lists that have been decided on, in either way, by the ids of a graph: [T, 3].

    Those whose names the graph does not have cannot be listed again anyway.
    """
    found = [np.zeros((0, 3), dtype=np.int64)]
    for file in files:
        rows = read_decisions(Path(file)).select("source", "relation", "target").rows()
        ids = [
            (graph.entities.find(source), graph.relations.find(relation), graph.entities.find(target))
            for source, relation, target in rows
        ]
        found.append(np.array([row for row in ids if None not in row], dtype=np.int64).reshape(-1, 3))
    return np.concatenate(found)
