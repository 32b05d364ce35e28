"""New files of a compaction: rows are collected to row groups and encoded in another thread."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from paimon_assets.engine.data.compact.range_merge import RecordRows
from paimon_assets.engine.data.key_value import key_value_fields
from paimon_assets.engine.data.threads import Threads, Work
from paimon_assets.engine.data.write.file_kinds import changelog_schema
from paimon_assets.engine.data.write.files.rolling_file import FileFactory, RollingFile
from paimon_assets.engine.data.write.merge_tree_writer import key_value_chunk
from paimon_assets.engine.errors import PaimonError
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.spec.metadata.data_file import DataFileMeta, FileOrigin
from paimon_assets.engine.spec.schema.schema import TableSchema


@dataclass(slots=True, kw_only=True)
class RecordOutput:
    """Sorted files of one bucket, each key once."""

    factory: FileFactory
    bucket_path: str
    threads: Threads
    """One of them encodes."""
    _files: RollingFile = field(init=False)
    _buffer: list[RecordRows] = field(default_factory=list)
    _buffer_rows: int = 0
    _buffer_bytes: int = 0
    _encoding: Work[None] | None = None

    def __post_init__(self) -> None:
        keys = self.factory.columns[: len(self.factory.schema.key_fields)]
        self._files = RollingFile(
            factory=self.factory,
            bucket_path=self.bucket_path,
            key_columns=tuple(column.name for column in keys),
        )

    def write(self, rows: RecordRows) -> None:
        """Append rows, which follow those before in key order."""
        if not len(rows.numbers):
            return
        self._buffer.append(rows)
        self._buffer_rows += len(rows.numbers)
        self._buffer_bytes += sum(column.nbytes for column in rows.columns)
        if self._buffer_rows >= self.factory.rows_at_once(self._buffer_rows, self._buffer_bytes):
            self._encode()

    def finish(self) -> tuple[DataFileMeta, ...]:
        """Return the files, in key order."""
        self._encode()
        self._await()
        return self._files.finish()

    def abort(self) -> None:
        """Stop; the owner of the factory deletes its files."""
        with suppress(PaimonError, OSError, pa.ArrowException):  # the first error is raised
            self._await()
        with suppress(PaimonError, OSError, pa.ArrowException):
            self._files.abort()

    def _await(self) -> None:
        encoding, self._encoding = self._encoding, None
        if encoding is not None:
            encoding.result()

    def _encode(self) -> None:
        """Encode the buffer in a thread, after the rows before."""
        parts, total_rows, total_bytes = self._buffer, self._buffer_rows, self._buffer_bytes
        self._buffer, self._buffer_rows, self._buffer_bytes = [], 0, 0
        self._await()
        if parts:
            step = self.factory.rows_at_once(total_rows, total_bytes)
            self._encoding = self.threads.submit(self._write, parts, step)

    def _write(self, parts: list[RecordRows], step: int) -> None:
        schema = self.factory.schema
        names = schema.field_names
        table = pa.Table.from_arrays(
            [
                pa.chunked_array(list(chunks))
                for chunks in zip(*(p.columns for p in parts), strict=True)
            ],
            names=list(names),
        )
        sequence = np.concatenate([part.numbers for part in parts])
        kinds = np.concatenate([part.kinds for part in parts])
        for start in range(0, table.num_rows, step):
            rows = table.slice(start, step)
            numbers, row_kinds = sequence[start : start + step], kinds[start : start + step]
            arrow_schema = self.factory.arrow_schema
            self._files.write(key_value_chunk(schema, rows, numbers, row_kinds, arrow_schema))


def record_factory(
    schema: TableSchema, file_io: FileIO, *, level: int, is_changelog: bool = False
) -> FileFactory:
    """Return the factory of files of a level."""
    return FileFactory(
        schema=changelog_schema(schema) if is_changelog else schema,
        file_io=file_io,
        columns=key_value_fields(schema),
        level=level,
        file_source=FileOrigin.APPEND if is_changelog else FileOrigin.COMPACT,
    )
