"""System tables of rows: the table's own, read in another way.

    audit_log      rows and their kinds
    binlog         the same, an update as one row: every column a list of [before, after]
    ro             only what needs no merging
    row_tracking   rows, their ids and who wrote them last

Source: `org.apache.paimon.table.system.AuditLogTable`, `BinlogTable`, `ReadOptimizedTable`,
`RowTrackingTable`.
"""

from collections.abc import Iterator
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
from paimon_assets.engine.spec.schema.special_fields import ROW_KIND, TRACKING_FIELDS
from paimon_assets.engine.spec.types.row_kind import SHORT_TEXTS, RowKind
from paimon_assets.engine.table.read.read_builder import ReadBuilder


def audit_log(store: FileStore) -> ReadBuilder:
    """Return a read of rows and kinds: of the table, or of the changes its options ask for."""
    return ReadBuilder(store=store).with_row_kinds()


def row_tracking(store: FileStore) -> ReadBuilder:
    """Describe a read of all columns, the rows' ids and the snapshots that wrote them."""
    if not store.schema.typed_options.get(ROW_TRACKING_ENABLED):
        raise NotFoundError(
            f"Rows of table '{store.label}' carry no ids: '{ROW_TRACKING_ENABLED.key}' is not set.",
            kind="system-table-not-found",
            details={"table": store.label},
        )
    tracking = (field.name for field in TRACKING_FIELDS)
    return ReadBuilder(store=store).with_columns([*store.schema.field_names, *tracking])


def binlog_schema(store: FileStore) -> pa.Schema:
    """Return the schema of `read_binlog`."""
    kind, *columns = to_arrow_schema(audit_log(store).fields())
    lists = [pa.field(column.name, pa.list_(pa.field("item", column.type))) for column in columns]
    return pa.schema([kind, *lists])


def read_binlog(
    store: FileStore, executor: Executor[ArrowRows] | None = None
) -> pa.RecordBatchReader:
    """Read rows and kinds, a -U and the +U that follows it as one row of kind +U."""
    rows = audit_log(store).to_reader(executor)
    schema = binlog_schema(store)
    return pa.RecordBatchReader.from_batches(schema, _packed(rows, schema))


def _packed(rows: pa.RecordBatchReader, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    waiting: pa.RecordBatch | None = None
    for batch in rows:
        held = batch if waiting is None else _join(waiting, batch)
        waiting = None
        if held.num_rows and held.column(0)[-1].as_py() == SHORT_TEXTS[RowKind.UPDATE_BEFORE]:
            waiting = held.slice(held.num_rows - 1)  # its +U may be in the next batch
            held = held.slice(0, held.num_rows - 1)
        if held.num_rows:
            yield _pack(held, schema)
    if waiting is not None:
        yield _pack(waiting, schema)


def _join(first: pa.RecordBatch, second: pa.RecordBatch) -> pa.RecordBatch:
    return pa.Table.from_batches([first, second]).combine_chunks().to_batches()[0]


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
