import datetime as dt
import random
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_assets import add_column
from paimon_assets.engine.embedded import EmbeddedExecutor
from paimon_assets.engine.errors import AlreadyExistsError, InvalidInputError, NotFoundError
from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.table.api import open_table
from paimon_assets.engine.table.segments.segment_import import SegmentSource
from tests.testkit.errors import refused
from tests.testkit.tables import arrow, new_catalog_in, new_table, read


def write(table, rows, **columns):
    data = rows if isinstance(rows, pa.Table) else pa.table(rows)
    return table.new_write_builder().write(data)


def append_table(catalog, name="db.events", **kwargs):
    return new_table(catalog, {"id": "BIGINT", "dt": "STRING", "v": "DOUBLE"}, name=name, **kwargs)


def keyed_table(catalog, name="db.users", buckets=2, **options):
    return new_table(
        catalog,
        {"id": "BIGINT", "dt": "STRING", "name": "STRING"},
        name=name,
        primary_keys=["id", "dt"],
        partition_keys=["dt"],
        options={"bucket": str(buckets), **options},
    )


def test_appended_rows_keep_order_over_commits(catalog):
    table = append_table(catalog)
    first = write(table, {"id": [3, 1], "dt": ["a", "b"], "v": [0.5, None]})
    second = write(table, {"v": [1.5], "dt": ["c"], "id": [2]})
    assert (first.snapshot.id, second.snapshot.id) == (1, 2)
    read = table.to_arrow()
    assert read.column("id").to_pylist() == [3, 1, 2]
    assert read.schema.names == ["id", "dt", "v"]
    assert second.snapshot.total_record_count == 3
    assert second.snapshot.delta_record_count == 1


def test_upserts_keep_newest_row_of_each_key(catalog):
    table = keyed_table(catalog)
    write(table, {"id": [1, 2, 2], "dt": ["x", "x", "x"], "name": ["a", "b", "c"]})
    write(table, {"id": [2, 1], "dt": ["x", "y"], "name": ["d", "e"]})
    assert read(table) == [(1, "x", "a"), (1, "y", "e"), (2, "x", "d")]


def test_filter_returns_passing_rows(catalog):
    table = keyed_table(catalog)
    write(table, {"id": range(100), "dt": ["x", "y"] * 50, "name": [f"n{i}" for i in range(100)]})
    write(table, {"id": [10], "dt": ["x"], "name": ["new"]})
    assert read(table, ["name"], where="id = 10 and dt = 'x'") == [("new",)]
    assert read(table, ["id"], where="name = 'n10'") == []
    assert read(table, ["id"], where="id >= 98 or name = 'n3'") == [(3,), (98,), (99,)]
    assert read(table, ["id"], where="dt = 'z'") == []


def test_one_column_may_be_named_without_list(catalog):
    table = append_table(catalog)
    write(table, {"id": [1], "dt": ["a"], "v": [0.5]})
    assert table.to_arrow("dt").to_pylist() == [{"dt": "a"}]
    with pytest.raises(NotFoundError, match="Column 'id > 0' does not exist"):
        table.scan("id > 0").to_arrow()


def test_point_read_opens_one_file_of_many(catalog):
    table = keyed_table(catalog, buckets=4)
    ids = list(range(1000))
    write(table, {"id": ids, "dt": [f"d{i % 5}" for i in ids], "name": ["n"] * 1000})
    whole = table.new_read_builder().plan()
    point = table.new_read_builder().with_filter("id = 7 and dt = 'd2'").plan()
    assert sum(len(split.data_files) for split in whole.splits) == 20
    assert sum(len(split.data_files) for split in point.splits) == 1


def test_empty_write_commits_only_on_request(catalog):
    table = append_table(catalog)
    empty = arrow(table.schema)
    assert table.new_write_builder().write(empty).snapshot is None
    made = table.new_write_builder().with_empty_commits().write(empty).snapshot
    assert made is not None
    assert made.id == 1
    assert table.to_arrow().num_rows == 0


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"id": [1], "dt": ["a"]}, "name"),
        ({"id": [1], "dt": ["a"], "name": ["x"], "more": [1]}, "more"),
        ({"id": ["one"], "dt": ["a"], "name": ["x"]}, "'id'"),
        ({"id": [None], "dt": ["a"], "name": ["x"]}, "'id'"),
    ],
)
def test_rows_that_do_not_fit_leave_no_file(catalog, rows, message):
    table = keyed_table(catalog)
    with pytest.raises(InvalidInputError, match=message):
        write(table, rows)
    assert table.latest_snapshot() is None
    assert not list(Path(table.path).rglob("*.parquet"))


def test_rows_are_arrow_and_executor_is_embedded_by_default(catalog):
    table = append_table(catalog)
    rows = pa.table({"id": [1], "dt": ["x"], "v": [1.0]})
    table.new_write_builder().write(rows)
    table.new_write_builder().write(rows.to_reader())

    table.new_write_builder().write(rows.to_pylist())
    with refused(InvalidInputError, r"The rows are a builtins\.set", kind="frame-type"):
        table.new_write_builder().write({1})

    assert read(table) == [(1, "x", 1.0)] * 3
    assert len(table.snapshots()) == 3


def test_repeated_creation_is_refused_unless_allowed(catalog):
    append_table(catalog)
    with pytest.raises(AlreadyExistsError, match=r"db\.events"):
        append_table(catalog)
    schema = Schema.of({"other": "INT"})
    same = catalog.create_table("db.events", schema, ignore_if_exists=True)
    assert same.schema.field_names == ("id", "dt", "v")


def test_missing_table_is_named(catalog, tmp_path):
    with pytest.raises(NotFoundError, match=r"db\.nothing"):
        catalog.get_table("db.nothing")
    with pytest.raises(NotFoundError, match="schema"):
        open_table(str(tmp_path))


def test_renamed_table_keeps_its_rows(catalog):
    write(append_table(catalog), {"id": [1], "dt": ["a"], "v": [1.0]})
    catalog.rename_table("db.events", "db.renamed")
    assert catalog.list_tables("db") == ["renamed"]
    assert read(catalog.get_table("db.renamed"), ["id"]) == [(1,)]
    catalog.drop_table("db.renamed")
    assert catalog.list_tables("db") == []


def test_table_directory_is_opened_without_catalog(catalog):
    table = append_table(catalog)
    write(table, {"id": [1], "dt": ["a"], "v": [1.0]})
    bare = open_table(table.path)
    assert bare.name == "db.events"
    assert read(bare, ["id"]) == [(1,)]


TYPES = {
    "b": ("BOOLEAN", [True, None]),
    "i1": ("TINYINT", [-128, 127]),
    "i2": ("SMALLINT", [-32768, None]),
    "i4": ("INT", [2**31 - 1, 0]),
    "i8": ("BIGINT", [-(2**63), 2**63 - 1]),
    "f": ("FLOAT", [1.5, None]),
    "d": ("DOUBLE", [2.5, -0.0]),
    "n9": ("DECIMAL(9, 2)", [Decimal("1234567.89"), None]),
    "n18": ("DECIMAL(18, 4)", [Decimal("-12345678901234.5678"), Decimal("0.0000")]),
    "n38": ("DECIMAL(38, 10)", [Decimal("1234567890123456789012345678.0123456789"), None]),
    "c": ("CHAR(3)", ["abc", None]),
    "s": ("STRING", ["äöü€😀", ""]),
    "y": ("BYTES", [b"\x00\xff", None]),
    "day": ("DATE", [dt.date(1969, 12, 31), dt.date(9999, 12, 31)]),
    "t": ("TIME(3)", [dt.time(23, 59, 59, 999000), None]),
    "ts0": ("TIMESTAMP(0)", [dt.datetime(1969, 12, 31, 23, 59, 59), None]),
    "ts3": ("TIMESTAMP(3)", [dt.datetime(2024, 1, 1, 1, 1, 1, 123000), None]),
    "ts6": ("TIMESTAMP(6)", [dt.datetime(1900, 1, 1, 0, 0, 0, 1), None]),
    "ltz": ("TIMESTAMP_LTZ(3)", [dt.datetime(2024, 6, 1, 12, tzinfo=dt.UTC), None]),
    "arr": ("ARRAY<INT>", [[1, None, 3], None]),
    "map": ("MAP<STRING NOT NULL, BIGINT>", [[("k", 1)], []]),
    "row": ("ROW<x INT, y STRING>", [{"x": 1, "y": "a"}, None]),
}  # fmt: skip


@pytest.mark.parametrize("keyed", [False, True])
def test_values_of_every_type_round_trip(catalog, keyed):
    columns = {"k": "INT", **{name: type_text for name, (type_text, _) in TYPES.items()}}
    schema = Schema.of(
        columns, primary_keys=["k"] if keyed else [], options={"bucket": "1"} if keyed else {}
    )
    table = new_table(catalog, schema, name="db.types")
    empty = table.to_arrow().schema
    values = {"k": [1, 2], **{name: values for name, (_, values) in TYPES.items()}}
    rows = pa.table([pa.array(values[field.name], field.type) for field in empty], schema=empty)
    write(table, rows)
    if keyed:
        write(table, rows.slice(1))
    read = table.to_arrow()
    assert read.schema.equals(empty)
    assert read.to_pylist() == rows.to_pylist()


def test_timestamps_beside_nanoseconds_keep_their_whole_range(catalog):
    table = new_table(
        catalog,
        {"k": "INT", "ns": "TIMESTAMP(9)", "us": "TIMESTAMP(6)", "s": "TIMESTAMP(0)"},
        name="db.moments",
        primary_keys=["k"],
        options={"bucket": "1"},
    )
    last = dt.datetime(9999, 12, 31, 23, 59, 59, 999_999)
    rows = arrow(
        table.schema,
        (1, -1, dt.datetime(1, 1, 1), None),
        (2, 123_456_789, last, dt.datetime(9999, 12, 31)),
    )
    write(table, rows)
    write(table, rows)
    assert table.to_arrow() == rows
    late = table.new_read_builder().with_columns(["k"]).with_filter("us > TIMESTAMP '2500-01-01'")
    assert late.to_arrow().column("k").to_pylist() == [2]


@pytest.mark.parametrize(
    ("type_text", "values"),
    [
        ("INT", [3, -1, 2]),
        ("BIGINT", [2**40, -(2**40), 0]),
        ("STRING", ["b", "", "a\uffff", "a😀", "aaaaaaaaab", "aaaaaaaaaa"]),
        ("DATE", [dt.date(1960, 1, 1), dt.date(2024, 1, 1)]),
        ("DECIMAL(30, 5)", [Decimal("-1.5"), Decimal("99999999999999999999.5")]),
        ("TIMESTAMP(6)", [dt.datetime(1969, 1, 1, 0, 0, 0, 7), dt.datetime(2024, 1, 1)]),
        ("BOOLEAN", [True, False]),
        ("DOUBLE", [1.5, -2.5, 0.0]),
        ("BYTES", [b"\xff", b"\x00", b"\x7f"]),
    ],
)
def test_keys_of_every_type_merge(catalog, type_text, values):
    table = new_table(
        catalog,
        {"k": type_text, "v": "INT"},
        name="db.keyed",
        primary_keys=["k"],
        options={"bucket": "1"},
    )
    order = random.Random(7)  # noqa: S311 - a test's shuffle
    expected = {}
    for step in range(3):
        shuffled = values * 2
        order.shuffle(shuffled)
        payload = [step * 100 + position for position in range(len(shuffled))]
        expected.update(zip(shuffled, payload, strict=True))
        write(table, arrow(table.schema, *zip(shuffled, payload, strict=True)))
    read = table.to_arrow()
    assert dict(zip(read["k"].to_pylist(), read["v"].to_pylist(), strict=True)) == expected
    assert read.num_rows == len(values)


@pytest.mark.parametrize("value", ["a/b c=%:中é", "", "  ", None, "..", "x\ny", "'\"", "a" * 200])
def test_any_partition_value_is_restored(catalog, value):
    table = append_table(catalog, partition_keys=["dt"])
    write(table, {"id": [1], "dt": pa.array([value], pa.string()), "v": [1.0]})
    assert table.to_arrow(["dt"])["dt"].to_pylist() == [value]
    files = [str(path) for path in Path(table.path).rglob("*.parquet")]
    assert all(path.startswith(table.path + "/dt=") for path in files)


def test_splits_are_read_in_order_and_closed_early(catalog):
    table = append_table(catalog, partition_keys=["dt"])
    write(table, {"id": range(40), "dt": [f"d{i}" for i in range(40)], "v": [1.0] * 40})
    reader = table.new_read_builder().with_columns(["id"]).to_reader(EmbeddedExecutor(threads=3))
    assert reader.read_next_batch().num_rows == 1
    reader.close()
    ids = table.new_read_builder().to_arrow(EmbeddedExecutor(threads=3))["id"].to_pylist()
    assert ids == sorted(ids)


@pytest.mark.parametrize("type_text", ["FLOAT", "DOUBLE"])
def test_signed_zeros_and_nan_are_distinct_keys(catalog, type_text):
    table = new_table(
        catalog,
        {"f": type_text, "k": "INT", "v": "INT"},
        name="db.keyed",
        primary_keys=["f", "k"],
        options={"bucket": "1", "target-file-size": "1 b", "write-buffer-size": "1 b"},
    )
    floats = [1.0, float("nan"), -0.0, 0.0, float("-inf"), float("inf"), -1.0]
    keys = [(number, k) for number in floats for k in (2, 1)]
    for step in range(3):
        for number, k in keys:
            write(table, arrow(table.schema, (number, k, step)))
    found = table.to_arrow().to_pylist()
    assert sorted((repr(row["f"]), row["k"]) for row in found) == sorted(
        (repr(number), k) for number, k in keys
    )
    assert {row["v"] for row in found} == {2}


def test_filter_on_seconds_finds_row_group_of_one_value(catalog):
    table = new_table(catalog, {"at": "TIMESTAMP(0)"}, name="db.seconds")
    time = dt.datetime(2024, 1, 1)
    write(table, {"at": pa.array([time], pa.timestamp("s"))})
    for where in ("at = '2024-01-01'", "at <= '2024-01-01'", "at IN ('2024-01-01')"):
        assert table.to_arrow(where=where)["at"].to_pylist() == [time], where


@pytest.mark.parametrize("scheme", ["FILE:", "FILE://", "File:"])
def test_local_scheme_has_any_letter_case(tmp_path, scheme):
    table = append_table(new_catalog_in(f"{scheme}{tmp_path}/w"))
    write(table, {"id": [1], "dt": ["a"], "v": [0.5]})
    (tmp_path / "others").mkdir()
    pq.write_table(
        pa.table({"id": [2], "dt": ["b"], "v": [1.5]}), tmp_path / "others" / "0.parquet"
    )
    table.segments().add(SegmentSource(path=f"{scheme}{tmp_path}/others"))
    for path in (f"{scheme}{tmp_path}/w/db.db/events", str(tmp_path / "w/db.db/events")):
        assert read(open_table(path)) == [(1, "a", 0.5), (2, "b", 1.5)]


PEOPLE = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "name": ["a", "b", "c"]})


def rows(table):
    return sorted(table.to_arrow().to_pylist(), key=lambda row: row["id"])


def test_append_table_from_arrow_schema(catalog):
    table = new_table(catalog, PEOPLE.schema, name="db.people")
    table.append(PEOPLE)
    assert table.count() == 3
    assert table.count("id > 1") == 2
    assert table.to_arrow(["name"], "id = 2").to_pylist() == [{"name": "b"}]
    assert table.to_arrow(limit=1).num_rows == 1
    assert table.to_pandas(where="id < 2")["name"].tolist() == ["a"]
    assert table.to_polars()["id"].sum() == 6
    assert table.scan(["id"]).to_arrow().column_names == ["id"]
    assert table.delete("id = 3").rows_matched == 1
    table.upsert(pa.table({"id": [2, 9], "name": ["B", "new"]}), on=["id"])
    assert [row["name"] for row in rows(table)] == ["a", "B", "new"]
    table.overwrite(PEOPLE.slice(0, 1))
    assert rows(table) == [{"id": 1, "name": "a"}]
    assert table.history().column("snapshot_id").to_pylist() == [1, 2, 3, 4]


def test_keyed_table_from_arrow_schema(catalog):
    schema = Schema.of(PEOPLE.schema, primary_keys="id", options={"bucket": 1})
    table = new_table(catalog, schema, name="db.people")
    table.upsert(PEOPLE)
    table.upsert(pa.table({"id": [3], "name": ["C"]}))
    assert [row["name"] for row in rows(table)] == ["a", "b", "C"]
    assert table.compact(full=True).snapshot.commit_kind == "COMPACT"
    assert table.compact().snapshot is None
    with refused(InvalidInputError, "Use upsert", kind="primary-key"):
        table.append(PEOPLE)


def test_rows_are_same_by_key_or_by_named_columns(catalog):
    table = new_table(catalog, {"id": "BIGINT", "name": "STRING"}, name="db.people")
    with pytest.raises(InvalidInputError, match=r"on=\['id'\]"):
        table.upsert(PEOPLE)
    assert table.latest_snapshot() is None


def test_refresh_loads_newest_schema_into_table(catalog):
    table = new_table(catalog, PEOPLE.schema, name="db.people")
    catalog.load_table("db.people").alter([add_column("age", "INT")])
    assert table.schema.field_names == ("id", "name")
    assert table.refresh() is table
    assert table.schema.field_names == ("id", "name", "age")


@pytest.mark.parametrize("columns", [["id"], "id BIGINT", 3])
def test_invalid_schema_is_refused(catalog, columns):
    with pytest.raises(InvalidInputError, match="made of a mapping"):
        catalog.create_table("db.people", columns)


def test_library_internals_are_no_table_attributes(catalog):
    table = new_table(catalog, PEOPLE.schema, name="db.people")
    assert {"to_arrow", "append", "tags", "history"} <= set(dir(table))
    internals = {"pointed_ledger", "shape", "file_io", "reopened", "create_tag", "live_files"}
    assert not internals & set(dir(table))
