"""The task `row-change`: a RowChangeTask in, a RowChangeResult out, both as bytes.

primary key       records of kind -D or +U for the rows that match
deletion vectors  positions of the rows that match, and their new values in new files
neither           files with a match written again
"""

from paimon_assets.engine.contract.tasks.row_change_task import (
    RowChange,
    RowChangeResult,
    RowChangeTask,
)
from paimon_assets.engine.contract.wire.wire_values import dump, load
from paimon_assets.engine.data.row_change.append import change_append
from paimon_assets.engine.data.row_change.keyed import change_keyed
from paimon_assets.engine.data.threads import Threads
from paimon_assets.engine.fileio.base import FileIO


def change_rows(shared: bytes, payload: bytes, file_io: FileIO, threads: Threads) -> bytes:
    """Delete or update rows in files of one bucket.

    Args:
        shared: A `RowChange` (`contract.tasks.row_change_task`).
        payload: A `RowChangeTask`.
        file_io: Where the table lies.
        threads: Read and write.

    Returns:
        A `RowChangeResult`; its files are not visible until its message is committed.
    """
    change, task = load(RowChange, shared), load(RowChangeTask, payload)
    return dump(run_change(change, task, file_io, threads))


def run_change(
    change: RowChange, task: RowChangeTask, file_io: FileIO, threads: Threads
) -> RowChangeResult:
    """Delete or update rows in files of one bucket, as `change_rows` does."""
    run = change_keyed if change.read.schema.has_primary_key else change_append
    return run(change, task, file_io, threads)
