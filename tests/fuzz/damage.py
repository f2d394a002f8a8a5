"""Ways to damage a valid input: its bytes, its words, its tree of JSON values, or a header and what it describes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pickletools import genops
from random import Random
from typing import Any

Damage = Callable[[Random, bytes, bytes], bytes]
"""From a generator, an input and another one, of which parts may be taken, to a damaged input."""

LONGEST = 1 << 20
"""Bytes an input has at most: what a few bytes can do is looked for, not what takes long because it is long."""

INTEGERS = (0, 1, -1, 7, 127, 128, 255, 256, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**62, 2**63 - 1)
ODD_TEXT = (
    b"", b"\0", b"\r", b"\n", b"\r\n", b"\t", b" ", b"\\", b'"', b"'", b"\xef\xbb\xbf", b"\xe2\x80\xa8", b"\xff",
    b"\xc3", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xef\xbf\xbf", b"e\xcc\x81", b"\xe2\x80\xae", b"\xf0\x9f\xa6\x84",
    b"^", b"/", b"**", b",", b"%", b"%00", b"%s", b"{}", b"-1", b"0", b"NaN", b"inf", b"1e999", b"9" * 400, b"null",
)  # fmt: skip

_TOKEN = re.compile(rb"[ \t\r\n]+|[A-Za-z0-9_]+|[^ \t\r\nA-Za-z0-9_]", re.DOTALL)


def damage_bytes(rng: Random, data: bytes, other: bytes) -> bytes:
    """Up to four changes of single bits, bytes, numbers and stretches."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        at = rng.randrange(len(changed) + 1)
        size = min(len(changed) - at, rng.choice((1, 1, 2, 4, 8, rng.randint(1, 300))))
        match rng.randrange(9):
            case 0 if at < len(changed):
                changed[at] ^= 1 << rng.randrange(8)
            case 1 if at < len(changed):
                changed[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
            case 2:  # a number of another size, as lengths and counts are stored
                width = rng.choice((1, 2, 4, 8))
                number = rng.choice(INTEGERS) % (1 << (8 * width))
                changed[at : at + width] = number.to_bytes(width, rng.choice(("little", "big")))
            case 3:
                changed[at : at + 5] = _varint(rng.choice(INTEGERS) % (1 << 64))
            case 4:
                del changed[at : at + size]
            case 5:
                changed[at:at] = changed[at : at + size] * rng.choice((1, 1, 2, 50))
            case 6:
                changed[at:at] = rng.randbytes(size)
            case 7:
                start = rng.randrange(len(other) + 1)
                changed[at : at + size] = other[start : start + rng.randint(1, 300)]
            case _:
                del changed[at:]
    return bytes(changed[:LONGEST])


def damage_number(rng: Random, data: bytes, other: bytes) -> bytes:
    """Another number where one may stand as Parquet stores them, of as many bytes as it takes."""
    if not data:
        return other
    first = last = rng.randrange(len(data))
    while last < len(data) - 1 and data[last] & 128:
        last += 1
    number = rng.choice(INTEGERS)
    return data[:first] + _varint(rng.choice((number, 2 * number)) % (1 << 64)) + data[last + 1 :]


def _varint(number: int) -> bytes:
    """Seven bits a byte, the last byte below 128; signed numbers are stored as twice as much."""
    parts = []
    while number >= 128:
        parts.append(128 | (number & 127))
        number >>= 7
    return bytes([*parts, number])


def text_damage(*words: bytes) -> Damage:
    """Changes of words and lines, with the words of a format among what is put in; sometimes of bytes too."""
    known = (*words, *ODD_TEXT)

    def damage(rng: Random, data: bytes, other: bytes) -> bytes:
        if rng.random() < 0.2:
            data = damage_bytes(rng, data, other)
        lines = rng.random() < 0.3
        tokens = data.splitlines(keepends=True) if lines else _TOKEN.findall(data)
        others = other.splitlines(keepends=True) if lines else _TOKEN.findall(other)
        for _ in range(rng.choice((1, 1, 2, 3, 8))):
            _change_one(rng, tokens, others, known)
        return b"".join(tokens)[:LONGEST]

    return damage


def _change_one(rng: Random, tokens: list[bytes], others: Sequence[bytes], known: Sequence[bytes]) -> None:
    at = rng.randrange(len(tokens) + 1)
    some = slice(at, at + rng.choice((1, 1, 2, 5)))
    word = rng.choice(others) if others and rng.random() < 0.3 else rng.choice(known)
    match rng.randrange(8):
        case 0:
            del tokens[some]
        case 1:
            tokens[at:at] = tokens[some]
        case 2:
            tokens[some] = [word]
        case 3 | 4:
            tokens.insert(at, word)
        case 5 if tokens:
            first, second = rng.randrange(len(tokens)), rng.randrange(len(tokens))
            tokens[first], tokens[second] = tokens[second], tokens[first]
        case 6:  # very long, or nested very deeply
            repeated = b"".join(tokens[some]) if rng.random() < 0.5 else word
            count = 2 ** rng.randrange(17)
            tokens[at:at] = [repeated * min(count, LONGEST // 4 // max(1, len(repeated)))]
        case _:
            tokens.insert(at, rng.randbytes(rng.randint(1, 4)))


def damage_json(rng: Random, data: bytes, other: bytes) -> bytes:
    """Another value somewhere in the tree, another key, or text that is no longer JSON."""
    if rng.random() < 0.3:
        return _damage_json_text(rng, data, other)
    try:
        tree = json.loads(data)
    except (ValueError, RecursionError):
        return damage_bytes(rng, data, other)
    for _ in range(rng.choice((1, 1, 2, 5))):
        tree = damage_tree(rng, tree)
    return json.dumps(tree).encode(errors="surrogatepass")[:LONGEST]


_damage_json_text = text_damage(b"[", b"]", b"{", b"}", b'"', b":", b",", b"true", b"1e400", b"-0", b'{"a":', b"[[[[")


def damage_tree(rng: Random, tree: Any) -> Any:
    """The tree with one node changed, near the root as often as deep inside."""
    if not isinstance(tree, dict | list) or not tree or rng.random() < 0.15:
        return _odd_value(rng, tree)
    keys = list(tree) if isinstance(tree, dict) else range(len(tree))
    key = rng.choice(keys)
    chance = rng.random()
    if chance < 0.1:
        return {k: v for k, v in tree.items() if k != key} if isinstance(tree, dict) else tree[:key] + tree[key + 1 :]
    if chance < 0.2:
        name = rng.choice(("", "weights", "\0", "a" * 300, "../x", key))
        return {**tree, str(name): tree[key]} if isinstance(tree, dict) else [*tree, tree[key]]
    changed = damage_tree(rng, tree[key])
    return {**tree, key: changed} if isinstance(tree, dict) else [*tree[:key], changed, *tree[key + 1 :]]


def _odd_value(rng: Random, value: Any) -> Any:
    if isinstance(value, int | float) and rng.random() < 0.5:
        return rng.choice((-value, value + 1, value * 10**6, float(value), str(value), -1))
    if isinstance(value, str) and rng.random() < 0.5:
        return rng.choice((value[:-1], value + "x", value.upper(), value * 50, "../" + value, "/" + value))
    return rng.choice((
        None, True, "", "\0", "\ud800", "a/b", "..", ".", "x" * 5000, [], {}, [value], {"a": value}, float("nan"),
        float("inf"), 1e308, 0.5, 10**30, *INTEGERS, *(-number for number in INTEGERS), [[value] * 3] * 3,
    ))  # fmt: skip


def damage_safetensors(rng: Random, data: bytes, other: bytes) -> bytes:
    """The JSON header of a tensor file with another value in it, its length put right; or other bytes."""
    if len(data) < 8 or rng.random() < 0.4:
        return damage_bytes(rng, data, other)
    size = int.from_bytes(data[:8], "little")
    header = damage_json(rng, data[8 : 8 + size], other)
    return len(header).to_bytes(8, "little") + header + data[8 + size :]


_damage_numpy_header = text_damage(
    b"'|O'", b"'<f8'", b"'>i4'", b"'<U9999999'", b"True", b"(1,)", b"(99999999999,)", b"-5"
)


def damage_numpy(rng: Random, data: bytes, other: bytes) -> bytes:
    """The header of a NumPy file with another type or shape, or other bytes."""
    if len(data) < 10 or rng.random() < 0.4:
        return damage_bytes(rng, data, other)
    size = int.from_bytes(data[8:10], "little")
    header = _damage_numpy_header(rng, data[10 : 10 + size], b"")[: 2**16 - 1]
    return data[:8] + len(header).to_bytes(2, "little") + header + data[10 + size :]


_PICKLED = (
    *(bytes([code]) for code in b"(.0123]}){aeu|lbdst\x81\x85\x86\x87\x88\x89N\x8f\x90\x91\x93\x94\x97\x98QRo"),
    b"h\0", b"h\1", b"h\3", b"q\0", b"q\1", b"j\xff\xff\xff\xff", b"r\xff\xff\xff\xff", b"g1\n", b"p-1\n",
    b"K\x01", b"J\xff\xff\xff\xff", b"\x8a\x01\xff", b"\x8a\x0a" + b"\xff" * 9 + b"\x01", b"I1\n", b"I01\n",
    b"L" + b"9" * 5000 + b"L\n", b"G\x7f\xf8\0\0\0\0\0\0", b"Fnan\n", b"S'a'\n", b"Vu\\ud800\n", b"\x8c\1a",
    b"X\4\0\0\0\xed\xa0\x80a", b"\x8d\0\0\0\0\0\0\1\0", b"\x8b\xff\xff\xff\x7f", b"\x95\0\0\0\0\0\0\0\x7f",
    b"cbuiltins\nset\n", b"cbuiltins\nlist\n", b"cbuiltins\nfrozenset\n", b"ccollections\ndefaultdict\n",
    b"cos\nsystem\n", b"c__builtin__\nset\nq\1", b"\x80\x05", b"C\1a", b"B\xff\xff\xff\x7f",
)  # fmt: skip


def damage_pickle(rng: Random, data: bytes, other: bytes) -> bytes:
    """Other instructions in the program that a pickle is, or other bytes."""
    try:
        starts = [at for _, _, at in genops(data) if at is not None]
    except (ValueError, IndexError, OverflowError, UnicodeError):
        return damage_bytes(rng, data, other)
    steps = [data[begin:end] for begin, end in zip(starts, [*starts[1:], len(data)], strict=True)]
    for _ in range(rng.choice((1, 1, 2, 4, 8))):
        at = rng.randrange(len(steps) + 1)
        some = slice(at, at + rng.choice((1, 1, 2, 5)))
        match rng.randrange(6):
            case 0:
                del steps[some]
            case 1 | 2:
                steps.insert(at, rng.choice(_PICKLED))
            case 3:
                steps[some] = [rng.choice(_PICKLED)]
            case 4:  # one thing again and again: levels of levels, copies of copies
                again = steps[some] if rng.random() < 0.5 else [rng.choice(_PICKLED) for _ in range(rng.randint(1, 5))]
                steps[at:at] = again * min(2 ** rng.randrange(17), LONGEST // 4 // max(1, len(b"".join(again))))
            case _:
                return damage_bytes(rng, b"".join(steps), other)
    return b"".join(steps)[:LONGEST]


def damage_end(rng: Random, data: bytes, other: bytes) -> bytes:
    """Other bytes where formats such as Parquet describe themselves: in the last few hundred, or anywhere."""
    cut = max(0, len(data) - rng.choice((20, 200, 600))) if rng.random() < 0.7 else 0
    damage = rng.choice((damage_bytes, damage_number))
    if not cut or rng.random() < 0.1:
        return data[:cut] + damage(rng, data[cut:], other)
    end = damage(rng, data[cut:-8], other)
    footer = max(0, int.from_bytes(data[-8:-4], "little") + len(end) - (len(data) - 8 - cut))
    return data[:cut] + end + (footer % 2**32).to_bytes(4, "little") + data[-4:]  # the length that closes it, put right
