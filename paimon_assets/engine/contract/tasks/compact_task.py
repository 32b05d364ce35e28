"""The tasks of a compaction: files of one bucket, and postponed rows that get a bucket first.

Tasks `compact` share a `ReadContext` of every column. Tasks `place-waiting` share a
`PostponeContext`; each is a `DataSplit` of the postponed files of one partition, in the order their
rows were written.
"""

from dataclasses import dataclass

from paimon_assets.engine.contract.context import ReadContext, WriteContext
from paimon_assets.engine.contract.split import DataSplit
from paimon_assets.engine.spec.metadata.index_file import IndexFileMeta
from paimon_assets.engine.spec.predicate.predicate import Predicate

COMPACT_TASK = "compact"
"""Name of the task in a `TaskBatch`; its result is a `WriteResult` of one message."""
POSTPONE_TASK = "place-waiting"
"""Its result is a `WriteResult` of compact increments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactTask:
    """A compaction of some files of one bucket."""

    split: DataSplit
    """The files, and the deletion vectors of theirs."""
    above: DataSplit | None = None
    """Files of higher levels in which keys of level 0 are looked up; None looks nothing up."""
    output_level: int = 0
    """Level of the new files of a primary-key table."""
    max_level: int = 0
    """Highest level of the bucket."""
    drops_deletes: bool = False
    """Whether records that retract are gone afterwards."""
    rewrites_files: bool = False
    """Each file is rewritten by itself."""
    expired: Predicate | None = None
    """Rows that are left out because of their age; bound."""
    expired_files: tuple[str, ...] = ()
    """Names of files that hold such rows, and are rewritten therefore."""
    index_files: tuple[IndexFileMeta, ...] = ()
    """Index files of deletion vectors that the task may replace: no other task does."""
    index_directory: str = ""
    """Where index files lie."""

    @property
    def input_bytes(self) -> int:
        """Bytes of the files to compact, and of those looked up in."""
        return self.split.file_bytes + (self.above.file_bytes if self.above else 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class PostponeContext:
    """The context of tasks that give postponed rows a bucket."""

    read: ReadContext
    """The read of all columns and the kinds of rows."""
    write: WriteContext
    """The write of the same table, where rows get their bucket at once."""
