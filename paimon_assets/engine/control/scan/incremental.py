"""Incremental reads: the changes after one snapshot, up to and with another → splits.

    delta        files that APPEND snapshots added
    changelog    changelog files
    diff         the difference of both states, for files that the states do not share

Delta and changelog give every record as it was written, in the order of commits, if kinds are kept;
without kinds the records are merged, and the rows that are left are given. Both leave OVERWRITE
snapshots out, as every engine does; a consumer reads them as a difference, unless
`streaming-read-overwrite` is false. With a key the difference is the sections of a bucket that
differ. Without, it is the removed and the added files; over
several snapshots (`NetChanges`) a file that was added and removed cancels out, and compactions
change nothing. Segments of text formats come and go with the snapshots that added and removed them.
Source: `org.apache.paimon.table.source.snapshot.IncrementalDeltaStartingScanner`,
`IncrementalDiffStartingScanner`, `AbstractDataTableScan.createIncrementalStartingScanner`,
`SnapshotReaderImpl.readIncrementalDiff`.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from paimon_assets.engine.codec.rows.binary_row import key_range
from paimon_assets.engine.contract.split import DataSplit, DeletionFile
from paimon_assets.engine.control.features import check_readable
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.scan import split_generator, time_travel
from paimon_assets.engine.control.scan.file_store_scan import FileStoreScan
from paimon_assets.engine.control.scan.segment_scan import TextChanges, text_entries
from paimon_assets.engine.control.scan.table_scan import TableScan, scan_of_splits
from paimon_assets.engine.errors import InvalidInputError, NotFoundError, UnsupportedFeatureError
from paimon_assets.engine.lsm import interval_partition
from paimon_assets.engine.spec.metadata.data_file import DataFileMeta
from paimon_assets.engine.spec.metadata.manifest import ManifestEntry
from paimon_assets.engine.spec.metadata.snapshot import FIRST_SNAPSHOT_ID, CommitKind, Snapshot
from paimon_assets.engine.spec.options import all_options as opt
from paimon_assets.engine.spec.predicate.predicate import Predicate
from paimon_assets.engine.spec.segments.segment import Segment
from paimon_assets.engine.spec.values import Value

Bucket = tuple[bytes, int]


class _LiveFile(NamedTuple):
    """A file as one state shows it: another deletion vector makes it another file."""

    name: str
    deletion: DeletionFile | None


Files = dict[_LiveFile, DataFileMeta]


class _State(Value):
    buckets: Mapping[Bucket, list[ManifestEntry]]
    files: Mapping[Bucket, Files]
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
        raise _refresh_error(store, refreshed)
    before = _state(store, start, predicate)
    after = _state(store, end, predicate)
    has_key = store.schema.has_primary_key
    if has_key:
        _check_buckets(store, before, after)
    splits = []
    for bucket in dict.fromkeys((*before.files, *after.files)):
        old, new = before.files.get(bucket, {}), after.files.get(bucket, {})
        if old.keys() == new.keys():
            continue
        groups = _sections(store, old, new) if has_key else [_gone_and_come(old, new)]
        entry = (after.buckets.get(bucket) or before.buckets[bucket])[0]
        for gone, come in groups:
            if gone and not has_key and not keeps_kinds:
                raise InvalidInputError(
                    f"Cannot find the changes of table '{store.label}' without the kinds of rows:"
                    f" files such as '{next(iter(gone)).name}' were rewritten or removed. Keep row"
                    f" kinds, or set '{opt.INCREMENTAL_BETWEEN_SCAN_MODE.key}' to"
                    f" {opt.IncrementalMode.DELTA}.",
                    kind="incremental-rewritten",
                    table=store.label,
                    file=next(iter(gone)).name,
                )
            splits.append(_split(store, entry, end.id, gone, come))
    return splits


def _state(store: FileStore, snapshot: Snapshot | None, predicate: Predicate | None) -> _State:
    if snapshot is None:
        return _State(buckets={}, files={}, total_buckets={})
    entries = FileStoreScan(store).needed_files(snapshot, predicate)
    entries += text_entries(store, snapshot, predicate)
    buckets = split_generator.by_bucket(entries)
    vectors = split_generator.deletion_files(store, snapshot, buckets) if buckets else {}
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
            message = (
                f"Cannot find the changes of table '{store.label}': partition"
                f" {dict(store.partitions.spec(partition))} has {now} buckets now and had {count}"
                " before. Read both states, or the changes by another"
                f" '{opt.INCREMENTAL_BETWEEN_SCAN_MODE.key}'."
            )
            raise InvalidInputError(message, kind="incremental-rescaled", table=store.label)


def _sections(store: FileStore, old: Files, new: Files) -> Iterator[tuple[Files, Files]]:
    """Yield (old files, new files) of packs of sections that are not the same in both."""
    types = [field.type for field in store.schema.key_fields]
    union = {live.name: file for live, file in (*old.items(), *new.items())}
    changed = []
    for section in interval_partition(list(union.values()), lambda file: key_range(file, types)):
        names = {file.file_name for run in section for file in run}
        before = {live: file for live, file in old.items() if live.name in names}
        after = {live: file for live, file in new.items() if live.name in names}
        if before.keys() != after.keys():
            changed.append((before, after))
    yield from _pack_splits(store, changed)


def _pack_splits(
    store: FileStore, parts: Iterable[tuple[Files, Files]]
) -> Iterator[tuple[Files, Files]]:
    """Yield (old files, new files), joined up to the size of a split."""

    def size(part: tuple[Files, Files]) -> int:
        return sum(file.file_size for files in part for file in files.values())

    for group in split_generator.pack(
        parts, size, store.schema.typed_options.get(opt.SPLIT_TARGET_SIZE)
    ):
        old = {live: file for files, _ in group for live, file in files.items()}
        yield old, {live: file for _, files in group for live, file in files.items()}


def _gone_and_come(old: Files, new: Files) -> tuple[Files, Files]:
    gone = {live: file for live, file in old.items() if live not in new}
    return gone, {live: file for live, file in new.items() if live not in old}


class NetChanges:
    """The files that came and those that are gone, over snapshots of a table without key."""

    def __init__(self, store: FileStore, predicate: Predicate | None) -> None:
        self._store = store
        self._predicate = predicate
        self._gone: dict[Bucket, Files] = {}
        self._come: dict[Bucket, Files] = {}
        self._entries: dict[Bucket, ManifestEntry] = {}
        self._gone_at: dict[_LiveFile, int] = {}

    def add_appended(self, step: Snapshot, texts: TextChanges) -> None:
        """Add the files that a snapshot of kind APPEND added, and text files that it took away."""
        entries = FileStoreScan(self._store).added_files(
            [step.delta_manifest_list], self._predicate
        )
        for bucket, members in split_generator.by_bucket(
            [*entries, *texts.added_entries(step)]
        ).items():
            self._entries.setdefault(bucket, members[0])
            files = {_LiveFile(entry.file.file_name, None): entry.file for entry in members}
            self._come.setdefault(bucket, {}).update(files)
        for bucket, members in split_generator.by_bucket(texts.removed_entries(step)).items():
            self._entries.setdefault(bucket, members[0])
            for entry in members:
                self._go(bucket, _LiveFile(entry.file.file_name, None), entry.file, step)

    def _go(self, bucket: Bucket, live: _LiveFile, file: DataFileMeta, step: Snapshot) -> None:
        if self._come.setdefault(bucket, {}).pop(live, None) is None:
            self._gone.setdefault(bucket, {})[live] = file
            self._gone_at[live] = step.id

    def add_overwrite(self, before: Snapshot | None, step: Snapshot) -> None:
        """Add the difference between an OVERWRITE snapshot and the one before it."""
        old = _state(self._store, before, self._predicate)
        new = _state(self._store, step, self._predicate)
        for bucket in dict.fromkeys((*old.files, *new.files)):
            entry = (new.buckets.get(bucket) or old.buckets[bucket])[0]
            self._entries.setdefault(bucket, entry)
            gone, come = _gone_and_come(old.files.get(bucket, {}), new.files.get(bucket, {}))
            for live, file in gone.items():
                self._go(bucket, live, file, step)
            self._come.setdefault(bucket, {}).update(come)

    def splits(self, snapshot_id: int, *, keeps_kinds: bool) -> list[DataSplit]:
        """Return the splits of the remaining files."""
        splits = []
        for bucket, entry in self._entries.items():
            gone, come = self._gone.get(bucket, {}), self._come.get(bucket, {})
            if gone and not keeps_kinds:
                raise _kinds_needed(self._store, self._gone_at[next(iter(gone))])
            parts: list[tuple[Files, Files]] = [({live: file}, {}) for live, file in gone.items()]
            parts += [({}, {live: file}) for live, file in come.items()]
            packed = _pack_splits(self._store, parts)
            splits += [_split(self._store, entry, snapshot_id, *files) for files in packed]
        return splits


def _kinds_needed(store: FileStore, snapshot_id: int) -> InvalidInputError:
    return InvalidInputError(
        f"Table '{store.label}': snapshot {snapshot_id} overwrote rows that the consumer has seen,"
        " and rows without their kinds cannot show it. Read row kinds (`with_row_kinds`,"
        f" paimon_input(row_kinds=True)); or set '{opt.STREAMING_READ_OVERWRITE.key}' to false to"
        " leave overwrites out; or delete the consumer to read the whole table again.",
        kind="consumer-overwrite",
        table=store.label,
        snapshot_id=snapshot_id,
    )


def _refresh_error(store: FileStore, segment: Segment) -> InvalidInputError:
    return InvalidInputError(
        f"Table '{store.label}': segment {segment.id} ('{segment.folder}', {segment.format}) was"
        " refreshed, and the earlier rows of its files are not known. Read the whole table again"
        f" (delete the consumer), or set '{opt.STREAMING_READ_OVERWRITE.key}' to false to leave"
        " such changes out; for readers of changes, delete a segment and add it again instead.",
        kind="segment-refreshed",
        table=store.label,
        segment=segment.id,
    )


def _split(
    store: FileStore, entry: ManifestEntry, snapshot_id: int, old: Files, new: Files
) -> DataSplit:
    return DataSplit(
        snapshot_id=snapshot_id,
        partition=entry.partition,
        bucket=entry.bucket,
        bucket_path=store.bucket_path(entry.partition, entry.bucket),
        total_buckets=entry.total_buckets,
        before_files=tuple(old.values()),
        before_deletion_files=tuple(live.deletion for live in old),
        data_files=tuple(new.values()),
        deletion_files=tuple(live.deletion for live in new),
    )


BEFORE_FIRST = FIRST_SNAPSHOT_ID - 1
"""In place of a snapshot id: the table before anything was committed."""


class Between(Value):
    """The range of changes to read: after the snapshot `start_id`, up to and with `end_id`."""

    start_id: int
    end_id: int
    mode: opt.IncrementalMode
    """Never `auto`."""
    start: Snapshot | None = None
    """The first snapshot, if it was found by a tag: it may have expired."""
    end: Snapshot | None = None
    overwrites: bool = False
    """Whether changes of OVERWRITE snapshots are read too; of a table without primary key."""

    def oldest(self, store: FileStore) -> Snapshot | None:
        """Return the oldest snapshot whose files show the changes; None if it expired, or none."""
        if self.mode is opt.IncrementalMode.DIFF or self.overwrites:
            return self.start or store.snapshots.snapshot_or_none(self.start_id)
        return None if self.start_id == self.end_id else _step(store, self.start_id + 1)


class ChangeScan(Value):
    scan: TableScan
    end: Snapshot | None
    skipped: tuple[int, ...] = ()
    """OVERWRITE snapshots whose changes are left out."""


def between_by_options(store: FileStore) -> Between | None:
    """Return the changes that the table's options ask for, None if they ask for none."""
    time_travel.check_time_travel(store)
    options = time_travel.time_travel_options(store)
    pair = options.get(opt.INCREMENTAL_BETWEEN)
    if pair is not None:
        return _between_versions(store, *pair)
    times = options.get(opt.INCREMENTAL_BETWEEN_TIMESTAMP)
    return None if times is None else _between_times(store, *times)


def between_snapshots(store: FileStore, start_id: int, end_id: int) -> Between:
    """Return the changes between two snapshots, shown as the table's options say."""
    if end_id < start_id:
        raise _backwards(store, f"snapshot {start_id}", f"snapshot {end_id}")
    return Between(start_id=start_id, end_id=end_id, mode=_mode(store, for_tags=False))


def between_for_consumer(
    store: FileStore, consumer: str, start_id: int | None, *, keeps_kinds: bool
) -> Between | None:
    """Return the changes a consumer has not seen yet, those of overwrites too.

    None if it begins: it has no position, and `start_id` is None.
    """
    time_travel.check_time_travel(store)
    keys = sorted(time_travel.time_travel_keys() & store.dynamic_options.keys())
    if keys:
        message = (
            f"Consumer '{consumer}' of table '{store.label}' decides which snapshots are"
            f" read; leave out '{keys[0]}'."
        )
        raise InvalidInputError(message, kind="time-travel", table=store.label)
    start = start_id or store.consumers.next_snapshot(consumer)
    if start is None:
        return None
    newest = store.snapshots.latest_id() or FIRST_SNAPSHOT_ID - 1
    if start > newest + 1:
        raise InvalidInputError(
            f"Consumer '{consumer}' of table '{store.label}' is at snapshot {start},"
            f" but the newest is {newest}: the table was rolled back. Reset the consumer.",
            kind="consumer-ahead",
            table=store.label,
            consumer=consumer,
            newest=newest,
        )
    between = between_snapshots(store, start - 1, newest)
    leaves_out = store.schema.typed_options.get(opt.STREAMING_READ_OVERWRITE) is False
    if leaves_out or between.mode is opt.IncrementalMode.DIFF:
        return between
    overwrites = _overwrites(_steps(store, between), TextChanges(store, None))
    if not overwrites:
        return between
    if not store.schema.has_primary_key:
        return replace(between, overwrites=True)
    for step in () if keeps_kinds else overwrites:
        metas = store.manifests.read_list(step.delta_manifest_list)
        if any(meta.num_deleted_files for meta in metas):
            raise _kinds_needed(store, step.id)
    return replace(between, mode=opt.IncrementalMode.DIFF)


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
    message = (
        f"Table '{store.label}' has no tag '{missing}'; '{opt.INCREMENTAL_BETWEEN.key}' takes two"
        " tags or two snapshot ids."
    )
    raise NotFoundError(message, kind="tag-not-found", table=store.label, tag=missing)


def _between_times(store: FileStore, first_ms: int, second_ms: int) -> Between:
    if second_ms < first_ms:
        raise _backwards(store, f"{first_ms} ms", f"{second_ms} ms")
    earliest = store.snapshots.earliest_id() or FIRST_SNAPSHOT_ID
    first, second = map(store.snapshots.at_timestamp, (first_ms, second_ms))
    return Between(
        start_id=first.id if first else earliest - 1,
        end_id=second.id if second else earliest - 1,
        mode=_mode(store, for_tags=False),
    )


def _mode(store: FileStore, *, for_tags: bool) -> opt.IncrementalMode:
    options = store.schema.typed_options
    mode = options.get(opt.INCREMENTAL_BETWEEN_SCAN_MODE)
    if mode is not opt.IncrementalMode.AUTO:
        return mode
    if for_tags:
        return opt.IncrementalMode.DIFF
    if options.get(opt.CHANGELOG_PRODUCER) is opt.ChangelogProducer.NONE:
        return opt.IncrementalMode.DELTA
    return opt.IncrementalMode.CHANGELOG


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
    if between.mode is opt.IncrementalMode.DIFF:
        start = between.start
        if start is None and between.start_id > BEFORE_FIRST:
            start = store.snapshots.snapshot_or_none(between.start_id)
            if start is None:
                raise _expiry_error(store, between.start_id)
        splits = diff_splits(store, start, end, predicate, keeps_kinds=keeps_kinds)
        return ChangeScan(scan=scan_of_splits(store, splits), end=end)
    texts = TextChanges(store, predicate)
    if between.overwrites:
        net = _net_changes(store, between, predicate, texts)
        splits = net.splits(end.id, keeps_kinds=keeps_kinds)
        return ChangeScan(scan=scan_of_splits(store, splits), end=end)
    steps = list(_steps(store, between))
    skipped = tuple(step.id for step in _overwrites(steps, texts))
    changes = [step for step in steps if step.commit_kind is not CommitKind.OVERWRITE]
    by_changelog = between.mode is opt.IncrementalMode.CHANGELOG
    if by_changelog:
        lists = [step.changelog_manifest_list for step in changes if step.changelog_manifest_list]
    else:
        appended = (step for step in changes if step.commit_kind is CommitKind.APPEND)
        lists = [step.delta_manifest_list for step in appended]
    entries = FileStoreScan(store).added_files(lists, predicate)
    if not by_changelog:
        entries += [entry for step in changes for entry in texts.added_entries(step)]
    if not (as_stream or by_changelog) and split_generator.skips_level_0(store.schema):
        entries = [entry for entry in entries if entry.file.level > 0]
    splits = split_generator.SplitGenerator(store).splits(
        end.id, entries, is_streaming=keeps_kinds and store.schema.has_primary_key
    )
    return ChangeScan(scan=scan_of_splits(store, splits), end=end, skipped=skipped)


def _overwrites(steps: Iterable[Snapshot], texts: TextChanges) -> list[Snapshot]:
    return [
        step for step in steps if step.commit_kind is CommitKind.OVERWRITE or texts.takes_away(step)
    ]


def _net_changes(
    store: FileStore, between: Between, predicate: Predicate | None, texts: TextChanges
) -> NetChanges:
    net = NetChanges(store, predicate)
    steps = list(_steps(store, between))
    refreshed = texts.first_refreshed(steps)
    if refreshed is not None:
        raise _refresh_error(store, refreshed)
    for step in steps:
        if step.commit_kind is CommitKind.APPEND:
            net.add_appended(step, texts)
        elif step.commit_kind is CommitKind.OVERWRITE:
            before = store.snapshots.snapshot_or_none(step.id - 1)
            if before is None and step.id > FIRST_SNAPSHOT_ID:
                raise _expiry_error(store, step.id - 1)
            net.add_overwrite(before, step)
    return net


def _check_supported(store: FileStore) -> None:
    check_readable(store.label, store.schema)
    options = store.schema.typed_options
    reason = None
    if options.get(opt.SCAN_FALLBACK_BRANCH):
        reason = f"some partitions come from a fallback branch ('{opt.SCAN_FALLBACK_BRANCH.key}')"
    elif options.get(opt.DATA_EVOLUTION_ENABLED):
        reason = f"its files may hold some of the columns each ('{opt.DATA_EVOLUTION_ENABLED.key}')"
    if reason is not None:
        message = f"Cannot read the changes of table '{store.label}': {reason}."
        raise UnsupportedFeatureError(message, kind="unsupported-incremental", table=store.label)


def _steps(store: FileStore, between: Between) -> Iterator[Snapshot]:
    for snapshot_id in range(between.start_id + 1, between.end_id + 1):
        step = _step(store, snapshot_id)
        if step is None:
            raise _expiry_error(store, snapshot_id)
        yield step


def _step(store: FileStore, snapshot_id: int) -> Snapshot | None:
    """Return a snapshot, or the changelog that an expired snapshot left."""
    snapshot = store.snapshots.snapshot_or_none(snapshot_id)
    return snapshot or store.changelogs.changelog_or_none(snapshot_id)


def _expiry_error(store: FileStore, snapshot_id: int) -> NotFoundError:
    earliest = store.snapshots.earliest_id()
    there_is = "there are no snapshots" if earliest is None else f"the oldest is {earliest}"
    return NotFoundError(
        f"Cannot read the changes of table '{store.label}': snapshot {snapshot_id} has expired;"
        f" {there_is}. Start there, or read the whole table once; consumers and tags keep"
        " snapshots from expiring.",
        kind="snapshot-expired",
        table=store.label,
        snapshot_id=snapshot_id,
        earliest=earliest,
    )


def _backwards(store: FileStore, first: str, second: str) -> InvalidInputError:
    message = f"Cannot read the changes of table '{store.label}': {second} is before {first}."
    return InvalidInputError(message, kind="time-travel", table=store.label)
