"""FLOAT and DOUBLE → DECIMAL.

Java rounds the decimal text of a number, C++ its exact binary value: 1.005 is 1.01 in one and 1.00
in the other. Texts are needed only near a tie: elsewhere the product with ten to the power of the
scale says which way to round.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_assets.engine.codec.arrow.numpy_columns import decimal_words, from_numpy
from paimon_assets.engine.data.casting.arrays import (
    Mask,
    Numbers,
    column_of,
    replace,
    values_of,
    with_nulls_as,
)
from paimon_assets.engine.data.casting.cast import Array, Cast
from paimon_assets.engine.data.casting.decimals import (
    LONG_DIGITS,
    MAX_DIGITS,
    decimal_column,
    fitting,
    whole_to_decimal,
)
from paimon_assets.engine.data.casting.parse_decimals import text_to_decimal
from paimon_assets.engine.data.casting.real_text import java_whole

_CERTAIN_BELOW = 2.0**50
"""Products below this are less than a quarter away from the exact ones."""
_DOUBT = 2.0**-50
"""Relative error of a product, rounded up: of the number, the power and the multiplication."""


def real_to_decimal(array: Array, cast: Cast) -> Array:
    """Round half up; null where it does not fit; NaN and infinity are errors."""
    values = with_nulls_as(values_of(array), array, 0)
    cast.check(~np.isfinite(values), array)
    if not cast.is_java:
        return _of_exact_value(values, array, cast)
    return _of_text(values.astype(np.float64, copy=False), array, cast)


def _of_exact_value(values: Numbers, array: Array, cast: Cast) -> Array:
    precision, scale = cast.target.precision or 0, cast.target.scale or 0
    limit = 10 ** (precision - scale)
    nearest = float(limit)  # the limit itself up to 1e22; beyond, a number on one of its sides
    size = np.abs(values.astype(np.float64, copy=False))
    too_large = size > nearest if int(nearest) < limit else size >= nearest
    kept = from_numpy(np.where(too_large, 0, values).astype(values.dtype))
    wide = kept.cast(pa.decimal128(MAX_DIGITS, scale))
    if precision == MAX_DIGITS:
        return column_of(decimal_words(wide), cast.arrow_type, array, too_large)
    with_nulls = column_of(decimal_words(wide), wide.type, array, too_large)
    return fitting(with_nulls, precision, scale)


def _of_text(values: npt.NDArray[np.float64], array: Array, cast: Cast) -> Array:
    precision, scale = cast.target.precision or 0, cast.target.scale or 0
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = values * 10.0**scale
        rounded = np.rint(scaled)
        furthest = max(scaled.max(initial=0), -scaled.min(initial=0))
        from_tie = 0.5 - np.abs(scaled - rounded)
    if furthest < min(_CERTAIN_BELOW, 10.0 ** min(precision, LONG_DIGITS) - 1):
        in_doubt = from_tie <= furthest * _DOUBT
        result = decimal_column(rounded.astype(np.int64), precision, scale, array)
        return _decided(result, values, in_doubt, cast) if in_doubt.any() else result
    size = np.abs(scaled)
    too_large = size > 10.0**precision * (1 + _DOUBT)
    is_certain = size < min(_CERTAIN_BELOW, 10.0 ** min(precision, LONG_DIGITS) - 1)
    is_certain &= from_tie > size * _DOUBT
    unscaled = np.where(is_certain, rounded, 0).astype(np.int64)
    result = decimal_column(unscaled, precision, scale, array, too_large)
    in_doubt = ~is_certain & ~too_large
    return _decided(result, values, in_doubt, cast) if in_doubt.any() else result


def _decided(result: Array, values: npt.NDArray[np.float64], in_doubt: Mask, cast: Cast) -> Array:
    """Replace the rows in doubt by what their texts say."""
    doubtful = values[in_doubt]
    whole, is_whole = java_whole(np.abs(doubtful))
    if is_whole.all():
        signed = np.where(doubtful < 0, -whole, whole)
        return replace(result, in_doubt, whole_to_decimal(from_numpy(signed), cast))
    text = from_numpy(doubtful).cast(pa.string())
    if is_whole.any():
        signed = np.where(doubtful < 0, -whole, whole)[is_whole]
        text = replace(text, is_whole, from_numpy(signed).cast(pa.string()))
    return replace(result, in_doubt, text_to_decimal(text, cast))
