"""Decimals that Python tasks send as whole numbers: Spark has the decimals that were meant."""

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from paimon_assets.engine.errors import FormatError

short_decimals = pytest.importorskip("paimon_assets.spark.shortcuts.short_decimals")
error_inside = pytest.importorskip("paimon_assets.spark.failure").error_inside
python_rows = pytest.importorskip("paimon_assets.spark.python_rows")
types = pytest.importorskip("pyspark.sql.types")

pytestmark = pytest.mark.spark

VALUES = {
    pa.decimal128(5, 2): ["-999.99", None, "0.01", "999.99"],
    pa.decimal128(18, 0): ["999999999999999999", "-999999999999999999", "0", None],
    pa.decimal128(18, 18): ["0.999999999999999999", None, None, "-0.000000000000000001"],
    pa.decimal128(19, 3): ["9999999999999999.999", "-0.001", None, "1.000"],
}


def frame_of(spark, batches, schema):
    def read(_):
        yield from batches

    rows = python_rows.PythonRows(tasks=spark.range(0, 1, 1, 1), read=read)
    return short_decimals.mapped_rows(rows, schema)


def spark_schema(arrow_types, *, nullable=True):
    fields = [
        types.StructField(f"c.{number}", types.DecimalType(kind.precision, kind.scale), nullable)
        for number, kind in enumerate(arrow_types)
    ]
    return types.StructType(
        [*fields, types.StructField("all", types.ArrayType(fields[0].dataType))]
    )


def test_spark_has_the_decimals_that_were_meant(spark):
    columns = [
        pa.array([None if text is None else Decimal(text) for text in texts], kind)
        for kind, texts in VALUES.items()
    ]
    columns.append(
        pa.array([[value] for value in columns[0].to_pylist()], pa.list_(columns[0].type))
    )
    schema = spark_schema(VALUES)
    batch = pa.RecordBatch.from_arrays(columns, names=schema.names)
    frame = frame_of(spark, [batch, batch.slice(1, 2), batch.slice(3)], schema)
    assert frame.schema == schema
    expected = [tuple(row.values()) for row in batch.to_pylist()]
    found = [tuple(row) for row in frame.collect()]
    assert found == [*expected, *expected[1:3], expected[3]]
    assert frame.filter("`c.0` = 999.99").count() == 2
    plan = frame._jdf.queryExecution().optimizedPlan().toString()
    assert plan.count("makedecimal") + plan.count("MakeDecimal") == 3


def test_columns_that_are_never_null_stay_so(spark):
    schema = spark_schema([pa.decimal128(5, 2)], nullable=False)
    assert frame_of(spark, [], schema).schema == schema


def test_names_that_differ_in_letter_case_alone_are_sent_as_they_are(spark):
    kind = types.DecimalType(5, 2)
    schema = types.StructType([types.StructField(name, kind) for name in ("a", "A")])
    columns = [pa.array([Decimal(text)], pa.decimal128(5, 2)) for text in ("1.00", "2.00")]
    batch = pa.RecordBatch.from_arrays(columns, names=["a", "A"])
    assert [tuple(row) for row in frame_of(spark, [batch], schema).collect()] == [(1, 2)]


@pytest.mark.parametrize(("words", "kind"), [([10**5, 0], None), ([5, 5], FormatError)])
def test_more_digits_than_the_type_has_are_an_error(spark, words, kind):
    data = pa.py_buffer(np.array(words, np.int64))
    column = pa.Array.from_buffers(pa.decimal128(5, 2), 1, [None, data])
    schema = types.StructType([types.StructField("c", types.DecimalType(5, 2))])
    batch = pa.RecordBatch.from_arrays([column], names=["c"])
    with pytest.raises(Exception, match=r"decimal|DECIMAL|NUMERIC_VALUE") as caught:
        frame_of(spark, [batch], schema).collect()
    if kind is not None:
        assert isinstance(error_inside(caught.value), kind)
