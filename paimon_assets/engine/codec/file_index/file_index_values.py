"""The values that file indexes hash: integers of 64 bits, or the bytes of texts.

    TINYINT … BIGINT, DATE, TIME      the number (days, milliseconds)
    TIMESTAMP, … WITH LOCAL TIME ZONE milliseconds up to precision 3, else whole microseconds
    DECIMAL                           unscaled
    FLOAT, DOUBLE                     bits; one NaN, two zeros
    BOOLEAN                           0 or 1
    CHAR, VARCHAR, BINARY, VARBINARY  bytes

Source: `BitmapFileIndex.getValueMapper`, `FastHash`, `BitSliceIndexBitmapFileIndex`.
"""

import math
import struct
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_assets.engine.codec.arrow.arrow_values import UNIT_NANOS
from paimon_assets.engine.codec.arrow.numpy_columns import decimal_words, to_numpy
from paimon_assets.engine.spec.types.data_types import (
    INTEGER_ROOTS,
    TIMESTAMP_ROOTS,
    AtomicType,
    DataType,
    TypeRoot,
)

_MILLIS_PRECISION = 3
_MICROS_PRECISION = 6
_LONG_DIGITS = 18
_DAYS_AND_MILLIS = frozenset({TypeRoot.DATE, TypeRoot.TIME})
_PLAIN_ROOTS = INTEGER_ROOTS | _DAYS_AND_MILLIS | {TypeRoot.BOOLEAN}
_FLOATS = {TypeRoot.FLOAT: ("<f", "<i"), TypeRoot.DOUBLE: ("<d", "<q")}


def is_long_decimal(data_type: DataType) -> bool:
    """Whether the unscaled values of a DECIMAL may leave 64 bits."""
    return (
        isinstance(data_type, AtomicType)
        and data_type.root is TypeRoot.DECIMAL
        and (data_type.precision or 0) > _LONG_DIGITS
    )


def to_longs(values: Any, data_type: DataType) -> npt.NDArray[np.int64]:
    """Return the indexed number of each value of a column that is no text."""
    root = data_type.root
    if root in TIMESTAMP_ROOTS:
        counts = to_numpy(values.cast(pa.int64()))
        return _scale(counts, UNIT_NANOS[values.type.unit], _unit_nanos(data_type))
    if root is TypeRoot.DECIMAL:
        return decimal_words(values)[:, 0]  # all of a short one
    if root in _FLOATS:
        floats = to_numpy(values)
        bits = np.where(np.isnan(floats), floats.dtype.type(np.nan), floats)
        return bits.view(f"i{bits.itemsize}").astype(np.int64)
    plain = values.view(pa.int32()) if root in _DAYS_AND_MILLIS else values
    return to_numpy(plain).astype(np.int64)


def _scale(counts: Any, unit_nanos: int, wanted_nanos: int) -> npt.NDArray[np.int64]:
    if unit_nanos >= wanted_nanos:
        return counts * np.int64(unit_nanos // wanted_nanos)  # type: ignore[no-any-return]
    return counts // np.int64(wanted_nanos // unit_nanos)  # type: ignore[no-any-return]


def _unit_nanos(data_type: DataType) -> int:
    precision = data_type.precision if isinstance(data_type, AtomicType) else None
    coarse = precision is not None and precision <= _MILLIS_PRECISION
    return UNIT_NANOS["ms" if coarse else "us"]


def literal_as_long(literal: Any, data_type: DataType) -> tuple[int, bool] | None:
    """Return (indexed number of a literal, whether no other value has it).

    If it is not exact, the index's number is that of the value just below the literal, or of
    several values. None means that no number stands for the literal.
    """
    root = data_type.root
    if root in TIMESTAMP_ROOTS:
        whole, rest = divmod(int(literal), _unit_nanos(data_type))
        precision = data_type.precision if isinstance(data_type, AtomicType) else None
        fine = precision is not None and precision > _MICROS_PRECISION
        return whole, not rest and not fine
    if root is TypeRoot.DECIMAL:
        scale = (data_type.scale or 0) if isinstance(data_type, AtomicType) else 0
        unscaled = Decimal(literal).scaleb(scale)
        return math.floor(unscaled), unscaled == math.floor(unscaled)
    if root in _FLOATS:
        if math.isnan(literal):
            return None
        floating, integer = _FLOATS[root]
        return struct.unpack(integer, struct.pack(floating, literal))[0], True
    return (int(literal), True) if root in _PLAIN_ROOTS else None


def equal_longs(literal: Any, data_type: DataType) -> tuple[int, ...] | None:
    """Return every number an index may hold for values that equal a literal; None is unknown.

    Zero has two signs, which compare as equal and have bits of their own.
    """
    if data_type.root in _FLOATS and literal == 0:
        signs = (literal_as_long(sign, data_type) for sign in (0.0, -0.0))
        return tuple(found[0] for found in signs if found is not None)
    found = literal_as_long(literal, data_type)
    return None if found is None else (found[0],)
