"""How many queries a built path set has, over several seeds, beside the published set; prints one JSON object.

BLOCKHOLE_DATA=folder python -m benchmarks.build_counts wn11 --seeds 14
"""

from __future__ import annotations

import argparse
import json
import warnings

import numpy as np

from blockhole.data.dataset import load
from blockhole.errors import BlockholeWarning
from blockhole.queries.path_sets import PATH_PARTS, build_paths


def totals(counts: dict[str, int]) -> list[int]:
    """Train, dev and test, the latter two with deduction and induction together."""
    return [sum(count for part, count in counts.items() if part.startswith(name)) for name in ("train", "dev", "test")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name")
    parser.add_argument("--seeds", type=int, default=4)
    options = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BlockholeWarning)
        data = load(options.name)
    built = np.array([totals(build_paths(data.split, seed=seed).counts()) for seed in range(options.seeds)])
    report = {
        "data": options.name,
        "seeds": options.seeds,
        "published": totals({part: len(data.paths(part)) for part in PATH_PARTS}),
        "mean": built.mean(axis=0).round().tolist(),
        "deviation": built.std(axis=0, ddof=1).round().tolist(),
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
