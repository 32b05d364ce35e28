"""How many rows a read has, from metadata wherever that knows.

Only files that must be merged or filtered are read, and of them one column of the key or the
filter: a count of physical rows is no row count of a primary-key table.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from paimon_assets.engine.contract.context import ReadContext
from paimon_assets.engine.contract.executor import CountingExecutor
from paimon_assets.engine.contract.split import DataSplit
from paimon_assets.engine.spec.predicate.predicate import Predicate, fields_of
from paimon_assets.engine.spec.schema.schema import TableSchema


@dataclass(frozen=True, slots=True, kw_only=True)
class CountPlan:
    """A row count as far as metadata has it, and the read of the rest."""

    context: ReadContext
    """The read; of one column."""
    splits: tuple[DataSplit, ...]
    to_read: tuple[DataSplit, ...]
    """Splits whose rows must be merged or filtered to be counted."""

    @classmethod
    def of(cls, context: ReadContext, splits: Sequence[DataSplit]) -> "CountPlan":
        """Plan the count of a read's rows."""
        whole = fields_of(context.predicate) <= set(context.schema.partition_keys)
        left = (split for split in splits if not (whole and is_counted(split)))
        return cls(context=context, splits=tuple(splits), to_read=tuple(left))

    @property
    def known_rows(self) -> int:
        """Rows of files that are read as they are."""
        left = set(map(id, self.to_read))
        return sum(visible_rows(split) for split in self.splits if id(split) not in left)

    @property
    def rows_to_read(self) -> int:
        """Physical rows `count` would read."""
        return sum(split.row_count for split in self.to_read)

    @property
    def physical_rows(self) -> int:
        """Rows of all files before merging."""
        return sum(split.row_count for split in self.splits)

    def count(self, executor: CountingExecutor[Any]) -> int:
        """Return the exact number of rows; bounded memory, on Spark by Spark's tasks.

        Raises:
            PaimonError: As the executor.
        """
        if not self.to_read:
            return self.known_rows
        return self.known_rows + executor.count_rows(self.context, self.to_read)


def counted_columns(schema: TableSchema, predicate: Predicate | None) -> list[str]:
    """Return the one column to read where rows are counted: one that is read anyway."""
    filtered = sorted(fields_of(predicate) - set(schema.partition_keys))
    return [*schema.trimmed_primary_keys, *filtered, *schema.field_names][:1]


def is_counted(split: DataSplit) -> bool:
    """Whether metadata knows the rows of a split: nothing to merge, and every deletion counted."""
    deletions = [file for file in split.deletion_files or () if file is not None]
    return split.raw_convertible and all(file.cardinality is not None for file in deletions)


def visible_rows(split: DataSplit) -> int:
    """Return the rows of a split that is counted."""
    deleted = sum(file.cardinality or 0 for file in split.deletion_files or () if file is not None)
    return split.row_count - deleted
