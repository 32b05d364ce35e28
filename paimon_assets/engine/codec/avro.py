"""Avro object containers around fastavro: header, blocks, codecs, damage.

A block is the Avro encoding of an array without its frame, so fastavro codes a block in one call;
logical types are left as the numbers they are stored as.
Source: https://avro.apache.org/docs/1.12.0/specification/#object-container-files
"""

import bz2
import hashlib
import io
import json
import lzma
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import fastavro
import pyarrow as pa
from fastavro.schema import SchemaParseException

from paimon_assets.engine.errors import FormatError

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

MAGIC = b"Obj\x01"
_SYNC_BYTES = 16
_CRC_BYTES = 4
_RECORDS_A_BLOCK = 1000

Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class RecordSchema:
    """A record schema, parsed once."""

    text: bytes
    """Its JSON, as it stands in the header of a file."""
    block: Any
    """fastavro's parsed schema of an array of the records."""

    @staticmethod
    @lru_cache(maxsize=64)
    def of(text: bytes) -> "RecordSchema":
        """Parse a schema; files of one writer share the text, so parsing happens once."""
        items = _without_logical_types(json.loads(text))
        return RecordSchema(text, fastavro.parse_schema({"type": "array", "items": items}))


def _without_logical_types(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {
            key: _without_logical_types(value)
            for key, value in schema.items()
            if key != "logicalType"
        }
    if isinstance(schema, list):
        return [_without_logical_types(branch) for branch in schema]
    return schema


def read_container(data: bytes, path: str) -> Iterator[Record]:
    """Yield the records of an Avro file, block by block.

    Args:
        data: The file's content.
        path: Its path, for messages.

    Raises:
        FormatError: No Avro file, an unknown codec, or cut or damaged bytes; names the path.
    """
    try:
        yield from _records(data)
    except FormatError as error:
        raise _damaged(path, error.message) from error
    except (
        EOFError, IndexError, KeyError, ValueError, TypeError, OverflowError, MemoryError, OSError,
        zlib.error, zstd.ZstdError, lzma.LZMAError, pa.ArrowException, SchemaParseException,
    ) as error:  # fmt: skip
        raise _damaged(path, f"{type(error).__name__}: {error}") from error


def _damaged(path: str, what: str) -> FormatError:
    return FormatError(f"{path}: damaged Avro file, {what}", kind="avro", details={"path": path})


def _records(data: bytes) -> Iterator[Record]:
    if not data.startswith(MAGIC):
        raise FormatError(f"it starts with {data[:4]!r}.")
    source = io.BytesIO(data)
    source.seek(len(MAGIC))
    metadata: dict[str, bytes] = fastavro.schemaless_reader(source, _METADATA, None)  # type: ignore[assignment]
    sync = _take(source, _SYNC_BYTES)
    codec = metadata.get("avro.codec", b"null").decode()
    decompress = _DECOMPRESS.get(codec)
    if decompress is None:
        raise FormatError(f"codec '{codec}' is unknown.")
    schema = RecordSchema.of(metadata["avro.schema"])
    while source.tell() < len(data):
        count = _read_long(source)
        payload = decompress(_take(source, _read_long(source)))
        if _take(source, _SYNC_BYTES) != sync:
            raise FormatError(f"no sync marker before byte {source.tell()}.")
        yield from _decode_block(schema, count, payload)


def _decode_block(schema: RecordSchema, count: int, payload: bytes) -> Sequence[Record]:
    if count == 0:
        return []
    block = io.BytesIO(b"".join((_long(count), payload, b"\0")))
    records: Any = fastavro.schemaless_reader(block, schema.block, None)
    if len(records) != count or block.read(1):
        raise FormatError(f"a block of {count} records does not end where it should.")
    return records  # type: ignore[no-any-return]


def write_container(schema: RecordSchema, records: Sequence[Record]) -> bytes:
    """Write an Avro file with codec zstandard; without records, only the header.

    The sync marker is a digest of the content, so that equal input gives equal bytes.
    """
    blocks = []
    for start in range(0, len(records), _RECORDS_A_BLOCK):
        part = records[start : start + _RECORDS_A_BLOCK]
        encoded = io.BytesIO()
        fastavro.schemaless_writer(encoded, schema.block, part, disable_tuple_notation=True)
        payload = zstd.compress(encoded.getvalue()[len(_long(len(part))) : -1])
        blocks.append((_long(len(part)) + _long(len(payload)), payload))
    digest = hashlib.blake2b(schema.text, digest_size=_SYNC_BYTES)
    for _, payload in blocks:
        digest.update(payload)
    sync = digest.digest()
    metadata = io.BytesIO()
    header = {"avro.schema": schema.text, "avro.codec": b"zstandard"}
    fastavro.schemaless_writer(metadata, _METADATA, header)
    return b"".join((MAGIC, metadata.getvalue(), sync, *(p for b in blocks for p in (*b, sync))))


_METADATA = fastavro.parse_schema({"type": "map", "values": "bytes"})


def _take(source: io.BytesIO, count: int) -> bytes:
    data = source.read(count) if count >= 0 else b""
    if len(data) != count:
        raise FormatError(f"it ends too early, {count} bytes were expected.")
    return data


def _read_long(source: io.BytesIO) -> int:
    value, shift = 0, 0
    while True:
        byte = _take(source, 1)[0]
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:  # the high bit says that more bytes follow
            return (value >> 1) ^ -(value & 1)


def _long(value: int) -> bytes:
    """Encode a count, zig-zag and variable length."""
    rest, encoded = value << 1, bytearray()
    while rest > 0x7F:  # seven bits a byte
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


def _inflate(payload: bytes) -> bytes:
    return zlib.decompress(payload, wbits=-15)


def _unsnap(payload: bytes) -> bytes:
    # Raw snappy starts with its plain size, little-endian base 128; Avro appends a CRC32.
    size, shift, at = 0, 0, 0
    while True:
        byte = payload[at]
        size |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:  # the high bit says that more bytes follow
            break
    plain: bytes = pa.Codec("snappy").decompress(payload[:-_CRC_BYTES], size, asbytes=True)
    if zlib.crc32(plain) != int.from_bytes(payload[-_CRC_BYTES:], "big"):
        raise FormatError("a snappy block fails its checksum.")
    return plain


_DECOMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "null": bytes,
    "deflate": _inflate,
    "snappy": _unsnap,
    "zstandard": zstd.decompress,
    "bzip2": bz2.decompress,
    "xz": lzma.decompress,
}
