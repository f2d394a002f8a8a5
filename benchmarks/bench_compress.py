"""Quality against the numbers that relations keep: dev paths ranked by runs compressed more and more.

python -m benchmarks.bench_compress RUN … [--queries 4000]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch

import blockhole
from blockhole.evaluation.path_ranking import ranking_figures
from blockhole.evaluation.ranking import rank
from blockhole.evaluation.truth import build_truth, queries_of
from blockhole.runs.compressing import most_important

SHARES = (1.0, 0.75, 0.5, 0.4, 0.3, 0.2, 0.1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--queries", type=int, default=4000, help="dev paths, drawn once")
    options = parser.parse_args()
    for folder in options.runs:
        run = blockhole.Run.open(folder)
        data = run.load_data()
        assert data is not None
        truth, queries = build_truth(data.split, "split", "valid"), queries_of(data, "dev")
        queries = queries.take(np.random.default_rng(0).permutation(len(queries))[: options.queries])
        relation = run.model.relation.detach().clone()
        for share in SHARES:
            with torch.no_grad():
                run.model.relation.copy_(relation)
                run.model.relation.masked_fill_(~most_important(run.model, share), 0.0)
            figures = ranking_figures(rank(run.model, queries, truth)).to_dict()
            kept = int((run.model.relation != 0).sum())
            print(
                f"{folder.name}: {share:.2f} kept ({kept:,} of {relation.numel():,}), dev MQ {figures['mq']:.2f}, "
                f"P@10 {figures['p_at_10']:.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
