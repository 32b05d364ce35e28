"""Text → DECIMAL.

Arrow's cast                    texts with no more decimals than the type
Arrow's cast and rounding       some decimals more
digit by digit                  the rest: exponents, many digits, values that do not fit
"""

from __future__ import annotations

import sys
import unicodedata
from dataclasses import dataclass
from functools import cache

import numpy as np
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
    truth_of,
    valid_rows,
    values_of,
)
from paimon_assets.engine.data.casting.cast import Array, Cast, attempt
from paimon_assets.engine.data.casting.decimals import LONG_DIGITS, MAX_DIGITS, rescale

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
    return _Digits.of(array, cast).rounded(array, cast)


@dataclass(frozen=True, slots=True)
class _Digits:
    """Numbers written as 0.DIGITS · 10^point, with a sign."""

    digits: Array
    """Without zeros in front; empty for zero and for null."""
    point: Numbers
    is_negative: Mask
    too_long: Mask
    """Whether C++ gives up because the text has over 38 digits."""

    @staticmethod
    def of(array: Array, cast: Cast) -> _Digits:
        """Take texts apart; raises for what is no number."""
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

    def rounded(self, array: Array, cast: Cast) -> Array:
        """Round to the target's scale; a pass for each of at most 39 numbers of kept digits."""
        precision, scale = cast.target.precision or 0, cast.target.scale or 0
        kept = self.point + scale
        is_zero = lengths_of(self.digits) == 0
        too_large = (kept > precision) & ~is_zero
        if not cast.is_java:
            too_large |= self.too_long
        words = np.zeros((len(array), 2), np.int64)
        for count in np.unique(kept[~too_large & ~is_zero & (kept >= 0)]):
            rows = np.flatnonzero((kept == count) & ~too_large & ~is_zero)
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
    found = pc.struct_field(parts, name)
    return pc.fill_null(found, "")


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
    found: Mask = (words[:, 1] == high) & (words[:, 0].view(np.uint64) == np.uint64(low))
    return found


def _negate(words: Numbers, rows: Mask) -> None:
    """Negate some numbers of 128 bits in place: flip all bits and add one."""
    words[rows] = ~words[rows]
    words[rows, 0] += 1
    words[rows & (words[:, 0] == 0), 1] += 1
