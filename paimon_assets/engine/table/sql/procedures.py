"""CALL: procedures under Paimon's names, with its parameters, in its order.

Source: `org.apache.paimon.spark.procedure`. Times without an offset are UTC.
"""

import datetime as dt
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa

from paimon_assets.engine.codec.rest import documents as rest
from paimon_assets.engine.contract.executor import CountingExecutor, RewritingExecutor
from paimon_assets.engine.control.clock import SystemClock
from paimon_assets.engine.control.compact import CompactStrategy
from paimon_assets.engine.control.maintenance.expire_partitions import (
    compact_manifests,
    expire_partitions,
)
from paimon_assets.engine.control.maintenance.expire_snapshots import expire_snapshots
from paimon_assets.engine.control.maintenance.orphan_files import DAY_MS
from paimon_assets.engine.control.maintenance.tag_files import expire_tags
from paimon_assets.engine.control.managers.commit_history import NewUser
from paimon_assets.engine.errors import InvalidInputError, NotFoundError, UnsupportedFeatureError
from paimon_assets.engine.spec.options import all_options as keys
from paimon_assets.engine.spec.options.all_options import parse_duration_ms, parse_instant_ms
from paimon_assets.engine.spec.predicate.predicate import Predicate, all_of, any_of, equal
from paimon_assets.engine.spec.types.literals import Literal
from paimon_assets.engine.spec.words import utc_text
from paimon_assets.engine.table.read.where import parse_where
from paimon_assets.engine.table.sql.statements import Call, Names, SqlCatalog, answer, texts
from paimon_assets.engine.table.sql_words import SparkSql, Words
from paimon_assets.engine.table.table import Table
from paimon_assets.engine.table.upkeep.maintenance import MaintenanceTask


class _Arguments(SimpleNamespace):
    """The arguments of one CALL, typed and by name, and the catalog."""

    catalog: SqlCatalog
    names: Names
    executor: CountingExecutor[Any]

    def open(self, more: Mapping[str, object] | None = None) -> Table:
        """Open the table, with the options of the call and these."""
        path = Words(text=self.table).path("a table")
        options = dict(vars(self).get("options", {}))
        options |= {key: str(value) for key, value in (more or {}).items() if value is not None}
        return self.catalog.get_table(self.names.identifier(path), options=options or None)

    def of(self, table: str) -> "_Arguments":
        return _Arguments(**{**vars(self), "table": table})


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _pairs(text: str) -> dict[str, str]:
    pairs = {}
    for part in _names(text):
        key, equals, value = part.partition("=")
        if not equals:
            raise InvalidInputError(f"'{part}' is not KEY=VALUE.", kind="procedure")
        pairs[key.strip()] = value.strip().strip("\"'")
    return pairs


_KINDS: Mapping[str, Callable[[str], Any]] = {
    "text": str,
    "int": int,
    "flag": lambda text: text.lower() == "true",
    "duration": lambda text: dt.timedelta(milliseconds=parse_duration_ms(text)),
    "moment": parse_instant_ms,
    "names": _names,
    "pairs": _pairs,
    "pattern": re.compile,
    "strategy": CompactStrategy,
}
"""Kind of a parameter → makes its value of a text."""
_EMPTY: Mapping[str, Any] = {"names": [], "pairs": {}, "flag": False}
"""Kind → its value without a text, where that is not None."""


@dataclass(frozen=True, slots=True)
class _Parameter:
    """A parameter of a procedure."""

    name: str
    kind: str
    default: str
    is_required: bool

    @staticmethod
    def of(text: str) -> "_Parameter":
        """Return the parameter that `name`, `name:kind` or `name:kind=default` declares."""
        head, _, default = text.partition("=")
        name, _, kind = head.partition(":")
        return _Parameter(name.rstrip("!"), kind or "text", default, name.endswith("!"))

    def typed(self, value: Literal) -> Any:
        """Return a literal in the type of the kind.

        Raises:
            InvalidInputError: It does not fit the kind (kind `procedure`).
        """
        if value == "" and (self.default or self.kind in ("text", *_EMPTY)):
            value = None
        if value is None and not self.default:
            return _EMPTY.get(self.kind)
        text = self.default if value is None else str(value)
        if self.kind == "int" and (isinstance(value, bool) or not text.strip().isdecimal()):
            raise InvalidInputError(f"'{self.name}' is a number, not {value!r}.", kind="procedure")
        try:
            return _KINDS[self.kind](text)
        except (ValueError, OverflowError, re.error) as error:
            raise InvalidInputError(
                f"'{self.name}' cannot be '{text}': {error}.", kind="procedure"
            ) from error


def _partitions(text: str | None) -> Predicate | None:
    """Parse `a=1,b=2;a=3`: the comma is AND, the semicolon OR."""
    specs = filter(None, map(_pairs, (text or "").split(";")))
    parts = [all_of(equal(name, value) for name, value in spec.items()) for spec in specs]
    return any_of([part for part in parts if part is not None]) if parts else None


def _compact(args: _Arguments) -> None:
    builder = args.open().new_compaction_builder()
    if args.order_strategy != "none":
        builder = builder.with_strategy("sort")
        builder = builder.with_order(args.order_by, args.order_strategy)
    else:
        builder = builder.with_strategy(args.compact_strategy)
    builder = builder.with_partition_idle_time(args.partition_idle_time)
    builder = builder.with_buckets(args.buckets).with_filter(_partitions(args.partitions))
    if args.where:
        builder = builder.with_filter(parse_where(args.where, SparkSql))
    builder.run(args.executor)


def _rescale(args: _Arguments) -> None:
    executor, specs = cast("RewritingExecutor", args.executor), (args.partitions or "").split(";")
    for spec in map(_pairs, specs):
        args.open().rescale(executor, buckets=args.bucket_num, partition=spec)


def _compact_database(args: _Arguments) -> pa.Table:
    done = 0
    for database in filter(args.including_databases.fullmatch, args.catalog.list_databases()):
        for name in (f"{database}.{table}" for table in args.catalog.list_tables(database)):
            if args.including_tables.fullmatch(name) and not (
                args.excluding_tables.fullmatch(name)
            ):
                builder = args.of(name).open().new_compaction_builder()
                builder.with_strategy(CompactStrategy.FULL).run(args.executor)
                done += 1
    return texts("result", [f"compacted {done} tables"])


def _expire_snapshots(args: _Arguments) -> pa.Table:
    older, now_ms = args.older_than, SystemClock().now_millis()
    maintenance = args.open(
        {
            keys.SNAPSHOT_NUM_RETAINED_MAX.key: args.retain_max,
            keys.SNAPSHOT_NUM_RETAINED_MIN.key: args.retain_min,
            keys.SNAPSHOT_TIME_RETAINED.key: None
            if older is None
            else f"{max(0, now_ms - older)} ms",
            keys.SNAPSHOT_EXPIRE_LIMIT.key: args.max_deletes,
        }
    ).maintenance()
    if args.max_deletes is not None:
        count = len(expire_snapshots(maintenance.store).snapshot_ids)
    else:
        count = maintenance.run(MaintenanceTask.EXPIRE_SNAPSHOTS).count
    return answer("deleted_snapshots_count INT", [[count]])


def _expire_partitions(args: _Arguments) -> pa.Table:
    table = args.open(
        {
            keys.PARTITION_EXPIRATION_TIME.key: args.expiration_time,
            keys.PARTITION_TIMESTAMP_FORMATTER.key: args.timestamp_formatter,
            keys.PARTITION_TIMESTAMP_PATTERN.key: args.timestamp_pattern,
            keys.PARTITION_EXPIRATION_STRATEGY.key: args.expire_strategy,
            keys.PARTITION_EXPIRATION_MAX_NUM.key: args.max_expires,
        }
    )
    done = expire_partitions(table.maintenance().store, commit_user=NewUser())
    return texts("expired_partitions", done.partitions)


def _create_tag(args: _Arguments) -> None:
    args.open().tags.create(
        args.tag,
        args.snapshot,
        time_retained=args.time_retained,
        ignore_if_exists=args.if_not_exists,
    )


def _create_tag_from_timestamp(args: _Arguments) -> pa.Table:
    table, after = args.open(), args.timestamp
    snapshot = next((s for s in table.snapshots() if s.time_millis >= after), None)
    if snapshot is None:
        raise NotFoundError(
            f"Table '{table.name}' has no snapshot at or after {after}.", kind="snapshot-not-found"
        )
    table.tags.create(args.tag, snapshot.id, time_retained=args.time_retained)
    row = [args.tag, snapshot.id, snapshot.time_millis]
    return answer("tagName STRING, snapshot BIGINT, commit_time BIGINT", [row])


def _replace_tag(args: _Arguments) -> None:
    args.open().tags.replace(args.tag, args.snapshot, time_retained=args.time_retained)


def _create_or_replace_tag(args: _Arguments) -> None:
    tags = args.open().tags
    write = tags.create if tags.get_or_none(args.tag) is None else tags.replace
    write(args.tag, args.snapshot, time_retained=args.time_retained)


def _rename_tag(args: _Arguments) -> None:
    args.open().tags.rename(args.tag, args.target_tag)


def _delete_tag(args: _Arguments) -> None:
    tags = args.open().tags
    look = tags.get_or_none if args.if_exists else tags.get
    for tag in list(map(look, dict.fromkeys(args.tag))):
        if tag is not None:
            tags.delete(tag.name)


def _expire_tags(args: _Arguments) -> pa.Table:
    table, older = args.open(), args.older_than
    if older is None:
        gone = [each.tag.name for each in expire_tags(table.maintenance().store)]
        return texts("expired_tags", gone)
    gone = [
        tag.name
        for tag in table.tags.list()
        if tag.create_time and tag.time_retained and tag.create_time.timestamp() * 1000 < older
    ]
    for name in gone:
        table.tags.delete(name)
    return texts("expired_tags", gone)


def _trigger_tag_automatic_creation(args: _Arguments) -> None:
    args.open().maintenance().run(MaintenanceTask.CREATE_TAGS)


def _rollback(args: _Arguments) -> pa.Table:
    targets = [each for each in (args.version, args.snapshot, args.tag) if each is not None]
    if len(targets) != 1:
        raise InvalidInputError(
            "rollback takes one of version, snapshot and tag.", kind="procedure"
        )
    is_id = args.version is not None and args.version.isdecimal()
    return _rolled_back(args.open(), int(args.version) if is_id else targets[0])


def _rolled_back(table: Table, target: int | str) -> pa.Table:
    before = table.latest_snapshot()
    done = table.rollback_to(target)
    row = [None if before is None else before.id, done.snapshot.id]
    return answer("previous_snapshot_id BIGINT, current_snapshot_id BIGINT", [row])


def _rollback_to_timestamp(args: _Arguments) -> pa.Table:
    table, at = args.open(), args.timestamp
    ids = [snapshot.id for snapshot in table.snapshots() if snapshot.time_millis <= at]
    if not ids:
        raise NotFoundError(
            f"Table '{table.name}' has no snapshot at or before {utc_text(at)}.",
            kind="snapshot-not-found",
        )
    return _rolled_back(table, max(ids))


def _remove_orphan_files(args: _Arguments) -> pa.Table:
    name, files, size, age_ms = args.table, 0, 0, DAY_MS
    if args.older_than is not None:
        age_ms = max(0, SystemClock().now_millis() - args.older_than)
    tables = [name]
    if name.endswith(".*"):
        tables = [f"{name[:-1]}{each}" for each in args.catalog.list_tables(name[:-2])]
    for each in tables:
        upkeep = args.of(each).open().maintenance()
        upkeep = replace(upkeep, dry_run=args.dry_run, orphans_older_than_ms=age_ms)
        report = upkeep.run(MaintenanceTask.CLEAN_ORPHANS)
        files, size = files + report.files, size + report.total_bytes
    return answer("deletedFileCount BIGINT, deletedFileTotalLenInBytes BIGINT", [[files, size]])


def _compact_manifest(args: _Arguments) -> None:
    store = args.open().maintenance().store
    compact_manifests(store, commit_user=NewUser(), dry_run=args.dry_run)


def _create_branch(args: _Arguments) -> None:
    branches = args.open().branches
    branches.create(args.branch, tag=args.tag, ignore_if_exists=args.ignoreIfExists)


def _delete_branch(args: _Arguments) -> None:
    branches = args.open().branches
    for name in args.branch:
        branches.delete(name)


def _rename_branch(args: _Arguments) -> None:
    args.open().branches.rename(args.from_branch, args.to_branch)


def _fast_forward(args: _Arguments) -> None:
    args.open().branches.fast_forward(args.branch)


def _reset_consumer(args: _Arguments) -> None:
    consumers = args.open().consumers
    if args.nextSnapshotId is None:
        consumers.delete(args.consumerId)
    else:
        consumers.reset(args.consumerId, args.nextSnapshotId)


def _clear_consumers(args: _Arguments) -> None:
    consumers = args.open().consumers
    for name in filter(args.includingConsumers.fullmatch, consumers.list()):
        if not args.excludingConsumers.fullmatch(name):
            consumers.delete(name)


def _alter_view_dialect(args: _Arguments) -> None:
    name = args.names.identifier(Words(text=args.view).path("a view"))
    dialect, query, action = args.engine, args.query or "", args.action.lower()
    changes: dict[str, rest.ViewChange] = {
        "add": rest.AddDialect(dialect=dialect, query=query),
        "update": rest.UpdateDialect(dialect=dialect, query=query),
        "drop": rest.DropDialect(dialect=dialect),
    }
    if action not in changes or (action != "drop" and not query):
        raise InvalidInputError(
            "alter_view_dialect takes the action add or update with a query, or drop.",
            kind="procedure",
        )
    args.catalog.views.alter(str(name), [changes[action]])


_Run = Callable[[_Arguments], pa.Table | None]
"""None, if there is no more to say than that it is done."""
_TAG = "table! tag! snapshot:int time_retained:duration"
_DECLARED: Mapping[_Run, str] = {
    _compact: "table! partitions compact_strategy:strategy=full order_strategy=none"
    " order_by:names where options:pairs partition_idle_time:duration buckets",
    _rescale: "table! bucket_num:int partitions scan_parallelism sink_parallelism",
    _compact_database: "including_databases:pattern=.* including_tables:pattern=.*"
    " excluding_tables:pattern=(?!) options:pairs",
    _expire_snapshots: "table! retain_max retain_min older_than:moment max_deletes:int"
    " options:pairs",
    _expire_partitions: "table! expiration_time timestamp_formatter timestamp_pattern"
    " expire_strategy max_expires options:pairs",
    _create_tag: f"{_TAG} if_not_exists:flag",
    _create_tag_from_timestamp: "table! tag! timestamp!:moment time_retained:duration",
    _replace_tag: _TAG,
    _create_or_replace_tag: _TAG,
    _rename_tag: "table! tag! target_tag!",
    _delete_tag: "table! tag!:names if_exists:flag",
    _expire_tags: "table! older_than:moment",
    _trigger_tag_automatic_creation: "table!",
    _rollback: "table! version snapshot:int tag",
    _rollback_to_timestamp: "table! timestamp!:moment",
    _remove_orphan_files: "table! older_than:moment dry_run:flag parallelism mode",
    _compact_manifest: "table! options:pairs dry_run:flag",
    _create_branch: "table! branch! tag ignoreIfExists:flag",
    _delete_branch: "table! branch!:names",
    _rename_branch: "table! from_branch! to_branch!",
    _fast_forward: "table! branch!",
    _reset_consumer: "table! consumerId! nextSnapshotId:int",
    _clear_consumers: "table! includingConsumers:pattern=.* excludingConsumers:pattern=(?!)",
    _alter_view_dialect: "view! action! engine=spark query",
}
"""Runs the procedure of its name → parameters in order; `!` marks required ones."""
_PROCEDURES: Mapping[str, tuple[_Run, list[_Parameter]]] = {
    run.__name__.lstrip("_"): (run, list(map(_Parameter.of, text.split())))
    for run, text in _DECLARED.items()
}


def call(
    catalog: SqlCatalog, statement: Call, names: Names, executor: CountingExecutor[Any]
) -> pa.Table:
    procedure = _PROCEDURES.get(statement.procedure)
    if procedure is None:
        raise UnsupportedFeatureError(
            f"CALL sys.{statement.procedure} is not taken; there are"
            f" {', '.join(sorted(_PROCEDURES))}.",
            kind="procedure-unsupported",
            details={"procedure": statement.procedure},
        )
    run, parameters = procedure
    literals = _by_name(statement, parameters)
    values = {one.name: one.typed(literals.get(one.name)) for one in parameters}
    shown = run(_Arguments(catalog=catalog, names=names, executor=executor, **values))
    return answer("result BOOLEAN", [[True]]) if shown is None else shown


def _by_name(statement: Call, parameters: list[_Parameter]) -> dict[str, Literal]:
    places = [one.name for one in parameters]
    known = {str(at): name for at, name in enumerate(places)}
    known |= {name.lower(): name for name in places}
    literals: dict[str, Literal] = {}
    for key, value in statement.arguments.items():
        name = known.get(key.lower())
        if name is None or name in literals:
            raise InvalidInputError(
                f"{statement.procedure} takes {', '.join(places)}, each once; not '{key}'.",
                kind="procedure",
            )
        literals[name] = value
    for one in parameters:
        if one.is_required and literals.get(one.name) in (None, ""):
            raise InvalidInputError(
                f"{statement.procedure} needs '{one.name}'; it takes {', '.join(places)}.",
                kind="procedure",
            )
    return literals
