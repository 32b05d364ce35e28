"""Incremental reads: the changes after one snapshot, up to and with another → splits.

    delta        files that APPEND snapshots added
    changelog    changelog files
    diff         the difference of both states, for what no file in common shows

Delta and changelog give every record as it was written, in the order of commits, if kinds are kept:
so does Java since 1.1. Without kinds nobody could say which row of a key is the newest, nor what
deletes it; then the records are merged, and rows that are left are given.
Delta and changelog leave OVERWRITE snapshots out, as every engine does: their ids are reported. A
consumer reads them, unless `streaming-read-overwrite` is false: as the difference, of a table with
a primary key over the whole range, else of each overwrite (here).
Segments of text formats come and go with the snapshots that added and removed them.
Source: `org.apache.paimon.table.source.snapshot.IncrementalDeltaStartingScanner`,
`IncrementalDiffStartingScanner`, `AbstractDataTableScan.createIncrementalStartingScanner`.

Two snapshots → splits of what may differ between them.

Key tables: the files of both states, bucket by bucket, are cut into sections that share no key;
sections that hold the same files in both states are left out. Tables without key: files that are
gone, and files that came; over several snapshots (`NetChanges`), what came and went again cancels
out, and compactions change nothing.
Source: `org.apache.paimon.table.source.snapshot.SnapshotReaderImpl.readIncrementalDiff`.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from paimon_assets.engine.codec.rows.binary_row import key_range
from paimon_assets.engine.contract.split import DataSplit, DeletionFile
from paimon_assets.engine.control.features import check_readable
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.scan.deletion_files import deletion_files
from paimon_assets.engine.control.scan.file_store_scan import FileStoreScan
from paimon_assets.engine.control.scan.segment_scan import TextChanges, text_entries
from paimon_assets.engine.control.scan.split_generator import (
    SplitGenerator,
    by_bucket,
    pack,
    skips_level_0,
)
from paimon_assets.engine.control.scan.table_scan import TableScan, scan_of_splits
from paimon_assets.engine.control.scan.time_travel import time_travel_options
from paimon_assets.engine.errors import InvalidInputError, NotFoundError, UnsupportedFeatureError
from paimon_assets.engine.lsm.interval_partition import interval_partition
from paimon_assets.engine.spec.metadata.data_file import DataFileMeta
from paimon_assets.engine.spec.metadata.manifest import ManifestEntry
from paimon_assets.engine.spec.metadata.snapshot import FIRST_SNAPSHOT_ID, CommitKind, Snapshot
from paimon_assets.engine.spec.options.all_options import (
    CHANGELOG_PRODUCER,
    DATA_EVOLUTION_ENABLED,
    SCAN_FALLBACK_BRANCH,
    SPLIT_TARGET_SIZE,
    ChangelogProducer,
)
from paimon_assets.engine.spec.options.scan_options import (
    INCREMENTAL_BETWEEN,
    INCREMENTAL_BETWEEN_SCAN_MODE,
    INCREMENTAL_BETWEEN_TIMESTAMP,
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
    """Return splits whose reads yield the difference of two states."""
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
        """Add the difference between an OVERWRITE snapshot and the one before it."""
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
        """Return the splits of the remaining files."""
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
    """Return the error of a reader that would miss the changes of a refresh."""
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


BEFORE_FIRST = FIRST_SNAPSHOT_ID - 1
"""In place of a snapshot id: the table before anything was committed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Between:
    """The range of changes to read."""

    start_id: int
    """Snapshot whose state is known already; its own changes are left out."""
    end_id: int
    """Snapshot up to which changes are read, its own too."""
    mode: IncrementalMode
    """What shows the changes; never `auto`."""
    start: Snapshot | None = None
    """The first snapshot, if it was found by a tag: it may have expired."""
    end: Snapshot | None = None
    overwrites: bool = False
    """Whether what OVERWRITE snapshots changed is read too; of a table without primary key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeScan:
    """The result of an incremental scan."""

    scan: TableScan
    end: Snapshot | None
    """The snapshot up to which changes were read."""
    skipped: tuple[int, ...] = ()
    """OVERWRITE snapshots whose changes are left out."""


def between_by_options(store: FileStore) -> Between | None:
    """Return the changes that the table's options ask for, None if they ask for none."""
    options = time_travel_options(store)
    pair = options.get(INCREMENTAL_BETWEEN)
    if pair is not None:
        return _between_versions(store, *pair)
    times = options.get(INCREMENTAL_BETWEEN_TIMESTAMP)
    return None if times is None else _between_times(store, *times)


def between_snapshots(store: FileStore, start_id: int, end_id: int) -> Between:
    """Return the changes between two snapshots, shown as the table's options say."""
    if end_id < start_id:
        raise _backwards(store, f"snapshot {start_id}", f"snapshot {end_id}")
    return Between(start_id=start_id, end_id=end_id, mode=_mode(store, for_tags=False))


def between_for_consumer(
    store: FileStore, start_id: int, end_id: int, *, keeps_kinds: bool
) -> Between:
    """Return the changes a consumer has not seen yet, those of overwrites too."""
    between = between_snapshots(store, start_id, end_id)
    leaves_out = store.schema.typed_options.get(STREAMING_READ_OVERWRITE) is False
    if leaves_out or between.mode is IncrementalMode.DIFF:
        return between
    overwrites = _overwrites(_steps(store, between), TextChanges(store, None))
    if not overwrites:
        return between
    if not store.schema.has_primary_key:
        return replace(between, overwrites=True)
    for step in () if keeps_kinds else overwrites:
        metas = store.manifests.read_list(step.delta_manifest_list)
        if any(meta.num_deleted_files for meta in metas):
            raise refuse_without_kinds(store, step.id)
    return replace(between, mode=IncrementalMode.DIFF)


def _between_versions(store: FileStore, first: str, second: str) -> Between:
    start, end = (store.tags.get_or_none(name) for name in (first, second))
    if start is not None and end is not None:
        if end.snapshot.id < start.snapshot.id:
            raise _backwards(store, f"tag '{first}'", f"tag '{second}'")
        return Between(
            start_id=start.snapshot.id,
            end_id=end.snapshot.id,
            mode=_mode(store, for_tags=True),
            start=start.snapshot,
            end=end.snapshot,
        )
    if first.isdecimal() and second.isdecimal():
        return between_snapshots(store, int(first), int(second))
    missing = first if start is None and not first.isdecimal() else second
    raise NotFoundError(
        f"Table '{store.label}' has no tag '{missing}'; '{INCREMENTAL_BETWEEN.key}' takes two tags"
        " or two snapshot ids.",
        kind="tag-not-found",
        details={"table": store.label, "tag": missing},
    )


def _between_times(store: FileStore, first_ms: int, second_ms: int) -> Between:
    if second_ms < first_ms:
        raise _backwards(store, f"{first_ms} ms", f"{second_ms} ms")
    ids = []
    earliest = store.snapshots.earliest_id() or FIRST_SNAPSHOT_ID
    for moment in (first_ms, second_ms):
        found = store.snapshots.at_timestamp(moment)
        ids.append(earliest - 1 if found is None else found.id)
    return Between(start_id=ids[0], end_id=ids[1], mode=_mode(store, for_tags=False))


def _mode(store: FileStore, *, for_tags: bool) -> IncrementalMode:
    options = store.schema.typed_options
    mode = options.get(INCREMENTAL_BETWEEN_SCAN_MODE)
    if mode is not IncrementalMode.AUTO:
        return mode
    if for_tags:
        return IncrementalMode.DIFF
    if options.get(CHANGELOG_PRODUCER) is ChangelogProducer.NONE:
        return IncrementalMode.DELTA
    return IncrementalMode.CHANGELOG


def oldest_of(store: FileStore, between: Between) -> Snapshot | None:
    """Return the oldest snapshot whose files show the changes.

    None if it has expired, or if nothing can have changed.
    """
    if between.mode is IncrementalMode.DIFF or between.overwrites:
        return between.start or store.snapshots.snapshot_or_none(between.start_id)
    return None if between.start_id == between.end_id else _step(store, between.start_id + 1)


def scan_changes(
    store: FileStore,
    between: Between,
    predicate: Predicate | None,
    *,
    keeps_kinds: bool,
    as_stream: bool = True,
) -> ChangeScan:
    """Plan the splits of a read of changes."""
    _check_supported(store)
    if between.start_id == between.end_id:
        is_before = between.end_id < FIRST_SNAPSHOT_ID
        end = between.end or (None if is_before else _step(store, between.end_id))
        return ChangeScan(scan=TableScan(), end=end)
    end = between.end or store.snapshots.snapshot(between.end_id)
    if between.mode is IncrementalMode.DIFF:
        start = between.start
        if start is None and between.start_id > BEFORE_FIRST:
            start = store.snapshots.snapshot_or_none(between.start_id)
            if start is None:
                raise _expire(store, between.start_id)
        splits = diff_splits(store, start, end, predicate, keeps_kinds=keeps_kinds)
        return ChangeScan(scan=scan_of_splits(store, splits), end=end)
    texts = TextChanges(store, predicate)
    if between.overwrites:
        splits = _net_changes(store, between, predicate, texts).splits(
            end.id, keeps_kinds=keeps_kinds
        )
        return ChangeScan(scan=scan_of_splits(store, splits), end=end)
    steps = list(_steps(store, between))
    skipped = tuple(step.id for step in _overwrites(steps, texts))
    kept = [step for step in steps if step.commit_kind is not CommitKind.OVERWRITE]
    by_changelog = between.mode is IncrementalMode.CHANGELOG
    lists = _changelog_lists(kept) if by_changelog else _delta_lists(kept)
    entries = FileStoreScan(store).added_files(lists, predicate)
    entries += [entry for step in kept for entry in texts.added(step)]
    if not (as_stream or by_changelog) and skips_level_0(store.schema):
        entries = [entry for entry in entries if entry.file.level > 0]
    splits = SplitGenerator(store).splits(
        end.id, entries, is_streaming=keeps_kinds and store.schema.has_primary_key
    )
    return ChangeScan(scan=scan_of_splits(store, splits), end=end, skipped=skipped)


def _overwrites(steps: Iterable[Snapshot], texts: TextChanges) -> list[Snapshot]:
    """Return the snapshots that took rows away."""
    return [
        step for step in steps if step.commit_kind is CommitKind.OVERWRITE or texts.takes_away(step)
    ]


def _net_changes(
    store: FileStore, between: Between, predicate: Predicate | None, texts: TextChanges
) -> NetChanges:
    """Return the files that came and those that are gone, of a table without primary key."""
    net = NetChanges(store, predicate)
    steps = list(_steps(store, between))
    refreshed = texts.refreshed(steps)
    if refreshed is not None:
        raise refuse_refreshed(store, refreshed)
    for step in steps:
        if step.commit_kind is CommitKind.APPEND:
            net.add_appended(step, texts)
        elif step.commit_kind is CommitKind.OVERWRITE:
            before = store.snapshots.snapshot_or_none(step.id - 1)
            if before is None and step.id > FIRST_SNAPSHOT_ID:
                raise _expire(store, step.id - 1)
            net.add_overwrite(before, step)
    return net


def _check_supported(store: FileStore) -> None:
    check_readable(store.label, store.schema)
    options = store.schema.typed_options
    reason = None
    if options.get(SCAN_FALLBACK_BRANCH):
        reason = f"some partitions come from a fallback branch ('{SCAN_FALLBACK_BRANCH.key}')"
    elif options.get(DATA_EVOLUTION_ENABLED):
        reason = f"its files may hold some of the columns each ('{DATA_EVOLUTION_ENABLED.key}')"
    if reason is not None:
        raise UnsupportedFeatureError(
            f"Cannot read what changed in table '{store.label}': {reason}.",
            kind="unsupported-incremental",
            details={"table": store.label},
        )


def _steps(store: FileStore, between: Between) -> Iterator[Snapshot]:
    """Yield the snapshots whose changes are asked for; what expired may be left as a changelog."""
    for snapshot_id in range(between.start_id + 1, between.end_id + 1):
        found = _step(store, snapshot_id)
        if found is None:
            raise _expire(store, snapshot_id)
        yield found


def _step(store: FileStore, snapshot_id: int) -> Snapshot | None:
    found = store.snapshots.snapshot_or_none(snapshot_id)
    return found or store.changelogs.changelog_or_none(snapshot_id)


def _delta_lists(steps: Iterable[Snapshot]) -> list[str]:
    return [step.delta_manifest_list for step in steps if step.commit_kind is CommitKind.APPEND]


def _changelog_lists(steps: Iterable[Snapshot]) -> list[str]:
    lists = (step.changelog_manifest_list for step in steps)
    return [name for name in lists if name is not None]


def _expire(store: FileStore, snapshot_id: int) -> NotFoundError:
    earliest = store.snapshots.earliest_id()
    there_is = "there are no snapshots" if earliest is None else f"the oldest is {earliest}"
    return NotFoundError(
        f"Cannot read what changed in table '{store.label}': snapshot {snapshot_id} has expired;"
        f" {there_is}. Start there, or read the whole table once; consumers and tags keep"
        " snapshots from expiring.",
        kind="snapshot-expired",
        details={"table": store.label, "snapshot_id": snapshot_id, "earliest": earliest},
    )


def _backwards(store: FileStore, first: str, second: str) -> InvalidInputError:
    return InvalidInputError(
        f"Cannot read what changed in table '{store.label}': {second} is before {first}.",
        kind="time-travel",
        details={"table": store.label},
    )
