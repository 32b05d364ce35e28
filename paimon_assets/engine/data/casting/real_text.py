"""FLOAT and DOUBLE → text.

Java's text (`Double.toString`) is the shortest decimal that reads back as the same number, with at
least two digits, written plainly from 0.001 to 9999999 and as 1.0E7 elsewhere. Up to version 18
Java cuts whole numbers beyond the bits of their type at a fixed digit, not at the shortest text.

    plain        Arrow's text, and .0 behind whole numbers
    1.0E7        digits of the whole number, or of Arrow's text, and the exponent behind them
    the rest     NaN, Infinity

Of random bits one DOUBLE in 100,000 (one FLOAT in 3,000) is still another text in Java 17, where
that is not the shortest.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_assets.engine.codec.arrow.numpy_columns import from_numpy
from paimon_assets.engine.data.casting.arrays import (
    Mask,
    Numbers,
    lengths_of,
    replace,
    truth_of,
    values_of,
    with_inserted,
    with_nulls_as,
    with_nulls_of,
    without_ends,
)
from paimon_assets.engine.data.casting.cast import Array, Cast

Int64s = npt.NDArray[np.int64]

PLAIN_FROM, PLAIN_UNTIL = 1e-3, 1e7
"""Java writes numbers of this size without exponent."""

_FIRST_POWER = -330
_MOST_ZEROS = 18
_POWERS = 10 ** np.arange(_MOST_ZEROS + 1, dtype=np.int64)
"""Ten to the power of 0 … 18."""


@dataclass(frozen=True, slots=True)
class _Format:
    """The constants of one width of numbers."""

    bits: int
    """The bits of the significand."""
    powers: Numbers
    """Ten to the power of -330 … 308, as this type has it."""
    smallest: float
    """Above zero."""


def _format(dtype: Any, bits: int) -> _Format:
    with np.errstate(over="ignore", under="ignore"):
        powers = np.array([float(f"1e{power}") for power in range(_FIRST_POWER, 309)]).astype(dtype)
    return _Format(bits, powers, float(np.finfo(dtype).smallest_subnormal))


_FORMATS = {"float64": _format(np.float64, 53), "float32": _format(np.float32, 24)}


def real_to_text(array: Array, cast: Cast) -> Array:
    """Write numbers as Java does, or as Arrow does for C++.

    Cost:
        Most of it Arrow's search for the shortest digits.
    """
    if not cast.is_java:
        return array.cast(pa.string())
    values = with_nulls_as(values_of(array), array, 0)
    size = np.abs(values)
    plain = ((size >= PLAIN_FROM) & (size < PLAIN_UNTIL)) | (size == 0)
    if plain.all():
        return with_nulls_of(_plain_texts(values), array)
    scientific = np.isfinite(values) & ~plain
    if 2 * np.count_nonzero(scientific) > len(values):
        text = _scientific_texts(np.where(scientific, values, PLAIN_UNTIL))
        if plain.any():
            text = replace(text, plain, _plain_texts(values[plain]))
    else:
        text = _plain_texts(np.where(plain, values, 0))
        if scientific.any():
            text = replace(text, scientific, _scientific_texts(values[scientific]))
    return with_nulls_of(_special_texts(text, values), array)


def _plain_texts(values: Numbers) -> Array:
    """Write the shortest texts, and .0 behind whole numbers."""
    text = from_numpy(values).cast(pa.string())
    is_whole = np.trunc(values) == values
    if not is_whole.any():
        return text
    return with_inserted(text, is_whole, lengths_of(text)[is_whole], ".0")


def _special_texts(text: Array, values: Numbers) -> Array:
    for rows, name in (
        (np.isnan(values), "NaN"),
        (values == np.inf, "Infinity"),
        (values == -np.inf, "-Infinity"),
    ):
        text = _replace_rows(text, rows, name)
    return text


def _replace_rows(texts: Array, rows: Mask, by: str) -> Array:
    """Return texts with one text in some rows."""
    return pc.if_else(from_numpy(rows), by, texts) if rows.any() else texts


def _scientific_texts(values: Numbers) -> Array:
    """Write finite numbers, not zero, as 1.0E7."""
    size = np.abs(values)
    whole, is_whole = java_whole(size, _FORMATS[values.dtype.name].bits)
    if is_whole.all():
        exponents = np.searchsorted(_POWERS, whole, side="right") - 1
        if exponents.min() > 0 and exponents.max() < len("0123456789"):
            return _sign(_short_texts(whole, exponents), values)
    digits = from_numpy(whole).cast(pa.string())
    exponents = lengths_of(digits) - 1
    digits = without_ends(digits, _zeros_behind(whole))
    if not is_whole.all():
        rows = ~is_whole
        shortest, exponents[rows] = _shortest_digits(size[rows])
        digits = replace(digits, rows, shortest)
    digits = with_inserted(digits, lengths_of(digits) == 1, 1, "0")
    behind = _exponent_texts().take(from_numpy(exponents - _FIRST_POWER))
    text = pc.binary_replace_slice(digits, 1, 1, ".")
    return _sign(pc.binary_join_element_wise(text, behind, ""), values)


def _short_texts(whole: Int64s, exponents: Int64s) -> Array:
    """Write whole numbers of two to ten digits: the exponent is their number's last digit."""
    zeros = np.minimum(_zeros_behind(whole), exponents - 1)
    digits = from_numpy(whole // _POWERS[zeros] * 10 + exponents).cast(pa.string())
    return pc.binary_replace_slice(pc.binary_replace_slice(digits, -1, -1, "E"), 1, 1, ".")


def _sign(texts: Array, values: Numbers) -> Array:
    negative = values < 0
    if not negative.any():
        return texts
    return pc.binary_join_element_wise(pc.if_else(from_numpy(negative), "-", ""), texts, "")


@cache
def _exponent_texts() -> Array:
    """Return E-330 … E308; made when first needed, because texts as arguments import pandas."""
    powers: Array = from_numpy(np.arange(_FIRST_POWER, 309)).cast(pa.string())
    return pc.binary_join_element_wise("E", powers, "")


def _zeros_behind(whole: Int64s) -> Int64s:
    """Return how many zeros end each number above zero."""
    zeros = np.zeros(len(whole), np.int64)
    rows = np.flatnonzero((whole // 10 * 10 == whole) & (whole != 0))
    for count in range(1, _MOST_ZEROS + 1):
        rows = rows[whole[rows] % 10**count == 0]
        if not rows.size:
            break
        zeros[rows] = count
    return zeros


def _shortest_digits(size: Numbers) -> tuple[Array, Numbers]:
    """Return (digits of the shortest text, exponent of the first digit) of numbers above zero."""
    kind = _FORMATS[size.dtype.name]
    text = from_numpy(size).cast(pa.string())
    exponents = np.searchsorted(kind.powers, size, side="right") - 1 + _FIRST_POWER
    tiny = size < 100 * kind.smallest
    if tiny.any():
        tiny &= truth_of(pc.match_substring_regex(text, r"^\de-"))
    for number in np.unique(size[tiny]):  # at most 99 numbers
        shown, rows = f"{number:.1e}", size == number
        text = _replace_rows(text, rows, shown)
        exponents[rows] = int(shown.partition("e")[2])
    return pc.replace_substring_regex(text, r"^0\.0*|\.|0*(e.*)?$", ""), exponents


def java_whole(size: Numbers, bits: int = 53) -> tuple[Int64s, Mask]:
    """Return the whole numbers below 2⁶³ as Java 8 to 18 write them, and which rows they are.

    Digits that `bits` bits do not determine are rounded to zero; numbers below two to the power of
    `bits` are exact.
    """
    exact = size.astype(np.float64)
    is_whole: Mask = (exact < 2.0**63) & (np.trunc(exact) == exact)
    whole = np.where(is_whole, exact, 0).astype(np.int64)
    if exact.max(initial=0) < 2.0**bits:
        return whole, is_whole
    spare = np.frexp(exact)[1] - 1 - bits - 1
    for digits in range(1, 12):
        first, last = _bits_of_digits(digits), _bits_of_digits(digits + 1)
        rows = np.flatnonzero(is_whole & (spare >= first) & (spare < last))
        if rows.size:
            power = 10**digits
            cut = whole[rows] // power
            cut += whole[rows] - cut * power >= power // 2
            whole[rows] = cut * power
    return whole, is_whole


def _bits_of_digits(digits: int) -> int:
    """Return how many bits hold so many decimal digits."""
    return int(10**digits).bit_length()
