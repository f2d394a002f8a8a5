"""Pickles of plain values: sets, tuples, lists, dictionaries, texts and numbers are built, and nothing else.

A pickle is a program, and Python's own reader runs it: it imports what the file names and calls it. Here the
instructions are read one by one, those that make plain values are carried out, and any other ends the reading. The two
names that plain values need, `set` and `collections.defaultdict`, stand for a set and a dictionary; nothing is imported
and nothing is called. Reading takes time and memory in proportion to the file: what would take more is refused.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable
from pathlib import Path
from pickletools import genops
from typing import IO, Any, cast, final

from blockhole.errors import MalformedFile
from blockhole.files.formats import Compression, open_decompressed

_KNOWN = {
    **{(home, kind.__name__): kind for home in ("builtins", "__builtin__") for kind in (set, frozenset, list)},
    ("collections", "defaultdict"): dict,
    ("collections", "OrderedDict"): dict,
}
"""The names that stand for plain values, and what they are here."""
_NUMBERS_AND_TEXTS = {
    *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
    *("UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "STRING", "BINSTRING", "SHORT_BINSTRING"),
}
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_EMPTY = {"EMPTY_TUPLE": tuple, "EMPTY_LIST": list, "EMPTY_DICT": dict, "EMPTY_SET": set}
_MARK = object()
_MOST_NESTED = 500
"""Values that a tuple or frozen set may hold, each counted wherever it stands; published queries have about ten.

Hashing it visits each, and a pickle can name one tuple many times over: fifty bytes would keep a processor for years.
"""
_MOST_BITS = 64
"""Of a whole number: larger ones can be made to have one hash, and then a set of them takes the square of its size."""


def read_plain_pickle(path: Path) -> Any:
    """The value that a pickle of plain values holds; raises `MalformedFile` at anything else, which is not run."""
    with open_decompressed(path, Compression.NONE) as file:
        reader = _Reader(path)
        try:
            for instruction, argument, _ in genops(cast(IO[bytes], _Bytes(file))):
                if instruction.name == "STOP":
                    return reader.pop()
                reader.carry_out(instruction.name, argument)
        except (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError):
            raise _not_a_pickle(path) from None
    raise _not_a_pickle(path)


def _not_a_pickle(path: Path) -> MalformedFile:
    return MalformedFile(path, "not a pickle, or a damaged one", "fetch it again")


@final
class _Bytes:
    """A file that never makes room for more bytes than it has, whatever length an instruction claims."""

    def __init__(self, file: IO[bytes]) -> None:
        self._size = os.fstat(file.fileno()).st_size
        self._file = file
        self.readline = file.readline

    def read(self, count: int) -> bytes:
        """Up to so many bytes."""
        return self._file.read(min(count, self._size))


@final
class _Name:
    """A name that a pickle would import; here it is only known by what it stands for."""

    def __init__(self, kind: type) -> None:
        self.kind = kind


@final
class _Reader:
    """The values made so far, and those that the pickle will come back to."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stack: list[Any] = []
        self._kept: dict[int, Any] = {}
        self._may_copy = 0

    def pop(self) -> Any:
        """The last value."""
        value = self._stack.pop()
        if value is _MARK or isinstance(value, _Name):
            raise ValueError("no value")
        return value

    def carry_out(self, instruction: str, argument: Any) -> None:
        """Make what one instruction makes."""
        self._may_copy += 1
        if instruction in _NUMBERS_AND_TEXTS:
            if isinstance(argument, int) and argument.bit_length() > _MOST_BITS:
                raise self._too_much(f"a number of more than {_MOST_BITS} bits")
            self._stack.append(argument)
        elif instruction in _CONSTANTS:
            self._stack.append(_CONSTANTS[instruction])
        elif instruction in _EMPTY:
            self._stack.append(_EMPTY[instruction]())
        elif instruction == "MEMOIZE":
            self._kept[len(self._kept)] = self._stack[-1]
        elif instruction in ("PUT", "BINPUT", "LONG_BINPUT"):
            self._kept[argument] = self._stack[-1]
        elif instruction in ("GET", "BINGET", "LONG_BINGET"):
            self._stack.append(self._kept[argument])
        elif instruction not in ("PROTO", "FRAME"):
            self._put_together(instruction, argument)

    def _put_together(self, instruction: str, argument: Any) -> None:
        match instruction:
            case "MARK":
                self._stack.append(_MARK)
            case "TUPLE1" | "TUPLE2" | "TUPLE3":
                size = int(instruction[-1])
                items, self._stack[-size:] = self._stack[-size:], []
                self._stack.append(self._tuple(items))
            case "TUPLE":
                self._stack.append(self._tuple(self._down_to_mark()))
            case "LIST":
                self._stack.append(self._since_mark())
            case "DICT":
                self._stack.append(_paired(self._since_mark()))
            case "FROZENSET":
                self._stack.append(frozenset(self._small(self._since_mark())))
            case "APPEND":
                last = self.pop()
                self._inside(list).append(last)
            case "APPENDS":
                more = self._since_mark()
                self._inside(list).extend(more)
            case "ADDITEMS":
                more = self._since_mark()
                self._inside(set).update(more)
            case "SETITEM":
                value, key = self.pop(), self.pop()
                self._inside(dict)[key] = value
            case "SETITEMS":
                pairs = _paired(self._since_mark())
                self._inside(dict).update(pairs)
            case "GLOBAL":
                module, _, name = argument.partition(" ")
                self._stack.append(self._known(module, name))
            case "STACK_GLOBAL":
                name, module = self.pop(), self.pop()
                self._stack.append(self._known(module, name))
            case "REDUCE":
                arguments, called = self._stack.pop(), self._stack.pop()
                if not isinstance(called, _Name):
                    raise ValueError("nothing to call")
                self._stack.append(self._made(called.kind, arguments))
            case _:
                raise self._refusal(f"the instruction {instruction}")

    def _made(self, kind: type, arguments: Any) -> Any:
        """A collection of the values of another one."""
        if kind is dict or not arguments:  # what a dictionary is made with is only the name of its default
            return kind()
        (values,) = arguments
        # Each value was put there by an instruction of its own, unless the same ones are copied again and again.
        self._may_copy -= len(values)
        if self._may_copy < 0:
            raise self._too_much("copies of copies of values")
        return kind(self._small(values) if kind is frozenset else values)

    def _tuple(self, items: list[Any]) -> Any:
        """A tuple; of a name alone, as the arguments of a call, it is that name, which is no value either."""
        if len(items) == 1 and isinstance(items[0], _Name):
            return items[0]
        if any(item is _MARK or isinstance(item, _Name) for item in items):
            raise ValueError("no values")
        return tuple(self._small(items))

    def _small(self, items: Iterable[Any]) -> Iterable[Any]:
        """The same items, where hashing them all takes little."""
        if _nested(items, _MOST_NESTED) > _MOST_NESTED:
            raise self._too_much(f"a tuple or frozen set of more than {_MOST_NESTED} values, counting those inside it")
        return items

    def _down_to_mark(self) -> list[Any]:
        values: list[Any] = []
        while (value := self._stack.pop()) is not _MARK:
            values.append(value)
        return values[::-1]

    def _since_mark(self) -> list[Any]:
        values = self._down_to_mark()
        if any(isinstance(value, _Name) for value in values):
            raise ValueError("a name as a value")
        return values

    def _inside(self, kind: type) -> Any:
        """What is being filled, which is on top now."""
        if type(self._stack[-1]) is not kind:
            raise ValueError("nothing to fill")
        return self._stack[-1]

    def _known(self, module: str, name: str) -> _Name:
        full = (str(module), str(name))
        if full not in _KNOWN:
            raise self._refusal(f"{full[0]}.{full[1]}")
        return _Name(_KNOWN[full])

    def _refusal(self, wanted: str) -> MalformedFile:
        return MalformedFile(
            self._path,
            f"the pickle holds {wanted}, and only sets, tuples, lists, dictionaries, texts and numbers are read; "
            "nothing of it was run",
            "use the file that was published",
        )

    def _too_much(self, wanted: str) -> MalformedFile:
        return MalformedFile(
            self._path, f"the pickle holds {wanted}, as no query set does", "use the file that was published"
        )


def _paired(values: list[Any]) -> dict[Hashable, Any]:
    return dict(zip(values[::2], values[1::2], strict=True))


def _nested(items: Iterable[Any], most: int) -> int:
    """How many values there are, with those inside of tuples and frozen sets; above `most`, any number that is."""
    count = 0
    for item in items:
        count += 1
        if isinstance(item, tuple | frozenset):
            count += _nested(item, most - count)
        if count > most:
            break
    return count
