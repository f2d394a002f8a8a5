"""Trains PyKEEN's ComplEx for `bench_predict.py` and lists its best new facts by `predict_all`; needs PyKEEN."""

from __future__ import annotations

import argparse
import json
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pykeen
import torch
from pykeen.evaluation import RankBasedEvaluator
from pykeen.models import ComplEx
from pykeen.predict import predict_all
from pykeen.training import SLCWATrainingLoop
from pykeen.training.callbacks import TrainingCallback
from pykeen.triples import CoreTriplesFactory


class TimeOver(Exception):
    """The processor time that was given is spent."""


class Clock(TrainingCallback):  # type: ignore[misc]
    """Ends training after so many seconds of processor time."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.end = time.process_time() + seconds
        self.epochs = 0

    def post_batch(self, epoch: int, batch: Any, **kwargs: Any) -> None:
        if time.process_time() > self.end:
            raise TimeOver

    def post_epoch(self, epoch: int, epoch_loss: float, **kwargs: Any) -> None:
        self.epochs = epoch


def peak_mb() -> int:
    """The most memory this process has held; getrusage would count that of the process it was forked from."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return round(int(line.split()[1]) / 1024)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--triples", type=Path, required=True)
    parser.add_argument("--dim", type=int, required=True)
    parser.add_argument("--train-seconds", type=float, required=True)
    parser.add_argument("--top", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    arrays = np.load(options.triples)
    num_entities, num_relations = arrays["sizes"].tolist()
    train, valid, test = (arrays[part].astype(np.int64) for part in ("train", "valid", "test"))
    factory = CoreTriplesFactory.create(torch.from_numpy(train), num_entities, num_relations)
    # Drawn with its own deviation of 1, relations of few facts keep the highest scores of all, whatever is trained; and
    # `train` draws weights anew, so that what is set from outside would be lost.
    model = ComplEx(
        triples_factory=factory,
        embedding_dim=options.dim,
        entity_initializer=partial(torch.nn.init.normal_, std=0.1),
        relation_initializer=partial(torch.nn.init.normal_, std=0.1),
        random_seed=0,
    )
    clock = Clock(options.train_seconds)
    loop = SLCWATrainingLoop(
        model=model,
        triples_factory=factory,
        optimizer=torch.optim.Adagrad(model.parameters(), lr=0.1),
        negative_sampler_kwargs={"num_negs_per_pos": 16},
    )
    with suppress(TimeOver):
        loop.train(triples_factory=factory, num_epochs=1000, batch_size=512, use_tqdm=False, callbacks=clock)
    wall, processor = time.perf_counter(), time.process_time()
    pack = predict_all(model, k=options.top + len(train) + len(valid), batch_size=1024)
    listed = pack.result[pack.scores.argsort(descending=True)].numpy()  # it keeps the best in no order
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    evaluator = RankBasedEvaluator(filtered=True)
    ranks = evaluator.evaluate(
        model, torch.from_numpy(valid), additional_filter_triples=[factory.mapped_triples], use_tqdm=False
    )
    known = {tuple(fact) for fact in train.tolist()}
    left_out, sought = ({tuple(fact) for fact in facts.tolist()} for facts in (np.concatenate([train, valid]), test))
    new = [fact for fact in map(tuple, listed.tolist()) if fact not in left_out][: options.top]
    found = np.array([fact in sought for fact in new])
    print(
        json.dumps(
            {
                "version": f"pykeen {pykeen.get_version()}",
                "epochs": clock.epochs,
                "seconds": round(wall, 1),
                "processor_seconds": round(processor, 1),
                "peak_rss_mb": peak_mb(),
                # Whether it has learned at all: a list of one that has not measures nothing.
                "valid_mrr": round(ranks.get_metric("both.realistic.inverse_harmonic_mean_rank"), 4),
                "train_facts_among_first": float(
                    np.mean([tuple(fact) in known for fact in listed[: options.top].tolist()])
                ),
                "precision_at": {str(top): float(found[:top].mean()) for top in (100, options.top)},
            }
        )
    )


if __name__ == "__main__":
    main()
