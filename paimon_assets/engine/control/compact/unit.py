"""PlannedUnit: one piece of a compaction, and its expected result."""

from collections.abc import Sequence
from dataclasses import dataclass

from paimon_assets.engine.contract.tasks.compact_task import CompactTask
from paimon_assets.engine.spec.metadata.data_file import DataFileMeta
from paimon_assets.engine.spec.options.all_options import TARGET_FILE_SIZE
from paimon_assets.engine.spec.schema.schema import TableSchema

_TARGET_WITH_KEY = 128 * 1024 * 1024
_TARGET_WITHOUT_KEY = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedUnit:
    """Files of one bucket that are compacted by one task."""

    task: CompactTask
    reason: str
    """Which rule asks for it."""
    upgrades: int = 0
    """Files that only change their level."""
    runs_before: int
    """Sorted runs of the bucket, which a read must merge; files, of a table without key."""
    runs_after: int
    expected_files: int
    """About how many files there will be in the place of the unit's."""

    @property
    def partition(self) -> bytes:
        """Serialized BinaryRow of the partition values."""
        return self.task.split.partition

    @property
    def bucket(self) -> int:
        """Number of the bucket."""
        return self.task.split.bucket

    @property
    def files(self) -> Sequence[DataFileMeta]:
        """The files to compact."""
        return self.task.split.data_files

    @property
    def file_bytes(self) -> int:
        """Their bytes."""
        return self.task.split.file_bytes

    @property
    def row_count(self) -> int:
        """Their physical rows."""
        return self.task.split.row_count


def target_bytes_of(schema: TableSchema) -> int:
    """Return the size of full files of a table."""
    default = _TARGET_WITH_KEY if schema.has_primary_key else _TARGET_WITHOUT_KEY
    return schema.typed_options.get(TARGET_FILE_SIZE) or default


def files_of_size(total_bytes: int, target_bytes: int) -> int:
    """Return how many files of the target size so many bytes fill."""
    return -(-total_bytes // max(1, target_bytes))
