"""Downloads that continue where a cut connection left them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import final
from urllib.parse import urlsplit

from blockhole.errors import FetchError

CONNECT_SECONDS, SILENT_SECONDS = 10, 30
CHUNK = 1 << 12  # what a cut connection can lose
OTHER_WAY = "or name a folder that holds the data sets in BLOCKHOLE_DATA"


@final
class ResumingDownloader:
    """A downloader for pooch that keeps what has arrived and asks the server for the rest.

    Bytes go to `partial`, which outlives a failure: the next attempt, or the next run of the program, continues it
    with a Range request, or starts again where the server knows no ranges. Only a file whose SHA-256 sum is right
    is handed to pooch, which checks it once more and gives it its final name.
    """

    def __init__(self, partial: Path, sha256: str, *, attempts: int = 4, first_wait: float = 0.3) -> None:
        self.partial = partial
        self.sha256 = sha256
        self.attempts = attempts
        self.first_wait = first_wait

    def __call__(self, url: str, output_file: str, pooch: object) -> None:
        """Download `url` into `output_file`; the signature is pooch's."""
        from pooch import file_hash

        resumed = self._download(url)
        if resumed and file_hash(self.partial) != self.sha256:
            # The kept beginning may belong to other bytes than the rest: only a fresh start tells.
            self.partial.unlink()
            self._download(url)
        actual = file_hash(self.partial)
        if actual != self.sha256:
            self.partial.unlink()
            raise FetchError(
                f"{url} is not the file that was published: its SHA-256 sum is {actual}, expected {self.sha256}; "
                f"what arrived was removed. Try again later, {OTHER_WAY}."
            )
        os.replace(self.partial, output_file)

    def _download(self, url: str) -> bool:
        """Complete the partial file in a few attempts; whether any of them continued an earlier one."""
        from requests import RequestException

        resumed = False
        with _progress_bar(Path(urlsplit(url).path).name) as show:
            for attempt in range(self.attempts):
                if attempt:
                    time.sleep(self.first_wait * 2 ** (attempt - 1))
                try:
                    resumed |= self._receive(url, show)
                except RequestException as failure:
                    last = failure
                else:
                    return resumed
        raise FetchError(self._explain(url, last)) from last

    def _receive(self, url: str, show: Callable[[int, int | None], None]) -> bool:
        """One request: append what the server sends; whether it continued at the end of the partial file."""
        import requests

        start = self.partial.stat().st_size if self.partial.exists() else 0
        # Bytes as stored: a range of a compressed answer could not be appended.
        headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={start}-"} if start else {})
        with requests.get(url, headers=headers, stream=True, timeout=(CONNECT_SECONDS, SILENT_SECONDS)) as response:
            if start and response.status_code == requests.codes.requested_range_not_satisfiable:
                return True  # nothing is left to send; the checksum decides whether that is right
            if response.status_code in (requests.codes.not_found, requests.codes.gone, requests.codes.forbidden):
                raise FetchError(
                    f"{url} answered {response.status_code} {response.reason}: the file is not there (any more). "
                    f"Install a newer version, {OTHER_WAY}."
                )
            response.raise_for_status()
            resumed = response.status_code == requests.codes.partial_content
            received = start if resumed else 0
            expected = response.headers.get("Content-Length")
            total = received + int(expected) if expected else None
            with self.partial.open("ab" if resumed else "wb") as file:
                for chunk in response.iter_content(CHUNK):
                    file.write(chunk)
                    received += len(chunk)
                    show(received, total)
        return resumed

    def _explain(self, url: str, failure: Exception) -> str:
        import requests

        if isinstance(failure, requests.HTTPError):
            return f"{failure}, {self.attempts} times. Try again later, {OTHER_WAY}."
        kept = self.partial.stat().st_size if self.partial.exists() else 0
        if kept:
            return (
                f"the download of {url} was cut off {self.attempts} times; the {kept:,} bytes that arrived are kept: "
                f"run the command again to continue, {OTHER_WAY}."
            )
        host = urlsplit(url).netloc
        return f"cannot fetch {url}: nothing arrives from {host}; check the network and try again, {OTHER_WAY}."


@contextmanager
def _progress_bar(name: str) -> Iterator[Callable[[int, int | None], None]]:
    """A bar on standard error, where that is a terminal; the function it gives takes received and total bytes."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task(name, total=None)
        yield lambda received, total: progress.update(task, completed=received, total=total)
