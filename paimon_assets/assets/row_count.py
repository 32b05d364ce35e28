"""How many rows a table has, read from metadata wherever it knows.

Only files that must be merged are read, and of them only the key: a count of physical rows is no
row count of a primary-key table.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from paimon_assets.assets.partitions import RunPartitions
from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_type
from paimon_assets.engine.codec.arrow.arrow_values import to_scalar
from paimon_assets.engine.contract.executor import CountingExecutor
from paimon_assets.engine.contract.split import DataSplit
from paimon_assets.engine.embedded import EmbeddedExecutor
from paimon_assets.engine.spec.predicate.predicate import Predicate
from paimon_assets.engine.table.read.read_builder import Plan
from paimon_assets.engine.table.table import Table


@dataclass(frozen=True, kw_only=True)
class CountPlan:
    """A table's row count as far as metadata has it, and the plan that reads the rest."""

    known_rows: int
    """Rows of files that are read as they are."""
    plan: Plan
    """The read; only its key column."""
    to_merge: tuple[DataSplit, ...]
    """Splits whose rows must be merged to be counted."""

    @property
    def rows_to_read(self) -> int:
        """Physical rows `count` would read."""
        return sum(split.row_count for split in self.to_merge)

    @property
    def physical_rows(self) -> int:
        """Rows of all files before merging."""
        return sum(split.row_count for split in self.plan.splits)

    def count(self, executor: CountingExecutor[Any]) -> int:
        """Return the exact number of rows; bounded memory, on Spark by Spark's tasks."""
        if not self.to_merge:
            return self.known_rows
        return self.known_rows + executor.count_rows(self.plan.context, self.to_merge)


def plan_count(
    table: Table, *, snapshot_id: int | None = None, predicate: Predicate | None = None
) -> CountPlan:
    """Plan the count of a table's rows as of a snapshot, the newest by default.

    Args:
        table: What is counted.
        snapshot_id: As of which snapshot.
        predicate: Over partition columns: rows of these partitions only.

    Cost:
        The manifests of the snapshot; no data file.
    """
    builder = table.new_read_builder().with_filter(predicate)
    read = builder if snapshot_id is None else builder.at_snapshot(snapshot_id)
    schema = read.read_schema()  # a key may have had another name then
    keys = schema.trimmed_primary_keys or schema.field_names
    plan = read.with_columns(keys[:1]).plan()
    known = [split for split in plan.splits if _is_counted(split)]
    return CountPlan(
        known_rows=sum(_visible_rows(split) for split in known),
        plan=plan,
        to_merge=tuple(split for split in plan.splits if not _is_counted(split)),
    )


def _is_counted(split: DataSplit) -> bool:
    """Whether metadata knows the rows: nothing to merge, and every deletion counted."""
    deletions = [file for file in split.deletion_files or () if file is not None]
    return split.raw_convertible and all(file.cardinality is not None for file in deletions)


def _visible_rows(split: DataSplit) -> int:
    deleted = sum(file.cardinality or 0 for file in split.deletion_files or () if file is not None)
    return split.row_count - deleted


def partition_counts(
    table: Table, snapshot_id: int, partitions: RunPartitions, *, limit_rows: int
) -> Mapping[str, int]:
    """Return Dagster partition key → rows, as of a snapshot.

    Args:
        table: What is counted.
        snapshot_id: As of which snapshot.
        partitions: The partitions of the run.
        limit_rows: Most physical rows that are merged to be counted.

    Returns:
        Nothing if the columns of the key are not all partition keys of the table, or more rows
        would have to be merged.
    """
    names = [field.name for field in partitions.fields]
    if any(name not in table.schema.partition_keys for name in names):
        return {}
    counting = plan_count(table, snapshot_id=snapshot_id, predicate=partitions.predicate())
    if counting.rows_to_read > limit_rows:
        return {}
    rows = {split.partition: 0 for split in counting.plan.splits}
    executor = EmbeddedExecutor()
    for split in counting.plan.splits:
        if _is_counted(split):
            rows[split.partition] += _visible_rows(split)
        else:
            rows[split.partition] += executor.count_rows(counting.plan.context, [split])
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
