"""A DataFrame's columns as a table stores them: cast as an assignment may be, or refused.

Numbers become numbers, anything plain becomes text, dates and timestamps become each other. A value
that has no place in its column's type fails the statement, with and without the session's ANSI.
Source: Spark's store assignment policy ANSI.
"""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.spec.types.data_types import DataField
from paimon_assets.spark.failure import WorkerError
from paimon_assets.spark.types import to_spark_type

_TIMES = (st.DateType, st.TimestampType, st.TimestampNTZType)
_NESTED = (st.StructType, st.ArrayType, st.MapType, st.VariantType)


def cast_for_storage(frame: DataFrame, place: str, column: DataField, table: str) -> Column:
    """Return a column of a frame as a column of a table."""
    target = to_spark_type(column.type, column=column.name)
    given = frame.schema[place].dataType
    found = sf.col(f"`{place}`")
    if given == target or _is_alike(given, target):
        return found.alias(column.name)
    if not _takes(given, target):
        message = (
            f"Column '{column.name}' of table '{table}' is {column.type}, and is given"
            f" {given.simpleString().upper()}; cast it."
        )
        raise InvalidInputError(message, kind="input-type", table=table, column=column.name)
    if isinstance(target, st.StringType | st.StructType | st.ArrayType | st.MapType):
        return found.cast(target).alias(column.name)
    error = InvalidInputError(
        f"A value given for column '{column.name}' of table '{table}' is no {column.type}. "
        f"Correct it, or write try_cast(… AS {target.simpleString().upper()}), which is null then.",
        kind="input-value",
        table=table,
        column=column.name,
    )
    cast = found.try_cast(target)
    lost = sf.raise_error(sf.lit(str(WorkerError(error)))).cast(target)
    return sf.when(cast.isNull() & found.isNotNull(), lost).otherwise(cast).alias(column.name)


def _is_alike(given: st.DataType, target: st.DataType) -> bool:
    return isinstance(given, st.StringType) and isinstance(target, st.StringType)


def _takes(given: st.DataType, target: st.DataType) -> bool:
    match given, target:
        case st.NullType(), _:
            return True
        case st.NumericType(), st.NumericType():
            return True
        case _, st.StringType():
            return not isinstance(given, (*_NESTED, st.BinaryType))
        case st.ArrayType(), st.ArrayType():
            return _inner([given.elementType], [target.elementType])
        case st.MapType(), st.MapType():
            return _inner((given.keyType, given.valueType), (target.keyType, target.valueType))
        case st.StructType(), st.StructType():
            return len(given) == len(target) and _inner(
                [field.dataType for field in given], [field.dataType for field in target]
            )
        case _:
            return isinstance(given, _TIMES) and isinstance(target, _TIMES)


def _inner(given: Sequence[st.DataType], target: Sequence[st.DataType]) -> bool:
    return all(
        one == other or _is_alike(one, other) or _takes(one, other)
        for one, other in zip(given, target, strict=True)
    )


def column_named(schema: TableSchema, name: str) -> DataField:
    """Return a column, whatever the case of its name."""
    alike = [f for f in schema.fields if f.name.lower() == name.lower()]
    return alike[0] if len(alike) == 1 else schema.column(name)
