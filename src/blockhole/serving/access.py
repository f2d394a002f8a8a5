"""The API key: who may ask."""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Iterable
from hashlib import sha256
from hmac import compare_digest
from pathlib import Path
from typing import final

from blockhole.errors import ConfigError
from blockhole.serving.refusals import Refusal
from blockhole.serving.schemas import Problem

_CHALLENGE = {"WWW-Authenticate": 'Basic realm="blockhole", charset="UTF-8"'}
"""Browsers ask for a password on their own when they see it, and then send it with all that the page asks for."""


@final
class ApiKey:
    """A key that requests carry as `Authorization: Bearer KEY`, as `X-API-Key: KEY`, or as the password of HTTP Basic.

    Digests are compared, in constant time: how long that takes tells neither how much of a guess is right nor how long
    the key is.
    """

    def __init__(self, key: str) -> None:
        self._digest = sha256(key.encode()).digest()

    def require(self, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """Refuse a request whose headers do not hold the key."""
        offered = [key for name, value in headers for key in _keys(name, value)]
        if not any(compare_digest(sha256(key).digest(), self._digest) for key in offered):
            message = "this server needs its API key; send it as Authorization: Bearer KEY."
            raise Refusal(401, Problem(kind="unauthorized", message=message), _CHALLENGE)


def _keys(name: bytes, value: bytes) -> list[bytes]:
    if name == b"x-api-key":
        return [value.strip()]
    if name != b"authorization":
        return []
    scheme, _, rest = value.strip().partition(b" ")
    if scheme.lower() == b"bearer":
        return [rest.strip()]
    if scheme.lower() == b"basic":
        try:
            return [b64decode(rest.strip(), validate=True).partition(b":")[2]]
        except NotBase64:
            return []
    return []


def read_key(path: Path) -> str:
    """The key in a file."""
    try:
        key = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as failure:
        reason = failure.strerror if isinstance(failure, OSError) else "it is not text in UTF-8"
        raise ConfigError(f"the API key in {path} cannot be read ({reason}); name a file that holds it.") from None
    return check_key(key, str(path))


def check_key(key: str, where: str) -> str:
    """Refuse a key that would let anybody in, or nobody."""
    if not key or not key.isprintable() or " " in key:
        raise ConfigError(
            f"the API key in {where} is empty or holds spaces; write one word, of random letters at best."
        )
    return key
