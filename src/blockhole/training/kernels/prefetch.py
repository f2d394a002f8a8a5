"""Asking the processor for a row before it is needed, which plain Python loops cannot say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

CACHE_LINE = 64

if TYPE_CHECKING:

    def prefetch_row(table: NDArray[np.float32], row: int | np.int64) -> None:
        """Begin to load table[row] into the caches; `table` is C-contiguous, [rows, width]."""

else:
    from llvmlite import ir
    from numba.core import cgutils, types
    from numba.extending import intrinsic

    @intrinsic
    def prefetch_row(typing_context: Any, table: Any, row: Any) -> Any:
        """Begin to load table[row] into the caches; `table` is C-contiguous, [rows, width]."""

        def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            table_type, row_type = signature.args
            array = context.make_array(table_type)(context, builder, arguments[0])
            row_bytes = builder.extract_value(array.strides, 0)
            number = context.cast(builder, arguments[1], row_type, types.intp)
            start = builder.add(builder.ptrtoint(array.data, row_bytes.type), builder.mul(number, row_bytes))
            byte_pointer, int32 = ir.IntType(8).as_pointer(), ir.IntType(32)
            signature_of_prefetch = ir.FunctionType(ir.VoidType(), [byte_pointer, int32, int32, int32])
            llvm_prefetch = cgutils.get_or_insert_function(builder.module, signature_of_prefetch, "llvm.prefetch.p0")
            zero, line = row_bytes.type(0), row_bytes.type(CACHE_LINE)
            with cgutils.for_range_slice(builder, zero, row_bytes, line, inc=True) as (offset, _):
                address = builder.inttoptr(builder.add(start, offset), byte_pointer)
                # For reading, with the most locality, into the data caches.
                builder.call(llvm_prefetch, [address, int32(0), int32(3), int32(1)])
            return context.get_dummy_value()

        return types.void(table, row), emit
