"""Tables whose rows find their bucket in other ways than by a fixed hash."""

from collections import Counter

from tests.testkit.rows import plain_rows
from tests.testkit.tables import new_table

ORDERS = {"id": "BIGINT", "day": "STRING", "amount": "INT"}


def orders(*rows):
    return [dict(zip(ORDERS, row, strict=True)) for row in rows]


def read(runner, table):
    return plain_rows(table.new_read_builder().to_arrow(runner.executor), ORDERS)


def newest(rows, *keys):
    return plain_rows({tuple(row[key] for key in keys): row for row in rows}.values(), ORDERS)


def test_dynamic_buckets_keep_their_keys_over_commits(runner, new_catalog):
    options = {
        "bucket": "-1",
        "dynamic-bucket.target-row-num": "40",
        "dynamic-bucket.initial-buckets": "2",
    }
    table = new_table(
        new_catalog, ORDERS, partition_keys=["day"], primary_keys=["day", "id"], options=options
    )
    rows = []
    for step, count in enumerate((150, 220)):
        new = orders(*((n, "ab"[n % 2], 1000 * step + n) for n in range(count)), (1, "b", -step))
        rows += new
        runner.write(new_catalog.get_table("db.t"), *new)
    assert read(runner, table) == newest(rows, *table.schema.primary_keys)
    files = table.state.live_files()
    assert {entry.total_buckets for entry in files} == {-1}
    # 110 keys in each partition, by two assigners whose buckets take 40.
    assert len({(entry.partition, entry.bucket) for entry in files}) == 8


def test_key_holds_some_partition_columns(runner, new_catalog):
    table = new_table(
        new_catalog,
        ORDERS,
        partition_keys=["day", "amount"],
        primary_keys=["id", "day"],
        options={"bucket": "-1", "dynamic-bucket.target-row-num": "5"},
    )
    rows = []
    for step in range(3):
        new = orders(*((n, "ab"[n % 3 == 0], step) for n in range(20)), (1, "b", step))
        rows += new
        runner.write(new_catalog.get_table("db.t"), *new)
        assert read(runner, table) == newest(rows, *table.schema.primary_keys)


def test_rows_wait_for_bucket_in_order(runner, new_catalog):
    options = {"bucket": "-2", "postpone.batch-write-fixed-bucket": "false"}
    table = new_table(new_catalog, ORDERS, primary_keys=["id"], options=options)
    runner.write(table, *((n % 7, "a", n) for n in range(50)))
    assert read(runner, table) == []
    files = table.state.live_files()
    assert {(entry.bucket, entry.total_buckets) for entry in files} == {(-2, -2)}
    assert sum(entry.file.row_count for entry in files) == 50


def test_partition_is_rescaled(runner, new_catalog):
    keys = ["day", "id"]
    table = new_table(
        new_catalog, ORDERS, partition_keys=["day"], primary_keys=keys, options={"bucket": "3"}
    )
    rows = orders(*((n, "ab"[n % 2], n) for n in range(60)), (1, "b", -1))
    runner.write(table, *rows[:30])
    runner.write(table, *rows[30:])
    made = table.rescale(runner.executor, buckets=5, partition={"day": "b"})
    assert made.commit_kind == "OVERWRITE"
    assert read(runner, table) == newest(rows, *keys)
    counts = Counter(entry.total_buckets for entry in table.state.live_files())
    assert counts[5] == 5
    assert set(counts) == {3, 5}
    more = orders((2, "a", 7), (3, "b", 8), (100, "b", 9))
    runner.write(table, *more)
    assert read(runner, table) == newest([*rows, *more], *keys)


def test_key_is_in_one_partition(runner, new_catalog):
    options = {"bucket": "-1", "dynamic-bucket.target-row-num": "20"}
    table = new_table(
        new_catalog, ORDERS, partition_keys=["day"], primary_keys=["id"], options=options
    )
    rows = orders(*((n % 50, "abc"[n % 3], n) for n in range(120)))
    more = orders(*((n, "d", 1000 + n) for n in range(30, 70)))
    runner.write(table, *rows)
    runner.write(table, *more)
    assert read(runner, table) == newest([*rows, *more], "id")
