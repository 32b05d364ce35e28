"""The task `place-waiting`: rows that wait for a bucket get one, as values and bytes.

Shared by all tasks is how to read and how to write; a task is a `DataSplit` of the waiting files of
one partition, in the order their rows were written.
"""

from dataclasses import dataclass

from paimon_assets.engine.contract.context import ReadContext, WriteContext
from paimon_assets.engine.contract.wire.wire import (
    dump_read_context,
    dump_write_context,
    load_read_context,
    load_write_context,
)
from paimon_assets.engine.contract.wire.wire_frame import header, opened

POSTPONE_TASK = "place-waiting"
"""Name of the task in a `TaskBatch`; its result is a `WriteResult` of compact increments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PostponeContext:
    """The context that all tasks share."""

    read: ReadContext
    """The read of all columns and the kinds of rows."""
    write: WriteContext
    """The write of the same table, where rows get their bucket at once."""


def dump_postpone_context(context: PostponeContext) -> bytes:
    """Encode what all tasks share."""
    out = header("postpone-context", {})
    out.write_bytes(dump_read_context(context.read))
    out.write_bytes(dump_write_context(context.write))
    return out.to_bytes()


def load_postpone_context(data: bytes) -> PostponeContext:
    """Inverse of `dump_postpone_context`.

    Raises:
        FormatError: Damaged bytes, or written by another version.
    """
    with opened(data, "postpone-context") as (_, source):
        read = load_read_context(source.read_bytes())
        return PostponeContext(read=read, write=load_write_context(source.read_bytes()))
