"""`make fuzz` for a moment: each target reads its valid inputs and a few damaged ones; the watchdog misses nothing."""

from __future__ import annotations

import sys
import warnings
from hashlib import sha256
from pathlib import Path
from random import Random

import pytest

from tests.fuzz.api import REFUSED, ApiTarget
from tests.fuzz.folder_inputs import with_sums
from tests.fuzz.kinds import write_files
from tests.fuzz.targets import targets
from tests.fuzz.watchdog import Limits, read_one, watch

TARGETS = targets()
DAMAGED = 15
SEVERAL = ("query", "config", "export")
"""Targets that try an input as everything it may be, of which it is one at most."""


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_damaged_inputs_are_refused_in_a_sentence(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    target, rng = TARGETS[name], Random(name)
    if isinstance(target, ApiTarget):
        request.addfinalizer(target.close)
    (tmp_path / "seeds").mkdir()
    valid = list(target.seeds(tmp_path / "seeds"))
    damaged = [target.damaged(rng, rng.choice(valid), rng.choice(valid)) for _ in range(DAMAGED)]
    read = 0
    for number, files in enumerate([*valid, *damaged]):
        place = tmp_path / str(number)
        (place / "input").mkdir(parents=True)
        write_files(files, place / "input")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            outcome, trace, _ = read_one(target, place)
        assert trace is None, trace
        read += number < len(valid) and outcome == "read"
    assert read or name in SEVERAL, "no valid input is read: what comes after the first check is not tried"


@pytest.mark.slow
def test_the_requests_that_are_damaged_are_answered(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    target = ApiTarget()
    request.addfinalizer(target.close)
    statuses = {
        files["request"].split(b" HTTP")[0]: target.answer(files["request"]) for files in target.seeds(tmp_path)
    }
    refused = {line: status for line, status in statuses.items() if status != 200}
    assert {line.split()[1].decode() for line in refused} == set(REFUSED)
    assert set(refused.values()) == {400, 404, 405}


TOY = """
import json, os, sys, time
from pathlib import Path
from blockhole.errors import BlockholeError
from tests.fuzz.watchdog import work

class Toy:
    def seeds(self, folder): return [{"number": b""}]
    def watched(self): return None
    def damaged(self, rng, files, other):
        if self.number == 6: raise TypeError("cannot be damaged")
        return {"number": b"x" + files["number"]}
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

try:
    work(toy, Path(arguments["--work"]), "0", say, int(arguments["--first"]))
finally:  # as an exception leaves it: nothing more is said, and what it was is written later
    said.close()
    time.sleep(0.5)
"""


@pytest.mark.slow
def test_the_watchdog_sees_every_kind_of_failure(tmp_path: Path) -> None:
    limits = Limits(seconds=1.0, growth=50 << 20, inputs=9)
    tally = watch("toy", 600.0, 0, tmp_path, limits=limits, command=(sys.executable, "-c", TOY))
    assert sorted(way.partition(":")[0] for way in tally.ways) == ["KeyError", "crash", "crash", "growth", "hang"]
    assert tally.failures == 5
    assert tally.inputs == limits.inputs  # it went on after each
    kept = {folder.name: (folder / "failure.txt").read_text() for folder in tmp_path.iterdir()}
    assert sorted(kept) == ["toy-3", "toy-4", "toy-5", "toy-6", "toy-7"]
    for name, failure in kept.items():
        assert f"python -m tests.fuzz toy --replay {tmp_path / name / 'input'}" in failure
        assert (tmp_path / name / "input" / "number").is_file() == (name != "toy-7")  # which was never made
    assert "ended with SIGABRT" in kept["toy-6"]
    assert "ended with status 1" in kept["toy-7"]
    assert "TypeError: cannot be damaged" in kept["toy-7"]


def test_a_record_that_is_no_object_is_passed_on_as_it_is() -> None:
    renew = with_sums("state.json")
    for record in (b"[1]", b"null", b"3", b"{", b'{"a": 1}'):
        assert renew({"state.json": record}) == {"state.json": record}
    assert renew({"state.json": b'{"seal": 1, "sha256": {"x": ""}}', "x": b""})["state.json"] == (
        b'{"sha256": {"x": "%s"}}' % sha256(b"").hexdigest().encode()
    )
