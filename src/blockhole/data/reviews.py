"""Lists of facts for people to review: written by `predict` and `audit`, read back with decisions, applied to data.

A row is a fact and why it is listed. `decision` is left empty; people write accept where the fact is true and reject
where it is wrong. Such a file is read back wherever facts are: its accepted rows are facts, and no others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from blockhole.errors import ConfigError, DataError, MalformedFile, checked
from blockhole.files.columns import COLUMNS
from blockhole.files.readers import read_facts
from blockhole.files.tables import Listed, check_table, write_rows
from blockhole.graph.knowledge_graph import KnowledgeGraph, SplitGraph
from blockhole.graph.vocabulary import Vocabulary
from blockhole.saving import parse_json, replacing

if TYPE_CHECKING:
    import polars as pl

FORMATS = (".parquet", ".csv", ".tsv", ".jsonl")
_JSON_LINES = (".jsonl", ".ndjson")
_ROW = '{"source": …, "relation": …, "target": …, "decision": "accept"}'


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
class FactList(Listed[ListedFact]):
    """Facts in the order in which they deserve a look."""

    _rows: ClassVar = "facts"
    facts: tuple[ListedFact, ...]

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
        with replacing(path) as temporary:
            write_rows(self.to_polars(), temporary, path.suffix)


def check_list_file(path: Path) -> None:
    """Refuse the name of a file that a list cannot be written to, before anything is looked for."""
    if path.suffix not in FORMATS:
        raise ConfigError(f"{path}: a list is written as .parquet, .csv, .tsv or .jsonl; end its name in one of these.")


def read_decisions(path: Path) -> pl.DataFrame:
    """The rows of a list that were decided on: columns source, relation, target, and positive where accepted."""
    import polars as pl

    if not path.is_file():
        raise DataError(f"{path}: no such file; name a list that `blockhole predict` or `blockhole audit` wrote.")
    blocks = [_json_lines(path)] if path.suffix in _JSON_LINES else list(read_facts(path))
    if any("positive" not in block.columns for block in blocks):
        problem, remedy = "there is no column decision", "name a list with one, as `blockhole predict` writes it"
        raise MalformedFile(path, problem, remedy)
    none = pl.DataFrame(schema={**dict.fromkeys(COLUMNS, pl.String), "positive": pl.Boolean})
    return pl.concat([none, *blocks])


def _json_lines(path: Path) -> pl.DataFrame:
    import polars as pl

    names = (*COLUMNS, "decision")
    rows: list[tuple[str, ...]] = []
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError:
        raise MalformedFile(path, "it is not text in UTF-8", "save it as UTF-8") from None
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = parse_json(line)
        except ValueError:
            raise MalformedFile(path, "this is not JSON", f"write {_ROW}", number) from None
        values = [row.get(name) for name in names] if isinstance(row, dict) else []
        if not values or not all(isinstance(value, str) for value in values[:3]) or "decision" not in row:
            raise MalformedFile(path, "source, relation, target or decision is missing", f"write {_ROW}", number)
        rows.append(tuple("" if value is None else str(value) for value in values))
    return check_table(path, pl.DataFrame(rows, schema=dict.fromkeys(names, pl.String), orient="row"))


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


class Reviewed(NamedTuple):
    """A split after a review, and how many facts joined train and left the split."""

    split: SplitGraph
    added: int
    removed: int


@checked
def with_decisions(split: SplitGraph, lists: Sequence[Path | str]) -> Reviewed:
    """The facts of `split` with those accepted in train, and without those rejected, wherever they are.

    Of a fact that several lists decide on, the last one counts. Facts that are there already are not added again.
    Entities may be new, relations must be those of the split.
    """
    decided: dict[tuple[str, str, str], bool] = {}
    for file in lists:
        decided |= {(s, r, o): accepted for s, r, o, accepted in read_decisions(Path(file)).rows()}
    if not decided:
        names = ", ".join(map(str, lists))
        raise DataError(f"{names}: no row has a decision; write accept or reject into that column.")
    relations, known = split.relations, split.entities
    new_names = {name: None for s, _, o in decided for name in (s, o) if known.find(name) is None}
    entities = Vocabulary([*known.names, *new_names], "entity", known.prefixes) if new_names else known
    facts = np.column_stack(
        [names.ids([fact[i] for fact in decided]) for i, names in enumerate((entities, relations, entities))]
    ).astype(np.int32)
    accepted = np.array(list(decided.values()), dtype=bool)
    parts = {part: _without(getattr(split, part), facts[~accepted]) for part in ("train", "valid", "test")}
    before = sum(len(getattr(split, part)) for part in parts)
    removed = before - sum(map(len, parts.values()))
    new = _without(facts[accepted], np.concatenate(list(parts.values())))
    parts["train"] = np.concatenate([parts["train"], new])
    facts_of = (parts["train"], parts["valid"], parts["test"], split.valid_negatives, split.test_negatives)
    return Reviewed(SplitGraph(entities, relations, *facts_of), len(new), removed)


def _without(facts: NDArray[np.int32], others: NDArray[np.int32]) -> NDArray[np.int32]:
    """The facts that are not among others, in order: [T, 3], [O, 3] → [≤ T, 3]."""
    left_out = set(map(tuple, others.tolist()))
    keep = [fact not in left_out for fact in map(tuple, facts.tolist())]
    kept: NDArray[np.int32] = facts[np.array(keep, dtype=bool)]
    return kept
