"""Times PyKEEN's filtered evaluator for `bench_evaluate.py`, one JSON object; runs where PyKEEN is installed."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
import pykeen
import torch
from pykeen.evaluation import RankBasedEvaluator
from pykeen.models import ComplEx
from pykeen.triples import CoreTriplesFactory


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--triples", type=Path, required=True)
    parser.add_argument("--dim", type=int, required=True)
    parser.add_argument("--batch-sizes", type=int, nargs="+", required=True)
    parser.add_argument("--repeats", type=int, required=True)
    options = parser.parse_args()
    torch.set_num_threads(1)
    arrays = np.load(options.triples)
    num_entities, num_relations = arrays["sizes"].tolist()
    train, test = (torch.from_numpy(arrays[part].astype(np.int64)) for part in ("train", "test"))
    factory = CoreTriplesFactory.create(train, num_entities, num_relations)
    model = ComplEx(triples_factory=factory, embedding_dim=options.dim, random_seed=0)
    found = []
    for batch_size in options.batch_sizes:
        for _ in range(options.repeats):
            evaluator = RankBasedEvaluator(filtered=True)
            wall, processor = time.perf_counter(), time.process_time()
            evaluator.evaluate(model, test, additional_filter_triples=[train], batch_size=batch_size, use_tqdm=False)
            found.append((time.process_time() - processor, time.perf_counter() - wall, batch_size))
    processor, wall, batch_size = min(found)
    queries = 2 * len(test)
    print(
        json.dumps(
            {
                "queries_per_second": round(queries / wall, 1),
                "queries_per_processor_second": round(queries / processor, 1),
                "batch_size": batch_size,
                "version": f"pykeen {pykeen.get_version()}",
            }
        )
    )


if __name__ == "__main__":
    main()
