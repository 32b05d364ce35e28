"""How many rows each partition of a run has, from metadata wherever that knows."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from paimon_assets.assets.partitions import RunPartitions
from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_type
from paimon_assets.engine.codec.arrow.arrow_values import to_scalar
from paimon_assets.engine.embedded import EmbeddedExecutor
from paimon_assets.engine.table.read.row_count import is_counted, visible_rows
from paimon_assets.engine.table.table import Table


def partition_counts(
    table: Table, snapshot_id: int, partitions: RunPartitions, *, limit_rows: int
) -> Mapping[str, int]:
    """Return Dagster partition key → rows, as of a snapshot.

    At most `limit_rows` physical rows are merged to be counted.

    Returns:
        Nothing if the columns of the key are not all partition keys of the table, or more rows
        would have to be merged.
    """
    names = [field.name for field in partitions.fields]
    if any(name not in table.schema.partition_keys for name in names):
        return {}
    read = table.new_read_builder().with_filter(partitions.predicate()).at_snapshot(snapshot_id)
    counting = read.plan_count()
    if counting.rows_to_read > limit_rows:
        return {}
    rows = {split.partition: 0 for split in counting.splits}
    executor = EmbeddedExecutor()
    for split in counting.splits:
        if is_counted(split):
            rows[split.partition] += visible_rows(split)
        else:
            rows[split.partition] += executor.count_rows(counting.context, [split])
    return _by_key(table, partitions, rows)


def _by_key(
    table: Table, partitions: RunPartitions, rows: Mapping[bytes, int]
) -> Mapping[str, int]:
    values = [table.partition_values(partition) for partition in rows]
    columns: Sequence[Any] = [
        pa.array(
            [to_scalar(value[field.name], field.type) for value in values],
            to_arrow_type(field.type),
        )
        for field in partitions.fields
    ]
    numbers = partitions.numbers(columns)
    inside = numbers >= 0
    counts = np.zeros(len(partitions.keys), np.int64)
    np.add.at(counts, numbers[inside], np.fromiter(rows.values(), np.int64, len(rows))[inside])
    return dict(zip(partitions.keys, counts.tolist(), strict=True))
