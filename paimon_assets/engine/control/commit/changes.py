"""Commit messages → the changes of one snapshot; its kind decides which parts of them it holds.

    APPEND      files written, their changelog, new hash indexes
    OVERWRITE   files deleted and written, their changelog, index files
    COMPACT     files before the compaction deleted, those after it added; its changelog and
                index files

The version of a table's data is the name of the last commit that changed a row. A commit that
changes no row names it in a property, so it outlives its snapshot; compactions of other engines do
not, so one looks behind them.
Source: `org.apache.paimon.operation.commit.ManifestEntryChanges`.
"""

from collections.abc import Iterable, Iterator, Mapping

from paimon_assets.engine.contract.commit_message import (
    CommitMessage,
    CompactIncrement,
    DataIncrement,
)
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.scan.file_store_scan import FileStoreScan
from paimon_assets.engine.control.scan.split_generator import shows_rows_later
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.metadata import snapshot as snap
from paimon_assets.engine.spec.metadata.data_file import DataFileMeta
from paimon_assets.engine.spec.metadata.manifest import (
    DELETION_VECTORS_INDEX,
    FileKind,
    IndexManifestEntry,
    ManifestEntry,
)
from paimon_assets.engine.spec.predicate.predicate import Predicate, only_on
from paimon_assets.engine.spec.values import Value


class CommitChanges(Value):
    """The changes of one snapshot."""

    entries: tuple[ManifestEntry, ...] = ()
    changelog: tuple[ManifestEntry, ...] = ()
    """Changelog files, all added."""
    index: tuple[IndexManifestEntry, ...] = ()
    keys_known_at: int | None = None
    """Id of the oldest snapshot a writer looked keys up in (`CommitMessage`)."""

    @property
    def partitions(self) -> frozenset[bytes]:
        """The partitions whose data or index files change."""
        data = {entry.partition for entry in self.entries}
        return frozenset(data | {entry.partition for entry in self.index})

    @property
    def buckets(self) -> frozenset[tuple[bytes, int]]:
        """The (partition, bucket) whose data or index files change."""
        data = {(entry.partition, entry.bucket) for entry in self.entries}
        return frozenset(data | {(entry.partition, entry.bucket) for entry in self.index})

    @property
    def row_change(self) -> int:
        """Physical rows that come, less those that go."""
        return sum(
            entry.file.row_count if entry.kind is FileKind.ADD else -entry.file.row_count
            for entry in self.entries
        )


def changes_of(
    messages: Iterable[CommitMessage], kind: snap.CommitKind, *, default_buckets: int
) -> CommitChanges:
    """Return the changes of messages, in their order; deleted files before added ones."""
    entries: list[ManifestEntry] = []
    changelog: list[ManifestEntry] = []
    index: list[IndexManifestEntry] = []
    known: list[int] = []
    for message in messages:
        _check_kind(message, kind)
        known += [] if message.keys_known_at is None else [message.keys_known_at]
        increment: DataIncrement | CompactIncrement
        if kind is snap.CommitKind.COMPACT:
            increment = message.compact_increment
            deleted, added = increment.compact_before, increment.compact_after
        else:
            increment = message.data_increment
            deleted, added = increment.deleted_files, increment.new_files
        entries += _entries(message, FileKind.DELETE, deleted, default_buckets)
        entries += _entries(message, FileKind.ADD, added, default_buckets)
        changelog += _entries(message, FileKind.ADD, increment.changelog_files, default_buckets)
        index += _index_entries(message, increment)
    return CommitChanges(
        entries=tuple(entries),
        changelog=tuple(changelog),
        index=tuple(index),
        keys_known_at=min(known, default=None),
    )


def _entries(
    message: CommitMessage, kind: FileKind, files: Iterable[DataFileMeta], default_buckets: int
) -> Iterator[ManifestEntry]:
    buckets = default_buckets if message.total_buckets is None else message.total_buckets
    for file in files:
        yield ManifestEntry(
            kind=kind,
            partition=message.partition,
            bucket=message.bucket,
            total_buckets=buckets,
            file=file,
        )


def _index_entries(
    message: CommitMessage, increment: DataIncrement | CompactIncrement
) -> Iterator[IndexManifestEntry]:
    for kind, files in (
        (FileKind.DELETE, increment.deleted_index_files),
        (FileKind.ADD, increment.new_index_files),
    ):
        for file in files:
            yield IndexManifestEntry(
                kind=kind, partition=message.partition, bucket=message.bucket, file=file
            )


def _check_kind(message: CommitMessage, kind: snap.CommitKind) -> None:
    data, compact = message.data_increment, message.compact_increment
    if kind is snap.CommitKind.ANALYZE:
        text = "A snapshot of kind ANALYZE holds statistics, no files; see `commit_statistics`."
        raise InvalidInputError(text, kind="commit-kind")
    if kind is snap.CommitKind.COMPACT and data != DataIncrement():
        raise _drop("newly written files", kind)
    if kind is not snap.CommitKind.COMPACT and compact != CompactIncrement():
        raise _drop("compacted files", kind)
    if kind is snap.CommitKind.APPEND and data.deleted_files:
        raise _drop("deleted files", kind)
    index = (*data.new_index_files, *data.deleted_index_files)
    if kind is snap.CommitKind.APPEND and any(
        file.index_type == DELETION_VECTORS_INDEX for file in index
    ):
        raise _drop("deletion vectors", kind)


def _drop(content: str, kind: snap.CommitKind) -> InvalidInputError:
    return InvalidInputError(
        f"A commit message holds {content}, which a snapshot of kind {kind} would drop or hide"
        " from streaming readers; commit it as the kind it is (OVERWRITE for deletes, COMPACT for "
        "compactions).",
        kind="commit-kind",
    )


_CHANGE_NO_ROW = frozenset({snap.CommitKind.COMPACT, snap.CommitKind.ANALYZE})
_MOST_LOOKED_AT = 1_000


def data_version(store: FileStore, snapshot: snap.Snapshot) -> str:
    """Return the version of the data that a snapshot shows.

    Cost: nothing for a snapshot of this engine. Of compactions of other engines each one before is
    read; if all that is left of history are such, the oldest names the version.
    """
    for _ in range(_MOST_LOOKED_AT):
        version = snapshot.properties.get(snap.DATA_VERSION_PROPERTY)
        if version is not None:
            return version
        shows = snapshot.commit_kind is snap.CommitKind.COMPACT and shows_rows_later(store.schema)
        if shows or snapshot.commit_kind not in _CHANGE_NO_ROW:
            break
        before = store.snapshots.snapshot_or_none(snapshot.id - 1)
        if before is None:
            break
        snapshot = before
    return snapshot.name


def last_change(
    store: FileStore, snapshot: snap.Snapshot, predicate: Predicate
) -> snap.Snapshot | None:
    """Return the snapshot that last changed rows that may pass, at or before one.

    None if none that is left did.

    Cost:
        The delta manifests of each snapshot back to it.
    """
    scan, snapshots = FileStoreScan(store), store.snapshots
    on_partition = only_on(predicate, store.schema.partition_keys)
    newest: snap.Snapshot | None = snapshot
    while newest is not None:
        number = int(data_version(store, newest).partition("-")[0])
        newest = newest if number == newest.id else snapshots.snapshot_or_none(number)
        if newest is None:
            break
        before = snapshots.snapshot_or_none(newest.id - 1)
        if scan.changes(newest, predicate) or any(
            store.partitions.may_match(on_partition, partition)
            for partition in _index_changes(store, before, newest)
        ):
            return newest
        newest = before
    return None


def _index_changes(
    store: FileStore, before: snap.Snapshot | None, after: snap.Snapshot
) -> set[bytes]:
    """Return the partitions whose index files differ: rows are deleted by such files alone."""
    names = [None if each is None else each.index_manifest for each in (before, after)]
    if before is None or names[0] == names[1]:
        return set()
    older, newer = (set(store.manifests.read_index(name)) if name else set() for name in names)
    return {entry.partition for entry in older ^ newer}


def inherited_properties(
    store: FileStore, latest: snap.Snapshot | None, changes: CommitChanges, kind: snap.CommitKind
) -> Mapping[str, str]:
    """Return the properties of a snapshot on top of `latest`: inherited ones and its own."""
    if latest is None:
        return {}
    properties = {
        key: value
        for key, value in latest.properties.items()
        if key.startswith(snap.INHERITED_PROPERTIES)
    }
    properties[snap.BUILT_ON_PROPERTY] = latest.delta_manifest_list
    if _changes_no_row(store, changes, kind):
        properties[snap.DATA_VERSION_PROPERTY] = data_version(store, latest)
    return properties


def _changes_no_row(store: FileStore, changes: CommitChanges, kind: snap.CommitKind) -> bool:
    if not changes.entries and not changes.index:
        return True
    if kind is not snap.CommitKind.COMPACT or not shows_rows_later(store.schema):
        return kind in _CHANGE_NO_ROW
    return not any(
        entry.kind is FileKind.DELETE and (entry.file.level == 0 or entry.bucket < 0)
        for entry in changes.entries
    )
