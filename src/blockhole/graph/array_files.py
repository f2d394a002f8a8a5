"""NumPy files that grow and are read piece by piece: arrays larger than memory, without mapping them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self, final

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray


@final
class GrowingArray:
    """A .npy file of rows of one shape, written by appending; it is valid once closed. `length` counts the rows."""

    def __init__(self, path: Path, dtype: type[np.generic], row: tuple[int, ...] = ()) -> None:
        self._dtype = np.dtype(dtype)
        self._row = row
        self._file = path.open("wb")
        self.length = 0
        self._write_header()

    def append(self, rows: NDArray[Any]) -> None:
        """Add rows at the end."""
        rows = np.ascontiguousarray(rows, dtype=self._dtype)
        rows.tofile(self._file)
        self.length += len(rows)

    def _write_header(self) -> None:
        # NumPy leaves room in the header for the first axis to grow, so that it can be written over in place.
        shape = (self.length, *self._row)
        header = {"descr": npy.dtype_to_descr(self._dtype), "fortran_order": False, "shape": shape}
        npy.write_array_header_1_0(self._file, header)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._file:
            self._file.flush()
            self._file.seek(0)
            self._write_header()


def pieces(path: Path, rows: int) -> Iterator[NDArray[Any]]:
    """A .npy file `rows` rows at a time. Read, not mapped: mapped pages would count as memory of the process."""
    with path.open("rb") as file:
        npy.read_magic(file)
        shape, _, dtype = npy.read_array_header_1_0(file)
        width = int(np.prod(shape[1:]))
        for first in range(0, shape[0], rows):
            count = min(rows, shape[0] - first)
            yield np.fromfile(file, dtype, count * width).reshape(count, *shape[1:])
