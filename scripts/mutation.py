"""Mutation testing: change the source in one place at a time, and see whether a test notices.

`python scripts/mutation.py` mutates the modules of `TESTS_OF`, prints each survivor that scripts/mutation.md gives no
reason for, and the share of mutants that are alive; it fails where that is more than a tenth. Cosmic Ray makes the
mutants; the runs are here, because a process that is forked when torch has been imported begins to test at once, and
because the tests that call a function come first when it is changed, the quickest before all others. Names of modules
narrow the run: `python scripts/mutation.py language walks`. `--sample 600 --seed 0` draws so many of all their mutants,
and says between which bounds the share of all lies.
"""

from __future__ import annotations

import argparse
import ast
import gc
import importlib
import importlib.util
import json
import math
import os
import random
import resource
import signal
import sys
import time
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from types import CodeType, ModuleType
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]
DOCUMENT = ROOT / "scripts" / "mutation.md"
PACKAGE = ROOT / "src" / "blockhole"
MOST_ALIVE = 0.1
PATIENCE = 4
"""A mutant that takes this many times the processor time of the unchanged module, and two seconds, would never end."""

_ANSWERS = (
    "tests/queries/test_answer_loops.py",
    "tests/queries/test_exact_answers.py",
    "tests/queries/test_exact_trees.py",
)
_LANGUAGE = ("tests/queries/test_language.py", "tests/queries/test_typed.py")
TESTS_OF: dict[str, tuple[str, ...]] = {
    "answering/auditing.py": ("tests/answering/test_auditing.py",),
    "answering/calibrating.py": ("tests/answering/test_calibration.py", "tests/answering/test_merged_parts.py"),
    "answering/calibration.py": ("tests/answering/test_calibration.py",),
    "answering/connections.py": ("tests/answering/test_connections.py",),
    "answering/device.py": ("tests/answering/test_device.py", "tests/answering/test_merged_parts.py"),
    "answering/engine.py": ("tests/answering/test_engine.py", "tests/answering/test_library.py"),
    "answering/hops.py": (
        "tests/answering/test_hops.py",
        "tests/answering/test_search.py",
        "tests/answering/test_predicting.py",
    ),
    "answering/known.py": ("tests/answering/test_next_relations.py", "tests/answering/test_new_entities.py"),
    "answering/new_facts.py": ("tests/answering/test_new_entities.py",),
    "answering/normalisers.py": ("tests/answering/test_hops.py", "tests/answering/test_calibration.py"),
    "answering/predicting.py": ("tests/answering/test_predicting.py",),
    "answering/proofs.py": ("tests/answering/test_proofs.py",),
    "answering/query_files.py": ("tests/answering/test_query_files.py",),
    "answering/search.py": ("tests/answering/test_search.py",),
    "answering/sweep.py": ("tests/answering/test_sweep.py",),
    "answering/vectors.py": (
        "tests/answering/test_connections.py",
        "tests/answering/test_search.py",
        "tests/answering/test_merged_parts.py",
    ),
    "models/circulant.py": ("tests/models/test_circulant.py",),
    "evaluation/baselines.py": ("tests/evaluation/test_baselines.py",),
    "evaluation/ranking.py": (
        "tests/evaluation/test_ranking_blocks.py",
        "tests/evaluation/test_devices.py",
        "tests/evaluation/test_ranking.py",
        "tests/evaluation/test_completion.py",
    ),
    "queries/answer_loops.py": _ANSWERS,
    "queries/answer_masks.py": _ANSWERS,
    "queries/bodies.py": ("tests/queries/test_bodies.py",),
    "queries/exact.py": _ANSWERS,
    "queries/path_sets.py": ("tests/queries/test_builder.py", "tests/queries/test_guu.py"),
    "queries/paths.py": ("tests/queries/test_builder.py", "tests/queries/test_queries.py"),
    "queries/language.py": _LANGUAGE,
    "queries/missing.py": ("tests/queries/test_missing.py",),
    "queries/plans.py": ("tests/queries/test_exact_trees.py",),
    "queries/query_sampling.py": ("tests/queries/test_query_sampling.py",),
    "queries/query_sets.py": ("tests/queries/test_query_sets.py",),
    "queries/repairs.py": ("tests/serving/test_pages.py",),
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
    """One change of one module: its whole new source, the line that differs and its number, from 1."""

    module: str
    source: str
    before: str
    after: str
    line: int

    def row(self) -> str:
        """How scripts/mutation.md names it: without its module, so that a line can move."""
        return f"- `{self.before}` → `{self.after}`\n"


def mutants(module: str) -> Iterator[Mutant]:
    """Every mutant of a module that is another program."""
    import parso
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator

    source = (PACKAGE / module).read_text(encoding="utf-8")
    operators = [get_operator(f"core/{name}")() for name in _OPERATORS]
    end = 0
    # Each statement alone: Cosmic Ray parses all that it gets, for every mutant.
    for part in parso.parse(source).children:  # type: ignore[no-untyped-call]
        statement = part.get_code()
        begin, end = end, end + len(statement)
        seen = {_program(statement)}
        for operator in operators:
            for occurrence in count():
                try:
                    changed = mutate_code(statement, operator, occurrence)
                except AttributeError:  # Cosmic Ray replaces no exception with a dot in its name
                    continue
                if changed is None:
                    break
                program = _program(changed)
                if program is not None and program not in seen:
                    seen.add(program)
                    mutated = source[:begin] + changed + source[end:]
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


def _difference(source: str, mutated: str) -> tuple[str, str, int]:
    old, new = source.splitlines(), mutated.splitlines()
    first = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    removed = len(old) - len(new)
    while removed and not old[first].strip():  # blank lines go with what is removed
        first += 1
    return old[first].strip(), new[first].strip() if not removed else "(removed)", first + 1


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


class Recorder:
    """A plugin of pytest that notes how long each test takes, and which lines of a file it runs."""

    def __init__(self, file: Path) -> None:
        self._file = str(file)
        self.ran: dict[str, set[int]] = {}
        self.seconds: dict[str, float] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Run one test."""
        from coverage import Coverage

        # Compiled, and blind to all other files: to hear of every call in Python takes most of a minute for some tests.
        tracer = Coverage(data_file=None, include=[self._file], config_file=False)
        tracer.set_option("run:disable_warnings", ["no-data-collected"])  # many tests run no line of the file
        begin = time.process_time()
        tracer.start()
        try:
            return (yield)
        finally:
            tracer.stop()
            self.seconds[item.nodeid] = time.process_time() - begin
            self.ran[item.nodeid] = set(tracer.get_data().lines(self._file) or ())

    def order(self, source: str, line: int) -> list[str]:
        """The tests that run the function which a line is in, then all others; each time the quickest first."""
        begin, end = function_at(source, line)
        return sorted(
            self.seconds,
            key=lambda test: (not any(begin <= each <= end for each in self.ran[test]), self.seconds[test]),
        )


def function_at(source: str, line: int) -> tuple[int, int]:
    """The lines of the function or method around a line, with its decorators; of the whole where there is none."""
    for node in ast.walk(ast.parse(source)):  # outer ones first
        if isinstance(node, ast.FunctionDef):
            begin = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            if begin <= line <= (node.end_lineno or begin):
                return begin, node.end_lineno or begin
    return 1, len(source.splitlines())


class _Ordered:
    """A plugin of pytest that runs tests in an order."""

    def __init__(self, tests: Sequence[str]) -> None:
        self._place = {test: place for place, test in enumerate(tests)}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Called when all tests are known."""
        items.sort(key=lambda item: self._place.get(item.nodeid, -1))


def run_tests(module: str, plugin: object) -> int:
    """Run the tests of a module in this process, silently; 0 where all pass."""
    with open(os.devnull, "w", encoding="utf-8") as silence:
        os.dup2(silence.fileno(), 1)
        os.dup2(silence.fileno(), 2)
    plugins = ["-p", "no:cacheprovider", "-p", "_hypothesis_pytestplugin", "--hypothesis-profile=mutation"]
    return int(pytest.main(["-x", "--assert=plain", *plugins, *TESTS_OF[module]], plugins=[plugin]))


def start_testing(mutant: Mutant, tests: Sequence[str], seconds: float) -> int:
    """Begin to test a mutant in a child process, which ends with 0 where all tests pass; its id."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(seconds), math.ceil(seconds)))
        signal.alarm(600)  # a wait that never ends takes no processor time
        sys.meta_path.insert(0, _MutantFinder(mutant))
        code = run_tests(mutant.module, _Ordered(tests))
    finally:
        os._exit(code)


def record_unchanged(module: str) -> Recorder:
    """What the tests of a module run as it stands, and how long they take."""
    recorder = Recorder(PACKAGE / module)
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        code = 1
        try:
            code = run_tests(module, recorder)
            with os.fdopen(writer, "w", encoding="utf-8") as told:
                ran = {test: sorted(lines) for test, lines in recorder.ran.items()}
                json.dump([ran, recorder.seconds], told)
        finally:
            os._exit(code)
    os.close(writer)
    with os.fdopen(reader, encoding="utf-8") as told:
        text = told.read()
    if os.waitpid(child, 0)[1]:
        raise SystemExit(f"the tests of {module} fail as it stands; run them with pytest.")
    ran, recorder.seconds = json.loads(text)
    recorder.ran = {test: set(lines) for test, lines in ran.items()}
    return recorder


def survivors(candidates: Iterable[Mutant], unchanged: Recorder, processes: int) -> Iterator[Mutant]:
    """The mutants that pass all tests, so many tested at a time."""
    testing: dict[int, Mutant] = {}
    seconds = 2 + PATIENCE * sum(unchanged.seconds.values())

    def finished() -> Iterator[Mutant]:
        child, status = os.wait()
        mutant = testing.pop(child)
        if status == 0:
            yield mutant

    for mutant in candidates:
        if len(testing) == processes:
            yield from finished()
        source = (PACKAGE / mutant.module).read_text(encoding="utf-8")
        testing[start_testing(mutant, unchanged.order(source, mutant.line), seconds)] = mutant
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


@contextmanager
def made_before() -> Iterator[None]:
    """The run that most tests of answering ask, trained once, by the source as it stands."""
    from tests.workers import MADE

    with TemporaryDirectory() as folder:
        child = os.fork()
        if not child:
            code = 1
            try:
                from tests.answering.toys import train_clockwork

                made = Path(folder) / "clockwork"
                made.mkdir()
                train_clockwork(made)
                code = 0
            except Exception:
                traceback.print_exc()
            finally:
                os._exit(code)
        if os.waitpid(child, 0)[1]:
            raise SystemExit("the run that tests ask cannot be trained; run tests/answering with pytest.")
        os.environ[MADE] = folder
        yield


def wilson(alive: int, tried: int) -> tuple[float, float]:
    """Between which shares of all mutants the true one lies, 19 times of 20, where so many of a sample are alive.

    Wilson's interval: the shares p with |p̂ - p| ≤ z √(p (1 - p) / n). It stays within 0 and 1, where few are alive too.
    """
    z, share = 1.96, alive / tried
    middle = (share + z * z / (2 * tried)) / (1 + z * z / tried)
    half = z * math.sqrt(share * (1 - share) / tried + (z / (2 * tried)) ** 2) / (1 + z * z / tried)
    return max(middle - half, 0.0), min(middle + half, 1.0)


def draw(made: Mapping[str, Sequence[Mutant]], size: int, seed: int) -> dict[str, list[Mutant]]:
    """So many of all mutants of all modules, each as likely as any other, by their modules."""
    everything = [mutant for of_one in made.values() for mutant in of_one]
    drawn: dict[str, list[Mutant]] = {}
    for place in sorted(random.Random(seed).sample(range(len(everything)), min(size, len(everything)))):
        drawn.setdefault(everything[place].module, []).append(everything[place])
    return drawn


def summary(counts: Mapping[str, tuple[int, int]], *, sampled: bool) -> list[str]:
    """A line for each package and one for all, from how many mutants of each module are alive and were tried."""
    packages = sorted({module.split("/")[0] for module in counts})
    lines = []
    for name in (*packages, ""):
        rows = [row for module, row in counts.items() if module.startswith(name)]
        alive, tried = (sum(column) for column in zip(*rows, strict=True))
        low, high = wilson(alive, tried)
        bounds = f" (95 %: {100 * low:.1f} to {100 * high:.1f} %)" if sampled else ""
        lines.append(f"{name or 'all'}: {alive} of {tried} mutants alive: {100 * alive / tried:.1f} %{bounds}")
    return lines


def main() -> int:
    """Test the mutants of the named modules, or of all; print what is alive."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="*", metavar="MODULE", help="such as language or walks (default: all)")
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="how many are tested at a time")
    parser.add_argument("--sample", type=int, metavar="N", help="try N mutants, drawn from all (default: every one)")
    parser.add_argument("--seed", type=int, default=0, help="which N are drawn (default: %(default)s)")
    parser.add_argument(
        "--quick", action="store_true", help=f"take those that {DOCUMENT.name} lists for alive, without trying them"
    )
    options = parser.parse_args()
    by_name = {Path(module).stem: module for module in TESTS_OF}
    if unknown := set(options.modules) - set(by_name):
        parser.error(f"no tests are listed for {', '.join(sorted(unknown))}; the modules are {', '.join(by_name)}")
    if options.sample is not None and options.sample < 1:
        parser.error("--sample takes a number from 1")
    prepare()
    made = {module: list(mutants(module)) for module in (by_name[name] for name in options.modules or by_name)}
    if options.sample:
        print(f"{options.sample} of {sum(map(len, made.values()))} mutants, seed {options.seed}", flush=True)
        made = draw(made, options.sample, options.seed)
    with made_before():
        counts, unexplained = count_alive(made, quick=options.quick, processes=options.processes)
    print("\n".join(summary(counts, sampled=options.sample is not None)))
    print(f"{unexplained} without a reason in {DOCUMENT.name}")
    alive, total = (sum(column) for column in zip(*counts.values(), strict=True))
    return int(alive > MOST_ALIVE * total or unexplained > 0)


def count_alive(
    made: Mapping[str, Sequence[Mutant]], *, quick: bool, processes: int
) -> tuple[dict[str, tuple[int, int]], int]:
    """How many mutants of each module are alive and were tried, and how many of the living have no reason; printed."""
    documented = DOCUMENT.read_text(encoding="utf-8") if DOCUMENT.exists() else ""
    counts: dict[str, tuple[int, int]] = {}
    unexplained = 0
    for module, candidates in made.items():
        begin = time.monotonic()
        unchanged = record_unchanged(module)
        tried = [mutant for mutant in candidates if not (quick and mutant.row() in documented)]
        living = len(candidates) - len(tried)
        for mutant in survivors(tried, unchanged, processes):
            living += 1
            if mutant.row() not in documented:
                unexplained += 1
                print(mutant.row(), end="", flush=True)
        print(f"{module}: {living} of {len(candidates)} alive, {time.monotonic() - begin:.0f} s", flush=True)
        counts[module] = living, len(candidates)
    return counts, unexplained


if __name__ == "__main__":
    sys.exit(main())
