"""The task `write-columns`: new values of some columns of ranges of rows."""

from paimon_assets.engine.contract.split import DataSplit
from paimon_assets.engine.spec.values import Value

COLUMN_TASK = "write-columns"
"""Name of the task in a `TaskBatch`; its result is a `WriteResult` of one message."""


class ColumnTask(Value):
    """New values of some columns of all rows of some files; the tasks share a `WriteContext`."""

    split: DataSplit
    """The files of whole ranges of row ids."""
    values: bytes
    """The columns, as an Arrow stream: a row for each row of the ranges, in their order."""

    @property
    def input_bytes(self) -> int:
        return len(self.values)
