"""CHAR, VARCHAR, BINARY and VARBINARY: lengths, and text ⇄ bytes.

Java cuts what is too long for the target, and fills CHAR with blanks, BINARY with zeros; in C++
lengths mean nothing. Bytes that become text are never checked or cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from paimon_assets.engine.data.casting.arrays import lengths_of
from paimon_assets.engine.data.casting.cast import Array, Cast, Kernel
from paimon_assets.engine.spec.types.data_types import (
    ArrayType,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
)


def text_to_text(array: Array, cast: Cast) -> Array:
    """Cut to the length in characters (code points), fill CHAR."""
    if not cast.is_java:
        return array
    length = cast.target.length or 0
    lengths = lengths_of(array)
    if lengths.max(initial=0) > length:
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
    """Return a kernel that writes texts of the target's length."""

    def kernel(array: Array, cast: Cast) -> Array:
        return text_to_text(to_text(array, cast), cast)

    return kernel


def has_char(data_type: DataType) -> bool:
    """Whether a type is CHAR, or holds it."""
    return data_type.root is TypeRoot.CHAR or any(map(has_char, _inner_types(data_type)))


def without_blanks(column: Any, data_type: DataType) -> Any:
    """Cut the blanks at the end of CHAR values, at any depth."""
    if data_type.root is TypeRoot.CHAR:
        return pc.utf8_rtrim(column, characters=" ")
    if not has_char(data_type):
        return column
    inner, nulls = _inner_types(data_type), column.is_null()
    if pat.is_struct(column.type):
        parts = [without_blanks(part, inner[n]) for n, part in enumerate(column.flatten())]
        return pa.StructArray.from_arrays(parts, fields=list(column.type), mask=nulls)
    whole = pa.concat_arrays([column])  # offsets from zero
    if pat.is_map(column.type):
        keys, items = without_blanks(whole.keys, inner[0]), whole.items
        items = without_blanks(items, inner[1]) if len(inner) > 1 else items
        entries: Any = (whole.offsets, keys, items)
        return pa.MapArray.from_arrays(*entries, type=column.type, mask=nulls)
    values = without_blanks(whole.values, inner[0])
    return pa.ListArray.from_arrays(whole.offsets, values, type=column.type, mask=nulls)


def _inner_types(data_type: DataType) -> Sequence[DataType]:
    match data_type:
        case ArrayType(element=element) | MultisetType(element=element):
            return [element]
        case MapType(key=key, value=value):
            return [key, value]
        case RowType(fields=fields):
            return [field.type for field in fields]
        case _:
            return ()
