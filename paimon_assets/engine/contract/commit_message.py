"""CommitMessage: the changes of one writer in one bucket, and WriteReport: its counters.

Source: `org.apache.paimon.table.sink.CommitMessageImpl`.
"""

from collections.abc import Iterable
from itertools import chain

from msgspec import field

from paimon_assets.engine.spec.metadata.data_file import DataFileMeta
from paimon_assets.engine.spec.metadata.manifest import IndexFileMeta
from paimon_assets.engine.spec.values import Value


class DataIncrement(Value):
    """Files a write added to, or took from, a bucket."""

    new_files: tuple[DataFileMeta, ...] = ()
    deleted_files: tuple[DataFileMeta, ...] = ()
    changelog_files: tuple[DataFileMeta, ...] = ()
    new_index_files: tuple[IndexFileMeta, ...] = ()
    """Deletion vectors and hash indexes that become live."""
    deleted_index_files: tuple[IndexFileMeta, ...] = ()
    """Index files that are live no more."""


class CompactIncrement(Value):
    """Files a compaction replaced, and by which."""

    compact_before: tuple[DataFileMeta, ...] = ()
    compact_after: tuple[DataFileMeta, ...] = ()
    changelog_files: tuple[DataFileMeta, ...] = ()
    new_index_files: tuple[IndexFileMeta, ...] = ()
    deleted_index_files: tuple[IndexFileMeta, ...] = ()


class CommitMessage(Value):
    """The files one writer added to and removed from one bucket; invisible until committed."""

    partition: bytes
    """Serialized BinaryRow of the partition values."""
    bucket: int
    total_buckets: int | None
    """Bucket count the writer used; -1 unaware or dynamic."""
    data_increment: DataIncrement = field(default_factory=DataIncrement)
    compact_increment: CompactIncrement = field(default_factory=CompactIncrement)
    keys_known_at: int | None = None
    """Id of the snapshot the writer looked keys up in, 0 if there was none; None: it did not."""


class WriteReport(Value):
    """Counts a person wants to see after a write; they add up over tasks."""

    rows_in: int = 0
    """Rows the writer was given."""
    rows_ignored: int = 0
    """Rows dropped by ignore-delete and ignore-update-before."""
    rows_written: int = 0
    """Rows in the new files, after merging equal keys."""
    sequence_wraps: int = 0
    """Rows whose padded counter wrapped inside one second or millisecond of one bucket."""


class WriteResult(Value):
    """All that a write task returns: messages to commit and a report to show."""

    messages: tuple[CommitMessage, ...] = ()
    report: WriteReport = field(default_factory=WriteReport)

    @staticmethod
    def sum(results: Iterable["WriteResult"]) -> "WriteResult":
        """Join the results of all tasks of one write."""
        all_results = list(results)
        counts = {
            name: sum(getattr(result.report, name) for result in all_results)
            for name in WriteReport.__struct_fields__
        }
        messages = tuple(chain.from_iterable(result.messages for result in all_results))
        return WriteResult(messages=messages, report=WriteReport(**counts))
