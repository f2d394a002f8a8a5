"""The explorer's files: nothing parses markup, nothing comes from elsewhere, nothing stands inline."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

FOLDER = files("blockhole.serving") / "explorer"
NAMES = sorted(file.name for file in FOLDER.iterdir())
FORBIDDEN = (
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|\beval\(|new Function|setAttribute\(.style"
)


def test_the_page_is_there() -> None:
    assert {"index.html", "main.js", "theme.css", "icon.svg"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_file_keeps_to_the_rules(name: str) -> None:
    text = (FOLDER / name).read_text(encoding="utf-8")
    assert re.search(FORBIDDEN, text) is None
    elsewhere = set(re.findall(r"https?://[^\s\"')]+", text)) - {"http://www.w3.org/2000/svg"}
    assert elsewhere == set()
    assert max(map(len, text.splitlines())) <= 120


def test_the_page_has_no_inline_script_or_style() -> None:
    page = (FOLDER / "index.html").read_text(encoding="utf-8")
    assert re.findall(r"<script(?![^>]* src=)", page) == []
    assert re.findall(r"<style|\sstyle=|\son\w+=", page) == []
