"""Bit-sliced index: bitmaps of the rows whose value has this or that bit; answers comparisons.

    byte version 1 · int32 rows · (boolean, slices) of values from 0 · (boolean, slices) of others
    slices: byte version 1 · int64 smallest, largest · bitmap of rows · int32 n · n bitmaps

Negative values are stored by their distance from 0. Values are stored minus the smallest.
Source: `org.apache.paimon.fileindex.bsi.BitSliceIndexBitmapFileIndex`,
`org.apache.paimon.utils.BitSliceIndexRoaringBitmap`.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap

from paimon_assets.engine.codec.arrow.numpy_columns import to_numpy
from paimon_assets.engine.codec.bitmaps.roaring import read_bitmap, serialized_bitmap
from paimon_assets.engine.codec.file_index.file_index_values import is_long_decimal, to_longs
from paimon_assets.engine.errors import FormatError
from paimon_assets.engine.spec.predicate.predicate import CompareOp
from paimon_assets.engine.spec.types.data_types import (
    INTEGER_ROOTS,
    TIMESTAMP_ROOTS,
    DataType,
    TypeRoot,
)

INDEX_TYPE = "bsi"
_VERSION = 1
_ROOTS = INTEGER_ROOTS | TIMESTAMP_ROOTS | {TypeRoot.DATE, TypeRoot.TIME, TypeRoot.DECIMAL}
_HEAD = struct.Struct(">bi")
_SLICES = struct.Struct(">bqq")
_INT = struct.Struct(">i")
_SMALLEST_LONG = -(2**63)

Longs = npt.NDArray[np.int64]
Positions = npt.NDArray[np.uint32]


def is_indexed_by_bsi(data_type: DataType) -> bool:
    """Whether columns of this type may have a bit-sliced index."""
    return data_type.root in _ROOTS and not is_long_decimal(data_type)


@dataclass(slots=True, kw_only=True)
class BsiBuilder:
    """Collects the values of one file's column. Memory: 12 bytes a row."""

    data_type: DataType
    _rows: int = 0
    _positions: list[Positions] = field(default_factory=list)
    _values: list[Longs] = field(default_factory=list)

    def add(self, values: Any) -> None:
        """Take in further values of the column, nulls among them."""
        present = np.flatnonzero(to_numpy(values.is_valid())) + self._rows
        self._positions.append(present.astype(np.uint32))
        self._values.append(to_longs(values.drop_null(), self.data_type))
        self._rows += len(values)

    def finish(self) -> bytes | None:
        """Return the index; None if it cannot hold a value: the smallest of 64 bits."""
        positions = np.concatenate([np.empty(0, np.uint32), *self._positions])
        values = np.concatenate([np.empty(0, np.int64), *self._values])
        if (values == _SMALLEST_LONG).any():
            return None
        negative = values < 0
        return (
            _HEAD.pack(_VERSION, self._rows)
            + _encoded(positions[~negative], values[~negative])
            + _encoded(positions[negative], -values[negative])
        )


def _encoded(positions: Positions, values: Longs) -> bytes:
    """Encode values from 0; Java starts at 0 whatever the smallest is."""
    if not len(values):
        return b"\0"
    largest = int(values.max())
    slices = [
        positions[(values >> np.int64(bit) & 1).astype(np.bool_)]
        for bit in range(largest.bit_length())
    ]
    return b"".join(
        (
            b"\1",
            _SLICES.pack(_VERSION, 0, largest),
            serialized_bitmap(positions),
            _INT.pack(len(slices)),
            *(serialized_bitmap(rows) for rows in slices),
        )
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Slices:
    """The values of one sign."""

    smallest: int = 0
    largest: int = -1
    rows: BitMap = field(default_factory=BitMap)
    slices: tuple[BitMap, ...] = ()

    def compared(self, op: CompareOp, value: int) -> BitMap:
        """Return the rows of which `stored value op value` is true (O'Neil and Quass)."""
        if value < self.smallest or value > self.largest:
            below = value < self.smallest
            all_pass = op in (_ABOVE if below else _BELOW)
            return self.rows if all_pass else BitMap()
        wanted = value - self.smallest
        less, more, same = BitMap(), BitMap(), self.rows
        for bit in reversed(range(len(self.slices))):
            if wanted >> bit & 1:
                less, same = less | (same - self.slices[bit]), same & self.slices[bit]
            else:
                more, same = more | (same & self.slices[bit]), same - self.slices[bit]
        return {
            CompareOp.EQ: same,
            CompareOp.NE: less | more,
            CompareOp.LT: less,
            CompareOp.LE: less | same,
            CompareOp.GT: more,
            CompareOp.GE: more | same,
        }[op]


_ABOVE = frozenset({CompareOp.GT, CompareOp.GE, CompareOp.NE})
_BELOW = frozenset({CompareOp.LT, CompareOp.LE, CompareOp.NE})


@dataclass(frozen=True, slots=True, kw_only=True)
class BsiIndex:
    """A bit-sliced index that was read."""

    row_count: int
    from_zero: _Slices
    """Values of 0 and more."""
    below_zero: _Slices
    """Distances from 0 of the others."""

    @staticmethod
    def of(data: bytes) -> BsiIndex:
        """Decode an index.

        Raises:
            FormatError: It is cut, damaged or of a later version.
        """
        try:
            version, rows = _HEAD.unpack_from(data)
            if version != _VERSION:
                raise FormatError(f"a bit-sliced index of version {version}")
            from_zero, at = _decoded(data, _HEAD.size)
            below_zero, _ = _decoded(data, at)
        except (struct.error, IndexError) as error:
            raise FormatError(f"a bit-sliced index ends after {len(data)} bytes") from error
        return BsiIndex(row_count=rows, from_zero=from_zero, below_zero=below_zero)

    @property
    def present(self) -> BitMap:
        """The rows that are not null."""
        return self.from_zero.rows | self.below_zero.rows

    def compared(self, op: CompareOp, value: int) -> BitMap:
        """Return the rows of which `column op value` is true."""
        inside, outside = self.from_zero, self.below_zero
        if value < 0:
            op = op.mirrored
            inside, outside, value = outside, inside, -value
        found = inside.compared(op, value)
        # Beside the values of one sign, those of the other are all smaller, or all larger.
        return found | outside.rows if op in _BELOW else found


def _decoded(data: bytes, at: int) -> tuple[_Slices, int]:
    if not data[at]:
        return _Slices(), at + 1
    version, smallest, largest = _SLICES.unpack_from(data, at + 1)
    if version != _VERSION:
        raise FormatError(f"slices of version {version}")
    rows, at = read_bitmap(data, at + 1 + _SLICES.size)
    (count,) = _INT.unpack_from(data, at)
    at += _INT.size
    slices = []
    for _ in range(count):
        bitmap, at = read_bitmap(data, at)
        slices.append(bitmap)
    return _Slices(smallest=smallest, largest=largest, rows=rows, slices=tuple(slices)), at
