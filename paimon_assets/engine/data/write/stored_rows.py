"""Stored rows on their way into new files: in their order, unchecked, as a compaction has them."""

from collections.abc import Iterable, Iterator
from contextlib import suppress

import pyarrow as pa

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


def write_stored(
    batches: Iterable[pa.RecordBatch],
    factory: FileFactory,
    bucket_path: str,
    threads: Threads,
    *,
    first_number: int | None,
) -> tuple[DataFileMeta, ...]:
    """Write batches, which hold the factory's columns, to files of one bucket.

    The owner of the factory deletes its files after an error. `first_number` is that of
    `RollingFile.write_rows`.

    Cost:
        Memory for a few row groups.
    """
    files = RollingFile(factory=factory, bucket_path=bucket_path)
    encoding: Work[None] | None = None
    try:
        for rows in _row_groups(batches, factory):
            if encoding is not None:
                encoding.result()
            encoding = threads.submit(files.write_rows, rows, first_number)
            if first_number is not None:
                first_number += rows.num_rows
        if encoding is not None:
            encoding.result()
        return files.finish()
    except BaseException:
        if encoding is not None:
            encoding.stop()
        with suppress(PaimonError, OSError, pa.ArrowException):  # the first error is raised
            files.abort()
        raise


def _row_groups(batches: Iterable[pa.RecordBatch], factory: FileFactory) -> Iterator[pa.Table]:
    """Collect batches to the rows that are encoded at once."""
    names = factory.arrow_schema.names
    buffered: list[pa.RecordBatch] = []
    rows, size = 0, 0
    for batch in batches:
        buffered.append(batch.select(names))
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= factory.rows_at_once(rows, size):
            step = factory.rows_at_once(rows, size)
            table = pa.Table.from_batches(buffered)
            whole = rows - rows % step
            for start in range(0, whole, step):
                yield table.slice(start, step)
            rest = table.slice(whole)
            buffered = rest.to_batches()
            rows, size = rest.num_rows, rest.nbytes
    if rows:
        yield pa.Table.from_batches(buffered)
