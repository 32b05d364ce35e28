"""Parquet data files through pyarrow: row-group pruning, projection, batches; and writing.

Every Paimon reader since 0.9 accepts the writer's settings: integer decimals, data pages of version
1, field ids. TIMESTAMP(7..9) is INT96, because Java 1.4 reads INT64 nanoseconds as microseconds;
see `parquet_times`.

A sample of the first rows decides which columns get a dictionary. Row groups are small, so a column
of unique values would fill a dictionary in each of them: a third more bytes and twice the time,
measured on eight columns of a million rows.
Source: `org.apache.paimon.format.parquet`.
"""

from __future__ import annotations

import base64
from collections import defaultdict
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as pat

from paimon_assets.engine.codec.arrow.arrow_types import without_nulls_below
from paimon_assets.engine.codec.arrow.numpy_columns import from_numpy, to_numpy
from paimon_assets.engine.data.format import parquet_times
from paimon_assets.engine.data.format.base import (
    FileFormat,
    FileToRead,
    FileToWrite,
    FormatReader,
    FormatWriter,
    short_batches,
)
from paimon_assets.engine.data.format.named_errors import named_errors, with_names_read
from paimon_assets.engine.data.format.parquet_chunks import ColumnChunks, bounds_of, join_bounds
from paimon_assets.engine.data.format.parquet_times import TwoKinds, has_unit
from paimon_assets.engine.errors import FormatError
from paimon_assets.engine.fileio.ranged import RangedInput
from paimon_assets.engine.spec.options.all_options import FILE_COMPRESSION_ZSTD_LEVEL
from paimon_assets.engine.spec.options.file_options import (
    FILE_BLOCK_SIZE,
    PARQUET_BLOCK_SIZE,
    PARQUET_ENABLE_DICTIONARY,
    PARQUET_PAGE_SIZE,
)
from paimon_assets.engine.spec.predicate.predicate import Predicate, fields_of
from paimon_assets.engine.spec.predicate.prune import UNKNOWN, Bounds, may_match

_SAMPLE_ROWS = 16_384
_REPEATED = 2
"""A value must occur this often in the sample, on average."""
_MAX_LONG_DIGITS = 18
"""Decimals of so many digits are stored as integers, longer ones as bytes."""


def dictionary_columns(rows: pa.Table) -> list[str]:
    """Return the names of flat columns whose values repeat.

    Decimals of more than 18 digits get no dictionary: Java 1.4 filters by it, and finds no value
    that equals a literal (of 40 rows, `v = 1` found none).

    Cost:
        About 3 ms for ten columns.
    """
    count = rows.num_rows
    if count > _SAMPLE_ROWS:
        rows = rows.take(from_numpy(np.linspace(0, count - 1, _SAMPLE_ROWS, dtype=np.int64)))
    return [
        name
        for name, column in zip(rows.column_names, rows.columns, strict=True)
        if _repeats(column)
    ]


def _repeats(column: Any) -> bool:
    kind = column.type
    if pat.is_nested(kind) or pat.is_boolean(kind):
        return False
    if pat.is_decimal(kind) and kind.precision > _MAX_LONG_DIGITS:
        return False
    distinct = pc.count_distinct(column, mode="all").as_py()
    return bool(distinct * _REPEATED <= len(column))


ROW_GROUP_ROWS = 65_536
"""Largest row group that is written: a lookup decodes few rows, and the encodings still work."""
_SMALL_GROUP_ROWS = ROW_GROUP_ROWS // 2
_SMALL_GROUPS = 16
"""Up to so many small groups are written as small ones: a key range needs few rows of each run."""

_READING: dict[str, Any] = {"pre_buffer": False, "page_checksum_verification": True}

_WHOLE_GROUP_BYTES = 8 * 1024 * 1024
_PIECE_BYTES = 2 * 1024 * 1024
"""The bytes of one column in a piece."""
_LEAST_PIECE_BYTES = 64 * 1024
_MOST_FETCHED = 16 * 1024 * 1024
"""Bytes of one request to an object store."""
_GROWTH = 8
"""How many times as many rows a next batch may have."""
_GUESSED_GROUPS = 4
"""Row groups from whose metadata the width of rows is estimated."""
_LONG_VALUE = 128 * 1024
"""Assumed bytes of a dictionary's value without statistics."""
_UNPACKED = 16
"""Assumed largest ratio of one value's bytes to the file's bytes."""
_MICRO_NANOS = 1000
_WRAPPED_MICROS = 2**64 // _MICRO_NANOS
_ROWS_FOR_THREADS = 8192
"""A file of fewer rows is decoded faster than threads start."""


class ParquetReader(FormatReader):
    """One open Parquet file."""

    title = "Parquet"
    has_footer = True

    def _columns(self, file: FileToRead) -> pa.Schema:
        self._file = _open_file(self._source)
        schema = with_names_read(_schema_as_written(self._file))
        self._int96 = _int96_names(self._file)
        self._coarse = _written_coarse(self._file, self._int96)
        return schema

    def _batches(
        self, names: list[str], predicate: Predicate | None, batch_rows: int, batch_bytes: int
    ) -> Iterator[pa.RecordBatch]:
        """Decode some columns of the row groups in which a row may pass; see `FormatReader`.

        pyarrow's threads decode columns in parallel. The number of rows decoded at once follows
        from the bytes of the rows before; for the first rows it is estimated from the footer.
        """
        groups = self.matching_row_groups(predicate)
        if not groups:
            return
        if isinstance(self._source, RangedInput):
            most_bytes = max(_PIECE_BYTES, min(batch_bytes, _MOST_FETCHED))
            self._source.ranged.plan(self._byte_ranges(names, groups), most_bytes)
        if batch_bytes < _WHOLE_GROUP_BYTES:
            self._file = _open_file(self._source, self._file.metadata, whole_bytes=batch_bytes)
        for batch in self._decode(names, groups, batch_rows, batch_bytes):
            yield batch if batch.schema.names == names else batch.select(names)

    def _decode(
        self, names: list[str], groups: list[int], batch_rows: int, batch_bytes: int
    ) -> Iterator[pa.RecordBatch]:
        """Decode columns; INT96 as nanoseconds, or microseconds if written from coarser units."""
        vague = [name for name in names if name in self._int96]
        if not vague:
            yield from self._sized_batches(names, groups, batch_rows, batch_bytes)
            return
        batch_rows = min(batch_rows, self._first_rows(names, groups, batch_bytes))
        micros = pq.ParquetFile(self._source, **_READING, coerce_int96_timestamp_unit="us")
        fine = [name for name in names if name not in self._coarse]
        parts = [_batches(micros, vague, groups, batch_rows)]
        if fine:
            parts.append(_batches(self._file, fine, groups, batch_rows))
        for in_micros, *exact in zip(*parts, strict=True):
            columns = dict(zip(vague, in_micros.columns, strict=True))
            for name, column in zip(fine, exact[0].columns if exact else (), strict=True):
                if name in columns:
                    self._check_range(name, column, columns[name])
                columns[name] = column
            yield pa.RecordBatch.from_arrays([columns[name] for name in names], names=names)

    def _check_range(self, name: str, nanos: Any, micros: Any) -> None:
        """Check that 64 bits hold the nanoseconds: pyarrow wraps larger ones.

        Java counts times before 1970 from the next day, with negative nanoseconds, which pyarrow
        reads as 584 years. The years 2262 to 2554 look alike; only the bytes distinguish them.
        """
        pairs = zip(_timestamps(nanos), _timestamps(micros), strict=True)
        for (unit, exact), (coarse_unit, coarse) in pairs:
            if unit == coarse_unit:  # an INT64 beside an INT96
                continue
            beyond = coarse - exact // _MICRO_NANOS
            of_java = (exact < 0) & ((beyond == _WRAPPED_MICROS) | (beyond == _WRAPPED_MICROS + 1))
            if ((beyond != 0) & ~of_java).any() or (of_java.any() and name in self._wide):
                raise FormatError(
                    f"Column '{name}' of data file '{self._path}' holds timestamps of more than 6"
                    " digits outside the years 1678 to 2261, which 64 bits do not hold. Leave the"
                    " column out, or change it to TIMESTAMP(6) where the table is written.",
                    kind="timestamp-range",
                    details={"path": self._path, "column": name},
                )

    @cached_property
    def _wide(self) -> frozenset[str]:
        """The INT96 columns with values beyond 64 bits of nanoseconds, by their bytes."""
        raw = parquet_times.with_int96_as_bytes(self._source, **_READING)
        names, groups = sorted(self._int96), [*range(raw.num_row_groups)]
        return frozenset(
            name
            for rows in _batches(raw, names, groups, _ROWS_FOR_THREADS)
            for name in names
            if parquet_times.is_wide(rows.column(name))
        )

    def _sized_batches(
        self, names: list[str], groups: list[int], batch_rows: int, batch_bytes: int
    ) -> Iterator[pa.RecordBatch]:
        first = min(batch_rows, self._first_rows(names, groups, batch_bytes))
        rows = first
        for batch in _batches(self._file, names, groups, first):
            row_bytes = max(1, batch.nbytes // max(1, batch.num_rows))
            next_rows = max(1, min(batch_rows, batch_bytes // row_bytes, _GROWTH * rows))
            if next_rows != rows:
                # The reader uses the new size from its next batch on.
                self._file.reader.set_batch_size(next_rows)
                rows = next_rows
            yield from short_batches([batch], batch_rows, batch_bytes)

    def _first_rows(self, names: list[str], groups: list[int], batch_bytes: int) -> int:
        """Estimate how many rows have so many bytes; few if a dictionary may hold long values."""
        metadata, widest = self._file.metadata, 1
        if metadata.num_rows * self._source.size() * _UNPACKED <= batch_bytes:
            return max(1, metadata.num_rows)  # without chunks, which may be damaged
        columns, stored = set(names), self._file.schema
        paths = (stored.column(number).path for number in range(len(stored)))
        leaves = [number for number, path in enumerate(paths) if path.partition(".")[0] in columns]
        sample = groups[:_GUESSED_GROUPS]
        with named_errors(self._path, self.title):
            for group, chunks in zip(sample, self._chunks.of(sample, leaves), strict=True):
                group_bytes = sum(chunk.total_uncompressed_size for chunk in chunks)
                row_bytes = group_bytes // max(1, metadata.row_group(group).num_rows)
                widest = max(widest, row_bytes + sum(map(_hidden_bytes, chunks)))
        return max(1, batch_bytes // widest)

    def _byte_ranges(self, names: list[str], groups: list[int]) -> Iterator[tuple[int, int]]:
        """Yield the ranges (start, end) of the columns' chunks."""
        paths = (leaf.path for leaf in map(self._file.schema.column, range(len(self._file.schema))))
        roots = tuple(f"{name}." for name in names)
        leaves = [n for n, path in enumerate(paths) if f"{path}.".startswith(roots)]
        for chunks in self._chunks.of(groups, leaves):
            for chunk in chunks:
                start = chunk.data_page_offset
                if chunk.has_dictionary_page and chunk.dictionary_page_offset is not None:
                    start = min(start, chunk.dictionary_page_offset)
                yield start, start + chunk.total_compressed_size

    @cached_property
    def _chunks(self) -> ColumnChunks:
        return ColumnChunks(self._source, self._file.metadata)

    def matching_row_groups(self, predicate: Predicate | None) -> list[int]:
        """Return the row groups whose statistics do not rule out every row."""
        groups = list(range(self._file.metadata.num_row_groups))
        if predicate is None:
            return groups
        return [
            group
            for group, bounds in zip(groups, self._bounds(fields_of(predicate)), strict=True)
            if may_match(predicate, bounds.__getitem__)
        ]

    def row_ranges(self, predicate: Predicate | None) -> Sequence[tuple[int, int]]:
        """Return the rows of the row groups in which a row may pass; see `FormatReader`."""
        metadata = self._file.metadata
        sizes = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
        ends = list(accumulate(sizes))
        return [
            (ends[group] - sizes[group], ends[group])
            for group in self.matching_row_groups(predicate)
        ]

    def column_bounds(self, name: str) -> Bounds:
        """Join the statistics of the row groups; see `FormatReader`."""
        return join_bounds(bounds[name] for bounds in self._bounds({name}))

    def _bounds(self, names: AbstractSet[str]) -> Iterator[defaultdict[str, Bounds]]:
        """Yield name → bounds in each row group; those of nested columns are unknown."""
        metadata, stored = self._file.metadata, self._file.schema_arrow
        leaves = self._leaf_positions(names)
        groups = range(metadata.num_row_groups)
        with named_errors(self._path, self.title):
            group_chunks = self._chunks.of(groups, [*leaves.values()])
            for group, chunks in zip(groups, group_chunks, strict=True):
                rows = metadata.row_group(group).num_rows
                # As stored, not as written: Parquet stores seconds as milliseconds.
                bounds = {
                    name: bounds_of(chunk, stored.field(name).type, rows)
                    for name, chunk in zip(leaves, chunks, strict=True)
                }
                yield defaultdict(lambda: UNKNOWN, bounds)

    def vague_timestamps(self) -> frozenset[str]:
        """Return the INT96 columns; see `FormatReader`."""
        return frozenset(_int96_paths(self._file))

    def _leaf_positions(self, names: AbstractSet[str]) -> dict[str, int]:
        leaves = self._file.schema
        paths = {leaves.column(number).path: number for number in range(len(leaves))}
        return {name: paths[name] for name in names if name in paths}


def _open_file(
    source: pa.NativeFile, metadata: Any = None, *, whole_bytes: int = _WHOLE_GROUP_BYTES
) -> pq.ParquetFile:
    """Open a file; columns of large row groups are read in pieces, those of small ones whole.

    A merge holds in memory one row group of each run, with the columns that it reads.
    """
    file = pq.ParquetFile(source, metadata=metadata, **_READING)
    if source.size() <= whole_bytes:
        return file
    metadata, leaves = file.metadata, range(len(file.schema))
    chunks, groups = ColumnChunks(source, metadata), range(metadata.num_row_groups)
    # A group that is small without compression is small.
    large = [n for n in groups if not 0 < metadata.row_group(n).total_byte_size <= whole_bytes]
    try:
        stored = [
            sum(chunk.total_compressed_size for chunk in group_chunks)
            for group_chunks in chunks.of(large, leaves)
        ]
    except (OSError, pa.ArrowException):  # perhaps of a column that is not read
        stored = [source.size()]
    if max(stored, default=0) <= whole_bytes:
        return file
    piece = max(_LEAST_PIECE_BYTES, min(_PIECE_BYTES, whole_bytes))
    return pq.ParquetFile(source, metadata=metadata, buffer_size=piece, **_READING)


def _hidden_bytes(chunk: Any) -> int:
    """Return how long a dictionary value of a column may be, which many rows may share."""
    if chunk.physical_type != "BYTE_ARRAY" or not chunk.has_dictionary_page:
        return 0
    statistics = chunk.statistics
    if statistics is not None and statistics.has_min_max:
        return max(len(statistics.min_raw), len(statistics.max_raw))
    if statistics is not None and statistics.null_count == chunk.num_values:
        return 0
    return min(_LONG_VALUE, int(chunk.total_uncompressed_size))


def _batches(
    file: pq.ParquetFile, names: list[str], groups: list[int], batch_rows: int
) -> Iterator[pa.RecordBatch]:
    threads = file.metadata.num_rows > _ROWS_FOR_THREADS and pa.cpu_count() > 1
    missing = sum(file.metadata.row_group(group).num_rows for group in groups)
    for batch in file.iter_batches(
        batch_size=batch_rows, row_groups=groups, columns=names, use_threads=threads
    ):
        missing -= batch.num_rows
        yield batch
    if missing:  # pyarrow ends at the end of the first column
        raise pa.ArrowInvalid(f"its footer says {missing} rows more than its columns hold")


def _writer_schema(file: pq.ParquetFile) -> pa.Schema | None:
    """Return the Arrow schema in the file's metadata, from an Arrow writer."""
    data = (file.metadata.metadata or {}).get(b"ARROW:schema")
    return None if data is None else pa.ipc.read_schema(pa.py_buffer(base64.b64decode(data)))


def _schema_as_written(file: pq.ParquetFile) -> pa.Schema:
    """Return the columns with the timestamp units of an Arrow writer; INT96 has none."""
    schema = file.schema_arrow
    if not any(map(pat.is_timestamp, schema.types)):
        return schema
    written = _writer_schema(file)
    if written is None:
        return schema
    for number, field in enumerate(schema):
        if pat.is_timestamp(field.type) and field.name in written.names:
            as_written = written.field(field.name).type
            if pat.is_timestamp(as_written) and as_written.unit != field.type.unit:
                arrow_type = pa.timestamp(as_written.unit, field.type.tz)
                schema = schema.set(number, field.with_type(arrow_type))
    return schema


def _int96_paths(file: pq.ParquetFile) -> list[str]:
    leaves = file.schema
    columns = (leaves.column(number) for number in range(len(leaves)))
    return [leaf.path for leaf in columns if leaf.physical_type == "INT96"]


def _int96_names(file: pq.ParquetFile) -> frozenset[str]:
    """Return the columns that hold INT96, at any depth."""
    paths = _int96_paths(file)
    return frozenset(
        name
        for name in (file.schema_arrow.names if paths else ())
        if any(path == name or path.startswith(f"{name}.") for path in paths)
    )


def _written_coarse(file: pq.ParquetFile, int96: frozenset[str]) -> frozenset[str]:
    """Return the INT96 columns that were written from units coarser than nanoseconds."""
    written = _writer_schema(file) if int96 else None
    if written is None:
        return frozenset()
    return frozenset(
        name
        for name in int96
        if name in written.names and not has_unit(written.field(name).type, nanoseconds=True)
    )


def _timestamps(column: Any) -> Iterator[Any]:
    """Yield unit and numbers of every timestamp array in a column; nulls are 0."""
    if pa.types.is_timestamp(column.type):
        yield column.type.unit, to_numpy(column.cast(pa.int64()).fill_null(0))
    elif pa.types.is_map(column.type):
        yield from _timestamps(column.keys)
        yield from _timestamps(column.items)
    elif pa.types.is_struct(column.type) or pa.types.is_list(column.type):
        parts = column.flatten()
        for part in parts if isinstance(parts, list) else [parts]:
            yield from _timestamps(part)


def _with_statistics(schema: pa.Schema) -> list[str]:
    """Return the columns that get statistics: flat ones without floating-point numbers.

    pyarrow's statistics leave out NaN, which is above all numbers in filters of Java and Spark, so
    these would skip it. The statistics of whole files, in manifests, take NaN into account.
    """
    return [
        field.name
        for field in schema
        if not pat.is_nested(field.type) and not pat.is_floating(field.type)
    ]


class ParquetWriter(FormatWriter):
    """One Parquet file being written."""

    def __init__(self, file: FileToWrite) -> None:
        """Create the file; `open_writer` of `data.format.formats` is the usual way here."""
        self._sink = file.file_io.open_output(file.path)
        self._schema, options = file.schema, file.options
        fine, coarse = (
            any(has_unit(field.type, nanoseconds=each) for field in file.schema)
            for each in (True, False)
        )
        self._two_kinds = TwoKinds(self._sink, file.schema) if fine and coarse else None
        level = options.get(FILE_COMPRESSION_ZSTD_LEVEL)
        self._options: dict[str, Any] = {
            "compression": file.codec,
            "compression_level": level if file.codec == "zstd" else None,
            "data_page_size": options.get(PARQUET_PAGE_SIZE),
            "store_decimal_as_integer": True,
            "data_page_version": "1.0",
            "write_page_checksum": True,
            "write_page_index": True,  # by which Spark and Java skip pages
            "version": "2.6",
            "use_deprecated_int96_timestamps": fine,
            "store_schema": self._two_kinds is None,
            "write_statistics": _with_statistics(file.schema) or False,
        }
        self._dictionaries = options.get(PARQUET_ENABLE_DICTIONARY)
        self._group_bytes = options.get(FILE_BLOCK_SIZE) or options.get(PARQUET_BLOCK_SIZE)
        self._writer: pq.ParquetWriter | None = None

    def _open_writer(self, first_rows: pa.Table) -> pq.ParquetWriter:
        """Open the encoder; the first rows decide which columns get dictionaries."""
        if self._writer is None:
            dictionaries = dictionary_columns(first_rows) if self._dictionaries else False
            sink = self._two_kinds
            self._writer = pq.ParquetWriter(
                self._sink if sink is None else sink,  # type: ignore[arg-type]  # it is written to
                self._schema if sink is None else sink.stored,
                **self._options,
                use_dictionary=dictionaries,  # type: ignore[arg-type]  # a list
            )
        return self._writer

    def write(self, rows: pa.Table | pa.RecordBatch) -> None:
        """Append rows in row groups of at most `ROW_GROUP_ROWS`, half of that if rows are few.

        Every call ends a row group, so write many rows at a time.
        """
        table = rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows])
        if table.num_rows:
            fitting = self._group_bytes * table.num_rows // max(1, table.nbytes)
            is_small = table.num_rows <= _SMALL_GROUPS * _SMALL_GROUP_ROWS
            rows_of_group = max(1, min(_SMALL_GROUP_ROWS if is_small else ROW_GROUP_ROWS, fitting))
            whole = without_nulls_below(table)
            stored = whole if self._two_kinds is None else self._two_kinds.rows(whole)
            self._open_writer(table).write_table(stored, row_group_size=rows_of_group)

    def close(self) -> int:
        """Write the footer and return the file's exact size in bytes."""
        writer = self._writer or self._open_writer(self._schema.empty_table())
        if self._two_kinds is None:
            writer.close()
        else:
            writer.add_key_value_metadata(self._two_kinds.note)
            self._two_kinds.hold_back()
            writer.close()
            self._two_kinds.finish()
        return super().close()

    def abort(self) -> None:
        """Close the storage without a footer; the caller deletes the file."""
        if self._writer is not None:
            self._writer.is_open = False  # or it would write the footer when collected
        super().abort()


class ParquetPiece(ParquetReader):
    """The row groups of an open file whose middle byte is in `[start, end)`.

    If ranges cover the whole file, each row group is in one of them.
    """

    def __init__(self, file: FileToRead, start: int, end: int) -> None:
        """Open the file; see `FormatReader`."""
        super().__init__(file)
        self._start, self._end = start, end

    @property
    def file_bytes(self) -> int:
        """The size of the whole file."""
        return int(self._source.size())

    @property
    def footer(self) -> Any:
        """The `pyarrow.parquet.FileMetaData` of the whole file."""
        return self._file.metadata

    def matching_row_groups(self, predicate: Predicate | None) -> list[int]:
        """Return those of the piece in which a row may pass."""
        groups = super().matching_row_groups(predicate)
        if self._start == 0 and self._end >= self.file_bytes:
            return groups
        last, leaves, own = self.file_bytes - 1, range(len(self._file.schema)), []
        with named_errors(self._path, self.title):
            for group, chunks in zip(groups, self._chunks.of(groups, leaves), strict=True):
                first = min(chunks[0].data_page_offset, chunks[0].dictionary_page_offset or last)
                middle = first + sum(chunk.total_compressed_size for chunk in chunks) // 2
                if self._start <= min(middle, last) < self._end:
                    own.append(group)
        return own


FORMAT = FileFormat(
    name="parquet",
    reader=ParquetReader,
    writer=ParquetWriter,
    codecs=frozenset({"zstd", "snappy", "gzip", "lz4", "brotli", "none"}),
    missing_types=frozenset(),
)
