"""Bloom filter of a column's values: tells values that are definitely not in the file.

    int32 BE number of hash functions · bits; bit p is bit p & 7 of byte p >> 3

Texts are hashed by XXH64, numbers by Thomas Wang's function.
Source: `org.apache.paimon.fileindex.bloomfilter.BloomFilterFileIndex`, `BloomFilter64`, `FastHash`.
"""

import math
import struct
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_assets.engine.codec.file_index.file_index_values import equal_longs, to_longs
from paimon_assets.engine.codec.hashing.xxhash64 import xxhash64
from paimon_assets.engine.errors import FormatError
from paimon_assets.engine.spec.options.all_options import BLOOM_FPP, BLOOM_ITEMS
from paimon_assets.engine.spec.types.data_types import (
    BINARY_ROOTS,
    CHARACTER_ROOTS,
    INTEGER_ROOTS,
    TIMESTAMP_ROOTS,
    DataType,
    TypeRoot,
)

INDEX_TYPE = "bloom-filter"
_TEXTS = CHARACTER_ROOTS | BINARY_ROOTS
_ROOTS = (
    _TEXTS
    | INTEGER_ROOTS
    | TIMESTAMP_ROOTS
    | {TypeRoot.DATE, TypeRoot.TIME, TypeRoot.FLOAT, TypeRoot.DOUBLE}
)
_COUNT = struct.Struct(">i")
_MOST_FUNCTIONS = 1024
"""A filter that takes one value of 10^300 for present has fewer."""

Longs = npt.NDArray[np.uint64]


def is_indexed_by_bloom(data_type: DataType) -> bool:
    """Whether columns of this type may have a Bloom filter."""
    return data_type.root in _ROOTS


@dataclass(slots=True, kw_only=True)
class BloomBuilder:
    """Collects the values of one file's column.

    Memory: a byte for each bit of the filter, some 5 MB with the defaults.
    """

    data_type: DataType
    items: int = BLOOM_ITEMS.default
    """Distinct values expected; the filter's size follows from it alone."""
    fpp: float = BLOOM_FPP.default
    """Share of absent values that may be taken for present ones."""
    _bits: npt.NDArray[np.bool_] = field(init=False)
    _functions: int = field(init=False)

    def __post_init__(self) -> None:
        """Choose the size as Java does."""
        wanted = int(-self.items * math.log(self.fpp) / math.log(2) ** 2)
        self._bits = np.zeros(wanted + 8 - wanted % 8, np.bool_)
        share = len(self._bits) / self.items
        self._functions = max(1, math.floor(share * math.log(2) + 0.5))

    def add(self, values: Any) -> None:
        """Take in further values of the column, nulls among them."""
        hashes = _hashes(values.drop_null(), self.data_type)
        for number in range(1, self._functions + 1):
            self._bits[_positions(hashes, number, len(self._bits))] = True

    def finish(self) -> bytes:
        """Return the index."""
        return _COUNT.pack(self._functions) + np.packbits(self._bits, bitorder="little").tobytes()


def may_hold(data: bytes, literal: Any, data_type: DataType) -> bool:
    """Whether a column of the file may hold a value that equals a literal."""
    functions = _COUNT.unpack_from(data)[0] if len(data) > _COUNT.size else 0
    if not 0 < functions <= _MOST_FUNCTIONS:
        raise FormatError(f"a Bloom filter of {len(data)} bytes has {functions} hash functions")
    bits = np.frombuffer(data, np.uint8, offset=_COUNT.size)
    hashes = _literal_hashes(literal, data_type)
    if hashes is None:
        return True
    found = np.ones(len(hashes), np.bool_)
    for number in range(1, functions + 1):
        at = _positions(hashes, number, 8 * len(bits))
        found &= (bits[at >> 3] >> (at & 7).astype(np.uint8) & 1).astype(np.bool_)
    return bool(found.any())


def _literal_hashes(literal: Any, data_type: DataType) -> Longs | None:
    if data_type.root in _TEXTS:
        raw = literal.encode() if isinstance(literal, str) else literal
        return xxhash64(pa.repeat(pa.scalar(raw, pa.binary()), 1))
    numbers = equal_longs(literal, data_type)
    if numbers is None or not all(-(2**63) <= number < 2**63 for number in numbers):
        return None
    return _mix(np.array(numbers, np.int64))


def _hashes(values: Any, data_type: DataType) -> Longs:
    if data_type.root in _TEXTS:
        return xxhash64(values)
    return _mix(to_longs(values, data_type))


def _mix(keys: npt.NDArray[np.int64]) -> Longs:
    """Thomas Wang's hash of 64 bits; Java shifts the sign along."""
    keys = ~keys + (keys << 21)
    keys = keys ^ (keys >> 24)
    keys = keys + (keys << 3) + (keys << 8)
    keys = keys ^ (keys >> 14)
    keys = keys + (keys << 2) + (keys << 4)
    keys = keys ^ (keys >> 28)
    return (keys + (keys << 31)).view(np.uint64)


def _positions(hashes: Longs, number: int, bit_count: int) -> npt.NDArray[np.int64]:
    halves = hashes.view(np.int32).reshape(-1, 2)
    combined = halves[:, 0] + np.int32(number) * halves[:, 1]
    positive = np.where(combined < 0, ~combined, combined).astype(np.int64)
    return positive % bit_count
