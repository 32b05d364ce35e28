"""Messages → the manifest entries of one snapshot.

Which parts of a message a snapshot holds depends on its kind:

    APPEND      new files
    OVERWRITE   deleted files, then new files
    COMPACT     files before the compaction deleted, files after it added
"""

from collections.abc import Iterable, Iterator, Sequence

from paimon_assets.engine.contract.commit_message import CommitMessage
from paimon_assets.engine.errors import InvalidInputError, UnsupportedFeatureError
from paimon_assets.engine.spec.data_file import DataFileMeta
from paimon_assets.engine.spec.manifest import FileKind, ManifestEntry
from paimon_assets.engine.spec.snapshot import CommitKind


def entries_of(
    messages: Iterable[CommitMessage], kind: CommitKind, *, default_buckets: int
) -> tuple[ManifestEntry, ...]:
    """Return what messages change, in their order.

    Args:
        messages: Of one write or compaction.
        kind: Of the snapshot to be.
        default_buckets: The table's `bucket`, for messages that do not tell theirs.

    Raises:
        InvalidInputError: A message holds changes that a snapshot of this kind would drop.
        UnsupportedFeatureError: A message holds changelog files, or the kind is ANALYZE.
    """
    entries: list[ManifestEntry] = []
    for message in messages:
        _check_kind(message, kind)
        buckets = default_buckets if message.total_buckets is None else message.total_buckets
        for file_kind, file in _changes(message, kind):
            entries.append(
                ManifestEntry(
                    kind=file_kind,
                    partition=message.partition,
                    bucket=message.bucket,
                    total_buckets=buckets,
                    file=file,
                )
            )
    return tuple(entries)


def _changes(message: CommitMessage, kind: CommitKind) -> Iterator[tuple[FileKind, DataFileMeta]]:
    deleted: Sequence[DataFileMeta] = message.data_increment.deleted_files
    added: Sequence[DataFileMeta] = message.data_increment.new_files
    if kind is CommitKind.COMPACT:
        deleted = message.compact_increment.compact_before
        added = message.compact_increment.compact_after
    for file in deleted:
        yield FileKind.DELETE, file
    for file in added:
        yield FileKind.ADD, file


def _check_kind(message: CommitMessage, kind: CommitKind) -> None:
    data, compact = message.data_increment, message.compact_increment
    if data.changelog_files or compact.changelog_files:
        raise UnsupportedFeatureError(
            "A commit message holds changelog files, which this engine does not commit.",
            kind="unsupported-changelog",
        )
    if kind is CommitKind.ANALYZE:
        raise UnsupportedFeatureError(
            "This engine does not commit statistics.", kind="unsupported-analyze"
        )
    compacts = bool(compact.compact_before or compact.compact_after)
    writes = bool(data.new_files or data.deleted_files)
    if kind is CommitKind.COMPACT and writes:
        raise _dropped("newly written files", kind)
    if kind is not CommitKind.COMPACT and compacts:
        raise _dropped("compacted files", kind)
    if kind is CommitKind.APPEND and data.deleted_files:
        raise _dropped("deleted files", kind)


def _dropped(what: str, kind: CommitKind) -> InvalidInputError:
    return InvalidInputError(
        f"A commit message holds {what}, which a snapshot of kind {kind} would drop.",
        kind="commit-kind",
    )
