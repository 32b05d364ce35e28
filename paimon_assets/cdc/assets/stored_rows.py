"""The rows of a table by key, as of one snapshot: the look-up of change logs."""

from collections.abc import Sequence
from functools import reduce
from operator import and_
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from paimon_assets.cdc.fold.change_images import POSITION
from paimon_assets.engine.contract.executor import Executor
from paimon_assets.engine.spec.metadata.snapshot import Snapshot
from paimon_assets.engine.spec.options import all_options as opt
from paimon_assets.engine.table.table import Table

READS_ALL = {opt.DELETION_VECTORS_MERGE_ON_READ.key: "true"}
"""Options by which reads see level 0, too."""
_MOST_LISTED = 1000
"""So many keys are listed in a filter; of more, their range."""
_FILTERED = (
    pa.types.is_integer,
    pa.types.is_string,
    pa.types.is_date,
    pa.types.is_decimal,
    pa.types.is_timestamp,
)
"""Types of keys that a filter compares; rows are compared whole afterwards."""


def _key_filter(keys: pa.Table, after: str) -> Any:
    """Return a filter of pyarrow that rows with these keys pass; None if there is none."""
    parts = [pc.field(POSITION) > after] if after else []
    for name in keys.column_names:
        values: Any = keys[name].unique()
        if not any(is_filtered(values.type) for is_filtered in _FILTERED):
            continue
        if len(values) <= _MOST_LISTED:
            parts.append(pc.field(name).isin(values))
            continue
        ends: Any = pc.min_max(values)
        parts.append((pc.field(name) >= ends["min"]) & (pc.field(name) <= ends["max"]))
    return reduce(and_, parts) if parts else None


def _rows_of_keys(batches: pa.RecordBatchReader, keys: pa.Table) -> pa.Table:
    """Return the rows that have one of these keys; one batch and the result are in memory."""
    names, found = keys.column_names, []
    wanted = pa.Table.from_arrays(
        [keys[name].cast(batches.schema.field(name).type) for name in names], names=names
    )
    for batch in batches:
        numbered = pa.Table.from_batches([batch]).select(names)
        numbered = numbered.append_column("__row", pa.array(np.arange(batch.num_rows)))
        rows = numbered.join(wanted, keys=names, join_type="left semi")["__row"]
        if len(rows):
            found.append(batch.take(rows.combine_chunks()))
    return pa.Table.from_batches(found, batches.schema)


class StoredRows(Struct, kw_only=True):
    """Rows of the table by key, as of one snapshot."""

    table: Table
    executor: Executor[Any]
    after: str = ""
    """Rows up to this position count as gone."""
    snapshot: Snapshot | None = None
    is_used: bool = False

    def __call__(self, keys: pa.Table, columns: Sequence[str]) -> pa.Table:
        """Return rows of these keys; see `change_fold.LookUp`."""
        names = self.table.schema.field_names
        read = (
            self.table.new_read_builder()
            .with_options(READS_ALL)
            .with_columns([*keys.column_names, POSITION, *(n for n in columns if n in names)])
            .with_filter(_key_filter(keys, self.after))
        )
        plan = read.plan()
        self.snapshot, self.is_used = plan.snapshot, True
        with read.read(plan, self.executor) as batches:
            return _rows_of_keys(batches, keys)


def no_rows(keys: pa.Table, _: Sequence[str]) -> pa.Table:
    """Return no row: the table is emptied."""
    return keys.slice(0, 0).append_column(POSITION, pa.array([], pa.string()))
