"""Avro object containers: header, blocks, codecs, damage.

Records are written by functions made from their schema, which take half of fastavro's time, and
read by `avro_reader` or, where any schema may come, by fastavro. A block is the Avro encoding of an
array without its frame, so fastavro reads a block in one call; logical types are left as the
numbers they are stored as.
Source: https://avro.apache.org/docs/1.12.0/specification/#object-container-files
"""

import hashlib
import io
import json
import struct
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import pyarrow as pa
from msgspec import Struct

from paimon_assets.engine.codec.avro import avro_reader
from paimon_assets.engine.errors import FormatError

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

MAGIC = b"Obj\x01"
_SYNC_BYTES = 16
_CRC_BYTES = 4
_RECORDS_A_BLOCK = 1000
_MOST_RATIO = 64
"""The highest ratio of decompressed to stored bytes, above the size that any file may have."""

Record = dict[str, Any]
_Out = Callable[[bytes], None]
_Write = Callable[[Any, _Out], None]
"""(value, function that takes its bytes)."""
Source = pa.NativeFile | io.BytesIO


class RecordSchema(Struct, frozen=True):
    text: bytes
    """Its JSON, as in the header of a file."""

    @staticmethod
    def of(text: bytes) -> "RecordSchema":
        avro_reader.check_schema(json.loads(text))
        return RecordSchema(text)


@lru_cache(maxsize=64)
def _parsed_block(text: bytes) -> Any:
    """Return fastavro's schema of an array of records; files of one writer share the text."""
    import fastavro
    from fastavro.schema import SchemaParseException, UnknownType

    items = _without_logical_types(json.loads(text))
    try:
        return fastavro.parse_schema({"type": "array", "items": items})
    except (SchemaParseException, UnknownType) as error:
        raise FormatError(f"{type(error).__name__}: {error}") from error


def _without_logical_types(schema: Any) -> Any:
    if isinstance(schema, dict):
        members = ((key, value) for key, value in schema.items() if key != "logicalType")
        return {key: _without_logical_types(value) for key, value in members}
    if isinstance(schema, list):
        return [_without_logical_types(branch) for branch in schema]
    return schema


def read_container(data: bytes, path: str) -> Iterator[Record]:
    with _naming(path):
        blocks = _Blocks.of(io.BytesIO(data), len(data))
        avro_reader.check_schema(json.loads(blocks.schema))
        schema = _parsed_block(blocks.schema)
        for count, payload in blocks.payloads(_most_bytes(data)):
            yield from _decode_block(schema, None, count, payload)


def read_rows(data: bytes, path: str, wanted: RecordSchema) -> Iterator[Sequence[Any]]:
    """Yield records as values of their fields. Cost: half of `read_container`."""
    with _naming(path):
        blocks = _Blocks.of(io.BytesIO(data), len(data))
        read = _row_reader(blocks.schema, wanted.text)
        for count, payload in blocks.payloads(_most_bytes(data)):
            at = 0
            for _ in range(count):
                row, at = read(payload, at)
                yield row
            if at != len(payload):
                raise FormatError(f"a block of {count} records does not end where it should.")


def _most_bytes(data: bytes) -> int:
    return max(avro_reader.MOST_METADATA_BYTES, _MOST_RATIO * len(data))


@lru_cache(maxsize=64)
def _row_reader(written: bytes, wanted: bytes) -> avro_reader.ReadValue:
    schema = json.loads(written)
    avro_reader.check_schema(schema)
    return avro_reader.compile_reader(schema, json.loads(wanted))


@contextmanager
def _naming(path: str) -> Iterator[None]:
    """Turn the errors of damaged bytes into errors that name the file."""
    try:
        yield
    except FormatError as error:
        raise _damage(path, error.message) from error
    except (
        EOFError, LookupError, AttributeError, RecursionError, ValueError, TypeError, OverflowError,
        MemoryError, OSError, SystemError,
        *avro_reader.CODEC_ERRORS, pa.ArrowException,
    ) as error:  # fmt: skip
        if isinstance(error, OSError) and error.errno is not None:
            raise  # the storage failed; damaged bytes have no error number
        raise _damage(path, f"{type(error).__name__}: {error}") from error


def _damage(path: str, fault: str) -> FormatError:
    return FormatError(f"{path}: damaged Avro file, {fault}", kind="avro", path=path)


class _Blocks(Struct, frozen=True):
    source: Any
    size: int
    schema: bytes
    codec: str
    sync: bytes
    start: int

    @staticmethod
    def of(source: Source, size: int) -> "_Blocks":
        if (magic := source.read(len(MAGIC))) != MAGIC:
            raise FormatError(f"it starts with {magic!r}.")
        metadata = _read_metadata(source)
        sync = _take(source, _SYNC_BYTES)
        codec = metadata.get("avro.codec", b"null").decode()
        avro_reader.decompressor(codec)
        return _Blocks(source, size, metadata["avro.schema"], codec, sync, source.tell())

    def payloads(self, most_bytes: int | None = None) -> Iterator[tuple[int, bytes]]:
        """Yield (number of records, their bytes) of each block."""
        decompress, left = avro_reader.decompressor(self.codec), most_bytes
        self.source.seek(self.start)
        while self.source.tell() < self.size:
            count = _read_long(self.source)
            payload = _take(self.source, _read_long(self.source))
            if _take(self.source, _SYNC_BYTES) != self.sync:
                raise FormatError(f"no sync marker before byte {self.source.tell()}.")
            plain = decompress(payload, avro_reader.MOST_BLOCK_BYTES if left is None else left)
            if not 0 <= count <= len(plain):
                raise FormatError(f"a block of {len(plain)} bytes cannot hold {count} records.")
            if left is not None:
                left -= len(plain)
            yield count, plain

    def counts(self) -> Iterator[int]:
        """Yield the number of records of each block without reading them."""
        self.source.seek(self.start)
        while self.source.tell() < self.size:
            yield _read_long(self.source)
            skipped = _read_long(self.source) + _SYNC_BYTES
            if skipped < _SYNC_BYTES:
                raise FormatError("a block has a negative size.")
            self.source.seek(self.source.tell() + skipped)


class Container:
    """An open Avro file, read block by block: memory is that of one block.

    Texts are returned as bytes: a column that once was BYTES may hold no UTF-8, and is unchanged.
    """

    def __init__(self, source: Source, size: int, path: str) -> None:
        self._path = path
        with _naming(path):
            self._blocks = _Blocks.of(source, size)
            written = json.loads(self._blocks.schema)
            if not avro_reader.check_schema(written):  # a block of bytes would be rows without end
                raise FormatError("its records take no bytes.")
            self._writer = _parsed_block(json.dumps(_texts_as_bytes(written)).encode())
            # Java declares records that it takes for nullable as a union with null.
            self._branches: list[Any] = written if isinstance(written, list) else []
            self.schema: Any = next(filter(_is_record, self._branches), written)
            if not _is_record(self.schema):
                raise FormatError("its values are no records.")
            if len(self._branches) - ("null" in self._branches) > 1:
                raise FormatError(
                    "its values are of several types; write those of each type into files of"
                    " their own."
                )

    def row_count(self) -> int:
        """Return the number of records. Cost: a small read for each block."""
        with _naming(self._path):
            return sum(self._blocks.counts())

    def blocks(self, names: Sequence[str]) -> Iterator[tuple[Sequence[Record], int]]:
        """Yield the records of each block, with some of their fields, and its bytes."""
        wanted = self._project(names)
        with _naming(self._path):
            for count, payload in self._blocks.payloads():
                yield _decode_block(self._writer, wanted, count, payload), len(payload)

    def _project(self, names: Sequence[str]) -> Any:
        fields = [field for field in self.schema["fields"] if field["name"] in names]
        try:
            wanted: Any = {**self.schema, "fields": fields}
            if self._branches:
                wanted = [wanted if _is_record(each) else each for each in self._branches]
            return _parsed_block(json.dumps(_texts_as_bytes(wanted)).encode())
        except FormatError:
            return None  # a type is defined in a field that is left out: decode all


def _texts_as_bytes(schema: Any) -> Any:
    """Return a schema that reads texts as bytes, stored alike; keys of maps stay texts."""
    if isinstance(schema, list):
        return [_texts_as_bytes(branch) for branch in schema]
    if not isinstance(schema, dict):
        return "bytes" if schema == "string" else schema
    inner = {name: schema[name] for name in ("type", "items", "values") if name in schema}
    changed = {**schema, **{name: _texts_as_bytes(each) for name, each in inner.items()}}
    if "fields" in schema:
        changed["fields"] = [
            {**field, "type": _texts_as_bytes(field["type"])} for field in schema["fields"]
        ]
    return changed


def _is_record(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.get("type") == "record"


def _decode_block(schema: Any, wanted: Any, count: int, payload: bytes) -> Sequence[Record]:
    if count == 0:
        return []
    from fastavro import schemaless_reader

    block = io.BytesIO(b"".join((_long(count), payload, b"\0")))
    records: Any = schemaless_reader(block, schema, wanted)
    if len(records) != count or block.read(1):
        raise FormatError(f"a block of {count} records does not end where it should.")
    return records  # type: ignore[no-any-return]


def write_container(schema: RecordSchema, records: Sequence[Record]) -> bytes:
    """Write an Avro file with codec zstandard; without records, only the header.

    The sync marker is a digest of the content, so that equal input gives equal bytes.
    """
    blocks = [
        encode_block(schema, records[start : start + _RECORDS_A_BLOCK], zstd.compress)
        for start in range(0, len(records), _RECORDS_A_BLOCK)
    ]
    digest = hashlib.blake2b(schema.text, digest_size=_SYNC_BYTES)
    for block in blocks:
        digest.update(block)
    sync = digest.digest()
    header = encode_header(schema, "zstandard", sync)
    return b"".join((header, *(part for block in blocks for part in (block, sync))))


def encode_header(
    schema: RecordSchema, codec: str, sync: bytes, members: Mapping[str, bytes] | None = None
) -> bytes:
    """Return the header of a container; `sync` (16 bytes) ends it, and every block after it."""
    parts = [MAGIC]
    header = {"avro.schema": schema.text, "avro.codec": codec.encode(), **(members or {})}
    _write_long(len(header), parts.append)
    for name, value in header.items():
        _write_bytes(name.encode(), parts.append)
        _write_bytes(value, parts.append)
    return b"".join((*parts, b"\0", sync))


def encode_block(
    schema: RecordSchema, records: Sequence[Record], compress: Callable[[bytes], bytes]
) -> bytes:
    """Return a block of records, without the sync marker behind it."""
    parts: list[bytes] = []
    write = _writer_of(schema.text)
    for record in records:
        write(record, parts.append)
    return frame_block(len(records), b"".join(parts), compress)


def frame_block(count: int, plain: bytes, compress: Callable[[bytes], bytes]) -> bytes:
    """Return a block of `count` encoded records, without the sync marker behind it."""
    payload = compress(plain)
    return b"".join((_long(count), _long(len(payload)), payload))


@lru_cache(maxsize=64)
def _writer_of(text: bytes) -> _Write:
    return _writer(json.loads(text))


def _writer(schema: Any) -> _Write:
    write: _Write
    match schema:
        case str():
            return _WRITERS[schema]
        case ["null", inner]:
            write_inner = _writer(inner)

            def write(value: Any, out: _Out) -> None:
                if value is None:
                    out(b"\0")
                else:
                    out(b"\2")  # branch 1
                    write_inner(value, out)
        case {"type": "record", "fields": fields}:
            writers = [(each["name"], _writer(each["type"])) for each in fields]

            def write(value: Any, out: _Out) -> None:
                for name, write_field in writers:
                    write_field(value.get(name), out)
        case {"type": "array", "items": items}:
            write_item = _writer(items)

            def write(value: Any, out: _Out) -> None:
                if value:
                    _write_long(len(value), out)
                    for item in value:
                        write_item(item, out)
                out(b"\0")
        case {"type": "fixed"}:
            return lambda value, out: out(value)
        case {"type": inner}:
            return _writer(inner)
        case _:
            raise FormatError(f"values of {schema} are not written.")
    return write


def _write_long(value: int, out: _Out) -> None:
    out(_SHORT[value] if 0 <= value < len(_SHORT) else _long(value))


def _write_bytes(value: bytes, out: _Out) -> None:
    _write_long(len(value), out)
    out(value)


def _take(source: Source, count: int) -> bytes:
    data = source.read(count) if count >= 0 else b""
    if len(data) != count:
        raise FormatError(f"it ends too early, {count} bytes were expected.")
    return data


def _read_metadata(source: Source) -> dict[str, bytes]:
    metadata = {}
    while count := _read_long(source):
        if count < 0:
            _read_long(source)  # the bytes of the members
        for _ in range(abs(count)):
            name = _take(source, _read_long(source)).decode()
            metadata[name] = _take(source, _read_long(source))
    return metadata


def _read_long(source: Source) -> int:
    value, shift = 0, 0
    while True:
        avro_reader.check_bits(shift)
        byte = _take(source, 1)[0]
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:  # the high bit means that more bytes follow
            return (value >> 1) ^ -(value & 1)


def _long(value: int) -> bytes:
    rest, encoded = value << 1 ^ value >> 63, bytearray()  # zig-zag: the sign is the lowest bit
    avro_reader.check_bits(rest.bit_length() - 1)
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


_SHORT = [bytes([value << 1]) for value in range(64)]
"""The numbers of one byte that are not negative."""
_WRITERS: Mapping[str, _Write] = {
    "boolean": lambda value, out: out(b"\1" if value else b"\0"),
    "int": _write_long,
    "long": _write_long,
    "float": lambda value, out: out(struct.pack("<f", value)),
    "double": lambda value, out: out(struct.pack("<d", value)),
    "bytes": _write_bytes,
    "string": lambda value, out: _write_bytes(value.encode(), out),
}


def compress_zstd(level: int) -> Callable[[bytes], bytes]:
    return lambda payload: zstd.compress(payload, level)


def compress_snappy(payload: bytes) -> bytes:
    packed: bytes = pa.Codec("snappy").compress(payload, asbytes=True)
    return packed + zlib.crc32(payload).to_bytes(_CRC_BYTES, "big")


def deflate(payload: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(payload) + packer.flush()
