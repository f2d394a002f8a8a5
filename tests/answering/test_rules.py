"""Rules: what is proposed by matrices, counted on facts, and listed."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given

import blockhole
from blockhole.answering import mining
from blockhole.answering.engine import Engine
from blockhole.answering.mining import Matrices, Mined, mine
from blockhole.answering.proofs import rules_behind
from blockhole.answering.reasons import connecting_bodies
from blockhole.answering.rules import rule_reasons
from blockhole.answering.vectors import Vectors
from blockhole.errors import BlockholeError, ConfigError, RunError, UnknownName
from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.graph.vocabulary import Vocabulary
from blockhole.models.catalogue import ModelSettings, build_model
from blockhole.queries.bodies import Bodies
from tests.answering.toys import SIZES, make_engine
from tests.queries.graphs import graphs, make_graph
from tests.queries.test_bodies import said

MODELS = {
    "blockhole": ModelSettings(name="blockhole", blocks=3, block_size=4),
    "complex": ModelSettings(name="complex", dim=5),
    "distmult": ModelSettings(name="distmult", dim=5),
    "rescal": ModelSettings(name="rescal", dim=4),
    "tied": ModelSettings(name="blockhole", blocks=2, block_size=3, inverses="tied"),
}


@pytest.mark.parametrize("name", MODELS)
def test_similarity_is_that_of_dense_products_weighed_by_the_entities(name: str) -> None:
    """⟨A, B⟩ = tr(A G Bᴴ G), with matrices read off hops of unit vectors, frequency by frequency."""
    model = build_model(MODELS[name], 20, 3, seed=1)
    vectors = Vectors.of_model(model)
    geometry = vectors.settings.block_geometry
    assert geometry is not None
    b, m = geometry.blocks, geometry.freqs
    unit = np.zeros((b * m, geometry.parts, b, m))
    for i in range(b):
        for f in range(m):
            unit[i * m + f, 0, i, f] = 1.0

    def dense(relation: int) -> np.ndarray:
        moved = vectors.model.hop(unit.reshape(b * m, -1), np.full(b * m, relation)).reshape(
            b * m, geometry.parts, b, m
        )
        whole = moved[:, 0] + (1j * moved[:, 1] if geometry.parts == 2 else 0)
        return np.array([whole.reshape(b, m, b, m)[:, f, :, f] for f in range(m)])

    rows = vectors.entity.reshape(-1, geometry.parts, b, m)
    entity = rows[:, 0] + (1j * rows[:, 1] if geometry.parts == 2 else 0)
    moment = np.einsum("eif,ejf->fij", entity.conj(), entity) / len(entity)

    def inner(one: np.ndarray, other: np.ndarray) -> float:
        return float(np.einsum("fij,fjk,flk,fli->", one, moment, other.conj(), moment).real)

    bodies = np.array([(0, 4), (4, 0), (5, 2)])
    similarity = Matrices.of(vectors).similarity(bodies, np.arange(3))
    for row, (first, second) in enumerate(bodies.tolist()):
        product = dense(first) @ dense(second)
        for head in range(3):
            own = dense(head)
            expected = inner(product, own) / np.sqrt(inner(product, product) * inner(own, own))
            assert similarity[row, head] == pytest.approx(expected, abs=1e-4)
    commutes = name in ("complex", "distmult")
    assert np.allclose(similarity[0], similarity[1], atol=1e-5) == commutes


def _by_frequency(name: str, moment: np.ndarray) -> np.ndarray:
    """What is left of a second moment where no coordinate of relations' eigenvectors is correlated with another."""
    if name == "analogy":
        pairs = len(moment) // 4
        square = moment.diagonal().copy()
        square[-2 * pairs :] = np.tile((square[-2 * pairs : -pairs] + square[-pairs:]) / 2, 2)
        return np.diag(square)
    blocks = 2 if name == "blockhole-spatial" else 1
    size = len(moment) // blocks
    apart = moment.reshape(blocks, size, blocks, size)
    shifted = [np.roll(apart, (shift, shift), axis=(1, 3)) for shift in range(size)]
    return np.asarray(np.mean(shifted, axis=0).reshape(moment.shape))


@pytest.mark.parametrize("inverses", ["own", "tied"])
@pytest.mark.parametrize("size", [4, 5, 8])
@pytest.mark.parametrize("name", ["hole", "analogy", "blockhole-spatial"])
def test_similarity_of_real_models_is_that_of_their_real_matrices(name: str, size: int, inverses: str) -> None:
    """⟨A, B⟩ = tr(A G Bᵀ G) with the matrices of hops as they are; G has what is seen by frequency."""
    sized = {"blocks": 2, "block_size": size} if name == "blockhole-spatial" else {"dim": size}
    vectors = Vectors.of_model(build_model(ModelSettings(name=name, inverses=inverses, **sized), 20, 3, seed=1))  # type: ignore[arg-type]
    rows = vectors.entity.astype(np.float64)
    units, moment = np.eye(rows.shape[1]), _by_frequency(name, rows.T @ rows / len(rows))

    def dense(*path: int) -> np.ndarray:
        return vectors.model.walk(units, np.tile(path, (len(units), 1)), np.full(len(units), len(path)))

    def inner(one: np.ndarray, other: np.ndarray) -> float:
        return float(np.trace(one @ moment @ other.T @ moment))

    bodies = np.array([(0, 4), (4, 0), (5, 2)])
    similarity = Matrices.of(vectors).similarity(bodies, np.arange(3))
    for row, body in enumerate(bodies.tolist()):
        for head in range(3):
            one, other = dense(*body), dense(head)
            expected = inner(one, other) / np.sqrt(inner(one, one) * inner(other, other))
            assert similarity[row, head] == pytest.approx(expected, abs=1e-4)


def test_the_rule_behind_a_graph_is_found(family_run: Path) -> None:
    found = blockhole.rules(family_run, top=1000)
    by_name = {str(rule): rule for rule in found}
    rule = by_name["^spouseOf ⇒ spouseOf"]
    assert rule.pca_confidence > 0.9
    assert rule.valid_confidence is not None
    assert rule.similarity > 0.8
    assert [each.pca_confidence for each in found] == sorted((each.pca_confidence for each in found), reverse=True)
    assert "spouseOf ⇒ spouseOf" not in by_name
    (one,) = blockhole.rules(family_run, head="spouseOf", top=1)
    assert one == next(each for each in found if each.head == "spouseOf")


def test_figures_are_those_of_the_graph(family_run: Path) -> None:
    run = blockhole.Run.open(family_run)
    graph, data = run.graph, run.load_data()
    assert data is not None
    rule = next(each for each in blockhole.rules(run, top=1000, redundant=True) if each.body.count("/") == 1)
    body = tuple(graph.relation_id(name.lstrip("^"), name.startswith("^")) for name in rule.body.split("/"))
    (counts,) = Bodies(graph, data.split.valid).counted([body], compiled=False)
    head = graph.relations.id(rule.head)
    assert rule.support == counts.right[0, head]
    assert rule.confidence == rule.support / counts.said[0]
    assert rule.pca_confidence == rule.support / counts.of_subjects[0, head]
    assert rule.head_coverage == rule.support / np.sum(graph.triples[:, 1] == head)


def test_facts_of_an_entity_with_itself_are_none_that_a_rule_could_cover() -> None:
    graph = make_graph([*((s, relation, (s + 1) % 6) for s in range(6) for relation in (0, 1)), (2, 1, 2)], 6, 2)
    matrices = Matrices.of(Vectors.of_model(build_model(MODELS["blockhole"], 6, 2, seed=0)))
    mined = mine(matrices, Bodies(graph), heads=[1], min_support=6)
    assert mined.head_coverage[mined.body.index((0,))] == 1.0


def test_longer_bodies_that_are_no_better_than_a_part_are_redundant() -> None:
    bodies = ((0,), (0, 1), (0, 1, 1), (2, 1), (1, 2))
    right = np.array([5.0, 5.0, 8.0, 2.0, 3.0])
    ones = np.ones(5)
    mined = Mined(np.zeros(5, dtype=np.int64), bodies, ones, right, 10 * ones, 10 * ones, ones, ones, ones)
    assert mined.without_redundant().tolist() == [0, 2, 3, 4]


def test_rules_are_written_and_read(family_run: Path, tmp_path: Path) -> None:
    found = blockhole.rules(family_run, max_length=2, top=5)
    found.write(tmp_path / "rules.parquet")
    frame = pl.read_parquet(tmp_path / "rules.parquet")
    assert frame.columns == [
        "head", "body", "support", "confidence", "pca_confidence", "head_coverage", "similarity", "valid_confidence"
    ]  # fmt: skip
    assert frame.rows(named=True) == found.to_dicts()
    shown = found[:2]._repr_html_()
    assert shown.startswith("<table><caption>RuleList: 2</caption><tr><th>head</th><th>body</th><th>support</th>")
    assert shown.count("<tr>") == 3


def test_a_head_is_named_as_in_the_graph_and_quoted_in_text(family_run: Path) -> None:
    engine = blockhole.Engine.open(family_run)
    graph = engine.graph
    renamed = Vocabulary([f"{name} / of" for name in graph.relations.names], "relation")
    engine = Engine(engine.vectors, KnowledgeGraph(graph.entities, renamed, graph.triples), None)
    for head in (None, "spouseOf / of"):
        rule = next(each for each in blockhole.rules(engine, head=head) if "spouse" in each.head)
        assert rule.head == "spouseOf / of"
        assert str(rule) == f'{rule.body} ⇒ "spouseOf / of"'
        assert ' / of"' in rule.body


@pytest.mark.parametrize("name", ["transe", "simple"])
def test_models_without_matrices_are_refused(name: str) -> None:
    engine, _ = make_engine(name)
    with pytest.raises(RunError) as refused:
        blockhole.rules(engine)
    assert str(refused.value) == (
        f"rules are proposed by products of relation matrices, which {name} does not have; train one of analogy, "
        "blockhole, blockhole-spatial, complex, distmult, hole, rescal."
    )


@pytest.mark.parametrize(
    ("options", "kind", "said"),
    [
        ({"head": "uncleOf"}, UnknownName, "unknown relation 'uncleOf'"),
        ({"head": "^spouseOf"}, ConfigError, "ask for spouseOf"),
        ({"max_length": 0}, ConfigError, "1 to 3, not 0"),
        ({"max_length": 4}, ConfigError, "1 to 3, not 4"),
        ({"max_length": 10**5000}, ConfigError, "1 to 3, not a number of thousands of digits"),
    ],
)
def test_bad_wishes(family_run: Path, options: dict[str, object], kind: type[BlockholeError], said: str) -> None:
    with pytest.raises(kind, match=said):
        blockhole.rules(family_run, **options)  # type: ignore[arg-type]


def test_bodies_that_memory_does_not_hold_are_refused_with_their_number(
    family_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mining, "memory_bytes", lambda: 1000)
    with pytest.raises(ConfigError, match=r"up to [\d,]+ bodies of 3 relations, 0.0 GB, more than memory holds"):
        blockhole.rules(family_run)


def test_a_run_without_facts_is_refused() -> None:
    vectors = Vectors.of_model(build_model(MODELS["blockhole"], 4, 2, seed=0))
    with pytest.raises(RunError, match="no facts, and rules are counted on facts"):
        mine(Matrices.of(vectors), Bodies(make_graph([], 4, 2)))


# Rules as reasons


@given(graph=graphs(max_entities=6, max_relations=2))
def test_connecting_bodies_are_those_that_say_the_pair(graph: KnowledgeGraph) -> None:
    for source, target in product(range(graph.num_entities), repeat=2):
        found = connecting_bodies(graph, source, target)
        for length in (1, 2, 3):
            for body in product(range(2 * graph.num_relations), repeat=length):
                says = source != target and (source, target) in said(graph, body)
                assert (body in found) == says
        for body, over in found.items():
            met = (source, *over, target)
            assert len(set(met)) == len(met) == len(body) + 1
            for hop, relation in enumerate(body):
                assert met[hop + 1] in graph.adjacency.neighbours(met[hop], relation)


def test_a_predicted_hop_has_the_rule_it_follows_from(family_run: Path) -> None:
    engine = blockhole.Engine.open(family_run)
    explanation = blockhole.explain(engine, "William/^fatherOf", "Charles", top=1)
    (rule,) = rules_behind(explanation.proofs[0].tree)
    assert rule.rule.endswith(" ⇒ fatherOf")
    assert 0 < rule.confidence <= rule.pca_confidence <= 1
    graph = engine.graph
    triples = set(map(tuple, graph.triples.tolist()))
    for source, relation, target in rule.facts:
        assert (graph.entities.id(source), graph.relations.id(relation), graph.entities.id(target)) in triples
    ends = {rule.facts[0][0], rule.facts[0][2], rule.facts[-1][0], rule.facts[-1][2]}
    assert {"William", "Charles"} <= ends
    backwards = rule_reasons(engine).find(
        graph.entities.id("Charles"), graph.relations.id("fatherOf"), graph.entities.id("William")
    )
    assert backwards == rule


def test_known_hops_need_no_rule(family_run: Path) -> None:
    explanation = blockhole.explain(family_run, "Charles/brotherOf", "Andrew", top=1)
    assert explanation.status == "known"
    assert list(rules_behind(explanation.proofs[0].tree)) == []


@pytest.mark.parametrize("name", SIZES)
def test_all_models_have_reasons(name: str) -> None:
    engine, _ = make_engine(name)
    source, relation, target = engine.graph.triples[0].tolist()
    found = rule_reasons(engine).find(source, relation, target)
    assert found is None or found.support >= 2
