"""Bloom filter of a column's values: tells values that are definitely not in the file.

    int32 BE number of hash functions · bits; bit p is bit p & 7 of byte p >> 3

Texts are hashed by XXH64, numbers by Thomas Wang's function. File indexes take as values:

    TINYINT … BIGINT, DATE, TIME      the number (days, milliseconds)
    TIMESTAMP, … WITH LOCAL TIME ZONE milliseconds up to precision 3, else whole microseconds
    DECIMAL                           unscaled
    FLOAT, DOUBLE                     bits; one NaN, two zeros
    BOOLEAN                           0 or 1
    CHAR, VARCHAR, BINARY, VARBINARY  bytes

Source: `org.apache.paimon.fileindex.bloomfilter.BloomFilterFileIndex`, `BloomFilter64`, `FastHash`,
`BitmapFileIndex.getValueMapper`.
"""

import math
import struct
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Struct

from paimon_assets.engine.codec.arrow import numpy_columns as arrays
from paimon_assets.engine.codec.arrow.arrow_values import UNIT_NANOS
from paimon_assets.engine.codec.hashing.xxhash64 import xxhash64
from paimon_assets.engine.errors import FormatError
from paimon_assets.engine.spec.options.all_options import BLOOM_FPP, BLOOM_ITEMS
from paimon_assets.engine.spec.types import data_types as types

INDEX_TYPE = "bloom-filter"
_TEXTS = types.CHARACTER_ROOTS | types.BINARY_ROOTS
_COUNT = struct.Struct(">i")
_MOST_FUNCTIONS = 1024
"""A filter that takes one value of 10^300 for present has fewer."""


def is_indexed_by_bloom(data_type: types.DataType) -> bool:
    return data_type.root in types.BLOOM_ROOTS


class BloomBuilder(Struct, kw_only=True, dict=True):
    """Collects one file's column. Memory: a byte a bit of the filter, 5 MB with the defaults."""

    data_type: types.DataType
    items: int = BLOOM_ITEMS.default
    """Distinct values expected; the filter's size follows from it alone."""
    fpp: float = BLOOM_FPP.default
    """Share of absent values that may be taken for present ones."""

    def __post_init__(self) -> None:
        """Choose the size as Java does."""
        wanted = int(-self.items * math.log(self.fpp) / math.log(2) ** 2)
        self._bits = np.zeros(wanted + 8 - wanted % 8, np.bool_)
        share = len(self._bits) / self.items
        self._functions = max(1, math.floor(share * math.log(2) + 0.5))

    def add(self, values: arrays.Array) -> None:
        plain, is_text = values.drop_null(), self.data_type.root in _TEXTS
        hashes = xxhash64(plain) if is_text else _mix(to_longs(plain, self.data_type))
        for number in range(1, self._functions + 1):
            self._bits[_positions(hashes, number, len(self._bits))] = True

    def finish(self) -> bytes:
        return _COUNT.pack(self._functions) + np.packbits(self._bits, bitorder="little").tobytes()


def may_hold(data: bytes, literal: Any, data_type: types.DataType) -> bool:
    """Whether a column of the file may hold a value that equals a literal."""
    functions = _COUNT.unpack_from(data)[0] if len(data) > _COUNT.size else 0
    if not 0 < functions <= _MOST_FUNCTIONS:
        raise FormatError(f"a Bloom filter of {len(data)} bytes has {functions} hash functions")
    bits = np.frombuffer(data, np.uint8, offset=_COUNT.size)
    if data_type.root in _TEXTS:
        raw = literal.encode() if isinstance(literal, str) else literal
        hashes = xxhash64(pa.repeat(pa.scalar(raw, pa.binary()), 1))
    else:
        numbers = equal_longs(literal, data_type)
        if numbers is None or not all(-(2**63) <= number < 2**63 for number in numbers):
            return True
        hashes = _mix(np.array(numbers, np.int64))
    # A value may be there only if all of its bits are set; the literal equals any of some values.
    found = np.ones(len(hashes), np.bool_)
    for number in range(1, functions + 1):
        at = _positions(hashes, number, 8 * len(bits))
        found &= (bits[at >> 3] >> (at & 7).astype(np.uint8) & 1).astype(np.bool_)
    return bool(found.any())


def _mix(keys: npt.NDArray[np.int64]) -> arrays.Words:
    """Thomas Wang's hash of 64 bits; Java shifts the sign along."""
    keys = ~keys + (keys << 21)
    keys = keys ^ (keys >> 24)
    keys = keys + (keys << 3) + (keys << 8)
    keys = keys ^ (keys >> 14)
    keys = keys + (keys << 2) + (keys << 4)
    keys = keys ^ (keys >> 28)
    return (keys + (keys << 31)).view(np.uint64)


def _positions(hashes: arrays.Words, number: int, bit_count: int) -> arrays.Longs:
    halves = hashes.view(np.int32).reshape(-1, 2)
    combined = halves[:, 0] + np.int32(number) * halves[:, 1]
    positive = np.where(combined < 0, ~combined, combined).astype(np.int64)
    return positive % bit_count


_MILLIS_PRECISION = 3
_MICROS_PRECISION = 6
_LONG_DIGITS = 18
_DAYS_AND_MILLIS = frozenset({types.TypeRoot.DATE, types.TypeRoot.TIME})
_PLAIN_ROOTS = types.INTEGER_ROOTS | _DAYS_AND_MILLIS | {types.TypeRoot.BOOLEAN}
_FLOATS = {types.TypeRoot.FLOAT: ("<f", "<i"), types.TypeRoot.DOUBLE: ("<d", "<q")}


def is_long_decimal(data_type: types.DataType) -> bool:
    """Whether the unscaled values of a DECIMAL may leave 64 bits."""
    return (
        isinstance(data_type, types.AtomicType)
        and data_type.root is types.TypeRoot.DECIMAL
        and (data_type.precision or 0) > _LONG_DIGITS
    )


def to_longs(values: arrays.Array, data_type: types.DataType) -> arrays.Longs:
    """Return the indexed number of each value of a column that is no text."""
    root = data_type.root
    if root in types.TIMESTAMP_ROOTS:
        counts: arrays.Longs = arrays.to_numpy(values.cast(pa.int64()))
        stored, wanted = UNIT_NANOS[values.type.unit], _unit_nanos(data_type)
        finer = stored >= wanted
        longs = counts * (stored // wanted) if finer else counts // (wanted // stored)
        return longs.astype(np.int64, copy=False)
    if root is types.TypeRoot.DECIMAL:
        return arrays.decimal_words(values)[:, 0]  # all of a short one
    if root in _FLOATS:
        floats = arrays.to_numpy(values)
        bits = np.where(np.isnan(floats), floats.dtype.type(np.nan), floats)
        return bits.view(f"i{bits.itemsize}").astype(np.int64)
    plain = values.view(pa.int32()) if root in _DAYS_AND_MILLIS else values
    return arrays.to_numpy(plain).astype(np.int64)


def _unit_nanos(data_type: types.DataType) -> int:
    precision = data_type.precision if isinstance(data_type, types.AtomicType) else None
    coarse = precision is not None and precision <= _MILLIS_PRECISION
    return UNIT_NANOS["ms" if coarse else "us"]


def literal_as_long(literal: Any, data_type: types.DataType) -> tuple[int, bool] | None:
    """Return (indexed number of a literal, whether no other value has it).

    If it is not exact, the index's number is that of the value just below the literal, or of
    several values. None means that the literal has no number.
    """
    root = data_type.root
    if root in types.TIMESTAMP_ROOTS:
        whole, rest = divmod(int(literal), _unit_nanos(data_type))
        precision = data_type.precision if isinstance(data_type, types.AtomicType) else None
        fine = precision is not None and precision > _MICROS_PRECISION
        return whole, not rest and not fine
    if root is types.TypeRoot.DECIMAL:
        scale = (data_type.scale or 0) if isinstance(data_type, types.AtomicType) else 0
        unscaled = Decimal(literal).scaleb(scale)
        return math.floor(unscaled), unscaled == math.floor(unscaled)
    if root in _FLOATS:
        if math.isnan(literal):
            return None
        floating, integer = _FLOATS[root]
        return struct.unpack(integer, struct.pack(floating, literal))[0], True
    return (int(literal), True) if root in _PLAIN_ROOTS else None


def equal_longs(literal: Any, data_type: types.DataType) -> tuple[int, ...] | None:
    """Return every number an index may hold for values that equal a literal; None is unknown.

    Zero has two signs, which compare as equal and have bits of their own.
    """
    if data_type.root in _FLOATS and literal == 0:
        signs = (literal_as_long(sign, data_type) for sign in (0.0, -0.0))
        return tuple(found[0] for found in signs if found is not None)
    found = literal_as_long(literal, data_type)
    return None if found is None else (found[0],)
