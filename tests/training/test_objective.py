"""The engine's loss and step against brute force over plain definitions, in float64, for every model and loss."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from blockhole.errors import BlockholeWarning, ConfigError
from blockhole.models.bilinear import BlockBilinear
from blockhole.models.catalogue import find_model, known_models
from blockhole.models.contract import Model
from blockhole.models.merging import merge_models
from blockhole.queries.exact import answers
from blockhole.runs.config import TrainConfig
from blockhole.training.batches import Batch
from blockhole.training.negatives import Negatives, NegativeSampler
from blockhole.training.objective import Objective, PathRules, build_objective, rule_distance
from blockhole.training.steppers import AutogradStepper
from tests.queries.graphs import make_graph

from .worlds import config, random_queries, random_split, tiny_model

SPLIT = random_split()
GRAPH = SPLIT.graph("train")
MODELS = ["blockhole", "rescal", "distmult", "complex", "hole", "transe", "analogy", "blockhole-spatial"]

LOSSES: dict[str, dict[str, Any]] = {
    "logistic": {"loss__kind": "logistic"},
    "logistic, masked": {"loss__kind": "logistic", "loss__mask_known_answers": True, "loss__negatives": 9},
    "logistic, self-adversarial": {"loss__kind": "logistic", "loss__self_adversarial": 0.7},
    "logistic, corrupted paths": {"loss__kind": "logistic", "loss__corrupted_paths": 3},
    "logistic, balanced": {"loss__kind": "logistic", "loss__corrupted_paths": 3, "loss__balanced": True},
    "logistic, all of it": {
        "loss__kind": "logistic",
        "loss__self_adversarial": 0.7,
        "loss__corrupted_paths": 2,
        "loss__mask_known_answers": True,
        "loss__typed_share": 0.5,
    },
    "softmax": {"loss__kind": "softmax"},
    "softmax, masked": {"loss__kind": "softmax", "loss__mask_known_answers": True},
    "softmax, corrupted paths": {"loss__kind": "softmax", "loss__corrupted_paths": 2},
    "sampled": {"loss__kind": "sampled_softmax", "loss__negatives": 5},
    "sampled, masked": {"loss__kind": "sampled_softmax", "loss__negatives": 5, "loss__mask_known_answers": True},
    "sampled, not corrected": {"loss__kind": "sampled_softmax", "loss__negatives": 5, "loss__correct_sample": False},
    "sampled, typed": {"loss__kind": "sampled_softmax", "loss__negatives": 5, "loss__typed_share": 0.5},
}
NO_BLOCKS = {"model__blocks": None, "model__block_size": None}
PENALTIES: dict[str, dict[str, Any]] = {
    "l2": {"penalty__l2": 0.3},
    "n3": {"penalty__n3": 0.3},
    "dura": {"penalty__dura": 0.3},
    "dura, back": {"penalty__dura": 0.3, "penalty__dura_back": 0.2},
    "all": {"penalty__l2": 0.1, "penalty__n3": 0.2, "penalty__dura": 0.3},
    "sparse": {"penalty__l1_product": 0.3, "penalty__l1_blocks": 0.2},
}


def batch_of(hops: int, count: int = 6) -> Batch:
    queries = random_queries(SPLIT, count, hops, seed=hops)
    source, path, target = (
        torch.from_numpy(ids.astype(np.int64)) for ids in (queries.source, queries.path, queries.target)
    )
    path[:, -1] = path[0, -1]  # typed shared negatives need one last relation
    return Batch(source, path, target, epoch=2, index=5)


def score(model: Model, source: Tensor, path: Tensor, target: Tensor | int) -> Tensor:
    """φ of one query, through the model's public score."""
    return model.score(source[None], path[None], torch.tensor([len(path)]), torch.as_tensor(target)[None])[0]


def known(batch: Batch, row: int) -> set[int]:
    return {*answers(GRAPH, int(batch.source[row]), batch.path[row].tolist()).tolist(), int(batch.target[row])}


def brute_force_loss(model: Model, batch: Batch, negatives: Negatives, settings: TrainConfig) -> Tensor:
    """The loss of a batch, query by query and negative by negative."""
    loss, rows = settings.loss, []
    for row in range(len(batch.source)):
        source, path, target = batch.source[row], batch.path[row], batch.target[row]
        true = score(model, source, path, target)
        left_out = known(batch, row) if loss.mask_known_answers else set()
        corrupted: list[Tensor] = []
        if negatives.paths is not None and negatives.false is not None:
            corrupted = [
                score(model, source, other, target)
                for other, false in zip(negatives.paths[row], negatives.false[row], strict=True)
                if false
            ]
        if loss.kind == "logistic":
            assert negatives.objects is not None
            rivals = [score(model, source, path, e) for e in negatives.objects[row].tolist() if e not in left_out]
            lower = math.log(loss.negatives + loss.corrupted_paths) if loss.balanced else 0.0
            rivals = [rival - lower for rival in rivals + corrupted]
            rows.append(brute_force_logistic(true - lower, rivals, loss.self_adversarial))
            continue
        entities = range(GRAPH.num_entities) if negatives.objects is None else negatives.objects.tolist()
        total = true.exp() + sum((other.exp() for other in corrupted), start=torch.zeros(()))
        for column, entity in enumerate(entities):
            if entity not in left_out | {int(target)}:
                weight = 1.0
                if negatives.log_weight is not None and loss.correct_sample:
                    weight = math.exp(negatives.log_weight[column].item())
                total = total + weight * score(model, source, path, entity).exp()
        rows.append(total.log() - true)
    return torch.stack(rows).mean()


def brute_force_logistic(true: Tensor, rivals: list[Tensor], temperature: float) -> Tensor:
    weights = [1.0] * len(rivals)
    if temperature and rivals:
        raised = [math.exp(temperature * rival.item()) for rival in rivals]
        weights = [len(rivals) * value / sum(raised) for value in raised]
    pushed = [weight * (1 + rival.exp()).log() for weight, rival in zip(weights, rivals, strict=True)]
    return (1 + (-true).exp()).log() + sum(pushed, start=torch.zeros(()))


def brute_force_penalty(model: Model, batch: Batch, settings: TrainConfig) -> Tensor:
    weights, total = settings.penalty, torch.zeros((), dtype=torch.float64)
    complex_numbers = isinstance(model, BlockBilinear) and model.geometry.parts == 2

    def cubed(vector: Tensor) -> Tensor:
        if not complex_numbers:
            return vector.abs().pow(3).sum()
        re, im = vector.chunk(2)
        return torch.complex(re, im).abs().pow(3).sum()

    for row in range(len(batch.source)):
        ends = [model.entity[batch.source[row]], model.entity[batch.target[row]]]
        stored = [int(r) % GRAPH.num_relations if model.tied else int(r) for r in batch.path[row]]
        relations = [model.relation[r] for r in stored]
        query = model.embed_paths(batch.source[row : row + 1], batch.path[row : row + 1])[0]
        total = total + weights.l2 * sum(x.square().sum() for x in [*ends, *relations])
        total = total + weights.n3 * sum(cubed(x) for x in [*ends, *relations])
        total = total + (weights.dura or 0.0) * sum(x.square().sum() for x in [*ends, query])
        if model.has_matrices:
            total = total + weights.dura_back * brute_force_back(model, batch, row).square().sum()
        if isinstance(model, BlockBilinear):
            b, m = model.geometry.blocks, model.geometry.freqs
            for relation in relations:
                blocks = relation.view(model.geometry.parts, b, b, m)
                if complex_numbers:
                    total = total + weights.l1_product * (blocks[0] * blocks[1]).abs().sum()
                total = total + weights.l1_blocks * sum(blocks[:, i, j].norm() for i in range(b) for j in range(b))
    return total / len(batch.source)


def brute_force_back(model: Model, batch: Batch, row: int) -> Tensor:
    """The vector whose product with the row of any source is its score, read off the scores of unit vectors."""
    answer = model.entity[batch.target[row]]
    units = torch.eye(len(answer), dtype=answer.dtype)
    length = torch.full((len(units),), batch.path.shape[1])
    return model.walk(units, batch.path[row].expand(len(units), -1), length) @ answer


@pytest.mark.parametrize("hops", [1, 3])
@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_equals_brute_force(loss: str, hops: int) -> None:
    model, settings, batch = tiny_model(SPLIT), config(**LOSSES[loss]), batch_of(hops)
    negatives = NegativeSampler(settings.loss, GRAPH, 0).draw(batch)
    objective = Objective(model, settings.loss, settings.penalty)
    ours = objective(batch.source, batch.path, batch.target, negatives)
    theirs = brute_force_loss(model, batch, negatives, settings)
    torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-8)
    parameters = [model.entity, model.relation]
    for mine, expected in zip(
        torch.autograd.grad(ours, parameters), torch.autograd.grad(theirs, parameters), strict=True
    ):
        torch.testing.assert_close(mine, expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("inverses", ["own", "tied"])
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("penalty", PENALTIES)
def test_every_penalty_equals_brute_force(penalty: str, name: str, inverses: str) -> None:
    model, settings, batch = tiny_model(SPLIT, name, inverses), config(**PENALTIES[penalty]), batch_of(2)
    negatives = NegativeSampler(settings.loss, GRAPH, 0).draw(batch)
    plain = Objective(model, settings.loss, config().penalty)
    full = Objective(model, settings.loss, settings.penalty)
    arguments = (batch.source, batch.path, batch.target, negatives)
    torch.testing.assert_close(full(*arguments) - plain(*arguments), brute_force_penalty(model, batch, settings))


@pytest.mark.parametrize("inverses", ["own", "tied"])
@pytest.mark.parametrize("name", [name for name in known_models() if find_model(name).has_matrices])
def test_rules_draw_a_head_towards_the_product_of_its_body(name: str, inverses: str) -> None:
    """The distance and its gradient, against matrices read off the hops of unit vectors."""
    model = tiny_model(SPLIT, name, inverses)
    rules = PathRules(
        (torch.tensor([[1]]), torch.tensor([[0, 3], [3, 0]])),
        (torch.tensor([0]), torch.tensor([1, 1])),
        (torch.tensor([0.5]), torch.tensor([1.0, 0.25])),
    )
    units = torch.eye(model.entity.shape[1], dtype=model.entity.dtype)

    def matrix(*path: int) -> Tensor:
        moved = units
        for relation in path:
            moved = model.hop(moved, torch.full((len(units),), relation))
        return moved

    # Real matrices of complex numbers hold each number twice.
    parts = 2 if name in ("blockhole", "complex") else 1
    expected = 0.5 * (matrix(0) - matrix(1)).square().sum() / parts
    expected = expected + (matrix(1) - matrix(0, 3)).square().sum() / parts
    expected = (expected + 0.25 * (matrix(1) - matrix(3, 0)).square().sum() / parts) / 3
    ours = rule_distance(model, rules)
    torch.testing.assert_close(ours, expected)
    gradients = (torch.autograd.grad(each, model.relation)[0] for each in (ours, expected))
    torch.testing.assert_close(*gradients)


def test_rules_of_a_graph_are_those_it_follows() -> None:
    who = np.arange(40)
    first = np.stack([who, np.zeros(40), (who + 1) % 40], axis=1)
    twice = np.stack([who, np.ones(40), (who + 2) % 40], axis=1)
    graph = make_graph(np.concatenate([first, twice]), 40, 2)
    rules = PathRules.of(graph, torch.device("cpu"))
    found = {(tuple(body), int(head)) for body, head in zip(rules.body[1].tolist(), rules.head[1], strict=True)}
    assert ((0, 0), 1) in found
    assert ((1, 2), 0) in found  # two steps on and one back
    assert len(rules.head[0]) == 0
    assert all((weight == 1.0).all() for weight in rules.weight)


def test_a_penalty_that_has_no_rules_is_warned_about() -> None:
    model, settings = tiny_model(SPLIT), config(penalty__rules=0.1)
    with pytest.warns(BlockholeWarning, match=r"no rule with a PCA confidence of 0\.5 and a support of 10\.$"):
        objective = build_objective(model, settings, make_graph([(0, 0, 1)], 12, 3))
    batch = batch_of(1)
    negatives = NegativeSampler(settings.loss, GRAPH, 0).draw(batch)
    plain = Objective(model, settings.loss, config().penalty)
    arguments = (batch.source, batch.path, batch.target, negatives)
    torch.testing.assert_close(objective(*arguments), plain(*arguments))


@pytest.mark.parametrize("loss", ["logistic, corrupted paths", "softmax", "softmax, masked", "sampled"])
@pytest.mark.parametrize("name", MODELS)
def test_gradients_equal_finite_differences(name: str, loss: str) -> None:
    model, settings, batch = tiny_model(SPLIT, name), config(**LOSSES[loss], **PENALTIES["all"]), batch_of(2, count=3)
    negatives = NegativeSampler(settings.loss, GRAPH, 0).draw(batch)
    objective = Objective(model, settings.loss, settings.penalty)

    def loss_of(entity: Tensor, relation: Tensor) -> Tensor:
        swapped = {"model.entity": entity, "model.relation": relation}
        result: Tensor = torch.func.functional_call(
            objective, swapped, (batch.source, batch.path, batch.target, negatives)
        )
        return result

    inputs = (model.entity.detach().requires_grad_(), model.relation.detach().requires_grad_())
    assert torch.autograd.gradcheck(loss_of, inputs, fast_mode=True)


@pytest.mark.parametrize("kind", ["logistic", "softmax", "sampled_softmax"])
@pytest.mark.parametrize("optimizer", ["adagrad", "rowwise_adagrad"])
def test_a_step_on_gathered_rows_equals_a_dense_one(kind: str, optimizer: str) -> None:
    settings = config(loss__kind=kind, optimizer__kind=optimizer, optimizer__learning_rate=0.1, penalty__dura=0.1)
    model, reference, batch = tiny_model(SPLIT), tiny_model(SPLIT), batch_of(2)
    reported = AutogradStepper(model, settings, GRAPH).step(batch)

    negatives = NegativeSampler(settings.loss, GRAPH, settings.training.seed).draw(batch)
    objective = Objective(reference, settings.loss, settings.penalty)
    loss = objective(batch.source, batch.path, batch.target, negatives)
    loss.backward()
    with torch.no_grad():
        for parameter in (reference.entity, reference.relation):
            gradient = parameter.grad
            assert gradient is not None
            square = gradient.square()
            total = square.mean(dim=1, keepdim=True) if optimizer == "rowwise_adagrad" else square
            parameter.sub_(0.1 * gradient / (total.sqrt() + settings.optimizer.epsilon))
    torch.testing.assert_close(reported, loss.detach())
    assert_same(model, reference)


def assert_same(model: nn.Module, other: nn.Module) -> None:
    for name, value in model.state_dict().items():
        torch.testing.assert_close(value, other.state_dict()[name], rtol=1e-9, atol=1e-12)


def test_a_sample_of_all_entities_is_the_full_softmax() -> None:
    batch, model = batch_of(3), tiny_model(SPLIT)
    losses = []
    for settings in (config(loss__kind="softmax"), config(loss__kind="sampled_softmax", loss__negatives=10_000)):
        negatives = NegativeSampler(settings.loss, GRAPH, 0).draw(batch)
        losses.append(
            Objective(model, settings.loss, settings.penalty)(batch.source, batch.path, batch.target, negatives)
        )
    torch.testing.assert_close(losses[0], losses[1])


@pytest.mark.parametrize("rare", [1.0, 0.3])
def test_edges_that_share_a_query_have_the_loss_and_gradients_they_have_apart(rare: float) -> None:
    settings = config(loss__kind="softmax", loss__relation_weight=0.5, loss__rare_weight=rare, penalty__dura=0.1)
    shared = settings.model_copy(update={"training": settings.training.model_copy(update={"share_queries": True})})
    asked = torch.tensor([0, 0, 0, 1, 1, 0])  # runs of equal queries, and one that comes back
    batch = Batch(asked, torch.tensor([[1], [1], [1], [1], [0], [1]]), torch.arange(6), epoch=0, index=0)
    apart, together = tiny_model(SPLIT), tiny_model(SPLIT)
    losses = [AutogradStepper(*pair, GRAPH).step(batch) for pair in ((apart, settings), (together, shared))]
    torch.testing.assert_close(*losses)
    assert_same(apart, together)


@pytest.mark.parametrize("share", [False, True])
@pytest.mark.parametrize("kind", ["softmax", "sampled_softmax"])
@pytest.mark.parametrize("name", ["blockhole", "complex", "distmult"])
def test_members_are_trained_as_if_each_were_alone(name: str, kind: str, share: bool) -> None:
    settings = config(loss__kind=kind, loss__relation_weight=0.5, penalty__dura=0.1, training__share_queries=share)
    alone = [tiny_model(SPLIT, name, seed=seed) for seed in (1, 2)]
    together = merge_models(alone)
    both = settings.model_copy(update={"training": settings.training.model_copy(update={"members": 2})})
    losses = [AutogradStepper(model, settings, GRAPH).step(batch_of(1)) for model in alone]
    loss = AutogradStepper(together, both, GRAPH).step(batch_of(1))
    torch.testing.assert_close(loss, torch.stack(losses).mean())
    for parameter, value in merge_models(alone).state_dict().items():
        torch.testing.assert_close(together.state_dict()[parameter], value, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            {"model__name": "transe", **NO_BLOCKS},
            "training.members needs one of the models blockhole, complex and distmult",
        ),
        ({"loss__kind": "logistic"}, "training.members needs"),
        ({"loss__corrupted_paths": 1}, "training.members needs"),
        ({"model__name": "rescal", **NO_BLOCKS}, "must divide the block size"),
        ({"model__name": "blockhole", "model__blocks": 2, "model__block_size": 5}, "must divide the block size"),
    ],
)
def test_members_that_a_model_cannot_have(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        config(**{"loss__kind": "softmax", "training__members": 2, **settings})


def test_unused_rows_do_not_move() -> None:
    model, batch = tiny_model(SPLIT), batch_of(1, count=1)
    settings = config(loss__kind="logistic", loss__negatives=1)
    before = model.entity.detach().clone()
    AutogradStepper(model, settings, GRAPH).step(batch)
    moved = (model.entity.detach() != before).any(dim=1)
    drawn = NegativeSampler(settings.loss, GRAPH, 0).draw(batch).objects
    assert drawn is not None
    touched = {int(batch.source[0]), int(batch.target[0]), *drawn.flatten().tolist()}
    assert set(torch.nonzero(moved).flatten().tolist()) <= touched
    assert bool(moved.any())
