"""Limits of an Avro file: a few bytes must not cost gigabytes, or hours.

Everything an engine writes stays far below: schemas of some hundred types, items of a byte at
least, blocks of some megabytes.
"""

import bz2
import lzma
import sys
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from paimon_assets.engine.errors import FormatError

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

MOST_BLOCK_BYTES = 2**31 - 1
"""The most block bytes of a block of rows, decompressed: a value can have as many."""
MOST_METADATA_BYTES = 256 * 1024 * 1024
"""The most metadata bytes of all blocks of a file that is read whole, decompressed."""
_MOST_DEPTH = 64
_MOST_TYPES = 20_000
"""In a schema whose names are written out."""
_MOST_LONG_BITS = 63
_CRC_BYTES = 4


def check_schema(schema: Any) -> None:
    """Refuse a schema that is too deep or too large, or whose arrays have items of no bytes."""
    _Size({}).of(schema, 0)


class _Size:
    """Counts the types of a schema, each name as often as it stands for its type."""

    def __init__(self, known: dict[str, tuple[int, int]]) -> None:
        self._known = known

    def of(self, schema: Any, depth: int) -> tuple[int, int]:
        """Return (types, least bytes of a value)."""
        types, least = self._of(schema, depth)
        if types > _MOST_TYPES:
            raise FormatError(f"its schema has more than {_MOST_TYPES} types.")
        return types, least

    def _of(self, schema: Any, depth: int) -> tuple[int, int]:
        if depth > _MOST_DEPTH:
            raise FormatError("its types are nested too deeply.")
        if isinstance(schema, str):
            return self._known.get(schema.rpartition(".")[2], (1, 0 if schema == "null" else 1))
        if isinstance(schema, list):
            branches = [self.of(branch, depth + 1) for branch in schema]
            return 1 + sum(types for types, _ in branches), 1
        if not isinstance(schema, dict):
            raise FormatError(f"{str(schema)[:40]!r} is no type.")
        kind = schema["type"]
        if kind == "record":
            fields = [self.of(field["type"], depth + 1) for field in schema["fields"]]
            size = 1 + sum(types for types, _ in fields), sum(least for _, least in fields)
            self._known[str(schema["name"]).rpartition(".")[2]] = size
            return size
        if kind in ("array", "map"):
            types, least = self.of(schema["items" if kind == "array" else "values"], depth + 1)
            if not least and kind == "array":
                raise FormatError("items of an array take no bytes.")
            return 1 + types, 1
        if kind == "fixed":
            return 1, int(schema["size"])
        return self.of(kind, depth + 1)


def decompressor(codec: str) -> Callable[[bytes, int], bytes]:
    """Return the decompressor of (a block, most bytes of it); beyond it raises FormatError."""
    if codec not in _DECOMPRESS:
        raise FormatError(f"codec '{codec}' is unknown.")
    return _DECOMPRESS[codec]


def check_bits(shift: int) -> None:
    """Refuse a number of more bits than a long has."""
    if shift > _MOST_LONG_BITS:
        raise FormatError("a number has more than 64 bits.")


def _too_large(most: int) -> FormatError:
    return FormatError(f"its blocks hold more than {most} bytes.")


def _plain(payload: bytes, most: int) -> bytes:
    if len(payload) > most:
        raise _too_large(most)
    return payload


def _stream(new: Callable[[], Any]) -> Callable[[bytes, int], bytes]:
    def decompress(payload: bytes, most: int) -> bytes:
        parts, rest, left = [], payload, most
        while True:  # a payload may be several streams, one behind the other
            stream = new()
            part = stream.decompress(rest, left + 1)
            left -= len(part)
            if left < 0:
                raise _too_large(most)
            if not stream.eof:
                raise FormatError("a compressed block ends too early.")
            parts.append(part)
            if not (rest := stream.unused_data):
                return parts[0] if len(parts) == 1 else b"".join(parts)

    return decompress


def _inflate(payload: bytes, most: int) -> bytes:
    stream = zlib.decompressobj(wbits=-15)
    plain = stream.decompress(payload, most + 1)
    if len(plain) > most:
        raise _too_large(most)
    if not stream.eof:
        raise FormatError("a compressed block ends too early.")
    return plain


def _unsnap(payload: bytes, most: int) -> bytes:
    # Raw snappy starts with its plain size, little-endian base 128; Avro appends a CRC32.
    size, shift, at = 0, 0, 0
    while True:
        check_bits(shift)
        byte = payload[at]
        size |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:  # the high bit says that more bytes follow
            break
    if size > most:
        raise _too_large(most)
    plain: bytes = pa.Codec("snappy").decompress(payload[:-_CRC_BYTES], size, asbytes=True)
    if zlib.crc32(plain) != int.from_bytes(payload[-_CRC_BYTES:], "big"):
        raise FormatError("a snappy block fails its checksum.")
    return plain


_DECOMPRESS: Mapping[str, Callable[[bytes, int], bytes]] = {
    "null": _plain,
    "deflate": _inflate,
    "snappy": _unsnap,
    "zstandard": _stream(zstd.ZstdDecompressor),
    "bzip2": _stream(bz2.BZ2Decompressor),
    "xz": _stream(lzma.LZMADecompressor),
}
