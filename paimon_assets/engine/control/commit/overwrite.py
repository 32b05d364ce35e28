"""The changes of an overwrite, planned on a snapshot: old files removed, new ones added.

Source: `org.apache.paimon.operation.commit.OverwriteChangesProvider`,
`org.apache.paimon.operation.FileStoreCommitImpl`.
"""

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise

from paimon_assets.engine.control.commit.changes import CommitChanges
from paimon_assets.engine.control.commit.conflict import KeyRange
from paimon_assets.engine.control.commit.partition_filter import PartitionFilter
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.scan.split_generator import by_bucket
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.lsm.levels import num_levels
from paimon_assets.engine.spec.metadata.index_file import IndexManifestEntry
from paimon_assets.engine.spec.metadata.manifest import FileKind, ManifestEntry
from paimon_assets.engine.spec.options.all_options import OVERWRITE_UPGRADE, Options


def overwritten(
    partitions: PartitionFilter,
    base: Iterable[ManifestEntry],
    index: Iterable[IndexManifestEntry],
    new: CommitChanges,
) -> CommitChanges:
    """Return the changes that empty partitions and fill them again, without changelog."""
    gone = [entry._replace(kind=FileKind.DELETE) for entry in base]
    index_gone = [
        replace(entry, kind=FileKind.DELETE) for entry in index if partitions.takes(entry.partition)
    ]
    added = [entry for entry in new.index if entry.kind is FileKind.ADD]
    return CommitChanges(entries=(*gone, *new.entries), index=(*index_gone, *added))


def check_new_files(store: FileStore, partitions: PartitionFilter, new: CommitChanges) -> None:
    """Check that an overwrite adds files to the partitions it empties, and does nothing else."""
    for entry in new.entries:
        if entry.kind is FileKind.DELETE:
            raise InvalidInputError(
                f"File '{entry.file.file_name}' is to be deleted by an overwrite of table "
                f"'{store.label}', which plans itself what goes.",
                kind="commit-kind",
                details={"table": store.label, "file": entry.file.file_name},
            )
    files = [(entry.partition, entry.file.file_name) for entry in new.entries]
    files += [(entry.partition, entry.file.file_name) for entry in new.index]
    for partition, name in files:
        if not partitions.takes(partition):
            raise InvalidInputError(
                f"File '{name}' lies in partition '{store.partitions.path(partition)}' of table "
                f"'{store.label}', which is not overwritten.",
                kind="overwrite-partition",
                details={"table": store.label, "file": name},
            )


def upgrade(
    entries: tuple[ManifestEntry, ...], key_range: KeyRange | None, options: Options
) -> tuple[ManifestEntry, ...]:
    """Return new files with those of a bucket on the highest level, if they share no key.

    Nothing else is left in the bucket: so they need no merging, and tables that read no level 0
    show them at once.
    """
    is_fresh = all(entry.file.level == 0 and entry.bucket >= 0 for entry in entries)
    if key_range is None or not is_fresh or not options.get(OVERWRITE_UPGRADE):
        return entries
    top = num_levels(options) - 1
    result: list[ManifestEntry] = []
    for members in by_bucket(entries).values():
        ranges = sorted(key_range(entry.file) for entry in members)
        is_run = all(left[1] < right[0] for left, right in pairwise(ranges))
        level = top if is_run else 0
        result += [each._replace(file=each.file._replace(level=level)) for each in members]
    return tuple(result)
