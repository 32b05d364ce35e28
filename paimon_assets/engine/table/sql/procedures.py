"""CALL: procedures under Paimon's names, with its parameters, in its order.

Source: `org.apache.paimon.spark.procedure`. Times without an offset are UTC.
"""

import datetime as dt
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from paimon_assets.engine.codec.rest.resources import (
    AddDialect,
    DropDialect,
    UpdateDialect,
    ViewChange,
)
from paimon_assets.engine.contract.executor import CountingExecutor
from paimon_assets.engine.control.clock import SystemClock
from paimon_assets.engine.control.maintenance.compact_manifests import compact_manifests
from paimon_assets.engine.control.maintenance.expire_partitions import expire_partitions
from paimon_assets.engine.control.maintenance.expire_snapshots import expire_snapshots
from paimon_assets.engine.control.maintenance.tag_files import expire_tags
from paimon_assets.engine.control.managers.commit_history import NewUser
from paimon_assets.engine.errors import InvalidInputError, NotFoundError, UnsupportedFeatureError
from paimon_assets.engine.spec.metadata.snapshot import Snapshot
from paimon_assets.engine.spec.options.all_options import (
    PARTITION_EXPIRATION_MAX_NUM,
    PARTITION_EXPIRATION_STRATEGY,
    PARTITION_EXPIRATION_TIME,
    PARTITION_TIMESTAMP_FORMATTER,
    PARTITION_TIMESTAMP_PATTERN,
    SNAPSHOT_EXPIRE_LIMIT,
    SNAPSHOT_NUM_RETAINED_MAX,
    SNAPSHOT_NUM_RETAINED_MIN,
    SNAPSHOT_TIME_RETAINED,
)
from paimon_assets.engine.spec.options.option import parse_duration_ms, parse_moment_ms
from paimon_assets.engine.spec.predicate.predicate import Predicate, all_of, any_of, equal
from paimon_assets.engine.spec.types.literals import Literal
from paimon_assets.engine.table.read.where import parse_where
from paimon_assets.engine.table.sql.answers import Columns, answer, texts
from paimon_assets.engine.table.sql.sql_catalog import SqlCatalog
from paimon_assets.engine.table.sql.statements import Call, Names
from paimon_assets.engine.table.sql_words import SparkSql, Words
from paimon_assets.engine.table.table import Table
from paimon_assets.engine.table.upkeep.maintenance import MaintenanceTask


@dataclass(frozen=True, slots=True, kw_only=True)
class _Called:
    """One call: its arguments, and what it works on."""

    catalog: SqlCatalog
    names: Names
    executor: CountingExecutor[Any]
    given: Mapping[str, Literal]

    def text(self, name: str) -> str:
        """Return an argument as a text; empty if it is not given."""
        value = self.given.get(name)
        return "" if value is None else str(value)

    def number(self, name: str) -> int | None:
        """Return an argument that is a number."""
        value = self.given.get(name)
        if value is None:
            return None
        if isinstance(value, str) and value.strip().isdecimal():
            return int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise InvalidInputError(f"'{name}' is a number, not {value!r}.", kind="procedure")
        return value

    def flag(self, name: str) -> bool:
        """Return an argument that is true or false."""
        return self.text(name).lower() == "true"

    def parsed(self, name: str, parse: Callable[[str], int]) -> int | None:
        """Return an argument that is a time or a duration, in milliseconds."""
        if self.given.get(name) is None:
            return None
        try:
            return parse(self.text(name))
        except ValueError as error:
            raise InvalidInputError(
                f"'{name}' cannot be '{self.text(name)}': {error}.", kind="procedure"
            ) from error

    def retained(self) -> dt.timedelta | None:
        """Return how long a tag is kept."""
        found = self.parsed("time_retained", parse_duration_ms)
        return None if found is None else dt.timedelta(milliseconds=found)

    def table(self, more: Mapping[str, str | None] | None = None) -> Table:
        """Open the table, with the call's options and others."""
        path = Words(text=self.text("table")).path("a table")
        options = _pairs(self.text("options")) | {
            key: value for key, value in (more or {}).items() if value
        }
        return self.catalog.get_table(self.names.identifier(path), options=options or None)


def _pairs(text: str) -> dict[str, str]:
    """Return what `k=v,k2=v2` says."""
    found = {}
    for part in filter(None, (each.strip() for each in text.split(","))):
        key, equals, value = part.partition("=")
        if not equals:
            raise InvalidInputError(f"'{part}' is not KEY=VALUE.", kind="procedure")
        found[key.strip()] = value.strip().strip("\"'")
    return found


def _partitions(text: str) -> Predicate | None:
    """Return what `a=1,b=2;a=3` says: the comma is AND, the semicolon OR."""
    found = []
    for part in filter(None, (each.strip() for each in text.split(";"))):
        both = all_of(equal(name, value) for name, value in _pairs(part).items())
        if both is not None:
            found.append(both)
    return any_of(found) if found else None


def _compact(called: _Called) -> None:
    _compacted(called, called.table())


def _compacted(called: _Called, table: Table) -> Snapshot | None:
    builder = table.new_compaction_builder()
    order, columns = called.text("order_strategy") or "none", called.text("order_by")
    if order != "none":
        names = [name.strip() for name in columns.split(",") if name.strip()]
        builder = builder.with_strategy("sort").with_order(names, order)
    else:
        builder = builder.with_strategy(called.text("compact_strategy") or "full")
    idle = called.parsed("partition_idle_time", parse_duration_ms)
    if idle is not None:
        builder = builder.with_partition_idle_time(dt.timedelta(milliseconds=idle))
    builder = builder.with_filter(_partitions(called.text("partitions")))
    if called.text("where"):
        builder = builder.with_filter(parse_where(called.text("where"), SparkSql))
    return builder.run(called.executor).snapshot


def _compact_database(called: _Called) -> pa.Table:
    databases, tables, without = (
        re.compile(called.text(name) or default)
        for name, default in (
            ("including_databases", ".*"), ("including_tables", ".*"), ("excluding_tables", "(?!)"),
        )
    )  # fmt: skip
    done = 0
    for database in filter(databases.fullmatch, called.catalog.list_databases()):
        for name in (f"{database}.{table}" for table in called.catalog.list_tables(database)):
            if tables.fullmatch(name) and not without.fullmatch(name):
                each = replace(called, given={**called.given, "table": name})
                _compacted(each, each.table())
                done += 1
    return texts("result", [f"compacted {done} tables"])


def _expire_snapshots(called: _Called) -> pa.Table:
    now_ms = SystemClock().now_millis()
    older = called.parsed("older_than", parse_moment_ms)
    at_once = called.number("max_deletes")
    table = called.table(
        {
            SNAPSHOT_NUM_RETAINED_MAX.key: called.text("retain_max"),
            SNAPSHOT_NUM_RETAINED_MIN.key: called.text("retain_min"),
            SNAPSHOT_TIME_RETAINED.key: "" if older is None else f"{max(0, now_ms - older)} ms",
            SNAPSHOT_EXPIRE_LIMIT.key: called.text("max_deletes"),
        }
    )
    if at_once is not None:
        count = len(expire_snapshots(table.maintenance().store).snapshot_ids)
    else:
        count = table.maintenance().run(MaintenanceTask.EXPIRE_SNAPSHOTS).count
    return answer([("deleted_snapshots_count", pa.int32())], [[count]])


def _expire_partitions(called: _Called) -> pa.Table:
    table = called.table(
        {
            PARTITION_EXPIRATION_TIME.key: called.text("expiration_time"),
            PARTITION_TIMESTAMP_FORMATTER.key: called.text("timestamp_formatter"),
            PARTITION_TIMESTAMP_PATTERN.key: called.text("timestamp_pattern"),
            PARTITION_EXPIRATION_STRATEGY.key: called.text("expire_strategy"),
            PARTITION_EXPIRATION_MAX_NUM.key: called.text("max_expires"),
        }
    )
    done = expire_partitions(table.maintenance().store, commit_user=NewUser())
    return texts("expired_partitions", done.partitions)


def _create_tag(called: _Called) -> None:
    called.table().create_tag(
        called.text("tag"),
        called.number("snapshot"),
        time_retained=called.retained(),
        ignore_if_exists=called.flag("if_not_exists"),
    )


def _create_tag_from_timestamp(called: _Called) -> pa.Table:
    table, after = called.table(), called.parsed("timestamp", parse_moment_ms) or 0
    found = next((s for s in table.snapshots() if s.time_millis >= after), None)
    if found is None:
        raise NotFoundError(
            f"Table '{table.name}' has no snapshot at or after {after}.", kind="snapshot-not-found"
        )
    table.create_tag(called.text("tag"), found.id, time_retained=called.retained())
    columns: Columns = [
        ("tagName", pa.string()),
        ("snapshot", pa.int64()),
        ("commit_time", pa.int64()),
    ]
    return answer(columns, [[called.text("tag"), found.id, found.time_millis]])


def _replace_tag(called: _Called) -> None:
    table = called.table()
    table.tags.replace(
        called.text("tag"), _snapshot(table, called), time_retained=called.retained()
    )


def _snapshot(table: Table, called: _Called) -> Snapshot:
    snapshot = table.snapshot(called.number("snapshot"))
    if snapshot is None:
        raise NotFoundError(f"Table '{table.name}' has no snapshot.", kind="snapshot-not-found")
    return snapshot


def _create_or_replace_tag(called: _Called) -> None:
    exists = called.table().tags.get_or_none(called.text("tag")) is not None
    (_replace_tag if exists else _create_tag)(called)


def _rename_tag(called: _Called) -> None:
    called.table().tags.rename(called.text("tag"), called.text("target_tag"))


def _delete_tag(called: _Called) -> None:
    table = called.table()
    names = [name.strip() for name in called.text("tag").split(",")]
    for name in names:
        found = table.tags.get_or_none(name)
        if found is None and not called.flag("if_exists"):
            table.tags.get(name)
    for name in names:
        if table.tags.get_or_none(name) is not None:
            table.delete_tag(name)


def _expire_tags(called: _Called) -> pa.Table:
    table, older = called.table(), called.parsed("older_than", parse_moment_ms)
    if older is None:
        gone = [each.tag.name for each in expire_tags(table.maintenance().store)]
        return texts("expired_tags", gone)
    gone = []
    for tag in table.tags.list():
        made = tag.create_time
        if made is not None and tag.time_retained and made.timestamp() * 1000 < older:
            table.delete_tag(tag.name)
            gone.append(tag.name)
    return texts("expired_tags", gone)


def _trigger_tags(called: _Called) -> None:
    called.table().maintenance().run(MaintenanceTask.CREATE_TAGS)


def _rollback(called: _Called) -> pa.Table:
    given = [name for name in ("version", "snapshot", "tag") if called.text(name)]
    if len(given) != 1:
        raise InvalidInputError(
            "rollback takes one of version, snapshot and tag.", kind="procedure"
        )
    table, target = called.table(), called.text(given[0])
    is_number = given[0] == "snapshot" or (given[0] == "version" and target.isdecimal())
    return _rolled_back(table, int(target) if is_number else target)


def _rolled_back(table: Table, target: int | str) -> pa.Table:
    before = table.latest_snapshot()
    done = table.rollback_to(target)
    columns = [("previous_snapshot_id", pa.int64()), ("current_snapshot_id", pa.int64())]
    return answer(columns, [[None if before is None else before.id, done.snapshot.id]])


def _rollback_to_timestamp(called: _Called) -> pa.Table:
    table, at = called.table(), called.parsed("timestamp", parse_moment_ms) or 0
    found = [snapshot for snapshot in table.snapshots() if snapshot.time_millis <= at]
    if not found:
        raise NotFoundError(
            f"Table '{table.name}' has no snapshot at or before {at}.", kind="snapshot-not-found"
        )
    return _rolled_back(table, max(snapshot.id for snapshot in found))


def _remove_orphan_files(called: _Called) -> pa.Table:
    older = called.parsed("older_than", parse_moment_ms)
    name, files, size = called.text("table"), 0, 0
    if name.endswith(".*"):
        tables = [f"{name[:-1]}{each}" for each in called.catalog.list_tables(name[:-2])]
    else:
        tables = [name]
    for each in tables:
        upkeep = replace(called, given={**called.given, "table": each}).table().maintenance()
        upkeep = replace(upkeep, dry_run=called.flag("dry_run"))
        if older is not None:
            age = max(0, SystemClock().now_millis() - older)
            upkeep = replace(upkeep, orphans_older_than_ms=age)
        report = upkeep.run(MaintenanceTask.CLEAN_ORPHANS)
        files, size = files + report.files, size + report.total_bytes
    columns = [("deletedFileCount", pa.int64()), ("deletedFileTotalLenInBytes", pa.int64())]
    return answer(columns, [[files, size]])


def _compact_manifest(called: _Called) -> None:
    store = called.table().maintenance().store
    compact_manifests(store, commit_user=NewUser(), dry_run=called.flag("dry_run"))


def _create_branch(called: _Called) -> None:
    called.table().branches.create(
        called.text("branch"),
        tag=called.text("tag") or None,
        ignore_if_exists=called.flag("ignoreIfExists"),
    )


def _delete_branch(called: _Called) -> None:
    branches = called.table().branches
    for name in called.text("branch").split(","):
        branches.delete(name.strip())


def _rename_branch(called: _Called) -> None:
    called.table().branches.rename(called.text("from_branch"), called.text("to_branch"))


def _fast_forward(called: _Called) -> None:
    called.table().branches.fast_forward(called.text("branch"))


def _reset_consumer(called: _Called) -> None:
    consumers, to = called.table().consumers, called.number("nextSnapshotId")
    if to is None:
        consumers.delete(called.text("consumerId"))
    else:
        consumers.reset(called.text("consumerId"), to)


def _clear_consumers(called: _Called) -> None:
    consumers = called.table().consumers
    taken = re.compile(called.text("includingConsumers") or ".*")
    kept = re.compile(called.text("excludingConsumers") or "(?!)")
    for name in consumers.list():
        if taken.fullmatch(name) and not kept.fullmatch(name):
            consumers.delete(name)


def _alter_view_dialect(called: _Called) -> None:
    name = called.names.identifier(Words(text=called.text("view")).path("a view"))
    dialect, query = called.text("engine") or "spark", called.text("query")
    changes: dict[str, ViewChange] = {
        "add": AddDialect(dialect=dialect, query=query),
        "update": UpdateDialect(dialect=dialect, query=query),
        "drop": DropDialect(dialect=dialect),
    }
    action = called.text("action").lower()
    if action not in changes or (action != "drop" and not query):
        raise InvalidInputError(
            "alter_view_dialect takes the action add or update with a query, or drop.",
            kind="procedure",
        )
    called.catalog.views.alter(str(name), [changes[action]])


_Run = Callable[[_Called], pa.Table | None]
"""None, if there is no more to say than that it is done."""
_PROCEDURES: Mapping[str, tuple[_Run, str]] = {
    "compact": (
        _compact,
        """table! partitions compact_strategy order_strategy order_by where options
        partition_idle_time""",
    ),
    "compact_database": (
        _compact_database, "including_databases including_tables excluding_tables options",
    ),
    "expire_snapshots": (
        _expire_snapshots, "table! retain_max retain_min older_than max_deletes options",
    ),
    "expire_partitions": (
        _expire_partitions,
        """table! expiration_time timestamp_formatter timestamp_pattern expire_strategy
        max_expires options""",
    ),
    "create_tag": (_create_tag, "table! tag! snapshot time_retained if_not_exists"),
    "create_tag_from_timestamp": (
        _create_tag_from_timestamp, "table! tag! timestamp! time_retained",
    ),
    "replace_tag": (_replace_tag, "table! tag! snapshot time_retained"),
    "create_or_replace_tag": (_create_or_replace_tag, "table! tag! snapshot time_retained"),
    "rename_tag": (_rename_tag, "table! tag! target_tag!"),
    "delete_tag": (_delete_tag, "table! tag! if_exists"),
    "expire_tags": (_expire_tags, "table! older_than"),
    "trigger_tag_automatic_creation": (_trigger_tags, "table!"),
    "rollback": (_rollback, "table! version snapshot tag"),
    "rollback_to_timestamp": (_rollback_to_timestamp, "table! timestamp!"),
    "remove_orphan_files": (_remove_orphan_files, "table! older_than dry_run parallelism mode"),
    "compact_manifest": (_compact_manifest, "table! options dry_run"),
    "create_branch": (_create_branch, "table! branch! tag ignoreIfExists"),
    "delete_branch": (_delete_branch, "table! branch!"),
    "rename_branch": (_rename_branch, "table! from_branch! to_branch!"),
    "fast_forward": (_fast_forward, "table! branch!"),
    "reset_consumer": (_reset_consumer, "table! consumerId! nextSnapshotId"),
    "clear_consumers": (_clear_consumers, "table! includingConsumers excludingConsumers"),
    "alter_view_dialect": (_alter_view_dialect, "view! action! engine query"),
}  # fmt: skip
"""Name → what runs it, and its parameters in order; those with an exclamation mark are needed."""


def call(
    catalog: SqlCatalog, statement: Call, names: Names, executor: CountingExecutor[Any]
) -> pa.Table:
    """Run a procedure."""
    found = _PROCEDURES.get(statement.procedure)
    if found is None:
        raise UnsupportedFeatureError(
            f"CALL sys.{statement.procedure} is not taken; there are"
            f" {', '.join(sorted(_PROCEDURES))}.",
            kind="procedure-unsupported",
            details={"procedure": statement.procedure},
        )
    run, parameters = found
    given = _by_name(statement, parameters.split())
    shown = run(_Called(catalog=catalog, names=names, executor=executor, given=given))
    return answer([("result", pa.bool_())], [[True]]) if shown is None else shown


def _by_name(statement: Call, parameters: Sequence[str]) -> dict[str, Literal]:
    known = {name.rstrip("!").lower(): name.rstrip("!") for name in parameters}
    places = list(known.values())
    found: dict[str, Literal] = {}
    for key, value in statement.arguments.items():
        place = int(key) if key.isdecimal() else None
        in_reach = place is None or place < len(places)
        name = known.get(key.lower()) if place is None else (places[place] if in_reach else None)
        if name is None or name in found:
            raise InvalidInputError(
                f"{statement.procedure} takes {', '.join(places)}, each once; not '{key}'.",
                kind="procedure",
            )
        found[name] = value
    missing = [n[:-1] for n in parameters if n.endswith("!") and found.get(n[:-1]) in (None, "")]
    if missing:
        raise InvalidInputError(
            f"{statement.procedure} needs '{missing[0]}'; it takes {', '.join(places)}.",
            kind="procedure",
        )
    return found
