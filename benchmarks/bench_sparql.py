"""How fast SPARQL's joint answers come, on one core: the ten best predicted rows of trees, engine open.

    python -m benchmarks.bench_sparql RUN [--count 20] [--seed 0]

prints one JSON object: median, 95th percentile and maximum of wall and processor time in milliseconds, by shape of the
pattern. Queries are made of facts of the run's own graph, each with one entity named, all others variables:

- path:  a r ?x . ?x s ?y . ?y t ?z
- star:  a r ?x . ?x s ?y . ?x t ?z
- fork:  a r ?x . a s ?y . ?y t ?z
"""

from __future__ import annotations

import argparse
import json
from time import perf_counter, process_time
from typing import Any

import numpy as np

from blockhole.answering.engine import Engine
from blockhole.answering.sparql.results import Solutions
from blockhole.errors import BlockholeError
from blockhole.files.rdf import node_terms, relation_terms
from blockhole.machine import one_blas_thread

SHAPES = {
    "path": ((None, "x"), ("x", "y"), ("y", "z")),
    "star": ((None, "x"), ("x", "y"), ("x", "z")),
    "fork": ((None, "x"), (None, "y"), ("y", "z")),
}
"""The edges of each pattern, from the entity that is named (None) or from a variable, to a variable."""


def trees(engine: Engine, shape: str, count: int, seed: int) -> list[str]:
    """Queries that facts answer; each edge is one of those that leave where the pattern has come to."""
    rng = np.random.default_rng(seed)
    adjacency, graph = engine.graph.adjacency, engine.graph
    with_facts = np.flatnonzero(np.diff(adjacency.group_start))
    found: dict[str, None] = {}
    while len(found) < count:
        start = int(rng.choice(with_facts))
        at: dict[str | None, int] = {None: start}
        lines = []
        for source, target in SHAPES[shape]:
            relation = int(rng.choice(adjacency.relations(at[source])))
            at[target] = int(rng.choice(adjacency.neighbours(at[source], relation)))
            name, inverse = graph.relation_name(relation)
            hop = "^" * inverse + relation_terms([name])[0]
            subject = node_terms([graph.entities[start]], [True])[0] if source is None else f"?{source}"
            if not subject.startswith('"'):
                lines.append(f"{subject} {hop} ?{target} .")
        if len(lines) == len(SHAPES[shape]):
            where = " ".join(lines)
            found[f'SELECT ?x ?y ?z ?probability {{ {where} FILTER(?status = "predicted") }} LIMIT 10'] = None
    return list(found)


def measure(engine: Engine, queries: list[str]) -> dict[str, Any]:
    """Milliseconds of queries; each is asked once before, so that nothing is made for the first time."""
    wall, cpu, rows, refused, incomplete = [], [], 0, 0, 0
    for query in queries:
        try:
            engine.sparql(query)
            began, used = perf_counter(), process_time()
            result = engine.sparql(query)
        except BlockholeError as failure:
            refused += 1
            print(f"# {failure}\n# {query}")
            continue
        wall.append(1000 * (perf_counter() - began))
        cpu.append(1000 * (process_time() - used))
        assert isinstance(result, Solutions)
        rows += len(result)
        incomplete += not result.complete
    report: dict[str, Any] = {"queries": len(wall), "rows": rows, "refused": refused, "not_proven": incomplete}
    for name, times in (("wall_ms", wall), ("cpu_ms", cpu)):
        if times:
            p50, p95 = np.percentile(times, [50, 95])
            report[name] = {"p50": round(p50, 1), "p95": round(p95, 1), "max": round(max(times), 1)}
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run")
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    engine = Engine.open(arguments.run, calibrated=True)
    with one_blas_thread():
        report = {shape: measure(engine, trees(engine, shape, arguments.count, arguments.seed)) for shape in SHAPES}
    print(json.dumps({"run": arguments.run, "entities": engine.graph.num_entities} | report, indent=1))


if __name__ == "__main__":
    main()
