"""Horn rules that a run has learned, in names: `rules`, such as brotherOf/fatherOf ⇒ uncleOf; and rules as reasons."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, final, overload

import numpy as np
from numpy.typing import NDArray

from blockhole.answering.engine import Engine, open_engine
from blockhole.answering.mining import CANDIDATES, MIN_SUPPORT, Matrices, Mined, Progress, mine
from blockhole.answering.predicting import held_out
from blockhole.answering.reasons import connecting_bodies, in_known_cases, written
from blockhole.data.dataset import DataSet
from blockhole.data.reviews import check_list_file
from blockhole.errors import ConfigError, Count, checked
from blockhole.files.tables import Listed, write_rows
from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.queries.bodies import LONGEST, Bodies, Body
from blockhole.queries.language import Hop, encode_hop
from blockhole.runs.run import Run
from blockhole.saving import replacing

if TYPE_CHECKING:
    import polars as pl


@final
@dataclass(frozen=True, slots=True)
class Rule:
    """body ⇒ head, and how far the graph bears it out; `body` as queries write it, `head` a relation's name.

    `support`: pairs (x, y) that body and head both say. `confidence`: their share of what the body says;
    `pca_confidence`: their share of what it says about subjects that the head is known of, since a graph that lacks
    facts does not deny them; `head_coverage`: their share of the head's facts. `valid_confidence`: of what the body
    newly says about subjects with validation facts of the head, the share that are such facts; None where it says
    nothing of them. `similarity`: of the product of the body's matrices and the head's matrix, from -1 to 1.
    """

    head: str
    body: str
    support: int
    confidence: float
    pca_confidence: float
    head_coverage: float
    similarity: float
    valid_confidence: float | None

    def __str__(self) -> str:
        return f"{self.body} ⇒ {Hop(self.head)}"


@final
@dataclass(frozen=True, slots=True)
class RuleList(Listed[Rule]):
    """Rules, those with the highest PCA confidence first."""

    _rows: ClassVar = "rules"
    rules: tuple[Rule, ...]

    def to_dicts(self) -> list[dict[str, str | float | None]]:
        """One dictionary a rule, with the fields of `Rule`."""
        return [asdict(rule) for rule in self.rules]

    def to_polars(self) -> pl.DataFrame:
        """One row a rule, with the fields of `Rule` as columns."""
        import polars as pl

        kinds = {"head": pl.String, "body": pl.String, "support": pl.Int64}
        schema = {name: kinds.get(name, pl.Float64) for name in Rule.__dataclass_fields__}
        return pl.DataFrame(self.to_dicts(), schema=schema)

    @checked
    def write(self, path: Path | str) -> None:
        """Write the rows of `to_polars` as Parquet, CSV, TSV or JSON lines, whichever the name says."""
        path = Path(path)
        check_list_file(path)
        with replacing(path) as temporary:
            write_rows(self.to_polars(), temporary, path.suffix)


@checked
def rules(
    run: Engine | Run | Path | str,
    *,
    head: str | None = None,
    max_length: int = LONGEST,
    top: Count = 100,
    min_support: Count = MIN_SUPPORT,
    candidates: Count = CANDIDATES,
    redundant: bool = False,
    data: DataSet | Path | str | None = None,
    progress: Progress | None = None,
) -> RuleList:
    """The `top` rules with the highest PCA confidence, for one head or for all; bodies of up to `max_length` hops.

    For each head the model proposes `candidates` bodies of each length, and these are counted on the facts of the run
    (and on the validation facts of `data`, by default the run's). Rules with less than `min_support` are left out, and
    so are `redundant` ones: a longer body that is no more often right than a shorter one it contains. Where a body
    could be followed over more than 16 million edges, a part of its sources is, and its support is an estimate.
    """
    engine = open_engine(run, quietly=True)
    heads = None if head is None else [_named_head(head, engine.graph)]
    held = held_out(engine, run, data, "rules have no confidence on validation facts")
    mined = mine(
        Matrices.of(engine.vectors),
        Bodies(engine.graph, None if held is None else held.valid, engine.known.edges),
        heads=heads,
        max_length=max_length,
        min_support=min_support,
        candidates=candidates,
        progress=progress,
    )
    if not redundant:
        mined = mined.take(mined.without_redundant())
    return _named(mined.take(mined.order()[:top]), engine.graph)


def _named_head(head: str, graph: KnowledgeGraph) -> int:
    relation = encode_hop(head, graph.relations)
    if relation >= graph.num_relations:
        name, _ = graph.relation_name(relation)
        raise ConfigError(
            f"the head of a rule is a relation, not its inverse; ask for {name}, and read its rules backwards."
        )
    return relation


def _named(mined: Mined, graph: KnowledgeGraph) -> RuleList:
    confidence, pca, coverage, valid = (
        mined.confidence,
        mined.pca_confidence,
        mined.head_coverage,
        mined.valid_confidence,
    )
    return RuleList(
        tuple(
            Rule(
                head=graph.relations[head],
                body=written(body, graph),
                support=round(float(mined.support[i])),
                confidence=float(confidence[i]),
                pca_confidence=float(pca[i]),
                head_coverage=float(coverage[i]),
                similarity=float(mined.similarity[i]),
                valid_confidence=None if np.isnan(valid[i]) else float(valid[i]),
            )
            for i, (head, body) in enumerate(zip(mined.head.tolist(), mined.body, strict=True))
        )
    )


# The rule behind one predicted hop


@final
@dataclass(frozen=True, slots=True)
class RuleReason:
    """A rule that says a predicted fact: body ⇒ head, its figures as in `Rule`, and the `facts` that fire it.

    Facts are in the order of the body, each as source, relation and target of the graph.
    """

    rule: str
    confidence: float
    pca_confidence: float
    support: int
    facts: tuple[tuple[str, str, str], ...]

    def __str__(self) -> str:
        fired = ", ".join(" ".join(fact) for fact in self.facts)
        return f"{self.rule}, {in_known_cases(self.pca_confidence)}: {fired}"


@final
class RuleReasons:
    """Finds the rule behind a fact that an engine predicts, and those that tell most; each fact is looked into once."""

    def __init__(self, engine: Engine) -> None:
        self._graph = engine.graph
        self._bodies = Bodies(engine.graph, edges=engine.known.edges, most_work=_WORK)
        self._vectors = engine.vectors
        self._found: dict[tuple[int, int, int], RuleReason | None] = {}

    @cached_property
    def _matrices(self) -> Matrices | None:
        return Matrices.of(self._vectors) if self._vectors.settings.nature.has_matrices else None

    def find(self, source: int, relation: int, target: int) -> RuleReason | None:
        """The rule that tells most, by PCA confidence, of few cases less, whose body leads from source to target; None
        where none does, or only ones that are right in less than a tenth of known cases.

        Where many paths connect the two, those are counted whose matrices are most like the head's.
        """
        if relation >= self._graph.num_relations:
            source, relation, target = target, self._graph.inverse(relation), source
        key = source, relation, target
        if key not in self._found:
            self._found[key] = self._look(*key)
        return self._found[key]

    def _look(self, source: int, head: int, target: int) -> RuleReason | None:
        ways = connecting_bodies(self._graph, source, target)
        ways.pop((head,), None)
        best: tuple[float, int, int, int, Body] | None = None
        for counts in self._bodies.counted(self._likeliest(list(ways), head)):
            for i, body in enumerate(counts.bodies):
                right, of = int(counts.right[i, head]), int(counts.of_subjects[i, head])
                own = _worth(right, of)
                if right >= 2 and right >= LEAST * of and (best is None or own > best[0]):
                    best = own, right, of, int(counts.said[i]), body
        if best is None:
            return None
        _, right, of, said, body = best
        met = (source, *ways[body], target)
        return RuleReason(
            f"{written(body, self._graph)} ⇒ {Hop(*self._graph.relation_name(head))}",
            confidence=right / said,
            pca_confidence=right / of,
            support=right,
            facts=tuple(self._fact(*hop) for hop in zip(met, body, met[1:], strict=False)),
        )

    def telling(self, progress: Progress | None = None) -> Mined:
        """The rules that tell most of each relation, some with it as head and some with it in the body, best first.

        As for reasons, a body is followed over a part of a large graph, by one thread; bodies of three relations are
        looked at where these are not too many to be compared.
        """
        matrices = self._matrices or Matrices.of(self._vectors)  # which says why there are none
        length = LONGEST if self._bodies.most_bodies(LONGEST) <= _COMPARED else LONGEST - 1
        mined = mine(matrices, self._bodies, max_length=length, candidates=_PROPOSED, threads=1, progress=progress)
        mined = mined.take(mined.without_redundant())
        taken: Counter[tuple[str, int]] = Counter()
        telling = []
        for i in np.argsort(-_worth(mined.support, mined.of_subjects), kind="stable").tolist():
            parts = {
                ("head", int(mined.head[i])),
                *(("body", hop % self._graph.num_relations) for hop in mined.body[i]),
            }
            if mined.pca_confidence[i] >= LEAST and any(taken[part] < _TOLD for part in parts):
                taken.update(parts)
                telling.append(i)
        return mined.take(np.array(telling, dtype=np.intp))

    def _likeliest(self, bodies: list[Body], head: int) -> list[Body]:
        """At most so many of each length: the most like the head, or where relations are no matrices, the first."""
        chosen: list[Body] = []
        for length in range(1, LONGEST + 1):
            own = sorted(body for body in bodies if len(body) == length)
            if len(own) > _COUNTED and self._matrices is not None:
                similarity = self._matrices.similarity(np.array(own), np.array([head]))[:, 0]
                own = [own[i] for i in np.argsort(-similarity, kind="stable").tolist()]
            chosen += own[:_COUNTED]
        return chosen

    def _fact(self, source: int, relation: int, target: int) -> tuple[str, str, str]:
        if relation >= self._graph.num_relations:
            source, relation, target = target, self._graph.inverse(relation), source
        return self._graph.entities[source], self._graph.relations[relation], self._graph.entities[target]


_WORK = 2**20
"""Edges that a body is followed over for a reason: someone waits for it."""
_COUNTED = 24
"""Bodies of each length that are counted for a reason."""
LEAST = 0.1
"""A rule that is right more seldom is no reason."""
UNSEEN = 5
"""Wrong pairs that a rule is taken to have beyond those counted, when reasons are compared: few cases prove little."""


_COMPARED = 2**19
"""Bodies of three relations that are compared with heads in the background."""
_PROPOSED = 200
"""Bodies of each length that the model proposes for a head in the background."""
_TOLD = 12
"""Rules of a relation that are told, with it as head and with it in the body."""


@overload
def _worth(right: int, of: int) -> float: ...
@overload
def _worth(right: NDArray[np.float64], of: NDArray[np.float64]) -> NDArray[np.float64]: ...
def _worth(right: float | NDArray[np.float64], of: float | NDArray[np.float64]) -> float | NDArray[np.float64]:
    """How much a rule tells: the share that is right, of few cases less."""
    return right / (of + UNSEEN)


def rule_reasons(engine: Engine) -> RuleReasons:
    """The finder of an engine, made once."""
    if engine.reasons is None:
        engine.reasons = RuleReasons(engine)
    return engine.reasons
