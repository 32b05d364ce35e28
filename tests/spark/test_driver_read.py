"""Small reads happen in the driver, with the rows that tasks would read; large ones in tasks."""

import datetime as dt
import decimal
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_assets import EmbeddedExecutor, InvalidInputError, NotFoundError
from tests.testkit.spark_settings import session_with
from tests.testkit.tables import new_table, write

here = pytest.importorskip("paimon_assets.spark.shortcuts.driver_read")
executor_module = pytest.importorskip("paimon_assets.spark.executor")
tables = pytest.importorskip("paimon_assets.spark.dataframes.tables")
error_inside = pytest.importorskip("paimon_assets.spark.failure").error_inside
PySparkException = pytest.importorskip("pyspark.errors").PySparkException
Py4JJavaError = pytest.importorskip("py4j.protocol").Py4JJavaError

pytestmark = pytest.mark.spark

COLUMNS = {
    "id": "BIGINT",
    "text": "STRING",
    "data": "BYTES",
    "flag": "BOOLEAN",
    "price": "DOUBLE",
    "amount": "DECIMAL(12, 2)",
    "at": "DATE",
    "ts": "TIMESTAMP(3)",
    "instant": "TIMESTAMP(6) WITH LOCAL TIME ZONE",
}
ROWS = 900


@pytest.fixture
def is_driver_read(spark):
    with session_with(spark, **{here.READ_HERE: "16 mb"}):
        yield


def rows_of(first, count=ROWS):
    ids = range(first, first + count)
    times = [dt.datetime(2024, 1, 1) + dt.timedelta(seconds=each) for each in ids]
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "text": pa.array([None if each % 7 == 0 else f"t{each}" for each in ids]),
            "data": pa.array([bytes([each % 256]) for each in ids]),
            "flag": pa.array([each % 2 == 0 for each in ids]),
            "price": pa.array([each / 7 for each in ids]),
            "amount": pa.array([decimal.Decimal(each) for each in ids], pa.decimal128(12, 2)),
            "at": pa.array([each.date() for each in times]),
            "ts": pa.array(times, pa.timestamp("ms")),
            "instant": pa.array(times, pa.timestamp("us", tz="UTC")),
        }
    )


def table_with_rows(catalog, *, keys=(), columns=COLUMNS, **options):
    table = new_table(catalog, columns, primary_keys=list(keys), options=options)
    for first in (0, ROWS // 2):
        write(table, rows_of(first).select(list(columns)))
    return table


def collect(frame):
    return sorted(map(str, frame.collect()))


def is_held(frame):
    return frame._jdf.queryExecution().optimizedPlan().nodeName() == "LocalRelation"


@pytest.mark.parametrize("keys", [(), ("id",)])
@pytest.mark.parametrize(
    "where", ["id = 500", "price < 9.5 AND flag = true", "id = 77 AND flag = true", None]
)
def test_rows_are_those_of_tasks(spark, new_catalog, keys, where):
    table = table_with_rows(new_catalog, keys=keys, **({"bucket": "2"} if keys else {}))
    read = table.new_read_builder()
    read = read if where is None else read.with_filter(where)
    by_tasks = tables.to_spark(read, spark)
    with session_with(spark, **{here.READ_HERE: "16 mb"}):
        held = tables.to_spark(read, spark)
    assert is_held(held)
    assert not is_held(by_tasks)
    assert held.dtypes == by_tasks.dtypes
    assert collect(held) == collect(by_tasks)
    assert held.count() == by_tasks.count() == len(by_tasks.collect())


def test_filtered_read_counts_matching_row_groups(spark, new_catalog):
    """A file of 300,000 rows has ten row groups."""
    table = new_table(new_catalog, {"id": "BIGINT", "v": "BIGINT"})
    numbers = pa.array(range(300_000), pa.int64())
    values = pa.array([each * 7919 % 300_007 for each in range(300_000)], pa.int64())
    table.new_write_builder().write(pa.table({"id": numbers, "v": values}), EmbeddedExecutor(1))
    [entry] = table.state.live_files()
    size = entry.file.file_size

    def is_little(where, limit):
        plan = table.new_read_builder().with_filter(where).plan()
        with session_with(spark, **{here.READ_HERE: str(limit)}):
            return here.is_driver_read(spark, plan.context, plan.splits)

    assert is_little("id = 5", size // 8)
    assert is_little("id = 200000", size // 8)
    assert not is_little("id = 5", size // 16)
    assert not is_little("id = 5 OR id = 200000", size // 8)
    assert not is_little("v = 5", size // 2)
    assert is_little("v = 5", size)
    assert not is_little("v = 5", 0)


def test_rows_that_take_much_memory_are_left_to_tasks(spark, new_catalog, is_driver_read):
    columns = {"id": "BIGINT", "text": "STRING"}
    table = new_table(new_catalog, columns)
    rows = pa.table({"id": range(600), "text": ["x" * 10_000] * 600})
    write(table, rows)
    assert sum(entry.file.file_size for entry in table.state.live_files()) < 100_000
    frame = tables.to_spark(table.new_read_builder(), spark)
    assert not is_held(frame)
    assert frame.agg({"id": "sum"}).collect()[0][0] == sum(range(600))


@pytest.fixture
def broadcasts_disabled(spark):
    with session_with(spark, **{"spark.sql.autoBroadcastJoinThreshold": "1000"}):
        yield


def plan_of(frame):
    return frame._jdf.queryExecution().toString()


def test_key_range_is_read_by_driver_and_computed_by_tasks(
    spark, new_catalog, is_driver_read, broadcasts_disabled, monkeypatch
):
    table = table_with_rows(new_catalog, keys=["id"], bucket="2")
    read = table.new_read_builder().with_filter("id >= 100 AND id < 800 AND price > 20.0")
    frame = tables.to_spark(read, spark)
    assert "ExistingRDD" in plan_of(frame)
    assert "MapInArrow" not in plan_of(frame)
    assert "BroadcastExchange" not in plan_of(frame.join(frame.select("id"), "id"))
    with session_with(spark, **{here.READ_HERE: "0"}):
        assert collect(frame) == collect(tables.to_spark(read, spark))
        assert frame.count() == frame.select("id").count() == 659
    none = table.new_read_builder().with_filter("id > 100 AND id < 101")
    assert tables.to_spark(none, spark).collect() == []
    by_value = table.new_read_builder().with_filter("price < 9.5")
    assert "MapInArrow" in plan_of(tables.to_spark(by_value, spark))
    monkeypatch.setattr(here, "_SENT_BYTES", 1000)
    assert "MapInArrow" in plan_of(tables.to_spark(read, spark))


def test_invalid_size_limit_is_named(spark, new_catalog):
    table = table_with_rows(new_catalog)
    refused = pytest.raises(InvalidInputError, match=f"{here.READ_HERE}.*'much'")
    with session_with(spark, **{here.READ_HERE: "much"}), refused:
        tables.to_spark(table.new_read_builder().with_filter("id = 5"), spark)


def test_nested_columns_are_left_to_tasks(spark, new_catalog, is_driver_read):
    table = new_table(new_catalog, {"l": "ARRAY<INT>"})
    rows = pa.table({"l": pa.array([[1], [2]], pa.list_(pa.int32()))})
    write(table, rows)
    frame = tables.to_spark(table.new_read_builder(), spark)
    assert not is_held(frame)
    assert sorted(row.l for row in frame.collect()) == [[1], [2]]


def test_driver_error_equals_task_error(spark, new_catalog, is_driver_read):
    table = table_with_rows(new_catalog, keys=["id"], bucket="1")
    read = table.new_read_builder().with_filter("id = 5")
    plan = read.plan()
    for path in Path(table.path).glob("bucket-0/*"):
        path.unlink()
    frame = executor_module.SparkExecutor(spark).to_dataframe(plan.context, plan.splits)
    with pytest.raises(PySparkException) as caught:
        frame.collect()
    assert isinstance(error_inside(caught.value), NotFoundError)


@pytest.mark.parametrize("limit", ["0", "16 mb"])
@pytest.mark.parametrize("where", [None, "price > 30.0"])
def test_counts_are_those_of_rows(spark, new_catalog, limit, where):
    """Merged rows count once a key; Spark counts rows that it computes or keeps."""
    table = table_with_rows(new_catalog, keys=["id"], bucket="2")
    read = table.new_read_builder()
    read = read if where is None else read.with_filter(where)
    expected = read.to_arrow().num_rows
    with session_with(spark, **{here.READ_HERE: limit}):
        frame = tables.to_spark(read, spark)
        assert frame.count() == expected
        assert read.count(executor_module.SparkExecutor(spark)) == expected
        assert frame.select("id").count() == expected
        frame.persist()
        assert frame.count() == expected
        frame.unpersist()


def test_count_without_merge_reads_no_file(spark, new_catalog):
    table = table_with_rows(new_catalog)
    frame = tables.to_spark(table.new_read_builder(), spark)
    for path in Path(table.path).glob("bucket-0/*"):
        path.unlink()
    assert frame.count() == 2 * ROWS
    with pytest.raises(Py4JJavaError, match="FILE_NOT_EXIST"):
        frame.persist().count()
    frame.unpersist()
