"""Incremental reads: what changed after one snapshot, up to and with another → splits.

    delta        files that APPEND snapshots added
    changelog    changelog files
    diff         the difference of both states, for what no file in common shows

Delta and changelog give every record as it was written, in the order of commits, if kinds are kept:
so does Java since 1.1. Without kinds nobody could say which row of a key is the newest, nor what
deletes it; then the records are merged, and rows that are left are given.
Delta and changelog leave OVERWRITE snapshots out, as every engine does: their ids are reported. A
consumer reads them, unless `streaming-read-overwrite` is false: as the difference, of a table with
a primary key over the whole range, else of each overwrite (`diff_splits`).
Segments of text formats come and go with the snapshots that added and removed them.
Source: `org.apache.paimon.table.source.snapshot.IncrementalDeltaStartingScanner`,
`IncrementalDiffStartingScanner`, `AbstractDataTableScan.createIncrementalStartingScanner`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from paimon_assets.engine.control.features import check_readable
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.scan.diff_splits import (
    NetChanges,
    diff_splits,
    refuse_refreshed,
    refuse_without_kinds,
)
from paimon_assets.engine.control.scan.file_store_scan import FileStoreScan
from paimon_assets.engine.control.scan.given_splits import scan_of_splits
from paimon_assets.engine.control.scan.segment_scan import TextChanges
from paimon_assets.engine.control.scan.split_generator import SplitGenerator
from paimon_assets.engine.control.scan.table_scan import TableScan
from paimon_assets.engine.control.scan.time_travel import moment_options
from paimon_assets.engine.control.scan.visibility import skips_level_0
from paimon_assets.engine.errors import InvalidInputError, NotFoundError, UnsupportedFeatureError
from paimon_assets.engine.spec.metadata.snapshot import FIRST_SNAPSHOT_ID, CommitKind, Snapshot
from paimon_assets.engine.spec.options.all_options import (
    CHANGELOG_PRODUCER,
    DATA_EVOLUTION_ENABLED,
    SCAN_FALLBACK_BRANCH,
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
    """Return the changes that the table's options ask for, None if they ask for none.

    Raises:
        InvalidInputError: The second moment is before the first, or they are of two kinds.
        NotFoundError: No such snapshot or tag.
    """
    options = moment_options(store)
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
    """Return the changes a consumer has not seen yet, those of overwrites too.

    Raises:
        InvalidInputError: Kind `consumer-overwrite`; rows are gone, which only kinds can show.
        NotFoundError: A snapshot between has expired.
    """
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
    """Find what a read of changes needs.

    Args:
        store: The table, with the schema to read as.
        between: Which changes.
        predicate: Bound to `store.schema`; of a diff, both states are filtered.
        keeps_kinds: Whether the read shows what retracts.
        as_stream: Whether added files count that batch reads do not see before a compaction.

    Raises:
        InvalidInputError: The changes cannot be shown without kinds.
        NotFoundError: A snapshot that is needed has expired, or is not there yet.
        UnsupportedFeatureError: The table, or a file, is not what is read here.
    """
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
                raise _expired(store, between.start_id)
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
                raise _expired(store, step.id - 1)
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
            raise _expired(store, snapshot_id)
        yield found


def _step(store: FileStore, snapshot_id: int) -> Snapshot | None:
    found = store.snapshots.snapshot_or_none(snapshot_id)
    return found or store.changelogs.changelog_or_none(snapshot_id)


def _delta_lists(steps: Iterable[Snapshot]) -> list[str]:
    return [step.delta_manifest_list for step in steps if step.commit_kind is CommitKind.APPEND]


def _changelog_lists(steps: Iterable[Snapshot]) -> list[str]:
    lists = (step.changelog_manifest_list for step in steps)
    return [name for name in lists if name is not None]


def _expired(store: FileStore, snapshot_id: int) -> NotFoundError:
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
