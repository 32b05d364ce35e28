"""Order rows by key columns with numpy: every key becomes one 64-bit word of the same order.

Integers, dates, times and decimals are offset by the column's smallest value, strings and bytes
give the first eight bytes after the prefix of all rows, and several columns are packed into one
word. Rows whose words are equal although their keys may differ (long strings, wide composites) are
compared by their true keys, and only groups with different keys are sorted again.

Key order is Paimon's: numbers by value, false before true, strings and bytes by unsigned bytes,
nulls first. Floating point is compared by `>` and `<`, so -0.0 and 0.0 are equal. NaN, which is
neither larger nor smaller than a number, is last; among sequence fields it ties with every
number, so that arrival decides (`order_within_groups`).
Source: generated record comparators of `org.apache.paimon.codegen`; measured in `tools/bench`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_assets.engine.codec.arrow import numpy_columns
from paimon_assets.engine.codec.arrow.arrow_values import total_order, total_order_words
from paimon_assets.engine.codec.arrow.numpy_columns import Array, Flags, Words, from_numpy, to_numpy
from paimon_assets.engine.errors import UnsupportedFeatureError
from paimon_assets.engine.spec.values import Value

Column: TypeAlias = "pa.Array[Any] | pa.ChunkedArray[Any]"
Order = npt.NDArray[np.int64]

_WORD_BITS = 64
_WORD_BYTES = 8
_RUN_ROWS = 128
"""Rows of sorted runs, at least, of which a merge is faster than quicksort."""
_LEADING_BYTES = np.array([2**64 - 2 ** (64 - 8 * count) for count in range(9)], dtype=np.uint64)
"""Number of bytes → mask of that many leading bytes of a word."""


class KeyOrder(Value):
    """Rows in key order, and the start of each key."""

    order: Order
    """Row numbers, stable: rows of one key keep their input order."""
    starts: Flags
    """Same length; True where the row differs in key from the one before (and at the first)."""


class _Part(Value):
    """A part of a key as unsigned numbers below 2**bits."""

    values: Words
    bits: int


def sort_keys(keys: Sequence[Column]) -> KeyOrder:
    """Order rows by `keys`, ascending and stable.

    Cost:
        Linear on sorted input, nearly linear on a concatenation of sorted runs.
    """
    arrays = [_plain(key) for key in keys]
    words, bits, exact = _pack(arrays)
    order, starts = _stable_order(words, bits)
    if not exact and not starts.all():
        return _resolve_ties(arrays, order, starts)
    return KeyOrder(order=order, starts=starts)


def order_within_groups(
    by_key: KeyOrder, then: Sequence[Column | npt.NDArray[Any]], *, descending: bool = False
) -> Order:
    """Sort rows of equal keys by further columns; only these rows are compared."""
    order, starts = by_key.order, by_key.starts
    if starts.all():
        return order
    # Only rows that share their key with another move, among the places of these rows.
    shared = ~starts
    shared[:-1] |= ~starts[1:]
    places = np.flatnonzero(shared)
    rows = order[places]
    groups = np.cumsum(starts[places])
    words: list[npt.NDArray[Any]] = [groups]
    arrays = [column[rows] for column in then if isinstance(column, np.ndarray)]
    for column in then:
        word = _then_words(column, rows, descending=descending)
        if isinstance(column, np.ndarray) or not pa.types.is_floating(column.type):
            words.append(word)
            continue
        values: Array = _plain(column).take(from_numpy(rows))
        nan = to_numpy(pc.is_nan(values).fill_null(False))  # noqa: FBT003
        if nan.any():
            words.append(_restarts(nan, np.lexsort([*arrays[::-1], groups])))
            words.append(np.where(numpy_columns.valid_rows(values), np.where(nan, 1, 2), 0))
            word = np.where(nan, np.uint64(0), word)
        words.append(word)
    packed, bits, complete = _pack_parts((_span(word, None) for word in words), len(rows))
    inner = _stable_order(packed, bits)[0] if complete else np.lexsort(words[::-1])
    result = order.copy()
    result[places] = rows[inner]
    return result


def order_words(column: Column) -> Words:
    """Map each value to a number in the order of Java's `compareTo`, equal for equal values.

    That is the key order, except that -0.0 is below 0.0. Fixed-width types cost one pass; strings,
    bytes and wide decimals are sorted once.
    """
    array = _plain(column)
    return _key_words(total_order(array) if pa.types.is_floating(array.type) else array)


def _key_words(array: pa.Array[Any]) -> Words:
    words, _, exact = _pack([array])
    if exact:
        return words
    by_key = sort_keys([array])
    ranks = np.empty(len(array), dtype=np.uint64)
    ranks[by_key.order] = np.cumsum(by_key.starts).astype(np.uint64)
    return ranks


def _restarts(nan: Flags, arrival: Order) -> Order:
    """Count the NaN up to each row, in order of group and arrival.

    A NaN ties with the record before and with the next one. Of two records that tie the later one
    wins, so the comparison restarts at each NaN.
    """
    counts = np.empty(len(nan), dtype=np.int64)
    counts[arrival] = np.cumsum(nan[arrival])
    return counts


def _then_words(
    column: Column | npt.NDArray[Any], rows: Order, *, descending: bool
) -> npt.NDArray[Any]:
    if isinstance(column, np.ndarray):
        return column[rows]
    indices: Array = from_numpy(rows)
    values = _plain(column).take(indices)
    words = _key_words(values)
    if not descending:
        return words
    flipped: Words = words.max(initial=np.uint64(0)) - words
    if not values.null_count:
        return flipped
    # Nulls are the smallest in both directions, so they move ahead of the flipped values.
    valid = numpy_columns.valid_rows(values)
    ranks = np.unique(flipped, return_inverse=True)[1].astype(np.uint64) + np.uint64(1)
    return np.where(valid, ranks, np.uint64(0))


def _plain(column: Column) -> pa.Array[Any]:
    array: Any = column
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    return array.dictionary_decode() if isinstance(array, pa.DictionaryArray) else array


def _stable_order(words: Words, bits: int) -> tuple[Order, Flags]:
    """Order rows by words, which are overwritten; also return where another word begins."""
    count = len(words)
    descents = np.count_nonzero(words[1:] < words[:-1])
    if not descents:
        return np.arange(count, dtype=np.int64), numpy_columns.changes(words)
    index_bits = (count - 1).bit_length()
    if bits + index_bits > _WORD_BITS:
        order = np.argsort(words, kind="stable")
        return order, numpy_columns.changes(words[order])
    # The row number in the low bits makes every value distinct, so every sort of plain integers is
    # stable. Quicksort is the fastest on unsorted input; the other one only merges sorted runs.
    words <<= np.uint64(index_bits)
    words |= np.arange(count, dtype=np.uint32)
    words.sort(kind="stable" if descents * _RUN_ROWS < count else "quicksort")
    starts = numpy_columns.changes(words >> np.uint64(index_bits))
    words &= np.uint64((1 << index_bits) - 1)
    return words.view(np.int64), starts


def _resolve_ties(arrays: Sequence[pa.Array[Any]], order: Order, starts: Flags) -> KeyOrder:
    """Compare true keys where words are equal, and sort the groups in which they differ."""
    maybe_equal = np.flatnonzero(~starts)
    differ = _differ(arrays, order[maybe_equal - 1], order[maybe_equal])
    if not differ.any():
        return KeyOrder(order=order, starts=starts)
    # Equal words may hide different keys. Words order the groups, so a group keeps its places, and
    # only groups with a neighbour that differs are sorted inside.
    groups = np.cumsum(starts) - 1
    mixed = numpy_columns.flags_at(groups[maybe_equal[differ]], int(groups[-1]) + 1)
    places = np.flatnonzero(mixed[groups])
    rows = order[places]
    indices: Any = from_numpy(rows)
    columns = [from_numpy(groups[places])]
    for array in arrays:
        columns.extend(_comparable(array.take(indices)))
    table = pa.table(columns, names=[str(number) for number in range(len(columns))])
    keys: Any = [(name, "ascending") for name in table.column_names]
    inner = pc.sort_indices(table, sort_keys=keys)
    order = order.copy()
    order[places] = rows[to_numpy(inner)]
    starts = starts.copy()
    starts[maybe_equal] = _differ(arrays, order[maybe_equal - 1], order[maybe_equal])
    return KeyOrder(order=order, starts=starts)


def _differ(arrays: Sequence[pa.Array[Any]], before: Order, after: Order) -> Flags:
    """Return whether the keys of `before[i]` and `after[i]` differ."""
    count = len(before)
    rows = from_numpy(np.concatenate([before, after]))
    result = np.zeros(count, dtype=np.bool_)
    for array in arrays:
        values = array.take(rows)
        if not _is_bytes(array.type):
            for part in _parts(values)[0]:
                result |= part.values[:count] != part.values[count:]
            continue
        unequal = pc.not_equal(values[:count], values[count:])
        result |= to_numpy(unequal.fill_null(False))  # noqa: FBT003
        if values.null_count:
            valid = numpy_columns.valid_rows(values)
            result |= valid[:count] != valid[count:]
    return result


def _comparable(array: pa.Array[Any]) -> list[pa.Array[Any]]:
    """Return columns that pyarrow sorts in key order: bytes unchanged, all else as words."""
    if _is_bytes(array.type):
        if not array.null_count:
            return [array]
        empty: Any = pa.scalar(b"", pa.binary()).cast(array.type)
        return [
            from_numpy(numpy_columns.valid_rows(array).astype(np.uint8)),
            array.fill_null(empty),
        ]
    return [from_numpy(part.values) for part in _parts(array)[0]]


def _pack(arrays: Sequence[pa.Array[Any]]) -> tuple[Words, int, bool]:
    """Pack the columns into one word; return (words, their bits, whether they are lossless)."""
    lossless = True

    def parts() -> Iterator[_Part]:
        nonlocal lossless
        for array in arrays:
            column_parts, lossless = _parts(array)
            yield from column_parts
            if not lossless:
                return

    words, used, complete = _pack_parts(parts(), len(arrays[0]))
    return words, used, complete and lossless


def _pack_parts(parts: Iterable[_Part], count: int) -> tuple[Words, int, bool]:
    """Pack parts into one word; the first that does not fit gives its high bits and is the last."""
    words = np.zeros(count, dtype=np.uint64)
    used = 0
    for part in parts:
        room = _WORD_BITS - used
        if part.bits > room:
            if room:
                words = words << np.uint64(room) | part.values >> np.uint64(part.bits - room)
            return words, _WORD_BITS, False
        # A shift by all 64 bits would be undefined; the first part needs no shift.
        words = words << np.uint64(part.bits) | part.values if used else part.values
        used += part.bits
    return words, used, True


def _parts(array: pa.Array[Any]) -> tuple[list[_Part], bool]:
    """Split a column into unsigned numbers, most significant first; False if they are lossy."""
    valid = numpy_columns.valid_rows(array) if array.null_count else None
    # Parts that are compared one after the other have the order of the column. A null is 0 in each.
    parts = [] if valid is None else [_Part(values=valid.astype(np.uint64), bits=1)]
    data_type = array.type
    exact = True
    if _is_bytes(data_type):
        words, lengths, exact = _byte_words(array)
        parts.append(_span(words, valid))
        if exact:
            parts.append(_span(lengths, valid))
    elif pa.types.is_decimal128(data_type):
        halves = numpy_columns.decimal_words(array)
        low = np.ascontiguousarray(halves[:, 0])
        if data_type.precision > 18:
            parts.append(_span(np.ascontiguousarray(halves[:, 1]), valid))
            low = low.view(np.uint64)
        parts.append(_span(low, valid))
    else:
        parts.append(_span(_numbers(array), valid))
    return parts, exact


def _span(values: npt.NDArray[Any], valid: Flags | None) -> _Part:
    """Offset int64 or uint64 values by their smallest; nulls become 0."""
    present = values if valid is None else values[valid]
    if not len(present):
        return _Part(values=np.zeros(len(values), dtype=np.uint64), bits=0)
    low, high = int(present.min()), int(present.max())
    offsets: Words = values.view(np.uint64) - np.uint64(low % 2**64)
    if valid is not None:
        offsets = np.where(valid, offsets, np.uint64(0))
    return _Part(values=offsets, bits=(high - low).bit_length())


def _numbers(array: pa.Array[Any]) -> npt.NDArray[Any]:
    """Return fixed-width values as int64 or uint64 in key order; null slots hold anything."""
    data_type = array.type
    if pa.types.is_boolean(data_type):
        return to_numpy(array.fill_null(False)).astype(np.int64)  # noqa: FBT003
    if pa.types.is_floating(data_type):
        return float_words(numpy_columns.numbers_of(array, data_type.to_pandas_dtype()))
    if pa.types.is_unsigned_integer(data_type):
        return to_numpy(array).astype(np.uint64, copy=False)
    if pa.types.is_signed_integer(data_type) or pa.types.is_temporal(data_type):
        numbers = numpy_columns.numbers_of(array, f"i{data_type.bit_width // 8}")
        return numbers.astype(np.int64, copy=False)
    raise UnsupportedFeatureError(
        f"Values of Arrow type {data_type} have no order, so they can be neither key nor sequence.",
        kind="unordered-type",
    )


def float_words(values: npt.NDArray[Any]) -> Words:
    """Map floating-point values to numbers in key order: the zeros are equal, NaN is last."""
    return total_order_words(values.astype(np.float64) + 0.0)


def _is_bytes(data_type: pa.DataType) -> bool:
    types = pa.types
    return (
        types.is_string(data_type)
        or types.is_large_string(data_type)
        or types.is_binary(data_type)
        or types.is_large_binary(data_type)
    )


def _byte_words(array: pa.Array[Any]) -> tuple[Words, npt.NDArray[np.int64], bool]:
    """Read eight bytes of each value after the prefix of all values."""
    large = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    dtype = np.dtype(np.int64 if large else np.int32)
    buffers: Any = array.buffers()
    if buffers[1] is None or not len(array):
        zeros = np.zeros(len(array), dtype=np.int64)
        return zeros.view(np.uint64), zeros, True
    # A value is from `begins` to its end, without the prefix that all share.
    ends = np.frombuffer(
        buffers[1], dtype=dtype, count=len(array) + 1, offset=array.offset * dtype.itemsize
    ).astype(np.int64)
    # Bytes behind a value's end read as zero, so no value is above one that it begins; the lengths,
    # compared next, tell it from the same with zeros behind.
    prefix = _shared_prefix(array)
    begins = ends[:-1] + prefix
    lengths = np.maximum(ends[1:] - begins, 0)
    words = _eight_bytes(buffers[2], begins)
    words &= _LEADING_BYTES[np.minimum(lengths, _WORD_BYTES)]
    longest = int(lengths.max())
    if 0 < longest < _WORD_BYTES:
        words >>= np.uint64(8 * (_WORD_BYTES - longest))
    return words, lengths, longest <= _WORD_BYTES


def _shared_prefix(array: pa.Array[Any]) -> int:
    """Return how many leading bytes the smallest and the largest value, so all, have in common."""
    limits: Any = pc.min_max(array)
    low, high = (
        bound.encode() if isinstance(bound, str) else bound
        for bound in (limits["min"].as_py(), limits["max"].as_py())
    )
    if low is None:
        return 0
    for position, (left, right) in enumerate(zip(low, high, strict=False)):
        if left != right:
            return position
    return min(len(low), len(high))


def _eight_bytes(buffer: pa.Buffer | None, begins: Order) -> Words:
    """Read a big-endian word at each position; bytes behind the buffer's end read as zero."""
    content: Any = buffer
    if buffer is None or buffer.size < _WORD_BYTES:
        data = b"" if buffer is None else buffer.to_pybytes()
        content = pa.py_buffer(data.ljust(_WORD_BYTES, b"\0"))
    last = content.size - _WORD_BYTES
    # A view with a word at every byte position: overlapping, unaligned, without a copy.
    view: Words = np.ndarray((last + 1,), dtype=">u8", buffer=content, strides=(1,))
    positions = np.minimum(begins, last)
    words: Words = view[positions].astype(np.uint64)
    beyond = np.minimum(begins - positions, _WORD_BYTES - 1).astype(np.uint64)
    if beyond.any():
        words <<= beyond * np.uint64(8)
    return words
