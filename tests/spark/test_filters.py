"""Predicates as conditions of Spark: the same rows pass, whatever they hold."""

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_schema
from paimon_assets.engine.spec.predicate.predicate import And, CompareOp, Comparison, Or, bind
from paimon_assets.engine.spec.schema.schema import Schema, first_table_schema
from tests.testkit.predicate_truth import truth

fn = pytest.importorskip("pyspark.sql.functions")
filters = pytest.importorskip("paimon_assets.spark.shortcuts.native_read")

VALUES = {
    "DATE": [dt.date(1, 1, 1), dt.date(1500, 2, 28), dt.date(1582, 10, 10), dt.date(9999, 12, 31)],
    "DECIMAL(38, 18)": [
        Decimal("31220790540110890334.307305486952057721"),
        Decimal("31220790540110890334.307305486952057722"),
        Decimal("-0.000000000000000001"),
    ],
    "TIMESTAMP(6)": [dt.datetime(1, 1, 1), dt.datetime(1582, 10, 10, 1, 2, 3, 4)],
    "BIGINT": [2**63 - 1, -(2**63)],
    "STRING": ["", "a'b\\n", "\U0010ffff"],
}
SCHEMA = first_table_schema(
    Schema.of({f"c{number}": text for number, text in enumerate(VALUES)}), time_millis=0
)


@pytest.mark.parametrize("join", [And, Or])
def test_a_wide_filter_is_left_to_the_engine(join):
    wide = join(tuple(Comparison("c4", CompareOp.NE, str(number)) for number in range(5_000)))
    assert filters.to_condition(bind(wide, SCHEMA), SCHEMA) is None


@pytest.mark.spark
def test_the_same_rows_pass(spark):
    most = max(map(len, VALUES.values()))
    columns = [[*values, *[None] * (most - len(values))] for values in VALUES.values()]
    names = SCHEMA.field_names
    rows = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
    arrow = pa.Table.from_pylist(rows, schema=to_arrow_schema(SCHEMA.fields))
    frame = spark.createDataFrame(arrow).persist()
    questions = [
        Comparison(name, op, value)
        for name, values in zip(names, VALUES.values(), strict=True)
        for value in values
        for op in (CompareOp.EQ, CompareOp.LT, CompareOp.GE)
    ]
    conditions = [filters.to_condition(bind(question, SCHEMA), SCHEMA) for question in questions]
    assert all(condition is not None for condition in conditions)
    (counts,) = frame.select(
        *(fn.expr(f"count_if({condition})") for condition in conditions)
    ).collect()
    expected = [sum(truth(question, row) is True for row in rows) for question in questions]
    assert list(counts) == expected
    frame.unpersist()
