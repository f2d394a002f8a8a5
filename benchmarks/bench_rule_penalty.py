"""What drawing heads towards the products of their bodies (penalty.rules) does, on dev facts and dev paths.

    python -m benchmarks.bench_rule_penalty family [--seeds 3] [--weights 0,0.01] [--on base|paths] [--settings JSON]

Completion is MRR over validation facts. Paths are dev paths of two hops and more, ranked by composed vectors: MQ of
all, of those that train facts do not answer (induction), and of relation sequences that no train walk has (unseen).
"""

from __future__ import annotations

import argparse
import json

import numpy as np
import torch

from blockhole.data.dataset import DataSet
from blockhole.evaluation.completion import evaluate_completion
from blockhole.evaluation.path_ranking import ranking_figures
from blockhole.evaluation.ranking import rank
from blockhole.evaluation.truth import build_truth
from blockhole.fitting import fit
from blockhole.models.contract import Model
from blockhole.queries.paths import PathQueries
from blockhole.runs.config import gather, validate
from experiments.material import Material

WEIGHTS = "0,0.001,0.01,0.1,1"
SETTINGS = {
    "model.blocks": 2, "model.block_size": 25, "loss.kind": "softmax", "penalty.dura": 0.02, "training.walks": "fresh",
    "training.walks_per_edge": 1, "optimizer.learning_rate": 0.2, "training.batch_size": 512, "training.epochs": 40,
    "training.threads": 1, "training.device": "cpu",
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="+")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--weights", default=WEIGHTS)
    parser.add_argument("--on", choices=("base", "paths"), default="base")
    parser.add_argument("--settings", default="{}", help="Further settings of the training, as JSON.")
    options = parser.parse_args()
    further = json.loads(options.settings)
    for name in options.data:
        data = Material().open(name, paths=True)
        for weight in map(float, options.weights.split(",")):
            chosen = {"penalty.rules": weight, "training.on": options.on}
            found = []
            for seed in range(options.seeds):
                settings = gather(overrides={**SETTINGS, **further, **chosen, "training.seed": seed})
                found.append(_figures(fit(data, validate(settings)).model, data))
            shown = ", ".join(
                f"{figure} {np.mean(values):.3f} ± {np.std(values, ddof=1) if len(values) > 1 else 0:.3f}"
                for figure, values in {key: [each[key] for each in found] for key in found[0]}.items()
            )
            print(f"{name} on {options.on}, penalty.rules {weight:g}: {shown}", flush=True)


def _figures(model: Model, data: DataSet) -> dict[str, float]:
    truth = build_truth(data.split, "split", "valid")
    report = evaluate_completion(model, data.split.valid, truth)
    figures = {"MRR": float(report.metrics["mrr"].mean())}
    if data.has_paths:
        deduction, induction = data.paths("dev_deduction"), data.paths("dev_induction")
        queries = PathQueries.concatenate([deduction, induction])
        ranks = rank(model, queries, truth, device=torch.device("cpu"))
        train = data.paths("train")
        seen = {tuple(path[:length]) for path, length in zip(train.path.tolist(), train.length.tolist(), strict=True)}
        own = zip(queries.path.tolist(), queries.length.tolist(), strict=True)
        unseen = np.array([tuple(path[:length]) not in seen for path, length in own])
        several = queries.length > 1
        parts = {
            "paths": several,
            "induction": several & (np.arange(len(queries)) >= len(deduction)),
            "unseen": several & unseen,
        }
        for name, part in parts.items():
            if part.any():
                figures[f"{name} ({part.sum()})"] = ranking_figures(ranks.take(part)).to_dict()["mq"]
    return figures


if __name__ == "__main__":
    main()
