"""The names users import, pinned: a change here is a change for them."""

from __future__ import annotations

import pytest

import blockhole


def test_the_public_names() -> None:
    assert sorted(blockhole.__all__) == [
        "BlockholeError",
        "Engine",
        "Run",
        "__version__",
        "answers",
        "ask",
        "audit",
        "calibrate",
        "check",
        "compare",
        "compress",
        "evaluate",
        "explain",
        "export",
        "load",
        "merge",
        "paths",
        "predict",
        "read_graph",
        "read_split",
        "rules",
        "sample_queries",
        "sparql",
        "train",
        "tune",
        "write_graph",
    ]


@pytest.mark.parametrize("name", blockhole.__all__)
def test_every_public_name_is_there_and_documented(name: str) -> None:
    value = getattr(blockhole, name)
    assert isinstance(value, str) or value.__doc__


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'blockhole' has no attribute 'nothing'"):
        blockhole.nothing  # noqa: B018
