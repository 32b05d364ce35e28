"""Avro data files, block by block.

    read     block ─▶ fastavro: a dictionary a row ─▶ stored columns ─▶ logical (`avro_types`)
    write    logical columns ─▶ stored ─▶ cells ─▶ rows ─▶ block

fastavro builds a Python dictionary for every row, so Avro is read some ten times slower than
Parquet. Writing has no step a row: a cell is the encoded bytes of one value, and the position of
each cell of a row follows from the lengths of all before it, so a column of cells is copied at
once.
Source: `org.apache.paimon.format.avro.AvroBulkFormat`, `AvroRowDatumWriter`,
https://avro.apache.org/docs/1.12.0/specification/#binary-encoding
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat
from msgspec import Struct

from paimon_assets.engine.codec.arrow import numpy_columns as arrays
from paimon_assets.engine.codec.arrow.arrow_types import LTZ_ZONE, timestamp_type
from paimon_assets.engine.codec.avro import avro as blocks
from paimon_assets.engine.data.format import base
from paimon_assets.engine.data.nested import changed_field, parts_of, with_parts
from paimon_assets.engine.errors import FormatError, InvalidInputError
from paimon_assets.engine.fileio.ranged import read_through
from paimon_assets.engine.spec.options.all_options import FILE_COMPRESSION_ZSTD_LEVEL, Options
from paimon_assets.engine.spec.predicate.predicate import Predicate
from paimon_assets.engine.spec.types.data_types import (
    CHARACTER_ROOTS,
    AtomicType,
    DataType,
    MultisetType,
    TypeRoot,
)

_BITS = 7
"""The bits of a number in each byte; the eighth is set if more bytes follow."""
_MAX_BYTES = 10
_MORE = 0x80


class Cells(Struct, frozen=True):
    """The encoded values of a column, one after the other."""

    lengths: arrays.Longs
    """Row → bytes."""
    data: arrays.Bytes


def encode_rows(columns: Sequence[Any], record: Json) -> bytes:
    """Return the rows of an Avro block. Cost: some 20 bytes of memory for each one encoded."""
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
        present = arrays.to_numpy(array.is_valid())
        values = _encode(array.drop_null(), avro[1])
        lengths = np.zeros(len(array), dtype=np.int64)
        lengths[present] = values.lengths
        return _join([_single(2 * present.astype(np.uint8)), Cells(lengths, values.data)])
    if array.null_count:
        raise InvalidInputError("a null where an Avro file cannot hold one.", kind="null")
    arrow_type = array.type
    if pat.is_integer(arrow_type):
        return _numbers(arrays.to_numpy(array).astype(np.int64))
    if pat.is_boolean(arrow_type):
        return _single(arrays.to_numpy(array).astype(np.uint8))
    if pat.is_floating(arrow_type):
        reals = arrays.to_numpy(array)
        return Cells(np.full(len(reals), reals.itemsize, dtype=np.int64), reals.view(np.uint8))
    if pat.is_string(arrow_type) or pat.is_binary(arrow_type):
        ends = _ends(array)
        data = np.frombuffer(array.buffers()[2] or b"", dtype=np.uint8)[ends[0] : ends[-1]]
        lengths = np.diff(ends)
        return _join([_numbers(lengths), Cells(lengths, data)])
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


def _ends(array: Any) -> arrays.Longs:
    """Return the start of each value of an array, and the end of the last."""
    if not len(array):
        return np.zeros(1, dtype=np.int64)
    start, count = array.offset * np.dtype(np.int32).itemsize, len(array) + 1
    ends = np.frombuffer(array.buffers()[1], dtype=np.int32, count=count, offset=start)
    return ends.astype(np.int64)


def _single(values: arrays.Bytes) -> Cells:
    return Cells(np.ones(len(values), dtype=np.int64), values)


def _numbers(values: arrays.Longs) -> Cells:
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
    # `starts` has the place of each cell, row by row; a cell's bytes move there in one piece.
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


def _with_bytes(field: Any) -> Any:
    return field.with_type(pa.binary()) if pat.is_string(field.type) else field


class AvroReader(base.FormatReader):
    title = "Avro"

    def _columns(self, file: base.FileToRead) -> pa.Schema:
        if file.source is None:
            read_through(self._source)
        try:
            self._container = blocks.Container(self._source, self._source.size(), file.path)
            self._shape = shape_of(self._container.schema)
        except (FormatError, TypeError, LookupError, AttributeError) as error:
            reason = str(error).removeprefix(f"{file.path}: ")
            raise FormatError(
                f"Data file '{file.path}' is not readable as Avro: {reason}",
                kind=getattr(error, "kind", "avro"),
                path=file.path,
            ) from error
        return pa.schema(list(self._shape.logical))

    def _batches(
        self, names: list[str], predicate: Predicate | None, batch_rows: int, batch_bytes: int
    ) -> Iterator[pa.RecordBatch]:
        file_names = [field.name for field in self._shape.logical]
        decoded = [name for name in file_names if name in names]
        positions = [file_names.index(name) for name in decoded]
        for name, position in zip(decoded, positions, strict=True):
            shape = self._shape.inner[position]
            if pat.is_null(shape.stored) and not pat.is_null(shape.logical):
                is_union = pat.is_union(shape.logical)
                kind = "a union of several types" if is_union else f"a {shape.logical}"
                raise pa.ArrowInvalid(f"column '{name}' is {kind}")
        # fastavro reads texts as bytes.
        fields = [self._shape.stored.field(position) for position in positions]
        stored = pa.struct([changed_field(field, _with_bytes) for field in fields])
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
        if not positions:  # keeps the number of rows
            return pa.RecordBatch.from_struct_array(rows)
        columns = [  # a record may be null
            self._shape.inner[position].read(column)
            for position, column in zip(positions, rows.flatten(), strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, names=[field.name for field in stored])

    def row_ranges(self, predicate: Predicate | None) -> Sequence[tuple[int, int]]:
        """Return all rows; see `FormatReader`. Cost: a small read for each block."""
        with base.named_errors(self._path, self.title):
            return [(0, self._container.row_count())]


class AvroWriter(base.FormatWriter):
    def __init__(self, file: base.FileToWrite) -> None:
        self._record = avro_record(file.schema)
        self._shape = shape_of(self._record)
        stored = blocks.RecordSchema.of(json.dumps(self._record).encode())
        codec, compress = _CODECS[file.codec]
        self._compress = compress(file.options.get(FILE_COMPRESSION_ZSTD_LEVEL))
        # Names of data files are unique, and so are digests of them.
        self._sync = hashlib.blake2b(file.path.encode(), digest_size=_SYNC_BYTES).digest()
        self._sink = file.file_io.open_output(file.path)
        self._sink.write(blocks.encode_header(stored, codec, self._sync))

    def write(self, rows: pa.Table) -> None:
        for start in range(0, rows.num_rows, _BLOCK_ROWS):
            part = rows.slice(start, _BLOCK_ROWS)
            columns = [
                # In one piece, whose offsets begin at 0.
                shape.write(
                    pa.concat_arrays([*column.chunks, pa.array([], column.type)]).cast(
                        shape.logical
                    )
                )
                for shape, column in zip(self._shape.inner, part.columns, strict=True)
            ]
            plain = encode_rows(columns, self._record)
            self._sink.write(blocks.frame_block(part.num_rows, plain, self._compress))
            self._sink.write(self._sync)


_CODECS: Mapping[str, tuple[str, Callable[[int], Callable[[bytes], bytes]]]] = {
    "none": ("null", lambda _: bytes),
    "null": ("null", lambda _: bytes),
    "zstd": ("zstandard", blocks.compress_zstd),
    "snappy": ("snappy", lambda _: blocks.compress_snappy),
    "deflate": ("deflate", lambda _: blocks.deflate),
    "gzip": ("deflate", lambda _: blocks.deflate),
}
"""`file.compression` → Avro's name of the codec, and (zstd level) → compressor."""


def _unsafe(data_type: DataType, _options: Options) -> str | None:
    if isinstance(data_type, MultisetType) and data_type.element.root not in CHARACTER_ROOTS:
        return "Java reads no file of format avro with it; MULTISET<STRING> is read"
    digits = data_type.precision or 0 if isinstance(data_type, AtomicType) else 0
    if digits <= _PRECISION.get(data_type.root, digits):
        return None
    return "it is finer than files of format avro can store"


Json: TypeAlias = Any
Array: TypeAlias = Any

_NAMESPACE = "org.apache.paimon.avro.generated"
_DECIMAL_BYTES = 16
_MOST_DIGITS, _WIDEST = 38, 76
_SIGN_BIT = 0x80
_INT_BITS = 32
_PRIMITIVES: Mapping[str, Any] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
_LOGICAL: Mapping[str, Any] = {
    "date": pa.date32(),
    "time-millis": pa.time32("ms"),
    "time-micros": pa.time64("us"),
    "timestamp-millis": timestamp_type("ms", None),
    "timestamp-micros": timestamp_type("us", None),
    "timestamp-nanos": timestamp_type("ns", None),
    "local-timestamp-millis": timestamp_type("ms", LTZ_ZONE),
    "local-timestamp-micros": timestamp_type("us", LTZ_ZONE),
    "local-timestamp-nanos": timestamp_type("ns", LTZ_ZONE),
}
_PRIMITIVE_NAMES = {arrow_type: name for name, arrow_type in _PRIMITIVES.items()}
_LOGICAL_NAMES = {arrow_type: name for name, arrow_type in _LOGICAL.items()}


class Shape(Struct, frozen=True):
    """The Arrow shape of an Avro type."""

    stored: Any
    """Arrow type of fastavro's values."""
    logical: Any
    """Arrow type of the column."""
    inner: tuple[Shape, ...] = ()
    """The shapes of elements, of keys and values, or of fields."""

    def read(self, stored: Array) -> Array:
        """Turn a column of type `stored` into one of type `logical`."""
        if pat.is_decimal(self.logical):
            return _decimals(stored, self.logical)
        if not self.inner:
            return stored.view(self.logical)
        parts = parts_of(stored)
        if len(parts) < len(self.inner):  # keys and values are in rows of their own
            parts = parts_of(parts[0])
        parts = [shape.read(part) for shape, part in zip(self.inner, parts, strict=True)]
        return with_parts(stored, parts, self.logical)

    def write(self, logical: Array) -> Array:
        """Turn a column of type `logical` into one of type `stored`."""
        if pat.is_decimal(self.logical):
            # Big-endian numbers of 16 bytes.
            buffers = [
                None,
                arrays.buffer_of(arrays.decimal_words(logical).view(np.uint8)[:, ::-1]),
            ]
            fixed = pa.Array.from_buffers(pa.binary(_DECIMAL_BYTES), len(logical), buffers)
            none = pa.scalar(None, pa.binary())
            return pc.if_else(logical.is_valid(), fixed.cast(pa.binary()), none)
        if not self.inner:
            return logical.view(self.stored)
        inner = zip(self.inner, parts_of(logical), strict=True)
        parts: list[Any] = [shape.write(part) for shape, part in inner]
        if pat.is_list(self.stored) and pat.is_map(self.logical):
            entries = list(self.stored.value_type)
            parts = [pa.StructArray.from_arrays(parts, fields=entries)]
        return with_parts(logical, parts, self.stored)


_INSIDE_ITSELF = Shape(pa.null(), pa.dense_union([]))
"""A record before it is known."""


def shape_of(avro: Json, known: dict[str, Shape] | None = None) -> Shape:
    """Return the Arrow shape of an Avro type; every field may be null.

    Unions of several types, decimals of more than 38 digits and records inside themselves are of
    Arrow types that no table has, so that other columns are read.

    Args:
        avro: The type.
        known: Name → shape of the types declared before; those of this type are added.
    """
    named = {"null": Shape(pa.null(), pa.null())} if known is None else known
    if isinstance(avro, list):
        shapes = [shape_of(branch, named) for branch in avro if branch != "null"]
        fields = [pa.field(str(number), shape.logical) for number, shape in enumerate(shapes)]
        return shapes[0] if len(shapes) == 1 else Shape(pa.null(), pa.dense_union(fields))
    avro_type = {"type": avro} if isinstance(avro, str) else avro
    match avro_type["type"]:
        case "enum":
            shape = Shape(pa.string(), pa.string())
        case str(name) if name in _PRIMITIVES or name == "fixed":
            shape = _flat_shape(avro_type)
        case "record":
            named.setdefault(avro_type["name"].rpartition(".")[2], _INSIDE_ITSELF)
            shape = _record_shape(avro_type, named)
        case "array" if avro_type.get("logicalType") == "map":
            key, value = _record_shape(avro_type["items"], named).inner
            entry = pa.struct([pa.field("key", key.stored), pa.field("value", value.stored)])
            return Shape(pa.list_(entry), pa.map_(key.logical, value.logical), (key, value))
        case "array":
            element = shape_of(avro_type["items"], named)
            return Shape(pa.list_(element.stored), pa.list_(element.logical), (element,))
        case "map":
            key, value = shape_of("string", named), shape_of(avro_type["values"], named)
            stored, logical = pa.map_(key.stored, value.stored), pa.map_(key.logical, value.logical)
            return Shape(stored, logical, (key, value))
        case dict() | list() as inner:
            return shape_of(inner, named)
        case str(name) if name.rpartition(".")[2] in named:
            return named[name.rpartition(".")[2]]
        case other:
            raise FormatError(f"the type {other!r} is not one that Paimon writes")
    if "name" in avro_type:
        simple = avro_type["name"].rpartition(".")[2]
        # Of two types of one name in two namespaces, a reference is not resolved.
        is_only = named.get(simple, shape) in (shape, _INSIDE_ITSELF)
        named[simple] = shape if is_only else Shape(pa.null(), pa.null())
    return shape


def _flat_shape(avro: Json) -> Shape:
    stored, meaning = _PRIMITIVES.get(avro["type"], pa.binary()), avro.get("logicalType", "")
    if meaning != "decimal":
        return Shape(stored, _LOGICAL.get(meaning, stored))
    digits, scale = avro["precision"], avro.get("scale", 0)
    if digits > _MOST_DIGITS:
        return Shape(pa.null(), pa.decimal256(min(digits, _WIDEST), scale))
    return Shape(stored, pa.decimal128(digits, scale))


def _record_shape(avro: Json, named: dict[str, Shape]) -> Shape:
    fields = [(field["name"], shape_of(field["type"], named)) for field in avro["fields"]]
    return Shape(
        pa.struct([pa.field(name, shape.stored) for name, shape in fields]),
        pa.struct([pa.field(name, shape.logical) for name, shape in fields]),
        tuple(shape for _, shape in fields),
    )


def _decimals(stored: Array, data_type: Any) -> Array:
    """Turn big-endian two's complement numbers of any length into decimals."""
    count = len(stored)
    ends = np.frombuffer(stored.buffers()[1], dtype=np.int32, count=count + 1).astype(np.int64)
    lengths = np.diff(ends)
    if lengths.max(initial=0) > _DECIMAL_BYTES:
        raise FormatError(f"a decimal of {lengths.max()} bytes is longer than {data_type} can be")
    data = np.frombuffer(stored.buffers()[2] or b"", dtype=np.uint8)
    numbers = np.zeros((count, _DECIMAL_BYTES), dtype=np.uint8)
    filled = np.flatnonzero(lengths)
    numbers[filled[data[ends[filled]] >= _SIGN_BIT]] = 0xFF
    of_row = np.repeat(np.arange(count), lengths)
    positions = np.arange(int(ends[-1] - ends[0])) - np.repeat(ends[:-1] - ends[0], lengths)
    numbers[of_row, positions + _DECIMAL_BYTES - lengths[of_row]] = data[ends[0] : ends[-1]]
    precision, scale = data_type.precision, data_type.scale
    wide = pa.decimal128(_MOST_DIGITS, scale)
    decimals: Any = pa.Array.from_buffers(
        data_type, count, [stored.buffers()[0], arrays.buffer_of(numbers[:, ::-1])]
    )
    # Numbers with more digits than their type become null, as in Java.
    least, most = (pa.scalar(Decimal((sign, (9,) * precision, -scale)), wide) for sign in (1, 0))
    numbers = decimals.view(wide)
    fits: Any = pc.and_(pc.greater_equal(numbers, least), pc.less_equal(numbers, most))
    if pc.all(fits, min_count=0).as_py():
        return decimals
    return pc.if_else(fits, decimals, pa.scalar(None, data_type))


def avro_record(schema: pa.Schema, name: str = "record") -> dict[str, Json]:
    """Return the Avro record that stores columns of an Arrow schema."""
    return {
        "type": "record",
        "name": name,
        "namespace": _NAMESPACE,
        "fields": [_avro_field(field, f"{name}_{field.name}") for field in schema],
    }


def _avro_field(field: Any, name: str) -> dict[str, Json]:
    result = {"name": field.name, "type": _avro_type(field, name)}
    return {**result, "default": None} if field.nullable else result


def _avro_type(field: Any, name: str) -> Json:
    plain = _plain_type(field, name)
    return ["null", plain] if field.nullable else plain


def _plain_type(field: Any, name: str) -> Json:
    arrow_type = field.type
    if pat.is_decimal(arrow_type):
        precision, scale = arrow_type.precision, arrow_type.scale
        return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}
    if pat.is_list(arrow_type):
        return {"type": "array", "items": _avro_type(arrow_type.value_field, name)}
    if pat.is_struct(arrow_type):
        fields = [_avro_field(inner, f"{name}_{inner.name}") for inner in arrow_type]
        return {"type": "record", "name": name, "fields": fields}
    if pat.is_map(arrow_type):
        if pat.is_string(arrow_type.key_type):
            return {"type": "map", "values": _avro_type(arrow_type.item_field, name)}
        fields = [
            {"name": "key", "type": _avro_type(arrow_type.key_field, f"{name}_key")},
            _avro_field(arrow_type.item_field.with_name("value"), f"{name}_value"),
        ]
        record = {"type": "record", "name": name, "fields": fields}
        return {"type": "array", "logicalType": "map", "items": record}
    if pat.is_timestamp(arrow_type) and arrow_type.unit == "s":
        arrow_type = timestamp_type("ms", arrow_type.tz)
    if pat.is_integer(arrow_type) and arrow_type.bit_width < _INT_BITS:
        arrow_type = pa.int32()
    if arrow_type in _LOGICAL_NAMES:
        stored = "int" if arrow_type.bit_width == _INT_BITS else "long"
        return {"type": stored, "logicalType": _LOGICAL_NAMES[arrow_type]}
    return _PRIMITIVE_NAMES[arrow_type]


FORMATS = (
    base.FileFormat(
        name="avro", reader=AvroReader, writer=AvroWriter, codecs=frozenset(_CODECS), unsafe=_unsafe
    ),
)
