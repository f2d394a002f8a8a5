"""Small worlds to ask about: engines over random weights, and a run trained on a clockwork of numbers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from blockhole.answering.calibration import Calibrated, Calibration, ChainCurve, Curve
from blockhole.answering.engine import Engine
from blockhole.answering.vectors import Vectors
from blockhole.fitting import train
from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.graph.vocabulary import Vocabulary
from blockhole.models.catalogue import ModelSettings, build_model
from blockhole.models.contract import Model
from blockhole.runs.run import Run

SIZES = {
    "blockhole": ModelSettings(name="blockhole", entity_scale=0.8, blocks=3, block_size=4),
    "blockhole-spatial": ModelSettings(name="blockhole-spatial", entity_scale=0.8, blocks=2, block_size=7),
    "hole": ModelSettings(name="hole", entity_scale=0.8, dim=33),
    "analogy": ModelSettings(name="analogy", entity_scale=0.8, dim=13),
    "rescal": ModelSettings(name="rescal", entity_scale=0.8, dim=5),
    "transe": ModelSettings(name="transe", entity_scale=0.8, dim=6),
    "simple": ModelSettings(name="simple", entity_scale=0.8, dim=6),
}


def calibration_by_hand(*, intercept: float = 1.0, chains: bool = False) -> Calibrated:
    """Curves that nothing was fitted on, with those of composed vectors if they should count."""
    curve = ChainCurve(witness=0.5, share=0.8, intercept=0.5)
    return Calibrated(
        Calibration(
            scale=0.9,
            new_objects=1.3,
            doubts={1: 0.3, 5: 0.05},
            hop=Curve(low=-4.0, low_slope=1.5, slope=1.2, top_slope=0.7, intercept=intercept),
            chains={2: curve} if chains else {},
            facts=1,
            missing=1.0,
            brier=0.0,
            sampling_error=0.0,
        ),
        None,
    )


def of_both_directions(engine: Engine) -> Engine:
    """The same engine, in which relations and their inverses are as doubtful as the more doubtful of the two."""
    assert engine.calibrated is not None
    calibration, inverse = engine.calibrated.calibration, engine.graph.inverse
    doubts: dict[int, float] = {}
    for relation, doubt in calibration.doubts.items():
        for each in (relation, inverse(relation)):
            doubts[each] = min(doubt, doubts.get(each, 1.0))
    calibrated = replace(engine.calibrated, calibration=calibration.model_copy(update={"doubts": doubts}))
    return Engine(engine.vectors, engine.graph, calibrated)


def make_model(name: str, E: int, R: int, seed: int) -> Model:
    return build_model(SIZES[name], E, R, seed)


def make_engine(
    name: str = "blockhole",
    *,
    E: int = 30,
    R: int = 3,
    facts: int = 60,
    seed: int = 0,
    calibrated: bool = True,
    chains: bool = False,
) -> tuple[Engine, Model]:
    """An engine over random weights and facts, and the model it was made from."""
    model = make_model(name, E, R, seed)
    rng = np.random.default_rng(seed)
    triples = np.column_stack([rng.integers(high, size=facts) for high in (E, R, E)]).astype(np.int32)
    graph = KnowledgeGraph(
        Vocabulary([f"e{i}" for i in range(E)]), Vocabulary([f"r{i}" for i in range(R)], "relation"), triples
    )
    vectors = Vectors.of_weights(SIZES[name], dict(model.state_dict()), R)
    return Engine(vectors, graph, calibration_by_hand(chains=chains) if calibrated else None), model


def best_by_composed_vector(engine: Engine, query: str, top: int = 10) -> list[tuple[str, float]]:
    """The entities of the highest scores, and these."""
    scores = engine.composed_scores(query)
    best = np.argsort(-scores, kind="stable")[:top].tolist()
    return [(engine.graph.entities[entity], float(scores[entity])) for entity in best]


def write_clockwork(folder: Path) -> Path:
    """Sixty numbers with successors, doubles and remainders; of the last two kinds some are for valid and test."""
    facts = [(f"number {i}", "double", f"number {(2 * i) % 60}") for i in range(60)]
    facts += [(f"number {i}", "mod6", f"remainder/{i % 6}") for i in range(60)]
    order = np.random.default_rng(0).permutation(len(facts))
    parts = {
        part: [facts[row] for row in rows]
        for part, rows in zip(("valid", "test", "train"), np.split(order, [18, 36]), strict=True)
    }
    parts["train"] += [(f"number {i}", "next", f"number {(i + 1) % 60}") for i in range(60)]
    folder.mkdir(parents=True, exist_ok=True)
    for part, lines in parts.items():
        text = "".join("\t".join(line) + "\n" for line in lines)
        (folder / f"{part}.tsv").write_text(text, encoding="utf-8")
    return folder


def train_clockwork(folder: Path, epochs: int = 20) -> Run:
    """A run in `folder`/run over the data in `folder`/data."""
    data = write_clockwork(folder / "data")
    return train(
        str(data),
        preset="fast",
        settings={
            "model.blocks": 2,
            "model.block_size": 8,
            "training.epochs": epochs,
            "training.batch_size": 128,
            "training.threads": 1,
            "loss.kind": "softmax",
            "penalty.dura": 0.002,
        },
        out=folder / "run",
    )
