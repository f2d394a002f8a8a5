"""The layers hold, the command line starts fast, and the core needs few packages."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "blockhole"
HEAVY = ("torch", "polars", "numba", "scipy", "matplotlib", "pyoxigraph", "pydantic", "pandas", "networkx")


def _imported(statement: str) -> set[str]:
    """The top-level modules that are loaded after `statement` in a fresh interpreter."""
    code = f"{statement}\nimport sys\nprint(*{{name.partition('.')[0] for name in sys.modules}})"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(result.stdout.split())


@pytest.mark.parametrize("module", ["blockhole", "blockhole.cli.main"])
def test_the_way_in_imports_nothing_heavy(module: str) -> None:
    assert not _imported(f"import {module}") & set(HEAVY)


def test_the_core_imports_without_tables_and_compilers() -> None:
    core = ("graph.knowledge_graph", "queries.paths", "models.catalogue", "training.trainer", "evaluation.ranking")
    absent = {"polars", "numba", "scipy", "matplotlib", "pyoxigraph", "pandas", "networkx", "pooch"}
    assert not _imported("import " + ", ".join(f"blockhole.{module}" for module in core)) & absent


def test_ties_are_put_in_order_without_tables() -> None:
    order = "Vocabulary(['b', 'a']).alphabetical.tolist() == [1, 0]"
    assert "polars" not in _imported(f"from blockhole.graph.vocabulary import Vocabulary\nassert {order}")


def _sources() -> dict[str, str]:
    """Every module by its dotted name."""
    sources = {}
    for path in PACKAGE.rglob("*.py"):
        name = ".".join(("blockhole", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")
        sources[name] = path.read_text(encoding="utf-8")
    return sources


def _executed(node: ast.AST) -> Iterator[ast.AST]:
    """The node and all below it but what type checkers alone read."""
    if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _executed(child)


def _imports(source: str, modules: set[str]) -> set[str]:
    """The modules of the package that a source imports, at once or when a function is called."""
    named: set[str] = set()
    for node in _executed(ast.parse(source)):
        if isinstance(node, ast.Import):
            named |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            inside = {f"{node.module}.{alias.name}" for alias in node.names} & modules
            named |= inside or {node.module}
    return named & modules


def test_imports_make_no_cycle_not_even_deferred_ones() -> None:
    sources = _sources()
    graph = {name: _imports(source, set(sources)) - {name} for name, source in sources.items()}
    assert graph["blockhole.cli.ask"] > {"blockhole.cli.output", "blockhole.answering.engine"}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as cycle:
        pytest.fail(" imports ".join(reversed(cycle.args[1])))


def _is_compiled(node: ast.AST) -> bool:
    """Whether a function is one that Numba compiles, or a call compiles one."""
    made = node.decorator_list if isinstance(node, ast.FunctionDef) else [node]
    return any(isinstance(part, ast.Name) and part.id == "njit" for each in made for part in ast.walk(each))


def test_compiled_loops_call_nothing_of_another_file() -> None:
    """Numba's cache looks at the file of a loop alone: what it calls elsewhere could change, and the loop would not.

    SplitMix64 is a formula with published numbers, which tests/queries/test_walks.py holds.
    """
    elsewhere, modules = set(), 0
    for name, source in _sources().items():
        tree = ast.parse(source)
        compiled = [
            node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.Call) and _is_compiled(node)
        ]
        if name == "blockhole.compiled" or not compiled:
            continue
        modules += 1
        imported = {
            alias.asname or alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("blockhole")
            for alias in node.names
        } - {"njit", "prange", "FAST"}
        for node in compiled:
            parts = node.body if isinstance(node, ast.FunctionDef) else [node]
            elsewhere |= {
                f"{name}: {part.id}"
                for each in parts
                for part in ast.walk(each)
                if isinstance(part, ast.Name) and part.id in imported
            }
    assert modules >= 4
    assert elsewhere == {"blockhole.training.kernels.loops: split_mix"}
