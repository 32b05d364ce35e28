"""Avro data files, block by block.

    read     block ─▶ fastavro: a dictionary a row ─▶ stored columns ─▶ logical (`avro_types`)
    write    logical columns ─▶ stored ─▶ cells ─▶ rows ─▶ block

fastavro builds a Python dictionary for every row, so reading Avro costs some ten times what Parquet
does. Writing has no step a row: a cell is the encoded bytes of one value, and the position of each
cell of a row follows from the lengths of all before it, so a column of cells is copied at once.
Source: `org.apache.paimon.format.avro.AvroBulkFormat`, `AvroRowDatumWriter`,
https://avro.apache.org/docs/1.12.0/specification/#binary-encoding
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pat

from paimon_assets.engine.codec.arrow.numpy_columns import to_numpy
from paimon_assets.engine.codec.avro.avro import (
    Container,
    RecordSchema,
    compress_snappy,
    compress_zstd,
    deflate,
    encode_header,
    frame_block,
)
from paimon_assets.engine.data.format.avro_types import Json, avro_record, shape_of, texts_as_bytes
from paimon_assets.engine.data.format.base import (
    FileFormat,
    FileToRead,
    FileToWrite,
    FormatReader,
    FormatWriter,
)
from paimon_assets.engine.data.format.named_errors import named_errors
from paimon_assets.engine.errors import FormatError, InvalidInputError
from paimon_assets.engine.spec.options.all_options import FILE_COMPRESSION_ZSTD_LEVEL, Options
from paimon_assets.engine.spec.predicate.predicate import Predicate
from paimon_assets.engine.spec.types.data_types import (
    CHARACTER_ROOTS,
    AtomicType,
    DataType,
    MultisetType,
    TypeRoot,
)

Bytes = npt.NDArray[np.uint8]
Longs = npt.NDArray[np.int64]

_BITS = 7
"""The bits of a number in each byte; the eighth is set if more bytes follow."""
_MAX_BYTES = 10
_MORE = 0x80


@dataclass(frozen=True, slots=True)
class Cells:
    """The encoded values of a column, one after the other."""

    lengths: Longs
    """Row → bytes."""
    data: Bytes


def encode_rows(columns: Sequence[Any], record: Json) -> bytes:
    """Return the rows of an Avro block.

    Cost:
        Some 20 bytes of memory for each one encoded.
    """
    cells = []
    for column, field in zip(columns, record["fields"], strict=True):
        try:
            cells.append(_encode(column, field["type"]))
        except InvalidInputError as error:
            message = f"Column '{field['name']}': {error.message}"
            raise InvalidInputError(message, kind=error.kind) from error
    return _join(cells).data.tobytes()


def _encode(array: Any, avro: Json) -> Cells:
    if isinstance(avro, list):  # of null and a type: the number of the branch, then the value
        present = to_numpy(array.is_valid())
        values = _encode(array.drop_null(), avro[1])
        lengths = np.zeros(len(array), dtype=np.int64)
        lengths[present] = values.lengths
        return _join([_single(2 * present.astype(np.uint8)), Cells(lengths, values.data)])
    if array.null_count:
        raise InvalidInputError("a null where an Avro file cannot hold one.", kind="null")
    arrow_type = array.type
    if pat.is_integer(arrow_type):
        return _numbers(to_numpy(array).astype(np.int64))
    if pat.is_boolean(arrow_type):
        return _single(to_numpy(array).astype(np.uint8))
    if pat.is_floating(arrow_type):
        reals = to_numpy(array)
        return Cells(np.full(len(reals), reals.itemsize, dtype=np.int64), reals.view(np.uint8))
    if pat.is_string(arrow_type) or pat.is_binary(arrow_type):
        return _texts(array)
    return _nested(array, avro)


def _nested(array: Any, avro: Json) -> Cells:
    if pat.is_struct(array.type):
        fields = zip(array.flatten(), avro["fields"], strict=True)
        return _join([_encode(child, field["type"]) for child, field in fields])
    if pat.is_map(array.type):
        items = _join([_encode(array.keys, "string"), _encode(array.items, avro["values"])])
    else:
        items = _encode(array.values, avro["items"])
    # A count and so many items, unless it is 0; then a count of 0.
    ends = _ends(array)
    counts = np.diff(ends)
    filled = counts > 0
    count_cells = _numbers(counts[filled])
    heads = np.zeros(len(array), dtype=np.int64)
    heads[filled] = count_cells.lengths
    before = np.concatenate([[0], np.cumsum(items.lengths)])
    bodies = np.diff(before[ends])
    end = _single(np.zeros(len(array), dtype=np.uint8))
    return _join([Cells(heads, count_cells.data), Cells(bodies, items.data), end])


def _texts(array: Any) -> Cells:
    ends = _ends(array)
    data = np.frombuffer(array.buffers()[2] or b"", dtype=np.uint8)[ends[0] : ends[-1]]
    lengths = np.diff(ends)
    return _join([_numbers(lengths), Cells(lengths, data)])


def _ends(array: Any) -> Longs:
    """Return the start of each value of an array, and the end of the last."""
    if not len(array):
        return np.zeros(1, dtype=np.int64)
    start, count = array.offset * np.dtype(np.int32).itemsize, len(array) + 1
    ends = np.frombuffer(array.buffers()[1], dtype=np.int32, count=count, offset=start)
    return ends.astype(np.int64)


def _single(values: Bytes) -> Cells:
    return Cells(np.ones(len(values), dtype=np.int64), values)


def _numbers(values: Longs) -> Cells:
    """Encode numbers, zig-zag and variable length."""
    bits = ((values << 1) ^ (values >> 63)).view(np.uint64)[:, None]  # the sign is the last bit
    positions = np.arange(_MAX_BYTES, dtype=np.uint64)
    rest = bits >> (positions * np.uint64(_BITS))
    lengths = np.maximum(1, np.count_nonzero(rest, axis=1)).astype(np.int64)
    has_next = positions[None, :].astype(np.int64) < lengths[:, None] - 1
    groups = (rest & np.uint64(_MORE - 1)).astype(np.uint8) | (has_next * np.uint8(_MORE))
    inside = positions[None, :].astype(np.int64) < lengths[:, None]
    return Cells(lengths, groups[inside])


def _join(parts: Sequence[Cells]) -> Cells:
    """Put the cells of some columns beside each other, row by row."""
    if len(parts) == 1:
        return parts[0]
    lengths = np.stack([part.lengths for part in parts], axis=1)
    ends = np.cumsum(lengths).reshape(lengths.shape)
    starts = ends - lengths
    data = np.empty(int(lengths.sum()), dtype=np.uint8)
    for number, part in enumerate(parts):
        own = np.cumsum(part.lengths) - part.lengths
        moved = np.repeat(starts[:, number] - own, part.lengths)
        data[moved + np.arange(len(part.data))] = part.data
    return Cells(lengths.sum(axis=1), data)


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
        return pa.schema(list(self._shape.logical))

    def _batches(
        self, names: list[str], predicate: Predicate | None, batch_rows: int, batch_bytes: int
    ) -> Iterator[pa.RecordBatch]:
        """Decode some columns; see `FormatReader`. Nothing is pruned: Avro has no statistics."""
        file_names = [field.name for field in self._shape.logical]
        # A batch without columns would not keep its number of rows: decode one, and drop it.
        decoded = [name for name in file_names if name in names] or file_names[:1]
        positions = [file_names.index(name) for name in decoded]
        stored = texts_as_bytes(
            pa.struct([self._shape.stored.field(position) for position in positions])
        )
        rows: list[Any] = []
        total_bytes = 0
        for records, block_bytes in self._container.blocks(decoded):
            rows.extend(records)
            total_bytes += block_bytes
            while rows and (len(rows) >= batch_rows or total_bytes >= batch_bytes):
                step = max(1, len(rows) * batch_bytes // max(1, total_bytes))
                head = rows[: min(batch_rows, step)]
                yield self._batch(head, stored, positions).select(names)
                total_bytes -= total_bytes * len(head) // len(rows)
                rows = rows[len(head) :]
        if rows:
            yield self._batch(rows, stored, positions).select(names)

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
        """Create the file; `open_writer` of `data.format.formats` is the usual way here."""
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
                shape.write(_whole(column).cast(shape.logical))
                for shape, column in zip(self._shape.inner, part.columns, strict=True)
            ]
            plain = encode_rows(columns, self._record)
            self._sink.write(frame_block(part.num_rows, plain, self._compress))
            self._sink.write(self._sync)


def _whole(column: Any) -> Any:
    """Join the chunks of a column, so that its offsets begin at 0."""
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
    name="avro", reader=AvroReader, writer=AvroWriter, codecs=frozenset(_CODECS), unsafe=_unsafe
)
