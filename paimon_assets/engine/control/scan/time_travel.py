"""Time travel: a target from a table's options, or from a caller → snapshot.

    scan.snapshot-id, scan.tag-name, scan.timestamp(-millis), scan.watermark, scan.version
    scan.mode            must fit these; alone: the newest, or the newest compacted snapshot

Time travel reads with the snapshot's own schema; a plain read uses the newest one.
Source: `org.apache.paimon.table.source.snapshot.TimeTravelUtil`, `CoreOptions.startupMode`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.errors import InvalidInputError, NotFoundError, UnsupportedFeatureError
from paimon_assets.engine.spec.metadata.snapshot import CommitKind, Snapshot
from paimon_assets.engine.spec.options import all_options as opt
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.spec.words import utc_text

_INCREMENTAL: tuple[opt.Option[Any], ...] = (
    opt.INCREMENTAL_BETWEEN,
    opt.INCREMENTAL_BETWEEN_TIMESTAMP,
)
_TIMES: tuple[opt.Option[Any], ...] = (opt.SCAN_TIMESTAMP, opt.SCAN_TIMESTAMP_MILLIS)
_VERSIONS: tuple[opt.Option[Any], ...] = (
    opt.SCAN_SNAPSHOT_ID,
    opt.SCAN_TAG_NAME,
    opt.SCAN_WATERMARK,
    opt.SCAN_VERSION,
)
_REFUSED: tuple[opt.Option[Any], ...] = (
    opt.SCAN_FILE_CREATION_TIME_MILLIS,
    opt.SCAN_CREATION_TIME_MILLIS,
    opt.INCREMENTAL_TO_AUTO_TAG,
    opt.INCREMENTAL_BETWEEN_TAG_TO_SNAPSHOT,
)
_NEEDED: Mapping[opt.ScanMode, tuple[opt.Option[Any], ...]] = {
    opt.ScanMode.LATEST_FULL: (),
    opt.ScanMode.FULL: (),
    opt.ScanMode.LATEST: (),
    opt.ScanMode.COMPACTED_FULL: (),
    opt.ScanMode.FROM_TIMESTAMP: _TIMES,
    opt.ScanMode.FROM_SNAPSHOT: _VERSIONS,
    opt.ScanMode.FROM_SNAPSHOT_FULL: (opt.SCAN_SNAPSHOT_ID,),
    opt.ScanMode.INCREMENTAL: _INCREMENTAL,
}
"""Mode → the options of which it needs one, and takes no other."""
_WATERMARK_PREFIX = "watermark-"


def time_travel_keys() -> frozenset[str]:
    """Return the keys of all options that choose a state, or changes, to read."""
    every = (*_VERSIONS, *_TIMES, *_INCREMENTAL, *_REFUSED, opt.SCAN_MODE)
    return frozenset(key for option in every for key in (option.key, *option.fallback_keys))


def time_travel_options(store: FileStore) -> opt.Options:
    """Return the options of a target: the dynamic ones, or else those the table stores."""
    keys = time_travel_keys()
    dynamic = {key: value for key, value in store.dynamic_options.items() if key in keys}
    return opt.Options(dynamic) if dynamic else store.schema.typed_options


def asks_for_changes(store: FileStore) -> bool:
    """Whether the options ask for changes, not for a state; raises as `check_time_travel`."""
    check_time_travel(store)
    return any(map(time_travel_options(store).has, _INCREMENTAL))


def check_time_travel(store: FileStore) -> None:
    """Refuse options of time travel that contradict each other, or that are not obeyed."""
    options = time_travel_options(store)
    refused = [option for option in _REFUSED if options.get(option) != option.default]
    if refused:
        raise _not_done(store, refused[0], options.text(refused[0]))
    targets = [option for option in (*_VERSIONS, *_TIMES, *_INCREMENTAL) if options.has(option)]
    if len(targets) > 1:
        raise _contradiction(store, f"only one of {_keys(targets)} can be obeyed at a time")
    mode = options.get(opt.SCAN_MODE)
    if mode is opt.ScanMode.DEFAULT:
        return
    if mode not in _NEEDED:
        raise _not_done(store, opt.SCAN_MODE, str(mode))
    needed = _NEEDED[mode]
    if not targets and needed:
        raise _contradiction(store, f"'{opt.SCAN_MODE.key}' = {mode} needs one of {_keys(needed)}")
    if targets and targets[0] not in needed:
        raise _contradiction(
            store, f"'{opt.SCAN_MODE.key}' = {mode} does not go with {_keys(targets)}"
        )


def _not_done(
    store: FileStore, option: opt.Option[Any], value: str | None
) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        f"Table '{store.label}' is to be read by '{option.key}' = {value}, which this engine does"
        " not do. Name a snapshot, a tag or a time; or two, to read the changes between them.",
        kind="unsupported-scan-mode",
        table=store.label,
        option=option.key,
        value=value,
    )


def travel_by_options(store: FileStore) -> Snapshot | None:
    """Return the snapshot of the table's options; None if they name no target."""
    check_time_travel(store)
    options = time_travel_options(store)
    if options.get(opt.SCAN_MODE) is opt.ScanMode.COMPACTED_FULL:
        return _newest_compacted(store)
    version = options.get(opt.SCAN_VERSION)
    if version is not None:
        return _of_version(store, version)
    timestamp_ms = options.get(opt.SCAN_TIMESTAMP_MILLIS)
    values = {
        "snapshot_id": options.get(opt.SCAN_SNAPSHOT_ID),
        "timestamp_ms": options.get(opt.SCAN_TIMESTAMP) if timestamp_ms is None else timestamp_ms,
        "watermark": options.get(opt.SCAN_WATERMARK),
    }
    tag = options.get(opt.SCAN_TAG_NAME)
    target = {name: value for name, value in values.items() if value is not None}
    if tag is None and not target:
        return None
    return travel_to(store, tag=tag, **target)


def travel_to(
    store: FileStore,
    *,
    snapshot_id: int | None = None,
    timestamp_ms: int | None = None,
    watermark: int | None = None,
    tag: str | None = None,
) -> Snapshot:
    """Return the snapshot that exactly one of the arguments means."""
    if (snapshot_id, timestamp_ms, watermark, tag).count(None) != 3:
        message = "Time travel needs exactly one of snapshot id, timestamp, watermark and tag."
        raise InvalidInputError(message, kind="time-travel")
    if snapshot_id is not None:
        return store.snapshots.snapshot(snapshot_id)
    if tag is not None:
        return store.tags.get(tag).snapshot
    if watermark is not None:
        return _at_watermark(store, watermark)
    return _at(store, timestamp_ms or 0)


def state_by_options(store: FileStore) -> tuple[Snapshot | None, FileStore]:
    """Return the snapshot that the options name, if any, and the store with its schema."""
    snapshot = travel_by_options(store)
    return snapshot, store if snapshot is None else store.with_schema(schema_at(store, snapshot))


def branch_instant_ms(store: FileStore, snapshot: Snapshot | None) -> int | None:
    """Return the time to read external files and branches as of; None is now."""
    options = time_travel_options(store)
    if snapshot is None or not time_travel_keys() & options.values.keys():
        return None
    time_ms = options.get(opt.SCAN_TIMESTAMP_MILLIS) or options.get(opt.SCAN_TIMESTAMP)
    return snapshot.time_millis if time_ms is None else time_ms


def schema_at(store: FileStore, snapshot: Snapshot) -> TableSchema:
    """Return the schema to read a snapshot of the past as, with the store's dynamic options."""
    schema = store.schemas.schema(snapshot.schema_id)
    return schema.with_dynamic_options(store.dynamic_options)


def _of_version(store: FileStore, version: str) -> Snapshot:
    if store.tags.get_or_none(version) is not None:
        return travel_to(store, tag=version)
    watermark = version.removeprefix(_WATERMARK_PREFIX)
    if watermark != version and watermark.lstrip("-").isdecimal():
        return travel_to(store, watermark=int(watermark))
    if version.isdecimal():
        return travel_to(store, snapshot_id=int(version))
    message = (
        f"Table '{store.label}' has no version '{version}': no tag is called so, and it is neither"
        f" a snapshot id nor '{_WATERMARK_PREFIX}' and a number."
    )
    raise NotFoundError(message, kind="tag-not-found", table=store.label, version=version)


def _newest_compacted(store: FileStore) -> Snapshot | None:
    """Return the newest snapshot of a compaction, else the newest of all."""
    newest, earliest = store.snapshots.latest(), store.snapshots.earliest_id()
    if newest is None or earliest is None:
        return None
    for snapshot_id in range(newest.id, earliest - 1, -1):
        snapshot = store.snapshots.snapshot_or_none(snapshot_id)
        if snapshot is not None and snapshot.commit_kind is CommitKind.COMPACT:
            return snapshot
    return newest


def _at(store: FileStore, timestamp_ms: int) -> Snapshot:
    snapshot = store.snapshots.at_timestamp(timestamp_ms)
    if snapshot is not None:
        return snapshot
    earliest = store.snapshots.earliest_id()
    first = earliest and store.snapshots.snapshot_or_none(earliest)
    raise NotFoundError(
        f"Table '{store.label}' has no snapshot at or before {utc_text(timestamp_ms)}; "
        + (
            f"its oldest snapshot, {first.id}, was committed at {utc_text(first.time_millis)}."
            if first
            else "it has no snapshots."
        ),
        kind="snapshot-not-found",
        table=store.label,
        timestamp_ms=timestamp_ms,
    )


def _at_watermark(store: FileStore, watermark: int) -> Snapshot:
    snapshot = store.snapshots.at_watermark(watermark)
    if snapshot is not None:
        return snapshot
    newest = store.snapshots.latest()
    message = (
        f"Table '{store.label}' has no snapshot with a watermark of {watermark} or later; "
        + (f"the newest is {newest.watermark}." if newest else "it has no snapshots.")
    )
    raise NotFoundError(message, kind="snapshot-not-found", table=store.label, watermark=watermark)


def _keys(options: Sequence[opt.Option[Any]]) -> str:
    return ", ".join(f"'{option.key}'" for option in options)


def _contradiction(store: FileStore, problem: str) -> InvalidInputError:
    return InvalidInputError(
        f"Table '{store.label}' cannot be read: {problem}.", kind="time-travel", table=store.label
    )
