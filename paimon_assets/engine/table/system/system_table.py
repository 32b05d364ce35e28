"""SystemTable: one of the tables that describe a table, found by its name."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_schema
from paimon_assets.engine.contract.executor import Executor
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.embedded import ArrowRows
from paimon_assets.engine.errors import NotFoundError
from paimon_assets.engine.table.read.missing_files import explaining
from paimon_assets.engine.table.read.read_builder import ReadBuilder
from paimon_assets.engine.table.system import files, metadata, row_reads

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
    "audit_log": row_reads.audit_log,
    "ro": lambda store: ReadBuilder(store=store).read_optimized(),
    "row_tracking": row_reads.row_tracking,
}
_BINLOG = "binlog"

SYSTEM_TABLES = (*_METADATA, *_READS, _BINLOG)
"""Names of all system tables, without the table's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemTable:
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
            return row_reads.binlog_schema(self.store)
        return to_arrow_schema(_READS[self.kind](self.store).fields())

    def to_reader(self, executor: Executor[ArrowRows] | None = None) -> pa.RecordBatchReader:
        """Read in bounded memory."""
        if self.kind in _METADATA:
            return self._metadata().to_reader()
        if self.kind == _BINLOG:
            return row_reads.read_binlog(self.store, executor)
        return _READS[self.kind](self.store).to_reader(executor)

    def to_arrow(self, executor: Executor[ArrowRows] | None = None) -> pa.Table:
        """Read everything into memory."""
        return self.to_reader(executor).read_all()

    def _metadata(self) -> pa.Table:
        schema, rows = _METADATA[self.kind]
        with explaining(self.store, metadata.snapshot_of(self.store)):
            return pa.Table.from_pylist(list(rows(self.store)), schema=schema)
