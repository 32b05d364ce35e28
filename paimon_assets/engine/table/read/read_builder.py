"""ReadBuilder: columns, filter and a moment, or what changed between two → Plan → rows.

Tables whose catalog says which rows and columns a reader may see (`query-auth.enabled`).

The catalog is asked for the columns of the read and of its filter. What it wants applied, rows
filtered or columns masked, only it can judge; a read that it leaves as it is goes on.
"""

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_schema
from paimon_assets.engine.contract.executor import CountingExecutor, Executor
from paimon_assets.engine.contract.wire.wire import load_splits
from paimon_assets.engine.control.catalog.catalog import QueryAuth
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.scan.given_splits import check_place, scan_of_splits
from paimon_assets.engine.control.scan.incremental import (
    Between,
    between_by_options,
    between_for_consumer,
    oldest_of,
    scan_changes,
)
from paimon_assets.engine.control.scan.table_scan import scan_table
from paimon_assets.engine.control.scan.time_travel import (
    check_moment,
    moment_keys,
    moment_options,
    schema_at,
    travel_by_options,
)
from paimon_assets.engine.embedded import ArrowRows, EmbeddedExecutor
from paimon_assets.engine.errors import FormatError, InvalidInputError, UnsupportedFeatureError
from paimon_assets.engine.spec.merge.engine_traits import AS_NEWEST_WINS
from paimon_assets.engine.spec.metadata.snapshot import FIRST_SNAPSHOT_ID, Snapshot
from paimon_assets.engine.spec.options.all_options import (
    BRANCH,
    QUERY_AUTH_ENABLED,
    SCAN_FALLBACK_BRANCH,
)
from paimon_assets.engine.spec.options.scan_options import (
    INCREMENTAL_BETWEEN,
    INCREMENTAL_BETWEEN_SCAN_MODE,
    INCREMENTAL_BETWEEN_TIMESTAMP,
    SCAN_SNAPSHOT_ID,
    SCAN_TAG_NAME,
    SCAN_TIMESTAMP,
    SCAN_TIMESTAMP_MILLIS,
    SCAN_VERSION,
    SCAN_WATERMARK,
    IncrementalMode,
)
from paimon_assets.engine.spec.predicate.predicate import Predicate, all_of, bind, fields_of
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.spec.schema.special_fields import ROW_KIND, read_fields
from paimon_assets.engine.spec.types.data_types import DataField
from paimon_assets.engine.spec.words import shorten
from paimon_assets.engine.table.frames.frame_reads import FrameReads
from paimon_assets.engine.table.read.limits import first_rows, first_splits, fitting_parts
from paimon_assets.engine.table.read.missing_files import explained_batches, explaining
from paimon_assets.engine.table.read.plan import Plan, read_context
from paimon_assets.engine.table.read.row_count import CountPlan, counted_columns
from paimon_assets.engine.table.read.where import as_predicate


def authorized(store: FileStore, columns: Callable[[], Iterable[str]]) -> FileStore:
    """Return the table for a read that its catalog allows; other tables as they are.

    Args:
        store: The table.
        columns: Returns all columns the read looks at.

    Raises:
        AccessDeniedError: The catalog does not allow it.
        UnsupportedFeatureError: Rows must be filtered, or values masked.
    """
    catalog: object = store.environment.catalog
    identifier = store.environment.identifier
    is_asked = store.schema.typed_options.get(QUERY_AUTH_ENABLED)
    if not is_asked or identifier is None or not isinstance(catalog, QueryAuth):
        return store
    known = set(store.schema.field_names)
    if not catalog.is_plain_query(identifier, sorted(known.intersection(columns()))):
        raise UnsupportedFeatureError(
            f"Cannot read table '{store.label}': its catalog lets you see some rows only, or masked"
            f" values ('{QUERY_AUTH_ENABLED.key}').",
            kind="unsupported-query-auth",
            details={"table": store.label},
        )
    return store.with_options({QUERY_AUTH_ENABLED.key: "false"})


_FALLBACK = "files of its fallback branch have schemas of their own; plan each branch by itself"
_CHANGES = "its changes count as whole rows, whatever the table merges; plan them with row kinds"


__all__ = ["Plan", "ReadBuilder"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadBuilder(FrameReads):
    """A read being described; every `with_` and `at_` returns a new builder.

    Options and moments are judged by `plan`, not when they are given. `FrameReads` has what it
    returns as.

    >>> table.new_read_builder().with_columns(["id"]).with_filter("dt = '2024-01-01'").to_arrow()
    ... # doctest: +SKIP
    """

    store: FileStore
    columns: tuple[str, ...] | None = None
    predicate: Predicate | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    """Dynamic options of this read; the moment is among them."""
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

    def with_columns(self, columns: Iterable[str] | None) -> "ReadBuilder":
        """Return only these columns, in this order; None means all of the table."""
        return replace(self, columns=None if columns is None else tuple(columns))

    def with_filter(self, predicate: Predicate | str | pc.Expression | None) -> "ReadBuilder":
        """Return only rows for which the predicate is true; several filters are joined by AND.

        Args:
            predicate: A `Predicate`, an Expression of pyarrow, or a text such as
                `price > 3 AND dt IN ('2024-01-01')`.

        Raises:
            InvalidInputError: Neither of them, or a text that is no filter (`where.parse_where`).
        """
        parsed = None if predicate is None else as_predicate(predicate)
        return replace(self, predicate=all_of([self.predicate, parsed]))

    def with_limit(self, limit: int | None) -> "ReadBuilder":
        """Return at most so many rows, whichever are found first; splits beyond are not planned."""
        return replace(self, limit=limit)

    def with_options(self, options: Mapping[str, str]) -> "ReadBuilder":
        """Set table options for this read, such as `scan.tag-name` or `incremental-between`."""
        return replace(self, options={**self.options, **options})

    def with_row_kinds(self) -> "ReadBuilder":
        """Return what retracts too, and the kind of each row in a first column, `rowkind`.

        Kinds are +I, -U, +U and -D. Added files and changelog files (`between`) give every
        record of a key, in the order of commits; a difference, and a state, give one.
        """
        return replace(self, row_kinds=True)

    def with_waiting_rows(self) -> "ReadBuilder":
        """Show among added files (`between`) those, too, whose rows wait for a compaction.

        Streams see them, and whoever reads for a consumer; a batch read does not, of tables of
        first-row and those with deletion vectors.
        """
        return replace(self, as_stream=True)

    def with_consumer(self, consumer_id: str, *, start: int | None = None) -> "ReadBuilder":
        """Read what a consumer has not dealt with yet: first the table, then its changes.

        Args:
            consumer_id: Which.
            start: The snapshot it goes on with, where that is known better than by its file.

        What overwrites change comes as the difference, which needs row kinds where rows are gone
        (else `plan` raises `consumer-overwrite`), unless `streaming-read-overwrite` is false.

        In two steps: plan and read, then `table.consumers.advance(id, plan.next_snapshot)`. A crash
        between them reads the same changes again, and perhaps later ones with them.
        """
        return replace(self, consumer=consumer_id, consumer_start=start)

    def at_snapshot(self, snapshot_id: int) -> "ReadBuilder":
        """Read the table as of this snapshot."""
        return self.with_options({SCAN_SNAPSHOT_ID.key: str(snapshot_id)})

    def at_timestamp(self, moment: dt.datetime | int | str) -> "ReadBuilder":
        """Read the newest snapshot that is not younger than `moment`.

        Args:
            moment: A datetime or a text such as `2024-01-31 12:00:00` (without an offset they mean
                UTC), or epoch milliseconds.
        """
        if isinstance(moment, int):
            return self.with_options({SCAN_TIMESTAMP_MILLIS.key: str(moment)})
        text = moment.isoformat() if isinstance(moment, dt.datetime) else moment
        return self.with_options({SCAN_TIMESTAMP.key: text})

    def at_watermark(self, watermark: int) -> "ReadBuilder":
        """Read the first snapshot whose watermark, in epoch milliseconds, is not below this."""
        return self.with_options({SCAN_WATERMARK.key: str(watermark)})

    def at_tag(self, name: str) -> "ReadBuilder":
        """Read the snapshot a tag holds."""
        return self.with_options({SCAN_TAG_NAME.key: name})

    def at_version(self, version: str) -> "ReadBuilder":
        """Read a tag, else `watermark-<number>`, else a snapshot id."""
        return self.with_options({SCAN_VERSION.key: version})

    def at_branch(self, name: str) -> "ReadBuilder":
        """Read a branch of the table."""
        return self.with_options({BRANCH.key: name})

    def between(
        self,
        start: int | str,
        end: int | str,
        mode: IncrementalMode | str = IncrementalMode.AUTO,
    ) -> "ReadBuilder":
        """Read what changed after one snapshot, up to and with another.

        Without `with_row_kinds`, only the last row of a key that changed several times is given,
        and no row that is gone.

        Args:
            start: Id of a snapshot (0 is before the first), or name of a tag.
            end: The end, of the same kind.
            mode: `delta` reads files that were added, `changelog` changelog files, `diff` the
                difference of both states; `auto` is diff for tags, else changelog if the table has
                one, else delta.
        """
        between = {INCREMENTAL_BETWEEN.key: f"{start},{end}"}
        return self.with_options({**between, INCREMENTAL_BETWEEN_SCAN_MODE.key: str(mode)})

    def between_timestamps(
        self, start: int | str, end: int | str, mode: IncrementalMode | str = IncrementalMode.AUTO
    ) -> "ReadBuilder":
        """Read what was committed after one time, up to another; times as in `at_timestamp`."""
        between = {INCREMENTAL_BETWEEN_TIMESTAMP.key: f"{start},{end}"}
        return self.with_options({**between, INCREMENTAL_BETWEEN_SCAN_MODE.key: str(mode)})

    def read_optimized(self) -> "ReadBuilder":
        """Read only files that need no merging: the top level of a primary-key table."""
        return replace(self, only_top_level=True)

    def plan(self) -> Plan:
        """Decide which files are read, from metadata alone.

        Raises:
            NotFoundError: A column, snapshot, tag or branch does not exist, or has expired.
            InvalidInputError: A literal does not fit its column, or two moments are asked for.
            UnsupportedFeatureError: The table uses a feature this engine does not read.
            FormatError, StorageError: Metadata is damaged, or the storage failed.
        """
        store = authorized(self._open(), self._looked_at)
        between = self._between(store)
        plan = self._plan_state(store) if between is None else self._plan_changes(store, between)
        return replace(plan, splits=first_splits(plan.context, plan.splits, self.limit))

    def plan_count(self) -> CountPlan:
        """Plan a count of the rows: what metadata knows of it, and what must be read.

        Raises:
            PaimonError: As `plan`.

        Cost: a plan; no data file.
        """
        schema = self.read_schema()  # a key may have had another name then
        columns = counted_columns(schema, self._bound(schema))
        plan = self.with_columns(columns).plan()
        return CountPlan.of(plan.context, plan.splits)

    def count(self, executor: CountingExecutor[Any] | None = None) -> int:
        """Return how many rows the read has.

        Args:
            executor: Who reads what metadata does not know; this process by default.

        Raises:
            PaimonError: As `plan` and `read`.

        Cost: a plan; and one column of the files that must be merged or filtered.
        """
        found = self.plan_count().count(executor or EmbeddedExecutor())
        return found if self.limit is None else min(found, self.limit)

    def plan_from(self, data: bytes) -> Plan:
        """Return the plan of splits that were made elsewhere: by `Plan.to_bytes`, or by Java.

        The rows are those of this builder's columns for which its filter is true; which files are
        read, and as of when, the splits alone say.

        Args:
            data: DataSplits of versions 2 to 8, one behind the other.

        Raises:
            FormatError: Damaged bytes, or none at all: a plan without splits has nothing to send.
            InvalidInputError: The splits are those of another table (kind `split-table`), or a
                foreign file has changed.
            UnsupportedFeatureError: As `load_split`.
        """
        store = self._open().with_schema(self.read_schema())
        splits = load_splits(data)
        if not splits:
            raise FormatError(
                f"There are no bytes to read as splits of table '{store.label}'. Of a plan without"
                " splits nothing need be sent, and nothing is to be read.",
                kind="split-empty",
                details={"table": store.label},
            )
        check_place(store, splits)
        scan = scan_of_splits(store, splits)
        names = self._names(store.schema)
        read_fields(store.schema, names)
        oldest_id = min((split.snapshot_id for split in splits), default=FIRST_SNAPSHOT_ID)
        oldest = store.snapshots.snapshot_or_none(oldest_id)
        context = read_context(store, scan, names, self._bound(store.schema))
        return Plan(context=context, splits=splits, snapshot=oldest, oldest=oldest)

    def read_schema(self) -> TableSchema:
        """Return the schema the rows are read as: that of the moment travelled to.

        Raises:
            NotFoundError: The snapshot, tag or branch does not exist, or has expired.
            InvalidInputError: An option does not parse, or two moments are asked for.
            UnsupportedFeatureError: A `scan.mode` that this engine does not do.
        """
        store = self._open()
        snapshot = travel_by_options(store)
        return store.schema if snapshot is None else schema_at(store, snapshot)

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

    def narrowed(
        self,
        columns: Sequence[str] | None,
        predicate: Predicate | None,
        executor: Executor[ArrowRows] | None = None,
    ) -> pa.RecordBatchReader:
        """Read some columns (all for None) of at least the rows for which a filter is true.

        What of the filter does not fit the table is left out; raises as `to_reader`.
        """
        fitting = None if self.limit is not None else fitting_parts(predicate, self.read_schema())
        builder = self if columns is None else self.with_columns(columns)
        return builder.with_filter(fitting).to_reader(executor)

    def _open(self) -> FileStore:
        return self.store.with_options(self.options) if self.options else self.store

    def _between(self, store: FileStore) -> Between | None:
        check_moment(store)
        if self.consumer is None:
            return between_by_options(store)
        moments = sorted(moment_keys() & store.dynamic_options.keys())
        if moments:
            raise InvalidInputError(
                f"Consumer '{self.consumer}' of table '{store.label}' says what to read; leave out"
                f" '{moments[0]}'.",
                kind="time-travel",
                details={"table": store.label},
            )
        if self.limit is not None:
            raise InvalidInputError(
                f"Consumer '{self.consumer}' of table '{store.label}' would go on behind rows that"
                " a limit left out; leave out the limit.",
                kind="consumer-limit",
                details={"table": store.label},
            )
        following = self.consumer_start or store.consumers.next_snapshot(self.consumer)
        if following is None:
            return None
        newest = store.snapshots.latest_id() or FIRST_SNAPSHOT_ID - 1
        if following > newest + 1:
            raise InvalidInputError(
                f"Consumer '{self.consumer}' of table '{store.label}' is at snapshot {following},"
                f" but the newest is {newest}: the table was rolled back. Reset the consumer.",
                kind="consumer-ahead",
                details={"table": store.label, "consumer": self.consumer, "newest": newest},
            )
        keeps_kinds = ROW_KIND in read_fields(store.schema, self._names(store.schema))
        return between_for_consumer(store, following - 1, newest, keeps_kinds=keeps_kinds)

    def _plan_state(self, opened: FileStore) -> Plan:
        store, snapshot = self._travel(opened)
        predicate = self._bound(store.schema)
        names = self._names(store.schema)
        read_fields(store.schema, names)
        with explaining(store, snapshot):
            scan = scan_table(
                store,
                snapshot,
                predicate,
                moment_ms=self._moment_ms(store, snapshot),
                only_top_level=self.only_top_level,
            )
        following = FIRST_SNAPSHOT_ID if snapshot is None else snapshot.id + 1
        return Plan(
            context=read_context(store, scan, names, predicate),
            splits=scan.splits,
            snapshot=snapshot,
            next_snapshot=following,
            oldest=snapshot,
            tied_by=_FALLBACK if store.schema.typed_options.get(SCAN_FALLBACK_BRANCH) else "",
        )

    def _plan_changes(self, opened: FileStore, between: Between) -> Plan:
        if self.only_top_level:
            raise InvalidInputError(
                f"Table '{opened.label}' is read either without merging or as what changed.",
                kind="time-travel",
                details={"table": opened.label},
            )
        names = self._names(opened.schema)
        keeps_kinds = ROW_KIND in read_fields(opened.schema, names)
        store = opened
        if between.mode is IncrementalMode.CHANGELOG and not keeps_kinds:
            # Rows of a changelog are whole: the last one of a key counts, whatever merges the rest.
            store = opened.with_schema(opened.schema.with_dynamic_options(AS_NEWEST_WINS))
        predicate = self._bound(store.schema)
        oldest = oldest_of(store, between)
        with explaining(store, oldest):
            found = scan_changes(
                store,
                between,
                predicate,
                keeps_kinds=keeps_kinds,
                as_stream=self.as_stream or self.consumer is not None,
            )
        return Plan(
            context=read_context(store, found.scan, names, predicate),
            splits=found.scan.splits,
            snapshot=found.end,
            next_snapshot=between.end_id + 1,
            skipped_snapshots=found.skipped,
            oldest=oldest,
            tied_by="" if store is opened else _CHANGES,
        )

    def _names(self, schema: TableSchema) -> tuple[str, ...]:
        names = schema.field_names if self.columns is None else self.columns
        if self.row_kinds and ROW_KIND.name not in names:
            return (ROW_KIND.name, *names)
        return tuple(names)

    def _bound(self, schema: TableSchema) -> Predicate | None:
        return None if self.predicate is None else bind(self.predicate, schema)

    def _looked_at(self) -> frozenset[str]:
        bound = self._bound(schema := self.read_schema())
        return frozenset(self._names(schema)) | (fields_of(bound) if bound else frozenset())

    def _travel(self, store: FileStore) -> tuple[FileStore, Snapshot | None]:
        """Return the store as its schema was, and the snapshot to read."""
        snapshot = travel_by_options(store)
        if snapshot is None:
            return store, store.newest()
        return store.with_schema(schema_at(store, snapshot)), snapshot

    def _moment_ms(self, store: FileStore, snapshot: Snapshot | None) -> int | None:
        """Return the time travelled to, for what has snapshots of its own; None is now."""
        options = moment_options(store)
        if snapshot is None or not moment_keys() & options.values.keys():
            return None
        given = options.get(SCAN_TIMESTAMP_MILLIS) or options.get(SCAN_TIMESTAMP)
        return snapshot.time_millis if given is None else given

    def read(self, plan: Plan, executor: Executor[ArrowRows] | None = None) -> pa.RecordBatchReader:
        """Read a plan of this builder in bounded memory.

        Raises:
            NotFoundError: By the reader: the snapshot expired meanwhile; kind `snapshot-expired`.
            InvalidInputError: By the reader: a stored value cannot be cast to its column's type
                now.
            FormatError: By the reader: a file is damaged; names it.
            StorageError: By the reader: the storage failed.
        """
        batches = (executor or EmbeddedExecutor()).map_splits(plan.context, plan.splits)
        explained = explained_batches(batches, self._open(), plan.oldest)
        rows = explained if self.limit is None else first_rows(explained, self.limit)
        return pa.RecordBatchReader.from_batches(plan.arrow_schema, rows)

    def read_splits(
        self, data: bytes, executor: Executor[ArrowRows] | None = None
    ) -> pa.RecordBatchReader:
        """Read splits that were made elsewhere, in bounded memory; see `plan_from`.

        Raises:
            PaimonError: As `plan_from` at once, and as `read` by the reader.
        """
        return self.read(self.plan_from(data), executor)

    def to_reader(self, executor: Executor[ArrowRows] | None = None) -> pa.RecordBatchReader:
        """Plan, and read in bounded memory.

        Args:
            executor: Who reads; this process by default.

        Raises:
            PaimonError: As `plan` at once, and as `read` by the reader.
        """
        return self.read(self.plan(), executor)
