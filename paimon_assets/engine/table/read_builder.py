"""ReadBuilder: columns, filter and time travel → Plan → rows."""

import datetime as dt
from collections.abc import Iterable
from dataclasses import dataclass, replace

import pyarrow as pa

from paimon_assets.engine.codec.arrow_types import to_arrow_schema
from paimon_assets.engine.contract.context import ReadContext
from paimon_assets.engine.contract.executor import Executor
from paimon_assets.engine.contract.split import DataSplit
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.scan.table_scan import scan_table
from paimon_assets.engine.control.scan.time_travel import schema_at, travel_to
from paimon_assets.engine.embedded import ArrowRows, EmbeddedExecutor
from paimon_assets.engine.spec.predicate import Predicate, all_of, bind
from paimon_assets.engine.spec.snapshot import Snapshot
from paimon_assets.engine.table.where import parse_where


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What one read will do; with it any executor can do it anywhere."""

    context: ReadContext
    splits: tuple[DataSplit, ...]
    snapshot: Snapshot | None
    """The snapshot read; None if the table has none yet."""

    @property
    def arrow_schema(self) -> pa.Schema:
        """Schema of the rows."""
        return to_arrow_schema(self.context.schema.columns(self.context.columns))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadBuilder:
    """A read being described; every `with_` and `at_` returns a new builder.

    >>> table.new_read_builder().with_columns(["id"]).with_filter("dt = '2024-01-01'").to_arrow()
    ... # doctest: +SKIP
    """

    store: FileStore
    columns: tuple[str, ...] | None = None
    predicate: Predicate | None = None
    snapshot_id: int | None = None
    timestamp_ms: int | None = None
    tag: str | None = None

    def with_columns(self, columns: Iterable[str] | None) -> "ReadBuilder":
        """Return only these columns, in this order; None means all."""
        return replace(self, columns=None if columns is None else tuple(columns))

    def with_filter(self, predicate: Predicate | str | None) -> "ReadBuilder":
        """Return only rows for which the predicate is true; several filters are joined by AND.

        Args:
            predicate: A `Predicate`, or a text such as `price > 3 AND dt IN ('2024-01-01')`.
        """
        parsed = parse_where(predicate) if isinstance(predicate, str) else predicate
        return replace(self, predicate=all_of([self.predicate, parsed]))

    def at_snapshot(self, snapshot_id: int) -> "ReadBuilder":
        """Read the table as of this snapshot."""
        return replace(self, snapshot_id=snapshot_id)

    def at_timestamp(self, moment: dt.datetime | int) -> "ReadBuilder":
        """Read the newest snapshot that is not younger than `moment`.

        Args:
            moment: A datetime (without zone it means UTC), or epoch milliseconds.
        """
        if isinstance(moment, dt.datetime):
            aware = moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
            moment = int(aware.timestamp() * 1000)
        return replace(self, timestamp_ms=moment)

    def at_tag(self, name: str) -> "ReadBuilder":
        """Read the snapshot a tag holds."""
        return replace(self, tag=name)

    def plan(self) -> Plan:
        """Decide which files are read, from metadata alone.

        Raises:
            NotFoundError: A column, snapshot or tag does not exist.
            InvalidInputError: A literal does not fit its column, or two times are asked for.
            UnsupportedFeatureError: The table uses a feature this engine does not read.
        """
        store, snapshot = self._travelled()
        predicate = None if self.predicate is None else bind(self.predicate, store.schema)
        names = store.schema.field_names if self.columns is None else self.columns
        store.schema.columns(names)
        scan = scan_table(store, snapshot, predicate, moment_ms=self._moment_ms(snapshot))
        context = ReadContext(
            table=store.label,
            schema=store.schema,
            file_schemas=tuple(
                schema for schema in scan.file_schemas if schema.id != store.schema.id
            ),
            columns=names,
            predicate=predicate,
            file_io=store.file_io.spec,
        )
        return Plan(context=context, splits=scan.splits, snapshot=snapshot)

    def _travelled(self) -> tuple[FileStore, Snapshot | None]:
        """Return the store as its schema was, and the snapshot to read."""
        if (self.snapshot_id, self.timestamp_ms, self.tag) == (None, None, None):
            return self.store, self.store.snapshots.latest()
        snapshot = travel_to(
            self.store,
            snapshot_id=self.snapshot_id,
            timestamp_ms=self.timestamp_ms,
            tag=self.tag,
        )
        return self.store.with_schema(schema_at(self.store, snapshot)), snapshot

    def _moment_ms(self, snapshot: Snapshot | None) -> int | None:
        """Return the time travelled to, for what has snapshots of its own; None is now."""
        if self.snapshot_id is None and self.tag is None:
            return self.timestamp_ms
        return None if snapshot is None else snapshot.time_millis

    def to_reader(self, executor: Executor[ArrowRows] | None = None) -> pa.RecordBatchReader:
        """Plan, and read in bounded memory.

        Args:
            executor: Who reads; this process by default.
        """
        plan = self.plan()
        batches = (executor or EmbeddedExecutor()).map_splits(plan.context, plan.splits)
        return pa.RecordBatchReader.from_batches(plan.arrow_schema, batches)

    def to_arrow(self, executor: Executor[ArrowRows] | None = None) -> pa.Table:
        """Plan, and read everything into memory."""
        return self.to_reader(executor).read_all()
