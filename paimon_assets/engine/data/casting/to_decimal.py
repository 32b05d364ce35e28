"""Text, FLOAT and DOUBLE → DECIMAL.

Arrow's cast                    texts with no more decimals than the type
Arrow's cast and rounding       some decimals more
digit by digit                  the rest: exponents, many digits, values that do not fit

Of FLOAT and DOUBLE, Java rounds the decimal text, C++ the exact binary value: 1.005 is 1.01 in one
and 1.00 in the other. Texts are needed only near a tie: elsewhere the product with ten to the power
of the scale decides.
"""

from __future__ import annotations

import sys
import unicodedata
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_assets.engine.codec.arrow.numpy_columns import decimal_words, from_numpy
from paimon_assets.engine.data.casting.arrays import (
    Mask,
    Numbers,
    bytes_of,
    column_of,
    equals,
    has_letters,
    lengths_of,
    replace,
    truth_of,
    valid_rows,
    values_of,
    with_nulls_as,
)
from paimon_assets.engine.data.casting.cast import Array, Cast, attempt
from paimon_assets.engine.data.casting.decimals import (
    LONG_DIGITS,
    MAX_DIGITS,
    decimal_column,
    fitting,
    rescale,
    whole_to_decimal,
)
from paimon_assets.engine.data.casting.real_text import java_whole

_SPARE_DECIMALS = 9
_PARTS = r"^(?P<sign>[+-]?)(?P<whole>\d*)(?:\.(?P<part>\d*))?(?:[eE](?P<exponent>[+-]?\d+))?$"
_MOST_EXPONENT_LENGTH = 11
_LARGEST_EXPONENT = 2**31 - 1
_NOT_ASCII = 128


def text_to_decimal(array: Array, cast: Cast) -> Array:
    """Round half up; null where it does not fit, in C++ also where the text has over 38 digits."""
    precision, scale = cast.target.precision or 0, cast.target.scale or 0
    # Arrow's parser lets numbers wrap that need more than 128 bits, also while it adds zeros.
    spare = MAX_DIGITS - scale - int(lengths_of(array).max(initial=0))
    if spare >= 0 and not has_letters(array):
        most = min(spare, MAX_DIGITS - precision, _SPARE_DECIMALS)
        # Up to 18 digits are rounded in 64 bits.
        more = min(most, LONG_DIGITS - precision) if precision < LONG_DIGITS else most
        longer = attempt(array, pa.decimal128(precision + more, scale + more))
        if longer is not None:
            return rescale(longer, precision, scale) if more else longer
    return _Digits.of(array, cast).round_to(array, cast)


@dataclass(frozen=True, slots=True)
class _Digits:
    """Numbers written as 0.DIGITS · 10^point, with a sign."""

    digits: Array
    """Without zeros in front; empty for zero and for null."""
    point: Numbers
    is_negative: Mask
    too_long: Mask
    """Whether the text has over 38 digits, which C++ refuses."""

    @staticmethod
    def of(array: Array, cast: Cast) -> _Digits:
        """Parse texts; raises for what is not a number."""
        parts = pc.extract_regex(_with_ascii_digits(array) if cast.is_java else array, _PARTS)
        whole, part = _field(parts, "whole"), _field(parts, "part")
        digits = pc.binary_join_element_wise(whole, part, "")
        exponent = _field(parts, "exponent")
        is_bad = (lengths_of(digits) == 0) | (lengths_of(exponent) > _MOST_EXPONENT_LENGTH)
        cast.check(is_bad & valid_rows(array), array)
        unsigned = pc.replace_substring_regex(exponent, r"^\+", "")
        power = values_of(pc.if_else(equals(unsigned, ""), "0", unsigned).cast(pa.int64()))
        cast.check(np.abs(power) > _LARGEST_EXPONENT, array)
        trimmed = pc.utf8_ltrim(digits, characters="0")
        after_point = lengths_of(part)
        zeros = np.maximum(power - after_point, 0)
        if not cast.is_java:
            cast.check(zeros > MAX_DIGITS, array)
        return _Digits(
            digits=trimmed,
            point=lengths_of(trimmed) - after_point + power,
            is_negative=truth_of(equals(_field(parts, "sign"), "-")),
            too_long=lengths_of(pc.utf8_ltrim(whole, characters="0")) + after_point + zeros
            > MAX_DIGITS,
        )

    def round_to(self, array: Array, cast: Cast) -> Array:
        """Round to the target's scale; a pass for each of at most 39 numbers of digits."""
        precision, scale = cast.target.precision or 0, cast.target.scale or 0
        digit_counts = self.point + scale
        is_zero = lengths_of(self.digits) == 0
        too_large = (digit_counts > precision) & ~is_zero
        if not cast.is_java:
            too_large |= self.too_long
        words = np.zeros((len(array), 2), np.int64)
        for count in np.unique(digit_counts[~too_large & ~is_zero & (digit_counts >= 0)]):
            rows = np.flatnonzero((digit_counts == count) & ~too_large & ~is_zero)
            words[rows] = _first_digits(self.digits.take(from_numpy(rows)), int(count))
        too_large |= _is_power_of_ten(words, precision)
        _negate(words, self.is_negative)
        return column_of(words, cast.arrow_type, array, too_large)


def _with_ascii_digits(array: Array) -> Array:
    """Write the decimal digits of other scripts as 0 to 9: Java's numbers may have them."""
    if not (bytes_of(array) >= _NOT_ASCII).any():
        return array
    for value, letters in enumerate(_digit_letters()):
        array = pc.replace_substring_regex(array, letters, str(value))
    return array


@cache
def _digit_letters() -> tuple[str, ...]:
    """Return a pattern for each of the digits 0 to 9 in other scripts."""
    classes = [""] * 10
    for letter in map(chr, range(_NOT_ASCII, sys.maxunicode + 1)):
        value = unicodedata.decimal(letter, None)
        if value is not None:
            classes[value] += letter
    return tuple(f"[{letters}]" for letters in classes)


def _field(parts: Array, name: str) -> Array:
    return pc.fill_null(pc.struct_field(parts, name), "")


def _first_digits(digits: Array, count: int) -> Numbers:
    """Return the first digits as words of 128 bits, rounded up if a digit from 5 on follows."""
    shown = pc.utf8_rpad(pc.utf8_slice_codeunits(digits, 0, count), max(count, 1), "0")
    words = decimal_words(shown.cast(pa.decimal128(MAX_DIGITS, 0))).copy()
    following = pc.utf8_slice_codeunits(digits, count, count + 1)
    is_up = truth_of(pc.greater_equal(following, pa.scalar("5")))
    words[is_up, 0] += 1
    words[is_up & (words[:, 0] == 0), 1] += 1
    return words


def _is_power_of_ten(words: Numbers, power: int) -> Mask:
    """Whether rounding up gave a number with one digit too many."""
    high, low = divmod(10**power, 2**64)
    mask: Mask = (words[:, 1] == high) & (words[:, 0].view(np.uint64) == np.uint64(low))
    return mask


def _negate(words: Numbers, rows: Mask) -> None:
    """Negate some numbers of 128 bits in place: flip all bits and add one."""
    words[rows] = ~words[rows]
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
    if not cast.is_java:
        return _of_exact_value(values, array, cast)
    return _of_text(values.astype(np.float64, copy=False), array, cast)


def _of_exact_value(values: Numbers, array: Array, cast: Cast) -> Array:
    precision, scale = cast.target.precision or 0, cast.target.scale or 0
    limit = 10 ** (precision - scale)
    nearest = float(limit)  # exact up to 1e22; beyond, a number below or above the limit
    size = np.abs(values.astype(np.float64, copy=False))
    too_large = size > nearest if int(nearest) < limit else size >= nearest
    fitting_values = from_numpy(np.where(too_large, 0, values).astype(values.dtype))
    wide = fitting_values.cast(pa.decimal128(MAX_DIGITS, scale))
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
        return _round_texts(result, values, in_doubt, cast) if in_doubt.any() else result
    size = np.abs(scaled)
    too_large = size > 10.0**precision * (1 + _DOUBT)
    is_certain = size < min(_CERTAIN_BELOW, 10.0 ** min(precision, LONG_DIGITS) - 1)
    is_certain &= from_tie > size * _DOUBT
    unscaled = np.where(is_certain, rounded, 0).astype(np.int64)
    result = decimal_column(unscaled, precision, scale, array, too_large)
    in_doubt = ~is_certain & ~too_large
    return _round_texts(result, values, in_doubt, cast) if in_doubt.any() else result


def _round_texts(
    result: Array, values: npt.NDArray[np.float64], in_doubt: Mask, cast: Cast
) -> Array:
    """Replace the rows in doubt by their texts, rounded."""
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
