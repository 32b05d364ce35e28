"""Every executor does the same."""

import datetime as dt
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_assets import InvalidInputError, NotFoundError, Schema
from paimon_assets.engine.contract.executor import TaskBatch
from paimon_assets.engine.fileio.base import FileIOSpec
from paimon_assets.engine.spec.types import data_types as types
from tests.testkit.rows import plain_rows, rows_to_arrow
from tests.testkit.tables import new_table

ORDERS = {"id": "BIGINT", "day": "STRING", "amount": "INT"}
ALL_TYPES = {
    "flag": "BOOLEAN",
    "tiny": "TINYINT",
    "small": "SMALLINT",
    "number": "INT",
    "big": "BIGINT",
    "real": "FLOAT",
    "double": "DOUBLE",
    "price": "DECIMAL(12, 2)",
    "code": "CHAR(3)",
    "text": "STRING",
    "raw": "BYTES",
    "day": "DATE",
    "time": "TIME(3)",
    "local": "TIMESTAMP(6)",
    "instant": "TIMESTAMP(6) WITH LOCAL TIME ZONE",
    "tags": types.ArrayType(element=types.string()),
    "counts": types.MapType(key=types.not_null(types.string()), value=types.integer()),
    "place": types.RowType(
        fields=(
            types.DataField(id=0, name="x", type=types.integer()),
            types.DataField(id=1, name="y", type=types.string()),
        )
    ),
}
A_ROW = {
    "flag": True,
    "tiny": -128,
    "small": 32767,
    "number": -5,
    "big": 2**62,
    "real": 0.5,
    "double": 0.1,
    "price": Decimal("-12.30"),
    "code": "abc",
    "text": "ä\x01",
    "raw": b"\x00\xff",
    "day": dt.date(1969, 12, 31),
    "time": dt.time(23, 59, 59, 999_000),
    "local": dt.datetime(1969, 12, 31, 23, 59, 59, 999_999),
    "instant": dt.datetime(2024, 2, 29, 1, 2, 3, 4, tzinfo=dt.UTC),
    "tags": ["a", None, ""],
    "counts": [("k", 1), ("l", None)],
    "place": {"x": 1, "y": None},
}
NOTHING = dict.fromkeys(ALL_TYPES)


def orders(*rows):
    names = list(ORDERS)
    return [dict(zip(names, row, strict=True)) for row in rows]


def read(runner, table, **how):
    builder = table.new_read_builder().with_columns(how.get("columns"))
    builder = builder.with_filter(how.get("where"))
    if "snapshot" in how:
        builder = builder.at_snapshot(how["snapshot"])
    result = builder.to_arrow(runner.executor)
    for frame in runner.frames(builder, table, **how):
        names = result.schema.names
        assert plain_rows(frame.toArrow(), names) == plain_rows(result, names)
    return result


def data_files(warehouse):
    return sorted(path for path in Path(warehouse).rglob("data-*") if path.is_file())


@pytest.mark.parametrize("bucket", ["-1", "2"])
def test_every_type_is_read_as_it_was_written(runner, new_catalog, bucket):
    options = {"bucket": bucket} | ({"bucket-key": "big"} if bucket == "2" else {})
    table = new_table(new_catalog, ALL_TYPES, options=options)
    runner.write(table, A_ROW, NOTHING)
    result = read(runner, table)
    assert result.schema == table.new_read_builder().plan().arrow_schema
    expected = rows_to_arrow([A_ROW, NOTHING], table.schema)
    assert plain_rows(result, ALL_TYPES) == plain_rows(expected, ALL_TYPES)


def test_appended_rows_add_up_over_commits_and_partitions(runner, new_catalog):
    table = new_table(new_catalog, ORDERS, partition_keys=["day"])
    first = orders((1, "a", 10), (1, "a", 10), (2, "b/ä", 20), (3, None, 30))
    second = orders((1, "a", 11))
    runner.write(table, *first)
    runner.write(table, *second)
    assert plain_rows(read(runner, table), ORDERS) == plain_rows([*first, *second], ORDERS)


@pytest.mark.parametrize(
    ("partition_keys", "buckets"), [([], "1"), ([], "20"), (["day"], "1"), (["day"], "3")]
)
def test_last_row_of_key_wins(runner, new_catalog, partition_keys, buckets):
    table = new_table(
        new_catalog,
        ORDERS,
        partition_keys=partition_keys,
        primary_keys=[*partition_keys, "id"],
        options={"bucket": buckets},
    )
    rows = orders(*((n % 40, "ab"[n % 2], n) for n in range(500)))
    runner.write(table, *rows)
    runner.write(table, (1, "b", -1), (99, "a", -2))
    expected = {row["id"]: row for row in [*rows, *orders((1, "b", -1), (99, "a", -2))]}
    assert plain_rows(read(runner, table), ORDERS) == plain_rows(expected.values(), ORDERS)


def test_rows_of_bucket_are_those_that_hash_to_it(runner, new_catalog, tmp_path):
    table = new_table(new_catalog, ORDERS, primary_keys=["id"], options={"bucket": "4"})
    rows = orders(*((n, "x", n) for n in range(200)))
    outcome = runner.write(table, *rows)
    assert outcome.report.rows_in == outcome.report.rows_written == 200
    files = table.state.live_files()
    assert sorted({entry.bucket for entry in files}) == [0, 1, 2, 3]
    for key in (0, 7, 199):
        found = read(runner, table, where=f"id = {key}")
        assert found["amount"].to_pylist() == [key]


def test_later_row_wins_equal_sequence(runner, new_catalog):
    table = new_table(
        new_catalog,
        ORDERS,
        primary_keys=["id"],
        options={"bucket": "2", "sequence.field": "amount"},
    )
    rows = orders(*((n % 10, f"row {n}", 5) for n in range(300)), (3, "lower", 4))
    runner.write(table, *rows)
    expected = {f"row {n}" for n in range(290, 300)}
    assert set(read(runner, table)["day"].to_pylist()) == expected


def test_padded_sequence_orders_updates_after_their_retractions(runner, new_catalog):
    columns = {"id": "BIGINT", "second": "BIGINT", "kind": "STRING", "state": "STRING"}
    table = new_table(
        new_catalog,
        columns,
        primary_keys=["id"],
        options={
            "bucket": "2",
            "sequence.field": "second",
            "sequence.auto-padding": "row-kind-flag",
            "rowkind.field": "kind",
        },
    )
    rows = []
    for key in range(50):
        rows += [
            {"id": key, "second": 2, "kind": "+U", "state": "new"},
            {"id": key, "second": 2, "kind": "-U", "state": "old"},
            {"id": key, "second": 1, "kind": "+I", "state": "old"},
        ]
        if key % 5 == 0:
            rows.append({"id": key, "second": 3, "kind": "-D", "state": "new"})
    runner.write(table, *rows)
    result = read(runner, table)
    assert sorted(result["id"].to_pylist()) == [key for key in range(50) if key % 5]
    assert set(result["state"].to_pylist()) == {"new"}


def test_reads_apply_columns_filters_and_snapshots(runner, new_catalog):
    table = new_table(new_catalog, ORDERS, partition_keys=["day"])
    runner.write(table, (1, "a", 10), (2, "b", 20))
    runner.write(table, (3, "a", 30))
    result = read(runner, table, columns=["amount", "id"], where="day = 'a' AND amount > 5")
    assert result.schema.names == ["amount", "id"]
    assert plain_rows(result, ["id", "amount"]) == [(1, 10), (3, 30)]
    assert read(runner, table, snapshot=1).num_rows == 2


def test_table_without_rows_reads_as_empty_table(runner, new_catalog):
    table = new_table(new_catalog, ORDERS)
    result = read(runner, table)
    assert (result.num_rows, result.schema.names) == (0, list(ORDERS))


@pytest.mark.parametrize("primary_keys", [[], ["id"]])
def test_writing_no_rows_makes_no_snapshot(runner, new_catalog, primary_keys):
    options = {"bucket": "2"} if primary_keys else {}
    table = new_table(new_catalog, ORDERS, primary_keys=primary_keys, options=options)
    outcome = runner.write(table)
    assert (outcome.snapshot, outcome.report.rows_in) == (None, 0)
    assert table.latest_snapshot() is None


@pytest.mark.parametrize("primary_keys", [[], ["id"]])
def test_unfit_rows_are_refused_without_leftovers(runner, new_catalog, warehouse, primary_keys):
    options = {"bucket": "4"} if primary_keys else {}
    table = new_table(
        new_catalog,
        {**ORDERS, "amount": "INT NOT NULL"},
        primary_keys=primary_keys,
        options=options,
    )
    rows = orders(*((n, "x", n) for n in range(500)), (500, "x", None))
    with pytest.raises(InvalidInputError, match="amount") as caught:
        runner.write(table, *rows, schema=Schema.of(ORDERS))
    assert caught.value.kind == "input-null"
    assert table.latest_snapshot() is None
    assert data_files(warehouse) == []


def test_wrong_column_is_named_before_write(runner, new_catalog, warehouse):
    table = new_table(new_catalog, ORDERS, primary_keys=["id"], options={"bucket": "2"})
    rows = runner.as_rows(pa.table({"id": [1], "day": ["a"], "amonut": [1]}))
    with pytest.raises(InvalidInputError, match="amount") as caught:
        table.new_write_builder().write(rows, runner.executor)
    assert caught.value.kind == "input-columns"
    assert data_files(warehouse) == []


def test_missing_data_file_is_reported_as_such(runner, new_catalog, warehouse):
    table = new_table(new_catalog, ORDERS)
    runner.write(table, (1, "a", 1))
    data_files(warehouse)[0].unlink()
    with pytest.raises(NotFoundError) as caught:
        read(runner, table)
    assert caught.value.kind == "file-not-found"


def test_one_commit_user_writes_once(runner, new_catalog):
    table = new_table(new_catalog, ORDERS)
    builder = table.new_write_builder().with_commit_user("run-1").with_properties({"a": "b"})
    first = runner.write(builder, (1, "a", 1))
    again = runner.write(builder, (1, "a", 1))
    assert (first.was_already_committed, again.was_already_committed) == (False, True)
    assert again.snapshot == first.snapshot
    assert first.snapshot.properties["a"] == "b"
    assert read(runner, table).num_rows == 1


@pytest.mark.parametrize("keyed", [True, False])
def test_compactions_merge_and_report_progress(runner, new_catalog, keyed):
    table = new_table(
        new_catalog,
        ORDERS,
        primary_keys=["id"] if keyed else [],
        options={"bucket": "3", "bucket-key": "id"},
    )
    for number in range(5):
        rows = [{"id": key, "day": "d", "amount": number} for key in range(30)]
        runner.write(table, *rows)
    before = plain_rows(table.new_read_builder().to_arrow(), ORDERS)
    seen = []
    outcome = table.new_compaction_builder().run(runner.executor, on_progress=seen.append)
    assert (outcome.files_before, outcome.files_after) == (15, 3)
    assert [(step.tasks_done, step.tasks) for step in seen] == [(1, 3), (2, 3), (3, 3)]
    assert seen[-1].seconds_left == 0
    assert plain_rows(table.new_read_builder().to_arrow(), ORDERS) == before


def test_batch_of_tasks_raises_error_of_task(runner):
    batch = TaskBatch(name="no-such-task", payloads=(b"", b"", b""), file_io=FileIOSpec())
    with pytest.raises(InvalidInputError) as raised:
        list(runner.executor.map_tasks(batch))
    assert raised.value.kind == "task"
    assert (
        list(runner.executor.map_tasks(TaskBatch(name="", payloads=(), file_io=FileIOSpec()))) == []
    )
