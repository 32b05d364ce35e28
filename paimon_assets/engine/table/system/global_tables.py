"""System tables of a whole catalog: tables, partitions, options, and the health of tables.

One row a table, partition or option, of every database; tables are read a few at once, and what was
read of some is handed on before the next are opened. A table that cannot be read does not hide the
others: a warning names it, `sys.tables` and `sys.table_health` show its name with nulls, the others
leave it out. (Java fails as a whole.)

`sys.tables` reads the newest schema, snapshot and manifest lists of a table, `sys.partitions` and
`sys.table_health`, which is ours alone, its manifests. Who made a table, and when, only a catalog
server knows: else null, as in Java. Java's file system catalog leaves sizes null, too; here they
are given as far as the lists know them.

Source: `org.apache.paimon.table.system.AllTablesTable`, `AllPartitionsTable`,
`AllTableOptionsTable`, `CatalogOptionsTable`, `org.apache.paimon.catalog.CatalogUtils`.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import chain, islice
from typing import Any

import pyarrow as pa

from paimon_assets.engine.contract.executor import Executor
from paimon_assets.engine.control.catalog.catalog import Catalog, Identifier
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.scan.segment_scan import physical_rows, text_entries
from paimon_assets.engine.embedded import ArrowRows
from paimon_assets.engine.errors import NotFoundError, PaimonError
from paimon_assets.engine.spec.options.all_options import TABLE_TYPE
from paimon_assets.engine.spec.options.catalog_options import shown_catalog_options, shown_options
from paimon_assets.engine.table.frames.frames import FrameResults
from paimon_assets.engine.table.system import files
from paimon_assets.engine.table.system.metadata import OPTIONS, columns, option_rows
from paimon_assets.engine.table.system.table_health import HealthLimits, table_health
from paimon_assets.engine.table.table_name import SYSTEM_DATABASE

logger = logging.getLogger(__name__)

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
    "last_compaction_ms BIGINT, consumer_count BIGINT, consumer_lag BIGINT, "
    "orphan_bytes BIGINT"
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
        metas = store.manifests.manifests_of(snapshot)
        in_manifests = sum(meta.num_added_files - meta.num_deleted_files for meta in metas)
        row["record_count"] = physical_rows(store, snapshot)
        row["file_count"] = in_manifests + len(text_entries(store, snapshot, None))
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


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobalSystemTable(FrameResults):
    """A system table over all tables of a catalog."""

    catalog: Catalog
    options: Mapping[str, str] = field(repr=False)
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
            raise NotFoundError(
                f"There is no system table '{SYSTEM_DATABASE}.{kind}'; there are"
                f" {', '.join(f'{SYSTEM_DATABASE}.{name}' for name in GLOBAL_SYSTEM_TABLES)}.",
                kind="system-table-not-found",
                details={"system_table": kind},
            )
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
                return [{**names, **table_health(store, self.limits).row()}]
            return [{**names, **row} for row in _OF_A_TABLE[self.kind](store)]
        except PaimonError as error:
            if error.kind == "table-not-found":
                return []  # dropped since its database was listed
            _warn(str(identifier), error)
            return [names] if self.kind in ("tables", "table_health") else []


def _warn(name: str, error: PaimonError) -> None:
    logger.warning("%s cannot be shown in the system tables: %s", name, error.message)
