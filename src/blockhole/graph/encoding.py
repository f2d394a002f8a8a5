"""Columns of names into ids, block by block: between blocks only ids and distinct names stay in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol, final

import numpy as np
from numpy.typing import NDArray

from blockhole.graph.vocabulary import Vocabulary

if TYPE_CHECKING:
    import polars as pl


class Numbering(Protocol):
    """Numbers names in order of first appearance."""

    def number(self, names: pl.Series) -> NDArray[np.uint32]:
        """The ids of a column of names, new names added; shape [len(names)]."""


@final
class NameTable:
    """Names numbered in order of first appearance, `listed` names first.

    A category type of polars serves as the table. Its alternatives, a join of every block with all names so far or
    distinct names a block and one merge at the end, hash each name two or three times.
    """

    def __init__(self, kind: str, listed: Sequence[str] = ()) -> None:
        import polars as pl

        self._kind = kind
        self._categories = pl.Categories.random()
        self._keep_alive = pl.Series(listed, dtype=pl.Categorical(self._categories))

    def number(self, names: pl.Series) -> NDArray[np.uint32]:
        """The ids of a column of names, new names added; shape [len(names)]."""
        return names.cast(self._keep_alive.dtype).to_physical().to_numpy()

    def column(self) -> pl.Series:
        """All names so far, in id order."""
        return self._categories.to_series()

    def vocabulary(self) -> Vocabulary:
        """All names so far."""
        return Vocabulary(self.column(), self._kind)


@final
class Encoder:
    """Facts in names to facts in ids, over one table of entities and one of relations."""

    def __init__(self, listed_entities: Sequence[str] = (), listed_relations: Sequence[str] = ()) -> None:
        self._entities = NameTable("entity", listed_entities)
        self._relations = NameTable("relation", listed_relations)

    def encode(self, blocks: Iterable[pl.DataFrame]) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
        """Triples [T, 3] of blocks with columns source, relation, target, and which are positive [T].

        Facts are positive where a block has no column `positive`.
        """
        none = np.zeros((0, 3), dtype=np.int32), np.zeros(0, dtype=np.bool_)
        triples, positive = zip(none, *encode_each(blocks, self._entities, self._relations), strict=True)
        return np.concatenate(triples), np.concatenate(positive)

    def vocabularies(self) -> tuple[Vocabulary, Vocabulary]:
        """The entities and the relations, in order of first appearance after the listed ones."""
        return self._entities.vocabulary(), self._relations.vocabulary()


def encode_each(
    blocks: Iterable[pl.DataFrame], entities: Numbering, relations: Numbering
) -> Iterator[tuple[NDArray[np.int32], NDArray[np.bool_]]]:
    """The triples of each block and which are positive, for facts that do not fit into memory; see `Encoder.encode`."""
    for block in blocks:
        labelled = "positive" in block.columns
        positive = block["positive"].to_numpy() if labelled else np.ones(len(block), dtype=np.bool_)
        yield _encode_block(block, entities, relations), positive


def _encode_block(facts: pl.DataFrame, entities: Numbering, relations: Numbering) -> NDArray[np.int32]:
    import polars as pl

    count = len(facts)
    # Source and target of a fact stand next to each other, so that first appearance means reading order.
    reading_order = np.arange(2 * count).reshape(2, count).T.ravel()
    names = pl.concat([facts["source"], facts["target"].rename("source")]).gather(reading_order)
    triples = np.empty((count, 3), dtype=np.int32)
    triples[:, 0::2] = entities.number(names).reshape(count, 2)
    triples[:, 1] = relations.number(facts["relation"])
    return triples
