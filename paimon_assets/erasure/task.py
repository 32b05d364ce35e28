"""The task `erase`: one data file, which is written again without some rows.

Its tasks share a `RowChange` (`engine.contract.write_tasks`).
"""

from paimon_assets.engine.contract.split import DataSplit
from paimon_assets.engine.spec.metadata.data_file import DataFileMeta
from paimon_assets.engine.spec.values import Value

ERASE_TASK = "erase"
"""Name of the task in a `TaskBatch`; its result is an `ErasedFile`."""


class EraseTask(Value):
    """One data file, all rows of which are looked at: deleted, older and retracting ones too."""

    split: DataSplit
    """The file, without its deletion vector."""
    is_changelog: bool = False
    returns_keys: bool = False
    """Nothing is written; the primary keys of the rows that match are returned."""


class ErasedFile(Value):
    """Which rows of a file match, and the file without them."""

    positions: bytes = b""
    """Of the rows that match, ascending, as int64 in the order of this machine's bytes."""
    file: DataFileMeta | None = None
    """The new file; None if no row is left, none matches, or nothing is written."""
    keys: bytes | None = None
    """Distinct primary keys of the rows, as an Arrow stream, if they are asked for."""
    is_missing: bool = False
    """Whether the file is not there."""
