"""Paimon ⇄ Spark types, and batches in the Arrow types Spark takes.

    BOOLEAN … DOUBLE, DECIMAL, DATE    their namesakes
    CHAR, VARCHAR                      StringType
    BINARY, VARBINARY, BLOB            BinaryType
    TIME                               TimeType (Spark 4.1 and later)
    TIMESTAMP                          TimestampNTZType
    TIMESTAMP WITH LOCAL TIME ZONE     TimestampType
    VARIANT                            VariantType
    ARRAY, VECTOR                      ArrayType
    MAP; MULTISET                      MapType; MapType to counts
    ROW                                StructType

Spark's timestamps are microseconds in 64 bits. A value of more digits, or further from 1970 than
these reach, is refused on its way into a DataFrame; `read.cut-nanoseconds` cuts the digits, as
Paimon's own Spark connector does.
Source: `org.apache.paimon.spark.SparkTypeUtils` and `org.apache.spark.sql.util.ArrowUtils`.
"""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat
from pyspark.sql import types as st

from paimon_assets.engine.codec.arrow import arrow_types
from paimon_assets.engine.errors import InvalidInputError, UnsupportedFeatureError
from paimon_assets.engine.spec.types import data_types as types
from paimon_assets.spark.failure import times_error

_PLAIN: dict[types.TypeRoot, type[st.DataType]] = {
    types.TypeRoot.BOOLEAN: st.BooleanType,
    types.TypeRoot.TINYINT: st.ByteType,
    types.TypeRoot.SMALLINT: st.ShortType,
    types.TypeRoot.INT: st.IntegerType,
    types.TypeRoot.BIGINT: st.LongType,
    types.TypeRoot.FLOAT: st.FloatType,
    types.TypeRoot.DOUBLE: st.DoubleType,
    types.TypeRoot.CHAR: st.StringType,
    types.TypeRoot.VARCHAR: st.StringType,
    types.TypeRoot.BINARY: st.BinaryType,
    types.TypeRoot.VARBINARY: st.BinaryType,
    types.TypeRoot.BLOB: st.BinaryType,
    types.TypeRoot.DATE: st.DateType,
    types.TypeRoot.TIMESTAMP: st.TimestampNTZType,
    types.TypeRoot.TIMESTAMP_LTZ: st.TimestampType,
    types.TypeRoot.VARIANT: st.VariantType,
}
_TIME: type[st.DataType] | None = getattr(st, "TimeType", None)
"""Spark's time of day; the releases before 4.1 have none."""

MICROS = 6
_ROOTS: dict[type[st.DataType], types.TypeRoot] = {
    **{spark_type: root for root, spark_type in _PLAIN.items()},
    **dict.fromkeys((st.StringType, st.CharType, st.VarcharType), types.TypeRoot.VARCHAR),
    st.BinaryType: types.TypeRoot.VARBINARY,
}
_SAME_ORDER = (
    types.INTEGER_ROOTS
    | types.CHARACTER_ROOTS
    | types.TIMESTAMP_ROOTS
    | {types.TypeRoot.BOOLEAN, types.TypeRoot.DECIMAL, types.TypeRoot.DATE}
)
_VARIANT = pa.struct(
    [
        pa.field("value", pa.binary(), nullable=False),
        # Spark knows a variant from a struct by this mark.
        pa.field("metadata", pa.binary(), nullable=False, metadata={"variant": "true"}),
    ]
)


def to_spark_type(data_type: types.DataType, *, column: str) -> st.DataType:
    match data_type:
        case types.ArrayType(element=element) | types.VectorType(element=element):
            return st.ArrayType(to_spark_type(element, column=column), element.nullable)
        case types.MultisetType(element=element):
            counted, counts = to_spark_type(element, column=column), st.IntegerType()
            return st.MapType(counted, counts, valueContainsNull=False)
        case types.MapType(key=key, value=value):
            spark_key = to_spark_type(key, column=column)
            return st.MapType(spark_key, to_spark_type(value, column=column), value.nullable)
        case types.RowType(fields=fields):
            return st.StructType([_to_spark_field(f, f"{column}.{f.name}") for f in fields])
        case types.AtomicType(root=types.TypeRoot.DECIMAL, precision=precision, scale=scale):
            return st.DecimalType(precision or 0, scale or 0)
        case types.AtomicType(root=types.TypeRoot.TIME):
            if _TIME is None:
                message = (
                    f"Column '{column}' has the type {data_type}, and this Spark has no time of "
                    "day; leave the column out of the read, or use Spark 4.1."
                )
                raise UnsupportedFeatureError(message, kind="spark-type", column=column)
            return _TIME()
        case _:
            return _PLAIN[data_type.root]()


def to_spark_schema(fields: Sequence[types.DataField]) -> st.StructType:
    """Return the Spark schema of some columns, in their order."""
    return st.StructType([_to_spark_field(field, field.name) for field in fields])


def _to_spark_field(field: types.DataField, column: str) -> st.StructField:
    spark_type = to_spark_type(field.type, column=column)
    return st.StructField(field.name, spark_type, field.type.nullable)


def from_spark_type(
    spark_type: st.DataType, *, nullable: bool = True, column: str
) -> types.DataType:
    match spark_type:
        case st.DecimalType():
            root, digits, scale = types.TypeRoot.DECIMAL, spark_type.precision, spark_type.scale
            return types.AtomicType(root=root, precision=digits, scale=scale, nullable=nullable)
        case st.ArrayType():
            element = from_spark_type(
                spark_type.elementType, nullable=spark_type.containsNull, column=column
            )
            return types.ArrayType(element=element, nullable=nullable)
        case st.MapType():
            key = from_spark_type(spark_type.keyType, nullable=False, column=column)
            value = from_spark_type(
                spark_type.valueType, nullable=spark_type.valueContainsNull, column=column
            )
            return types.MapType(key=key, value=value, nullable=nullable)
        case st.StructType():
            return types.RowType(fields=from_spark_schema(spark_type), nullable=nullable)
        case _:
            return _from_plain(spark_type, nullable=nullable, column=column)


def _from_plain(spark_type: st.DataType, *, nullable: bool, column: str) -> types.AtomicType:
    if _TIME is not None and isinstance(spark_type, _TIME):
        digits: int = getattr(spark_type, "precision", MICROS)
        return types.AtomicType(root=types.TypeRoot.TIME, precision=digits, nullable=nullable)
    root = next((_ROOTS[each] for each in type(spark_type).__mro__ if each in _ROOTS), None)
    if root is not None:
        is_text = root in (types.TypeRoot.VARCHAR, types.TypeRoot.VARBINARY)
        return types.AtomicType(
            root=root,
            length=types.MAX_LENGTH if is_text else None,
            precision=MICROS if root in types.TIMESTAMP_ROOTS else None,
            nullable=nullable,
        )
    message = (
        f"Column '{column}' has Spark's type {spark_type.simpleString()}, which Paimon does not "
        "have; cast or drop the column first."
    )
    raise InvalidInputError(message, kind="spark-type", column=column)


def compares_as_spark(data_type: types.DataType) -> bool:
    """Whether Spark and this engine agree on equality and order of all values of a type.

    Not of floating point (Spark's NaN equals itself and is above all numbers), binaries, nested
    values, and times finer than Spark's.
    """
    root = data_type.root
    precision = getattr(data_type, "precision", None) or 0
    return root in _SAME_ORDER and (root not in types.TIMESTAMP_ROOTS or precision <= MICROS)


def is_cut(arrow_type: pa.DataType) -> bool:
    """Whether Spark's type cuts values of a type: its timestamps have no nanoseconds.

    >>> is_cut(pa.list_(pa.timestamp("ns")))
    True
    """
    if pat.is_timestamp(arrow_type):
        return bool(arrow_type.unit == "ns")
    return any(is_cut(arrow_type.field(number).type) for number in range(arrow_type.num_fields))


def holds_exactly(fields: Sequence[types.DataField]) -> bool:
    """Whether Spark's types hold all values of columns."""
    try:
        to_spark_schema(fields)
    except UnsupportedFeatureError:
        return False
    return not any(map(is_cut, arrow_types.to_arrow_schema(fields).types))


def from_spark_schema(schema: st.StructType) -> tuple[types.DataField, ...]:
    """Return the Paimon columns that hold a DataFrame's rows; ids count from 0."""
    return tuple(
        types.DataField(
            id=position,
            name=field.name,
            type=from_spark_type(field.dataType, nullable=field.nullable, column=field.name),
        )
        for position, field in enumerate(schema.fields)
    )


def arrow_to_spark_schema(schema: pa.Schema) -> st.StructType:
    """Return the Spark schema that holds rows of an Arrow schema."""
    kinds = [arrow_types.from_arrow_type(field.type, nullable=field.nullable) for field in schema]
    named = enumerate(zip(schema.names, kinds, strict=True))
    return to_spark_schema(
        [types.DataField(id=n, name=name, type=kind) for n, (name, kind) in named]
    )


def spark_arrow_type(spark_type: st.DataType) -> pa.DataType:
    """Return the Arrow type in which Spark takes and gives a column of `spark_type`."""
    match spark_type:
        case st.DecimalType():
            return pa.decimal128(spark_type.precision, spark_type.scale)
        case st.ArrayType():
            element = spark_arrow_type(spark_type.elementType)
            return pa.list_(pa.field("element", element, nullable=spark_type.containsNull))
        case st.MapType():
            value = spark_arrow_type(spark_type.valueType)
            item: Any = pa.field("value", value, nullable=spark_type.valueContainsNull)
            return pa.map_(spark_arrow_type(spark_type.keyType), item)
        case st.StructType():
            return pa.struct(list(spark_arrow_schema(spark_type)))
        case st.VariantType():
            return _VARIANT
        case _ if _TIME is not None and isinstance(spark_type, _TIME):
            return pa.time64("ns")
        case _:
            return arrow_types.to_arrow_type(_from_plain(spark_type, nullable=True, column=""))


def spark_arrow_schema(schema: st.StructType) -> pa.Schema:
    """Return the Arrow schema in which Spark takes and gives rows of `schema`."""
    return pa.schema(
        [
            pa.field(field.name, spark_arrow_type(field.dataType), nullable=field.nullable)
            for field in schema.fields
        ]
    )


def to_spark_batch(
    batch: pa.RecordBatch, schema: pa.Schema, *, path: str = "", cuts: bool = False
) -> pa.RecordBatch:
    """Return a batch in the Arrow types of `spark_arrow_schema`; columns are matched by position.

    Args:
        batch: Rows in the types of `to_arrow_schema`, or in those of `schema`.
        schema: The types of the result.
        path: Where the rows lie, for the error.
        cuts: Whether nanoseconds become microseconds: rounded down, or toward 1970 inside nested
            columns.

    Raises:
        UnsupportedFeatureError: Kind `spark-timestamp`; Spark's type does not hold a value.
    """
    arrays = []
    for column, field in zip(batch.columns, schema, strict=True):
        array: Any = arrow_types.with_offsets(column)
        options: Any = pc.CastOptions(field.type, allow_time_truncate=cuts)
        try:
            if cuts and pat.is_timestamp(array.type) and array.type.unit == "ns":
                array = pc.floor_temporal(array, unit="microsecond")
            if not array.type.equals(field.type):
                array = pc.cast(array, None, options=options)
        except pa.ArrowInvalid as error:
            raise times_error(f"Column '{field.name}'", path) from error
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def quote(name: str) -> str:
    """Return a column's or table's name as Spark's texts take it, whatever characters it has."""
    return f"`{name.replace('`', '``')}`"
