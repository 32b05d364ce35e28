"""Rows as plain, comparable, sortable values, whichever engine they came from."""

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_schema
from paimon_assets.engine.spec.schema.schema import Schema, TableSchema
from tests.testkit.model import Row


def rows_to_arrow(rows: Iterable[Row], schema: Schema | TableSchema) -> pa.Table:
    """Build a table of the schema's Arrow types from dicts of Python values.

    Timestamps may be ints: nanoseconds, which a datetime cannot hold.
    """
    arrow_schema = to_arrow_schema(schema.fields)
    listed = list(rows)
    columns = [_column([row[name.name] for row in listed], name.type) for name in arrow_schema]
    return pa.Table.from_arrays(columns, schema=arrow_schema)


def _column(values: list[Any], data_type: pa.DataType) -> "pa.Array[Any]":
    if pa.types.is_timestamp(data_type) and any(isinstance(value, int) for value in values):
        zone = data_type.tz
        return pc.cast(pa.array(values, pa.timestamp("ns", tz=zone)), data_type, safe=False)
    return pa.array(values, data_type)


def plain_rows(table: pa.Table | Iterable[Row], names: Iterable[str]) -> list[tuple[Any, ...]]:
    """Return the rows as sorted tuples of plain values.

    Times and timestamps become ints of nanoseconds, so that units and zones do not matter.
    """
    if isinstance(table, pa.Table):
        columns = [_plain_column(table.column(name)) for name in names]
        rows = list(zip(*columns, strict=True)) if columns else []
    else:
        ordered = list(names)
        rows = [tuple(_plain_value(row[name]) for name in ordered) for row in table]
    return sorted(rows, key=repr)


def _plain_column(column: "pa.ChunkedArray[Any]") -> list[Any]:
    data_type = column.type
    if pa.types.is_timestamp(data_type):
        return pc.cast(pc.cast(column, pa.timestamp("ns", tz=data_type.tz)), pa.int64()).to_pylist()
    if pa.types.is_time(data_type):
        return pc.cast(pc.cast(column, pa.time64("ns")), pa.int64()).to_pylist()
    return [_plain_value(value) for value in column.to_pylist()]


def _plain_value(value: Any) -> Any:
    if isinstance(value, Mapping):
        return tuple((key, _plain_value(inner)) for key, inner in value.items())
    if isinstance(value, list | tuple):
        return tuple(_plain_value(inner) for inner in value)
    return value
