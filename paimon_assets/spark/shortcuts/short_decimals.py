"""Decimals of up to 18 digits on their way from Python tasks to Spark: as whole numbers.

Of each decimal that comes from Arrow Spark makes several objects; a long it copies. So tasks return
longs, of which Spark makes decimals by the expression that it uses for its own sums. SQL does not
have that expression, hence sessions of Connect take decimals as they are.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
from py4j.java_gateway import JavaClass  # type: ignore[import-untyped]  # ships no types
from pyspark.sql import Column, DataFrame
from pyspark.sql.types import DecimalType, LongType, StructField, StructType

from paimon_assets.engine.data.casting.cast import column_of
from paimon_assets.engine.data.casting.decimals import longs_of
from paimon_assets.engine.errors import FormatError
from paimon_assets.spark.failure import encoded_errors
from paimon_assets.spark.python_rows import PythonRows

_MOST_DIGITS = 18
_SQL = "org.apache.spark.sql"


def mapped_rows(rows: PythonRows, schema: StructType) -> DataFrame:
    """Return the rows that tasks make, as `rows.frame(schema)` does.

    Cost:
        Some calls into the JVM for each column of decimals.
    """
    java: Any = getattr(rows.tasks, "_jdf", None)  # Connect has none
    short = {} if java is None else _short(schema)
    if not short:
        return rows.frame(schema)
    fields = [
        StructField(field.name, LongType(), field.nullable) if field.name in short else field
        for field in schema.fields
    ]

    read = rows.read  # tasks are not sent the DataFrame

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with encoded_errors():
            for batch in read(batches):
                columns = [
                    _longs(name, column) if name in short else column
                    for name, column in zip(batch.schema.names, batch.columns, strict=True)
                ]
                yield pa.RecordBatch.from_arrays(columns, names=batch.schema.names)

    longs = rows.tasks.mapInArrow(run, StructType(fields))
    client = java._gateway_client  # noqa: SLF001 - PySpark has no call for such columns
    return longs.withColumns({name: _decimals(client, name, kind) for name, kind in short.items()})


def _short(schema: StructType) -> Mapping[str, DecimalType]:
    """Return name → type of the short decimals; none where Spark does not tell names apart."""
    if len({field.name.lower() for field in schema.fields}) < len(schema.fields):
        return {}
    return {
        field.name: field.dataType
        for field in schema.fields
        if isinstance(field.dataType, DecimalType) and field.dataType.precision <= _MOST_DIGITS
    }


def _longs(name: str, column: "pa.Array[Any]") -> "pa.Array[Any]":
    longs = longs_of(column)
    if longs is None:
        raise FormatError(
            f"Column '{name}' holds decimals of more digits than its type {column.type}.",
            kind="decimal-digits",
            details={"column": name},
        )
    sent: pa.Array[Any] = column_of(longs, pa.int64(), column)
    return sent


def _decimals(client: Any, name: str, kind: DecimalType) -> Column:
    """Return a column of unscaled decimals as decimals; too large ones are an error of Spark."""
    stored = JavaClass(f"{_SQL}.catalyst.analysis.UnresolvedAttribute", client).quoted(name)
    make = JavaClass(f"{_SQL}.catalyst.expressions.MakeDecimal", client)
    to_column = JavaClass(f"{_SQL}.classic.ExpressionUtils", client).column
    return Column(to_column(make(stored, kind.precision, kind.scale, False)))  # noqa: FBT003
