"""Feeds damaged inputs to everything that reads: `python -m tests.fuzz [TARGET …] --seconds 600`, or `make fuzz`.

An input fails where it raises anything but a `BlockholeError`, takes more than 10 s, adds more than 1 GB of memory, or
ends the process. What fails is kept in a folder with the command that tries it again. Exits with 1 where any failed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

from tests.fuzz.targets import targets
from tests.fuzz.watchdog import Tally, read_one, watch, work


def main() -> int:
    """Work on the named targets, or on all, or try one input again."""
    known = targets()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"one of {', '.join(known)} (default: all)")
    parser.add_argument("--seconds", type=float, default=60, help="in total, shared evenly (default: 60)")
    parser.add_argument("--seed", type=int, default=0, help="decides how inputs are damaged (default: 0)")
    parser.add_argument("--kept", type=Path, default=Path("fuzz-failures"), help="where failing inputs are kept")
    parser.add_argument(
        "--replay", type=Path, metavar="PLACE", help="read one input, a file or a folder, and do no more"
    )
    for option in ("--work", "--say", "--first"):
        parser.add_argument(option, help=argparse.SUPPRESS)  # a process of ours
    options = parser.parse_args()
    if unknown := set(options.targets) - set(known):
        parser.error(f"there is no target {', '.join(sorted(unknown))}; the targets are {', '.join(known)}")
    if options.replay or options.work:
        if len(options.targets) != 1:
            parser.error("name one target")
        (name,) = options.targets
    if options.replay:
        return replay(name, options.replay)
    if options.work:
        with os.fdopen(int(options.say), "w", buffering=1) as said:

            def say(message: dict[str, object]) -> None:
                said.write(json.dumps(message) + "\n")
                if not sys.stdin.readline():
                    sys.exit("nobody watches any more")

            work(known[name], Path(options.work), f"{options.seed}/{name}", say, int(options.first))
    return fuzz(options.targets or list(known), options.seconds, options.seed, options.kept)


def fuzz(names: list[str], seconds: float, seed: int, kept: Path) -> int:
    """Work on each target for its share of the time, then print what came of all."""
    tallies: dict[str, Tally] = {}
    for name in names:

        def tell(tally: Tally, name: str = name) -> None:
            print(f"{name}: {tally.inputs:,} inputs, {tally.failures:,} failures", flush=True)

        tallies[name] = watch(name, seconds / len(names), seed, kept, tell)
        tell(tallies[name])
    print(f"\n{'target':<12}{'inputs':>10}{'failures':>10}{'max s':>8}{'max MB':>8}")
    for name, tally in tallies.items():
        print(f"{name:<12}{tally.inputs:>10,}{tally.failures:>10,}{tally.seconds:>8.1f}{tally.growth / 2**20:>8.0f}")
        for way, count in tally.ways.most_common():
            print(f"    {count:,} × {way}")
    failures = sum(tally.failures for tally in tallies.values())
    print(f"{sum(tally.inputs for tally in tallies.values()):,} inputs, {failures:,} failures"
          + (f"; they are kept in {kept}" if failures else ""))  # fmt: skip
    return int(failures > 0)


def replay(name: str, source: Path) -> int:
    """Read one input that was kept, and print what comes of it."""
    target = targets()[name]
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "seeds").mkdir()
        target.seeds(place / "seeds")
        if source.is_dir():
            shutil.copytree(source, place / "input")
        else:
            (place / "input").mkdir()
            shutil.copy(source, place / "input")
        outcome, trace, seconds = read_one(target, place)
    print(trace or outcome)
    print(f"{seconds:.2f} s")
    return int(trace is not None)


if __name__ == "__main__":
    sys.exit(main())
