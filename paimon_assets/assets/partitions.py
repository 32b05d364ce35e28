"""Partition keys of Dagster against one column of a table: which rows belong to the partition.

A static key is the column's value as text. A time-window key is the window's half-open range: in
the definition's own calendar for DATE and TIMESTAMP columns, as instants for TIMESTAMP_LTZ; for any
other type the key itself is the value as text.
"""

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import dagster as dg
import pyarrow as pa
import pyarrow.compute as pc

from paimon_assets.assets.frames import Frame, is_spark_frame
from paimon_assets.engine.codec.arrow_types import to_arrow_type
from paimon_assets.engine.codec.arrow_values import to_scalar
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.literals import Internal, to_internal
from paimon_assets.engine.spec.schema import TableSchema
from paimon_assets.engine.spec.types import DataField, TypeRoot

_SHOWN = 5


@dataclass(frozen=True, kw_only=True)
class PartitionRows:
    """The rows of one partition: `lower <= column < upper`, or `column = lower`."""

    key: str
    """Dagster's partition key, for messages."""
    field: DataField
    lower: Internal
    upper: Internal | None = None
    """None: only `lower` itself belongs to the partition."""

    def mask(self, column: "pa.Array[Any]") -> "pa.Array[Any]":
        """Return which values belong to the partition; nulls do not."""
        values = column.cast(to_arrow_type(self.field.type))
        lower = to_scalar(self.lower, self.field.type)
        if self.upper is None:
            inside = pc.equal(values, lower)
        else:
            upper = to_scalar(self.upper, self.field.type)
            inside = pc.and_(pc.greater_equal(values, lower), pc.less(values, upper))
        return inside.fill_null(False)  # noqa: FBT003 - a value, not a flag

    def sql(self) -> str:
        """Return the same condition as Spark SQL."""
        name = f"`{self.field.name.replace('`', '``')}`"
        lower = _sql_literal(to_scalar(self.lower, self.field.type))
        if self.upper is None:
            return f"{name} <=> {lower}"
        upper = _sql_literal(to_scalar(self.upper, self.field.type))
        return f"coalesce({name} >= {lower} AND {name} < {upper}, false)"


def rows_of_partition(
    context: dg.AssetExecutionContext, column: str, schema: TableSchema
) -> PartitionRows:
    """Return the rows that belong to the run's partition.

    Raises:
        InvalidInputError: The run spans several partitions, the key cannot be a value of the
            column's type, or the table has no such column.
    """
    field = schema.column(column)
    if not context.has_partition_key:
        raise InvalidInputError(
            f"The run spans several partitions of column '{column}'; run one partition at a time.",
            kind="partition-range",
            details={"column": column},
        )
    definition = context.assets_def.partitions_def
    if isinstance(definition, dg.TimeWindowPartitionsDefinition):
        window = context.partition_time_window
        bounds = _window_bounds(field, window.start, window.end)
        if bounds is not None:
            return PartitionRows(
                key=context.partition_key, field=field, lower=bounds[0], upper=bounds[1]
            )
    value = to_internal(context.partition_key, field.type, column)
    return PartitionRows(key=context.partition_key, field=field, lower=value)


def _window_bounds(
    field: DataField, start: dt.datetime, end: dt.datetime
) -> tuple[Internal, Internal] | None:
    match field.type.root:
        case TypeRoot.DATE:
            bounds: tuple[dt.date, dt.date] = (start.date(), end.date())
        case TypeRoot.TIMESTAMP:
            bounds = (start.replace(tzinfo=None), end.replace(tzinfo=None))
        case TypeRoot.TIMESTAMP_LTZ:
            bounds = (start, end)
        case _:
            return None
    lower, upper = (to_internal(bound, field.type, field.name) for bound in bounds)
    return lower, upper


def only_rows_of(partition: PartitionRows, rows: Frame) -> Frame:
    """Return the rows unchanged, refusing any that lie outside the partition.

    A reader is checked while it is read, before anything is committed; a Spark frame is asked for
    a few offending values by one job of its own.

    Raises:
        InvalidInputError: Rows lie outside (kind `outside-partition`); names values.
    """
    if is_spark_frame(rows):
        outside = rows.filter(f"NOT ({partition.sql()})").select(partition.field.name)
        found = outside.limit(_SHOWN).toArrow().column(0)
        if len(found):
            raise _outside(partition, found)
        return rows
    if isinstance(rows, pa.RecordBatchReader):
        checked = _checked(partition, rows)
        return pa.RecordBatchReader.from_batches(rows.schema, checked)
    for batch in rows.to_batches():
        _check(partition, batch)
    return rows


def _checked(partition: PartitionRows, reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    for batch in reader:
        _check(partition, batch)
        yield batch


def _check(partition: PartitionRows, batch: pa.RecordBatch) -> None:
    name = partition.field.name
    if name not in batch.schema.names:
        raise InvalidInputError(
            f"The rows lack column '{name}', which holds the partition.",
            kind="outside-partition",
            details={"column": name},
        )
    column = batch.column(name)
    outside = column.filter(pc.invert(partition.mask(column)))
    if len(outside):
        raise _outside(partition, outside)


def _outside(partition: PartitionRows, values: Any) -> InvalidInputError:
    shown = ", ".join(str(value) for value in values.unique()[:_SHOWN].to_pylist())
    return InvalidInputError(
        f"Rows lie outside partition '{partition.key}': column '{partition.field.name}' holds "
        f"{shown}. Nothing was committed; return only rows of the partition.",
        kind="outside-partition",
        details={"column": partition.field.name, "partition": partition.key},
    )


def _sql_literal(scalar: "pa.Scalar[Any]") -> str:
    value = scalar.as_py()
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            escaped = value.replace("\\", "\\\\").replace("'", "\\'")
            return f"'{escaped}'"
        case dt.datetime():
            kind = "TIMESTAMP_LTZ" if value.tzinfo else "TIMESTAMP_NTZ"
            return f"{kind} '{value.isoformat(sep=' ')}'"
        case dt.date():
            return f"DATE '{value.isoformat()}'"
        case _:
            return str(value)
