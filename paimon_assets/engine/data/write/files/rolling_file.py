"""Data files of one bucket: a next file begins at the target size; each yields a DataFileMeta.

The Arrow schema of data files has types, nullability and field ids. Readers match columns by name;
other engines write the ids, at every depth, since 1.0.

The file index of a file has one builder for each (column, index type) of the table's options. An
index only saves work, so types that this engine does not build (range bitmaps, keys inside maps)
are left out.
Source: `org.apache.paimon.io.RollingFileWriter`, `DataFilePathFactory`, `DataFileIndexWriter`,
`org.apache.paimon.format.parquet.ParquetSchemaConverter`, `SpecialFields`.
"""

import logging
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_field
from paimon_assets.engine.codec.file_index import file_index_bitmap, file_index_bloom
from paimon_assets.engine.codec.file_index.file_index import encode_file_index
from paimon_assets.engine.codec.file_index.file_index_bitmap import (
    BitmapBuilder,
    is_indexed_by_bitmap,
)
from paimon_assets.engine.codec.file_index.file_index_bloom import BloomBuilder, is_indexed_by_bloom
from paimon_assets.engine.codec.rows.binary_row import serialize_columns
from paimon_assets.engine.data.casting.texts import has_char, without_blanks
from paimon_assets.engine.data.format.base import FormatWriter
from paimon_assets.engine.data.format.formats import open_writer
from paimon_assets.engine.data.format.named_errors import storage_errors
from paimon_assets.engine.data.write.files.file_stats import FULL, StatsCollector, stats_modes
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.spec.metadata.data_file import (
    INDEX_SUFFIX,
    DataFileMeta,
    FileOrigin,
    wall_clock_ms,
)
from paimon_assets.engine.spec.options.all_options import (
    DATA_FILE_PREFIX,
    FILE_COMPRESSION,
    FILE_FORMAT,
    TARGET_FILE_SIZE,
)
from paimon_assets.engine.spec.options.file_options import (
    BITMAP_BLOCK_SIZE,
    BITMAP_VERSION,
    BLOOM_FPP,
    BLOOM_ITEMS,
    FILE_COMPRESSION_PER_LEVEL,
    FILE_FORMAT_PER_LEVEL,
    FILE_INDEX_COLUMNS,
    FILE_INDEX_IN_MANIFEST_THRESHOLD,
    STATS_DENSE_STORE,
)
from paimon_assets.engine.spec.options.option import Options
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.spec.types.data_types import (
    ArrayType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    VectorType,
)

logger = logging.getLogger(__name__)


Builder = BloomBuilder | BitmapBuilder
"""An index of one column being built."""
NewBuilder = Callable[[], Builder]


@dataclass(frozen=True, slots=True)
class FileIndexPlan:
    """The plan of the indexes that a table's files get."""

    builders: Mapping[tuple[str, str], NewBuilder]
    """(column, index type) → constructor of its builder."""

    @staticmethod
    def of(schema: TableSchema) -> "FileIndexPlan":
        """Read the options `file-index.<type>.columns`."""
        builders: dict[tuple[str, str], NewBuilder] = {}
        options = schema.typed_options
        for index_type, (is_indexed, new_builder) in _INDEX_TYPES.items():
            option = FILE_INDEX_COLUMNS.of(index_type)
            for name in options.get(option):
                if name.endswith("]"):
                    logger.warning("no file index of a map's key is written: %s", name)
                    continue
                field = schema.by_name.get(name)
                if field is None or not is_indexed(field.type):
                    raise InvalidInputError(
                        f"Table option '{option.key}' names column '{name}': "
                        + (
                            f"the table has no such column; it has {', '.join(schema.field_names)}."
                            if field is None
                            else f"columns of type {field.type} cannot have such an index."
                        ),
                        kind="option-value",
                        details={"option": option.key, "column": name},
                    )
                builders[name, index_type] = new_builder(field, options)
        return FileIndexPlan(builders)

    def start(self) -> "FileIndexWriter | None":
        """Begin the index of a file; None without index options."""
        if not self.builders:
            return None
        return FileIndexWriter({key: new() for key, new in self.builders.items()})


def _bloom(field: DataField, options: Options) -> NewBuilder:
    items = options.get(BLOOM_ITEMS.of(field.name))
    fpp = options.get(BLOOM_FPP.of(field.name))
    return lambda: BloomBuilder(data_type=field.type, items=items, fpp=fpp)


def _bitmap(field: DataField, options: Options) -> NewBuilder:
    option = BITMAP_VERSION.of(field.name)
    version = options.get(option)
    if version not in (file_index_bitmap.FLAT_VERSION, file_index_bitmap.BLOCK_VERSION):
        raise InvalidInputError(
            f"Table option '{option.key}' has the value '{version}': expected 1 or 2.",
            kind="option-value",
            details={"option": option.key},
        )
    block_bytes = options.get(BITMAP_BLOCK_SIZE.of(field.name))
    return lambda: BitmapBuilder(data_type=field.type, version=version, block_bytes=block_bytes)


_INDEX_TYPES: Mapping[
    str, tuple[Callable[[DataType], bool], Callable[[DataField, Options], NewBuilder]]
] = {
    file_index_bloom.INDEX_TYPE: (is_indexed_by_bloom, _bloom),
    file_index_bitmap.INDEX_TYPE: (is_indexed_by_bitmap, _bitmap),
}


@dataclass(frozen=True, slots=True)
class FileIndexWriter:
    """Builds the index of one file."""

    builders: Mapping[tuple[str, str], Builder]

    def add(self, rows: pa.Table) -> None:
        """Add rows of the file."""
        for (name, _), builder in self.builders.items():
            for chunk in rows.column(name).chunks:
                builder.add(chunk)

    def finish(self) -> bytes:
        """Return the file index."""
        indexes: dict[str, dict[str, bytes]] = {}
        for (name, index_type), builder in self.builders.items():
            body = builder.finish()
            if body is not None:
                indexes.setdefault(name, {})[index_type] = body
        return encode_file_index(indexes)


_FIELD_ID = "PARQUET:field_id"
_COLLECTION_ID_START = 536_870_911
_IDS_PER_COLUMN = 1024


def file_schema(fields: Sequence[DataField]) -> pa.Schema:
    """Return the schema of a data file with these columns.

    >>> from paimon_assets.engine.spec.types.data_types import bigint
    >>> file_schema([DataField(id=3, name="a", type=bigint())]).field("a").metadata
    {b'PARQUET:field_id': b'3'}
    """
    return pa.schema([_with_ids(field) for field in fields])


def _with_ids(field: DataField) -> "pa.Field[Any]":
    arrow = to_arrow_field(field)
    typed = arrow.with_type(_nested_ids(arrow.type, field.type, field.id, depth=1))
    return typed.with_metadata({_FIELD_ID: str(field.id)})


def _nested_ids(arrow: Any, data_type: DataType, column_id: int, *, depth: int) -> Any:
    """Set the ids of fields inside a type; ids inside collections derive from the column's."""

    def inner(field: Any, inner_type: DataType, sign: int) -> Any:
        typed = field.with_type(_nested_ids(field.type, inner_type, column_id, depth=depth + 1))
        field_id = _COLLECTION_ID_START + sign * _IDS_PER_COLUMN * column_id + sign * depth
        return typed.with_metadata({_FIELD_ID: str(field_id)})

    match data_type:
        case RowType(fields=fields):
            return pa.struct([_with_ids(field) for field in fields])
        case ArrayType(element=element):
            return pa.list_(inner(arrow.value_field, element, 1))
        case VectorType(element=element, length=length):
            return pa.list_(inner(arrow.value_field, element, 1), length)
        case MapType(key=key, value=value):
            return pa.map_(inner(arrow.key_field, key, -1), inner(arrow.item_field, value, 1))
        case MultisetType(element=element):
            return pa.map_(inner(arrow.key_field, element, -1), arrow.item_field)
        case _:
            return arrow


_MEGABYTE = 1024 * 1024
_TARGET_WITH_KEY = 128 * _MEGABYTE
_TARGET_WITHOUT_KEY = 256 * _MEGABYTE
_WRITE_ROWS = 131_072
"""Rows encoded at once: a row group."""
_WRITE_BYTES = 64 * _MEGABYTE


def new_uuid() -> str:
    """Return a random identity for the files of one writer."""
    return str(uuid.uuid4())


@dataclass(slots=True, kw_only=True)
class FileFactory:
    """The factory of the files of one write."""

    schema: TableSchema
    file_io: FileIO
    columns: tuple[DataField, ...]
    """Columns of the files, in order."""
    level: int = 0
    """Level of the files; it may have a format, a codec and statistics of its own."""
    file_source: FileOrigin = FileOrigin.APPEND
    paths: list[str] = field(default_factory=list)
    """Every path that was created; an aborted write deletes them."""
    arrow_schema: pa.Schema = field(init=False)
    target_bytes: int = field(init=False)
    file_format: str = field(init=False)
    indexes: FileIndexPlan = field(init=False)

    def __post_init__(self) -> None:
        options = self.schema.typed_options
        self.arrow_schema = file_schema(self.columns)
        per_level = options.get(FILE_FORMAT_PER_LEVEL)
        self.file_format = per_level.get(self.level, options.get(FILE_FORMAT))
        self.indexes = FileIndexPlan.of(self.schema)
        default = _TARGET_WITH_KEY if self.schema.has_primary_key else _TARGET_WITHOUT_KEY
        self.target_bytes = options.get(TARGET_FILE_SIZE) or default

    def open(self, path: str) -> FormatWriter:
        """Create a data file."""
        options = self.schema.typed_options
        per_level = options.get(FILE_COMPRESSION_PER_LEVEL)
        self.paths.append(path)
        with storage_errors(path):
            return open_writer(
                self.file_io,
                path,
                self.arrow_schema,
                file_format=self.file_format,
                compression=per_level.get(self.level, options.get(FILE_COMPRESSION)),
                options=options,
            )

    def as_stored(self, rows: pa.Table) -> pa.Table:
        """Return rows as files hold them: in ORC, CHAR has no blanks at its end, as for Java.

        Call it before statistics and indexes; rows of other formats have blanks.
        """
        for position, column in enumerate(self.columns if self.file_format == "orc" else ()):
            if has_char(column.type):
                values = rows.column(position)
                chunks = [without_blanks(chunk, column.type) for chunk in values.chunks]
                stored = pa.chunked_array(chunks, values.type)
                rows = rows.set_column(position, rows.field(position), stored)
        return rows

    def store_index(self, data_path: str, index: bytes) -> str | None:
        """Write a file index beside its data file, if it is too large for a manifest."""
        if len(index) <= self.schema.typed_options.get(FILE_INDEX_IN_MANIFEST_THRESHOLD):
            return None
        path = data_path + INDEX_SUFFIX
        self.paths.append(path)
        self.file_io.write_bytes(path, index)
        return path.rpartition("/")[2]

    def rows_at_once(self, row_count: int, total_bytes: int) -> int:
        """Return how many rows to encode before the next check of the file's size."""
        row_bytes = max(1, total_bytes // max(1, row_count))
        return max(1, min(_WRITE_ROWS, _WRITE_BYTES // row_bytes, self.target_bytes // row_bytes))


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Rows to append to a file, with their share of its metadata."""

    rows: pa.Table
    """In the file's columns."""
    min_sequence_number: int
    max_sequence_number: int
    delete_rows: int


@dataclass(slots=True, kw_only=True)
class RollingFile:
    """Files of one bucket, one after the other, named by one UUID and a counter."""

    factory: FileFactory
    bucket_path: str
    key_columns: tuple[str, ...] = ()
    """`_KEY_` columns of sorted files; none for append files."""
    _identity: str = field(init=False, default_factory=new_uuid)
    _opened: int = 0
    _current: "_OpenFile | None" = None
    _finished: list[DataFileMeta] = field(default_factory=list)

    @property
    def is_open(self) -> bool:
        """Whether a file is being written."""
        return self._current is not None

    def write(self, chunk: Chunk) -> None:
        """Append rows to the current file; it is finished if it has reached the target size."""
        if self._current is None:
            self._current = self._open()
        self._current.write(replace(chunk, rows=self.factory.as_stored(chunk.rows)))
        if self._current.writer.written_bytes >= self.factory.target_bytes:
            self.roll()

    def roll(self) -> None:
        """Finish the current file, if there is one; the next rows go into a new file."""
        if self._current is not None:
            self._finished.append(self._current.finish(self.factory))
            self._current = None

    def finish(self) -> tuple[DataFileMeta, ...]:
        """Finish and return all files, oldest first."""
        self.roll()
        return tuple(self._finished)

    def abort(self) -> None:
        """Close the current file unfinished; the owner of the factory deletes its files."""
        if self._current is not None:
            self._current.writer.abort()
            self._current = None

    def _open(self) -> "_OpenFile":
        factory = self.factory
        schema, options = factory.schema, factory.schema.typed_options
        prefix = options.get(DATA_FILE_PREFIX)
        name = f"{prefix}{self._identity}-{self._opened}.{factory.file_format}"
        self._opened += 1
        keys = schema.key_fields if self.key_columns else ()
        path = f"{self.bucket_path}/{name}"
        return _OpenFile(
            path=path,
            writer=factory.open(path),
            index=factory.indexes.start(),
            key_columns=self.key_columns,
            key_fields=keys,
            key_stats=StatsCollector(keys, (FULL,) * len(keys)),
            value_stats=StatsCollector(
                schema.fields, stats_modes(schema.fields, options, factory.level)
            ),
        )


@dataclass(slots=True, kw_only=True)
class _OpenFile:
    """One file being written, with its future metadata."""

    path: str
    writer: FormatWriter
    index: FileIndexWriter | None
    key_columns: tuple[str, ...]
    key_fields: tuple[DataField, ...]
    key_stats: StatsCollector
    value_stats: StatsCollector
    row_count: int = 0
    delete_rows: int = 0
    min_sequence_number: int = 2**63 - 1
    max_sequence_number: int = -(2**63)
    first_key: list[Any] = field(default_factory=list)
    last_key: list[Any] = field(default_factory=list)

    def write(self, chunk: Chunk) -> None:
        rows = chunk.rows
        with storage_errors(self.path):
            self.writer.write(rows)
        self.key_stats.add(rows)
        self.value_stats.add(rows)
        if self.index is not None:
            self.index.add(rows)
        ends = [
            (rows.column(name).slice(0, 1), rows.column(name)[-1:]) for name in self.key_columns
        ]
        self.first_key = self.first_key or [first for first, _ in ends]
        self.last_key = [last for _, last in ends]
        self.min_sequence_number = min(self.min_sequence_number, chunk.min_sequence_number)
        self.max_sequence_number = max(self.max_sequence_number, chunk.max_sequence_number)
        self.row_count += rows.num_rows
        self.delete_rows += chunk.delete_rows

    def finish(self, factory: FileFactory) -> DataFileMeta:
        with storage_errors(self.path):
            file_bytes = self.writer.close()
        types = [column.type for column in self.key_fields]
        value_stats, stats_columns = self.value_stats.finish_dense(
            dense=factory.schema.typed_options.get(STATS_DENSE_STORE)
        )
        meta = DataFileMeta(
            file_name=self.path.rpartition("/")[2],
            file_size=file_bytes,
            row_count=self.row_count,
            value_stats=value_stats,
            value_stats_cols=stats_columns,
            key_stats=self.key_stats.finish(),
            min_sequence_number=self.min_sequence_number,
            max_sequence_number=self.max_sequence_number,
            schema_id=factory.schema.id,
            level=factory.level,
            creation_time=wall_clock_ms(time.time_ns() // 1_000_000),
            delete_row_count=self.delete_rows,
            file_source=factory.file_source,
        )
        if self.index is not None:
            index = self.index.finish()
            name = factory.store_index(self.path, index)
            meta = (
                meta._replace(embedded_file_index=index)
                if name is None
                else meta._replace(extra_files=(name,))
            )
        if not self.key_columns:
            return meta
        return meta._replace(
            min_key=serialize_columns(self.first_key, types)[0],
            max_key=serialize_columns(self.last_key, types)[0],
        )
