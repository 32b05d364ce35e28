"""MergeSource: rows that are merged into a table, and the join with its rows.

    rows ─▶ predicate ─▶ plan (row_change) ─▶ change: tasks, with the source rows they need
                                           └▶ insert: the source rows that matched nothing

`ArrowSource` holds them in memory and sends them to every task; `spark.merge` has DataFrames, and
takes small ones for such.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_assets.engine.codec.arrow.arrow_values import shown_rows
from paimon_assets.engine.codec.arrow.numpy_columns import from_numpy
from paimon_assets.engine.contract.commit_message import WriteReport, WriteResult
from paimon_assets.engine.contract.context import WriteContext
from paimon_assets.engine.contract.executor import TaskBatch, TaskRunner
from paimon_assets.engine.contract.merge_on import MergeOn
from paimon_assets.engine.contract.wire import dump, load
from paimon_assets.engine.contract.write_tasks import (
    ROW_CHANGE_TASK,
    RowChange,
    RowChangeResult,
    RowChangeTask,
    dump_source,
)
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.predicate.predicate import Predicate
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.spec.words import counted

Prepare = Callable[[], WriteContext]
"""Says how rows are inserted now."""


class WhenMatched(StrEnum):
    """The action on a row that matches a source row."""

    UPDATE = "update"
    """It takes the source's values of all columns the source has."""
    DELETE = "delete"
    KEEP = "keep"


class MergeSource(Protocol):
    """Source rows; each may match some rows of the table, each row matches one of them at most."""

    @property
    def on(self) -> MergeOn:
        """The columns that decide."""
        ...

    @property
    def columns(self) -> Sequence[str]:
        """All columns of the source rows."""
        ...

    def predicate(self) -> Predicate | None:
        """Return a bound predicate that every row passes which matches a source row.

        Raises:
            InvalidInputError: Kind `merge-duplicates` for source rows that are equal in the
                columns `on`, `merge-on` for values that do not fit them.
        """
        ...

    def change(
        self, change: RowChange, tasks: Sequence[RowChangeTask]
    ) -> Iterator[RowChangeResult]:
        """Run the tasks of a plan, and yield their results as they end.

        Args:
            change: Without source.
            tasks: All that may hold matches.
        """
        ...

    def insert(self, prepare: Prepare | None) -> WriteResult:
        """Write the source rows that matched nothing in the last `change`, if there was one.

        Args:
            prepare: None only counts them.

        Returns:
            `report.rows_in` counts them.
        """
        ...


class MergeExecutor(TaskRunner, Protocol):
    """An executor that writes rows, too."""

    def map_rows(self, context: WriteContext, rows: pa.Table) -> WriteResult:
        """Write rows into data files; see `contract.executor`."""
        ...


@dataclass(kw_only=True)
class ArrowSource:
    """A `MergeSource` in this process's memory; every task gets all of it."""

    on: MergeOn
    rows: pa.Table
    """With the columns `on` in the table's types."""
    insertable: pa.Table
    """The table's columns of the rows, as they were given."""
    executor: MergeExecutor
    inserted_if: npt.NDArray[np.bool_] | None = None
    """Of each row, whether it may be inserted; None inserts all."""
    _matched: list[npt.NDArray[np.int64]] = field(init=False, default_factory=list)

    @classmethod
    def of(
        cls,
        table: str,
        schema: TableSchema,
        rows: pa.Table,
        on: Sequence[str],
        executor: MergeExecutor,
    ) -> "ArrowSource":
        """Check source rows; raises as `MergeOn.of` and `MergeSource.predicate`."""
        checked = MergeOn.of(table, schema, on, rows.column_names)
        cast = checked.converted(rows)
        names = list(checked.names)
        keys = cast.select(names).drop_null()
        counts = keys.append_column("__rows", pa.repeat(pa.scalar(1), keys.num_rows))
        grouped: Any = counts.group_by(names).aggregate([("__rows", "sum")])
        double = grouped.filter(pc.field("__rows_sum") > 1)
        if double.num_rows:
            example = shown_rows(double.select(names).slice(0, 1))[0]
            raise duplicates(checked, double.num_rows, example)
        names = [name for name in rows.column_names if name in schema.by_name]
        return cls(on=checked, rows=cast, insertable=rows.select(names), executor=executor)

    @property
    def columns(self) -> Sequence[str]:
        """See `MergeSource`."""
        return self.rows.column_names

    def predicate(self) -> Predicate | None:
        """See `MergeSource`."""
        return self.on.predicate(self.rows)

    def change(
        self, change: RowChange, tasks: Sequence[RowChangeTask]
    ) -> Iterator[RowChangeResult]:
        """See `MergeSource`."""
        self._matched = []
        shared = replace(change, source=dump_source(self.rows), on=self.on.names)
        for result in run_row_change(self.executor, shared, tasks):
            self._matched.append(np.frombuffer(result.source_rows, dtype=np.int64))
            yield result

    def insert(self, prepare: Prepare | None) -> WriteResult:
        """See `MergeSource`."""
        alive = np.ones(self.insertable.num_rows, dtype=np.bool_)
        if self.inserted_if is not None:
            alive &= self.inserted_if
        for numbers in self._matched:
            alive[numbers] = False
        rows = self.insertable.filter(from_numpy(alive))
        counted = WriteReport(rows_in=rows.num_rows)
        if prepare is None or not rows.num_rows:
            return WriteResult(report=counted)
        return replace(self.executor.map_rows(prepare(), rows), report=counted)


def run_row_change(
    executor: TaskRunner, change: RowChange, tasks: Sequence[RowChangeTask]
) -> Iterator[RowChangeResult]:
    """Run tasks of a change on an executor, and yield their results as they end."""
    batch = TaskBatch(
        name=ROW_CHANGE_TASK,
        shared=dump(change),
        payloads=tuple(map(dump, tasks)),
        weights=tuple(task.input_bytes for task in tasks),
        file_io=change.read.file_io,
        subject=change.read.table,
    )
    for _, answer in executor.map_tasks(batch):
        yield load(RowChangeResult, answer)


def duplicates(on: MergeOn, count: int, example: Mapping[str, Any]) -> InvalidInputError:
    """Return the error for source rows that are equal in the columns `on`: so many keys."""
    return InvalidInputError(
        f"The rows to merge into table '{on.table}' hold {counted(count, 'key')} several times, "
        f"for example {example}; which of them counts is not known. Keep one of each.",
        kind="merge-duplicates",
        details={"table": on.table, "keys": count},
    )
