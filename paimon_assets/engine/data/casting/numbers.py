"""Integers, floating point and booleans, from one to the other; text → these.

Arrow's parsers read what both dialects agree on; texts they refuse, or read otherwise than Java
does, are rewritten for them by regular expressions.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_assets.engine.codec.arrow.numpy_columns import from_numpy
from paimon_assets.engine.data.casting.arrays import (
    Mask,
    Numbers,
    column_of,
    has_letters,
    lengths_of,
    replace,
    truth_of,
    valid_rows,
    values_of,
    with_nulls_of,
)
from paimon_assets.engine.data.casting.cast import Array, Cast, attempt

_INT32 = np.iinfo(np.int32)
_INT64 = np.iinfo(np.int64)
_TWO_TO_31, _TWO_TO_63 = 2.0**31, 2.0**63


def as_arrow_casts(array: Array, cast: Cast) -> Array:
    """Keep the low bits of whole numbers, round reals (to infinity, too), write digits."""
    return array.cast(cast.arrow_type, safe=False)


def real_to_whole(array: Array, cast: Cast) -> Array:
    """Cut the fraction off; the dialects differ for NaN and for values out of range."""
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
    """Convert as x86-64: the smallest number, of which smaller types keep the low bits."""
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
"""What Java's `trim` removes."""
_TRUE, _FALSE = "t true y yes 1", "f false n no 0"


def text_to_whole(array: Array, cast: Cast) -> Array:
    """Parse digits; Java ignores a fraction and takes a plus sign, C++ takes 0x10."""
    if not cast.is_java:
        return cast.by_arrow(array)
    if not has_letters(array):
        plain = attempt(array, cast.arrow_type)
        if plain is not None:
            return plain
    cast.check(pc.invert(pc.match_substring_regex(array, _JAVA_WHOLE)), array)
    text = pc.replace_substring_regex(array, r"^\+|\..*$", "")
    whole = pc.replace_substring_regex(text, r"^(-?)$", "0")
    result = attempt(whole, cast.arrow_type)
    return cast.by_arrow(array) if result is None else result


def text_to_real(array: Array, cast: Cast) -> Array:
    """Parse decimal numbers; Java trims, takes 1f, 0x1p3, NaN and Infinity, C++ any case of inf."""
    if not cast.is_java:
        return cast.by_arrow(array)
    if not has_letters(array, but="e"):
        plain = attempt(array, cast.arrow_type)
        if plain is not None:
            return plain
    text = pc.ascii_trim(array, characters=_BLANKS)
    is_decimal = truth_of(pc.match_substring_regex(text, _JAVA_REAL))
    rows = valid_rows(array) & ~is_decimal
    if not rows.any():
        return _decimal_reals(text, cast)
    cast.check(rows & ~truth_of(pc.match_substring_regex(text, _JAVA_HEX)), array)
    hexadecimal = from_numpy(rows)
    values = _hexadecimal_reals(text.filter(hexadecimal), array.filter(hexadecimal), cast)
    decimals = _decimal_reals(pc.if_else(hexadecimal, "0", text), cast)
    return replace(decimals, rows, values)


def _decimal_reals(text: Array, cast: Cast) -> Array:
    without_suffix = pc.replace_substring_regex(text, r"([\d.])[fFdD]$", r"\1")
    return cast.by_arrow(without_suffix)


def _hexadecimal_reals(text: Array, array: Array, cast: Cast) -> Array:
    """Read 0x1.8p3: sixty bits and whether more follow, times a power of two, rounded once."""
    parts = pc.extract_regex(text, _JAVA_HEX)
    whole, part = pc.struct_field(parts, "whole"), pc.struct_field(parts, "part")
    padded = pc.binary_join_element_wise(whole, part, "")
    cast.check(lengths_of(padded) == 0, array)
    digits = pc.utf8_ltrim(padded, characters="0")
    first = pc.utf8_rpad(pc.utf8_slice_codeunits(digits, 0, _HEX_DIGITS), 1, "0")
    leading = pc.binary_join_element_wise(pa.scalar("0x"), first, "").cast(pa.int64())
    is_more = truth_of(
        pc.match_substring_regex(pc.utf8_slice_codeunits(digits, _HEX_DIGITS), "[^0]")
    )
    significand = values_of(leading) | is_more
    dropped = np.maximum(lengths_of(digits) - _HEX_DIGITS, 0)
    exponent = values_of(pc.struct_field(parts, "exponent").cast(pa.float64()))
    binary = np.clip(exponent, -_LARGEST_EXPONENT, _LARGEST_EXPONENT).astype(np.int64)
    binary += 4 * (dropped - lengths_of(part))
    with np.errstate(over="ignore", under="ignore"):
        exact = np.ldexp(significand.astype(np.longdouble), binary.astype(np.int32))
        values = exact.astype(cast.arrow_type.to_pandas_dtype())
    is_negative: Mask = truth_of(pc.starts_with(pc.struct_field(parts, "sign"), "-"))
    return column_of(np.where(is_negative, -values, values), cast.arrow_type, array)


def text_to_boolean(array: Array, cast: Cast) -> Array:
    """Take t, true, y, yes, 1 and their opposites in any case."""
    lower = pc.ascii_lower(array)
    is_true, is_false = _is_one_of(lower, _TRUE), _is_one_of(lower, _FALSE)
    cast.check(pc.and_(pc.invert(pc.or_(is_true, is_false)), array.is_valid()), array)
    if not array.null_count:
        return is_true
    return pc.if_else(array.is_valid(), is_true, pa.scalar(None, pa.bool_()))


def _is_one_of(texts: Array, words: str) -> Array:
    return pc.is_in(texts, value_set=pc.split_pattern(pa.scalar(words), " ").values)
