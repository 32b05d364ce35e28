"""Frames of every library → what an executor takes; nothing is lost on the way without a word."""

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

from paimon_assets.engine.data.write.input_check import InputCheck
from paimon_assets.engine.embedded import EmbeddedExecutor
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.schema.schema import Schema, first_table_schema
from paimon_assets.engine.table.frames.frames import to_pandas, to_rows

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


def refused(frame, columns, match):
    """Return the error of a frame for a table with these columns."""
    schema = first_table_schema(Schema.of(columns), time_millis=0)
    with pytest.raises(InvalidInputError, match=match) as raised:
        to_rows(frame, EmbeddedExecutor(), schema)
    return raised.value


@pytest.mark.parametrize("names", [["a", "a"], [1, "1"]])
def test_columns_that_are_one_name_are_refused(names):
    error = refused(pd.DataFrame([[1, 2]], columns=names), {"a": "INT", "1": "INT"}, "occur twice")
    assert (error.kind, error.details["column"]) == ("frame-columns", str(names[1]))


def test_a_column_named_by_half_a_character_is_refused():
    names = pd.Index(["a\udce9"], dtype=object)
    refused(pd.DataFrame([[1]], columns=names), {"a": "INT"}, "half a character")


@pytest.mark.parametrize("keys", [["a"], ["a", "b"]])
def test_an_index_level_that_is_also_a_column_is_refused(keys):
    frame = pd.DataFrame({"a": [1], "b": [2], "c": [3]}).set_index(keys, drop=False)
    error = refused(frame, {"a": "INT", "b": "INT", "c": "INT"}, "'a' is a column .* and a level")
    assert error.details["column"] == "a"


def test_an_index_that_names_columns_counts_as_columns():
    schema = first_table_schema(Schema.of({"a": "INT", "b": "INT"}), time_millis=0)
    frame = pd.DataFrame({"b": [2]}, index=pd.Index([1], name="a"))
    assert to_rows(frame, EmbeddedExecutor(), schema).to_pylist() == [{"a": 1, "b": 2}]
    unnamed = pd.DataFrame({"a": [1], "b": [2]}, index=[7])
    assert to_rows(unnamed, EmbeddedExecutor(), schema).to_pylist() == [{"a": 1, "b": 2}]


@pytest.mark.parametrize(
    ("data_type", "values", "row", "shown"),
    [
        ("BIGINT", [3, None, 1.9], 2, "1.9"),
        ("INT", [1, Decimal("7.9")], 1, "Decimal('7.9')"),
        ("TINYINT", [1, 2, 300], 2, "300"),
        ("DECIMAL(5, 2)", [Decimal(1), Decimal("Infinity")], 1, "Decimal('Infinity')"),
        ("STRING", ["a", "\ud800"], 1, "'\\ud800'"),
        ("ARRAY<INT>", [[1], None, [], [2, 1.5]], 3, "1.5"),
        ("ARRAY<STRING>", [["abc"], "abc"], 1, "'abc'"),
        ("MAP<STRING NOT NULL, INT>", [{"a": 1}, {}, {"b": 2, "c": 1.5}], 2, "1.5"),
        ("ROW<a INT>", [{"a": 1}, {"A": 1}], 1, "'A'"),
        ("ARRAY<ROW<a INT>>", [[], [{"a": 1}, {"a": "x"}]], 1, "'x'"),
        ("TIMESTAMP(3)", [pd.Timestamp("2024-01-01"), NEW_YORK], 1, "New_York"),
        ("DATE", [dt.date(2024, 1, 1), dt.datetime(2024, 1, 1)], 0, "datetime.date"),
    ],
)
def test_the_row_and_the_value_are_named(data_type, values, row, shown):
    frame = pd.DataFrame({"c": pd.Series(values, dtype=object)})
    error = refused(frame, {"c": data_type}, "cannot be stored")
    assert (error.kind, error.details["row"]) == ("frame-values", row)
    assert f"row {row} holds" in error.message
    assert shown in error.message


@pytest.mark.parametrize("dtype", ["Int128", "UInt128"])
def test_numbers_arrow_does_not_know_are_refused_by_column(dtype):
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"ok": [1], "c": polars.Series([1], dtype=getattr(polars, dtype))})
    error = refused(frame, {"ok": "INT", "c": "BIGINT"}, f"'c' of the polars frame is {dtype}")
    assert error.kind == "frame-values"


def test_lists_of_integers_with_gaps_stay_integers_when_read():
    big = 2**53 + 1
    table = pa.table({"c": [[big, None]], "n": [None]})
    frame = to_pandas(table)
    assert list(frame["c"][0]) == [big, None]
