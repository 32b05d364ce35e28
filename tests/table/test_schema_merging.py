"""Rows with new columns or wider types: refused, or the table changes before they are written."""

import datetime as dt

import pyarrow as pa
import pytest

from paimon_assets.engine.embedded import EmbeddedExecutor
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.evolution.schema_change import UpdateColumnDefaultValue
from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.table.schema_merging import merging_changes

EXECUTOR = EmbeddedExecutor()
MERGING = {"write.merge-schema": "true"}
WIDENING = {**MERGING, "write.merge-schema.type-widening": "true"}


def table_of(catalog, columns=None, *, name="db.t", options=None, **declared):
    schema = Schema.of(columns or {"id": "INT", "v": "INT"}, options=options or {}, **declared)
    return catalog.create_table(name, schema)


def write(table, rows):
    return table.new_write_builder().write(rows, EXECUTOR)


def rows_of(table):
    return table.refresh().new_read_builder().to_arrow(EXECUTOR).to_pylist()


def ints(*values):
    return pa.array(values, pa.int32())


def types_of(table):
    return {field.name: str(field.type) for field in table.refresh().schema.fields}


def test_a_new_column_is_refused_by_name_unless_asked_for(catalog):
    table = table_of(catalog)
    with pytest.raises(
        InvalidInputError, match=r"does not have.*write\.merge-schema.*: w\."
    ) as bad:
        write(table, pa.table({"id": ints(1), "v": ints(2), "w": ["x"]}))
    assert bad.value.kind == "input-columns"
    assert len(table.schemas()) == 1


def test_new_columns_are_added_and_absent_ones_are_null(catalog):
    table = table_of(catalog, options=MERGING)
    write(table, pa.table({"id": ints(1), "v": ints(2)}))
    write(table, pa.table({"id": ints(2), "w": ["x"], "at": [dt.date(2024, 1, 2)]}))
    write(table, pa.table({"id": ints(3), "w": ["y"]}))
    assert rows_of(table) == [
        {"id": 1, "v": 2, "w": None, "at": None},
        {"id": 2, "v": None, "w": "x", "at": dt.date(2024, 1, 2)},
        {"id": 3, "v": None, "w": "y", "at": None},
    ]
    assert len(table.refresh().schemas()) == 2


def test_a_type_is_widened_only_when_asked_for(catalog):
    table = table_of(catalog, options=MERGING)
    with pytest.raises(InvalidInputError, match="not every value"):
        write(table, pa.table({"id": ints(1), "v": pa.array([2**40])}))
    wide = table_of(catalog, name="db.wide", options=WIDENING)
    write(wide, pa.table({"id": ints(1), "v": ints(7)}))
    write(wide, pa.table({"id": ints(2), "v": pa.array([2**40])}))
    write(wide.refresh(), pa.table({"id": ints(3), "v": ints(9)}))
    assert [row["v"] for row in rows_of(wide)] == [7, 2**40, 9]
    assert types_of(wide)["v"] == "BIGINT"


def test_a_key_is_never_widened(catalog):
    options = {**WIDENING, "bucket": "1"}
    table = table_of(catalog, primary_keys=["id"], options=options)
    write(table, pa.table({"id": pa.array([1]), "v": ints(7)}))
    assert types_of(table) == {"id": "INT NOT NULL", "v": "INT"}
    with pytest.raises(InvalidInputError, match="column 'id'"):
        write(table, pa.table({"id": pa.array([2**40]), "v": ints(7)}))


@pytest.mark.parametrize(
    ("column", "given", "becomes"),
    [
        ("FLOAT", pa.float64(), "DOUBLE"),
        ("DOUBLE", pa.float32(), None),
        ("BIGINT", pa.int8(), None),
        ("BIGINT", pa.float64(), None),
        ("INT", pa.string(), None),
        ("DECIMAL(5, 2)", pa.decimal128(9, 2), "DECIMAL(9, 2)"),
        ("DECIMAL(5, 2)", pa.decimal128(9, 3), None),
        ("VARCHAR(5)", pa.string(), "STRING"),
        ("CHAR(5)", pa.string(), "STRING"),
        ("STRING", pa.large_string(), None),
        ("TIMESTAMP(3)", pa.timestamp("us"), "TIMESTAMP(6)"),
        ("TIMESTAMP(6)", pa.timestamp("ms"), None),
        ("TIMESTAMP(3)", pa.timestamp("us", "UTC"), None),
        ("INT", pa.null(), None),
    ],
)
def test_what_is_widened(column, given, becomes, catalog):
    table = table_of(catalog, {"id": "INT", "c": column}, options=WIDENING)
    changes = merging_changes(table.schema, pa.schema([("c", given)]), table="db.t")
    assert [str(change.new_data_type) for change in changes] == ([becomes] if becomes else [])


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ({"ID": ints(1)}, "the table has 'id'"),
        ({"w": pa.nulls(1)}, "cast the column first"),
        ({"w": pa.array([dt.timedelta(1)])}, "cast the column first"),
    ],
)
def test_a_column_that_cannot_be_added_is_named_and_nothing_changes(catalog, column, message):
    table = table_of(catalog, options=MERGING)
    with pytest.raises(InvalidInputError, match=message) as caught:
        write(table, pa.table({"id": ints(1), "v": ints(2), **column}))
    assert (caught.value.kind, caught.value.details["table"]) == ("merge-schema", "db.t")
    assert len(table.schemas()) == 1


def test_a_writer_that_opened_the_table_before_the_change_goes_on(catalog):
    first, second = table_of(catalog, options=MERGING), catalog.get_table("db.t")
    write(first, pa.table({"id": ints(1), "v": ints(1), "w": ints(1)}))
    write(second, pa.table({"id": ints(2), "v": ints(2), "w": ints(2)}))
    assert [row["w"] for row in rows_of(first)] == [1, 2]
    assert len(first.refresh().schemas()) == 2


def with_default(table, text, name="v"):
    return table.alter([UpdateColumnDefaultValue(field_names=(name,), new_default_value=text)])


@pytest.mark.parametrize(
    ("column", "text", "value"),
    [
        ("INT", "5", 5),
        ("STRING", "'a b'", "a b"),
        ("STRING", "it's", "it's"),
        ("DATE", "2024-02-29", dt.date(2024, 2, 29)),
        ("BOOLEAN", "true", True),
    ],
)
def test_nulls_and_absent_columns_become_the_default(catalog, column, text, value):
    table = with_default(table_of(catalog, {"id": "INT", "v": column}), text)
    write(table, pa.table({"id": ints(1)}))
    write(table, pa.table({"id": ints(2, 3), "v": pa.array([None, value])}))
    assert [row["v"] for row in rows_of(table)] == [value] * 3


def test_a_default_is_no_excuse_for_a_null_key(catalog):
    table = table_of(catalog, {"id": "INT", "v": "INT NOT NULL"})
    table = with_default(table, "5")
    with pytest.raises(InvalidInputError, match="NOT NULL"):
        write(table, pa.table({"id": ints(1), "v": ints(None)}))
    write(table, pa.table({"id": ints(1)}))
    assert rows_of(table) == [{"id": 1, "v": 5}]
