"""Giving up a write: delete the files its messages name, and nothing else.

Never after a `CommitUnknownError`: a snapshot may hold the files.
"""

from collections.abc import Iterable, Iterator

from paimon_assets.engine.contract.commit_message import CommitMessage
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.spec.data_file import DataFileMeta


def abort(store: FileStore, messages: Iterable[CommitMessage]) -> int:
    """Delete the files a write made, given that they were not committed.

    Files with an external path are left alone: this engine writes none, so they are somebody's.
    Files that a compaction only moved to another level were there before and stay.

    Returns:
        How many files were deleted (or were gone already).

    Raises:
        StorageError: A file could not be deleted; the rest was not tried.
    """
    count = 0
    for message in messages:
        directory = store.partitions.bucket_path(store.paths, message.partition, message.bucket)
        for file in _made_by(message):
            if file.external_path is not None:
                continue
            for name in (file.file_name, *file.extra_files):
                store.file_io.delete_file(f"{directory}/{name}")
                count += 1
    return count


def _made_by(message: CommitMessage) -> Iterator[DataFileMeta]:
    data, compact = message.data_increment, message.compact_increment
    before = {file.file_name for file in (*data.deleted_files, *compact.compact_before)}
    for file in (
        *data.new_files,
        *data.changelog_files,
        *compact.compact_after,
        *compact.changelog_files,
    ):
        if file.file_name not in before:
            yield file
