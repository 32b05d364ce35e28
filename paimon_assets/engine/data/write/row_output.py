"""Stored rows on their way into new files: in their order, unchecked, as a compaction has them."""

from collections.abc import Callable, Iterable
from contextlib import suppress

import pyarrow as pa

from paimon_assets.engine.contract import commit_message
from paimon_assets.engine.contract.split import DataSplit
from paimon_assets.engine.data.threads import Threads, Work
from paimon_assets.engine.data.write.rolling_file import FileFactory, RollingFile
from paimon_assets.engine.errors import PaimonError
from paimon_assets.engine.spec.metadata.data_file import DataFileMeta
from paimon_assets.engine.spec.options.all_options import ROW_TRACKING_ENABLED
from paimon_assets.engine.spec.schema.schema import TRACKING_FIELDS, TableSchema


def tracked_columns(schema: TableSchema) -> tuple[str, ...] | None:
    """Return the columns of files in which rows keep their ids; None without row tracking."""
    if not schema.typed_options.get(ROW_TRACKING_ENABLED):
        return None
    return (*schema.field_names, *(field.name for field in TRACKING_FIELDS))


class RowOutput:
    """Files of one bucket, in the order of the rows; one of the threads encodes row groups.

    The owner of the factory deletes its files after an error. Memory: a few row groups.
    """

    def __init__(
        self,
        factory: FileFactory,
        bucket_path: str,
        threads: Threads,
        append: Callable[[RollingFile, pa.Table], None],
    ) -> None:
        self.factory, self._threads, self._append = factory, threads, append
        self._files = RollingFile(factory=factory, bucket_path=bucket_path)
        self._buffer: list[pa.RecordBatch] = []
        self._rows = self._bytes = 0
        self._encoding: Work[None] | None = None

    def write(self, rows: pa.RecordBatch) -> None:
        self._buffer.append(rows)
        self._rows += rows.num_rows
        self._bytes += rows.nbytes
        step = self.factory.rows_at_once(self._rows, self._bytes)
        if self._rows >= step:
            table = pa.Table.from_batches(self._buffer)
            whole = self._rows - self._rows % step
            for start in range(0, whole, step):
                self._encode(table.slice(start, step))
            rest = table.slice(whole)
            self._buffer, self._rows, self._bytes = rest.to_batches(), rest.num_rows, rest.nbytes

    def _encode(self, rows: pa.Table) -> None:
        """Encode rows in a thread, after those before."""
        if self._encoding is not None:
            self._encoding.result()
        self._encoding = self._threads.submit(self._append, self._files, rows)

    def finish(self) -> tuple[DataFileMeta, ...]:
        if self._rows:
            self._encode(pa.Table.from_batches(self._buffer))
        if self._encoding is not None:
            self._encoding.result()
        return self._files.finish()

    def abort(self) -> None:
        if self._encoding is not None:
            self._encoding.stop()
        with suppress(PaimonError, OSError, pa.ArrowException):  # the first error is raised
            self._files.abort()


def write_stored(
    batches: Iterable[pa.RecordBatch],
    factory: FileFactory,
    bucket_path: str,
    threads: Threads,
    *,
    first_number: int | None,
) -> tuple[DataFileMeta, ...]:
    """Write batches, which hold the factory's columns, to files of one bucket.

    `first_number` is that of `RollingFile.write_rows`.
    """
    number = first_number

    def append(files: RollingFile, rows: pa.Table) -> None:
        nonlocal number
        files.write_rows(rows, number)
        number = None if number is None else number + rows.num_rows

    names, output = factory.arrow_schema.names, RowOutput(factory, bucket_path, threads, append)
    try:
        for batch in batches:
            output.write(batch.select(names))
        return output.finish()
    except BaseException:
        output.abort()
        raise


def result_of(
    split: DataSplit, rows_in: int, increment: commit_message.DataIncrement
) -> commit_message.WriteResult:
    """Return the one message of a split's bucket; none where nothing changes."""
    if increment == commit_message.DataIncrement():
        return commit_message.WriteResult()
    message = commit_message.CommitMessage(
        partition=split.partition,
        bucket=split.bucket,
        total_buckets=split.total_buckets,
        data_increment=increment,
    )
    written = sum(file.row_count for file in increment.new_files)
    report = commit_message.WriteReport(rows_in=rows_in, rows_written=written)
    return commit_message.WriteResult(messages=(message,), report=report)
