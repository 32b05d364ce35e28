"""ReadBuilder: columns, filter, and a snapshot or a range of changes → Plan → rows."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from msgspec import field
from msgspec.structs import replace

from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_schema
from paimon_assets.engine.contract.executor import CountingExecutor, Executor
from paimon_assets.engine.contract.wire import load_splits
from paimon_assets.engine.control.catalog.catalog import QueryAuth
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.scan import time_travel
from paimon_assets.engine.control.scan.table_scan import scan_of_external, scan_table
from paimon_assets.engine.embedded import ArrowRows, EmbeddedExecutor
from paimon_assets.engine.errors import FormatError, InvalidInputError, UnsupportedFeatureError
from paimon_assets.engine.spec.merge.engine_traits import AS_NEWEST_WINS
from paimon_assets.engine.spec.metadata.snapshot import FIRST_SNAPSHOT_ID
from paimon_assets.engine.spec.options import all_options as opt
from paimon_assets.engine.spec.predicate.predicate import Predicate, all_of, bind, fields_of
from paimon_assets.engine.spec.schema.schema import (
    ROW_KIND,
    TableSchema,
    read_fields,
    with_tracking,
)
from paimon_assets.engine.spec.types.data_types import DataField
from paimon_assets.engine.spec.values import Value
from paimon_assets.engine.spec.words import shorten
from paimon_assets.engine.table.frames.frames import FrameReads
from paimon_assets.engine.table.read import plan as plans
from paimon_assets.engine.table.read.plan import Columns, Plan

if TYPE_CHECKING:
    from paimon_assets.engine.control.scan.incremental import Between


_CHANGES = "rows of a changelog are read whole, and not merged; plan them with row kinds"

__all__ = ["Plan", "ReadBuilder"]


class ReadBuilder(FrameReads, Value):
    """Describes a read; every `with_` and `at_` returns a new builder.

    `plan` checks options, snapshots and tags. `FrameReads` returns the rows as Arrow, pandas,
    polars, duckdb or Spark. Methods that look at the table may also raise `StorageError`, if the
    storage failed, and `FormatError`, if a file is damaged.

    >>> table.new_read_builder().with_columns(["id"]).with_filter("dt = '2024-01-01'").to_arrow()
    ... # doctest: +SKIP
    """

    store: FileStore
    columns: tuple[str, ...] | None = None
    predicate: Predicate | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    """Dynamic options of this read, with those of time travel."""
    row_kinds: bool = False
    as_stream: bool = False
    only_top_level: bool = False
    consumer: str | None = None
    consumer_start: int | None = None
    limit: int | None = None

    def __repr__(self) -> str:
        columns = "" if self.columns is None else f", columns {shorten(self.columns)}"
        filtered = ", filtered" if self.predicate is not None else ""
        options = f", with {shorten(sorted(self.options))}" if self.options else ""
        return f"ReadBuilder({self.store.label}{columns}{filtered}{options})"

    def with_columns(self, columns: Columns) -> ReadBuilder:
        """Return only these columns, in this order, or the one; None means all of the table."""
        names = (columns,) if isinstance(columns, str) else columns
        return replace(self, columns=None if names is None else tuple(names))

    def with_filter(self, predicate: plans.Where | None) -> ReadBuilder:
        """Return only rows for which the predicate is true; several filters are joined by AND.

        Args:
            predicate: A `Predicate`, an Expression of pyarrow, or a text such as
                `price > 3 AND dt IN ('2024-01-01')`.

        Raises:
            InvalidInputError: Neither of them, or a text that is no filter (`where.parse_where`).
        """
        parsed = None if predicate is None else plans.as_predicate(predicate)
        return replace(self, predicate=all_of([self.predicate, parsed]))

    def with_limit(self, limit: int | None) -> ReadBuilder:
        """Return at most a number of rows, in no order; splits beyond it are not planned."""
        return replace(self, limit=limit)

    def with_options(self, options: Mapping[str, str]) -> ReadBuilder:
        """Set table options for this read, such as `scan.tag-name` or `incremental-between`."""
        return replace(self, options={**self.options, **options})

    def with_row_kinds(self) -> ReadBuilder:
        """Return retractions too, and the kind of each row (+I, -U, +U, -D) as column `rowkind`.

        With modes `delta` and `changelog` of `between`, every record of a key is returned, in the
        order of commits; else one of each key.
        """
        return replace(self, row_kinds=True)

    def with_waiting_rows(self) -> ReadBuilder:
        """Let `between` return rows of level 0 that batch reads see after the next compaction only.

        That is so in tables of first-row and with deletion vectors. Consumers always read them.
        """
        return replace(self, as_stream=True)

    def with_consumer(self, consumer_id: str, *, start: int | None = None) -> ReadBuilder:
        """Read a consumer's unread rows: at first the whole table, then its changes.

        Read a plan, then call `table.consumers.advance(id, plan.next_snapshot)`. After a crash
        between the two, the same changes are read again, perhaps with later ones.

        Changes of an overwrite are the difference of two states. Deleted rows need row kinds (else
        `plan` raises kind `consumer-overwrite`), unless `streaming-read-overwrite` is false.

        Args:
            consumer_id: Name of the consumer.
            start: Snapshot to begin with, instead of the stored one.
        """
        return replace(self, consumer=consumer_id, consumer_start=start)

    def at_snapshot(self, snapshot_id: int) -> ReadBuilder:
        """Read the table as of this snapshot."""
        return self.with_options({opt.SCAN_SNAPSHOT_ID.key: str(snapshot_id)})

    def at_timestamp(self, time: dt.datetime | int | str) -> ReadBuilder:
        """Read the newest snapshot that was committed at `time` or before.

        Args:
            time: A datetime or a text such as `2024-01-31 12:00:00` (UTC if without an offset), or
                epoch milliseconds.
        """
        if isinstance(time, int):
            return self.with_options({opt.SCAN_TIMESTAMP_MILLIS.key: str(time)})
        text = time.isoformat() if isinstance(time, dt.datetime) else time
        return self.with_options({opt.SCAN_TIMESTAMP.key: text})

    def at_watermark(self, watermark: int) -> ReadBuilder:
        """Read the first snapshot with this watermark or a later one, in epoch milliseconds."""
        return self.with_options({opt.SCAN_WATERMARK.key: str(watermark)})

    def at_tag(self, name: str) -> ReadBuilder:
        """Read the snapshot of a tag."""
        return self.with_options({opt.SCAN_TAG_NAME.key: name})

    def at_version(self, version: str) -> ReadBuilder:
        """Read a tag, else `watermark-<number>`, else a snapshot id."""
        return self.with_options({opt.SCAN_VERSION.key: version})

    def at_branch(self, name: str) -> ReadBuilder:
        """Read a branch of the table."""
        return self.with_options({opt.BRANCH.key: name})

    def between(
        self,
        start: int | str,
        end: int | str,
        mode: opt.IncrementalMode | str = opt.IncrementalMode.AUTO,
    ) -> ReadBuilder:
        """Read the changes after one snapshot, up to another and with it.

        Without `with_row_kinds`, the last row of each changed key is returned, and no deleted one.

        Args:
            start: Id of a snapshot (0 is before the first), or name of a tag.
            end: Id or tag, like `start`.
            mode: `delta` reads added data files, `changelog` changelog files, `diff` compares both
                states; `auto` is diff for tags, else changelog if the table has one, else delta.
        """
        between = {opt.INCREMENTAL_BETWEEN.key: f"{start},{end}"}
        return self.with_options({**between, opt.INCREMENTAL_BETWEEN_SCAN_MODE.key: str(mode)})

    def between_timestamps(
        self,
        start: int | str,
        end: int | str,
        mode: opt.IncrementalMode | str = opt.IncrementalMode.AUTO,
    ) -> ReadBuilder:
        """Read the changes committed after one time, up to another; times as in `at_timestamp`."""
        between = {opt.INCREMENTAL_BETWEEN_TIMESTAMP.key: f"{start},{end}"}
        return self.with_options({**between, opt.INCREMENTAL_BETWEEN_SCAN_MODE.key: str(mode)})

    def read_optimized(self) -> ReadBuilder:
        """Read only files that need no merging: the top level of a primary-key table."""
        return replace(self, only_top_level=True)

    def plan(self) -> Plan:
        """Return the splits to read, from metadata alone.

        Raises:
            NotFoundError: A column, snapshot, tag or branch does not exist, or has expired.
            InvalidInputError: A literal does not fit its column, or two options of time travel are
                set.
            UnsupportedFeatureError: The table uses a feature this engine does not read.
        """
        store = self._authorize(self._open())
        between = self._between(store)
        plan = self._plan_state(store) if between is None else self._plan_changes(store, between)
        return replace(plan, splits=plans.first_splits(plan.context, plan.splits, self.limit))

    def plan_count(self) -> plans.CountPlan:
        """Plan a count of the rows: those counted by metadata, and the splits to read.

        Raises:
            PaimonError: As `plan`.

        Cost: a plan; no data file.
        """
        schema = self.read_schema()  # of the snapshot: a key may have had another name
        columns = plans.counted_columns(schema, self._bind_predicate(schema))
        plan = self.with_columns(columns).plan()
        return plans.CountPlan.of(plan.context, plan.splits)

    def count(self, executor: CountingExecutor[Any] | None = None) -> int:
        """Return how many rows the read has.

        Args:
            executor: Reads files where metadata does not suffice; this process by default.

        Raises:
            PaimonError: As `plan` and `read`.

        Cost: a plan; and one column of the files that must be merged or filtered.
        """
        count = self.plan_count().count(executor or EmbeddedExecutor())
        return count if self.limit is None else min(count, self.limit)

    def plan_from(self, data: bytes) -> Plan:
        """Return the plan of serialized splits, from `Plan.to_bytes` or from Java.

        Columns and filter are this builder's; files and snapshot are those of the splits.

        Args:
            data: DataSplits of versions 2 to 9, one after the other.

        Raises:
            FormatError: The bytes are damaged or empty; a plan without splits needs no reading.
            InvalidInputError: The splits are of another table (kind `split-table`), or an external
                file has changed.
            UnsupportedFeatureError: As `load_split`.
        """
        store = self._open().with_schema(self.read_schema())
        splits = load_splits(data)
        if not splits:
            message = (
                f"There are no bytes to read as splits of table '{store.label}'. Do not send a plan"
                " without splits: it has no rows."
            )
            raise FormatError(message, kind="split-empty", table=store.label)
        scan = scan_of_external(store, splits)
        names = self._names(store.schema)
        read_fields(store.schema, names)
        oldest_id = min((split.snapshot_id for split in splits), default=FIRST_SNAPSHOT_ID)
        oldest = store.snapshots.snapshot_or_none(oldest_id)
        context = plans.read_context(store, scan, names, self._bind_predicate(store.schema))
        return Plan(context=context, splits=scan.splits, snapshot=oldest, oldest=oldest)

    def read_schema(self) -> TableSchema:
        """Return the schema of the rows: the newest, or that of the snapshot or tag to read.

        Raises:
            NotFoundError: The snapshot, tag or branch does not exist, or has expired.
            InvalidInputError: An option does not parse, or two options of time travel are set.
            UnsupportedFeatureError: This engine does not support the `scan.mode`.
        """
        return time_travel.state_by_options(self._open())[1].schema

    def fields(self) -> tuple[DataField, ...]:
        """Return the columns of the rows, without planning.

        Raises:
            NotFoundError: There is no such column.
            PaimonError: As `read_schema`.
        """
        schema = self.read_schema()
        return read_fields(schema, self._names(schema))

    @property
    def arrow_schema(self) -> pa.Schema:
        """Schema of the rows, without planning; raises as `fields`."""
        return to_arrow_schema(self.fields())

    def narrow(
        self,
        columns: Sequence[str] | None,
        predicate: Predicate | None,
        executor: Executor[ArrowRows] | None = None,
    ) -> pa.RecordBatchReader:
        """Read some columns (None: all) of the rows for which a filter is true, and perhaps more.

        Parts of the filter that do not fit the table are not applied; raises as `to_reader`.
        """
        fitting = (
            None if self.limit is not None else plans.fitting_parts(predicate, self.read_schema())
        )
        builder = self if columns is None else self.with_columns(columns)
        return builder.with_filter(fitting).to_reader(executor)

    def _open(self) -> FileStore:
        return self.store.with_options(self.options) if self.options else self.store

    def _authorize(self, store: FileStore) -> FileStore:
        """Ask the catalog whether the read is allowed, if the table has `query-auth.enabled`."""
        opened = store.environment
        catalog: object = opened and opened.catalog
        needs_permission = store.schema.typed_options.get(opt.QUERY_AUTH_ENABLED)
        if not needs_permission or opened is None or not isinstance(catalog, QueryAuth):
            return store
        schema = self.read_schema()
        used = fields_of(self._bind_predicate(schema)) | set(self._names(schema))
        columns = sorted(used & set(store.schema.field_names))
        if not catalog.is_plain_query(opened.identifier, columns):
            message = (
                f"Cannot read table '{store.label}': its catalog lets you see some rows only, or"
                f" masked values ('{opt.QUERY_AUTH_ENABLED.key}')."
            )
            raise UnsupportedFeatureError(message, kind="unsupported-query-auth", table=store.label)
        return store.with_options({opt.QUERY_AUTH_ENABLED.key: "false"})

    def _between(self, store: FileStore) -> Between | None:
        if self.consumer is None:
            if not time_travel.asks_for_changes(store):
                return None
            from paimon_assets.engine.control.scan.incremental import between_by_options

            return between_by_options(store)
        if self.limit is not None:
            message = (
                f"Consumer '{self.consumer}' of table '{store.label}' would skip the rows beyond a"
                " limit; leave out the limit."
            )
            raise InvalidInputError(message, kind="consumer-limit", table=store.label)
        from paimon_assets.engine.control.scan.incremental import between_for_consumer

        return between_for_consumer(
            store,
            self.consumer,
            self.consumer_start,
            keeps_kinds=ROW_KIND in read_fields(store.schema, self._names(store.schema)),
        )

    def _plan_state(self, current: FileStore) -> Plan:
        snapshot, store = time_travel.state_by_options(current)
        snapshot = snapshot or current.snapshots.latest()
        predicate = self._bind_predicate(store.schema)
        names = self._names(store.schema)
        read_fields(store.schema, names)
        with plans.explaining(store, snapshot):
            scan = scan_table(
                store,
                snapshot,
                predicate,
                instant_ms=time_travel.branch_instant_ms(store, snapshot),
                only_top_level=self.only_top_level,
            )
        return Plan(
            context=plans.read_context(store, scan, names, predicate),
            splits=scan.splits,
            snapshot=snapshot,
            next_snapshot=FIRST_SNAPSHOT_ID if snapshot is None else snapshot.id + 1,
            oldest=snapshot,
        )

    def _plan_changes(self, current: FileStore, between: Between) -> Plan:
        if self.only_top_level:
            message = (
                f"A read-optimized read of table '{current.label}' cannot return changes; leave out"
                " one of both."
            )
            raise InvalidInputError(message, kind="time-travel", table=current.label)
        names = self._names(current.schema)
        keeps_kinds = ROW_KIND in read_fields(current.schema, names)
        store = current
        if between.mode is opt.IncrementalMode.CHANGELOG and not keeps_kinds:
            # Rows of a changelog are whole: the last one of a key wins in every merge engine.
            store = current.with_schema(current.schema.with_dynamic_options(AS_NEWEST_WINS))
        predicate = self._bind_predicate(store.schema)
        oldest = between.oldest(store)
        with plans.explaining(store, oldest):
            from paimon_assets.engine.control.scan.incremental import scan_changes

            changes = scan_changes(
                store,
                between,
                predicate,
                keeps_kinds=keeps_kinds,
                as_stream=self.as_stream or self.consumer is not None,
            )
        return Plan(
            context=plans.read_context(store, changes.scan, names, predicate),
            splits=changes.scan.splits,
            snapshot=changes.end,
            next_snapshot=between.end_id + 1,
            skipped_snapshots=changes.skipped,
            oldest=oldest,
            tied_by="" if store is current else _CHANGES,
        )

    def _names(self, schema: TableSchema) -> tuple[str, ...]:
        names = schema.field_names if self.columns is None else self.columns
        if self.row_kinds and ROW_KIND.name not in names:
            return (ROW_KIND.name, *names)
        return tuple(names)

    def _bind_predicate(self, schema: TableSchema) -> Predicate | None:
        return None if self.predicate is None else bind(self.predicate, with_tracking(schema))

    def read(self, plan: Plan, executor: Executor[ArrowRows] | None = None) -> pa.RecordBatchReader:
        """Read a plan of this builder in bounded memory.

        Raises:
            NotFoundError: By the reader: the snapshot expired meanwhile; kind `snapshot-expired`.
            InvalidInputError: By the reader: a stored value cannot be cast to its column's type.
            FormatError: By the reader: a file is damaged; names it.
            StorageError: By the reader: the storage failed.
        """
        store = self._open()
        batches = (executor or EmbeddedExecutor()).map_splits(plan.context, plan.splits)

        def rows() -> Iterator[pa.RecordBatch]:
            with plans.explaining(store, plan.oldest):
                yield from batches if self.limit is None else plans.first_rows(batches, self.limit)

        return pa.RecordBatchReader.from_batches(plan.arrow_schema, rows())

    def read_splits(
        self, data: bytes, executor: Executor[ArrowRows] | None = None
    ) -> pa.RecordBatchReader:
        """Read serialized splits in bounded memory; see `plan_from`.

        Raises:
            PaimonError: As `plan_from` at once, and as `read` by the reader.
        """
        return self.read(self.plan_from(data), executor)

    def to_reader(self, executor: Executor[ArrowRows] | None = None) -> pa.RecordBatchReader:
        """Plan, and read in bounded memory.

        Args:
            executor: Reads; this process by default.

        Raises:
            PaimonError: As `plan` at once, and as `read` by the reader.
        """
        return self.read(self.plan(), executor)
