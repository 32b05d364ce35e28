"""Hive's row hash, column by column.

Per row h = 0, then h = 31·h + hash(column) in 32 wrapping bits; null hashes to 0.
Source: `org.apache.paimon.bucket.HiveBucketFunction`, `org.apache.paimon.utils.HiveHasher`.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_assets.engine.codec.hashing.row_words import (
    Words,
    decimal_halves,
    fixed_values,
    null_mask,
    text_bytes,
    text_offsets,
)
from paimon_assets.engine.errors import UnsupportedFeatureError
from paimon_assets.engine.spec.types.data_types import (
    BINARY_ROOTS,
    CHARACTER_ROOTS,
    AtomicType,
    DataType,
    TypeRoot,
)

_SMALL_TYPES: dict[TypeRoot, npt.DTypeLike] = {
    TypeRoot.BOOLEAN: np.uint8,
    TypeRoot.TINYINT: np.int8,
    TypeRoot.SMALLINT: np.int16,
    TypeRoot.INT: np.int32,
    TypeRoot.DATE: np.int32,
}


def hive_hashes(columns: Sequence[Any], types: Sequence[DataType]) -> Words:
    """Return Hive's hash of every row, as unsigned 32 bits."""
    hashes = np.zeros(len(columns[0]), np.uint32)
    for column, data_type in zip(columns, types, strict=True):
        values = _hashes(column, data_type)
        nulls = null_mask(column)
        if nulls is not None:
            values[nulls] = 0
        hashes = hashes * np.uint32(31) + values
    return hashes


def _hashes(column: Any, data_type: DataType) -> Words:
    root = data_type.root
    if root in _SMALL_TYPES:
        return fixed_values(column, _SMALL_TYPES[root]).astype(np.int32).view(np.uint32)
    if root is TypeRoot.BIGINT:
        return _fold(fixed_values(column, np.uint64))
    if root in (TypeRoot.FLOAT, TypeRoot.DOUBLE):
        return _floating(column)
    if root in CHARACTER_ROOTS or root in BINARY_ROOTS:
        return _texts(column)
    if root is TypeRoot.DECIMAL and isinstance(data_type, AtomicType):
        return _decimals(column, data_type.scale or 0)
    raise UnsupportedFeatureError(
        f"bucket-function.type = hive does not hash {data_type}.", kind="bucket-key"
    )


def _fold(longs: npt.NDArray[np.uint64]) -> Words:
    return (longs ^ longs >> np.uint64(32)).astype(np.uint32)


def _floating(column: Any) -> Words:
    double = pa.types.is_float64(column.type)
    bits = fixed_values(column, np.uint64 if double else np.uint32)
    values = bits.view(np.float64 if double else np.float32)
    # 0.0 and -0.0 are one value; so are all NaNs.
    canonical = np.where(values == 0, values.dtype.type(0), values)
    canonical[np.isnan(canonical)] = np.nan
    return _fold(canonical.view(np.uint64)) if double else canonical.view(np.uint32)


def _texts(column: Any) -> Words:
    """Java's 31·h + signed byte; one step a byte position, over the rows that are that long."""
    offsets = text_offsets(column)
    first = int(offsets[0])
    signed = text_bytes(column, first, int(offsets[-1])).view(np.int8)
    starts, lengths = offsets[:-1] - first, np.diff(offsets)
    hashes = np.zeros(len(starts), np.uint32)
    rows = np.arange(len(starts))
    for position in range(int(lengths.max(initial=0))):
        rows = rows[lengths[rows] > position]
        digits = signed[starts[rows] + position].astype(np.int32).view(np.uint32)
        hashes[rows] = hashes[rows] * np.uint32(31) + digits
    return hashes


def _decimals(column: Any, scale: int) -> Words:
    """Java's BigDecimal.hashCode after trailing zeros of the fraction are cut."""
    high, low = decimal_halves(column)
    negative = high.view(np.int64) < 0
    limbs = _magnitude_limbs(high, low, negative)
    scales = np.full(len(low), scale, np.uint32)
    for _ in range(scale):
        quotient, rest = _divided_by_ten(limbs)
        cut = (rest == 0) & (scales > 0)
        limbs = np.where(cut, quotient, limbs)
        scales -= cut.astype(np.uint32)
    hashes = np.zeros(len(low), np.uint32)
    for limb in limbs:
        hashes = hashes * np.uint32(31) + limb.astype(np.uint32)
    hashes = np.where(negative, np.uint32(0) - hashes, hashes)
    return hashes * np.uint32(31) + scales


def _magnitude_limbs(
    high: npt.NDArray[np.uint64], low: npt.NDArray[np.uint64], negative: npt.NDArray[np.bool_]
) -> npt.NDArray[np.uint64]:
    """Return |value| as four 32-bit limbs, the most significant first; shape (4, rows)."""
    low_magnitude = np.where(negative, ~low + np.uint64(1), low)
    carry = (negative & (low_magnitude == 0)).astype(np.uint64)
    high_magnitude = np.where(negative, ~high + carry, high)
    shift, mask = np.uint64(32), np.uint64(0xFFFF_FFFF)
    return np.stack(
        [
            high_magnitude >> shift,
            high_magnitude & mask,
            low_magnitude >> shift,
            low_magnitude & mask,
        ]
    )


def _divided_by_ten(
    limbs: npt.NDArray[np.uint64],
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    rest = np.zeros(limbs.shape[1], np.uint64)
    quotients = np.empty_like(limbs)
    for index, limb in enumerate(limbs):
        current = rest << np.uint64(32) | limb
        quotients[index] = current // np.uint64(10)
        rest = current - quotients[index] * np.uint64(10)
    return quotients, rest
