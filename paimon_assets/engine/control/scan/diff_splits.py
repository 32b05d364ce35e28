"""Two snapshots → splits of what may differ between them.

Key tables: the files of both states, bucket by bucket, are cut into sections that share no key;
sections that hold the same files in both states are left out. Tables without key: files that are
gone, and files that came; over several snapshots (`NetChanges`), what came and went again cancels
out, and compactions change nothing.
Source: `org.apache.paimon.table.source.snapshot.SnapshotReaderImpl.readIncrementalDiff`.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from paimon_assets.engine.codec.rows.key_range import key_range
from paimon_assets.engine.contract.split import DataSplit, DeletionFile
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.scan.deletion_files import deletion_files
from paimon_assets.engine.control.scan.file_store_scan import FileStoreScan
from paimon_assets.engine.control.scan.segment_scan import TextChanges, text_entries
from paimon_assets.engine.control.scan.split_generator import by_bucket, pack
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.lsm.interval_partition import interval_partition
from paimon_assets.engine.spec.metadata.data_file import DataFileMeta
from paimon_assets.engine.spec.metadata.manifest import ManifestEntry
from paimon_assets.engine.spec.metadata.snapshot import Snapshot
from paimon_assets.engine.spec.options.all_options import (
    SPLIT_TARGET_SIZE,
)
from paimon_assets.engine.spec.options.scan_options import (
    INCREMENTAL_BETWEEN_SCAN_MODE,
    STREAMING_READ_OVERWRITE,
    IncrementalMode,
)
from paimon_assets.engine.spec.predicate.predicate import Predicate
from paimon_assets.engine.spec.segments.segment import Segment

Bucket = tuple[bytes, int]


@dataclass(frozen=True, slots=True)
class _LiveFile:
    """A file as one state shows it: another deletion vector makes it another file."""

    name: str
    deletion: DeletionFile | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _State:
    """The needed files of one snapshot."""

    buckets: Mapping[Bucket, list[ManifestEntry]]
    files: Mapping[Bucket, dict[_LiveFile, DataFileMeta]]
    total_buckets: Mapping[bytes, int]


def diff_splits(
    store: FileStore,
    start: Snapshot | None,
    end: Snapshot,
    predicate: Predicate | None,
    *,
    keeps_kinds: bool,
) -> list[DataSplit]:
    """Return splits whose reads yield the difference of two states.

    Args:
        store: The table, with the schema to read both as.
        start: The older one; None is the empty table.
        end: The newer one.
        predicate: Bound to the schema; filters both states.
        keeps_kinds: Whether the read shows what retracts.

    Raises:
        InvalidInputError: Buckets were rescaled in between, or files of a table without key were
            rewritten and kinds are not kept.
    """
    refreshed = TextChanges(store, predicate).refreshed_between(start, end)
    if refreshed is not None:
        raise refuse_refreshed(store, refreshed)
    before = _state(store, start, predicate)
    after = _state(store, end, predicate)
    if store.schema.has_primary_key:
        _check_buckets(store, before, after)
    found = []
    for bucket in dict.fromkeys((*before.files, *after.files)):
        old, new = before.files.get(bucket, {}), after.files.get(bucket, {})
        if old.keys() == new.keys():
            continue
        if store.schema.has_primary_key:
            groups = list(_sections(store, old, new))
        else:
            groups = [_set_apart(store, old, new, keeps_kinds=keeps_kinds)]
        entry = (after.buckets.get(bucket) or before.buckets[bucket])[0]
        found += [_split(store, entry, end.id, *group) for group in groups if any(group)]
    return found


def _state(store: FileStore, snapshot: Snapshot | None, predicate: Predicate | None) -> _State:
    if snapshot is None:
        return _State(buckets={}, files={}, total_buckets={})
    entries = FileStoreScan(store).needed_files(snapshot, predicate)
    entries += text_entries(store, snapshot, predicate)
    buckets = by_bucket(entries)
    vectors = deletion_files(store, snapshot, buckets) if buckets else {}
    return _State(
        buckets=buckets,
        files={
            bucket: {
                _LiveFile(entry.file.file_name, vectors.get((*bucket, entry.file.file_name))): (
                    entry.file
                )
                for entry in members
            }
            for bucket, members in buckets.items()
        },
        total_buckets={entry.partition: entry.total_buckets for entry in entries},
    )


def _check_buckets(store: FileStore, before: _State, after: _State) -> None:
    for partition, count in before.total_buckets.items():
        now = after.total_buckets.get(partition, count)
        if now != count:
            raise InvalidInputError(
                f"Cannot find what differs in table '{store.label}': partition"
                f" {dict(store.partitions.spec(partition))} has {now} buckets now and had {count}"
                " before. Read both states, or the changes by another"
                f" '{INCREMENTAL_BETWEEN_SCAN_MODE.key}'.",
                kind="incremental-rescaled",
                details={"table": store.label},
            )


Files = dict[_LiveFile, DataFileMeta]


def _sections(store: FileStore, old: Files, new: Files) -> Iterator[tuple[Files, Files]]:
    """Yield (old files, new files) of packs of sections that are not the same in both."""
    types = [field.type for field in store.schema.key_fields]
    union: dict[str, DataFileMeta] = {}
    for live, file in (*old.items(), *new.items()):
        union.setdefault(live.name, file)
    named = _by_name((*old, *new))
    changed = []
    for section in interval_partition(list(union.values()), lambda file: key_range(file, types)):
        members = {live for run in section for file in run for live in named[file.file_name]}
        part = (
            {live: old[live] for live in old if live in members},
            {live: new[live] for live in new if live in members},
        )
        if part[0].keys() != part[1].keys():
            changed.append(part)
    target = store.schema.typed_options.get(SPLIT_TARGET_SIZE)
    for group in pack(changed, _weight, target):
        yield _union(part[0] for part in group), _union(part[1] for part in group)


def _by_name(lives: Iterable[_LiveFile]) -> dict[str, set[_LiveFile]]:
    found: dict[str, set[_LiveFile]] = {}
    for live in lives:
        found.setdefault(live.name, set()).add(live)
    return found


def _weight(part: tuple[Files, Files]) -> int:
    return sum(file.file_size for files in part for file in files.values())


def _union(parts: Iterable[Files]) -> Files:
    return {live: file for part in parts for live, file in part.items()}


def _set_apart(
    store: FileStore, old: Files, new: Files, *, keeps_kinds: bool
) -> tuple[Files, Files]:
    """Return the files that are gone and those that came."""
    gone = {live: file for live, file in old.items() if live not in new}
    came = {live: file for live, file in new.items() if live not in old}
    if gone and not keeps_kinds:
        raise InvalidInputError(
            f"Cannot find what differs in table '{store.label}' without the kinds of rows: files"
            f" such as '{next(iter(gone)).name}' were rewritten or removed. Keep row kinds, or set"
            f" '{INCREMENTAL_BETWEEN_SCAN_MODE.key}' to {IncrementalMode.DELTA}.",
            kind="incremental-rewritten",
            details={"table": store.label, "file": next(iter(gone)).name},
        )
    return gone, came


class NetChanges:
    """The files that came and those that are gone, over snapshots of a table without key."""

    def __init__(self, store: FileStore, predicate: Predicate | None) -> None:
        self._store = store
        self._predicate = predicate
        self._gone: dict[Bucket, Files] = {}
        self._came: dict[Bucket, Files] = {}
        self._entries: dict[Bucket, ManifestEntry] = {}
        self._gone_at: dict[_LiveFile, int] = {}

    def add_appended(self, step: Snapshot, texts: TextChanges) -> None:
        """Add the files that a snapshot of kind APPEND added, and text files that it took away."""
        entries = FileStoreScan(self._store).added_files(
            [step.delta_manifest_list], self._predicate
        )
        for bucket, members in by_bucket([*entries, *texts.added(step)]).items():
            self._entries.setdefault(bucket, members[0])
            came = self._came.setdefault(bucket, {})
            came |= {_LiveFile(entry.file.file_name, None): entry.file for entry in members}
        for bucket, members in by_bucket(texts.removed(step)).items():
            self._entries.setdefault(bucket, members[0])
            for entry in members:
                self._go(bucket, _LiveFile(entry.file.file_name, None), entry.file, step)

    def _go(self, bucket: Bucket, live: _LiveFile, file: DataFileMeta, step: Snapshot) -> None:
        if self._came.setdefault(bucket, {}).pop(live, None) is None:
            self._gone.setdefault(bucket, {})[live] = file
            self._gone_at[live] = step.id

    def add_overwrite(self, before: Snapshot | None, step: Snapshot) -> None:
        """Add what differs between a snapshot of kind OVERWRITE and the one before it."""
        old = _state(self._store, before, self._predicate)
        new = _state(self._store, step, self._predicate)
        for bucket in dict.fromkeys((*old.files, *new.files)):
            had, has = old.files.get(bucket, {}), new.files.get(bucket, {})
            entry = (new.buckets.get(bucket) or old.buckets[bucket])[0]
            self._entries.setdefault(bucket, entry)
            for live in had.keys() - has.keys():
                self._go(bucket, live, had[live], step)
            came = self._came.setdefault(bucket, {})
            came |= {live: file for live, file in has.items() if live not in had}

    def splits(self, snapshot_id: int, *, keeps_kinds: bool) -> list[DataSplit]:
        """Return the splits of what is left.

        Raises:
            InvalidInputError: Kind `consumer-overwrite`; files are gone and kinds are not kept.
        """
        target = self._store.schema.typed_options.get(SPLIT_TARGET_SIZE)
        found = []
        for bucket, entry in self._entries.items():
            gone, came = self._gone.get(bucket, {}), self._came.get(bucket, {})
            if gone and not keeps_kinds:
                raise refuse_without_kinds(self._store, self._gone_at[next(iter(gone))])
            parts: list[tuple[Files, Files]] = [({live: file}, {}) for live, file in gone.items()]
            parts += [({}, {live: file}) for live, file in came.items()]
            for group in pack(parts, _weight, target):
                before, after = _union(part[0] for part in group), _union(part[1] for part in group)
                found.append(_split(self._store, entry, snapshot_id, before, after))
        return found


def refuse_without_kinds(store: FileStore, snapshot_id: int) -> InvalidInputError:
    """Return the error of a consumer that would not see that rows are gone."""
    return InvalidInputError(
        f"Table '{store.label}': snapshot {snapshot_id} overwrote rows that the consumer has seen,"
        " and rows without their kinds cannot show it. Read row kinds (`with_row_kinds`,"
        f" paimon_input(row_kinds=True)); or set '{STREAMING_READ_OVERWRITE.key}' to false to"
        " leave overwrites out; or delete the consumer to read the whole table again.",
        kind="consumer-overwrite",
        details={"table": store.label, "snapshot_id": snapshot_id},
    )


def refuse_refreshed(store: FileStore, segment: Segment) -> InvalidInputError:
    """Return the error of who would not see what a refresh changed."""
    return InvalidInputError(
        f"Table '{store.label}': segment {segment.id} ('{segment.folder}', {segment.format}) was"
        " refreshed, and what its files held before is not known. Read the whole table again"
        f" (delete the consumer), or set '{STREAMING_READ_OVERWRITE.key}' to false to leave such"
        " changes out; for readers of changes, delete a segment and add it again instead.",
        kind="segment-refreshed",
        details={"table": store.label, "segment": segment.id},
    )


def _split(
    store: FileStore, entry: ManifestEntry, snapshot_id: int, old: Files, new: Files
) -> DataSplit:
    return DataSplit(
        snapshot_id=snapshot_id,
        partition=entry.partition,
        bucket=entry.bucket,
        bucket_path=store.partitions.bucket_path(store.paths, entry.partition, entry.bucket),
        total_buckets=entry.total_buckets,
        before_files=tuple(old.values()),
        before_deletion_files=tuple(live.deletion for live in old),
        data_files=tuple(new.values()),
        deletion_files=tuple(live.deletion for live in new),
    )
