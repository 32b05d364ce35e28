"""System tables by their names: `SystemTable` describes a table, `GlobalSystemTable` a catalog.

Some of a table return the table's own rows, read in another way:

    audit_log      rows and their kinds
    binlog         the same, an update as one row: every column a list of [before, after]
    ro             only rows that need no merging
    row_tracking   rows, their ids and the commit that wrote them last

Those of a catalog have one row a table, partition or option, of every database; tables are read a
few at once, and rows of some are handed on before the next are opened. A table that cannot
be read does not hide the rest: a warning names it, `sys.tables` and `sys.table_health` show its
name with nulls, other system tables leave it out. (Java fails as a whole.)

`sys.tables`, `sys.partitions` and `sys.table_health` read the newest schema, snapshot and manifests
of a table. Only a catalog server knows a table's creator and time: else null, as in Java. Java's
file system catalog leaves sizes null, too.

Source: `org.apache.paimon.table.system.AuditLogTable`, `BinlogTable`, `ReadOptimizedTable`,
`RowTrackingTable`, `AllTablesTable`, `AllPartitionsTable`, `AllTableOptionsTable`,
`CatalogOptionsTable`, `org.apache.paimon.catalog.CatalogUtils`.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from itertools import chain, islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import asdict

from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_schema
from paimon_assets.engine.codec.arrow.numpy_columns import from_numpy, to_numpy
from paimon_assets.engine.contract.executor import Executor
from paimon_assets.engine.control.catalog.catalog import SYSTEM_DATABASE, Catalog, Identifier
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.scan.segment_scan import physical_rows, readable_files
from paimon_assets.engine.embedded import ArrowRows
from paimon_assets.engine.errors import NotFoundError, PaimonError
from paimon_assets.engine.spec.options.all_options import ROW_TRACKING_ENABLED, TABLE_TYPE
from paimon_assets.engine.spec.options.catalog_options import shown_catalog_options, shown_options
from paimon_assets.engine.spec.schema.schema import ROW_KIND, TRACKING_FIELDS
from paimon_assets.engine.spec.types.data_types import SHORT_TEXTS, RowKind
from paimon_assets.engine.spec.values import Value
from paimon_assets.engine.table.frames.frames import FrameResults
from paimon_assets.engine.table.read.plan import explaining
from paimon_assets.engine.table.read.read_builder import ReadBuilder
from paimon_assets.engine.table.system import files, metadata
from paimon_assets.engine.table.system.metadata import OPTIONS, columns, option_rows
from paimon_assets.engine.table.system.table_health import HealthLimits, table_health

logger = logging.getLogger(__name__)


def _audit_log(store: FileStore) -> ReadBuilder:
    return ReadBuilder(store=store).with_row_kinds()


def _row_tracking(store: FileStore) -> ReadBuilder:
    if not store.schema.typed_options.get(ROW_TRACKING_ENABLED):
        message = (
            f"Rows of table '{store.label}' carry no ids: '{ROW_TRACKING_ENABLED.key}' is not set."
        )
        raise NotFoundError(message, kind="system-table-not-found", table=store.label)
    tracking = (column.name for column in TRACKING_FIELDS)
    return ReadBuilder(store=store).with_columns([*store.schema.field_names, *tracking])


def _binlog_schema(store: FileStore) -> pa.Schema:
    kind, *columns = to_arrow_schema(_audit_log(store).fields())
    lists = [pa.field(column.name, pa.list_(pa.field("item", column.type))) for column in columns]
    return pa.schema([kind, *lists])


def _pack_rows(rows: pa.RecordBatchReader, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield rows of the binlog: a -U and the +U that follows it are one row of kind +U."""
    waiting: pa.RecordBatch | None = None
    for batch in rows:
        held = batch
        if waiting is not None:
            held = pa.Table.from_batches([waiting, batch]).combine_chunks().to_batches()[0]
            waiting = None
        if held.num_rows and held.column(0)[-1].as_py() == SHORT_TEXTS[RowKind.UPDATE_BEFORE]:
            waiting = held.slice(held.num_rows - 1)  # its +U may be in the next batch
            held = held.slice(0, held.num_rows - 1)
        if held.num_rows:
            yield _pack(held, schema)
    if waiting is not None:
        yield _pack(waiting, schema)


def _pack(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    kinds = batch.column(ROW_KIND.name)
    before = _is(kinds, RowKind.UPDATE_BEFORE)
    after = _is(kinds, RowKind.UPDATE_AFTER)
    # An update's old and new row, side by side, become one row with lists of two values.
    starts = np.ones(batch.num_rows, dtype=np.bool_)
    starts[1:] = ~(before[:-1] & after[1:])
    bounds = np.append(np.flatnonzero(starts), batch.num_rows)
    offsets: Any = from_numpy(bounds.astype(np.int32))
    columns: list[Any] = [kinds.take(from_numpy(bounds[1:] - 1))]
    for column, values in zip(list(schema)[1:], batch.columns[1:], strict=True):
        list_type: Any = column.type
        items: Any = values
        columns.append(pa.ListArray.from_arrays(offsets, items, type=list_type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _is(kinds: Any, kind: RowKind) -> Any:
    return to_numpy(pc.equal(kinds, pa.scalar(SHORT_TEXTS[kind])))


_METADATA: Mapping[str, tuple[pa.Schema, Callable[[FileStore], metadata.Rows]]] = {
    "snapshots": (metadata.SNAPSHOTS, metadata.snapshots),
    "schemas": (metadata.SCHEMAS, metadata.schemas),
    "options": (metadata.OPTIONS, metadata.options),
    "files": (files.FILES, files.files),
    "file_key_ranges": (files.FILE_KEY_RANGES, files.file_key_ranges),
    "manifests": (files.MANIFESTS, files.manifests),
    "partitions": (files.PARTITIONS, files.partitions),
    "buckets": (files.BUCKETS, files.buckets),
    "table_indexes": (files.TABLE_INDEXES, files.table_indexes),
    "tags": (metadata.TAGS, metadata.tags),
    "branches": (metadata.BRANCHES, metadata.branches),
    "consumers": (metadata.CONSUMERS, metadata.consumers),
    "segments": (metadata.SEGMENTS, metadata.segments),
    "statistics": (metadata.STATISTICS, metadata.statistics),
    "aggregation_fields": (metadata.AGGREGATION_FIELDS, metadata.aggregation_fields),
}
_READS: Mapping[str, Callable[[FileStore], ReadBuilder]] = {
    "audit_log": _audit_log,
    "ro": lambda store: ReadBuilder(store=store).read_optimized(),
    "row_tracking": _row_tracking,
}
_BINLOG = "binlog"

SYSTEM_TABLES = (*_METADATA, *_READS, _BINLOG)
"""Names of all system tables, without the table's."""


class SystemTable(FrameResults, Value):
    """A system table of one table, read by its options (time travel, changes)."""

    store: FileStore
    kind: str
    """One of `SYSTEM_TABLES`."""

    @staticmethod
    def of(store: FileStore, kind: str) -> "SystemTable":
        """Return a system table; upper case counts as lower case, as in Java."""
        kind = kind.lower()
        if kind not in SYSTEM_TABLES:
            raise NotFoundError(
                f"Table '{store.label}' has no system table '{kind}'; there are"
                f" {', '.join(SYSTEM_TABLES)}.",
                kind="system-table-not-found",
                table=store.label,
                system_table=kind,
            )
        return SystemTable(store=store, kind=kind)

    @property
    def name(self) -> str:
        """`database.table$kind`."""
        return f"{self.store.label}${self.kind}"

    @property
    def arrow_schema(self) -> pa.Schema:
        """Schema of the rows; reads no rows."""
        if self.kind in _METADATA:
            return _METADATA[self.kind][0]
        if self.kind == _BINLOG:
            return _binlog_schema(self.store)
        return to_arrow_schema(_READS[self.kind](self.store).fields())

    def to_reader(self, executor: Executor[ArrowRows] | None = None) -> pa.RecordBatchReader:
        """Read in bounded memory."""
        if self.kind in _METADATA:
            schema, rows = _METADATA[self.kind]
            with explaining(self.store, metadata.snapshot_of(self.store)):
                return pa.Table.from_pylist(list(rows(self.store)), schema=schema).to_reader()
        if self.kind == _BINLOG:
            schema = _binlog_schema(self.store)
            packed = _pack_rows(_audit_log(self.store).to_reader(executor), schema)
            return pa.RecordBatchReader.from_batches(schema, packed)
        return _READS[self.kind](self.store).to_reader(executor)


_TABLES_AT_ONCE = 8
"""They wait for storage; a manifest's Python work is done one after another anyway."""
_TABLES_A_STEP = 64
"""Opened before the rows of the first of them are handed on."""

_TABLES = columns(
    "database_name STRING, table_name STRING, table_type STRING, partitioned BOOLEAN, "
    "primary_key BOOLEAN, owner STRING, created_at BIGINT, created_by STRING, updated_at BIGINT, "
    "updated_by STRING, record_count BIGINT, file_size_in_bytes BIGINT, file_count BIGINT, "
    "last_file_creation_time BIGINT"
)
_PARTITIONS = columns(
    "database_name STRING, table_name STRING, partition_name STRING, record_count BIGINT, "
    "file_size_in_bytes BIGINT, file_count BIGINT, last_file_creation_time BIGINT, done BOOLEAN"
)
_HEALTH = columns(
    "database_name STRING, table_name STRING, score INT, reason STRING, row_count BIGINT, "
    "total_bytes BIGINT, file_count BIGINT, small_file_count BIGINT, small_file_ratio DOUBLE, "
    "most_runs BIGINT, level_0_files BIGINT, waiting_files BIGINT, deleted_rows BIGINT, "
    "snapshot_count BIGINT, oldest_snapshot_ms BIGINT, newest_snapshot_ms BIGINT, "
    "last_compaction_ms BIGINT, consumer_count BIGINT, consumer_lag BIGINT, orphan_bytes BIGINT,"
    " iceberg_behind BIGINT"
)
_SCHEMAS: Mapping[str, pa.Schema] = {
    "tables": _TABLES,
    "partitions": _PARTITIONS,
    "all_table_options": columns(
        "database_name STRING, table_name STRING, key STRING, value STRING"
    ),
    "catalog_options": OPTIONS,
    "table_health": _HEALTH,
}
GLOBAL_SYSTEM_TABLES = tuple(_SCHEMAS)
"""Names of all system tables of a catalog, without the database's."""

_Rows = list[dict[str, Any]]


def _table_rows(store: FileStore) -> _Rows:
    row: dict[str, Any] = {
        "table_type": store.schema.typed_options.get(TABLE_TYPE),
        "partitioned": bool(store.schema.partition_keys),
        "primary_key": store.schema.has_primary_key,
    }
    audit = store.environment.loaded.audit if store.environment else {}
    row |= {key: value for key, value in audit.items() if key in _TABLES.names}
    snapshot = store.snapshots.latest()
    if snapshot is not None:
        row |= files.sums(readable_files(store, snapshot))
        row["last_file_creation_time"] = row.pop("last_update_time")
        row["record_count"] = physical_rows(store, snapshot)
    return [row]


def _partition_rows(store: FileStore) -> _Rows:
    if not store.schema.partition_keys:
        return []
    return [
        {
            "partition_name": name,
            **sums,
            "last_file_creation_time": sums["last_update_time"],
            "done": False,
        }
        for name, sums in files.partition_sums(store)
    ]


def _option_rows(store: FileStore) -> _Rows:
    options = {"path": store.table_path, **store.schema.options}
    return list(option_rows(shown_options(options)))


_OF_A_TABLE: Mapping[str, Callable[[FileStore], _Rows]] = {
    "tables": _table_rows,
    "partitions": _partition_rows,
    "all_table_options": _option_rows,
}


class GlobalSystemTable(FrameResults, Value, hidden=("options",)):
    """A system table over all tables of a catalog."""

    catalog: Catalog
    options: Mapping[str, str]
    """The catalog's; credentials among them. They are shown by `shown_catalog_options`."""
    kind: str
    """One of `GLOBAL_SYSTEM_TABLES`."""
    patterns: Sequence[str] = ()
    """Show tables of which one of these matches the name, such as `shop.*`; all by default."""
    limits: HealthLimits | None = None
    """Of `sys.table_health`."""

    @staticmethod
    def of(catalog: Catalog, options: Mapping[str, str], kind: str) -> "GlobalSystemTable":
        """Return a system table; upper case counts as lower case, as in Java."""
        kind = kind.lower()
        if kind not in GLOBAL_SYSTEM_TABLES:
            message = (
                f"There is no system table '{SYSTEM_DATABASE}.{kind}'; there are"
                f" {', '.join(f'{SYSTEM_DATABASE}.{name}' for name in GLOBAL_SYSTEM_TABLES)}."
            )
            raise NotFoundError(message, kind="system-table-not-found", system_table=kind)
        return GlobalSystemTable(catalog=catalog, options=options, kind=kind)

    @property
    def name(self) -> str:
        """`sys.kind`."""
        return f"{SYSTEM_DATABASE}.{self.kind}"

    @property
    def arrow_schema(self) -> pa.Schema:
        """Schema of the rows; reads no rows."""
        return _SCHEMAS[self.kind]

    def to_reader(self, executor: Executor[ArrowRows] | None = None) -> pa.RecordBatchReader:
        """Read in bounded memory: a few tables at once."""
        return pa.RecordBatchReader.from_batches(self.arrow_schema, self._batches())

    def _batches(self) -> Iterator[pa.RecordBatch]:
        if self.kind == "catalog_options":
            rows = list(option_rows(shown_catalog_options(self.options)))
            yield pa.RecordBatch.from_pylist(rows, schema=self.arrow_schema)
            return
        with ThreadPoolExecutor(_TABLES_AT_ONCE, thread_name_prefix="sys") as pool:
            databases = self.catalog.list_databases()
            tables = chain.from_iterable(pool.map(self._identifiers, databases))
            while names := list(islice(tables, _TABLES_A_STEP)):
                for rows in pool.map(self._rows_of, names):
                    if rows:
                        yield pa.RecordBatch.from_pylist(rows, schema=self.arrow_schema)

    def _identifiers(self, database: str) -> list[Identifier]:
        try:
            names = [Identifier(database, table) for table in self.catalog.list_tables(database)]
        except PaimonError as error:
            _warn(f"{database}.*", error)
            return []
        if not self.patterns:
            return names
        return [name for name in names if any(fnmatchcase(str(name), p) for p in self.patterns)]

    def _rows_of(self, identifier: Identifier) -> _Rows:
        names = {"database_name": identifier.database, "table_name": identifier.table}
        try:
            store = FileStore.load(self.catalog, identifier)
            if self.kind == "table_health":
                return [{**names, **asdict(table_health(store, self.limits))}]
            return [{**names, **row} for row in _OF_A_TABLE[self.kind](store)]
        except PaimonError as error:
            if error.kind == "table-not-found":
                return []  # dropped since its database was listed
            _warn(str(identifier), error)
            return [names] if self.kind in ("tables", "table_health") else []


def _warn(name: str, error: PaimonError) -> None:
    logger.warning("%s cannot be shown in the system tables: %s", name, error.message)
