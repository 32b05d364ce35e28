"""Tables that other engines evolved, rebuilt by our own writers and changes, on every executor."""

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

from paimon_assets import InvalidInputError, Schema, open_catalog
from paimon_assets.engine.spec.evolution import schema_change as sc
from tests.testkit.tables import new_table

DAY, MIDNIGHT = dt.date(1970, 1, 1), dt.datetime(1970, 1, 1)


@pytest.fixture
def catalog(tmp_path):
    opened = open_catalog(str(tmp_path / "warehouse"))
    opened.create_database("db")
    return opened


def read(runner, table, where=None):
    found = table.new_read_builder().with_filter(where).to_arrow(runner.executor)
    assert found.schema.names == list(table.schema.field_names)
    return sorted((tuple(row.values()) for row in found.to_pylist()), key=repr)


def fields(table):
    return [f"{field.name}:{field.type}:{field.id}" for field in table.schema.fields]


INTS = dict.fromkeys(("key0", "key1", "a", "b", "c", "d", "k"), "INT")
E1 = (
    sc.drop_column("a"),
    sc.drop_column("c"),
    sc.rename_column("b", "c"),
    sc.rename_column("d", "a"),
    sc.add_column("d", "INT", after="c"),
    sc.move_column("k", after="key1"),
    sc.add_column("e", "INT"),
)


def test_names_move_between_columns(runner, catalog):
    table = catalog.create_table("db.e1", Schema.of(INTS, partition_keys=["key0", "key1"]))
    runner.write(
        table,
        *[(0, 1, n + 2, n + 3, n + 4, n + 5, n + 6) for n in (10, 20, 30)],
        *[(1, 1, n + 2, n + 3, n + 4, n + 5, n + 6) for n in (40, 50)],
    )
    table = table.alter(E1)
    assert fields(table) == [
        "key0:INT:0", "key1:INT:1", "k:INT:6", "c:INT:3", "d:INT:7", "a:INT:5", "e:INT:8",
    ]  # fmt: skip
    new = [(0, 1, 66, 63, 517, 65, 618), (0, 1, 76, 73, 527, 75, 628), (0, 1, 86, 83, 537, 85, 638),
           (1, 1, 96, 93, 547, 95, 648), (1, 1, 106, 103, 557, 105, 658)]  # fmt: skip
    runner.write(table, *new)
    old = [(0, 1, n + 6, n + 3, None, n + 5, None) for n in (10, 20, 30)]
    old += [(1, 1, n + 6, n + 3, None, n + 5, None) for n in (40, 50)]
    assert read(runner, table) == sorted([*old, *new], key=repr)
    assert read(runner, table, "d IS NULL AND a > 20 AND key0 = 0") == old[1:3]
    assert read(runner, table, "c = 63 OR e = 658") == [new[0], new[4]]


E2 = (
    sc.update_column_type("f4", "TIMESTAMP(9)"),
    sc.update_column_type("f3", "BOOLEAN"),
    sc.update_column_type("f0", "INT"),
    sc.update_column_type("f1", "STRING"),
    sc.update_column_type("f2", "DECIMAL(6, 3)"),
    sc.drop_column("f5"),
    sc.rename_column("f3", "f5"),
    sc.rename_column("f0", "f3"),
    sc.rename_column("f5", "f0"),
    sc.move_column("f4", first=True),
    sc.move_column("f3", after="key1"),
    sc.add_column("f6", "INT"),
)
STORED = (
    ("100", MIDNIGHT.replace(year=2024, microsecond=1), "0.02", "True", 4, 5),
    ("-101", MIDNIGHT.replace(year=1969), "-999.99", "1", -44, -1),
    ("0", MIDNIGHT, "999.99", "nO", -4444, 0),
    ("7", None, None, "0", 44444, None),
    (None, MIDNIGHT, "1", "Yes", None, 1),
    ("1", MIDNIGHT, "1", None, 0, 1),
)
"""Columns f0 to f5; of f4 the number of the day."""


def test_casts_of_every_kind_together_with_renames(runner, catalog):
    schema = Schema.of(
        {"key0": "INT", "key1": "INT", "f0": "STRING", "f1": "TIMESTAMP(9)",
         "f2": "DECIMAL(5, 2)", "f3": "STRING", "f4": "DATE", "f5": "BIGINT"},
        partition_keys=["key0", "key1"],
    )  # fmt: skip
    table = catalog.create_table("db.e2", schema)
    days = [None if day is None else DAY + dt.timedelta(days=day) for *_, day, _ in STORED]
    runner.write(
        table,
        *[
            (0, 1, f0, f1, None if f2 is None else Decimal(f2).quantize(Decimal("0.01")), f3, d, f5)
            for (f0, f1, f2, f3, _, f5), d in zip(STORED, days, strict=True)
        ],
    )
    plan = table.plan_alter(E2, executor=runner.executor)
    assert not plan.loses
    table = table.alter(E2)
    assert fields(table) == [
        "f4:TIMESTAMP(9):6", "key0:INT:0", "key1:INT:1", "f3:INT:2", "f1:STRING:3",
        "f2:DECIMAL(6, 3):4", "f0:BOOLEAN:5", "f6:INT:8",
    ]  # fmt: skip
    found = table.new_read_builder().to_arrow(runner.executor).to_pylist()
    assert [row["f0"] for row in found] == [True, True, False, False, True, None]
    assert [row["f3"] for row in found] == [100, -101, 0, 7, None, 1]
    assert [row["f1"] for row in found][:2] == [
        "2024-01-01 00:00:00.000001000",
        "1969-01-01 00:00:00.000000000",
    ]
    assert [row["f2"] for row in found][:2] == [Decimal("0.020"), Decimal("-999.990")]
    moments = [None if row["f4"] is None else row["f4"].date() for row in found]
    assert moments == days
    assert [str(day) for day in moments[1:4]] == ["1969-11-18", "1957-11-01", "2091-09-07"]
    assert {row["f6"] for row in found} == {None}


E3 = (
    sc.drop_column("a"),
    sc.drop_column("c"),
    sc.rename_column("b", "c"),
    sc.rename_column("d", "a"),
    sc.rename_column("key2", "key_2"),
    sc.add_column("d", "INT", after="c"),
    sc.add_column("e", "INT"),
    sc.move_column("key0"),
    sc.move_column("k", after="key1"),
)


def test_renamed_keys_merge_by_field_id(runner, catalog):
    names = ("key0", "key1", "key2", "a", "b", "c", "d")
    schema = Schema.of(
        {**dict.fromkeys(names, "INT"), "k": "STRING", "kind": "STRING"},
        partition_keys=["key0", "key1"],
        primary_keys=["key0", "key1", "key2"],
        options={"bucket": "1", "rowkind.field": "kind"},
    )
    table = catalog.create_table("db.e3", schema)
    row = (1, 1, 22, 23, 24, 25, 26, "Bob")
    runner.write(table, *[(1, 1, n, 1, 2, 3, 4, "x", "+I") for n in (42, 82)], (*row, "+I"))
    runner.write(table, *[(1, 1, n, 1, 2, 3, 4, "x", "-D") for n in (42, 82)])
    table = table.alter(E3)
    assert table.schema.primary_keys == ("key0", "key1", "key_2")
    old = {"key1": 1, "k": "Bob", "key_2": 22, "c": 24, "d": None, "a": 26, "key0": 1, "e": None}
    (found,) = table.new_read_builder().to_arrow(runner.executor).to_pylist()
    assert found == {**old, "kind": "+I"}
    newer = {**old, "k": "Alice", "d": 5, "e": 6, "kind": "+I"}
    runner.write(table, tuple(newer[name] for name in table.schema.field_names))
    (found,) = table.new_read_builder().to_arrow(runner.executor).to_pylist()
    assert found == newer
    assert read(runner, table, "key_2 = 42") == []


@pytest.mark.parametrize("formats", [("orc", "parquet"), ("avro", "orc")])
def test_table_of_two_formats(runner, catalog, formats):
    columns = {"f0": "STRING", "f1": "INT", "f2": "INT", "f3": "DOUBLE"}
    first, second = formats
    table = catalog.create_table("db.e4", Schema.of(columns, options={"file.format": first}))
    rows = [("Alice", 10, 1, 11.1), ("Bob", 10, 0, 12.1), ("Emily", 10, 0, 13.1),
            ("Tony", 10, 0, 14.1), ("Lucy", 20, 1, 14.1), ("Skye", 20, 1, 19.1),
            ("Bob", 10, 0, 20.1)]  # fmt: skip
    runner.write(table, *rows[:4])
    table = table.alter([sc.set_option("file.format", second)])
    runner.write(table, *rows[4:])
    assert {entry.file.file_format for entry in table.state.live_files()} == {first, second}
    assert read(runner, table) == sorted(rows, key=repr)


def test_lost_values_are_found_without_statistics(runner, catalog):
    table = catalog.create_table("db.t", Schema.of({"id": "INT", "n": "STRING", "v": "DOUBLE"}))
    runner.write(table, (1, "10", 1.0), (2, "11", 2.0))
    runner.write(table, (3, "x", 2.5), (4, None, None), (5, "2147483648", 3.5))
    changes = [sc.update_column_type("n", "INT"), sc.update_column_type("v", "INT")]
    plan = table.plan_alter(changes, executor=runner.executor)
    assert [str(column) for column in plan.columns] == [
        "column 'n' STRING → INT: 2 unreadable, of 5 values",
        "column 'v' DOUBLE → INT: 2 truncated, of 5 values",
    ]
    shown = {(item.lost.value, item.lost.becomes) for item in plan.columns[0].examples}
    assert shown == {("x", None), ("2147483648", None)}
    shown = {(item.lost.value, item.lost.becomes) for item in plan.columns[1].examples}
    assert shown == {("2.5", "2"), ("3.5", "3")}
    with pytest.raises(InvalidInputError, match=r"stays at schema 0: column 'n' .*' in 'data-"):
        table.alter_checked(changes, executor=runner.executor)
    assert len(table.schemas()) == 1


@pytest.mark.parametrize("keys", [(), ("id",)], ids=["append", "keyed"])
def test_writes_add_columns_and_fill_defaults(runner, tmp_path, keys):
    options = {"bucket": "2", "bucket-key": "id", "write.merge-schema": "true"}
    columns = {"id": "BIGINT", "n": "INT", "kind": "STRING"}
    table = new_table(tmp_path, columns, primary_keys=keys, options=options)
    default = sc.UpdateColumnDefaultValue(field_names=("kind",), new_default_value="plain")
    table = table.alter([default])
    rows = pa.table({"id": [1, 2], "kind": [None, "own"], "more": [0.5, 1.5]})
    refused_rows = rows.append_column("n", pa.array([1, 2**40]))
    with pytest.raises(InvalidInputError, match="column 'n'"):
        table.new_write_builder().write(runner.as_rows(refused_rows), runner.executor)
    assert len(table.refresh().schemas()) == 2
    table.new_write_builder().write(runner.as_rows(rows), runner.executor)
    found = table.refresh().new_read_builder().to_arrow(runner.executor).sort_by("id")
    assert found.to_pylist() == [
        {"id": 1, "n": None, "kind": "plain", "more": 0.5},
        {"id": 2, "n": None, "kind": "own", "more": 1.5},
    ]
