"""How many triples a second the readers take in, from the file to int arrays and vocabularies; prints one JSON object.

    python benchmarks/bench_readers.py --triples 3000000

The graph is synthetic: sources and targets over a fifth as many entities as triples, IRIs of usual length, every
fifth N-Triples object a literal. Each figure is the best of several runs, with the CPU seconds of that run: wall time
above CPU time over cores means that the machine was busy elsewhere.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

from blockhole.files.readers import read_graph


def write_files(folder: Path, triples: int, seed: int) -> None:
    """The same graph as N-Triples (canonical, and spelled so that pyoxigraph must parse it), TSV and Parquet."""
    generator = np.random.default_rng(seed)
    source, target = (pl.Series(generator.integers(0, triples // 5, triples)).cast(pl.String) for _ in range(2))
    relation = pl.Series(generator.integers(0, 200, triples)).cast(pl.String)
    literal = pl.Series(np.arange(triples) % 5 == 0)
    facts = pl.DataFrame({"source": source, "relation": relation, "target": target}).select(
        source=pl.format("<http://example.org/resource/Entity_{}>", "source"),
        relation=pl.format("<http://example.org/ontology/relation{}>", "relation"),
        target=pl.when(literal)
        .then(pl.format('"value {}"@en', "target"))
        .otherwise(pl.format("<http://example.org/resource/Entity_{}>", "target")),
    )
    facts.write_parquet(folder / "facts.parquet")
    facts.write_csv(folder / "facts.tsv", separator="\t", include_header=False, quote_style="never")
    statements = facts.with_columns(end=pl.lit("."))
    statements.write_csv(folder / "facts.nt", separator=" ", include_header=False, quote_style="never")
    statements.write_csv(folder / "tabs.nt", separator="\t", include_header=False, quote_style="never")


def measure(path: Path, triples: int, repeats: int) -> dict[str, float]:
    best = {"triples_per_second": 0.0}
    for _ in range(repeats):
        wall, cpu = time.perf_counter(), time.process_time()
        assert len(read_graph(path)) == triples
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        if triples / wall > best["triples_per_second"]:
            best = {
                "triples_per_second": round(triples / wall),
                "seconds": round(wall, 3),
                "cpu_seconds": round(cpu, 3),
            }
    return best | {"megabytes": round(path.stat().st_size / 1e6, 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--triples", type=int, default=3_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    names = {"n_triples": "facts.nt", "n_triples_with_tabs": "tabs.nt", "tsv": "facts.tsv", "parquet": "facts.parquet"}
    with tempfile.TemporaryDirectory() as folder:
        write_files(Path(folder), arguments.triples, arguments.seed)
        figures = {
            name: measure(Path(folder) / file, arguments.triples, arguments.repeats) for name, file in names.items()
        }
    print(json.dumps({"triples": arguments.triples, "cores": os.cpu_count(), **figures}))


if __name__ == "__main__":
    main()
