"""Compact small files of a table without primary key: one after the other into files of full size.

Rows that deletion vectors mark are left out, and their vectors with them.
Source: `org.apache.paimon.append.AppendCompactTask`, `BaseAppendFileStoreWrite.compactRewrite`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, suppress

import pyarrow as pa

from paimon_assets.engine.contract.commit_message import (
    CommitMessage,
    CompactIncrement,
    WriteReport,
    WriteResult,
)
from paimon_assets.engine.contract.context import ReadContext
from paimon_assets.engine.contract.tasks.compact_task import CompactTask
from paimon_assets.engine.data.compact.section_read import RecordRead
from paimon_assets.engine.data.compact.vectors import BucketVectors
from paimon_assets.engine.data.merge.run_cursor import read_ahead
from paimon_assets.engine.data.threads import Threads, Work
from paimon_assets.engine.data.write.files.rolling_file import Chunk, FileFactory, RollingFile
from paimon_assets.engine.data.write.unfinished import delete_unfinished
from paimon_assets.engine.errors import PaimonError
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.spec.metadata.data_file import DataFileMeta, FileOrigin


def compact_append(
    context: ReadContext, task: CompactTask, file_io: FileIO, threads: Threads
) -> WriteResult:
    """Write the rows of a task's files, in their order, to new files.

    Args:
        context: The table, and the schemas of all files.
        task: What to compact.
        file_io: Where the table lies.
        threads: Decode and encode.

    Returns:
        One message; its files are not visible until it is committed.
    """
    schema, split = context.schema, task.split
    factory = FileFactory(
        schema=schema, file_io=file_io, columns=schema.fields, file_source=FileOrigin.COMPACT
    )
    vectors = BucketVectors.of(task, schema, file_io)
    try:
        after = _written(context, task, factory, threads)
        vectors.drop(file.file_name for file in split.data_files)
        new_indexes, old_indexes = vectors.finish()
    except BaseException:
        delete_unfinished(file_io, [*factory.paths, *vectors.paths], context.table)
        raise
    message = CommitMessage(
        partition=split.partition,
        bucket=split.bucket,
        total_buckets=split.total_buckets,
        compact_increment=CompactIncrement(
            compact_before=split.data_files,
            compact_after=after,
            new_index_files=new_indexes,
            deleted_index_files=old_indexes,
        ),
    )
    report = WriteReport(
        rows_in=split.row_count, rows_written=sum(file.row_count for file in after)
    )
    return WriteResult(messages=(message,), report=report)


def _written(
    context: ReadContext, task: CompactTask, factory: FileFactory, threads: Threads
) -> tuple[DataFileMeta, ...]:
    split = task.split
    read = RecordRead(
        context=context,
        split=split,
        file_io=factory.file_io,
        names=context.schema.field_names,
        runs=1,
        threads=threads,
    )
    files = RollingFile(factory=factory, bucket_path=split.bucket_path)
    first_number = split.data_files[0].min_sequence_number
    encoding: Work[None] | None = None
    try:
        with closing(read_ahead(read.rows(split.data_files), threads)) as batches:
            for rows in _row_groups(batches, factory):
                if encoding is not None:
                    encoding.result()
                chunk = _chunk(rows, first_number, factory)
                first_number += rows.num_rows
                encoding = threads.submit(files.write, chunk)
        if encoding is not None:
            encoding.result()
        return files.finish()
    except BaseException:
        if encoding is not None:
            encoding.stop()
        with suppress(PaimonError, OSError, pa.ArrowException):  # the first error matters
            files.abort()
        raise


def _row_groups(batches: Iterator[pa.RecordBatch], factory: FileFactory) -> Iterator[pa.Table]:
    """Collect batches to what is encoded at once."""
    names = factory.schema.field_names
    waiting: list[pa.RecordBatch] = []
    rows, size = 0, 0
    for batch in batches:
        waiting.append(batch.select(list(names)))
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= factory.rows_at_once(rows, size):
            step = factory.rows_at_once(rows, size)
            table = pa.Table.from_batches(waiting)
            whole = rows - rows % step
            for start in range(0, whole, step):
                yield table.slice(start, step)
            rest = table.slice(whole)
            waiting = rest.to_batches()
            rows, size = rest.num_rows, rest.nbytes
    if rows:
        yield pa.Table.from_batches(waiting)


def _chunk(rows: pa.Table, first_number: int, factory: FileFactory) -> Chunk:
    return Chunk(
        rows=pa.Table.from_arrays(rows.columns, schema=factory.arrow_schema),
        min_sequence_number=first_number,
        max_sequence_number=first_number + rows.num_rows - 1,
        delete_rows=0,
    )
