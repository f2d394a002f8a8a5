"""Run experiments without the command line's libraries, as on a machine lent for its GPU.

    python -m experiments.run_experiments --encoded FOLDER --out FOLDER --split dev ranking/wn11/blockhole-2x25 …

needs torch, NumPy, safetensors, pydantic and rich only, and SciPy for complex queries and rules. `python -m experiments
reproduce` runs the same experiments.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from blockhole.errors import BlockholeError
from blockhole.runs.config import parse_assignment
from experiments.declared import find_experiments
from experiments.material import Material
from experiments.records import Commit, current_commit
from experiments.runner import Runner


def say(line: str) -> None:
    """Write a line to standard error at once."""
    print(line, file=sys.stderr, flush=True)


def main(arguments: list[str] | None = None) -> int:
    """Run the named experiments; 0, or 1 where one of them failed."""
    options = _parser().parse_args(arguments)
    try:
        overrides = dict(parse_assignment(text) for text in options.set)
        chosen = find_experiments(options.names, seeds=options.seed, split=options.split, overrides=overrides)
        commit = Commit.parse(options.commit) if options.commit else current_commit()
        runner = Runner(Material(options.encoded), options.out, options.device, commit, say, options.threads)
        failed = runner.run(chosen, options.limit_seconds)
    except BlockholeError as failure:
        say(f"error: {failure}")
        return 1
    except KeyboardInterrupt:
        say("interrupted; the experiment under way has no record")
        return 1
    return 1 if failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m experiments.run_experiments", description=__doc__)
    parser.add_argument("names", nargs="+", metavar="NAME", help="such as ranking/wn11/blockhole-2x25 or ranking/wn11")
    parser.add_argument("--encoded", type=Path, help="folder of encoded data sets (default: data sets by name)")
    parser.add_argument("--out", type=Path, required=True, help="folder of records")
    parser.add_argument("--split", choices=("dev", "test"), default="dev", help="queries to measure (default: dev)")
    parser.add_argument("--seed", type=int, action="append", help="instead of the declared ones; as often as wanted")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of every experiment")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:N or mps")
    parser.add_argument("--threads", type=int, help="CPU threads (default: all)")
    parser.add_argument("--limit-seconds", type=float, default=float("inf"), help="begin no training after these")
    parser.add_argument("--commit", help="what `git describe --always --dirty --abbrev=40 --exclude '*'` says")
    return parser


if __name__ == "__main__":
    sys.exit(main())
