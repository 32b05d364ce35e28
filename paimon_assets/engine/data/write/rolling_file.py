"""Write the data files of one bucket, each of the target size; each yields a DataFileMeta.

The Arrow schema of data files has types, nullability and field ids. Readers match columns by name;
other engines write the ids, at every depth, since 1.0.

The file index of a file has one builder for each (column, index type) of the table's options. An
index only saves work, so types that this engine does not build (range bitmaps, keys inside maps)
are left out.
Source: `org.apache.paimon.io.RollingFileWriter`, `DataFilePathFactory`, `DataFileIndexWriter`,
`org.apache.paimon.format.parquet.ParquetSchemaConverter`, `SpecialFields`.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct, field

from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_field
from paimon_assets.engine.codec.arrow.numpy_columns import from_numpy
from paimon_assets.engine.codec.rows.binary_row import serialize_columns
from paimon_assets.engine.data.field_mapping import key_value_fields
from paimon_assets.engine.data.format.base import FormatWriter, storage_errors
from paimon_assets.engine.data.format.formats import open_writer
from paimon_assets.engine.data.nested import has_char, without_blanks
from paimon_assets.engine.data.write.column_stats import FULL, StatsCollector, stats_modes
from paimon_assets.engine.errors import InvalidInputError, PaimonError
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.spec.metadata import data_file
from paimon_assets.engine.spec.options import all_options as opt
from paimon_assets.engine.spec.schema import schema as schemas
from paimon_assets.engine.spec.types import data_types

if TYPE_CHECKING:
    from paimon_assets.engine.codec.file_index.file_index_bitmap import BitmapBuilder
    from paimon_assets.engine.codec.file_index.file_index_bloom import BloomBuilder
    from paimon_assets.engine.data.merge.records import Kinds


logger = logging.getLogger(__name__)

_FIELD_ID = "PARQUET:field_id"
_COLLECTION_ID_START = 536_870_911
_IDS_PER_COLUMN = 1024
_MEGABYTE = 1024 * 1024
_TARGET_WITH_KEY = 128 * _MEGABYTE
_TARGET_WITHOUT_KEY = 256 * _MEGABYTE
ONE_FILE = 2**62
"""A target size that no file reaches: its rows are not to be cut."""
_WRITE_ROWS = 131_072
"""Rows encoded at once: a row group."""
_WRITE_BYTES = 64 * _MEGABYTE


def _index_builders(
    schema: schemas.TableSchema,
) -> Mapping[tuple[str, str], Callable[[], BloomBuilder | BitmapBuilder]]:
    """Return (column, index type) → constructor, by the options `file-index.<type>.columns`."""
    builders: dict[tuple[str, str], Callable[[], BloomBuilder | BitmapBuilder]] = {}
    if not any(key.startswith("file-index.") for key in schema.options):
        return builders
    from paimon_assets.engine.codec.file_index import file_index_bitmap, file_index_bloom

    options = schema.typed_options
    for index_type, is_indexed in (
        (file_index_bloom.INDEX_TYPE, file_index_bloom.is_indexed_by_bloom),
        (file_index_bitmap.INDEX_TYPE, file_index_bitmap.is_indexed_by_bitmap),
    ):
        option = opt.FILE_INDEX_COLUMNS.of(index_type)
        for name in options.get(option):
            if name.endswith("]"):
                logger.warning("no file index of a map's key is written: %s", name)
                continue
            column = schema.by_name.get(name)
            if column is None or not is_indexed(column.type):
                text = f"Table option '{option.key}' names column '{name}': " + (
                    f"the table has no such column; it has {', '.join(schema.field_names)}."
                    if column is None
                    else f"columns of type {column.type} cannot have such an index."
                )
                raise InvalidInputError(text, kind="option-value", option=option.key, column=name)
            if index_type == file_index_bloom.INDEX_TYPE:
                builders[name, index_type] = partial(
                    file_index_bloom.BloomBuilder,
                    data_type=column.type,
                    items=options.get(opt.BLOOM_ITEMS.of(name)),
                    fpp=options.get(opt.BLOOM_FPP.of(name)),
                )
                continue
            version_option = opt.BITMAP_VERSION.of(name)
            version = options.get(version_option)
            if version not in (file_index_bitmap.FLAT_VERSION, file_index_bitmap.BLOCK_VERSION):
                message = (
                    f"Table option '{version_option.key}' has the value '{version}': expected 1 or"
                    " 2."
                )
                raise InvalidInputError(message, kind="option-value", option=version_option.key)
            builders[name, index_type] = partial(
                file_index_bitmap.BitmapBuilder,
                data_type=column.type,
                version=version,
                block_bytes=options.get(opt.BITMAP_BLOCK_SIZE.of(name)),
            )
    return builders


def file_schema(fields: Sequence[data_types.DataField]) -> pa.Schema:
    """Return the schema of a data file with these columns.

    >>> column = data_types.DataField(id=3, name="a", type=data_types.bigint())
    >>> file_schema([column]).field("a").metadata
    {b'PARQUET:field_id': b'3'}
    """
    return pa.schema([_with_ids(column) for column in fields])


def _with_ids(column: data_types.DataField) -> pa.Field[Any]:
    arrow = to_arrow_field(column)
    typed = arrow.with_type(_nested_ids(arrow.type, column.type, column.id, depth=1))
    return typed.with_metadata({_FIELD_ID: str(column.id)})


def _nested_ids(arrow: Any, data_type: data_types.DataType, column_id: int, *, depth: int) -> Any:
    """Set the ids of fields inside a type; ids inside collections derive from the column's."""

    def inner(field: Any, inner_type: data_types.DataType, sign: int) -> Any:
        typed = field.with_type(_nested_ids(field.type, inner_type, column_id, depth=depth + 1))
        field_id = _COLLECTION_ID_START + sign * _IDS_PER_COLUMN * column_id + sign * depth
        return typed.with_metadata({_FIELD_ID: str(field_id)})

    match data_type:
        case data_types.RowType(fields=fields):
            return pa.struct([_with_ids(column) for column in fields])
        case data_types.ArrayType(element=element):
            return pa.list_(inner(arrow.value_field, element, 1))
        case data_types.VectorType(element=element, length=length):
            return pa.list_(inner(arrow.value_field, element, 1), length)
        case data_types.MapType(key=key, value=value):
            return pa.map_(inner(arrow.key_field, key, -1), inner(arrow.item_field, value, 1))
        case data_types.MultisetType(element=element):
            return pa.map_(inner(arrow.key_field, element, -1), arrow.item_field)
        case _:
            return arrow


class FileFactory(Struct, kw_only=True, dict=True):
    schema: schemas.TableSchema
    file_io: FileIO
    level: int = 0
    """Level of the files; it may have a format, a codec and statistics of its own."""
    file_source: data_file.FileOrigin = data_file.FileOrigin.APPEND
    write_cols: tuple[str, ...] | None = None
    """Columns that the files hold, those of row tracking too; None is all of the table's."""
    keeps_deletes: bool = False
    """Whether `KEPT_SINCE` follows the columns."""
    paths: list[str] = field(default_factory=list)
    """Every path that was created; an aborted write deletes them."""

    def __post_init__(self) -> None:
        schema, options = self.schema, self.schema.typed_options
        self.columns = key_value_fields(schema) if schema.has_primary_key else schema.fields
        self.value_fields = schema.fields
        """The table's columns among them."""
        if self.keeps_deletes:
            self.columns = (*self.columns, schemas.KEPT_SINCE)
        if self.write_cols is not None:
            by_name = {**{each.name: each for each in schemas.TRACKING_FIELDS}, **schema.by_name}
            self.columns = tuple(by_name[name] for name in self.write_cols)
            self.value_fields = tuple(each for each in self.columns if each.id in schema.by_id)
        self.arrow_schema = file_schema(self.columns)
        per_level = options.get(opt.FILE_FORMAT_PER_LEVEL)
        self.file_format = per_level.get(self.level, options.get(opt.FILE_FORMAT))
        names = {each.name for each in self.value_fields}
        builders = _index_builders(schema)
        self.indexes = {key: new for key, new in builders.items() if key[0] in names}
        default = _TARGET_WITH_KEY if schema.has_primary_key else _TARGET_WITHOUT_KEY
        self.target_bytes = options.get(opt.TARGET_FILE_SIZE) or default

    def open(self, path: str) -> FormatWriter:
        options = self.schema.typed_options
        per_level = options.get(opt.FILE_COMPRESSION_PER_LEVEL)
        self.paths.append(path)
        with storage_errors(path):
            return open_writer(
                self.file_io,
                path,
                self.arrow_schema,
                file_format=self.file_format,
                compression=per_level.get(self.level, options.get(opt.FILE_COMPRESSION)),
                options=options,
            )

    def rows_at_once(self, row_count: int, total_bytes: int) -> int:
        """Return how many rows to encode before the next check of the file's size."""
        row_bytes = max(1, total_bytes // max(1, row_count))
        return max(1, min(_WRITE_ROWS, _WRITE_BYTES // row_bytes, self.target_bytes // row_bytes))


class RollingFile(Struct, kw_only=True):
    """Files of one bucket, one after the other, named by one UUID and a counter."""

    factory: FileFactory
    bucket_path: str
    _identity: str = field(default_factory=lambda: str(uuid.uuid4()))
    _opened: int = 0
    _current: _OpenFile | None = None
    _finished: list[data_file.DataFileMeta] = field(default_factory=list)

    def write_rows(self, rows: pa.Table, first_number: int | None) -> None:
        """Append rows of a table without primary key, numbered from `first_number` on.

        None has the commit number rows that have no number of their own (`control.commit.row_ids`).
        """
        table = pa.Table.from_arrays(rows.columns, schema=self.factory.arrow_schema)
        if first_number is not None:
            lowest, highest = first_number, first_number + rows.num_rows - 1
        else:
            lowest, highest = _stored_numbers(table)
        self._write(table, lowest, highest, 0)

    def write_records(self, rows: pa.Table, numbers: npt.NDArray[np.int64], kinds: Kinds) -> None:
        """Append rows of a primary-key table, with their sequence numbers and kinds."""
        schema = self.factory.schema
        keys: list[Any] = [rows.column(name) for name in schema.trimmed_primary_keys]
        columns = [*keys, from_numpy(numbers), from_numpy(kinds), *rows.columns]
        table = pa.Table.from_arrays(columns, schema=self.factory.arrow_schema)
        from paimon_assets.engine.data.merge.records import adds

        deletes = int(np.count_nonzero(~adds(kinds)))
        self._write(table, int(numbers.min()), int(numbers.max()), deletes)

    def _write(self, rows: pa.Table, lowest: int, highest: int, deletes: int) -> None:
        """Append rows to the current file; it is finished if it has reached the target size."""
        factory = self.factory
        if self._current is None:
            prefix = factory.schema.typed_options.get(opt.DATA_FILE_PREFIX)
            name = f"{prefix}{self._identity}-{self._opened}.{factory.file_format}"
            self._opened += 1
            self._current = _OpenFile(factory, f"{self.bucket_path}/{name}")
        self._current.write(rows, lowest, highest, deletes)
        if self._current.writer.written_bytes >= factory.target_bytes:
            self.roll()

    def roll(self) -> None:
        """Finish the current file, if there is one; the next rows go into a new file."""
        if self._current is not None:
            self._finished.append(self._current.finish())
            self._current = None

    def finish(self) -> tuple[data_file.DataFileMeta, ...]:
        self.roll()
        return tuple(self._finished)

    def abort(self) -> None:
        """Close the current file unfinished; the owner of the factory deletes its files."""
        if self._current is not None:
            self._current.writer.abort()
            self._current = None


_UNNUMBERED = 2**63 - 1


def _stored_numbers(rows: pa.Table) -> tuple[int, int]:
    """Return the smallest and largest sequence number; the largest is unknown if one is null."""
    if schemas.SEQUENCE_NUMBER.name not in rows.column_names:
        return _UNNUMBERED, _UNNUMBERED
    numbers = rows.column(schemas.SEQUENCE_NUMBER.name)
    bounds: Any = pc.min_max(numbers)
    lowest, highest = bounds["min"].as_py(), bounds["max"].as_py()
    lowest = _UNNUMBERED if lowest is None else lowest
    return lowest, _UNNUMBERED if numbers.null_count else highest


class _OpenFile:
    """One file being written, with its future metadata."""

    def __init__(self, factory: FileFactory, path: str) -> None:
        schema = factory.schema
        self._factory, self._path = factory, path
        self._keys = factory.columns[: len(schema.key_fields)]
        self._key_stats = StatsCollector(self._keys, (FULL,) * len(self._keys))
        fields = factory.value_fields
        modes = stats_modes(fields, schema.typed_options, factory.level)
        self._value_stats = StatsCollector(fields, modes)
        self._builders = {key: new() for key, new in factory.indexes.items()}
        self._row_count = self._deletes = 0
        self._lowest, self._highest = _UNNUMBERED, -(2**63)
        self._first_key: list[Any] = []
        self._last_key: list[Any] = []
        self.writer = factory.open(path)

    def write(self, rows: pa.Table, lowest: int, highest: int, deletes: int) -> None:
        # In ORC, CHAR has no blanks at its end, as for Java; nor have its statistics and indexes.
        is_orc = self._factory.file_format == "orc"
        for position, column in enumerate(self._factory.columns if is_orc else ()):
            if has_char(column.type):
                values = rows.column(position)
                chunks = [without_blanks(chunk, column.type) for chunk in values.chunks]
                stored = pa.chunked_array(chunks, values.type)
                rows = rows.set_column(position, rows.field(position), stored)
        with storage_errors(self._path):
            self.writer.write(rows)
        self._key_stats.add(rows, self.writer.bounded)
        self._value_stats.add(rows, self.writer.bounded)
        for (name, _), builder in self._builders.items():
            for chunk in rows.column(name).chunks:
                builder.add(chunk)
        keys = rows.columns[: len(self._keys)]
        self._first_key = self._first_key or [key.slice(0, 1) for key in keys]
        self._last_key = [key[-1:] for key in keys]
        self._lowest, self._highest = min(self._lowest, lowest), max(self._highest, highest)
        self._row_count += rows.num_rows
        self._deletes += deletes

    def finish(self) -> data_file.DataFileMeta:
        factory, options = self._factory, self._factory.schema.typed_options
        with storage_errors(self._path):
            file_bytes = self.writer.close()
        self._key_stats.complete(self.writer)
        self._value_stats.complete(self.writer)
        value_stats, stats_columns = self._value_stats.finish_dense(
            dense=options.get(opt.STATS_DENSE_STORE)
        )
        if factory.write_cols is not None and stats_columns is None:
            stats_columns = tuple(each.name for each in factory.value_fields)
        meta = data_file.DataFileMeta(
            file_name=self._path.rpartition("/")[2],
            file_size=file_bytes,
            row_count=self._row_count,
            value_stats=value_stats,
            value_stats_cols=stats_columns,
            key_stats=self._key_stats.finish(),
            min_sequence_number=0 if self._lowest == _UNNUMBERED else self._lowest,
            max_sequence_number=0 if self._highest == _UNNUMBERED else self._highest,
            schema_id=factory.schema.id,
            level=factory.level,
            creation_time=data_file.wall_clock_ms(time.time_ns() // 1_000_000),
            delete_row_count=self._deletes,
            file_source=factory.file_source,
            write_cols=factory.write_cols,
        )
        if self._builders:
            indexes: dict[str, dict[str, bytes]] = {}
            for (name, index_type), builder in self._builders.items():
                body = builder.finish()
                if body is not None:
                    indexes.setdefault(name, {})[index_type] = body
            from paimon_assets.engine.codec.file_index.file_index import encode_file_index

            index = encode_file_index(indexes)
            if len(index) <= options.get(opt.FILE_INDEX_IN_MANIFEST_THRESHOLD):
                meta = meta._replace(embedded_file_index=index)
            else:
                factory.paths.append(self._path + data_file.INDEX_SUFFIX)
                factory.file_io.write_bytes(self._path + data_file.INDEX_SUFFIX, index)
                meta = meta._replace(extra_files=(meta.file_name + data_file.INDEX_SUFFIX,))
        if not self._keys:
            return meta
        types = [column.type for column in self._keys]
        return meta._replace(
            min_key=serialize_columns(self._first_key, types)[0],
            max_key=serialize_columns(self._last_key, types)[0],
        )


def delete_unfinished(file_io: FileIO, paths: Iterable[str], table: str) -> None:
    """Delete files that no snapshot names; a failure of the storage is only logged."""
    for path in paths:
        try:
            file_io.delete_file(path)
        except PaimonError as error:  # a harmless orphan file stays
            logger.warning("could not delete %s, left by a failure on %s: %s", path, table, error)
