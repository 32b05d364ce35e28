"""CHAR, VARCHAR, BINARY and VARBINARY: lengths, and text ⇄ bytes.

Java cuts texts that are too long for the target, and fills CHAR with blanks, BINARY with zeros; in
C++ lengths mean nothing. Bytes that become text are never checked or cut.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from paimon_assets.engine.data.casting.cast import Array, Cast, Kernel, lengths_of
from paimon_assets.engine.spec.types.data_types import TypeRoot


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
