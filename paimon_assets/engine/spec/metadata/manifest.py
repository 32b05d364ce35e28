"""ManifestEntry and ManifestFileMeta, and which files are live.

Source: `org.apache.paimon.manifest`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from paimon_assets.engine.spec.metadata.data_file import DataFileMeta
from paimon_assets.engine.spec.metadata.simple_stats import SimpleStats

FileIdentifier = tuple[bytes, int, int, str, tuple[str, ...], bytes | None, str | None]
"""(partition, bucket, level, name, extra files, embedded index, external path)."""


class FileKind(IntEnum):
    """The kind of a manifest entry: it adds or deletes its file."""

    ADD = 0
    DELETE = 1


class ManifestEntry(NamedTuple):
    """One change of the set of live files."""

    kind: FileKind
    partition: bytes
    """Serialized BinaryRow of the partition values."""
    bucket: int
    total_buckets: int
    """Bucket count when the file was written; -1 unaware or dynamic, -2 postpone."""
    file: DataFileMeta

    @property
    def identifier(self) -> FileIdentifier:
        """The identity of the file: equal for entries of the same file."""
        file = self.file
        return (
            self.partition,
            self.bucket,
            file.level,
            file.file_name,
            file.extra_files,
            file.embedded_file_index,
            file.external_path,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestFileMeta:
    """One record of a manifest list: a manifest and its counts."""

    file_name: str
    file_size: int
    num_added_files: int
    num_deleted_files: int
    partition_stats: SimpleStats
    schema_id: int
    """Largest schema id of the files inside."""
    min_bucket: int | None = None
    max_bucket: int | None = None
    min_level: int | None = None
    max_level: int | None = None
    min_row_id: int | None = None
    max_row_id: int | None = None


def live_entries(entries: Iterable[ManifestEntry]) -> list[ManifestEntry]:
    """Return the ADD entries that no DELETE names, in order.

    A DELETE anywhere kills all equal ADDs; the order of entries does not matter.

    Cost:
        O(n) for n entries.
    """
    added: list[ManifestEntry] = []
    deleted: set[FileIdentifier] = set()
    for entry in entries:
        if entry.kind is FileKind.ADD:
            added.append(entry)
        else:
            deleted.add(entry.identifier)
    if not deleted:
        return added
    return [entry for entry in added if entry.identifier not in deleted]
