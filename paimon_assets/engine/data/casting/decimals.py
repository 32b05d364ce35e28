"""DECIMAL → numbers and text; numbers and text → DECIMAL.

A decimal is an unscaled integer of 128 bits. Where all of a column fit into 64 bits, numpy
computes; else Arrow does, with 256 bits where a result on the way could need more than 38 digits.

Arrow casts texts that have no more decimals than the type, or some more, which are then rounded.
Other texts are rounded digit by digit: exponents, many digits, values that do not fit.

Of FLOAT and DOUBLE, Java rounds the decimal text, C++ the exact binary value: 1.005 is 1.01 in one
and 1.00 in the other. Texts are needed only near a tie: elsewhere the product with ten to the power
of the scale decides.
"""

from __future__ import annotations

import sys
import unicodedata
from decimal import Decimal
from functools import cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_assets.engine.codec.arrow.numpy_columns import (
    Flags,
    Longs,
    decimal_words,
    from_numpy,
    valid_rows,
)
from paimon_assets.engine.data.casting.cast import (
    Array,
    Cast,
    Numbers,
    attempt,
    bytes_of,
    column_of,
    furthest,
    has_letters,
    lengths_of,
    replace,
    truth_of,
    values_of,
    with_nulls_as,
)
from paimon_assets.engine.data.casting.numbers import java_whole

_MAX_DIGITS = 38
_LONG_DIGITS = 18
"""Digits that always fit into 64 bits."""

_WIDEST = 76
_INT64 = np.iinfo(np.int64)
_ROUNDABLE = 2**62
_PLAIN_SCALE = 6
"""Up to this scale Arrow writes decimals without exponent."""
_EXACT_HIGH_WORDS = 2**112
"""Products below this are known to much less than 2⁶⁴ in floating point."""


def longs_of(array: Array) -> Longs | None:
    """Return the unscaled values, 0 for null, or None if some do not fit 64 bits."""
    words = decimal_words(array)
    low, high = words[:, 0], words[:, 1]
    fits = (high == low >> 63) & (low != _INT64.min)
    if array.null_count:
        valid = valid_rows(array)
        return np.where(valid, low, 0) if bool(fits[valid].all()) else None
    return low if bool(fits.all()) else None


def _decimal_column(
    unscaled: Longs, precision: int, scale: int, nulls_of: Array, too_large: Flags | None = None
) -> Array:
    """Return unscaled values that fit 64 bits as decimals."""
    words = np.empty((len(unscaled), 2), np.int64)
    words[:, 0] = unscaled
    np.right_shift(unscaled, 63, out=words[:, 1])
    return column_of(words, pa.decimal128(precision, scale), nulls_of, too_large)


def _product(values: Longs, factor: int) -> Longs | None:
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


def _fitting(array: Array, precision: int, scale: int) -> Array:
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
    if scale == cast.target.precision or scale > _LONG_DIGITS:
        return whole_to_decimal(ones, cast)
    words = np.zeros((len(ones), 2), np.int64)
    np.multiply(values_of(ones), 10**scale, out=words[:, 0], dtype=np.int64)
    return column_of(words, cast.arrow_type, array)


def decimal_to_decimal(array: Array, cast: Cast) -> Array:
    """Round half away from zero; null where the result has too many digits."""
    return _rescale(array, cast.target.precision or 0, cast.target.scale or 0)


def _rescale(array: Array, precision: int, scale: int) -> Array:
    unscaled = longs_of(array)
    more = scale - array.type.scale
    if unscaled is not None and -_LONG_DIGITS <= more <= 0 and furthest(unscaled) <= _ROUNDABLE:
        if more:
            # Floor division rounds half up; minus one for negatives makes it half down.
            unscaled = (unscaled + (unscaled >> 63) + 5 * 10 ** (-more - 1)) // 10**-more
        too_large = _beyond(unscaled, 10**precision - 1)
        return _decimal_column(unscaled, precision, scale, array, too_large)
    if unscaled is not None and 0 < more <= _LONG_DIGITS:
        limit = (10**precision - 1) // 10**more
        too_large = _beyond(unscaled, limit)
        values = unscaled if too_large is None else np.where(too_large, 0, unscaled)
        product = _product(values, 10**more)
        if product is not None:
            return column_of(product, pa.decimal128(precision, scale), array, too_large)
    wide = array.cast(pa.decimal256(_WIDEST, array.type.scale))
    if more < 0:
        wide = pc.round(wide, scale, "half_towards_infinity")
    return _fitting(wide.cast(pa.decimal256(_WIDEST, scale)), precision, scale)


def _beyond(unscaled: Longs, limit: int) -> Flags | None:
    """Return which values are further from zero than `limit`, or None if no value is."""
    if limit >= furthest(unscaled):
        return None
    return (unscaled > limit) | (unscaled < -limit)


def decimal_to_whole(array: Array, cast: Cast) -> Array:
    """Cut the fraction off and keep the low bits."""
    factor = 10 ** (cast.source.scale or 0)
    unscaled = longs_of(array)
    whole: Numbers
    if cast.source.scale == cast.source.precision:
        whole = np.zeros(len(array), np.int64)
    elif unscaled is None or factor > _INT64.max:
        whole = decimal_words(pc.trunc(array).cast(pa.decimal128(_MAX_DIGITS, 0)))[:, 0]
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
    is_exact = scale <= _EXACT_POWER_OF_TEN and (cast.source.precision or 0) <= _LONG_DIGITS
    if unscaled is not None and scale <= _EXACT_POWER_OF_TEN and not is_exact:
        is_exact = _beyond(unscaled, _EXACT_IN_DOUBLE) is None
    if unscaled is None or not is_exact:
        return array.cast(pa.string()).cast(pa.float64()).cast(cast.arrow_type, safe=False)
    values = unscaled / np.float64(10**scale)
    return column_of(values.astype(cast.arrow_type.to_pandas_dtype()), cast.arrow_type, array)


def decimal_to_text(array: Array, cast: Cast) -> Array:
    """Write exactly `scale` decimals; C++ writes small ones in scientific notation."""
    text, scale = array.cast(pa.string()), cast.source.scale or 0
    if scale <= _PLAIN_SCALE:
        return text
    is_scientific = pc.match_substring(text, "E")
    if not pc.any(is_scientific).as_py():
        return text
    if not cast.is_java:
        return pc.replace_substring_regex(text, r"^(-?\d)E", r"\1.E")
    rows = truth_of(is_scientific)
    unscaled = array.filter(from_numpy(rows)).view(pa.decimal128(_MAX_DIGITS, 0))
    sign = pc.if_else(from_numpy(decimal_words(unscaled)[:, 1] < 0), "-", "")
    digits = pc.utf8_lpad(pc.abs(unscaled).cast(pa.string()), scale + 1, "0")
    plain = pc.binary_join_element_wise(
        sign, pc.binary_replace_slice(digits, -scale, -scale, "."), ""
    )
    return replace(text, rows, plain)


_SPARE_DECIMALS = 9
_PARTS = r"^(?P<sign>[+-]?)(?P<whole>\d*)(?:\.(?P<part>\d*))?(?:[eE](?P<exponent>[+-]?\d+))?$"
_MOST_EXPONENT_LENGTH = 11
_LARGEST_EXPONENT = 2**31 - 1
_NOT_ASCII = 128


def text_to_decimal(array: Array, cast: Cast) -> Array:
    """Round half up; null where it does not fit, in C++ also where the text has over 38 digits."""
    precision, scale = cast.target.precision or 0, cast.target.scale or 0
    spare = spare_digits(array, scale)
    if spare >= 0:
        most = min(spare, _MAX_DIGITS - precision, _SPARE_DECIMALS)
        # Up to 18 digits are rounded in 64 bits.
        more = min(most, _LONG_DIGITS - precision) if precision < _LONG_DIGITS else most
        longer = attempt(array, pa.decimal128(precision + more, scale + more))
        if longer is not None:
            return _rescale(longer, precision, scale) if more else longer
    return _round_digits(array, cast)


def spare_digits(texts: Array, scale: int) -> int:
    """Return the digits that Arrow's parser has left; below 0 numbers wrap, or have exponents."""
    return -1 if has_letters(texts) else _MAX_DIGITS - scale - int(lengths_of(texts).max(initial=0))


def _round_digits(array: Array, cast: Cast) -> Array:
    """Split texts and round them; a pass for each of at most 39 numbers of digits."""
    texts = array
    if cast.is_java and (bytes_of(array) >= _NOT_ASCII).any():
        for value, letters in enumerate(_digit_letters()):
            texts = pc.replace_substring_regex(texts, letters, str(value))
    parts: Array = pc.extract_regex(texts, _PARTS)
    sign, whole, part, exponent = (pc.fill_null(field, "") for field in parts.flatten())
    digits = pc.binary_join_element_wise(whole, part, "")
    is_bad = (lengths_of(digits) == 0) | (lengths_of(exponent) > _MOST_EXPONENT_LENGTH)
    cast.check(is_bad & valid_rows(array), array)
    exponent = pc.if_else(pc.equal(exponent, pa.scalar("")), "0", exponent)
    power = values_of(pc.utf8_ltrim(exponent, characters="+").cast(pa.int64()))
    cast.check(np.abs(power) > _LARGEST_EXPONENT, array)
    # The number is 0.DIGITS · 10^point.
    digits = pc.utf8_ltrim(digits, characters="0")
    after_point = lengths_of(part)
    point = lengths_of(digits) - after_point + power
    precision, scale = cast.target.precision or 0, cast.target.scale or 0
    counts, is_zero = point + scale, lengths_of(digits) == 0
    too_large = (counts > precision) & ~is_zero
    if not cast.is_java:
        zeros = np.maximum(power - after_point, 0)
        cast.check(zeros > _MAX_DIGITS, array)
        before_point = lengths_of(pc.utf8_ltrim(whole, characters="0"))
        too_large |= before_point + after_point + zeros > _MAX_DIGITS
    words = np.zeros((len(array), 2), np.int64)
    for count in np.unique(counts[~too_large & ~is_zero & (counts >= 0)]).tolist():
        rows = np.flatnonzero((counts == count) & ~too_large & ~is_zero)
        words[rows] = _first_digits(digits.take(from_numpy(rows)), count)
    # Rounding up may have given a number with one digit too many.
    high, low = divmod(10**precision, 2**64)
    too_large |= (words[:, 1] == high) & (words[:, 0].view(np.uint64) == np.uint64(low))
    negative = truth_of(pc.equal(sign, pa.scalar("-")))
    words[negative] = ~words[negative]
    _add_one(words, negative)
    return column_of(words, cast.arrow_type, array, too_large)


@cache
def _digit_letters() -> tuple[str, ...]:
    """Return a pattern for each of the digits 0 to 9 in other scripts, which Java parses."""
    classes = [""] * 10
    for letter in map(chr, range(_NOT_ASCII, sys.maxunicode + 1)):
        value = unicodedata.decimal(letter, None)
        if value is not None:
            classes[value] += letter
    return tuple(f"[{letters}]" for letters in classes)


def _first_digits(digits: Array, count: int) -> Numbers:
    """Return the first digits as words of 128 bits, rounded up if a digit from 5 on follows."""
    shown = pc.utf8_rpad(pc.utf8_slice_codeunits(digits, 0, count), max(count, 1), "0")
    words = decimal_words(shown.cast(pa.decimal128(_MAX_DIGITS, 0))).copy()
    following = pc.utf8_slice_codeunits(digits, count, count + 1)
    _add_one(words, truth_of(pc.greater_equal(following, pa.scalar("5"))))
    return words


def _add_one(words: Numbers, rows: Flags) -> None:
    words[rows, 0] += 1
    words[rows & (words[:, 0] == 0), 1] += 1


_CERTAIN_BELOW = 2.0**50
"""Products below this are less than a quarter away from the exact ones."""
_DOUBT = 2.0**-50
"""Relative error of a product, rounded up: of the number, the power and the multiplication."""


def real_to_decimal(array: Array, cast: Cast) -> Array:
    """Round half up; null where it does not fit; NaN and infinity are errors."""
    values = with_nulls_as(values_of(array), array, 0)
    cast.check(~np.isfinite(values), array)
    if cast.is_java:
        return _of_text(values.astype(np.float64, copy=False), array, cast)
    precision, scale = cast.target.precision or 0, cast.target.scale or 0
    limit = 10 ** (precision - scale)
    nearest = float(limit)  # exact up to 1e22; beyond, a number below or above the limit
    size = np.abs(values.astype(np.float64, copy=False))
    too_large = size > nearest if int(nearest) < limit else size >= nearest
    values = np.where(too_large, 0, values).astype(values.dtype)
    wide = from_numpy(values).cast(pa.decimal128(_MAX_DIGITS, scale))
    with_nulls = column_of(decimal_words(wide), wide.type, array, too_large)
    return with_nulls if precision == _MAX_DIGITS else _fitting(with_nulls, precision, scale)


def _of_text(values: npt.NDArray[np.float64], array: Array, cast: Cast) -> Array:
    precision, scale = cast.target.precision or 0, cast.target.scale or 0
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = values * 10.0**scale
        rounded = np.rint(scaled)
        most = max(scaled.max(initial=0), -scaled.min(initial=0))
        from_tie = 0.5 - np.abs(scaled - rounded)
    # Scaling is wrong by a relative `_DOUBT` at most: farther from a tie, rounding is certain. Rows
    # in doubt are read from their digits.
    limit = min(_CERTAIN_BELOW, 10.0 ** min(precision, _LONG_DIGITS) - 1)
    if most < limit:
        in_doubt = from_tie <= most * _DOUBT
        result = _decimal_column(rounded.astype(np.int64), precision, scale, array)
    else:
        size = np.abs(scaled)
        too_large = size > 10.0**precision * (1 + _DOUBT)
        is_certain = (size < limit) & (from_tie > size * _DOUBT)
        in_doubt = ~is_certain & ~too_large
        unscaled = np.where(is_certain, rounded, 0).astype(np.int64)
        result = _decimal_column(unscaled, precision, scale, array, too_large)
    if not in_doubt.any():
        return result
    doubtful = values[in_doubt]
    whole, is_whole = java_whole(np.abs(doubtful))
    signed = np.where(doubtful < 0, -whole, whole)
    if is_whole.all():
        return replace(result, in_doubt, whole_to_decimal(from_numpy(signed), cast))
    text = from_numpy(doubtful).cast(pa.string())
    if is_whole.any():
        text = replace(text, is_whole, from_numpy(signed[is_whole]).cast(pa.string()))
    return replace(result, in_doubt, text_to_decimal(text, cast))
