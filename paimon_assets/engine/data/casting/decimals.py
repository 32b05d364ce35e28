"""DECIMAL and other numbers.

A decimal is an unscaled integer of 128 bits. Where all of a column fit into 64 bits, numpy
computes; else Arrow does, with 256 bits where a result on the way could need more than 38 digits.
"""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_assets.engine.codec.arrow.numpy_columns import decimal_words, from_numpy
from paimon_assets.engine.data.casting.arrays import (
    Mask,
    Numbers,
    column_of,
    furthest,
    valid_rows,
    values_of,
    with_nulls_as,
)
from paimon_assets.engine.data.casting.cast import Array, Cast

Int64s = npt.NDArray[np.int64]

MAX_DIGITS = 38
LONG_DIGITS = 18
"""Digits that always fit into 64 bits."""

_WIDEST = 76
_INT64 = np.iinfo(np.int64)
_ROUNDABLE = 2**62
_PLAIN_SCALE = 6
"""Up to this scale Arrow writes decimals without exponent."""
_EXACT_HIGH_WORDS = 2**112
"""Products below this are known to much less than 2⁶⁴ in floating point."""


def longs_of(array: Array) -> Int64s | None:
    """Return the unscaled values, 0 for null, or None if some do not fit 64 bits."""
    words = decimal_words(array)
    low, high = words[:, 0], words[:, 1]
    fits = (high == low >> 63) & (low != _INT64.min)
    if array.null_count:
        valid = valid_rows(array)
        return np.where(valid, low, 0) if bool(fits[valid].all()) else None
    return low if bool(fits.all()) else None


def decimal_column(
    unscaled: Int64s, precision: int, scale: int, nulls_of: Array, more_nulls: Mask | None = None
) -> Array:
    """Return unscaled values that fit 64 bits as a column of DECIMAL(precision, scale)."""
    words = np.empty((len(unscaled), 2), np.int64)
    words[:, 0] = unscaled
    np.right_shift(unscaled, 63, out=words[:, 1])
    return column_of(words, pa.decimal128(precision, scale), nulls_of, more_nulls)


def _product(values: Int64s, factor: int) -> Int64s | None:
    """Return products as rows of (low word, high word), or None if they may be too large."""
    most = furthest(values)
    words = np.empty((len(values), 2), np.int64)
    if most * factor <= _INT64.max:
        words[:, 0] = values * (factor if most else 0)
        np.right_shift(words[:, 0], 63, out=words[:, 1])
        return words
    if factor > _INT64.max or most * factor >= _EXACT_HIGH_WORDS:
        return None
    low = values * factor  # wraps
    words[:, 0] = low
    # Less the low word, the product is a multiple of 2⁶⁴; in floating point it is close to one.
    rest = values.astype(np.float64) * factor - low.view(np.uint64).astype(np.float64)
    words[:, 1] = np.rint(rest / 2.0**64).astype(np.int64)
    return words


def fitting(array: Array, precision: int, scale: int) -> Array:
    """Return decimals of this scale as DECIMAL(precision, scale), null where they do not fit."""
    bound = pa.scalar(Decimal(10 ** (precision - scale)), array.type)
    fits = pc.and_(pc.less(array, bound), pc.greater(array, pc.negate(bound)))
    values = pc.if_else(fits, array, pa.scalar(None, array.type))
    return values.cast(pa.decimal128(precision, scale))


def whole_to_decimal(array: Array, cast: Cast) -> Array:
    """Exact, or null."""
    precision, scale = cast.target.precision or 0, cast.target.scale or 0
    values = with_nulls_as(values_of(array).astype(np.int64, copy=False), array, 0)
    too_large = _beyond(values, 10 ** (precision - scale) - 1)
    if too_large is not None:
        values = np.where(too_large, 0, values)
    product = _product(values, 10**scale)
    if product is not None:
        return column_of(product, cast.arrow_type, array, too_large)
    wide = column_of(values, pa.int64(), array, too_large)
    return wide.cast(pa.decimal256(_WIDEST, scale)).cast(cast.arrow_type)


def boolean_to_decimal(array: Array, cast: Cast) -> Array:
    """1 or 0; null where the type cannot hold 1."""
    ones, scale = array.cast(pa.int8()), cast.target.scale or 0
    if scale == cast.target.precision or scale > LONG_DIGITS:
        return whole_to_decimal(ones, cast)
    words = np.zeros((len(ones), 2), np.int64)
    np.multiply(values_of(ones), 10**scale, out=words[:, 0], dtype=np.int64)
    return column_of(words, cast.arrow_type, array)


def decimal_to_decimal(array: Array, cast: Cast) -> Array:
    """Round half away from zero; null where the result has too many digits."""
    return rescale(array, cast.target.precision or 0, cast.target.scale or 0)


def rescale(array: Array, precision: int, scale: int) -> Array:
    """Return decimals with another precision and scale, rounded half up, null if too large."""
    unscaled = longs_of(array)
    more = scale - array.type.scale
    if unscaled is not None and -LONG_DIGITS <= more <= 0 and furthest(unscaled) <= _ROUNDABLE:
        return _check(_round(unscaled, -more), precision, scale, array)
    if unscaled is not None and 0 < more <= LONG_DIGITS:
        limit = (10**precision - 1) // 10**more
        too_large = _beyond(unscaled, limit)
        values = unscaled if too_large is None else np.where(too_large, 0, unscaled)
        product = _product(values, 10**more)
        if product is not None:
            return column_of(product, pa.decimal128(precision, scale), array, too_large)
    wide = array.cast(pa.decimal256(_WIDEST, array.type.scale))
    if more < 0:
        wide = pc.round(wide, scale, "half_towards_infinity")
    return fitting(wide.cast(pa.decimal256(_WIDEST, scale)), precision, scale)


def _round(unscaled: Int64s, digits: int) -> Int64s:
    """Drop the last digits, rounding half away from zero; leaves room for half a digit."""
    if not digits:
        return unscaled
    # Floor division rounds half up; minus one for negatives makes it half down.
    rounded: Int64s = (unscaled + (unscaled >> 63) + 5 * 10 ** (digits - 1)) // 10**digits
    return rounded


def _beyond(unscaled: Int64s, limit: int) -> Mask | None:
    """Return which values are further from zero than `limit`, or None if no value is."""
    if limit >= furthest(unscaled):
        return None
    return (unscaled > limit) | (unscaled < -limit)


def _check(unscaled: Int64s, precision: int, scale: int, array: Array) -> Array:
    too_large = _beyond(unscaled, 10**precision - 1)
    return decimal_column(unscaled, precision, scale, array, too_large)


def decimal_to_whole(array: Array, cast: Cast) -> Array:
    """Cut the fraction off and keep the low bits."""
    factor = 10 ** (cast.source.scale or 0)
    unscaled = longs_of(array)
    whole: Numbers
    if cast.source.scale == cast.source.precision:
        whole = np.zeros(len(array), np.int64)
    elif unscaled is None or factor > _INT64.max:
        whole = decimal_words(pc.trunc(array).cast(pa.decimal128(MAX_DIGITS, 0)))[:, 0]
    else:
        whole = unscaled // factor
        whole = whole + ((whole < 0) & (whole * factor != unscaled))
    return column_of(whole.astype(cast.arrow_type.to_pandas_dtype()), cast.arrow_type, array)


_EXACT_IN_DOUBLE = 2**53
_EXACT_POWER_OF_TEN = 22


def decimal_to_real(array: Array, cast: Cast) -> Array:
    """Divide as Java does (up to 18 digits in double, else exactly), or multiply as C++ does."""
    if not cast.is_java:
        return array.cast(cast.arrow_type)
    unscaled, scale = longs_of(array), cast.source.scale or 0
    is_exact = scale <= _EXACT_POWER_OF_TEN and (cast.source.precision or 0) <= LONG_DIGITS
    if unscaled is not None and scale <= _EXACT_POWER_OF_TEN and not is_exact:
        is_exact = _beyond(unscaled, _EXACT_IN_DOUBLE) is None
    if unscaled is None or not is_exact:
        return array.cast(pa.string()).cast(pa.float64()).cast(cast.arrow_type, safe=False)
    values = unscaled / np.float64(10**scale)
    return column_of(values.astype(cast.arrow_type.to_pandas_dtype()), cast.arrow_type, array)


def decimal_to_text(array: Array, cast: Cast) -> Array:
    """Write exactly `scale` decimals; C++ writes small ones in scientific notation."""
    text = array.cast(pa.string())
    if (cast.source.scale or 0) <= _PLAIN_SCALE:
        return text
    is_scientific = pc.match_substring(text, "E")
    if not pc.any(is_scientific).as_py():
        return text
    if not cast.is_java:
        return pc.replace_substring_regex(text, r"^(-?\d)E", r"\1.E")
    rows = pc.fill_null(is_scientific, False)  # noqa: FBT003 - pyarrow's order
    return pc.replace_with_mask(text, rows, _plain_text(array.filter(rows)))


def _plain_text(array: Array) -> Array:
    """Write decimals with a scale above 0, digit by digit."""
    scale = array.type.scale
    integers = pa.Array.from_buffers(
        pa.decimal128(MAX_DIGITS, 0), len(array), [None, array.buffers()[1]], offset=array.offset
    )
    sign = pc.if_else(from_numpy(decimal_words(array)[:, 1] < 0), "-", "")
    digits = pc.utf8_lpad(pc.abs(integers).cast(pa.string()), scale + 1, "0")
    whole = pc.utf8_slice_codeunits(digits, 0, -scale)
    part = pc.utf8_slice_codeunits(digits, -scale)
    point = pa.scalar(".")
    return pc.binary_join_element_wise(sign, whole, point, part, "")
