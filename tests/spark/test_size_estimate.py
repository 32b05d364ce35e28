"""Size estimates of DataFrames of tables that must be merged, and the joins that Spark plans."""

import pytest

from paimon_assets.engine.spec.schema.schema import Schema
from tests.testkit.spark_settings import session_with

functions = pytest.importorskip("pyspark.sql.functions")
tables = pytest.importorskip("paimon_assets.spark.dataframes.tables")

pytestmark = pytest.mark.spark

KEYED = Schema.of(
    {"id": "BIGINT NOT NULL", "name": "STRING", "at": "ARRAY<ROW<x INT NOT NULL>>"},
    primary_keys=["id"],
    options={"bucket": "2"},
)
FEW, MANY = 20, 3000
WIDTH = 8 + 8 + 20 + 20
"""Bytes of a row as Spark estimates them."""
LIMIT = 64 * 1024
"""More than the files of few rows, less than many rows."""
THRESHOLD = "spark.sql.autoBroadcastJoinThreshold"


@pytest.fixture(autouse=True)
def small_broadcasts(spark):
    """Let Spark broadcast little, so that large tables are small enough for a test."""
    with session_with(spark, **{THRESHOLD: str(LIMIT)}):
        yield


def merged_frame(spark, catalog, name, rows):
    """Return a table of two runs, the second of which has every key of the first, as a frame."""
    table = catalog.create_table(f"db.{name}", KEYED)
    values = "id", f"'{name}' name", "array(named_struct('x', 1)) at"
    for _ in range(2):
        tables.write_dataframe(table, spark.range(rows).selectExpr(*values))
    return tables.to_spark(table.new_read_builder(), spark)


def plan_of(frame):
    return frame._jdf.queryExecution().toString()


def size_estimate(frame):
    return frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()


def test_join_strategy_follows_claimed_sizes(spark, new_catalog):
    one, other = (merged_frame(spark, new_catalog, name, MANY) for name in ("one", "other"))
    few = merged_frame(spark, new_catalog, "few", FEW).withColumnRenamed("name", "few")
    assert size_estimate(one) == pytest.approx(2 * MANY * WIDTH, rel=0.01)

    both = one.join(other.withColumnRenamed("name", "also"), "id").where("also IS NOT NULL")
    assert "SortMergeJoin" in plan_of(both)
    assert "BroadcastExchange" not in plan_of(both)
    assert both.agg(functions.count("also"), functions.sum("id")).collect() == [
        (MANY, MANY * (MANY - 1) // 2)
    ]

    for joined, side in ((one.join(few, "id"), "BuildRight"), (few.join(one, "id"), "BuildLeft")):
        assert "BroadcastHashJoin" in plan_of(joined)
        assert side in plan_of(joined)
        assert joined.count() == FEW


def test_claimed_size_keeps_rows(spark, new_catalog):
    frame = merged_frame(spark, new_catalog, "t", MANY)
    assert "Sample" in plan_of(frame)
    assert [field.nullable for field in frame.schema] == [False, True, True]
    assert frame.where("name IS NULL OR id IS NULL").count() == 0
    assert frame.where("at[0].x = 1 AND id < 5").select("id").count() == 5
    assert frame.select("name").distinct().count() == 1
    assert frame.count() == MANY == len(frame.collect())


def test_small_reads_stay_broadcastable(spark, new_catalog):
    assert "Sample" not in plan_of(merged_frame(spark, new_catalog, "few", FEW))
    spark.conf.set(THRESHOLD, "-1")
    assert "Sample" not in plan_of(merged_frame(spark, new_catalog, "t", MANY))


def test_claimed_size_needs_no_task(spark, new_catalog):
    frame = merged_frame(spark, new_catalog, "t", MANY)
    read = tables.to_spark(
        new_catalog.get_table("db.t").new_read_builder().with_columns(["id"]), spark
    )
    assert frame._jdf.rdd().getNumPartitions() <= 2  # buckets
    assert read._jdf.rdd().getNumPartitions() <= 2


def test_equal_claimed_sizes_join_as_two_reads(spark, new_catalog):
    """The payloads of tasks are cached for the second read; the columns are not."""
    one = merged_frame(spark, new_catalog, "t", MANY)
    again = tables.to_spark(new_catalog.get_table("db.t").new_read_builder(), spark)
    assert size_estimate(one) == size_estimate(again)
    both = one.join(again, one["id"] == again["id"] + 1)
    assert both.select(one["id"], again["id"].alias("before")).where("before < 3").count() == 3
    assert both.count() == MANY - 1
