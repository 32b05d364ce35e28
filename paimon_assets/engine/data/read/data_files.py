"""FileRead: the data files of a split as batches of the read schema.

file index (may a row pass?) ─▶ file bytes ─▶ FormatReader (row groups, projection)
    ─▶ live rows (deletion vector) ─▶ FieldMapping (ids, names, types)

Deleted rows are dropped by their position, which counts all rows of the file from 0, also those
that are not decoded; so before any filter, and before columns are converted: a deleted value need
not fit.
Source: `org.apache.paimon.deletionvectors.ApplyDeletionVectorReader`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from paimon_assets.engine import errors
from paimon_assets.engine.codec.arrow.numpy_columns import from_numpy
from paimon_assets.engine.codec.rows.data_file_row import value_bounds
from paimon_assets.engine.contract.context import ReadContext
from paimon_assets.engine.contract.split import DataSplit, DeletionFile
from paimon_assets.engine.data.casting.casting import CastSettings
from paimon_assets.engine.data.field_mapping import FieldMapping, file_schema_of
from paimon_assets.engine.data.format import base
from paimon_assets.engine.data.format.formats import reader_of
from paimon_assets.engine.data.threads import CALLER_ONLY, Threads
from paimon_assets.engine.fileio.base import OBJECT_SCHEMES, FileIO
from paimon_assets.engine.spec.metadata.data_file import BLOB_FORMAT, INDEX_SUFFIX, DataFileMeta
from paimon_assets.engine.spec.options import all_options as opt
from paimon_assets.engine.spec.predicate.predicate import Predicate
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.spec.segments.segment import is_external
from paimon_assets.engine.spec.types.data_types import DataField, TypeRoot
from paimon_assets.engine.spec.values import Value

if TYPE_CHECKING:
    from paimon_assets.engine.codec.bitmaps.deletion_vector import DeletionVector


_WITH_FOOTERS = frozenset({"parquet", "orc"})
_READ_THROUGH = frozenset({"avro"})
"""Formats whose files are read from their start to their end."""
_PLANNED = _WITH_FOOTERS | _READ_THROUGH
OPENED = 16
"""Files of a split whose footers an object store is asked for at once."""
PREPARED = 12
"""Files of which an object store sends the first chunks beforehand."""

_UNKNOWN = errors.FormatError("")


def open_ahead(split: DataSplit, file_io: FileIO, files: Sequence[DataFileMeta]) -> None:
    for fixed in (True, False):
        ends = [
            (split.path_of(file), file.file_size)
            for file in files
            if file.file_format in _WITH_FOOTERS and (file.external_path is None) is fixed
        ]
        file_io.open_ahead(ends, fixed=fixed)


class FileRead(Value, dict=True):
    context: ReadContext
    split: DataSplit
    file_io: FileIO
    fields: tuple[DataField, ...]
    """Columns of the read schema, matched by field id."""
    system_fields: tuple[DataField, ...] = ()
    """System columns, matched by name; they follow `fields`."""
    predicate: Predicate | None
    """Rules out ranges of a file's rows; the rest is not filtered."""
    batch_rows: int
    threads: Threads = CALLER_ONLY
    runs: int = 1
    """How many of the split's runs are read at once, and share the memory of batches."""

    def batches(
        self, file: DataFileMeta, *, with_deleted: bool = False, with_positions: bool = False
    ) -> Generator[pa.RecordBatch, None, None]:
        """Yield a file's rows in file order; the file is open while the iterator lives."""
        path = self.split.path_of(file)
        mapping = self._mapping(file, path)
        prepared = self._prepare_readers.pop(path, _UNKNOWN)
        if prepared is _UNKNOWN:
            prepared = self._open(file, mapping, path) if self._may_match(file, mapping) else None
        if isinstance(prepared, errors.PaimonError):
            raise prepared
        if isinstance(prepared, pa.NativeFile):
            prepared = self._open(file, mapping, path, prepared)
        if not isinstance(prepared, base.FormatReader):
            return
        with prepared as reader:
            self._check_blobs(file, reader.schema.names)
            mapping = mapping.without_absent(reader.schema.names)
            mapping.check_columns(reader.schema.names)
            predicate = mapping.file_predicate(self.predicate)
            decoded = reader.batches(
                mapping.file_columns,
                predicate=predicate,
                batch_rows=self.batch_rows,
                batch_bytes=self._batch_bytes,
            )
            if with_positions:
                decoded = with_positions_of(decoded, reader.row_ranges(predicate))
            vector = None if with_deleted else self.deletion_vector(file)
            if vector is not None:
                decoded = live_rows(decoded, [vector], reader.row_ranges(predicate))
            mapped = _map_with_positions if with_positions else FieldMapping.apply_all
            yield from mapped(mapping, decoded, self.threads)

    def following(self, files: Sequence[DataFileMeta]) -> Iterator[DataFileMeta]:
        """Yield files to read one after the other; the next ones are prepared, if all are read."""
        for number, file in enumerate(files):
            if self.predicate is None:
                self.prepare(files[number + 1 : number + 3])
            yield file

    def prepare(self, files: Sequence[DataFileMeta]) -> None:
        """Open files that are read soon, and let an object store send their first chunks.

        Memory: with all reads of the process, as many bytes as `read.prefetch-memory`.
        """
        if not self._is_far:
            return
        fresh = [
            file
            for file in files
            if file.file_format in _PLANNED
            and self.split.path_of(file) not in self._prepare_readers
        ]
        if 2 * len(fresh) < len(files):
            return  # some at a time, so that their requests are sent side by side
        open_ahead(self.split, self.file_io, fresh)
        indexes = filter(None, map(self._index_path, fresh)) if self.predicate is not None else ()
        with self.file_io.ahead(reads=indexes):
            for file in fresh:
                path = self.split.path_of(file)
                try:
                    self._prepare_readers[path] = self._prepare(file, path)
                except errors.PaimonError as error:
                    self._prepare_readers[path] = error

    def _prepare(self, file: DataFileMeta, path: str) -> base.FormatReader | pa.NativeFile | None:
        mapping = self._mapping(file, path)
        if not self._may_match(file, mapping):
            return None
        if file.file_format in _READ_THROUGH:
            source = base.open_data_file(self.file_io, path, file.file_size)
            from paimon_assets.engine.fileio.ranged import read_through

            read_through(source, ahead_bytes=self._ahead_bytes)
            return source
        reader = self._open(file, mapping, path)
        predicate = mapping.file_predicate(self.predicate)
        columns = mapping.without_absent(reader.schema.names).file_columns
        reader.prepare(columns, predicate, self._batch_bytes)
        return reader

    @cached_property
    def _ahead_bytes(self) -> tuple[int, int]:
        """(Of all files of the process, of one file) that object stores are asked for ahead."""
        most_bytes = self.context.schema.typed_options.get(opt.READ_PREFETCH_MEMORY)
        return most_bytes, most_bytes // max(2, self.runs)

    @cached_property
    def _is_far(self) -> bool:
        return self.file_io.spec.scheme in OBJECT_SCHEMES

    @cached_property
    def _prepare_readers(
        self,
    ) -> dict[str, base.FormatReader | pa.NativeFile | errors.PaimonError | None]:
        """Open files; None where no row may pass; errors to raise where the rows are due."""
        return {}

    def bytes_to_decode(self, file: DataFileMeta) -> int:
        """Estimate the bytes of a file that hold rows that may pass; reads its footer."""
        if file.file_format != "parquet":  # other formats are read whole
            return file.file_size
        path = self.split.path_of(file)
        mapping = self._mapping(file, path)
        if not self._may_match(file, mapping):
            return 0
        with self._open(file, mapping, path) as reader:
            ranges = reader.row_ranges(mapping.file_predicate(self.predicate))
        rows = sum(end - start for start, end in ranges)
        return file.file_size * rows // max(1, file.row_count)

    def _open(
        self,
        file: DataFileMeta,
        mapping: FieldMapping,
        path: str,
        source: pa.NativeFile | None = None,
    ) -> base.FormatReader:
        declared = None
        schema = self.context.schemas_by_id[file.schema_id]
        if file.external_path is not None:
            text_options = self.context.text_options_of(file)
            # All columns, as when the file was added: the members of JSON are seen beside them.
            fields = {each.name: each for each in (*schema.fields, *mapping.file_fields)}
            declared = base.DeclaredText(fields=[*fields.values()], options=text_options)
        zone = self.context.schema.typed_options.get(opt.CAST_TIME_ZONE)
        options = opt.Options({**schema.options, opt.CAST_TIME_ZONE.key: zone})
        found = base.FileToRead(
            file_io=self.file_io,
            path=path,
            source=source,
            file_bytes=file.file_size,
            columns=file.write_cols,
            declared=declared,
            options=None if is_external(options, file) else options,
            bounds=value_bounds(schema, file) if file.file_format == "orc" else {},
        )
        reader = reader_of(found, file.file_format)
        reader.limit_ahead(*self._ahead_bytes)
        return reader

    def deletion_vector(self, file: DataFileMeta) -> DeletionVector | None:
        """Read which of a file's rows are deleted; None without a deletion file."""
        deletion = self._deletion_files.get(file.file_name)
        if deletion is None:
            return None
        if deletion not in self._vectors:
            same = [each for each in self._deletion_files.values() if each.path == deletion.path]
            self._vectors.update(zip(same, _vector_bytes(self.file_io, same, file), strict=True))
        return _vector_of(self._vectors[deletion], deletion, file, self.file_io)

    @cached_property
    def _vectors(self) -> dict[DeletionFile, bytes]:
        """The vectors of the index files that were read: those of a file come together."""
        return {}

    def _may_match(self, file: DataFileMeta, mapping: FieldMapping) -> bool:
        """Whether the file's index leaves rows that may pass."""
        predicate = mapping.file_predicate(self.predicate)
        if predicate is None or not self.context.schema.typed_options.get(
            opt.FILE_INDEX_READ_ENABLED
        ):
            return True
        path, data = f"{self.split.path_of(file)} (in the manifest)", file.embedded_file_index
        if data is None:
            index = self._index_path(file)
            if index is None:
                return True
            path, data = index, self.file_io.read_bytes(index)
        columns = self.context.schemas_by_id[file.schema_id].by_name
        from paimon_assets.engine.codec.file_index.file_index import has_passing_rows

        return has_passing_rows(data, predicate, columns, path)

    def _index_path(self, file: DataFileMeta) -> str | None:
        names = [name for name in file.extra_files if name.endswith(INDEX_SUFFIX)]
        if not names or file.embedded_file_index is not None:
            return None
        path = f"{self.split.path_of(file).rpartition('/')[0]}/{names[0]}"
        if len(names) > 1:
            from paimon_assets.engine.codec.file_index.file_index import damaged_index

            raise damaged_index(path, f"there is another one beside it, {names[1]}")
        return path

    @cached_property
    def _batch_bytes(self) -> int:
        options = self.context.schema.typed_options
        return max(1, options.get(opt.READ_BATCH_MEMORY) // max(1, self.runs))

    @cached_property
    def _deletion_files(self) -> Mapping[str, DeletionFile]:
        deletions = self.split.deletion_files or ()
        return {
            file.file_name: deletion
            for file, deletion in zip(self.split.data_files, deletions, strict=bool(deletions))
            if deletion is not None
        }

    @cached_property
    def _mappings(self) -> dict[Hashable, FieldMapping]:
        """Cache: the mappings of one schema differ only in the path."""
        return {}

    def _mapping(self, file: DataFileMeta, path: str) -> FieldMapping:
        columns = None if file.write_cols is None else tuple(file.write_cols)
        key = (file.schema_id, columns, file.file_format, file.external_path is None)
        if key in self._mappings:
            return replace(self._mappings[key], path=path)
        file_schema = file_schema_of(self.context.schemas_by_id, file.schema_id, path)
        held = held_columns(file, file_schema)
        self._mappings[key] = FieldMapping.of(
            self.fields,
            self.system_fields,
            held,
            path,
            table=self.context.table,
            casts=CastSettings.of(self.context.schema.typed_options),
            cuts_times=file.external_path is not None,
            cuts_blanks=file.file_format == "orc",
        )
        return self._mappings[key]

    def _check_blobs(self, file: DataFileMeta, present: Collection[str]) -> None:
        """Refuse files that hold a BLOB column beside other columns: those are references."""
        schema = self.context.schemas_by_id[file.schema_id]
        inline = _blob_columns(schema) & set(present)
        if inline and file.file_format != BLOB_FORMAT:
            path = self.split.path_of(file)
            raise errors.UnsupportedFeatureError(
                f"Data file '{path}' holds column '{min(inline)}' of type BLOB as references to"
                " other files; this engine reads values only.",
                kind="blob-reference",
                table=self.context.table,
                path=path,
                column=min(inline),
            )


def _map_with_positions(
    mapping: FieldMapping, decoded: Iterable[pa.RecordBatch], threads: Threads
) -> Generator[pa.RecordBatch, None, None]:
    positions: deque[pa.Array[Any]] = deque()

    def without_positions() -> Iterator[pa.RecordBatch]:
        for batch in decoded:
            positions.append(batch.column(POSITION))
            yield batch.drop_columns([POSITION])

    for batch in mapping.apply_all(without_positions(), threads):
        yield batch.append_column(POSITION, positions.popleft())


def held_columns(file: DataFileMeta, schema: TableSchema) -> TableSchema:
    """Return a file's schema without the columns that the file does not hold.

    BLOB columns have files of their own. Physical columns of row tracking (`_ROW_ID`,
    `_SEQUENCE_NUMBER`), which `write_cols` lists too, are not the table's.
    """
    held = set(schema.field_names if file.write_cols is None else file.write_cols)
    if file.file_format != BLOB_FORMAT:
        held -= _blob_columns(schema)
    if held >= set(schema.field_names):
        return schema
    return replace(schema, fields=tuple(field for field in schema.fields if field.name in held))


def _blob_columns(schema: TableSchema) -> set[str]:
    return {field.name for field in schema.fields if field.type.root is TypeRoot.BLOB}


RowRange = tuple[int, int]
"""Positions `[start, stop)` in a file."""
POSITION = "_POSITION"
"""Column of the positions of rows."""


def read_deletion_vector(
    file_io: FileIO, deletion: DeletionFile, file: DataFileMeta
) -> DeletionVector:
    """Read the deletion vector of a data file. Cost: one read of its bytes."""
    (data,) = _vector_bytes(file_io, [deletion], file)
    return _vector_of(data, deletion, file, file_io)


def _vector_bytes(
    file_io: FileIO, deletions: Sequence[DeletionFile], file: DataFileMeta
) -> list[bytes]:
    """Read vectors of one index file, needed by a data file."""
    path = deletions[0].path
    from paimon_assets.engine.codec.bitmaps.deletion_vector import FRAME_BYTES

    ranges = [
        (start := max(0, each.offset), start + max(0, each.length) + FRAME_BYTES)
        for each in deletions
    ]
    try:
        return file_io.read_ranges(path, ranges)
    except OSError as error:
        message = f"Storage failed while reading '{path}': {error}."
        raise errors.storage_failure(message, path, error) from error
    except errors.NotFoundError as error:
        text = (
            f"Index file '{path}' does not exist; it holds the deleted rows of data file"
            f" '{file.file_name}'. The snapshot that names it may have expired. Plan the read"
            " again."
        )
        raise errors.NotFoundError(text, kind=error.kind, path=path) from error


def _vector_of(
    data: bytes, deletion: DeletionFile, file: DataFileMeta, file_io: FileIO
) -> DeletionVector:
    if deletion.offset < 0 or not 0 <= deletion.length <= len(data):
        raise _unfit(
            deletion,
            f"by the manifest it has {deletion.length} bytes at {deletion.offset}, in a file"
            f" of {file_io.file_size(deletion.path)}",
        )
    from paimon_assets.engine.codec.bitmaps.deletion_vector import decode_vector

    vector = decode_vector(
        data, deletion.path, length=deletion.length, cardinality=deletion.cardinality
    )
    if vector.last >= file.row_count:
        raise _unfit(
            deletion,
            f"it deletes row {vector.last} of '{file.file_name}', which has {file.row_count} rows",
        )
    return vector


def _unfit(deletion: DeletionFile, fault: str) -> errors.FormatError:
    message = f"{deletion.path}: wrong deletion vector, {fault}."
    return errors.FormatError(message, kind="deletion-vector", path=deletion.path)


def live_rows(
    batches: Iterable[pa.RecordBatch],
    vectors: Sequence[DeletionVector],
    row_ranges: Iterable[RowRange],
) -> Iterator[pa.RecordBatch]:
    """Drop deleted rows; batches may become empty."""
    for batch, ranges in _with_ranges(batches, row_ranges):
        is_live = np.ones(batch.num_rows, dtype=np.bool_)
        first_row = 0
        for start, stop in ranges:
            for vector in vectors:
                positions = vector.positions(start, stop).astype(np.int64)
                is_live[first_row + positions - start] = False
            first_row += stop - start
        yield batch if is_live.all() else batch.filter(from_numpy(is_live))


def with_positions_of(
    batches: Iterable[pa.RecordBatch], row_ranges: Iterable[RowRange]
) -> Iterator[pa.RecordBatch]:
    for batch, ranges in _with_ranges(batches, row_ranges):
        parts = [np.arange(start, stop, dtype=np.int64) for start, stop in ranges]
        positions = np.concatenate([np.empty(0, dtype=np.int64), *parts])
        yield batch.append_column(POSITION, from_numpy(positions))


def _with_ranges(
    batches: Iterable[pa.RecordBatch], row_ranges: Iterable[RowRange]
) -> Iterator[tuple[pa.RecordBatch, list[RowRange]]]:
    ranges = deque(row_ranges)
    for batch in batches:
        parts, missing = [], batch.num_rows
        while missing:
            start, stop = ranges.popleft()
            if stop - start > missing:
                ranges.appendleft((start + missing, stop))
                stop = start + missing
            parts.append((start, stop))
            missing -= stop - start
        yield batch, parts
