"""What people decided about facts, applied to a data set: accepted ones join train, rejected ones leave it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from blockhole.errors import DataError, checked
from blockhole.files.decisions import read_decisions
from blockhole.graph.knowledge_graph import SplitGraph
from blockhole.graph.vocabulary import Vocabulary


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
