"""`make fuzz` for a moment: each target reads its valid inputs and a few damaged ones; the watchdog misses nothing."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from random import Random

import pytest

from tests.fuzz.api import ApiTarget
from tests.fuzz.kinds import write_files
from tests.fuzz.targets import targets
from tests.fuzz.watchdog import Limits, read_one, watch

TARGETS = targets()
DAMAGED = 15


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_damaged_inputs_are_refused_in_a_sentence(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    target, rng = TARGETS[name], Random(name)
    if isinstance(target, ApiTarget):
        request.addfinalizer(target.close)
    (tmp_path / "seeds").mkdir()
    valid = list(target.seeds(tmp_path / "seeds"))
    damaged = [target.damaged(rng, rng.choice(valid), rng.choice(valid)) for _ in range(DAMAGED)]
    for number, files in enumerate([*valid, *damaged]):
        place = tmp_path / str(number)
        (place / "input").mkdir(parents=True)
        write_files(files, place / "input")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _, trace, _ = read_one(target, place)
        assert trace is None, trace


TOY = """
import json, os, sys, time
from pathlib import Path
from blockhole.errors import BlockholeError
from tests.fuzz.watchdog import work

class Toy:
    def seeds(self, folder): return [{"number": b""}]
    def watched(self): return None
    def damaged(self, rng, files, other): return {"number": b"x" + files["number"]}
    def read(self, folder):
        match self.number:
            case 1: raise BlockholeError("refused")
            case 2: raise KeyError("foreign")
            case 3: time.sleep(60)
            case 4: self.held = b"x" * (100 << 20)
            case 5: os.abort()

toy, arguments = Toy(), dict(zip(sys.argv[2::2], sys.argv[3::2]))
toy.number = int(arguments["--first"]) - 1
said = os.fdopen(int(arguments["--say"]), "w", buffering=1)

def say(message):
    said.write(json.dumps(message) + chr(10))
    sys.stdin.readline()
    toy.number += 1

work(toy, Path(arguments["--work"]), "0", say, int(arguments["--first"]))
"""


@pytest.mark.slow
def test_the_watchdog_sees_every_kind_of_failure(tmp_path: Path) -> None:
    limits = Limits(seconds=1.0, growth=50 << 20, inputs=8)
    tally = watch("toy", 600.0, 0, tmp_path, limits=limits, command=(sys.executable, "-c", TOY))
    assert sorted(way.partition(":")[0] for way in tally.ways) == ["KeyError", "crash", "growth", "hang"]
    assert tally.failures == 4
    assert tally.inputs == limits.inputs  # it went on after each
    kept = sorted(tmp_path.iterdir())
    assert [folder.name for folder in kept] == ["toy-3", "toy-4", "toy-5", "toy-6"]
    for folder in kept:
        assert (folder / "input" / "number").is_file()
        assert f"python -m tests.fuzz toy --replay {folder / 'input'}" in (folder / "failure.txt").read_text()
