"""Java's DataOutput and DataInput: big-endian primitives and modified UTF-8.

Source: `java.io.DataOutputStream`, `java.io.DataInput` ("Modified UTF-8").
"""

import struct

from paimon_assets.engine.errors import FormatError, InvalidInputError

_INT = struct.Struct(">i")
_LONG = struct.Struct(">q")
_SHORT = struct.Struct(">H")
_MAX_UTF_BYTES = 65_535


def encode_modified_utf8(text: str) -> bytes:
    r"""Encode like Java: U+0000 as two bytes, characters above U+FFFF as two surrogates.

    >>> encode_modified_utf8("a\0😀").hex(" ")
    '61 c0 80 ed a0 bd ed b8 80'
    """
    utf16 = text.encode("utf-16-be", "surrogatepass")
    units = struct.unpack(f">{len(utf16) // 2}H", utf16)
    return b"".join(
        b"\xc0\x80" if unit == 0 else chr(unit).encode("utf-8", "surrogatepass") for unit in units
    )


def decode_modified_utf8(data: bytes) -> str:
    """Inverse of `encode_modified_utf8`."""
    try:
        halves = data.replace(b"\xc0\x80", b"\0").decode("utf-8", "surrogatepass")
        return halves.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "surrogatepass")
    except UnicodeDecodeError as error:
        raise FormatError(f"Not Java's modified UTF-8: {error}.", kind="java-stream") from error


class DataOutput:
    """Grows a byte string the way Java's DataOutputStream does."""

    __slots__ = ("_parts",)

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def write_boolean(self, value: bool) -> None:  # noqa: FBT001 - the value itself
        """Write 1 or 0 in one byte."""
        self._parts.append(b"\x01" if value else b"\x00")

    def write_int(self, value: int) -> None:
        self._parts.append(_INT.pack(value))

    def write_long(self, value: int) -> None:
        self._parts.append(_LONG.pack(value))

    def write_utf(self, text: str) -> None:
        """Write a two-byte length and modified UTF-8."""
        data = encode_modified_utf8(text)
        if len(data) > _MAX_UTF_BYTES:
            message = f"A text of {len(data)} bytes is too long for a Java stream: {text[:80]}…"
            raise InvalidInputError(message, kind="java-stream")
        self._parts += (_SHORT.pack(len(data)), data)

    def write_bytes(self, data: bytes) -> None:
        """Write a four-byte length and the bytes."""
        self._parts += (_INT.pack(len(data)), data)

    def to_bytes(self) -> bytes:
        return b"".join(self._parts)


class DataInput:
    """Reads the bytes of a `DataOutput`; every method raises `FormatError` at their end."""

    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def peek(self) -> bytes:
        """Return the next byte, which stays; none at the end."""
        return self._data[self._at : self._at + 1]

    def read_boolean(self) -> bool:
        return self._take(1) != b"\x00"

    def read_int(self) -> int:
        return _INT.unpack(self._take(4))[0]  # type: ignore[no-any-return]

    def read_long(self) -> int:
        return _LONG.unpack(self._take(8))[0]  # type: ignore[no-any-return]

    def read_utf(self) -> str:
        return decode_modified_utf8(self._take(_SHORT.unpack(self._take(2))[0]))

    def read_bytes(self) -> bytes:
        return self._take(self.read_int())

    def at_end(self) -> bool:
        return self._at == len(self._data)

    def _take(self, count: int) -> bytes:
        end = self._at + count
        if count < 0 or end > len(self._data):
            message = f"Unexpected end of bytes: {count} wanted at {self._at} of {len(self._data)}."
            raise FormatError(message, kind="java-stream")
        data = self._data[self._at : end]
        self._at = end
        return data
