"""Filters Spark pushes down, as predicates; no Spark runs."""

import datetime as dt
from decimal import Decimal

import pytest

from paimon_assets.engine.spec.predicate import CompareOp, Comparison, In, IsNull, StartsWith
from paimon_assets.engine.spec.schema import Schema, first_table_schema

source = pytest.importorskip("pyspark.sql.datasource")
filters = pytest.importorskip("paimon_assets.spark.filters")

TYPES = {
    "id": "BIGINT",
    "text": "STRING",
    "price": "DECIMAL(10, 2)",
    "day": "DATE",
    "local": "TIMESTAMP(6)",
    "instant": "TIMESTAMP(3) WITH LOCAL TIME ZONE",
    "fine": "TIMESTAMP(9)",
    "real": "DOUBLE",
    "raw": "BYTES",
    "time": "TIME(3)",
}
SCHEMA = first_table_schema(Schema.of(TYPES), time_millis=0)


def pushed(name, column, *value):
    return getattr(source, name)((column,), *value)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (pushed("EqualTo", "id", 1), Comparison("id", CompareOp.EQ, 1)),
        (pushed("LessThanOrEqual", "price", Decimal("1.5")), CompareOp.LE),
        (pushed("GreaterThan", "day", dt.date(2024, 1, 1)), CompareOp.GT),
        (pushed("LessThan", "local", dt.datetime(2024, 1, 1)), CompareOp.LT),
        (pushed("GreaterThanOrEqual", "instant", dt.datetime(2024, 1, 1, tzinfo=dt.UTC)), ">="),
        (pushed("In", "text", ("a", "b")), In("text", ("a", "b"))),
        (pushed("IsNull", "text"), IsNull("text")),
        (pushed("IsNotNull", "id"), IsNull("id", negated=True)),
        (pushed("EqualNullSafe", "id", None), IsNull("id")),
        (pushed("EqualNullSafe", "id", 4), Comparison("id", CompareOp.EQ, 4)),
        (pushed("StringStartsWith", "text", "a"), StartsWith("text", "a")),
        (source.Not(pushed("EqualTo", "id", 1)), Comparison("id", CompareOp.NE, 1)),
        (source.Not(pushed("GreaterThan", "id", 1)), Comparison("id", CompareOp.LE, 1)),
        (source.Not(pushed("In", "id", (1, 2))), In("id", (1, 2), negated=True)),
        (source.Not(pushed("IsNull", "id")), IsNull("id", negated=True)),
    ],
)
def test_what_means_the_same_becomes_a_predicate(given, expected):
    predicate = filters.to_predicate(given, SCHEMA)
    assert (predicate.op if isinstance(expected, str) else predicate) == expected


@pytest.mark.parametrize(
    "given",
    [
        pushed("EqualTo", "id", None),
        pushed("EqualTo", "absent", 1),
        pushed("EqualTo", "id", "no number"),
        pushed("EqualTo", "real", 1.0),
        pushed("GreaterThan", "raw", b"a"),
        pushed("EqualTo", "fine", dt.datetime(2024, 1, 1)),
        pushed("EqualTo", "time", dt.time(1)),
        pushed("In", "id", (1, None)),
        pushed("StringEndsWith", "text", "a"),
        pushed("StringContains", "text", "a"),
        source.EqualTo(("id", "inner"), 1),
        source.Not(pushed("EqualNullSafe", "id", 1)),
        source.Not(pushed("StringStartsWith", "text", "a")),
    ],
)
def test_what_may_mean_something_else_stays_with_spark(given):
    assert filters.to_predicate(given, SCHEMA) is None
