"""numpy ⇄ Arrow without a copy, and without pandas.

`pa.array` and `to_numpy` of pyarrow import pandas at their first call wherever pandas is installed
(0.3 s and 40 MB), to look for a Series. Code on the way of every write and read calls these.
"""

from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Array: TypeAlias = "pa.Array[Any]"
Flags: TypeAlias = npt.NDArray[np.bool_]
Bytes: TypeAlias = npt.NDArray[np.uint8]
Ints: TypeAlias = npt.NDArray[np.int32]
Longs: TypeAlias = npt.NDArray[np.int64]
Words: TypeAlias = npt.NDArray[np.uint64]

_ARROW_TYPES: dict[np.dtype[Any], pa.DataType] = {
    dtype: pa.from_numpy_dtype(dtype)
    for dtype in map(np.dtype, ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8"))
}
_DTYPES = {arrow_type: dtype for dtype, arrow_type in _ARROW_TYPES.items()}


def from_numpy(values: npt.NDArray[Any]) -> Array:
    """Return a one-dimensional array of numbers or booleans as an Arrow array without nulls.

    Numbers share their memory with `values`, which must not change afterwards; booleans are packed.

    >>> from_numpy(np.array([3, 1], dtype=np.int16)).to_pylist()
    [3, 1]
    >>> from_numpy(np.array([True, False, True])).to_pylist()
    [True, False, True]
    """
    arrow_type = pa.bool_() if values.dtype == np.bool_ else _ARROW_TYPES[values.dtype]
    return pa.Array.from_buffers(arrow_type, len(values), [None, buffer_of(values)])


def buffer_of(values: npt.NDArray[Any]) -> pa.Buffer:
    """Return the memory of numbers, or booleans as bits."""
    stored = np.packbits(values, bitorder="little") if values.dtype == np.bool_ else values
    contiguous: Any = np.ascontiguousarray(stored)
    return pa.py_buffer(contiguous)


def to_numpy(values: Array) -> npt.NDArray[Any]:
    """Return an Arrow array of numbers or booleans as numpy, without pandas.

    Numbers share their memory, so they must not be changed; the value under a null is arbitrary.

    >>> to_numpy(from_numpy(np.array([1.5, 2.5])).slice(1)).tolist()
    [2.5]
    """
    data: Any = values.buffers()[1]
    start, count = values.offset, len(values)
    if values.type == pa.bool_():
        packed = np.frombuffer(data or b"", dtype=np.uint8)
        bits = np.unpackbits(packed, bitorder="little", count=start + count)
        return bits[start:].view(np.bool_)
    return numbers_of(values, _DTYPES[values.type])


def numbers_of(column: Array, dtype: npt.DTypeLike, width: int = 1) -> npt.NDArray[Any]:
    """Return the memory of values of fixed width as numbers; each value has `width` of them."""
    kind, data = np.dtype(dtype), cast(Any, column.buffers()[1])
    if data is None:
        return np.zeros(len(column) * width, kind)
    offset = column.offset * width * kind.itemsize
    return np.frombuffer(data, kind, len(column) * width, offset)


def decimal_words(values: Array) -> Longs:
    """Return unscaled decimals of 128 bits as rows of (low word, high word), sharing the memory."""
    return numbers_of(values, np.int64, 2).reshape(-1, 2)


def valid_rows(column: Array) -> Flags:
    """Return which values are not null."""
    return to_numpy(column.is_valid())


def flags_at(places: npt.NDArray[Any], count: int) -> Flags:
    """Return `count` flags, of which those at some places (numbers or a mask) are true."""
    flags = np.zeros(count, dtype=np.bool_)
    flags[places] = True
    return flags


def changes(values: npt.NDArray[Any]) -> Flags:
    """Return True where a value differs from the one before, and at the first."""
    differs = np.ones(len(values), dtype=np.bool_)
    np.not_equal(values[1:], values[:-1], out=differs[1:])
    return differs


def parts_of_texts(column: Any) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """Return the bounds of texts or bytes, from 0, and their bytes; those of nulls are empty.

    >>> bounds, data = parts_of_texts(pa.array(["x", "ab", None, "c"]).slice(1))
    >>> bounds.tolist(), data.tobytes()
    ([0, 2, 2, 3], b'abc')
    """
    if not len(column):
        return np.zeros(1, np.int64), np.zeros(0, np.uint8)
    if column.null_count:
        column = column.fill_null("" if pa.types.is_string(column.type) else b"")
    _, places, content = column.buffers()
    bounds = np.frombuffer(places, np.int32)[column.offset : column.offset + len(column) + 1]
    data = np.frombuffer(content or b"", np.uint8)[bounds[0] : bounds[-1]]
    return bounds.astype(np.int64) - bounds[0], data


def binary_of(bounds: npt.NDArray[Any], data: npt.NDArray[Any], like: Any) -> Any:
    """Return bytes by their bounds, with the nulls of another column."""
    parts = [None, buffer_of(bounds.astype(np.int32)), buffer_of(data)]
    made: Any = pa.Array.from_buffers(pa.binary(), len(like), parts)
    return pc.if_else(like.is_valid(), made, None) if like.null_count else made
