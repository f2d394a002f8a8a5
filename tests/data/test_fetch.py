from __future__ import annotations

import hashlib
import io
import tarfile
from pathlib import Path
from threading import Thread

import pytest

from blockhole.data.catalogue import DataFile, Download, NamedDataSet, cache_folder, catalogue, fetch, find, locate
from blockhole.errors import BlockholeWarning, FetchError

from .conftest import Site

FACTS = {"train.txt": b"a\tr\tb\n" * 5000, "valid.txt": b"b\tr\ta\n", "test.txt": b"a\tr\ta\n"}


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def describe(files: dict[str, DataFile], archive: Download | None = None) -> NamedDataSet:
    return NamedDataSet(
        name="tiny", title="tiny", licence="none", files=files, archive=archive, by_hand=None,
        entities=2, relations=1, train=5000, valid=1, test=1,
    )  # fmt: skip


@pytest.fixture
def plain(site: Site) -> NamedDataSet:
    site.files |= {f"home/{name}": content for name, content in FACTS.items()}
    return describe({name: DataFile(home=f"home/{name}", sha256=digest(content)) for name, content in FACTS.items()})


def pack(files: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def archived(site: Site, members: dict[str, bytes]) -> NamedDataSet:
    site.files["home/tiny.tar.gz"] = pack(members)
    return describe(
        {name: DataFile(sha256=digest(content)) for name, content in FACTS.items()},
        Download(home="home/tiny.tar.gz", sha256=digest(site.files["home/tiny.tar.gz"])),
    )


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.startswith(".")}


def test_fetching_verifies_and_caches(site: Site, plain: NamedDataSet) -> None:
    assert find(plain) is None
    folder = fetch(plain)
    assert folder == cache_folder() / "tiny"
    assert contents(folder) == FACTS
    assert locate(plain) == find(plain) == folder
    assert len(site.requests) == len(FACTS)


def test_a_damaged_cached_file_is_fetched_again(site: Site, plain: NamedDataSet) -> None:
    folder = fetch(plain)
    (folder / "valid.txt").write_bytes(b"b\tr\t")
    assert find(plain) is None
    assert contents(fetch(plain)) == FACTS
    assert [path for path, _ in site.requests][len(FACTS) :] == ["/home/valid.txt"]


def test_a_corrupted_download_leaves_nothing_under_its_name(site: Site, plain: NamedDataSet) -> None:
    site.files["home/valid.txt"] = b"b\tr\tz\n"
    with pytest.raises(FetchError, match=f"expected {digest(FACTS['valid.txt'])}; what arrived was removed"):
        fetch(plain)
    assert contents(cache_folder() / "tiny") == {"train.txt": FACTS["train.txt"]}


def test_a_cut_download_is_continued_by_the_next_fetch(site: Site, plain: NamedDataSet) -> None:
    site.cuts = [8192, 0, 0, 0]
    with pytest.raises(FetchError, match="8,192 bytes that arrived are kept"):
        fetch(plain)
    assert contents(cache_folder() / "tiny") == {"train.txt.partial": FACTS["train.txt"][:8192]}
    assert contents(fetch(plain)) == FACTS
    assert site.requests[4] == ("/home/train.txt", "bytes=8192-")


def test_two_fetches_at_once_share_one_download(site: Site, plain: NamedDataSet) -> None:
    threads = [Thread(target=fetch, args=(plain,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert contents(cache_folder() / "tiny") == FACTS
    assert len(site.requests) == len(FACTS)


@pytest.mark.parametrize("prefix", ["", "./", "FB15k-237/"])
def test_an_archive_is_unpacked_and_its_files_verified(site: Site, prefix: str) -> None:
    members = {"README": b"read me", "../outside.txt": b"outside"}
    entry = archived(site, members | {prefix + name: content for name, content in FACTS.items()})
    assert contents(fetch(entry)) == FACTS
    assert not (cache_folder() / "outside.txt").exists()


def test_an_archive_without_the_published_files_is_refused(site: Site) -> None:
    entry = archived(site, FACTS | {"valid.txt": b"other"})
    with pytest.raises(FetchError, match=r"^tiny\.tar\.gz does not hold the published valid\.txt; try again, or"):
        fetch(entry)
    assert "valid.txt" not in contents(cache_folder() / "tiny")


def test_a_cache_that_cannot_be_written_is_named(plain: NamedDataSet) -> None:
    cache_folder().write_text("a file, not a folder")
    with pytest.raises(FetchError, match=r"cannot write to the cache .*tiny: Not a directory; .* BLOCKHOLE_CACHE"):
        fetch(plain)


def test_a_mirror_that_is_no_address_is_refused(plain: NamedDataSet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BLOCKHOLE_MIRROR", "mirror.example")
    with pytest.raises(FetchError, match=r"^BLOCKHOLE_MIRROR is 'mirror\.example'; give it an address that starts"):
        fetch(plain)


def test_a_folder_of_data_sets_is_used_as_it_is(
    site: Site, plain: NamedDataSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BLOCKHOLE_DATA", str(tmp_path))
    (tmp_path / "tiny").mkdir()
    for name in FACTS:
        (tmp_path / "tiny" / name).write_text("mine\tr\tmine\n")
    assert locate(plain) == tmp_path / "tiny"
    assert site.requests == []


def test_a_folder_of_data_sets_that_lacks_a_file_falls_back_to_fetching(
    site: Site, plain: NamedDataSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BLOCKHOLE_DATA", str(tmp_path))
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / "train.txt").write_text("a\tr\tb\n")
    with pytest.warns(BlockholeWarning, match=r"has no tiny/valid\.txt; fetching tiny into .*cache"):
        assert contents(locate(plain)) == FACTS


def test_pooch_keeps_its_log_level(site: Site, plain: NamedDataSet, capfd: pytest.CaptureFixture[str]) -> None:
    from pooch import get_logger

    level = get_logger().level
    fetch(plain)
    assert get_logger().level == level
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("name", ["wn11", "wn18rr"])
def test_a_named_data_set_is_fetched_from_its_published_paths(site: Site, data_root: Path, name: str) -> None:
    entry = catalogue()[name]
    for file_name, file in entry.files.items():
        assert file.home is not None
        site.files[file.home] = (data_root / name / file_name).read_bytes()
    assert contents(locate(entry)).keys() == entry.files.keys()
