"""Avro data files, block by block.

    read     block ─▶ fastavro: a dictionary a row ─▶ columns as stored ─▶ as meant (`avro_types`)
    write    columns as meant ─▶ as stored ─▶ bytes of their rows (`avro_encoding`) ─▶ block

fastavro makes a Python dictionary of every row, so reading Avro costs some ten times what Parquet
does.
Source: `org.apache.paimon.format.avro.AvroBulkFormat`, `AvroRowDatumWriter`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from paimon_assets.engine.codec.avro.avro import (
    Container,
    RecordSchema,
    compress_snappy,
    compress_zstd,
    deflate,
    encode_header,
    frame_block,
)
from paimon_assets.engine.data.format.avro_encoding import encoded_rows
from paimon_assets.engine.data.format.avro_types import avro_record, shape_of
from paimon_assets.engine.data.format.base import (
    FileFormat,
    FileToRead,
    FileToWrite,
    FormatReader,
    FormatWriter,
)
from paimon_assets.engine.data.format.named_errors import named_errors
from paimon_assets.engine.errors import FormatError
from paimon_assets.engine.spec.options.all_options import FILE_COMPRESSION_ZSTD_LEVEL, Options
from paimon_assets.engine.spec.predicate.predicate import Predicate
from paimon_assets.engine.spec.types.data_types import (
    CHARACTER_ROOTS,
    AtomicType,
    DataType,
    MultisetType,
    TypeRoot,
)

_BLOCK_ROWS = 4096
_SYNC_BYTES = 16
_PRECISION = {TypeRoot.TIMESTAMP: 6, TypeRoot.TIMESTAMP_LTZ: 6, TypeRoot.TIME: 3}
"""Fraction digits of a second that Avro files hold."""


class AvroReader(FormatReader):
    """One open Avro file."""

    title = "Avro"

    def _columns(self, file: FileToRead) -> pa.Schema:
        try:
            self._container = Container(self._source, self._source.size(), file.path)
            self._shape = shape_of(self._container.schema)
        except FormatError as error:
            raise FormatError(
                f"Data file '{file.path}' is not readable as Avro: {error.message}",
                kind=error.kind,
                details={"path": file.path},
            ) from error
        return pa.schema(list(self._shape.meant))

    def _batches(
        self, names: list[str], predicate: Predicate | None, batch_rows: int, batch_bytes: int
    ) -> Iterator[pa.RecordBatch]:
        """Decode some columns; see `FormatReader`. Nothing is pruned: Avro has no statistics."""
        known = [field.name for field in self._shape.meant]
        # A batch without columns would not keep its number of rows: decode one, and drop it.
        decoded = [name for name in known if name in names] or known[:1]
        positions = [known.index(name) for name in decoded]
        stored = pa.struct([self._shape.stored.field(position) for position in positions])
        waiting: list[Any] = []
        waiting_bytes = 0
        for records, block_bytes in self._container.blocks(decoded):
            waiting.extend(records)
            waiting_bytes += block_bytes
            while waiting and (len(waiting) >= batch_rows or waiting_bytes >= batch_bytes):
                step = max(1, len(waiting) * batch_bytes // max(1, waiting_bytes))
                taken = waiting[: min(batch_rows, step)]
                yield self._batch(taken, stored, positions).select(names)
                waiting_bytes -= waiting_bytes * len(taken) // len(waiting)
                waiting = waiting[len(taken) :]
        if waiting:
            yield self._batch(waiting, stored, positions).select(names)

    def _batch(
        self, records: Sequence[Any], stored: Any, positions: Sequence[int]
    ) -> pa.RecordBatch:
        rows: Any = pa.array(records, stored)
        columns = [
            self._shape.inner[position].read(rows.field(number))
            for number, position in enumerate(positions)
        ]
        return pa.RecordBatch.from_arrays(columns, names=[field.name for field in stored])

    def row_ranges(self, predicate: Predicate | None) -> Sequence[tuple[int, int]]:
        """Return all rows; see `FormatReader`. Cost: a small read for each block."""
        with named_errors(self._path, self.title):
            return [(0, self._container.row_count())]


class AvroWriter(FormatWriter):
    """One Avro file being written."""

    def __init__(self, file: FileToWrite) -> None:
        """Create the file; `open_writer` of `data.format.formats` is the usual way here.

        Raises:
            UnsupportedFeatureError: Avro has no type for a column; names it.
        """
        self._record = avro_record(file.schema)
        self._shape = shape_of(self._record)
        stored = RecordSchema.of(json.dumps(self._record).encode())
        codec, compress = _CODECS[file.codec]
        self._compress = compress(file.options.get(FILE_COMPRESSION_ZSTD_LEVEL))
        # Names of data files are unique, and so are digests of them.
        self._sync = hashlib.blake2b(file.path.encode(), digest_size=_SYNC_BYTES).digest()
        self._sink = file.file_io.open_output(file.path)
        self._sink.write(encode_header(stored, codec, self._sync))

    def write(self, rows: pa.Table | pa.RecordBatch) -> None:
        """Append rows, in blocks of at most `_BLOCK_ROWS`."""
        table = rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows])
        for start in range(0, table.num_rows, _BLOCK_ROWS):
            part = table.slice(start, _BLOCK_ROWS)
            columns = [
                shape.write(_whole(column).cast(shape.meant))
                for shape, column in zip(self._shape.inner, part.columns, strict=True)
            ]
            plain = encoded_rows(columns, self._record)
            self._sink.write(frame_block(part.num_rows, plain, self._compress))
            self._sink.write(self._sync)


def _whole(column: Any) -> Any:
    """Join the chunks of a column, so that what lies inside it begins where it begins."""
    return pa.concat_arrays([*column.chunks, pa.array([], column.type)])


def _plain(_: int) -> Callable[[bytes], bytes]:
    return bytes


_CODECS: Mapping[str, tuple[str, Callable[[int], Callable[[bytes], bytes]]]] = {
    "none": ("null", _plain),
    "null": ("null", _plain),
    "zstd": ("zstandard", compress_zstd),
    "snappy": ("snappy", lambda _: compress_snappy),
    "deflate": ("deflate", lambda _: deflate),
    "gzip": ("deflate", lambda _: deflate),
}
"""`file.compression` → Avro's name of the codec, and (zstd level) → compressor."""


def _unsafe(data_type: DataType, _options: Options) -> str | None:
    if isinstance(data_type, MultisetType) and data_type.element.root not in CHARACTER_ROOTS:
        return "Java reads no file of format avro with it; MULTISET<STRING> is read"
    digits = data_type.precision or 0 if isinstance(data_type, AtomicType) else 0
    if digits <= _PRECISION.get(data_type.root, digits):
        return None
    return "it is finer than files of format avro can store"


FORMAT = FileFormat(
    name="avro",
    reader=AvroReader,
    writer=AvroWriter,
    codecs=frozenset(_CODECS),
    unsafe=_unsafe,
)
