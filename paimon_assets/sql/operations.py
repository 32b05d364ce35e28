"""Operations under Paimon's names: CALL and the page of procedures are made of these functions.

Annotations are the types of parameters, defaults theirs, the first line of a docstring is the help.
Parameters before the `*` are CALL's, in Paimon's order; the caller passes those after it.

Source: `org.apache.paimon.spark.procedure`.
"""

import datetime as dt
import re
from collections.abc import Mapping, Sequence
from typing import Any, NewType

from msgspec.structs import replace

from paimon_assets.engine.codec.rest import bodies as rest
from paimon_assets.engine.contract.executor import RewritingExecutor
from paimon_assets.engine.control.catalog.catalog import Identifier
from paimon_assets.engine.control.clock import SystemClock
from paimon_assets.engine.control.compact import CompactStrategy
from paimon_assets.engine.control.maintenance import expire_partitions as ageing
from paimon_assets.engine.control.maintenance import expire_snapshots as expiry
from paimon_assets.engine.control.maintenance.orphan_files import DAY_MS
from paimon_assets.engine.control.maintenance.tag_files import expire_tags as expire_tags_of
from paimon_assets.engine.control.managers.commit_history import NewUser
from paimon_assets.engine.errors import InvalidInputError, NotFoundError
from paimon_assets.engine.spec.metadata.snapshot import Tag
from paimon_assets.engine.spec.options import all_options as keys
from paimon_assets.engine.spec.options.option import Option
from paimon_assets.engine.spec.predicate.predicate import all_of, any_of, equal
from paimon_assets.engine.spec.words import utc_text
from paimon_assets.engine.table.api import TableCatalog
from paimon_assets.engine.table.read.spark_dialect import SparkSql
from paimon_assets.engine.table.read.where import parse_where
from paimon_assets.engine.table.table import Table
from paimon_assets.engine.table.upkeep.maintenance import MaintenanceReport, MaintenanceTask

Millis = NewType("Millis", int)
"""Milliseconds since 1970, in UTC."""
Options = Mapping[str, str]
"""Dynamic options of the table, for one operation."""
Specs = Sequence[Mapping[str, str]]
"""Partitions: column → value; without a column, all its values."""


def _with(table: Table, options: Options, more: Mapping[Option[Any], object]) -> Table:
    """Return the table with the options of a call, and those of its other parameters."""
    texts = {option.key: str(value) for option, value in more.items() if value is not None}
    return table.copy({**options, **texts})


def _age_ms(time: Millis) -> int:
    return max(0, SystemClock().now_millis() - time)


def compact(
    table: Table,
    partitions: Specs = (),
    compact_strategy: CompactStrategy = CompactStrategy.FULL,
    order_strategy: str = "none",
    order_by: Sequence[str] = (),
    where: str | None = None,
    options: Options = {},
    partition_idle_time: dt.timedelta | None = None,
    buckets: str | None = None,
    *,
    executor: Any,
) -> None:
    """Merge the runs and fold the small files of a table."""
    builder = table.copy(options).new_compaction_builder()
    if order_strategy != "none":
        builder = builder.with_strategy("sort").with_order(order_by, order_strategy)
    else:
        builder = builder.with_strategy(compact_strategy)
    specs = [all_of(equal(*pair) for pair in spec.items()) for spec in partitions]
    named = [spec for spec in specs if spec is not None]
    builder = builder.with_partition_idle_time(partition_idle_time).with_buckets(buckets)
    builder = builder.with_filter(any_of(named) if named else None)
    if where:
        builder = builder.with_filter(parse_where(where, SparkSql))
    builder.run(executor)


def rescale(
    table: Table,
    bucket_num: int | None = None,
    partitions: Specs = (),
    scan_parallelism: str | None = None,
    sink_parallelism: str | None = None,
    *,
    executor: RewritingExecutor,
) -> None:
    """Give partitions of a table another number of buckets."""
    for spec in partitions or [{}]:
        table.rescale(executor, buckets=bucket_num, partition=spec)


def compact_database(
    including_databases: re.Pattern[str] = re.compile(".*"),
    including_tables: re.Pattern[str] = re.compile(".*"),
    excluding_tables: re.Pattern[str] = re.compile("(?!)"),
    options: Options = {},
    *,
    catalog: TableCatalog,
    executor: Any,
) -> int:
    """Compact all tables whose names match."""
    done = 0
    for database in filter(including_databases.fullmatch, catalog.list_databases()):
        for name in (Identifier(database, table) for table in catalog.list_tables(database)):
            text = str(name)
            if including_tables.fullmatch(text) and not excluding_tables.fullmatch(text):
                compact(catalog.get_table(name, options=options or None), executor=executor)
                done += 1
    return done


def expire_snapshots(
    table: Table,
    retain_max: str | None = None,
    retain_min: str | None = None,
    older_than: Millis | None = None,
    max_deletes: int | None = None,
    options: Options = {},
) -> int:
    """Expire the snapshots that the options of a table let go."""
    retention: Mapping[Option[Any], object] = {
        keys.SNAPSHOT_NUM_RETAINED_MAX: retain_max,
        keys.SNAPSHOT_NUM_RETAINED_MIN: retain_min,
        keys.SNAPSHOT_TIME_RETAINED: None if older_than is None else f"{_age_ms(older_than)} ms",
        keys.SNAPSHOT_EXPIRE_LIMIT: max_deletes,
    }
    maintenance = _with(table, options, retention).maintenance()
    if max_deletes is not None:
        return len(expiry.expire_snapshots(maintenance.store).snapshot_ids)
    return maintenance.run(MaintenanceTask.EXPIRE_SNAPSHOTS).count


def expire_partitions(
    table: Table,
    expiration_time: str | None = None,
    timestamp_formatter: str | None = None,
    timestamp_pattern: str | None = None,
    expire_strategy: str | None = None,
    max_expires: str | None = None,
    options: Options = {},
) -> Sequence[str]:
    """Empty the partitions that are too old."""
    rules: Mapping[Option[Any], object] = {
        keys.PARTITION_EXPIRATION_TIME: expiration_time,
        keys.PARTITION_TIMESTAMP_FORMATTER: timestamp_formatter,
        keys.PARTITION_TIMESTAMP_PATTERN: timestamp_pattern,
        keys.PARTITION_EXPIRATION_STRATEGY: expire_strategy,
        keys.PARTITION_EXPIRATION_MAX_NUM: max_expires,
    }
    store = _with(table, options, rules).maintenance().store
    return ageing.expire_partitions(store, commit_user=NewUser()).partitions


def remove_orphan_files(
    table: Sequence[Table],
    older_than: Millis | None = None,
    dry_run: bool = False,
    parallelism: str | None = None,
    mode: str | None = None,
) -> list[MaintenanceReport]:
    """Delete files that no snapshot names; `database.*` takes all tables."""
    age_ms = DAY_MS if older_than is None else _age_ms(older_than)
    return [
        replace(one.maintenance(), dry_run=dry_run, orphans_older_than_ms=age_ms).run(
            MaintenanceTask.CLEAN_ORPHANS
        )
        for one in table
    ]


def compact_manifest(table: Table, options: Options = {}, dry_run: bool = False) -> None:
    """Fold the manifests of a table."""
    store = table.copy(options).maintenance().store
    ageing.compact_manifests(store, commit_user=NewUser(), dry_run=dry_run)


def create_tag(
    table: Table,
    tag: str,
    snapshot: int | None = None,
    time_retained: dt.timedelta | None = None,
    if_not_exists: bool = False,
) -> None:
    """Give a snapshot a name; the newest by default."""
    table.tags.create(tag, snapshot, time_retained=time_retained, ignore_if_exists=if_not_exists)


def create_tag_from_timestamp(
    table: Table, tag: str, timestamp: Millis, time_retained: dt.timedelta | None = None
) -> Tag:
    """Give the first snapshot at or after a time a name."""
    snapshot = next((s for s in table.snapshots() if s.time_millis >= timestamp), None)
    if snapshot is None:
        message = f"Table '{table.name}' has no snapshot at or after {timestamp}."
        raise NotFoundError(message, kind="snapshot-not-found")
    return table.tags.create(tag, snapshot.id, time_retained=time_retained)


def replace_tag(
    table: Table, tag: str, snapshot: int | None = None, time_retained: dt.timedelta | None = None
) -> None:
    """Let a tag name another snapshot; the newest by default."""
    table.tags.replace(tag, snapshot, time_retained=time_retained)


def create_or_replace_tag(
    table: Table, tag: str, snapshot: int | None = None, time_retained: dt.timedelta | None = None
) -> None:
    """Let a tag name a snapshot, whether there is such a tag or not."""
    tags = table.tags
    write = tags.create if tags.get_or_none(tag) is None else tags.replace
    write(tag, snapshot, time_retained=time_retained)


def rename_tag(table: Table, tag: str, target_tag: str) -> None:
    """Give a tag another name."""
    table.tags.rename(tag, target_tag)


def delete_tag(table: Table, tag: Sequence[str], if_exists: bool = False) -> None:
    """Delete tags, with the files that only they kept; all are looked up first."""
    look = table.tags.get_or_none if if_exists else table.tags.get
    for each in list(map(look, dict.fromkeys(tag))):
        if each is not None:
            table.tags.delete(each.name)


def expire_tags(table: Table, older_than: Millis | None = None) -> list[str]:
    """Delete tags whose time is over; with a time, those with a retention that are older."""
    if older_than is None:
        return [each.tag.name for each in expire_tags_of(table.maintenance().store)]
    gone = [
        tag.name
        for tag in table.tags.list()
        if tag.create_time and tag.time_retained and tag.create_time.timestamp() * 1000 < older_than
    ]
    for name in gone:
        table.tags.delete(name)
    return gone


def trigger_tag_automatic_creation(table: Table) -> None:
    """Create the automatic tags that are due."""
    table.maintenance().run(MaintenanceTask.CREATE_TAGS)


def rollback(
    table: Table, version: str | None = None, snapshot: int | None = None, tag: str | None = None
) -> tuple[int | None, int]:
    """Undo all after a snapshot or a tag: of a version, id or name."""
    targets = [each for each in (version, snapshot, tag) if each is not None]
    if len(targets) != 1:
        raise InvalidInputError(
            "rollback takes one of version, snapshot and tag.", kind="procedure"
        )
    before = table.latest_snapshot()
    is_id = version is not None and version.isdecimal()
    done = table.rollback_to(int(targets[0]) if is_id else targets[0])
    return None if before is None else before.id, done.snapshot.id


def rollback_to_timestamp(table: Table, timestamp: Millis) -> tuple[int | None, int]:
    """Undo all after a time."""
    ids = [snapshot.id for snapshot in table.snapshots() if snapshot.time_millis <= timestamp]
    if not ids:
        message = f"Table '{table.name}' has no snapshot at or before {utc_text(timestamp)}."
        raise NotFoundError(message, kind="snapshot-not-found")
    return rollback(table, snapshot=max(ids))


def create_branch(
    table: Table, branch: str, tag: str | None = None, ignoreIfExists: bool = False
) -> None:
    """Make a branch, of a tag or empty."""
    table.branches.create(branch, tag=tag, ignore_if_exists=ignoreIfExists)


def delete_branch(table: Table, branch: Sequence[str]) -> None:
    """Delete branches."""
    for name in branch:
        table.branches.delete(name)


def rename_branch(table: Table, from_branch: str, to_branch: str) -> None:
    """Give a branch another name."""
    table.branches.rename(from_branch, to_branch)


def fast_forward(table: Table, branch: str) -> None:
    """Make a table equal to its branch."""
    table.branches.fast_forward(branch)


def reset_consumer(table: Table, consumerId: str, nextSnapshotId: int | None = None) -> None:
    """Let a consumer continue at a snapshot; without one, forget it."""
    if nextSnapshotId is None:
        table.consumers.delete(consumerId)
    else:
        table.consumers.reset(consumerId, nextSnapshotId)


def clear_consumers(
    table: Table,
    includingConsumers: re.Pattern[str] = re.compile(".*"),
    excludingConsumers: re.Pattern[str] = re.compile("(?!)"),
) -> None:
    """Forget the consumers whose names match."""
    for name in filter(includingConsumers.fullmatch, table.consumers.list()):
        if not excludingConsumers.fullmatch(name):
            table.consumers.delete(name)


def alter_view_dialect(
    view: Identifier,
    action: str,
    engine: str = "spark",
    query: str | None = None,
    *,
    catalog: TableCatalog,
) -> None:
    """Add, update or drop the query of a view for one engine."""
    changes: dict[str, rest.ViewChange] = {
        "add": rest.AddDialect(dialect=engine, query=query or ""),
        "update": rest.UpdateDialect(dialect=engine, query=query or ""),
        "drop": rest.DropDialect(dialect=engine),
    }
    change = changes.get(action.lower())
    if change is None or not (query or isinstance(change, rest.DropDialect)):
        message = "alter_view_dialect takes the action add or update with a query, or drop."
        raise InvalidInputError(message, kind="procedure")
    catalog.views.alter(str(view), [change])
