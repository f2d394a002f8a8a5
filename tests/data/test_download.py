from __future__ import annotations

import hashlib
import socket
from pathlib import Path

import numpy as np
import pytest

from blockhole.data.catalogue import CHUNK, ResumingDownloader
from blockhole.errors import FetchError

from .conftest import Site

BODY = np.random.default_rng(0).bytes(300_000)
SUM = hashlib.sha256(BODY).hexdigest()


@pytest.fixture
def partial(tmp_path: Path) -> Path:
    return tmp_path / "facts.txt.partial"


def download(site: Site, partial: Path, sha256: str = SUM) -> bytes:
    output = partial.with_name("output")
    ResumingDownloader(partial, sha256, first_wait=0.001)(f"{site.address}/facts.txt", str(output), None)
    assert not partial.exists()
    return output.read_bytes()


def test_a_good_file_arrives_in_one_request(site: Site, partial: Path) -> None:
    site.files["facts.txt"] = BODY
    assert download(site, partial) == BODY
    assert site.requests == [("/facts.txt", None)]


def test_a_terminal_shows_a_progress_bar(
    site: Site, partial: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    site.files["facts.txt"] = BODY
    download(site, partial)
    captured = capfd.readouterr()
    assert captured.out == ""
    assert "facts.txt" in captured.err
    assert "300.0/300.0 kB" in captured.err


def test_a_cut_connection_is_continued_where_it_broke(site: Site, partial: Path) -> None:
    site.files["facts.txt"] = BODY
    site.cuts = [25 * CHUNK, 10 * CHUNK]
    assert download(site, partial) == BODY
    assert [wanted for _, wanted in site.requests] == [None, f"bytes={25 * CHUNK}-", f"bytes={35 * CHUNK}-"]


def test_a_server_without_ranges_sends_everything_again(site: Site, partial: Path) -> None:
    site.files["facts.txt"] = BODY
    site.cuts = [25 * CHUNK]
    site.knows_ranges = False
    assert download(site, partial) == BODY
    assert [wanted for _, wanted in site.requests] == [None, f"bytes={25 * CHUNK}-"]


def test_an_earlier_program_s_partial_file_is_continued(site: Site, partial: Path) -> None:
    site.files["facts.txt"] = BODY
    partial.write_bytes(BODY[:123_456])
    assert download(site, partial) == BODY
    assert [wanted for _, wanted in site.requests] == ["bytes=123456-"]


@pytest.mark.parametrize("stale", [b"x" * 1000, b"x" * len(BODY), b"x" * (len(BODY) + 1)])
def test_a_stale_partial_file_is_started_afresh(site: Site, partial: Path, stale: bytes) -> None:
    site.files["facts.txt"] = BODY
    partial.write_bytes(stale)
    assert download(site, partial) == BODY
    assert site.requests[-1] == ("/facts.txt", None)


def test_a_partial_file_that_is_complete_needs_no_more_bytes(site: Site, partial: Path) -> None:
    site.files["facts.txt"] = BODY
    partial.write_bytes(BODY)
    assert download(site, partial) == BODY
    assert [wanted for _, wanted in site.requests] == [f"bytes={len(BODY)}-"]


def test_an_overloaded_server_is_asked_again(site: Site, partial: Path) -> None:
    site.files["facts.txt"] = BODY
    site.failures = [503, 429]
    assert download(site, partial) == BODY


def test_a_server_that_never_completes_is_given_up_and_what_came_is_kept(site: Site, partial: Path) -> None:
    site.files["facts.txt"] = BODY
    site.cuts = [CHUNK, CHUNK, 10, 0]
    with pytest.raises(FetchError) as failure:
        download(site, partial)
    assert str(failure.value) == (
        f"the download of {site.address}/facts.txt was cut off 4 times; the 8,192 bytes that arrived are kept: "
        "run the command again to continue, or name a folder that holds the data sets in BLOCKHOLE_DATA."
    )
    assert partial.read_bytes() == BODY[: 2 * CHUNK]
    assert download(site, partial) == BODY


def test_a_corrupted_file_is_removed_and_both_sums_are_named(site: Site, partial: Path) -> None:
    corrupted = b"?" + BODY[1:]
    site.files["facts.txt"] = corrupted
    with pytest.raises(FetchError) as failure:
        download(site, partial)
    assert str(failure.value) == (
        f"{site.address}/facts.txt is not the file that was published: its SHA-256 sum is "
        f"{hashlib.sha256(corrupted).hexdigest()}, expected {SUM}; what arrived was removed. Try again later, "
        "or name a folder that holds the data sets in BLOCKHOLE_DATA."
    )
    assert list(partial.parent.iterdir()) == []


def test_a_missing_file_is_not_asked_for_twice(site: Site, partial: Path) -> None:
    with pytest.raises(FetchError, match=r"/facts\.txt answered 404 Not Found: the file is no longer there"):
        download(site, partial)
    assert len(site.requests) == 1
    assert list(partial.parent.iterdir()) == []


def test_a_server_that_keeps_failing_is_named_with_its_status(site: Site, partial: Path) -> None:
    site.files["facts.txt"] = BODY
    site.failures = [503] * 4
    with pytest.raises(FetchError, match=r"^503 .*/facts\.txt, 4 times\. Try again later, or name a folder"):
        download(site, partial)


def test_no_connection_is_one_clear_sentence(site: Site, partial: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        site.address = f"http://127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(FetchError) as failure:
            download(site, partial)
    assert str(failure.value) == (
        f"cannot fetch {site.address}/facts.txt: nothing arrives from {site.address.removeprefix('http://')}; "
        "check the network and try again, or name a folder that holds the data sets in BLOCKHOLE_DATA."
    )
    assert list(partial.parent.iterdir()) == []
