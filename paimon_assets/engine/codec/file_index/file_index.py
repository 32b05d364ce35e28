"""The file index of one data file: a head that says where each index lies, then the indexes.

    int64 magic · int32 version · int32 head length · int32 columns
      column: utf name · int32 indexes; index: utf type · int32 start · int32 length
    int32 redundant length, 0 · the indexes' bytes

All big-endian; `start` counts from the first byte of the file, -1 means an index without data.
An index is built in memory, and read whole.
Source: `org.apache.paimon.fileindex.FileIndexFormat`.
"""

from collections.abc import Mapping
from typing import TypeAlias

from paimon_assets.engine.codec.rows.java_stream import DataInput, DataOutput
from paimon_assets.engine.errors import FormatError
from paimon_assets.engine.spec.options.file_options import FILE_INDEX_READ_ENABLED

MAGIC = 1_493_475_289_347_502
VERSION = 1
_NO_DATA = -1

Indexes: TypeAlias = Mapping[str, Mapping[str, bytes]]
"""Column of the file → index type → its bytes."""


def encode_file_index(indexes: Indexes) -> bytes:
    """Return the file index that holds these indexes."""
    head_bytes = len(_head(indexes, 0))
    bodies = [body for by_type in indexes.values() for body in by_type.values()]
    return _head(indexes, head_bytes) + b"".join(bodies)


def _head(indexes: Indexes, head_bytes: int) -> bytes:
    out = DataOutput()
    out.write_long(MAGIC)
    out.write_int(VERSION)
    out.write_int(head_bytes)
    out.write_int(len(indexes))
    start = head_bytes
    for column, by_type in indexes.items():
        out.write_utf(column)
        out.write_int(len(by_type))
        for index_type, body in by_type.items():
            out.write_utf(index_type)
            out.write_int(start)
            out.write_int(len(body))
            start += len(body)
    out.write_int(0)
    return out.to_bytes()


def decode_file_index(data: bytes, path: str) -> dict[str, dict[str, bytes]]:
    """Return the indexes of a file index by column and type; those without data are left out."""
    try:
        return _decode(data)
    except FormatError as error:
        raise damaged_index(path, error.message) from error


def _decode(data: bytes) -> dict[str, dict[str, bytes]]:
    head = DataInput(data)
    magic, version = head.read_long(), head.read_int()
    if magic != MAGIC or version != VERSION:
        raise FormatError(f"it begins with magic {magic} and version {version}")
    head.read_int()
    indexes: dict[str, dict[str, bytes]] = {}
    for _ in range(head.read_int()):
        by_type = indexes.setdefault(head.read_utf(), {})
        for _ in range(head.read_int()):
            index_type, start, length = head.read_utf(), head.read_int(), head.read_int()
            if start == _NO_DATA:
                continue
            if start < 0 or length < 0 or start + length > len(data):
                raise FormatError(f"its {index_type} index ends beyond its {len(data)} bytes")
            by_type[index_type] = data[start : start + length]
    return indexes


def damaged_index(path: str, what: str) -> FormatError:
    """Build the error for a file index that breaks the format."""
    return FormatError(
        f"File index '{path}' is damaged: {what}. Set '{FILE_INDEX_READ_ENABLED.key}' to false to"
        " read the table without it.",
        kind="file-index",
        details={"path": path},
    )
