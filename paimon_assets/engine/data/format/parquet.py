"""Parquet data files through pyarrow: row-group pruning, projection, batches.

`parquet_writer` writes them, `parquet_times` has the units of their timestamps.
"""

from __future__ import annotations

import base64
import io
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from functools import cached_property, partial
from itertools import accumulate
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pat

from paimon_assets.engine.codec import parquet_footer
from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_type
from paimon_assets.engine.codec.arrow.arrow_values import UNIT_NANOS
from paimon_assets.engine.codec.parquet_footer import count_whole_bounds
from paimon_assets.engine.codec.row_files import check_names
from paimon_assets.engine.data.format import base
from paimon_assets.engine.data.format.calendars import FIRST_GREGORIAN_MICROS, JulianTimes
from paimon_assets.engine.data.format.parquet_times import (
    has_unit,
    in_micros,
    is_wide,
    leaf_times,
    timestamps,
)
from paimon_assets.engine.data.format.parquet_writer import ParquetWriter
from paimon_assets.engine.data.nested import changed_field
from paimon_assets.engine.errors import FormatError
from paimon_assets.engine.spec.predicate.predicate import Predicate, fields_of
from paimon_assets.engine.spec.predicate.prune import UNKNOWN, Bounds, may_match

_READING: dict[str, Any] = {
    "pre_buffer": False,
    "page_checksum_verification": True,
    "arrow_extensions_enabled": False,  # UUID is 16 bytes, JSON a text, as for other readers
}

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
_SPARKS = frozenset({b"org.apache.spark.version", b"org.apache.spark.sql.parquet.row.metadata"})
"""Keys of footers that Spark wrote: its timestamps are microseconds, also as INT96."""
_ROWS_FOR_THREADS = 8192
"""A file of fewer rows is decoded faster than threads start."""


class ParquetReader(base.FormatReader):
    title = "Parquet"
    _undated: AbstractSet[str] = frozenset()  # INT96 whose calendar before 1582 is unknown

    def _columns(self, file: base.FileToRead) -> pa.Schema:
        self._file = _open_file(self._source)
        schema = _schema_as_written(self._file)
        check_names(schema.names)
        leaves: Any = self._file.schema
        self._int96 = frozenset(
            root
            for leaf, root in zip(leaves, self._roots, strict=True)
            if leaf.physical_type == "INT96"
        )
        self._julian = JulianTimes.of_parquet(self._file.metadata.metadata, self._path)
        written = _writer_schema(self._file) if self._int96 else None
        if self._int96 and not _SPARKS.isdisjoint(self._file.metadata.metadata or ()):
            written = schema = pa.schema([changed_field(each, in_micros) for each in schema])
        elif self._int96 and file.declared is not None:
            # Declared of up to 6 digits: the rest would be cut, and microseconds hold all years.
            types = {each.name: to_arrow_type(each.type) for each in file.declared.fields}
            coarse = {name for name in types if not has_unit(types[name], nanoseconds=True)}
            if written is None:  # Arrow's writers count Gregorian days
                self._undated = self._int96 & coarse
            fields = (changed_field(f, in_micros) if f.name in coarse else f for f in schema)
            written = schema = pa.schema(fields)
        # INT96 columns that were written from units coarser than nanoseconds.
        self._coarse = frozenset(
            name
            for name in self._int96
            if written is not None
            and name in written.names
            and not has_unit(written.field(name).type, nanoseconds=True)
        )
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
        self._plan(names, groups, batch_bytes)
        if batch_bytes < _WHOLE_GROUP_BYTES:
            self._file = _open_file(self._source, self._file.metadata, whole_bytes=batch_bytes)
        for batch in self._decode(names, groups, batch_rows, batch_bytes):
            rows = batch if batch.schema.names == names else batch.select(names)
            yield rows if self._julian is None else self._gregorian(rows, self._julian)

    def _gregorian(self, rows: pa.RecordBatch, julian: JulianTimes) -> pa.RecordBatch:
        columns = [
            julian.mend(column, name, is_int96=name in self._int96)
            for name, column in zip(rows.schema.names, rows.columns, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=rows.schema)

    def prepare(
        self, columns: Sequence[str], predicate: Predicate | None, batch_bytes: int
    ) -> None:
        if self._open_ranged is not None and (groups := self.matching_row_groups(predicate)):
            self._plan(list(columns), groups, batch_bytes)
            self._open_ranged.send_first()

    def _plan(self, names: list[str], groups: list[int], batch_bytes: int) -> None:
        if self._open_ranged is not None:
            most_bytes = max(_PIECE_BYTES, min(batch_bytes, _MOST_FETCHED))
            self._open_ranged.plan(self._byte_ranges(names, groups), most_bytes)

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
        for coarse, *exact in zip(*parts, strict=True):
            columns = dict(zip(vague, coarse.columns, strict=True))
            for name in self._undated & columns.keys():
                self._check_calendar(name, columns[name])
            for name, column in zip(fine, exact[0].columns if exact else (), strict=True):
                if name in columns:
                    self._check_range(name, column, columns[name])
                columns[name] = column
            yield pa.RecordBatch.from_arrays([columns[name] for name in names], names=names)

    def _check_calendar(self, name: str, micros: Any) -> None:
        if any(counts.min(initial=0) < FIRST_GREGORIAN_MICROS for _, counts in timestamps(micros)):
            message = (
                f"Column '{name}' of data file '{self._path}' has INT96 before 1582-10-15, of which"
                " the calendar is unknown. Leave the column out, or write INT64."
            )
            raise FormatError(message, kind="int96-calendar", path=self._path, column=name)

    def _check_range(self, name: str, nanos: Any, micros: Any) -> None:
        """Check that 64 bits hold the nanoseconds: pyarrow wraps larger ones.

        Java counts times before 1970 from the next day, with negative nanoseconds, which pyarrow
        reads as 584 years. The years 2262 to 2554 look alike; only the bytes distinguish them.
        """
        pairs = zip(timestamps(nanos), timestamps(micros), strict=True)
        for (unit, exact), (coarse_unit, coarse) in pairs:
            if unit == coarse_unit:  # an INT64 beside an INT96
                continue
            beyond = coarse - exact // _MICRO_NANOS
            of_java = (exact < 0) & ((beyond == _WRAPPED_MICROS) | (beyond == _WRAPPED_MICROS + 1))
            if ((beyond != 0) & ~of_java).any() or (of_java.any() and name in self._wide):
                message = (
                    f"Column '{name}' of data file '{self._path}' holds timestamps of more than 6"
                    " digits outside the years 1678 to 2261, which 64 bits do not hold. Leave the"
                    " column out, or declare it as TIMESTAMP(6)."
                )
                raise FormatError(message, kind="timestamp-range", path=self._path, column=name)

    @cached_property
    def _wide(self) -> frozenset[str]:
        """The INT96 columns with values beyond 64 bits of nanoseconds, by their bytes."""
        # The same file with another footer, in which INT96 columns have 12 bytes a value.
        tail = parquet_footer.int96_as_bytes(self._tail)
        metadata = pq.read_metadata(pa.BufferReader(tail[-4:] + tail))
        raw = pq.ParquetFile(self._source, metadata=metadata, **_READING)
        names, groups = sorted(self._int96), [*range(raw.num_row_groups)]
        return frozenset(
            name
            for rows in _batches(raw, names, groups, _ROWS_FOR_THREADS)
            for name in names
            if is_wide(rows.column(name))
        )

    @cached_property
    def _tail(self) -> bytes:
        """The footer, and the bytes behind it."""
        size, source = self._source.size(), cast(Any, self._source)  # the stubs lack an argument
        footer = int.from_bytes(source.read_at(4, size - _FOOTER_END), "little") + _FOOTER_END
        return bytes(source.read_at(footer, size - footer))

    def _has_order(self, column: Any) -> bool:
        """Whether the bounds of a flat column are in the order of its values."""
        is_decimal, is_variable = (
            column.converted_type == "DECIMAL", column.physical_type == "BYTE_ARRAY",
        )  # fmt: skip
        if is_variable or column.physical_type == "FIXED_LEN_BYTE_ARRAY":
            # Writers disagree about decimals of a length that varies.
            return self._has_byte_order[is_decimal] and not (is_decimal and is_variable)
        return not column.converted_type.startswith("UINT") or self._has_byte_order[False]

    @cached_property
    def _has_byte_order(self) -> tuple[bool, bool]:
        """Whether bounds of bytes are in their order, and those of decimals in bytes."""
        has_order = partial(parquet_footer.has_order, self._tail, self._file.metadata.created_by)
        return has_order(of_decimals=False), has_order(of_decimals=True)

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
            yield from base.short_batches([batch], batch_rows, batch_bytes)

    def _first_rows(self, names: list[str], groups: list[int], batch_bytes: int) -> int:
        """Estimate how many rows have so many bytes; few if a dictionary may hold long values."""
        metadata, widest = self._file.metadata, 1
        if metadata.num_rows * self._source.size() * _UNPACKED <= batch_bytes:
            return max(1, metadata.num_rows)  # without chunks, which may be damaged
        sample, leaves = groups[:_GUESSED_GROUPS], self._leaves(names)
        with base.named_errors(self._path, self.title):
            for group, chunks in zip(sample, self._chunks(sample, leaves), strict=True):
                group_bytes = sum(chunk.total_uncompressed_size for chunk in chunks)
                row_bytes = group_bytes // max(1, metadata.row_group(group).num_rows)
                widest = max(widest, row_bytes + sum(map(_hidden_bytes, chunks)))
        return max(1, batch_bytes // widest)

    def _byte_ranges(self, names: list[str], groups: list[int]) -> Iterator[tuple[int, int]]:
        for chunks in self._chunks(groups, self._leaves(names)):
            for chunk in chunks:
                start = chunk.data_page_offset
                if chunk.has_dictionary_page and chunk.dictionary_page_offset is not None:
                    start = min(start, chunk.dictionary_page_offset)
                yield start, start + chunk.total_compressed_size

    @cached_property
    def _paths(self) -> list[str]:
        leaves: Any = self._file.schema
        return [leaf.path for leaf in leaves]

    @cached_property
    def _roots(self) -> list[str]:
        """The column of each leaf: the path of a column `a.b` is that of field b of column a."""
        roots = [field.name for field in self._file.schema_arrow for _ in leaf_times(field.type)]
        if len(roots) == len(self._paths):
            return roots
        return [path.partition(".")[0] for path in self._paths]

    def _leaves(self, names: Sequence[str]) -> list[int]:
        roots = tuple(f"{name}." for name in names)
        return [n for n, path in enumerate(self._paths) if f"{path}.".startswith(roots)]

    def _chunks(self, groups: Sequence[int], leaves: Sequence[int]) -> Iterator[list[Any]]:
        return _column_chunks(self._source, self._file.metadata, groups, leaves)

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
        metadata = self._file.metadata
        sizes = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
        ends = list(accumulate(sizes))
        return [
            (ends[group] - sizes[group], ends[group])
            for group in self.matching_row_groups(predicate)
        ]

    def column_bounds(self, name: str) -> Bounds:
        return _join_bounds(bounds[name] for bounds in self._all_bounds)

    @cached_property
    def _all_bounds(self) -> list[defaultdict[str, Bounds]]:
        return list(self._bounds({*self._paths}))

    def check_encodings(self, names: Sequence[str]) -> None:
        with base.named_errors(self._path, self.title):
            unknown = self._chunk_faults[1].intersection(self._leaves(names))
            for leaf in sorted(unknown):
                raise pa.ArrowInvalid(
                    f"column '{self._roots[leaf]}' has a codec or an encoding that is not supported"
                )

    def _check_bounds(self, columns: Mapping[str, Any], groups: int) -> None:
        """Refuse bounds that are shorter than their type, with which Arrow ends the process."""
        widths = {name: _width_of(column) for name, column in columns.items()}
        is_sure = len(columns) <= _FEW_COLUMNS and all(
            not width or count_whole_bounds(self._tail, name, width) == groups
            for name, width in widths.items()
        )
        if not is_sure and self._chunk_faults[0]:  # by a walk over the whole footer
            message = (
                "its footer has bounds that are shorter than their type: it is damaged. Write the"
                " file again, or restore it from a backup."
            )
            raise pa.ArrowInvalid(message)

    @cached_property
    def _chunk_faults(self) -> tuple[bool, set[int]]:
        leaves: Any = self._file.schema
        widths = [_width_of(leaf) for leaf in leaves]
        try:
            return parquet_footer.chunk_faults(self._tail, widths)
        except IndexError as error:
            raise pa.ArrowInvalid("its footer ends too early") from error

    def _bounds(self, names: AbstractSet[str]) -> Iterator[defaultdict[str, Bounds]]:
        """Yield name → bounds in each row group; those of nested columns are unknown."""
        metadata, stored = self._file.metadata, self._file.schema_arrow
        leaves: dict[str, int] = {}
        columns: dict[str, Any] = {}
        groups = range(metadata.num_row_groups)
        with base.named_errors(self._path, self.title):
            for leaf, (path, root) in enumerate(zip(self._paths, self._roots, strict=True)):
                is_asked = path in names and path == root
                column: Any = self._file.schema.column(leaf) if is_asked else None
                if column is not None and not column.max_repetition_level:  # lists are never null
                    leaves[path], columns[path] = leaf, column
            self._check_bounds(columns, len(groups))
            has_order = {name: self._has_order(column) for name, column in columns.items()}
            group_chunks = self._chunks(groups, [*leaves.values()])
            for group, chunks in zip(groups, group_chunks, strict=True):
                rows = metadata.row_group(group).num_rows
                bounds = {}
                for name, chunk in zip(leaves, chunks, strict=True):
                    # As stored, not as written: Parquet stores seconds as milliseconds.
                    column = stored.field(name)
                    bounds[name] = _bounds_of(chunk, column, rows, has_order=has_order[name])
                    if self._julian is not None:
                        is_int96 = name in self._int96
                        bounds[name] = self._julian.bounds(
                            bounds[name], column.type, is_int96=is_int96
                        )
                yield defaultdict(lambda: UNKNOWN, bounds)

    def vague_timestamps(self) -> frozenset[str]:
        return self._int96.intersection(self._paths)


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
    sizes = (metadata.row_group(n).total_byte_size for n in range(metadata.num_row_groups))
    # A group that is small without compression is small.
    large = [group for group, size in enumerate(sizes) if not 0 < size <= whole_bytes]
    try:
        stored = [
            sum(chunk.total_compressed_size for chunk in chunks)
            for chunks in _column_chunks(source, metadata, large, leaves)
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
        raise pa.ArrowInvalid(f"its footer counts {missing} rows more than its columns hold")


def _writer_schema(file: pq.ParquetFile) -> pa.Schema | None:
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


class ParquetPiece(ParquetReader):
    """The row groups of an open file whose middle byte is in `[start, end)`.

    If ranges cover the whole file, each row group is in one of them.
    """

    def __init__(self, file: base.FileToRead, start: int, end: int) -> None:
        super().__init__(file)
        self._start, self._end = start, end

    @property
    def file_bytes(self) -> int:
        return int(self._source.size())

    @property
    def footer(self) -> Any:
        return self._file.metadata

    def matching_row_groups(self, predicate: Predicate | None) -> list[int]:
        """Return those of the piece in which a row may pass."""
        groups = super().matching_row_groups(predicate)
        if self._start == 0 and self._end >= self.file_bytes:
            return groups
        last, leaves, own = self.file_bytes - 1, range(len(self._file.schema)), []
        with base.named_errors(self._path, self.title):
            for group, chunks in zip(groups, self._chunks(groups, leaves), strict=True):
                first = min(chunks[0].data_page_offset, chunks[0].dictionary_page_offset or last)
                middle = first + sum(chunk.total_compressed_size for chunk in chunks) // 2
                if self._start <= min(middle, last) < self._end:
                    own.append(group)
        return own


FORMATS = (
    base.FileFormat(
        name="parquet",
        reader=ParquetReader,
        writer=ParquetWriter,
        codecs=frozenset({"zstd", "snappy", "gzip", "lz4", "brotli", "none"}),
        missing_types=frozenset(),
    ),
)


class _AtBytesError(Exception):
    """All chunks are located: the read continues to their bytes."""


class _NoBytes(io.RawIOBase):
    """A file with a size and no bytes."""

    def __init__(self, size: int) -> None:
        self._size, self._at = size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + (0, self._at, self._size)[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, size: int = -1) -> bytes:
        raise _AtBytesError(size)


def _column_chunks(
    source: pa.NativeFile, metadata: Any, groups: Sequence[int], leaves: Sequence[int]
) -> Iterator[list[Any]]:
    """Yield the chunks of some leaves in each of some row groups; a damaged one raises.

    When pyarrow gets a chunk or its statistics, nothing catches Arrow's C++ exceptions: the process
    ends. But a read with `pre_buffer` first locates all of its chunks, and there they are caught.
    So such a read is started on a file that has a size and no bytes. A statistics value that is
    shorter than its type still ends the process when it is read; see `_check_bounds`.

    Cost:
        About 150 microseconds, and one more a chunk. Nothing is cached.
    """
    if not leaves or not groups:
        yield from ([] for _ in groups)
        return
    no_bytes = pa.PythonFile(_NoBytes(source.size()), mode="r")
    file = pq.ParquetFile(no_bytes, metadata=metadata, pre_buffer=True)
    kinds = [file.schema.column(leaf).physical_type for leaf in leaves]
    with suppress(_AtBytesError):
        next(file.reader.iter_batches(0, list(groups), list(leaves), False), None)  # noqa: FBT003
    del file, no_bytes  # whose C++ holds the error, whose traceback holds this frame
    for group in groups:
        row_group = metadata.row_group(group)
        chunks = [row_group.column(leaf) for leaf in leaves]
        for chunk, leaf, kind in zip(chunks, leaves, kinds, strict=True):
            if chunk.physical_type != kind:
                raise pa.ArrowInvalid(
                    f"column {leaf} is {chunk.physical_type} in row group {group}, and"
                    f" {kind} in the schema"
                )
        yield chunks


def _bounds_of(chunk: Any, column: Any, row_count: int, *, has_order: bool) -> Bounds:
    statistics = chunk.statistics
    if statistics is None:
        return UNKNOWN
    nulls = statistics.null_count if statistics.has_null_count else None
    data_type, most_nulls = column.type, row_count if column.nullable else 0
    if nulls is not None and not 0 <= nulls <= most_nulls:
        nulls = None
    if nulls == row_count and statistics.has_min_max:  # of which value?
        return Bounds(row_count=row_count)
    if not has_order or not statistics.has_min_max or pa.types.is_floating(data_type):
        # Statistics of floating-point columns leave out NaN, so they are not bounds.
        return Bounds(null_count=nulls, row_count=row_count)
    is_time = pa.types.is_temporal(data_type)  # some are outside Python's range
    try:
        low = _internal(None if is_time else statistics.min, statistics.min_raw, data_type)
        high = _internal(None if is_time else statistics.max, statistics.max_raw, data_type)
    except UnicodeDecodeError:  # bytes that became a STRING need not be one
        low = high = None
    # Some writers have an empty text where they have no bound.
    is_wrong = low is not None and high is not None and (low > high or high in ("", b""))
    if is_wrong:
        low = high = None
    return Bounds(minimum=low, maximum=high, null_count=nulls, row_count=row_count)


def _join_bounds(parts: Iterable[Bounds]) -> Bounds:
    """Return the bounds of several row groups together, unknown if one of them is."""
    groups = [part for part in parts if part.row_count != 0]
    if any(part.row_count is None for part in groups):
        return UNKNOWN
    values = [part for part in groups if part.null_count != part.row_count]
    lows = [part.minimum for part in values]
    highs = [part.maximum for part in values]
    nulls = [part.null_count for part in groups]
    return Bounds(
        minimum=None if not lows or None in lows else min(lows),
        maximum=None if not highs or None in highs else max(highs),
        null_count=None if None in nulls else sum(count for count in nulls if count),
        row_count=sum(part.row_count or 0 for part in groups),
    )


def _internal(value: Any, raw: Any, data_type: Any) -> Any:
    """Convert a statistics value to an internal value of `spec.types.literals`; None if unknown."""
    if pat.is_timestamp(data_type):
        return raw * UNIT_NANOS[data_type.unit] if isinstance(raw, int) else None
    if pat.is_date32(data_type):
        return raw
    if pat.is_time32(data_type):
        return raw if data_type.unit == "ms" else None
    if isinstance(value, bytes) and pat.is_string(data_type):  # JSON
        return value.decode()
    return value if any(is_kind(data_type) for is_kind in _PLAIN_KINDS) else None


def _width_of(leaf: Any) -> int:
    return int(_WIDTHS.get(leaf.physical_type, leaf.length))


_FEW_COLUMNS = 16
"""Of more columns a walk over the footer is no slower than a search for each."""
_WIDTHS = {
    "BOOLEAN": 1,
    "INT32": 4,
    "FLOAT": 4,
    "INT64": 8,
    "DOUBLE": 8,
    "INT96": 12,
    "BYTE_ARRAY": 0,
}
"""Physical type → the least bytes of a value."""
_PLAIN_KINDS = (
    pat.is_integer, pat.is_boolean, pat.is_decimal, pat.is_string, pat.is_large_string,
    pat.is_binary, pat.is_large_binary,
)  # fmt: skip
"""Types whose statistics pyarrow returns as internal values."""

_FOOTER_END = 8
