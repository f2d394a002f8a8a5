"""Why an entity is an answer: the most probable proofs, trees with an entity at every variable of the query."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from pathlib import Path
from typing import NamedTuple, final

import numpy as np

from blockhole.answering.answers import Status
from blockhole.answering.engine import Encoded, Engine, open_engine
from blockhole.answering.rules import RuleReason, rule_reasons
from blockhole.answering.search import PLAUSIBLE, UNLIMITED, Deadline, Search, Wanted, leaving_of
from blockhole.errors import Count, checked
from blockhole.queries.language import Hop, Query, encode_entity
from blockhole.queries.plans import Both, Either, Follow, Plan, Start
from blockhole.runs.run import Run


@final
@dataclass(frozen=True, slots=True)
class ProofNode:
    """An entity that stands for a part of the query, and why it may.

    Where the part is a hop, `relation`, as queries write it, leads to the entity from that of the only node in
    `parts`; it is known or predicted, and `probability` is that of the hop. Elsewhere `relation` is None: without
    `parts` the entity is named by the query, with several it answers all of them. `excluded` says of each part that is
    negated how probable it is all the same. `rule` is what a predicted hop follows from, where a rule fits.
    """

    entity: str
    relation: str | None
    status: Status
    probability: float
    parts: tuple[ProofNode, ...]
    excluded: tuple[Exclusion, ...]
    rule: RuleReason | None = None


@final
@dataclass(frozen=True, slots=True)
class Exclusion:
    """How probable it is that an entity answers what a query excludes, and the best reason why it would."""

    probability: float
    counterproof: ProofNode | None


@final
@dataclass(frozen=True, slots=True)
class Proof:
    """One way to the answer; `probability` is the product of those of its hops, and of 1 - those of its exclusions."""

    probability: float
    tree: ProofNode


@final
@dataclass(frozen=True, slots=True)
class Explanation:
    """An answer's probability, which is at least that of its best proof, and its proofs, most probable first.

    There are none where no proof is plausible.
    """

    query: str
    entity: str
    probability: float
    status: Status
    proofs: tuple[Proof, ...]


@checked
def explain(
    run: Engine | Run | Path | str,
    query: str | Query | Encoded,
    entity: str,
    *,
    top: Count = 5,
    deadline: Deadline = UNLIMITED,
) -> Explanation:
    """The `top` most probable proofs that `entity` answers the query, exactly; facts are certain.

    A search that passes its deadline ends with `OutOfTime`. Without a calibration, answers that are certain by facts
    are explained by these facts alone, and others are refused.
    """
    engine = open_engine(run, quietly=True)
    parsed, plan = engine.encode(query)
    target = encode_entity(entity, engine.graph.entities, engine.graph.relations)
    known = bool(np.isin(target, engine.known.plan_answers(plan)))
    engine.require_calibration(unless=known and not parsed.has_negation)
    search = Search(engine, plan, "all", deadline)
    none = np.zeros(engine.graph.num_entities, dtype=bool)
    probability = float(search.settle(Wanted(none, 0, np.array([target]))).low[target])
    prover = _Prover(engine, plan, search, deadline)
    found = prover.proofs(len(plan.steps) - 1, target, top)
    if engine.calibrated is None:
        found = [proof for proof in found if prover.by_facts(proof)]
    return Explanation(
        query=str(parsed),
        entity=engine.graph.entities[target],
        probability=probability,
        status="known" if known else "predicted",
        # Rows and columns of products round differently in their last bits.
        proofs=tuple(Proof(min(proof.probability, probability), prover.named(proof)) for proof in found),
    )


class _Found(NamedTuple):
    """A proof in ids: of a step, at an entity; `hop` is the probability of a step's own hop."""

    probability: float
    step: int
    entity: int
    hop: float
    parts: tuple[_Found, ...]
    excluded: tuple[tuple[float, _Found | None], ...]


@final
class _Prover:
    """The best proofs of every step at every entity that is asked about, each list made once."""

    def __init__(self, engine: Engine, plan: Plan, search: Search, deadline: Deadline) -> None:
        self._engine = engine
        self._plan = plan
        self._search = search
        self._deadline = deadline
        self._made: dict[tuple[int, int, int], list[_Found]] = {}

    def proofs(self, step: int, entity: int, top: int) -> list[_Found]:
        """At most `top` plausible proofs, best first."""
        key = (step, entity, top)
        if key not in self._made:
            self._deadline.check()
            self._made[key] = self._prove(step, entity, top)
        return self._made[key]

    def _prove(self, place: int, entity: int, top: int) -> list[_Found]:
        match self._plan.steps[place]:
            case Start(slot):
                return [_Found(1.0, place, entity, 1.0, (), ())] if self._plan.ids[slot] == entity else []
            case Follow(of, slot):
                return self._by_hop(place, of, slot, entity, top)
            case Either(of):
                either = [proof for part in of for proof in self.proofs(part, entity, top)]
                return sorted(either, key=lambda proof: -proof.probability)[:top]
            case Both(keep, drop):
                return self._joined(place, keep, drop, entity, top)

    def _by_hop(self, place: int, of: int, slot: int, entity: int, top: int) -> list[_Found]:
        """Proofs by way of each witness; one that cannot be among the best is not looked into.

        No proof of the step before at h is more probable than the upper bound of that step's value at h.
        """
        engine, bound, relation = self._engine, self._search.bounds[of].high, self._plan.ids[slot]
        inverse = engine.graph.inverse(relation)
        hop = engine.hops.into(entity, relation).astype(np.float64)
        hop[engine.known.targets(np.array([entity]), inverse)] = 1.0
        leaving = leaving_of(engine, self._plan, Follow(of, slot))
        leaving = np.ones_like(hop) if leaving is None else leaving
        bound = bound * leaving
        most = np.where(bound >= PLAUSIBLE, bound * hop, 0.0)
        witnesses = np.flatnonzero(most >= PLAUSIBLE)
        found: list[_Found] = []
        for witness in witnesses[np.argsort(-most[witnesses], kind="stable")].tolist():
            if len(found) >= top and found[top - 1].probability >= most[witness]:
                break
            for part in self.proofs(of, witness, top):
                probability = float(part.probability * leaving[witness] * hop[witness])
                if probability >= PLAUSIBLE:
                    own = float(leaving[witness] * hop[witness])
                    found.append(_Found(probability, place, entity, own, (part,), ()))
            found = sorted(found, key=lambda proof: -proof.probability)[:top]
        return found

    def _joined(self, place: int, keep: tuple[int, ...], drop: tuple[int, ...], entity: int, top: int) -> list[_Found]:
        """Proofs of all parts together, times the probability that nothing excluded holds."""
        excluded = []
        for step in drop:
            counter = self.proofs(step, entity, 1)
            excluded.append((self._search.value_at(step, entity), counter[0] if counter else None))
        left = float(np.prod([1 - probability for probability, _ in excluded]))
        parts = [self.proofs(step, entity, top) for step in keep]
        return [
            _Found(probability * left, place, entity, 1.0, chosen, tuple(excluded))
            for probability, chosen in _best_products(parts, top)
            if probability * left >= PLAUSIBLE
        ]

    def by_facts(self, proof: _Found) -> bool:
        """Whether each hop of a proof is a fact; a share may be 1 all the same where nothing else is possible."""
        step = self._plan.steps[proof.step]
        if isinstance(step, Follow):
            reached = self._engine.known.targets(np.array([proof.parts[0].entity]), self._plan.ids[step.slot])
            if proof.entity not in reached:
                return False
        return all(map(self.by_facts, proof.parts))

    def named(self, proof: _Found) -> ProofNode:
        """A proof in names."""
        step, graph = self._plan.steps[proof.step], self._engine.graph
        relation, rule = None, None
        if isinstance(step, Follow):
            hop = self._plan.ids[step.slot]
            relation = str(Hop(*graph.relation_name(hop)))
            if proof.hop < 1.0:
                self._deadline.check()
                rule = rule_reasons(self._engine).find(proof.parts[0].entity, hop, proof.entity)
        return ProofNode(
            entity=graph.entities[proof.entity],
            relation=relation,
            status="known" if proof.hop == 1.0 else "predicted",
            probability=proof.hop,
            parts=tuple(self.named(part) for part in proof.parts),
            excluded=tuple(
                Exclusion(probability, None if counter is None else self.named(counter))
                for probability, counter in proof.excluded
            ),
            rule=rule,
        )


def _best_products(lists: list[list[_Found]], top: int) -> Iterator[tuple[float, tuple[_Found, ...]]]:
    """The `top` best ways to take one proof of each list, lists being sorted, best first."""
    if not all(lists):
        return

    def product(places: tuple[int, ...]) -> float:
        return float(np.prod([proofs[place].probability for proofs, place in zip(lists, places, strict=True)]))

    first = (0,) * len(lists)
    heap, seen = [(-product(first), first)], {first}
    for _ in range(top):
        if not heap:
            return
        value, places = heappop(heap)
        yield -value, tuple(proofs[place] for proofs, place in zip(lists, places, strict=True))
        for i in range(len(places)):
            further = (*places[:i], places[i] + 1, *places[i + 1 :])
            if further[i] < len(lists[i]) and further not in seen:
                seen.add(further)
                heappush(heap, (-product(further), further))


def rules_behind(node: ProofNode) -> Iterator[RuleReason]:
    """The rules that the predicted hops of a proof follow from, in the order of the hops."""
    for part in node.parts:
        yield from rules_behind(part)
    if node.rule is not None:
        yield node.rule


# As a drawing


def in_words(node: ProofNode) -> str:
    """A proof on one line: hops as arrows, what is joined in parentheses."""
    parts = [in_words(part) for part in node.parts]
    for each in node.excluded:
        reason = "" if each.counterproof is None else f": {in_words(each.counterproof)}"
        parts.append(f"not ({each.probability:.3f}{reason})")
    if node.relation is not None:
        mark = "" if node.status == "known" else f" ({node.probability:.3f})"
        return f"{parts[0]} → {node.relation}{mark} → {node.entity}"
    return " & ".join(f"({part})" for part in parts) if parts else node.entity


def to_dot(explanation: Explanation) -> str:
    """The proofs as a graph in the language of Graphviz: facts in solid lines, predictions dashed."""
    lines = ["digraph proofs {", "  rankdir=LR;", "  node [shape=box, style=rounded];"]
    numbers = count()

    def add(node: ProofNode) -> str:
        own = f"n{next(numbers)}"
        lines.append(f"  {own} [label={_quoted(node.entity)}];")
        for part in node.parts:
            label = node.relation or "and"
            if node.relation is not None and node.status == "predicted":
                label += f" {node.probability:.3f}"
            style = "dashed" if node.relation is not None and node.status == "predicted" else "solid"
            lines.append(f"  {add(part)} -> {own} [label={_quoted(label)}, style={style}];")
        for each in node.excluded:
            if each.counterproof is not None:
                label = _quoted(f"not: {each.probability:.3f}")
                lines.append(f"  {add(each.counterproof)} -> {own} [label={label}, style=dotted];")
        return own

    for number, proof in enumerate(explanation.proofs, start=1):
        lines.append(f"  subgraph cluster_{number} {{ label={_quoted(f'{proof.probability:.3f}')};")
        add(proof.tree)
        lines.append("  }")
    return "\n".join([*lines, "}"]) + "\n"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
