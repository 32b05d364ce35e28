"""Integers, floating point and booleans, from one to the other."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_assets.engine.codec.arrow.numpy_columns import from_numpy
from paimon_assets.engine.data.casting.arrays import (
    Numbers,
    column_of,
    values_of,
    with_nulls_of,
)
from paimon_assets.engine.data.casting.cast import Array, Cast

_INT32 = np.iinfo(np.int32)
_INT64 = np.iinfo(np.int64)
_TWO_TO_31, _TWO_TO_63 = 2.0**31, 2.0**63


def as_arrow_casts(array: Array, cast: Cast) -> Array:
    """Keep the low bits of whole numbers, round reals (to infinity, too), write digits."""
    return array.cast(cast.arrow_type, safe=False)


def real_to_whole(array: Array, cast: Cast) -> Array:
    """Cut the fraction off; the dialects differ for NaN and for what does not fit."""
    convert = _java_whole if cast.is_java else _cpp_whole
    values = values_of(array).astype(np.float64, copy=False)
    return column_of(convert(values, cast), cast.arrow_type, array)


def _java_whole(values: npt.NDArray[np.float64], cast: Cast) -> Numbers:
    """Saturate in 64 bits for BIGINT, else in 32; keep the low bits of smaller types; NaN is 0."""
    if pa.types.is_int64(cast.arrow_type):
        with np.errstate(invalid="ignore"):
            result = values.astype(np.int64)
        result[values >= _TWO_TO_63] = _INT64.max
        result[values < -_TWO_TO_63] = _INT64.min
        result[np.isnan(values)] = 0
        return result
    inside = np.clip(values, _INT32.min, _INT32.max)
    inside[np.isnan(values)] = 0
    return inside.astype(np.int32).astype(cast.arrow_type.to_pandas_dtype())


def _cpp_whole(values: npt.NDArray[np.float64], cast: Cast) -> Numbers:
    """What x86-64 does: the smallest number, of which smaller types keep the low bits."""
    bits = 64 if pa.types.is_int64(cast.arrow_type) else 32
    limit, smallest = (_TWO_TO_63, _INT64.min) if bits == 64 else (_TWO_TO_31, _INT32.min)
    whole = np.trunc(values)
    fits = (whole >= -limit) & (whole < limit)
    result = np.where(fits, whole, smallest).astype(np.int64)
    return result.astype(cast.arrow_type.to_pandas_dtype())


def number_to_boolean(array: Array, _: Cast) -> Array:
    """Whether it is not zero; NaN is not."""
    return with_nulls_of(from_numpy(values_of(array) != 0), array)


def boolean_to_text(array: Array, _: Cast) -> Array:
    """`true` or `false`."""
    return pc.if_else(array, "true", "false")
