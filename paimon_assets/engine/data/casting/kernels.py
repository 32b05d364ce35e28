"""KERNELS: which function casts a type to another; loaded by the first cast of a process.

Here are those of CHAR, VARCHAR, BINARY and VARBINARY: lengths, and text ⇄ bytes. Java cuts texts
that are too long for the target, and fills CHAR with blanks, BINARY with zeros; in C++ lengths mean
nothing. Bytes that become text are never checked or cut.
"""

from collections.abc import Iterable, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from paimon_assets.engine.data.casting import decimals, numbers, times
from paimon_assets.engine.data.casting.cast import Array, Cast, Kernel, lengths_of
from paimon_assets.engine.spec.types.cast_rules import FLOAT_ROOTS
from paimon_assets.engine.spec.types.data_types import (
    BINARY_ROOTS,
    CHARACTER_ROOTS,
    INTEGER_ROOTS,
    TIMESTAMP_ROOTS,
    TypeRoot,
)


def text_to_text(array: Array, cast: Cast) -> Array:
    """Cut to the length in characters (code points), fill CHAR."""
    if not cast.is_java:
        return array
    length = cast.target.length or 0
    if lengths_of(array).max(initial=0) > length:
        array = pc.utf8_slice_codeunits(array, 0, length)
    return pc.utf8_rpad(array, length, " ") if cast.target.root is TypeRoot.CHAR else array


def bytes_to_bytes(array: Array, cast: Cast) -> Array:
    """Cut to the length in bytes, fill BINARY."""
    if not cast.is_java:
        return array
    length = cast.target.length or 0
    lengths = lengths_of(array)
    if lengths.max(initial=0) > length:
        array = pc.binary_slice(array, 0, length)
    if cast.target.root is not TypeRoot.BINARY or lengths.min(initial=length) >= length:
        return array
    return pc.ascii_rpad(array.view(pa.string()), length, "\0").view(pa.binary())


def text_to_bytes(array: Array, cast: Cast) -> Array:
    """Take the UTF-8 bytes; cutting may split a character."""
    return bytes_to_bytes(array.view(pa.binary()), cast)


def bytes_to_text(array: Array, _: Cast) -> Array:
    """Take the bytes as UTF-8, without a check."""
    return array.view(pa.string())


def with_target_length(to_text: Kernel) -> Kernel:
    def kernel(array: Array, cast: Cast) -> Array:
        return text_to_text(to_text(array, cast), cast)

    return kernel


_WHOLE, _REAL, _TEXT, _BYTES = INTEGER_ROOTS, FLOAT_ROOTS, CHARACTER_ROOTS, BINARY_ROOTS
_NUMBER = _WHOLE | _REAL
_BOOLEAN, _DECIMAL = {TypeRoot.BOOLEAN}, {TypeRoot.DECIMAL}
_DATE, _TIME, _TIMESTAMP = {TypeRoot.DATE}, {TypeRoot.TIME}, TIMESTAMP_ROOTS
_SECONDS = {TypeRoot.INT, TypeRoot.BIGINT}

_RULES: tuple[tuple[Iterable[TypeRoot], Iterable[TypeRoot], Kernel], ...] = (
    (_WHOLE, _WHOLE, numbers.as_arrow_casts),
    (_WHOLE, _REAL, numbers.as_arrow_casts),
    (_WHOLE, _BOOLEAN, numbers.number_to_boolean),
    (_WHOLE, _DECIMAL, decimals.whole_to_decimal),
    (_WHOLE, _TEXT, with_target_length(numbers.as_arrow_casts)),
    (_SECONDS, _TIMESTAMP, times.seconds_to_timestamp),
    (_REAL, _WHOLE, numbers.real_to_whole),
    (_REAL, _REAL, numbers.as_arrow_casts),
    (_REAL, _BOOLEAN, numbers.number_to_boolean),
    (_REAL, _DECIMAL, decimals.real_to_decimal),
    (_REAL, _TEXT, with_target_length(numbers.real_to_text)),
    (_BOOLEAN, _NUMBER, numbers.as_arrow_casts),
    (_BOOLEAN, _DECIMAL, decimals.boolean_to_decimal),
    (_BOOLEAN, _TEXT, with_target_length(numbers.boolean_to_text)),
    (_DECIMAL, _WHOLE, decimals.decimal_to_whole),
    (_DECIMAL, _REAL, decimals.decimal_to_real),
    (_DECIMAL, _DECIMAL, decimals.decimal_to_decimal),
    (_DECIMAL, _TEXT, with_target_length(decimals.decimal_to_text)),
    (_TEXT, _WHOLE, numbers.text_to_whole),
    (_TEXT, _REAL, numbers.text_to_real),
    (_TEXT, _BOOLEAN, numbers.text_to_boolean),
    (_TEXT, _DECIMAL, decimals.text_to_decimal),
    (_TEXT, _DATE, times.text_to_date),
    (_TEXT, _TIME, times.text_to_time),
    (_TEXT, _TIMESTAMP, times.text_to_timestamp),
    (_TEXT, _TEXT, text_to_text),
    (_TEXT, _BYTES, text_to_bytes),
    (_BYTES, _TEXT, bytes_to_text),
    (_BYTES, _BYTES, bytes_to_bytes),
    (_DATE, _TIMESTAMP, times.date_to_timestamp),
    (_DATE, {TypeRoot.VARCHAR}, times.date_to_text),
    (_TIME, _TIMESTAMP, times.time_to_timestamp),
    (_TIME, {TypeRoot.VARCHAR}, times.time_to_text),
    (_TIMESTAMP, _SECONDS, times.timestamp_to_seconds),
    (_TIMESTAMP, _DATE, times.timestamp_to_date),
    (_TIMESTAMP, _TIME, times.timestamp_to_time),
    (_TIMESTAMP, _TIMESTAMP, times.timestamp_to_timestamp),
    (_TIMESTAMP, {TypeRoot.VARCHAR}, times.timestamp_to_text),
)

KERNELS: Mapping[tuple[TypeRoot, TypeRoot], Kernel] = {
    (source, target): kernel
    for sources, targets, kernel in _RULES
    for source in sources
    for target in targets
}
"""(source, target) → kernel, for the pairs that `spec.types.cast_rules` allows."""
