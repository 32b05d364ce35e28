"""The task `place-waiting`: rows that wait for a bucket get one, as values and bytes.

Shared by all tasks is how to read and how to write; a task is a `DataSplit` of the waiting files of
one partition, in the order their rows were written.
"""

from dataclasses import dataclass

from paimon_assets.engine.contract.context import ReadContext, WriteContext

POSTPONE_TASK = "place-waiting"
"""Name of the task in a `TaskBatch`; its result is a `WriteResult` of compact increments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PostponeContext:
    """The context that all tasks share."""

    read: ReadContext
    """The read of all columns and the kinds of rows."""
    write: WriteContext
    """The write of the same table, where rows get their bucket at once."""
