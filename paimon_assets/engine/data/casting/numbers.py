"""Integers, floating point and booleans ⇄ each other and text.

Arrow's parsers read the texts on which both dialects agree; texts they refuse, or read otherwise
than Java does, are rewritten for them by regular expressions.

Java's text of a FLOAT or DOUBLE (`Double.toString`) is the shortest decimal that reads back as the
same number, with at least two digits, written plainly from 0.001 to 9999999 and as 1.0E7 elsewhere.
Up to version 18 Java cuts whole numbers beyond the bits of their type at a fixed digit, not at the
shortest text. Of random bits one DOUBLE in 100,000 (one FLOAT in 3,000) is still another text in
Java 17, where that is not the shortest.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_assets.engine.codec.arrow.numpy_columns import Flags, Longs, from_numpy, valid_rows
from paimon_assets.engine.data.casting import cast as kernels


def as_arrow_casts(array: kernels.Array, cast: kernels.Cast) -> kernels.Array:
    """Keep the low bits of whole numbers, round reals (to infinity, too), write digits."""
    return array.cast(cast.arrow_type, safe=False)


def real_to_whole(array: kernels.Array, cast: kernels.Cast) -> kernels.Array:
    """Cut the fraction off; smaller types than INT keep the low bits of one.

    Java saturates, and takes NaN as 0. In C++, as on x86-64, both become the smallest number.
    """
    values = kernels.values_of(array).astype(np.float64, copy=False)
    limits = np.iinfo(np.int64 if pa.types.is_int64(cast.arrow_type) else np.int32)
    above = 2.0 ** (limits.bits - 1)
    with np.errstate(invalid="ignore"):
        whole = values.astype(limits.dtype)
    # Not `>=`: NaN is outside, too.
    outside = ~(np.abs(values) < above)
    if outside.any():
        whole[outside] = limits.min
        if cast.is_java:
            whole[values >= above] = limits.max
            whole[np.isnan(values)] = 0
    return kernels.column_of(
        whole.astype(cast.arrow_type.to_pandas_dtype()), cast.arrow_type, array
    )


def number_to_boolean(array: kernels.Array, _: kernels.Cast) -> kernels.Array:
    """Whether it is not zero; NaN is not."""
    return kernels.with_nulls_of(from_numpy(kernels.values_of(array) != 0), array)


def boolean_to_text(array: kernels.Array, _: kernels.Cast) -> kernels.Array:
    return pc.if_else(array, "true", "false")


_JAVA_WHOLE = r"^[+-]?(\d+\.?\d*|\.\d*)$"
_JAVA_REAL = r"^[+-]?(NaN|Infinity|(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?[fFdD]?)$"
_JAVA_HEX = (
    r"^(?P<sign>[+-]?)0[xX](?P<whole>[0-9a-fA-F]*)\.?(?P<part>[0-9a-fA-F]*)"
    r"[pP](?P<exponent>[+-]?\d+)[fFdD]?$"
)
_HEX_DIGITS = 15
"""They fit into 64 bits, and are more than a DOUBLE holds."""
_LARGEST_EXPONENT = 1_000_000
_BLANKS = "".join(map(chr, range(33)))
"""Characters that Java's `trim` removes."""
_TRUE, _FALSE = "t true y yes 1", "f false n no 0"


def text_to_whole(array: kernels.Array, cast: kernels.Cast) -> kernels.Array:
    """Parse digits; Java ignores a fraction and takes a plus sign, C++ takes 0x10."""
    if not cast.is_java:
        return cast.by_arrow(array)
    if not kernels.has_letters(array):
        plain = kernels.attempt(array, cast.arrow_type)
        if plain is not None:
            return plain
    cast.check(pc.invert(pc.match_substring_regex(array, _JAVA_WHOLE)), array)
    text = pc.replace_substring_regex(array, r"^\+|\..*$", "")
    whole = pc.replace_substring_regex(text, r"^(-?)$", "0")
    result = kernels.attempt(whole, cast.arrow_type)
    return cast.by_arrow(array) if result is None else result


def text_to_real(array: kernels.Array, cast: kernels.Cast) -> kernels.Array:
    """Parse decimal numbers; Java trims, takes 1f, 0x1p3, NaN and Infinity, C++ any case of inf."""
    if not cast.is_java:
        return cast.by_arrow(array)
    if not kernels.has_letters(array, but="e"):
        plain = kernels.attempt(array, cast.arrow_type)
        if plain is not None:
            return plain
    text = pc.ascii_trim(array, characters=_BLANKS)
    is_decimal = kernels.truth_of(pc.match_substring_regex(text, _JAVA_REAL))
    rows = valid_rows(array) & ~is_decimal
    if not rows.any():
        return _decimal_reals(text, cast)
    cast.check(rows & ~kernels.truth_of(pc.match_substring_regex(text, _JAVA_HEX)), array)
    hexadecimal = from_numpy(rows)
    values = _hexadecimal_reals(text.filter(hexadecimal), array.filter(hexadecimal), cast)
    decimals = _decimal_reals(pc.if_else(hexadecimal, "0", text), cast)
    return kernels.replace(decimals, rows, values)


def _decimal_reals(text: kernels.Array, cast: kernels.Cast) -> kernels.Array:
    return cast.by_arrow(pc.replace_substring_regex(text, r"([\d.])[fFdD]$", r"\1"))


def _hexadecimal_reals(
    text: kernels.Array, array: kernels.Array, cast: kernels.Cast
) -> kernels.Array:
    """Read 0x1.8p3: sixty bits and whether more follow, times a power of two, rounded once."""
    parts = pc.extract_regex(text, _JAVA_HEX)
    whole, part = pc.struct_field(parts, "whole"), pc.struct_field(parts, "part")
    padded = pc.binary_join_element_wise(whole, part, "")
    cast.check(kernels.lengths_of(padded) == 0, array)
    digits = pc.utf8_ltrim(padded, characters="0")
    first = pc.utf8_rpad(pc.utf8_slice_codeunits(digits, 0, _HEX_DIGITS), 1, "0")
    leading = pc.binary_join_element_wise(pa.scalar("0x"), first, "").cast(pa.int64())
    is_more = kernels.truth_of(
        pc.match_substring_regex(pc.utf8_slice_codeunits(digits, _HEX_DIGITS), "[^0]")
    )
    # The lowest bit also marks further digits, so that one rounding is right.
    significand = kernels.values_of(leading) | is_more
    dropped = np.maximum(kernels.lengths_of(digits) - _HEX_DIGITS, 0)
    exponent = kernels.values_of(pc.struct_field(parts, "exponent").cast(pa.float64()))
    binary = np.clip(exponent, -_LARGEST_EXPONENT, _LARGEST_EXPONENT).astype(np.int64)
    binary += 4 * (dropped - kernels.lengths_of(part))
    with np.errstate(over="ignore", under="ignore"):
        exact = np.ldexp(significand.astype(np.longdouble), binary.astype(np.int32))
        values = exact.astype(cast.arrow_type.to_pandas_dtype())
    is_negative: Flags = kernels.truth_of(pc.starts_with(pc.struct_field(parts, "sign"), "-"))
    return kernels.column_of(np.where(is_negative, -values, values), cast.arrow_type, array)


def text_to_boolean(array: kernels.Array, cast: kernels.Cast) -> kernels.Array:
    """Take t, true, y, yes, 1 and their opposites in any case."""
    lower = pc.ascii_lower(array)
    is_true, is_false = _is_one_of(lower, _TRUE), _is_one_of(lower, _FALSE)
    cast.check(pc.and_(pc.invert(pc.or_(is_true, is_false)), array.is_valid()), array)
    if not array.null_count:
        return is_true
    return pc.if_else(array.is_valid(), is_true, pa.scalar(None, pa.bool_()))


def _is_one_of(texts: kernels.Array, words: str) -> kernels.Array:
    return pc.is_in(texts, value_set=pc.split_pattern(pa.scalar(words), " ").values)


_PLAIN_FROM, _PLAIN_UNTIL = 1e-3, 1e7
"""Java writes numbers of this size without exponent."""

_FIRST_POWER = -330
_MOST_ZEROS = 18
_POWERS = 10 ** np.arange(_MOST_ZEROS + 1, dtype=np.int64)


@cache
def _powers(dtype: np.dtype[Any]) -> kernels.Numbers:
    """Return ten to the power of -330 … 308, as a type has it."""
    with np.errstate(over="ignore", under="ignore"):
        return np.array([float(f"1e{power}") for power in range(_FIRST_POWER, 309)]).astype(dtype)


def real_to_text(array: kernels.Array, cast: kernels.Cast) -> kernels.Array:
    """Write numbers as Java does, or as Arrow does for C++; most of it is Arrow's search."""
    if not cast.is_java:
        return array.cast(pa.string())
    values = kernels.with_nulls_as(kernels.values_of(array), array, 0)
    size = np.abs(values)
    plain = ((size >= _PLAIN_FROM) & (size < _PLAIN_UNTIL)) | (size == 0)
    if plain.all():
        return kernels.with_nulls_of(_plain_texts(values), array)
    # The form that fewer rows have is written for these alone, and put between the rest.
    scientific = np.isfinite(values) & ~plain
    if 2 * np.count_nonzero(scientific) > len(values):
        text = _scientific_texts(np.where(scientific, values, _PLAIN_UNTIL))
        if plain.any():
            text = kernels.replace(text, plain, _plain_texts(values[plain]))
    else:
        text = _plain_texts(np.where(plain, values, 0))
        if scientific.any():
            text = kernels.replace(text, scientific, _scientific_texts(values[scientific]))
    text = _replace_rows(text, np.isnan(values), "NaN")
    text = _replace_rows(text, values == np.inf, "Infinity")
    return kernels.with_nulls_of(_replace_rows(text, values == -np.inf, "-Infinity"), array)


def _plain_texts(values: kernels.Numbers) -> kernels.Array:
    text = from_numpy(values).cast(pa.string())
    is_whole = np.trunc(values) == values
    if not is_whole.any():
        return text
    return kernels.with_inserted(text, is_whole, kernels.lengths_of(text)[is_whole], ".0")


def _replace_rows(texts: kernels.Array, rows: Flags, by: str) -> kernels.Array:
    return pc.if_else(from_numpy(rows), by, texts) if rows.any() else texts


def _scientific_texts(values: kernels.Numbers) -> kernels.Array:
    """Write finite numbers, not zero, as 1.0E7."""
    size = np.abs(values)
    whole, is_whole = java_whole(size, np.finfo(values.dtype).nmant + 1)
    if is_whole.all():
        exponents = np.searchsorted(_POWERS, whole, side="right") - 1
        if exponents.min() > 0 and exponents.max() < len("0123456789"):
            # Of two to ten digits: the exponent is the last digit of their number.
            zeros = np.minimum(zeros_behind(whole), exponents - 1)
            digits = from_numpy(whole // _POWERS[zeros] * 10 + exponents).cast(pa.string())
            digits = pc.binary_replace_slice(digits, -1, -1, "E")
            return _sign(pc.binary_replace_slice(digits, 1, 1, "."), values)
    digits = from_numpy(whole).cast(pa.string())
    exponents = kernels.lengths_of(digits) - 1
    digits = kernels.without_ends(digits, zeros_behind(whole))
    if not is_whole.all():
        rows = ~is_whole
        shortest, exponents[rows] = _shortest_digits(size[rows])
        digits = kernels.replace(digits, rows, shortest)
    digits = kernels.with_inserted(digits, kernels.lengths_of(digits) == 1, 1, "0")
    behind = _exponent_texts().take(from_numpy(exponents - _FIRST_POWER))
    text = pc.binary_replace_slice(digits, 1, 1, ".")
    return _sign(pc.binary_join_element_wise(text, behind, ""), values)


def _sign(texts: kernels.Array, values: kernels.Numbers) -> kernels.Array:
    negative = values < 0
    if not negative.any():
        return texts
    return pc.binary_join_element_wise(pc.if_else(from_numpy(negative), "-", ""), texts, "")


@cache
def _exponent_texts() -> kernels.Array:
    """Return E-330 … E308; made when first needed, because texts as arguments import pandas."""
    powers: kernels.Array = from_numpy(np.arange(_FIRST_POWER, 309)).cast(pa.string())
    return pc.binary_join_element_wise("E", powers, "")


def zeros_behind(whole: Longs, most: int = _MOST_ZEROS) -> Longs:
    """Return how many zeros end each number, up to `most`; none end 0."""
    zeros = np.zeros(len(whole), np.int64)
    rows = np.flatnonzero((whole // 10 * 10 == whole) & (whole != 0))
    for count in range(1, most + 1):
        rows = rows[whole[rows] % 10**count == 0]
        if not rows.size:
            break
        zeros[rows] = count
    return zeros


def _shortest_digits(size: kernels.Numbers) -> tuple[kernels.Array, kernels.Numbers]:
    """Return (digits of the shortest text, exponent of the first digit) of numbers above zero."""
    text = from_numpy(size).cast(pa.string())
    exponents = np.searchsorted(_powers(size.dtype), size, side="right") - 1 + _FIRST_POWER
    tiny = size < 100 * float(np.finfo(size.dtype).smallest_subnormal)
    if tiny.any():
        tiny &= kernels.truth_of(pc.match_substring_regex(text, r"^\de-"))
    for number in np.unique(size[tiny]):  # at most 99 numbers
        shown, rows = f"{number:.1e}", size == number
        text = _replace_rows(text, rows, shown)
        exponents[rows] = int(shown.partition("e")[2])
    return pc.replace_substring_regex(text, r"^0\.0*|\.|0*(e.*)?$", ""), exponents


def java_whole(size: kernels.Numbers, bits: int = 53) -> tuple[Longs, Flags]:
    """Return the whole numbers below 2⁶³ as Java 8 to 18 write them, and which rows they are.

    Digits that `bits` bits do not determine are rounded to zero; numbers below two to the power of
    `bits` are exact.
    """
    exact = size.astype(np.float64)
    is_whole: Flags = (exact < 2.0**63) & (np.trunc(exact) == exact)
    whole = np.where(is_whole, exact, 0).astype(np.int64)
    if exact.max(initial=0) < 2.0**bits:
        return whole, is_whole
    # `spare` bits are not determined: cut off is the largest power of ten of no more bits.
    spare = np.frexp(exact)[1] - 1 - bits - 1
    for digits in range(1, 12):
        power = 10**digits
        first, last = power.bit_length(), (10 * power).bit_length()
        rows = np.flatnonzero(is_whole & (spare >= first) & (spare < last))
        if rows.size:
            cut = whole[rows] // power
            cut += whole[rows] - cut * power >= power // 2
            whole[rows] = cut * power
    return whole, is_whole
