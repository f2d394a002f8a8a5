"""Mutation testing: change the source in one place at a time, and see whether a test notices.

`python scripts/mutation.py` mutates the modules of `TESTS_OF`, prints each survivor that scripts/mutation.md gives no
reason for, and the share of mutants that are alive; it fails where that is more than a tenth. Cosmic Ray makes the
mutants; the runs are here, because a process that is forked when torch has been imported begins to test at once,
which saves two thirds of the time. Names of modules narrow the run: `python scripts/mutation.py language walks`.
"""

from __future__ import annotations

import argparse
import ast
import gc
import importlib
import importlib.util
import math
import os
import resource
import signal
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
DOCUMENT = ROOT / "scripts" / "mutation.md"
PACKAGE = ROOT / "src" / "blockhole"
MOST_ALIVE = 0.1
PATIENCE = 4
"""A mutant that takes this many times the processor time of the unchanged module, and a second, would never end."""

_ANSWERS = (
    "tests/queries/test_answer_loops.py",
    "tests/queries/test_exact_answers.py",
    "tests/queries/test_exact_trees.py",
)
_LANGUAGE = ("tests/queries/test_language.py", "tests/queries/test_typed.py")
TESTS_OF: dict[str, tuple[str, ...]] = {
    "models/circulant.py": ("tests/models/test_circulant.py",),
    "evaluation/ranking.py": (
        "tests/evaluation/test_ranking_blocks.py",
        "tests/evaluation/test_devices.py",
        "tests/evaluation/test_ranking.py",
        "tests/evaluation/test_completion.py",
    ),
    "queries/answer_loops.py": _ANSWERS,
    "queries/answer_masks.py": _ANSWERS,
    "queries/exact.py": _ANSWERS,
    "queries/path_sets.py": ("tests/queries/test_builder.py", "tests/queries/test_guu.py"),
    "queries/paths.py": ("tests/queries/test_builder.py", "tests/queries/test_queries.py"),
    "queries/language.py": _LANGUAGE,
    "queries/missing.py": ("tests/queries/test_missing.py",),
    "queries/plans.py": ("tests/queries/test_exact_trees.py",),
    "queries/query_sampling.py": ("tests/queries/test_query_sampling.py",),
    "queries/query_sets.py": ("tests/queries/test_query_sets.py",),
    "queries/stored_sets.py": ("tests/queries/test_query_sets.py",),
    "queries/tokens.py": _LANGUAGE,
    "queries/tree.py": (*_LANGUAGE, "tests/queries/test_exact_trees.py"),
    "queries/typed.py": _LANGUAGE,
    "queries/walks.py": ("tests/queries/test_walks.py",),
}
"""Which tests are to notice a change of a module: those written for it, so that a mutant takes seconds."""

# One or two replacements of each operator: its nearest neighbours, which are harder to notice than the others.
_OPERATORS = (
    *(f"ReplaceBinaryOperator_{pair}" for pair in (
        "Add_Sub", "Sub_Add", "Mul_Add", "Mul_FloorDiv", "Div_Mul", "FloorDiv_Mul", "Mod_FloorDiv", "Pow_Mul",
        "RShift_LShift", "LShift_RShift", "BitOr_BitAnd", "BitAnd_BitOr", "BitXor_BitAnd",
    )),
    *(f"ReplaceComparisonOperator_{pair}" for pair in (
        "Lt_LtE", "Lt_GtE", "LtE_Lt", "LtE_Gt", "Gt_GtE", "Gt_LtE", "GtE_Gt", "GtE_Lt", "Eq_NotEq", "NotEq_Eq",
        "Is_IsNot", "IsNot_Is",
    )),
    "ReplaceUnaryOperator_Delete_USub", "ReplaceUnaryOperator_Delete_Not", "ReplaceUnaryOperator_Delete_Invert",
    "AddNot", "ReplaceTrueWithFalse", "ReplaceFalseWithTrue", "ReplaceAndWithOr", "ReplaceOrWithAnd",
    "ReplaceBreakWithContinue", "ReplaceContinueWithBreak", "ExceptionReplacer", "NumberReplacer", "RemoveDecorator",
    "ZeroIterationForLoop",
)  # fmt: skip


class Mutant(NamedTuple):
    """One change of one module: its whole new source, and the lines that differ."""

    module: str
    source: str
    before: str
    after: str

    def row(self) -> str:
        """How scripts/mutation.md names it: without its module, so that a line can move."""
        return f"- `{self.before}` → `{self.after}`\n"


def mutants(module: str) -> Iterator[Mutant]:
    """Every mutant of a module that is another program."""
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator

    source = (PACKAGE / module).read_text(encoding="utf-8")
    seen = {_program(source)}
    for name in _OPERATORS:
        operator = get_operator(f"core/{name}")()
        occurrence = 0
        while (mutated := mutate_code(source, operator, occurrence)) is not None:
            occurrence += 1
            program = _program(mutated)
            if program is not None and program not in seen:
                seen.add(program)
                yield Mutant(module, mutated, *_difference(source, mutated))


def _program(source: str) -> str | None:
    """What of a source is executed, none where it cannot be.

    Annotations are not, `@final` and `TYPE_CHECKING` are for the type checker, and `@njit` changes the time a function
    takes alone.
    """
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.arg | ast.AnnAssign):
            node.annotation = ast.Constant(None)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            node.test, node.body = ast.Constant(False), []
        if isinstance(node, ast.FunctionDef):
            node.returns = None
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            idle = ("final", "njit")
            node.decorator_list = [each for each in node.decorator_list if getattr(each, "id", None) not in idle]
    return ast.dump(tree)


def _difference(source: str, mutated: str) -> tuple[str, str]:
    old, new = source.splitlines(), mutated.splitlines()
    first = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    removed = len(old) - len(new)
    return old[first].strip(), new[first].strip() if not removed else "(removed)"


class _MutantLoader(SourceFileLoader):
    """Loads a module from the source of a mutant; nothing is written, so no cache can serve the old code."""

    def __init__(self, mutant: Mutant, name: str, path: str) -> None:
        super().__init__(name, path)
        self._source = mutant.source

    def get_code(self, fullname: str) -> CodeType:
        return compile(self._source, self.path, "exec", dont_inherit=True)


class _MutantFinder(MetaPathFinder):
    """Finds the mutant where its module is imported."""

    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant
        self._name = "blockhole." + mutant.module.removesuffix(".py").replace("/", ".")

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._name:
            return None
        file = PACKAGE / self._mutant.module
        return importlib.util.spec_from_file_location(
            fullname, file, loader=_MutantLoader(self._mutant, fullname, str(file))
        )


def start_testing(mutant: Mutant, seconds: float = 600.0) -> int:
    """Begin to test a mutant in a child process, which ends with 0 where all tests pass; its id."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(seconds), math.ceil(seconds)))
        signal.alarm(600)  # a wait that never ends takes no processor time
        with open(os.devnull, "w", encoding="utf-8") as silence:
            os.dup2(silence.fileno(), 1)
            os.dup2(silence.fileno(), 2)
        sys.meta_path.insert(0, _MutantFinder(mutant))
        plugins = ["-p", "no:cacheprovider", "-p", "_hypothesis_pytestplugin", "--hypothesis-profile=mutation"]
        code = int(sys.modules["pytest"].main(["-x", "--assert=plain", *plugins, *TESTS_OF[mutant.module]]))
    finally:
        os._exit(code)


def seconds_unchanged(module: str) -> float:
    """The processor time that the tests of a module take as it stands."""
    source = (PACKAGE / module).read_text(encoding="utf-8")
    _, status, used = os.wait4(start_testing(Mutant(module, source, "", "")), 0)
    if status:
        raise SystemExit(f"the tests of {module} fail as it stands; run them with pytest.")
    return used.ru_utime + used.ru_stime


def survivors(candidates: Iterable[Mutant], seconds: float, processes: int) -> Iterator[Mutant]:
    """The mutants that pass all tests, so many tested at a time."""
    testing: dict[int, Mutant] = {}

    def finished() -> Iterator[Mutant]:
        child, status = os.wait()
        mutant = testing.pop(child)
        if status == 0:
            yield mutant

    for mutant in candidates:
        if len(testing) == processes:
            yield from finished()
        testing[start_testing(mutant, seconds)] = mutant
    while testing:
        yield from finished()


def prepare() -> None:
    """Import what all tests need, once; and have them draw the same examples each time, and shrink none."""
    os.environ.pop("BLOCKHOLE_DATA", None)  # real graphs take minutes
    os.environ.update(OMP_NUM_THREADS="1", NUMBA_DISABLE_JIT="1", PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    os.chdir(ROOT)
    sys.path[:0] = [str(ROOT), str(ROOT / "src")]
    # Polars is not among them: its threads do not survive a fork.
    for name in ("pytest", "torch.testing", "torch.distributed.tensor", "numba", "scipy.stats", "pyoxigraph"):
        importlib.import_module(name)
    from hypothesis import HealthCheck, Phase, settings

    settings.register_profile(
        "mutation",
        deadline=None,
        database=None,
        derandomize=True,
        phases=(Phase.explicit, Phase.generate),
        suppress_health_check=list(HealthCheck),
    )
    gc.freeze()  # else each child begins by looking through all of torch for what is no longer used


def main() -> int:
    """Test the mutants of the named modules, or of all; print what is alive."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="*", metavar="MODULE", help="such as language or walks (default: all)")
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="how many are tested at a time")
    options = parser.parse_args()
    by_name = {Path(module).stem: module for module in TESTS_OF}
    if unknown := set(options.modules) - set(by_name):
        parser.error(f"no tests are listed for {', '.join(sorted(unknown))}; the modules are {', '.join(by_name)}")
    prepare()
    chosen = [by_name[name] for name in options.modules or by_name]
    documented = DOCUMENT.read_text(encoding="utf-8") if DOCUMENT.exists() else ""
    total = alive = unexplained = 0
    for module in chosen:
        begin = time.monotonic()
        seconds = seconds_unchanged(module)
        made, living = list(mutants(module)), 0
        for mutant in survivors(made, 1 + PATIENCE * seconds, options.processes):
            living += 1
            if mutant.row() not in documented:
                unexplained += 1
                print(mutant.row(), end="", flush=True)
        print(f"{module}: {living} of {len(made)} alive, {time.monotonic() - begin:.0f} s", flush=True)
        total, alive = total + len(made), alive + living
    share = alive / total
    print(f"{alive} of {total} mutants alive: {100 * share:.1f} %; {unexplained} without a reason in {DOCUMENT.name}")
    return int(share > MOST_ALIVE or unexplained > 0)


if __name__ == "__main__":
    sys.exit(main())
