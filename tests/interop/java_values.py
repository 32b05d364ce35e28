"""Rows in the form of Java Paimon's JSON, to compare ours with its."""

import base64
import math
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from paimon_assets.engine.spec.types.data_types import DataField
from tests.testkit.oracle import Oracle

NANOS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
NANOS_PER_MILLI = 1_000_000


def as_java_texts(table: pa.Table, fields: Sequence[DataField]) -> list[str]:
    """Return our rows, sorted; `fields` are the columns in Java's order."""
    columns = [_column(table.column(field.name), field) for field in fields]
    return _sort_texts(list(row) for row in zip(*columns, strict=True))


def java_rows(java: Oracle, table: str, fields: Sequence[DataField], **arguments: Any) -> list[str]:
    """Return the rows that Java reads, sorted; arguments are those of the command `rows`."""
    rows = java.call("rows", table=table, **arguments)
    return _sort_texts(
        [_theirs(value, field) for value, field in zip(row, fields, strict=True)] for row in rows
    )


def _sort_texts(rows: Iterable[list[Any]]) -> list[str]:
    return sorted(repr(row) for row in rows)


def _column(column: "pa.ChunkedArray[Any]", field: DataField) -> list[Any]:
    """Return the values; dates and times as numbers, for Python has not all of them."""
    data_type, root = column.type, str(field.type.root)
    if pa.types.is_timestamp(data_type):
        factor = NANOS[data_type.unit]
        return [each and each * factor for each in column.cast(pa.int64()).to_pylist()]
    if pa.types.is_date(data_type) or pa.types.is_time(data_type):
        width = pa.int64() if data_type.bit_width == 64 else pa.int32()
        factor = NANOS[data_type.unit] if pa.types.is_time(data_type) else 1
        per_unit = NANOS_PER_MILLI if pa.types.is_time(data_type) else 1
        return [each and each * factor // per_unit for each in column.cast(width).to_pylist()]
    return [None if each is None else _ours(each, root) for each in column.to_pylist()]


def _ours(value: Any, root: str) -> Any:
    if root in {"FLOAT", "DOUBLE"}:
        return _real(value, root)
    return _plain(value)


def _theirs(value: Any, field: DataField) -> Any:
    root = field.type.root
    if value is not None and root in {"FLOAT", "DOUBLE"}:
        return _real(float(value), root)
    return value


def _real(value: float, root: str) -> Any:
    """Say a number so that the shortest text of a FLOAT is the FLOAT, and NaN equals itself."""
    if math.isnan(value):
        return "NaN"
    return float(np.float32(value)) if root == "FLOAT" else value


def _plain(value: Any) -> Any:
    match value:
        case Decimal():
            return format(value, "f")
        case bytes():
            return base64.b64encode(value).decode()
        case Mapping():
            return [_plain(inner) for inner in value.values()]
        case list() | tuple():
            return [_plain(inner) for inner in value]
        case _:
            return value
