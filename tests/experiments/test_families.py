"""Missing relatives in generated families: what is ranked, against what, and who counts as a second father."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest

import experiments.families as families
from blockhole.answering.engine import Engine
from blockhole.answering.vectors import Vectors
from blockhole.data.dataset import DataSet
from blockhole.data.family_tree import RELATIONS, generate_family
from blockhole.models.catalogue import build_model
from blockhole.saving import write_file
from experiments.families import families_table, measure_family, most_fathers, read_families, second_father
from tests.answering.toys import SIZES, calibration_by_hand

PEOPLE = 50


@pytest.fixture(scope="module")
def family() -> tuple[Engine, DataSet]:
    """A small family under random weights."""
    data = DataSet("family", generate_family(PEOPLE, seed=2, valid=0.1, test=0.1))
    model = build_model(SIZES["blockhole"], len(data.split.entities), len(RELATIONS), 0)
    vectors = Vectors.of_weights(SIZES["blockhole"], dict(model.state_dict()), len(RELATIONS))
    return Engine(vectors, data.split.graph("train"), calibration_by_hand(chains=True)), data


def test_missing_answers_are_ranked_among_those_that_are_none(
    family: tuple[Engine, DataSet], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(families, "PEOPLE", PEOPLE)
    engine, data = family
    figures = measure_family(engine, data)
    everything = Engine(engine.vectors, data.split.graph("train", "valid", "test"), engine.calibrated)
    for kind, paths in families.KINDS.items():
        reciprocal: dict[str, list[float]] = {"composed": [], "engine": []}
        for person, path in product(list(data.split.entities)[:PEOPLE], paths):
            query = f"{person}/{path}"
            true = {answer.entity for answer in everything.ask(query, only="known", top=99)}
            known = {answer.entity for answer in engine.ask(query, only="known", top=99)}
            if true == known:
                continue
            asked = engine.ask(query, top=99, candidates="all", only="predicted")
            values = dict.fromkeys(data.split.entities, 0.0) | {each.entity: each.score for each in asked}
            scores = dict(zip(data.split.entities, engine.composed_scores(query).tolist(), strict=True))
            for name, said in {"engine": values, "composed": scores}.items():
                rivals = [said[entity] for entity in data.split.entities if entity not in true | known]
                for answer in true - known:
                    better = sum(rival > said[answer] for rival in rivals)
                    tied = sum(rival == said[answer] for rival in rivals)
                    reciprocal[name].append(1 / (1 + better + tied / 2))
        assert figures[kind]["answers"] == len(reciprocal["engine"]) > 0
        for name, ranks in reciprocal.items():
            assert figures[kind][name] == pytest.approx(np.mean(ranks), abs=1e-6)


def test_a_second_father_is_the_likeliest_from_either_end(family: tuple[Engine, DataSet]) -> None:
    engine, _ = family
    children = {engine.graph.entities[child] for child in engine.known.candidates(0)}
    from_child = [engine.ask(f"{child}/^fatherOf", top=1, only="predicted", candidates="all")[0] for child in children]
    from_father = [
        answer
        for person in engine.graph.entities
        for answer in engine.ask(f"{person}/fatherOf", top=99, only="predicted", candidates="all")
        if answer.entity in children
    ]
    assert second_father(engine) == pytest.approx(max(answer.score for answer in [*from_child, *from_father]))


def test_fathers_are_counted_of_those_without_a_known_one(family: tuple[Engine, DataSet]) -> None:
    engine, _ = family
    children = {engine.graph.entities[child] for child in engine.known.candidates(0)}
    sums = [
        sum(answer.score for answer in engine.ask(f"{person}/^fatherOf", top=999, only="predicted", candidates="all"))
        for person in engine.graph.entities
        if person not in children
    ]
    assert most_fathers(engine) == pytest.approx(max(sums), rel=1e-4)


def test_the_table_is_of_the_seeds_asked_for(tmp_path: Path) -> None:
    none = '{"answers": 0}'
    two = '{"answers": 2, "composed": 0.5, "engine": 0.75}'
    one = f'{{"uncle": {two}, "cousin": {none}, "in-law": {two}, "second_father": 0.02, "fathers": 0.9}}'
    write_file(tmp_path / "families" / "people-120.json", f'{{"100": {one}, "7": {one}}}'.encode())
    assert set(read_families(tmp_path)) == {"100", "7"}
    table = families_table(tmp_path, [100])
    assert [row[0] for row in table.rows] == ["uncle", "in-law"]
    assert table.rows[0][1:] == ("0.500", "0.750", "+0.250 to +0.250", "2", "1")
    assert "2.0 %" in table.title
    assert "more than 0.90 fathers" in table.title
