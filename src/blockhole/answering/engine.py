"""Names in, ranked answers out: `ask`, `check`, and the `Engine` behind them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from blockhole.answering.answers import Answer, Answers, Spread, Status
from blockhole.answering.calibration import (
    ENOUGH,
    ONE_PART,
    Calibrated,
    Calibration,
    ChainCurve,
    Parts,
    load_calibration,
)
from blockhole.answering.hops import LANES, NEW_OBJECTS, NO_DOUBTS, Columns, Hops, Ids
from blockhole.answering.index import MANY, LoadedIndex, load_index
from blockhole.answering.known import KnownFacts
from blockhole.answering.search import UNLIMITED, Candidates, Deadline, Evidence, Search, Settled, Wanted, nth_largest
from blockhole.answering.vectors import Floats, Vectors
from blockhole.errors import (
    BlockholeWarning,
    ConfigError,
    Count,
    DamagedRun,
    MissingExtra,
    Natural,
    RunError,
    check_argument,
    checked,
    counted,
    html_table,
)
from blockhole.files.formats import STEMS, bare_name, known_format
from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.graph.vocabulary import Vocabulary
from blockhole.queries.language import Query, encode_chain, encode_entity, encode_tree, find_plan, parse
from blockhole.queries.plans import Plan, chains_to
from blockhole.runs.run import Run

if TYPE_CHECKING:
    import torch

    from blockhole.answering.device import DeviceSweep
    from blockhole.answering.rules import RuleReasons

from blockhole.answering.sparql.results import Solutions, Statements, Truth

_ONE_HOP = Plan.of_chain(0, [0]).steps
_LEAST = np.finfo(np.float32).smallest_subnormal
_TOGETHER = 2**20
"""Numbers in the rows of questions that are answered together."""
_SURVEYED = 2**23
"""Entities times relations that a survey keeps what it finds out of, in a handful of numbers each: 170 MB."""
_EQUALS = 512
"""Answers of one value that are put in order by comparing their names; of more, the first are found by number."""
_SPREAD = 1000
"""Predicted answers to a query of several hops whose probabilities are counted: each has to be found."""
_PROPOSED = 256
"""Entities that an approximate index proposes for one hop."""


class Encoded(NamedTuple):
    """A query whose names have been looked up."""

    query: Query
    plan: Plan

    @property
    def is_hop(self) -> bool:
        """Whether it is one hop from an entity."""
        return self.plan.steps == _ONE_HOP


@final
@dataclass(frozen=True, slots=True)
class Question:
    """A query and what is wanted of its answers, as `Engine.ask` takes it."""

    query: str | Query | Encoded
    top: Count = 10
    candidates: Candidates = "typed"
    only: Status | None = None
    offset: Natural = 0
    deadline: Deadline = UNLIMITED


@final
@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether an entity answers a query: it is known to, or its probability is at least one half."""

    holds: bool
    probability: float
    status: Status


@checked
def ask(
    run: Engine | Run | Path | str,
    query: str | Query,
    *,
    top: Count = 10,
    candidates: Candidates = "typed",
    only: Status | None = None,
    offset: Natural = 0,
) -> Answers:
    """The answers to a query, such as ask("runs/family", "William/^fatherOf/brotherOf/fatherOf & !Andrew").

    There are two lists: the known answers, all of which are counted, and the predicted ones, each ordered by
    probability; `top` and `offset` say which part of each is given, `only` which list. `candidates` are the entities
    that a relation takes in the graph ("typed"), or all. Open an `Engine` to ask more than once.
    """
    return open_engine(run).ask(query, top=top, candidates=candidates, only=only, offset=offset)


@checked
def check(run: Engine | Run | Path | str, query: str | Query, entity: str) -> Verdict:
    """Whether `entity` answers the query, as check("runs/family", "William/^fatherOf", "Charles").

    Any entity may, so the probability is that of ask(…, candidates="all"). Where facts do not make it an answer, the
    run must be calibrated: such a verdict is a probability.
    """
    return open_engine(run, quietly=True).check(query, entity)


@checked
def sparql(
    run: Engine | Run | Path | str,
    query: str,
    *,
    known: bool = False,
    threshold: float | None = None,
    candidates: Candidates = "typed",
) -> Solutions | Truth | Statements:
    """The rows of a SPARQL SELECT, the truth of an ASK, or the triples of a CONSTRUCT, over known and predicted edges.

    The rows that facts make answers come first, then predicted ones of a probability of at least `threshold`, one half
    where nothing is said; a query that names ?probability or ?status gets all that are plausible. With `known` the
    results are those of any SPARQL engine. `candidates` are those of `ask`. Open an `Engine` to ask more than once.
    """
    check_threshold(threshold)
    return open_engine(run, quietly=True).sparql(query, known=known, threshold=threshold, candidates=candidates)


def open_engine(run: Engine | Run | Path | str, *, quietly: bool = False) -> Engine:
    """The engine itself, or that of a run or of the run in a folder; `quietly` if it says later what it lacks."""
    if isinstance(run, Engine):
        return run
    return Engine.opened(run) if quietly else Engine.open(run)


@final
class Engine:
    """A trained model and the facts it knows, ready for questions; open it once and ask often.

    `graph` holds the facts that make an answer known, by default those the run was trained on; another graph over the
    same names may be given, such as one with newer facts. Without a calibration, answers have shares as scores, and no
    probabilities.
    """

    @checked
    def __init__(
        self,
        vectors: Vectors,
        graph: KnowledgeGraph,
        calibrated: Calibrated | None = None,
        loaded: LoadedIndex | None = None,
    ) -> None:
        if vectors.num_entities != graph.num_entities:
            entities = counted(graph.num_entities, "entity", "entities")
            raise ConfigError(f"the graph has {entities}, but there are vectors of {vectors.num_entities:,}.")
        self.vectors = vectors
        self.graph = graph
        self.calibrated = calibrated
        self.lacking = "the run has no calibration, so shares cannot become probabilities; " + _REMEDY
        self.known = KnownFacts(graph)
        kept = None if loaded is None else loaded.exact
        self.candidates = vectors.all_candidates() if kept is None else kept
        self.approximate = loaded.approximate if loaded else None
        scale: float | Floats = 1.0
        curve, table, new_objects, doubts = None, None, NEW_OBJECTS, NO_DOUBTS
        if calibrated is not None:
            calibration, table = calibrated.calibration, calibrated.normalisers
            scale = vectors.weighed(calibration.weights(calibration.parts))
            curve, new_objects, doubts = calibration.hop, calibration.new_objects, calibration.doubts
        self.hops = Hops(vectors, self.candidates, self.known, scale, curve, table, new_objects, doubts)
        self._sweeps: dict[tuple[str, Candidates], DeviceSweep] = {}
        self.reasons: RuleReasons | None = None  # made by the first explanation that asks for a rule

    def __repr__(self) -> str:
        return f"Engine({counted(self.graph.num_entities, 'entity', 'entities')}, {counted(len(self.graph), 'fact')})"

    def _repr_html_(self) -> str:
        """A small table, for notebooks."""
        calibration = self.calibration
        fitted = "none: answers have shares, no probabilities"
        if calibration is not None:
            fitted = f"fitted on {counted(calibration.facts, 'validation fact')}, Brier score {calibration.brier:.3f}"
        return html_table("Engine", self._sizes() | {"probabilities": fitted})

    def _sizes(self) -> dict[str, str]:
        graph = self.graph
        sizes = {"entities": graph.num_entities, "relations": graph.num_relations, "facts": len(graph)}
        return {name: f"{size:,}" for name, size in sizes.items()}

    @property
    def calibration(self) -> Calibration | None:
        """What makes probabilities of shares, if there is anything."""
        return None if self.calibrated is None else self.calibrated.calibration

    @classmethod
    @checked
    def open(
        cls,
        run: Run | Path | str,
        *,
        graph: KnowledgeGraph | None = None,
        calibrated: bool = False,
        in_memory: bool = False,
    ) -> Engine:
        """The engine of a run, or of the run in a folder, with the calibration kept there.

        A run that has none is warned about, or refused where it has to be `calibrated`; one whose index cannot be used
        is warned about and searched without it. Vectors are views of the run's files, or copies of their own
        `in_memory`, which outlive files that are overwritten.
        """
        engine = cls.opened(run, graph, in_memory=in_memory, calibrated=calibrated)
        in_folder = not isinstance(run, Run) or run.folder is not None
        if engine.calibrated is None and in_folder:
            warnings.warn(engine.lacking + _NO_PROBABILITIES, BlockholeWarning, stacklevel=3)
        return engine

    @classmethod
    def opened(
        cls,
        run: Run | Path | str,
        graph: KnowledgeGraph | None = None,
        *,
        in_memory: bool = False,
        calibrated: bool = False,
    ) -> Engine:
        """The same without a word about a calibration that is missing: `lacking` says it."""
        if not isinstance(run, Run):
            run = Run.open(run)
        vectors, loaded, kept, lacking = Vectors.of(run), None, run.calibrated, None
        if run.folder is not None:
            try:
                loaded = load_index(run.folder, vectors)
            except (RunError, MissingExtra) as failure:
                warnings.warn(f"answers are searched for without the index: {failure}", BlockholeWarning, stacklevel=4)
            kept, lacking = _kept_calibration(run)
            if kept is None and calibrated:
                raise RunError(lacking + ".")
        if in_memory:
            vectors, loaded = vectors.copied(), loaded and loaded.copied()
        engine = cls(vectors, run.graph if graph is None else graph, kept, loaded)
        engine.lacking = lacking or engine.lacking
        return engine

    @checked
    def ask(
        self,
        query: str | Query | Encoded,
        *,
        top: Count = 10,
        candidates: Candidates = "typed",
        only: Status | None = None,
        offset: Natural = 0,
        deadline: Deadline = UNLIMITED,
    ) -> Answers:
        """The answers to a query of any kind, as the function `ask` gives them."""
        return self.ask_together([Question(query, top, candidates, only, offset, deadline)])[0]

    @checked
    def ask_many(
        self,
        queries: Iterable[str | Query | Encoded],
        *,
        top: Count = 10,
        candidates: Candidates = "typed",
        only: Status | None = None,
        device: str = "cpu",
    ) -> list[Answers]:
        """What `ask` gives for each query, in order; those of one form at once where `device` is a GPU.

        A GPU opens every plausible witness, and looks for what it proposes in no index. Its probabilities differ from
        those of a processor by what float32 rounds.
        """
        check_top(top)
        encoded = [self.encode(query) for query in queries]
        if device != "cpu":
            from blockhole.machine import choose_device

            place = choose_device(device)
            if place.type == "cuda":
                return self._ask_on(place, encoded, top, candidates, only)
        return self.ask_together([Question(query, top, candidates, only) for query in encoded])

    def _ask_on(
        self, device: torch.device, encoded: Sequence[Encoded], top: int, candidates: Candidates, only: Status | None
    ) -> list[Answers]:
        """The answers to queries by the tables of a device, those of one form together."""
        from blockhole.answering.device import DeviceSweep

        found: dict[int, Answers] = {}
        key = str(device), candidates
        if key not in self._sweeps:  # the tables of a model stay on the device for what is asked later
            self._sweeps[key] = DeviceSweep(self, device, candidates)
        sweep, question = self._sweeps[key], Question("", top, candidates, only)
        for steps in dict.fromkeys(each.plan.steps for each in encoded):
            places = [place for place, each in enumerate(encoded) if each.plan.steps == steps]
            ids = np.array([encoded[place].plan.ids for place in places])
            for place, settled in zip(places, sweep.settled(steps, ids, top), strict=True):
                found[place] = self._listed(question, encoded[place].query, settled)
        return [found[place] for place in range(len(encoded))]

    @checked
    def ask_together(self, questions: Sequence[Question]) -> list[Answers]:
        """The answers to any number of questions, which may all differ, in order."""
        for question in questions:
            check_top(question.top)
        return self.answers([(question, self.encode(question.query)) for question in questions])

    def answers(self, asked: Sequence[tuple[Question, Encoded]]) -> list[Answers]:
        """The same for questions that have been checked and encoded."""
        settled = self._settled_together(asked)
        return [self._listed(question, each.query, own) for (question, each), own in zip(asked, settled, strict=True)]

    def spread(self, encoded: Encoded, candidates: Candidates = "typed", deadline: Deadline = UNLIMITED) -> Spread:
        """How probable the predicted answers to a query are: all of a single hop, else of the most probable ones."""
        self.require_calibration()
        question = Question(encoded, _SPREAD, candidates, "predicted", deadline=deadline)
        if encoded.is_hop and not self._is_proposed(encoded.plan.ids[-1], question):
            question = replace(question, top=self.graph.num_entities)
        (settled,) = self._settled_together([(question, encoded)])
        best = np.sort(settled.predicted_value)[::-1][: question.top]
        counts, _ = np.histogram(best, 100, (0.0, 1.0))
        least = float(best[-1]) if len(best) == question.top < self.graph.num_entities else 0.0
        return Spread(str(encoded.query), tuple(counts.tolist()), least)

    def _settled_together(self, asked: Sequence[tuple[Question, Encoded]]) -> list[Settled]:
        settled: dict[int, Settled] = {}
        together: dict[tuple[int, Candidates], list[int]] = {}
        for place, (question, each) in enumerate(asked):
            relation = each.plan.ids[-1]
            if each.is_hop and question.only != "known" and not self._is_proposed(relation, question):
                together.setdefault((relation, question.candidates), []).append(place)
            else:
                settled[place] = self._settled(question, each)
        for (relation, candidates), places in together.items():
            columns = self.hops.typed_columns(relation) if candidates == "typed" else self.hops.columns(relation)
            size = max(LANES, _TOGETHER // max(len(columns), 1) // LANES * LANES)
            for first in range(0, len(places), size):
                part = places[first : first + size]
                wanted = [(asked[place][0], asked[place][1].plan.ids[0]) for place in part]
                settled |= zip(part, self._hops_settled(wanted, columns), strict=True)
        return [settled[place] for place in range(len(asked))]

    def _hops_settled(self, wanted: Sequence[tuple[Question, int]], columns: Columns) -> Iterator[Settled]:
        """What `Search` settles of single hops along one relation from some entities, all by one product."""
        sources = np.array([source for _, source in wanted])
        rows = self.hops.values(sources, columns) if len(columns) else np.zeros((len(wanted), 0), dtype=np.float32)
        for (question, source), row in zip(wanted, rows, strict=True):
            question.deadline.check()
            known = self.known.objects(source, columns.relation)
            row[known if columns.entities is None else columns.entities.searchsorted(known)] = 0.0
            best = np.flatnonzero(row >= max(nth_largest(row, question.offset + question.top), _LEAST))
            predicted = best if columns.entities is None else columns.entities[best]
            yield Settled(known, np.ones(len(known)), predicted, row[best].astype(np.float64))

    def _settled(self, question: Question, encoded: Encoded) -> Settled:
        """The known answers, and those predicted ones that may be among those asked for."""
        parsed, plan = encoded
        known = self.known.plan_answers(plan)
        certain = not parsed.has_negation  # else a missing fact may refute what is known
        if certain and question.only == "known":
            return Settled(known, np.ones(len(known)), known[:0], np.zeros(0))
        among = np.ones(self.graph.num_entities, dtype=bool)
        among[known] = False
        top = 0 if question.only == "known" else question.offset + question.top
        each = known[:0] if certain or question.only == "predicted" else known
        search = Search(self, plan, question.candidates, question.deadline, known if certain else None)
        value = search.settle(Wanted(among, top, each)).low
        predicted = np.flatnonzero(among & (value > 0))
        return Settled(known, np.ones(len(known)) if certain else value[known], predicted, value[predicted])

    def _listed(self, question: Question, parsed: Query, settled: Settled) -> Answers:
        """The part of either list that a question asks for, by value, equal ones by name."""
        part = slice(question.offset, question.offset + question.top)
        lists: list[tuple[Status, Ids, Floats]] = [
            ("known", settled.known, settled.known_value),
            ("predicted", settled.predicted, settled.predicted_value),
        ]
        listed = [
            self._named(entity, value, status)
            for status, entities, values in lists
            if question.only in (None, status)
            for entity, value in in_order(entities, values, part, self.graph.entities)
        ]
        return Answers(str(parsed), tuple(listed), len(settled.known), parsed.has_negation)

    def _named(self, entity: int, value: float, status: Status) -> Answer:
        probability = None if self.calibrated is None else value
        return Answer(self.graph.entities[entity], value, probability, status)

    @checked
    def check(self, query: str | Query | Encoded, entity: str, *, deadline: Deadline = UNLIMITED) -> Verdict:
        """Whether `entity` answers the query."""
        parsed, plan = self.encode(query)
        target = encode_entity(entity, self.graph.entities, self.graph.relations)
        known = bool(np.isin(target, self.known.plan_answers(plan)))
        self.require_calibration(unless=known and not parsed.has_negation)
        # A path that holds over facts needs no search.
        probability = self.value(plan, target, deadline)
        return Verdict(known or probability >= 0.5, probability, "known" if known else "predicted")

    @checked
    def sparql(
        self,
        query: str,
        *,
        known: bool = False,
        threshold: float | None = None,
        candidates: Candidates = "typed",
        deadline: Deadline = UNLIMITED,
    ) -> Solutions | Truth | Statements:
        """The results of a SPARQL query, as the function `sparql` gives them."""
        check_threshold(threshold)
        from blockhole.answering.sparql.answer import Wishes, answer

        return answer(self, query, Wishes(known, threshold, candidates, deadline))

    @checked
    def require_calibration(self, *, unless: bool = False) -> None:
        """Refuse to say how probable something is without a calibration, `unless` it is certain by facts."""
        if self.calibrated is None and not unless:
            raise RunError(self.lacking + ".")

    def value(self, plan: Plan, target: int, deadline: Deadline = UNLIMITED) -> float:
        """The probability that an entity answers a query, or without a calibration its share; any entity may."""
        wanted = Wanted(np.zeros(self.graph.num_entities, dtype=bool), 0, np.array([target]))
        return float(Search(self, plan, "all", deadline).settle(wanted).low[target])

    @checked
    def encode(self, query: str | Query | Encoded) -> Encoded:
        """A query as names, and as steps over ids; one that is encoded already is left as it is."""
        if isinstance(query, Encoded):
            return query
        parsed = parse(query) if isinstance(query, str) else query
        return Encoded(parsed, encode_tree(parsed, self.graph))

    def encode_known(self, query: Query) -> Encoded | None:
        """The same at once, or None where the graph lacks a name."""
        plan = find_plan(query, self.graph)
        return None if plan is None else Encoded(query, plan)

    def evidence(self, plan: Plan, place: int, columns: Ids | None) -> Evidence | None:
        """What composed vectors say of a step, by each path of several hops that leads there, where vectors compose."""
        said: list[tuple[Floats | None, ChainCurve]] = []
        for chain in chains_to(plan.steps, place) if self.calibration is not None else ():
            source, *path = (plan.ids[slot] for slot in chain)
            curve = self.calibration.chain(len(path)) if self.calibration is not None and len(path) > 1 else None
            if curve is not None:
                share = self.composed_shares(source, path, curve.parts) if curve.share else None
                said.append((share if share is None or columns is None else share[columns], curve))
        return Evidence(said, columns) if said else None

    def _is_proposed(self, relation: int, question: Question) -> bool:
        """Whether an index proposes what a hop leads to."""
        count = self.graph.num_entities
        if question.candidates == "typed":
            count = len(self.known.candidates(relation))
        return self.proposes(count)

    def proposes(self, count: int) -> bool:
        """Whether an index proposes what a hop leads to, where these are so many.

        It is worth its errors where looking at all takes long.
        """
        return self.approximate is not None and count > MANY

    def survey(self) -> Iterator[None]:
        """Find out, a few milliseconds at a time, what questions would find out by and by: what hops can have at most.

        First from the entities that a relation leaves in the graph, then from those that are like them; relations that
        leave most of them come first, and of very many these alone.
        """
        graph, hops = self.graph, self.hops
        if not hops.has_limits:
            return
        order = np.argsort(-np.diff(self.known.edges.relation_start), kind="stable")
        most = order[: _SURVEYED // graph.num_entities].tolist()
        relations = [each for each in most if not self.proposes(len(self.known.candidates(each)))]
        for which in range(2):
            for relation in relations:
                sources = np.flatnonzero(hops.kinds(graph.inverse(relation))[which] & (hops.limits(relation) == 1))
                for _ in hops.looks(sources, relation):
                    yield

    def proposed(self, sources: Ids, relation: int, columns: Ids | None) -> Ids | None:
        """What hops from `sources` are computed for: `columns`, or of very many those that an index proposes."""
        if not self.proposes(self.graph.num_entities if columns is None else len(columns)):
            return columns
        assert self.approximate is not None
        allowed = None if columns is None else columns.astype(np.int32)
        vectors = self.vectors.walk(self.vectors.rows(sources), [relation])
        found = np.unique(self.approximate.shortlists(vectors, _PROPOSED, allowed))
        return found[found >= 0]

    @checked
    def composed_scores(self, query: str | Query) -> Floats:
        """φ(s, r1/…/rk, o) of every entity o, by the composed vector of a path alone: [E]."""
        source, path = encode_chain(query, self.graph)
        everyone = np.arange(self.graph.num_entities)
        scores: Floats = self.vectors.candidates(everyone) @ self.vectors.query(source, path)[0]
        return scores

    def composed_shares(self, source: int, path: Sequence[int], parts: Parts = ONE_PART) -> Floats:
        """log x of every entity by the composed vector of a path: its share among all, times the known answers; [E]."""
        scale = 1.0 if self.calibration is None else self.vectors.weighed(self.calibration.weights(parts))
        score = self.hops.composed(self.vectors.query(source, path), scale)
        score -= score.max()
        known = max(len(self.known.answers(source, path)), 1)
        score += np.log(known) - np.log(np.exp(score).sum())
        return score

    @checked
    def query_vector(self, query: str | Query) -> NDArray[np.float32]:
        """The vector whose inner products with exported vectors are the scores; shape [width]."""
        source, path = encode_chain(query, self.graph)
        vector: NDArray[np.float32] = self.vectors.query(source, path)[0].astype(np.float32)
        return vector


def in_order(entities: Ids, value: Floats, part: slice, names: Vocabulary) -> list[tuple[int, float]]:
    """A part of some entities and their values, in order of these, equal ones in order of their names."""
    if len(entities) > part.stop:
        least = value[0] if (value == value[0]).all() else nth_largest(value, part.stop)
        reach = np.flatnonzero(value >= least)
        if len(reach) > part.stop + _EQUALS:
            above, equal = reach[value[reach] > least], reach[value[reach] == least]
            left = part.stop - len(above)
            first = np.argpartition(names.alphabetical[entities[equal]], left)[:left]
            reach = np.concatenate([above, equal[first]])
        entities, value = entities[reach], value[reach]
    pairs = zip(entities.tolist(), value.tolist(), strict=True)
    return sorted(pairs, key=lambda pair: (-pair[1], names[pair[0]]))[part]


# What is refused


def check_top(top: int) -> None:
    """Refuse a number of answers that is not one."""
    check_argument("top", top, Count)


def check_threshold(threshold: float | None) -> None:
    """Refuse a least probability that is none."""
    if threshold is not None and not 0 < threshold <= 1:
        raise ConfigError(f"threshold must be a probability above 0, at most 1, not {threshold:g}.")


_REMEDY = "make it with: blockhole calibrate RUN"
_NO_PROBABILITIES = ", or answers will have no probabilities."


def _kept_calibration(run: Run) -> tuple[Calibrated | None, str]:
    """The calibration in the folder of a run, and what to say where there is none that can be used."""
    assert run.folder is not None
    try:
        kept = load_calibration(run.folder, (2 * len(run.relations), len(run.entities)))
    except DamagedRun as failure:
        return None, str(failure)
    return kept, "" if kept is not None else not_calibrated(run)


def _validation_facts(data: Path) -> int | None:
    """About how many facts a file or folder holds for validation; None where names of files do not tell."""
    from blockhole.data.packing import estimate_facts

    if data.is_file():
        return 0
    if not data.is_dir():
        return None
    files = {bare_name(path): path for path in data.iterdir() if known_format(path) is not None}
    if files.keys().isdisjoint(STEMS["train"]):
        return None
    return sum(estimate_facts(files[stem]) for stem in STEMS["valid"] if stem in files)


def not_calibrated(run: Run, spelled: Callable[[Path], str] = str) -> str:
    """That a run has no calibration, and what to do; `spelled` says how its folder and its data are written."""
    assert run.folder is not None
    folder = spelled(run.folder)
    data = None if run.config.data is None else Path(run.config.data)
    count = None if data is None else _validation_facts(data)
    without = f"{folder} has no calibration, which turns scores into probabilities, and its data"
    if data is not None and count == 0:
        return (
            f"{without} no validation facts to fit one on; set some aside with "
            f"`blockhole data split {quote(spelled(data))} --out FOLDER` and train on FOLDER"
        )
    if count is not None and count < ENOUGH:
        return f"{without} {counted(count, 'validation fact')}, where it takes {ENOUGH} to fit one"
    return (
        f"{folder} has no calibration for its weights, which turns scores into probabilities; "
        f"make it with `blockhole calibrate {quote(folder)}`"
    )
