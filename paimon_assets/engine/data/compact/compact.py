"""The task `compact`: a CompactTask in, a WriteResult out, both as bytes."""

from paimon_assets.engine.contract.context import ReadContext
from paimon_assets.engine.contract.tasks.compact_task import CompactTask
from paimon_assets.engine.contract.wire.wire_values import dump, load
from paimon_assets.engine.data.compact.append import compact_append
from paimon_assets.engine.data.compact.keyed import compact_keyed
from paimon_assets.engine.data.threads import Threads
from paimon_assets.engine.fileio.base import FileIO


def compact(shared: bytes, payload: bytes, file_io: FileIO, threads: Threads) -> bytes:
    """Compact files of one bucket.

    Args:
        shared: A `ReadContext` (`contract.wire.wire_values`).
        payload: A `CompactTask` (`contract.tasks.compact_task`).
        file_io: Where the table lies.
        threads: Decode, gather and encode.

    Returns:
        A `WriteResult` (`contract.wire`) of one message, or of none if nothing changed.

    Cost:
        Reads and writes the files once; memory for a few row groups of rows, whatever their size.
    """
    context, task = load(ReadContext, shared), load(CompactTask, payload)
    run = compact_keyed if context.schema.has_primary_key else compact_append
    return dump(run(context, task, file_io, threads))
