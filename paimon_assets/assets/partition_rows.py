"""Rows that are written against the partitions of their run: any outside is an error.

rows ─▶ number of the partition of each (`assets.partitions`) ─┬─▶ all inside: unchanged
                                                               └─▶ an error with a few values
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from paimon_assets.assets.partitions import RunPartitions
from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_type
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.samples import plain_sample, sample
from paimon_assets.engine.table.frames.frames import Frame, is_spark_frame
from paimon_assets.engine.table.frames.object_columns import first_failing

_SHOWN = 5


def only_rows_of(partitions: RunPartitions, rows: Frame, *, show_values: bool = True) -> Frame:
    """Return the rows unchanged, refusing any that lie outside the partitions.

    A reader is checked while it is read, before anything is committed; a Spark frame is asked for
    a few offending values by one job of its own.
    """
    if is_spark_frame(rows):
        _require_columns(partitions, rows.columns)
        names = [f"`{field.name.replace('`', '``')}`" for field in partitions.fields]
        outside = rows.filter(f"NOT ({partitions.sql()})").select(*names)
        found = outside.limit(_SHOWN).toArrow()
        if found.num_rows:
            raise _outside(partitions, found.columns, show=show_values)
        return rows
    if isinstance(rows, pa.RecordBatchReader):
        checked = _checked(partitions, rows, show=show_values)
        return pa.RecordBatchReader.from_batches(rows.schema, checked)
    for batch in rows.to_batches():
        _check(partitions, batch, show=show_values)
    return rows


def _checked(
    partitions: RunPartitions, reader: pa.RecordBatchReader, *, show: bool
) -> Iterator[pa.RecordBatch]:
    for batch in reader:
        _check(partitions, batch, show=show)
        yield batch


def _check(partitions: RunPartitions, batch: pa.RecordBatch, *, show: bool) -> None:
    _require_columns(partitions, batch.schema.names)
    columns: list[Any] = [batch.column(field.name) for field in partitions.fields]
    try:
        outside = pa.array(partitions.numbers(columns) < 0)
    except pa.ArrowException as error:
        raise _no_values(partitions, columns, show=show) from (error if show else None)
    if pc.any(outside).as_py():
        raise _outside(partitions, [column.filter(outside) for column in columns], show=show)


def _no_values(
    partitions: RunPartitions, columns: Sequence[Any], *, show: bool
) -> InvalidInputError:
    """Return the error of the column that holds what is no value of its type."""
    field, values, attempt = next(
        (field, values, attempt)
        for field, values in zip(partitions.fields, columns, strict=True)
        for attempt in [_cast_of(values, to_arrow_type(field.type))]
        if not _is_possible(attempt, len(values))
    )
    value = sample(values[first_failing(len(values), attempt)].as_py(), show=show)
    return InvalidInputError(
        f"Column '{field.name}' is {field.type} and holds the partition; the rows have "
        f"{values.type}, and {value} is not a value of it. Cast the column first.",
        kind="input-type",
        details={"column": field.name},
    )


def _cast_of(values: Any, wanted: Any) -> Callable[[int, int], object]:
    return lambda low, high: values.slice(low, high - low).cast(wanted)


def _is_possible(attempt: Callable[[int, int], object], count: int) -> bool:
    try:
        attempt(0, count)
    except pa.ArrowException:
        return False
    return True


def _require_columns(partitions: RunPartitions, names: Sequence[str]) -> None:
    for field in partitions.fields:
        if field.name not in names:
            raise InvalidInputError(
                f"The rows lack column '{field.name}', which holds the partition.",
                kind="outside-partition",
                details={"column": field.name},
            )


def _outside(partitions: RunPartitions, columns: Sequence[Any], *, show: bool) -> InvalidInputError:
    told = []
    for field, column in zip(partitions.fields, columns, strict=True):
        examples = column.unique()[:_SHOWN].to_pylist() if show else [None]
        shown = ", ".join(plain_sample(value, show=show) for value in examples)
        told.append(f"column '{field.name}' holds {shown}")
    noun = "partition" if len(partitions.keys) == 1 else "partitions"
    return InvalidInputError(
        f"Rows lie outside {noun} '{partitions.label}': {'; '.join(told)}. Nothing was committed; "
        f"return only rows of the {noun}.",
        kind="outside-partition",
        details={"column": partitions.fields[0].name, "partition": partitions.label},
    )
