"""How many rows a table has, read from metadata wherever it tells.

Only files that must be merged are read, and of them only the key: a count of physical rows is no
row count of a primary-key table.
"""

from dataclasses import dataclass
from typing import Any

from paimon_assets.engine.contract.executor import Executor
from paimon_assets.engine.contract.split import DataSplit
from paimon_assets.engine.embedded import EmbeddedExecutor
from paimon_assets.engine.table.read_builder import Plan
from paimon_assets.engine.table.table import Table


@dataclass(frozen=True, kw_only=True)
class CountPlan:
    """What is known of a table's row count, and what would have to be read to know it all."""

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

    def count(self, executor: Executor[Any]) -> int:
        """Return the exact number of rows; bounded memory, on Spark by Spark's tasks."""
        if not self.to_merge:
            return self.known_rows
        if isinstance(executor, EmbeddedExecutor):
            batches = executor.map_splits(self.plan.context, self.to_merge)
            return self.known_rows + sum(batch.num_rows for batch in batches)
        spark: Any = executor
        merged: int = spark.to_dataframe(self.plan.context, self.to_merge).count()
        return self.known_rows + merged


def plan_count(table: Table, *, snapshot_id: int | None = None) -> CountPlan:
    """Plan the count of a table's rows as of a snapshot, the newest by default.

    Cost:
        The manifests of the snapshot; no data file.
    """
    schema = table.schema
    keys = schema.trimmed_primary_keys or schema.field_names
    read = table.new_read_builder().with_columns(keys[:1])
    plan = (read if snapshot_id is None else read.at_snapshot(snapshot_id)).plan()
    known = [split for split in plan.splits if _is_counted(split)]
    return CountPlan(
        known_rows=sum(_visible_rows(split) for split in known),
        plan=plan,
        to_merge=tuple(split for split in plan.splits if not _is_counted(split)),
    )


def _is_counted(split: DataSplit) -> bool:
    """Whether metadata tells the rows: nothing to merge, and every deletion counted."""
    deletions = [file for file in split.deletion_files or () if file is not None]
    return split.raw_convertible and all(file.cardinality is not None for file in deletions)


def _visible_rows(split: DataSplit) -> int:
    deleted = sum(file.cardinality or 0 for file in split.deletion_files or () if file is not None)
    return split.row_count - deleted
