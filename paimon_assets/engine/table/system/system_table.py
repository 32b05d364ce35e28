"""SystemTable: one of the tables that describe a table, by its name.

Some return the table's own rows, read in another way:

    audit_log      rows and their kinds
    binlog         the same, an update as one row: every column a list of [before, after]
    ro             only what needs no merging
    row_tracking   rows, their ids and who wrote them last

Source: `org.apache.paimon.table.system.AuditLogTable`, `BinlogTable`, `ReadOptimizedTable`,
`RowTrackingTable`.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_schema
from paimon_assets.engine.codec.arrow.numpy_columns import from_numpy, to_numpy
from paimon_assets.engine.contract.executor import Executor
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.embedded import ArrowRows
from paimon_assets.engine.errors import NotFoundError
from paimon_assets.engine.spec.options.all_options import ROW_TRACKING_ENABLED
from paimon_assets.engine.spec.schema.schema import ROW_KIND, TRACKING_FIELDS
from paimon_assets.engine.spec.types.data_types import SHORT_TEXTS, RowKind
from paimon_assets.engine.table.frames.frames import FrameResults
from paimon_assets.engine.table.read.missing_files import explaining
from paimon_assets.engine.table.read.read_builder import ReadBuilder
from paimon_assets.engine.table.system import files, metadata


def _audit_log(store: FileStore) -> ReadBuilder:
    return ReadBuilder(store=store).with_row_kinds()


def _row_tracking(store: FileStore) -> ReadBuilder:
    if not store.schema.typed_options.get(ROW_TRACKING_ENABLED):
        raise NotFoundError(
            f"Rows of table '{store.label}' carry no ids: '{ROW_TRACKING_ENABLED.key}' is not set.",
            kind="system-table-not-found",
            details={"table": store.label},
        )
    tracking = (field.name for field in TRACKING_FIELDS)
    return ReadBuilder(store=store).with_columns([*store.schema.field_names, *tracking])


def _binlog_schema(store: FileStore) -> pa.Schema:
    kind, *columns = to_arrow_schema(_audit_log(store).fields())
    lists = [pa.field(column.name, pa.list_(pa.field("item", column.type))) for column in columns]
    return pa.schema([kind, *lists])


def _packed(rows: pa.RecordBatchReader, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
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
    starts = np.ones(batch.num_rows, dtype=np.bool_)
    starts[1:] = ~(before[:-1] & after[1:])
    bounds = np.append(np.flatnonzero(starts), batch.num_rows)
    offsets: Any = from_numpy(bounds.astype(np.int32))
    columns: list[Any] = [kinds.take(from_numpy(bounds[1:] - 1))]
    for field, values in zip(list(schema)[1:], batch.columns[1:], strict=True):
        list_type: Any = field.type
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


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemTable(FrameResults):
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
                details={"table": store.label, "system_table": kind},
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
            packed = _packed(_audit_log(self.store).to_reader(executor), schema)
            return pa.RecordBatchReader.from_batches(schema, packed)
        return _READS[self.kind](self.store).to_reader(executor)
