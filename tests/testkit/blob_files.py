"""Blob files built for tests, value by value."""

import struct
import zlib

from paimon_assets.engine.data.format.blob import MAGIC

PLACEHOLDER = object()
"""A row whose value is in an older file."""


def _varint(value: int) -> bytes:
    rest, encoded = (value << 1) ^ (value >> 63), bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*encoded, rest])


def file_bytes(values) -> bytes:
    """Return a blob file of values: bytes, None or PLACEHOLDER."""
    entries, lengths = [], []
    for value in values:
        if not isinstance(value, bytes):
            lengths.append(-1 if value is None else -2)
            continue
        body = MAGIC + value + struct.pack("<q", len(value) + 16)
        entries.append(body + struct.pack("<I", zlib.crc32(body)))
        lengths.append(len(value) + 16)
    index = b"".join(
        _varint(length - before) for before, length in zip([0, *lengths], lengths, strict=False)
    )
    return b"".join(entries) + index + struct.pack("<ib", len(index), 1)
