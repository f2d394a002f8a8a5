"""The query sets a data set can be evaluated on, by name."""

from __future__ import annotations

from blockhole.data.dataset import DataSet
from blockhole.errors import EvaluationError
from blockhole.graph.split import SplitName
from blockhole.paths.queries import PathQueries
from blockhole.paths.splits import PATH_PARTS

_PARTS: dict[str, tuple[str, ...]] = {
    "deduction": ("test_deduction",),
    "induction": ("test_induction",),
    "all": ("test_deduction", "test_induction"),
    "dev_deduction": ("dev_deduction",),
    "dev_induction": ("dev_induction",),
    "dev": ("dev_deduction", "dev_induction"),
    "paths": PATH_PARTS,
}

_OF_VALID = ("valid", "dev_deduction", "dev_induction", "dev")
SPLITS = ("base", "deduction", "induction", "all", *_OF_VALID, "paths")
"""`base` and `valid` are the test and valid facts as queries of length 1, `paths` all five parts of path queries."""


def evaluated_facts(split: str) -> SplitName:
    """The facts that a split of queries was drawn from, besides train: what F* = "split" adds.

    Those of queries that are no split of the data, such as a file's, are the test facts.
    """
    return "valid" if split in _OF_VALID else "test"


def queries_of(data: DataSet, split: str) -> PathQueries:
    """The queries of a split, at least one."""
    if split in _PARTS:
        queries = PathQueries.concatenate([data.paths(part) for part in _PARTS[split]])
    elif split in ("base", "valid"):
        queries = PathQueries.from_triples(data.split.test if split == "base" else data.split.valid)
    else:
        raise EvaluationError(f"there is no split {split!r}; the splits are {', '.join(SPLITS)}.")
    if len(queries) == 0:
        raise EvaluationError(
            f"the split {split} of {data.name} is empty; choose another split, or data that has it: "
            "`blockhole data split` sets facts aside."
        )
    return queries
