"""What is fuzzed."""

from __future__ import annotations

from tests.fuzz.api import ApiTarget
from tests.fuzz.file_inputs import file_targets
from tests.fuzz.folder_inputs import folder_targets
from tests.fuzz.kinds import Target


def targets() -> dict[str, Target]:
    """All targets by name."""
    return {**file_targets(), **folder_targets(), "api": ApiTarget()}
