"""Frames of every library → what an executor takes; nothing is lost on the way without a word."""

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

from paimon_assets.assets.frames import to_rows
from paimon_assets.engine.data.write.input_check import InputCheck
from paimon_assets.engine.embedded import EmbeddedExecutor
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.schema.schema import Schema, first_table_schema

pd = pytest.importorskip("pandas")

LTZ = "TIMESTAMP(6) WITH LOCAL TIME ZONE"
NEW_YORK = pd.Timestamp("2024-01-01 23:00", tz="America/New_York")


def stored(data_type, values, **series):
    """Return what the writer would store of a pandas column."""
    schema = first_table_schema(Schema.of({"c": data_type}), time_millis=0)
    frame = pd.DataFrame({"c": pd.Series(values, **series)})
    table = to_rows(frame, EmbeddedExecutor(), schema)
    check = InputCheck(table="db.t", schema=schema)
    return [
        value for batch in table.to_batches() for value in check.conform(batch)["c"].to_pylist()
    ]


@pytest.mark.parametrize(
    ("data_type", "values", "expected"),
    [
        ("DATE", [pd.Timestamp("2024-01-01"), None], [dt.date(2024, 1, 1), None]),
        ("DATE", [dt.date(2024, 1, 1), None], [dt.date(2024, 1, 1), None]),
        ("TIMESTAMP(3)", [pd.Timestamp("2024-01-01 10:00")], [dt.datetime(2024, 1, 1, 10)]),
        (LTZ, [NEW_YORK], [dt.datetime(2024, 1, 2, 4, tzinfo=dt.UTC)]),
        ("TIME(3)", [dt.time(1, 2, 3)], [dt.time(1, 2, 3)]),
        ("FLOAT", [0.5, None], [0.5, None]),
        ("INT", [1.0, None], [1, None]),
        ("DOUBLE", [1, 2], [1.0, 2.0]),
        ("BOOLEAN", [True, None], [True, None]),
        ("BOOLEAN", [None, None], [None, None]),
        ("DECIMAL(5, 2)", [Decimal("1.5"), None], [Decimal("1.50"), None]),
        ("ARRAY<INT>", [[1, None], None], [[1, None], None]),
        ("MAP<STRING NOT NULL, INT>", [[("a", 1)], None], [[("a", 1)], None]),
    ],
)
def test_pandas_values_that_fit_are_taken(data_type, values, expected):
    assert stored(data_type, values) == expected


@pytest.mark.parametrize(
    ("data_type", "values"),
    [
        ("DATE", [pd.Timestamp("2024-01-01 10:00")]),
        ("DATE", [dt.datetime(2024, 1, 1, 10)]),
        ("DATE", [NEW_YORK]),
        ("TIMESTAMP(3)", [pd.Timestamp("2024-01-01 00:00:00.000001")]),
        ("TIMESTAMP(3)", [NEW_YORK]),
        (LTZ, [pd.Timestamp("2024-01-01")]),
        ("TIME(3)", [dt.time(1, 2, 3, 4)]),
        ("FLOAT", [0.1]),
        ("INT", [1.5]),
        ("INT", [True]),
        ("INT", [2**40]),
        ("BOOLEAN", [1]),
        ("DECIMAL(5, 2)", [Decimal("1.239")]),
        ("DECIMAL(5, 2)", [0.5]),
    ],
)
def test_pandas_values_that_would_lose_something_are_refused_by_column(data_type, values):
    with pytest.raises(InvalidInputError, match="'c'"):
        stored(data_type, values)


def test_arrow_frames_pass_as_they_are():
    schema = first_table_schema(Schema.of({"c": "INT"}), time_millis=0)
    table = pa.table({"c": pa.array([1], pa.int8())})
    assert to_rows(table, EmbeddedExecutor(), schema) is table
