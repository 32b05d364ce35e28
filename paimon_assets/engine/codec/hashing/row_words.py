"""Murmur hash of BinaryRows that are never built: column by column, word by word.

A row is hashed as little-endian 32-bit words: header and null bits, two words a slot, then the
variable part. Rows of one *layout* (the padded lengths of their long texts) have the same words in
the same places, so each word is one numpy vector, or a number where all rows agree.
Source: `org.apache.paimon.utils.MurmurHashUtils`, `codec.rows.binary_row` for the layout.
"""

import struct
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Struct

from paimon_assets.engine.codec.arrow import numpy_columns as arrays
from paimon_assets.engine.codec.rows.binary_row import MAX_INLINE_BYTES, is_compact, null_bits_bytes
from paimon_assets.engine.errors import UnsupportedFeatureError
from paimon_assets.engine.spec.types import data_types

Words32 = npt.NDArray[np.uint32]
Word = int | Words32
"""One 32-bit word of every row: a number if all rows have the same."""

SEED = 42
_C1, _C2 = 0xCC9E2D51, 0x1B873593
_FINISH = ((16, 0x85EBCA6B), (13, 0xC2B2AE35))
_MASK = 0xFFFFFFFF
_LOW_MASKS = np.array([(1 << 8 * count) - 1 for count in range(9)], np.uint64)
"""Masks that keep the first 0 … 8 bytes of a little-endian word."""


def row_hashes(columns: Sequence[Any], types: Sequence[data_types.DataType]) -> Words32:
    """Return the murmur hash of every row's BinaryRow."""
    parts = [_column(column, data_type) for column, data_type in zip(columns, types, strict=True)]
    length = len(columns[0])
    hashes = np.empty(length, np.uint32)
    for rows in _layouts(parts, length):
        chosen = parts if rows is None else [part.take(rows) for part in parts]
        found = _murmur(_words(chosen))
        if rows is None:
            return found
        hashes[rows] = found
    return hashes


def row_hash(row: bytes) -> int:
    """Return the murmur hash of one BinaryRow (without arity) as unsigned 32 bits."""
    state = SEED
    for (word,) in struct.iter_unpack("<I", row):
        state = _mixed_number(state, word)
    state ^= len(row)
    for shift, factor in _FINISH:
        state = (state ^ state >> shift) * factor & _MASK
    return state ^ state >> 16


def _layouts(parts: "Sequence[_Column]", length: int) -> Iterator[npt.NDArray[np.intp] | None]:
    """Yield the rows of each layout; None means that all rows have the same."""
    lengths = [part.padded for part in parts if isinstance(part, _Text) and part.padded.any()]
    if not lengths:
        yield None
        return
    key = lengths[0]
    for other in lengths[1:]:
        # Renumber densely, so that many long columns do not overflow the key.
        key = np.unique(key, return_inverse=True)[1] * (int(other.max()) + 1) + other
    order = np.argsort(key, kind="stable")
    ordered = key[order]
    cuts = np.flatnonzero(ordered[1:] != ordered[:-1]) + 1
    if not len(cuts):
        yield None
        return
    yield from np.split(order, cuts)


def _words(parts: "Sequence[_Column]") -> list[Word]:
    """Lay out the rows of one layout: header and null bits, slots, variable part."""
    offset = null_bits_bytes(len(parts)) + 8 * len(parts)
    header: list[Word] = [0] * (null_bits_bytes(len(parts)) // 4)
    slots: list[Word] = []
    variable: list[Word] = []
    for index, part in enumerate(parts):
        if part.nulls is not None:
            word, bit = divmod(index + 8, 32)
            header[word] = np.bitwise_or(
                header[word], part.nulls.astype(np.uint32) << np.uint32(bit)
            )
        slot, behind = part.words(offset)
        slots += slot
        variable += behind
        offset += 4 * len(behind)
    return header + slots + variable


def _murmur(words: list[Word]) -> Words32:
    """Murmur3 x86 32 of equally long rows of whole words."""
    # First words that all rows share are mixed once, as numbers; the rest is mixed row by row.
    start = next(index for index, word in enumerate(words) if not isinstance(word, int))
    seed = SEED
    for word in words[:start]:
        seed = _mixed_number(seed, int(word))
    state = np.full(len(np.asarray(words[start])), seed, np.uint32)
    scratch = np.empty_like(state)
    for word in words[start:]:
        _mix(state, word, scratch)
    state ^= np.uint32(4 * len(words))
    for shift, factor in _FINISH:
        state ^= np.right_shift(state, np.uint32(shift), out=scratch)
        state *= np.uint32(factor)
    state ^= np.right_shift(state, np.uint32(16), out=scratch)
    return state


def _rotate_word(value: int, by: int) -> int:
    return (value << by | value >> (32 - by)) & _MASK


def _scramble(word: int) -> int:
    return _rotate_word(word * _C1 & _MASK, 15) * _C2 & _MASK


def _mixed_number(state: int, word: int) -> int:
    return (_rotate_word(state ^ _scramble(word), 13) * 5 + 0xE6546B64) & _MASK


def _mix(state: Words32, word: Word, scratch: Words32) -> None:
    if isinstance(word, int):
        state ^= np.uint32(_scramble(word))
    else:
        mixed = word * np.uint32(_C1)
        _rotate(mixed, 15, scratch)
        mixed *= np.uint32(_C2)
        state ^= mixed
    _rotate(state, 13, scratch)
    state *= np.uint32(5)
    state += np.uint32(0xE6546B64)


def _rotate(values: Words32, by: int, scratch: Words32) -> None:
    np.right_shift(values, np.uint32(32 - by), out=scratch)
    np.left_shift(values, np.uint32(by), out=values)
    np.bitwise_or(values, scratch, out=values)


class _Plain(Struct, frozen=True):
    """Up to 8 bytes in the slot, or a number there and constant many words behind the slots."""

    nulls: arrays.Flags | None
    """Where the value is null; None if nowhere."""
    low: Words32
    high: Word = 0
    behind: tuple[Words32, ...] = ()

    def words(self, offset: int) -> tuple[list[Word], list[Word]]:
        """Return the words of the slot and of the variable part that starts at `offset`."""
        return [self.low, offset if self.behind else self.high], list(self.behind)

    def take(self, rows: npt.NDArray[np.intp]) -> "_Plain":
        high = self.high if isinstance(self.high, int) else self.high[rows]
        behind = tuple(word[rows] for word in self.behind)
        nulls = None if self.nulls is None else self.nulls[rows]
        return _Plain(nulls, self.low[rows], high, behind)


class _Text(Struct, frozen=True):
    """Bytes in the slot if they are few, else behind the slots; methods as those of `_Plain`."""

    nulls: arrays.Flags | None
    starts: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    padded: npt.NDArray[np.int64]
    """8-byte words behind the slots: 0 for inline and null values."""
    eights: arrays.Words
    """The 8 bytes at every byte position of the column's data, little-endian."""

    def words(self, offset: int) -> tuple[list[Word], list[Word]]:
        count = int(self.padded[0]) if len(self.padded) else 0
        if count == 0:
            marks = (self.lengths | 0x80).astype(np.uint64) << np.uint64(56)
            slot = self.eights[self.starts] & _LOW_MASKS[self.lengths] | marks
            if self.nulls is not None:
                slot[self.nulls] = 0
            return list(_halves(slot)), []
        behind: list[Word] = []
        for index in range(count - 1):
            behind += _halves(self.eights[self.starts + 8 * index])
        last = 8 * (count - 1)
        tail = self.eights[self.starts + last] & _LOW_MASKS[self.lengths - last]
        behind += _halves(tail)
        return [self.lengths.astype(np.uint32), offset], behind

    def take(self, rows: npt.NDArray[np.intp]) -> "_Text":
        nulls = None if self.nulls is None else self.nulls[rows]
        starts, lengths, padded = self.starts[rows], self.lengths[rows], self.padded[rows]
        return _Text(nulls, starts, lengths, padded, self.eights)


_Column = _Plain | _Text


def _halves(longs: arrays.Words) -> tuple[Words32, Words32]:
    return longs.astype(np.uint32), (longs >> np.uint64(32)).astype(np.uint32)


_SLOT_TYPES: dict[data_types.TypeRoot, npt.DTypeLike] = {
    data_types.TypeRoot.BOOLEAN: np.uint8,
    data_types.TypeRoot.TINYINT: np.uint8,
    data_types.TypeRoot.SMALLINT: np.uint16,
    data_types.TypeRoot.INT: np.uint32,
    data_types.TypeRoot.DATE: np.uint32,
    data_types.TypeRoot.TIME: np.uint32,
    data_types.TypeRoot.FLOAT: np.uint32,
    data_types.TypeRoot.BIGINT: np.uint64,
    data_types.TypeRoot.DOUBLE: np.uint64,
}


def _column(column: arrays.Array, data_type: data_types.DataType) -> _Column:
    nulls = null_mask(column)
    root = data_type.root
    if root in _SLOT_TYPES:
        return _fix(fixed_values(column, _SLOT_TYPES[root]), nulls)
    if root in data_types.CHARACTER_ROOTS or root in data_types.BINARY_ROOTS:
        return _text(column, nulls)
    if root in data_types.TIMESTAMP_ROOTS and isinstance(data_type, data_types.AtomicType):
        return _timestamp(column, nulls, data_type)
    if root is data_types.TypeRoot.DECIMAL and isinstance(data_type, data_types.AtomicType):
        high, low = decimal_halves(column)
        return _fix(low, nulls) if is_compact(data_type) else _long_decimal(high, low, nulls)
    raise UnsupportedFeatureError(
        f"A column of type {data_type} cannot be a bucket key.", kind="bucket-key"
    )


def null_mask(column: arrays.Array) -> arrays.Flags | None:
    """Return where an Arrow array is null, or None if it is nowhere."""
    if column.null_count == 0:
        return None
    return arrays.to_numpy(column.is_null())


def fixed_values(column: Any, slot_type: npt.DTypeLike) -> npt.NDArray[Any]:
    """Return the bits of fixed-width values as unsigned numbers, without a copy but of booleans."""
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.uint8())
    return arrays.numbers_of(column, slot_type)


def _fix(values: npt.NDArray[Any], nulls: arrays.Flags | None) -> _Plain:
    if nulls is not None:
        values = np.where(nulls, values.dtype.type(0), values)
    if values.dtype.itemsize < 8:
        return _Plain(nulls, values.astype(np.uint32, copy=False))
    return _Plain(nulls, *_halves(values))


def decimal_halves(column: arrays.Array) -> tuple[arrays.Words, arrays.Words]:
    """Return the upper and lower 64 bits of a decimal128 array."""
    words = arrays.decimal_words(column).view(np.uint64)
    return words[:, 1], words[:, 0]


def _long_decimal(high: arrays.Words, low: arrays.Words, nulls: arrays.Flags | None) -> _Plain:
    """The fewest big-endian bytes of the number, filled with zeros to 16."""
    both = np.stack([high.byteswap(), low.byteswap()], axis=1)
    big_endian = both.view(np.uint8).reshape(-1, 16)
    sign = (high.view(np.int64) >> 63).astype(np.uint8)[:, None]
    # A leading byte is superfluous while it and the next byte's top bit only repeat the sign.
    repeats = (big_endian[:, :-1] == sign) & (big_endian[:, 1:] >> 7 == sign & 1)
    skipped = np.cumprod(repeats, axis=1, dtype=np.uint8).sum(axis=1, dtype=np.int64)
    lengths = (16 - skipped).astype(np.uint32)
    wide = np.concatenate([big_endian, np.zeros_like(big_endian)], axis=1)
    left = np.take_along_axis(wide, skipped[:, None] + np.arange(16), axis=1)
    if nulls is not None:
        left[nulls] = 0
        lengths[nulls] = 0
    words = np.ascontiguousarray(left).view(np.uint32)
    return _Plain(nulls, lengths, behind=tuple(words[:, index] for index in range(4)))


_NANOS = {"us": 1000, "ns": 1}


def _timestamp(
    column: Any, nulls: arrays.Flags | None, data_type: data_types.AtomicType
) -> _Column:
    if is_compact(data_type):
        millis = column.cast(pa.timestamp("ms", tz=column.type.tz))
        return _fix(fixed_values(millis, np.uint64), nulls)
    values = fixed_values(column, np.uint64).view(np.int64)
    a_milli = 1_000_000 // _NANOS[column.type.unit]
    millis = values // a_milli
    nanos = (values - millis * a_milli) * _NANOS[column.type.unit]
    if nulls is not None:
        millis[nulls] = 0
        nanos[nulls] = 0
    return _Plain(nulls, nanos.astype(np.uint32), behind=_halves(millis.view(np.uint64)))


def text_offsets(column: Any) -> npt.NDArray[np.int64]:
    """Return the start of every value of a string or binary array, and the end of the last."""
    data = np.frombuffer(column.buffers()[1] or bytes(4), np.int32)
    return data[column.offset : column.offset + len(column) + 1].astype(np.int64)


def text_bytes(column: Any, first: int, last: int) -> npt.NDArray[np.uint8]:
    """Return the bytes of a string or binary array from `first` to `last`, and 8 zeros."""
    plain = np.zeros(last - first + 8, np.uint8)
    if last > first:
        plain[:-8] = np.frombuffer(column.buffers()[2], np.uint8)[first:last]
    return plain


def _text(column: arrays.Array, nulls: arrays.Flags | None) -> _Text:
    offsets = text_offsets(column)
    first, last = int(offsets[0]), int(offsets[-1])
    plain = text_bytes(column, first, last)
    starts, lengths = offsets[:-1] - first, np.diff(offsets)
    if nulls is not None:
        lengths[nulls] = 0
    padded = np.where(lengths > MAX_INLINE_BYTES, (lengths + 7) >> 3, 0)
    # One 8-byte word at every byte position: overlapping, hence strides of one byte.
    eights = np.lib.stride_tricks.as_strided(
        plain[:8].view(np.uint64), shape=(len(plain) - 7,), strides=(1,)
    )
    return _Text(nulls, starts, lengths, padded, eights)
