"""What the probability of a query is, worked out entity by entity from the formulas of the documentation."""

from __future__ import annotations

from collections import Counter
from math import exp, log, log1p, sqrt

import numpy as np

from blockhole.answering.engine import Engine
from blockhole.answering.search import PLAUSIBLE, Candidates
from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.models.contract import Model
from blockhole.queries.language import Anchor, Intersection, Negation, Node, Projection, Union


class Oracle:
    """Plain loops over all entities; scores come from the model itself."""

    def __init__(self, engine: Engine, model: Model, candidates: Candidates) -> None:
        self.graph: KnowledgeGraph = engine.graph
        self.E = self.graph.num_entities
        self.candidates = candidates
        self.calibration = engine.calibration
        self.scale = 1.0 if self.calibration is None else self.calibration.scale
        R = self.graph.num_relations
        self.facts = {(s, r, o) for s, r, o in self.graph.triples.tolist()}
        self.facts |= {(o, r + R, s) for s, r, o in self.facts}
        self.counts = Counter((s, r) for s, r, _ in self.facts)
        self.scores = _all_scores(model)
        self.hops: dict[int, np.ndarray] = {}
        self._limits: dict[int, int | None] = {}

    def share(self, s: int, r: int, o: int) -> float:
        """x of a hop."""
        inverse = self.graph.inverse(r)
        even = 0.1 / self.E
        ends = (
            0.5
            * (self._n(s, r) * self._softmax(s, r, o) + self._n(o, inverse) * self._softmax(o, inverse, s))
            * self._room(s, r)
            * self._room(o, inverse)
            * (self._alone(r) if s == o else 1.0)
            * self._doubt(r)
        )
        return ends + even

    def _doubt(self, r: int) -> float:
        """τ of a relation."""
        return 1.0 if self.calibration is None else self.calibration.doubts.get(r, 1.0)

    def _alone(self, r: int) -> float:
        """σ of a relation."""
        facts = [(s, o) for s, relation, o in self.facts if relation == r]
        loops = sum(s == o for s, o in facts)
        return (loops + 0.25) / (len(facts) + 0.25) if loops < 0.05 * len(facts) else 1.0

    def _kind(self, o: int, r: int) -> float:
        """κ of an entity as an object of r."""
        if any((s, r, o) in self.facts for s in range(self.E)):
            return 1.0
        taken = {object_ for _, relation, object_ in self.facts if relation == r}
        likeness = 0.0
        for kind in {relation for s, relation, _ in self.facts if s == o}:
            members = {s for s, relation, _ in self.facts if relation == kind}
            likeness = max(likeness, len(members & taken) / len(members))
        c = 1.0 if self.calibration is None else self.calibration.new_objects
        facts = [object_ for _, relation, object_ in self.facts if relation == r]
        novelty = (sum(facts.count(object_) == 1 for object_ in taken) + 0.5) / (len(facts) + 1)
        return min(c * novelty * (likeness + 1e-3), exp(-1e-3))

    def hop(self, r: int) -> np.ndarray:
        """p of every pair: [E, E]."""
        if r not in self.hops:
            table = np.zeros((self.E, self.E))
            objects = {o for _, relation, o in self.facts if relation == r}
            for s in range(self.E):
                for o in range(self.E):
                    if (s, r, o) in self.facts:
                        table[s, o] = 1.0
                    elif self.candidates == "all" or o in objects:
                        full = 1 / self._room(s, r) - 1 + 1 / self._room(o, self.graph.inverse(r)) - 1
                        table[s, o] = self._curve(self.share(s, r, o), self._kind(o, r), full)
                        if self.calibration is not None:
                            table[s, o] = min(table[s, o], self._rivals(s, r, o))
            self.hops[r] = table
        return self.hops[r]

    def _curve(self, x: float, kind: float, full: float) -> float:
        if self.calibration is None:
            x *= kind
        else:
            curve = self.calibration.hop
            tail, top = min(log(x) - curve.low, 0.0), max(log(x) - log(0.05), 0.0)
            middle = min(max(log(x), curve.low), log(0.05))
            low_slope = curve.slope if kind < 1 else curve.low_slope
            logit = low_slope * tail + curve.slope * middle + curve.top_slope * top + curve.intercept + log(kind)
            x = 1 / (1 + exp(-logit) + full)
        return min(x, 0.9999)

    def _rivals(self, s: int, r: int, o: int) -> float:
        """What the other objects of (s, r) leave to one, where none is known and others have so many at most."""
        if self._objects(s, r):
            return 1.0
        limit = self._limit(r)
        if limit is None:
            return 1.0
        share = self._softmax(s, r, o) * self._room(o, self.graph.inverse(r)) * (self._alone(r) if s == o else 1.0)
        return limit * (share * self._doubt(r) + 0.1 / self.E)

    def _limit(self, r: int) -> int | None:
        """The least number of objects that hardly any entity passes."""
        if r not in self._limits:
            counts = {self._objects(e, r): e for e in range(self.E)}
            limits = [count for count, e in sorted(counts.items()) if count and self._room(e, r) < 1]
            self._limits[r] = limits[0] if limits else None
        return self._limits[r]

    def _softmax(self, s: int, r: int, o: int) -> float:
        row = self.scale * self.scores[r][s]
        return float(np.exp(row[o] - row.max()) / np.exp(row - row.max()).sum())

    def _objects(self, s: int, r: int) -> int:
        return self.counts[s, r]

    def _n(self, s: int, r: int) -> int:
        return max(1, self._objects(s, r))

    def _room(self, s: int, r: int) -> float:
        own = self._objects(s, r)
        if own == 0:
            return 1.0
        counts = [count for e in range(self.E) if (count := self._objects(e, r))]
        more, as_many = sum(count > own for count in counts), sum(count >= own for count in counts)
        return (more + 0.25) / (as_many + 0.25) if (more + 2) / (as_many + 2) < 0.05 else 1.0

    def leaving(self, r: int, of: Node | None = None) -> np.ndarray:
        """ω of every entity as a witness that r leaves from, 1 where the query names it: [E]."""
        named, inverse = self._named(of), self.graph.inverse(r)
        return np.array([1.0 if h in named else sqrt(self._kind(h, inverse)) for h in range(self.E)])

    def _named(self, node: Node | None) -> set[int]:
        """The entities that a query names where a part of it stands; what is excluded leaves all others named."""
        match node:
            case Anchor(entity):
                return {self.graph.entities.id(entity)}
            case Union(parts):
                return set[int]().union(*map(self._named, parts))
            case Intersection((first, *others)):
                return self._named(first).intersection(*map(self._named, others))
            case Negation():
                return set(range(self.E))
            case _:
                return set()

    def value(self, node: Node) -> np.ndarray:
        """The probability of every entity as an answer, without what composed vectors add: [E]."""
        match node:
            case Anchor(entity):
                value: np.ndarray = np.eye(self.E)[self.graph.entities.id(entity)]
            case Projection(of, hop):
                start, relation = self.value(of), self.graph.relation_id(hop.relation, hop.inverse)
                start = start * self.leaving(relation, of)
                start = np.where(start >= PLAUSIBLE, start, 0.0)
                value = (start[:, None] * self.hop(relation)).max(axis=0)
            case Negation(of):
                value = 1 - self.value(of)
            case Intersection(parts):
                value = np.prod([self.value(part) for part in dict.fromkeys(parts)], axis=0)  # equal parts are one
            case Union(parts):
                value = 1 - np.prod([1 - self.value(part) for part in dict.fromkeys(parts)], axis=0)
        return value


def raised(witness: float, log_share: float, weights: tuple[float, float, float]) -> float:
    """What a path's composed vector makes of its best witness."""
    if witness < PLAUSIBLE:
        return witness
    kept = min(max(witness, 1e-4), 1 - 1e-4)
    logit = weights[0] * (log(kept) - log1p(-kept)) + weights[1] * log_share + weights[2]
    return max(witness, 1 / (1 + exp(-logit)))


def _all_scores(model: Model) -> dict[int, np.ndarray]:
    """φ(s, r, o) of every r: [E, E] each."""
    import copy

    import torch

    exact = copy.deepcopy(model).double()
    E, everyone = model.num_entities, torch.arange(model.num_entities)
    found = {}
    for r in range(2 * model.num_relations):
        with torch.no_grad():
            query = exact.embed_query(everyone, torch.full((E, 1), r), torch.ones(E, dtype=torch.int64))
            found[r] = (query @ exact.candidates().T).numpy()
    return found
