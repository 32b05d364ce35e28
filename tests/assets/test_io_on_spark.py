"""The IO manager on Spark: frames in and out, and rows outside the partition of the run."""

from typing import Any

import dagster as dg
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from paimon_assets import assets
from paimon_assets.engine.spec.schema.schema import Schema
from tests.testkit.asset_tables import failure_text, rows_of
from tests.testkit.io_manager_runs import io_run

pytestmark = pytest.mark.spark

SPARK = assets.PaimonSparkResource(master="local[2]", extra={"spark.sql.shuffle.partitions": "2"})
KEY = dg.AssetKey(["log", "events"])
SCHEMA = Schema.of({"p": "STRING", "n": "INT"}, partition_keys=["p"])
SHOPS = dg.StaticPartitionsDefinition(["it's", "y"])


@pytest.fixture
def lake(warehouse: str, spark: SparkSession) -> assets.PaimonCatalogResource:
    """The catalog on Spark; the session was there before and is not the resource's to stop."""
    assert spark.range(1).count() == 1
    return assets.PaimonCatalogResource(warehouse=warehouse, spark=SPARK)


def events(
    spark: SparkSession, values: list[tuple[str | None, int]], **options: Any
) -> dg.AssetsDefinition:
    @dg.asset(
        key=KEY,
        partitions_def=SHOPS,
        metadata=assets.paimon_output(schema=SCHEMA, partition_column="p", **options),
    )
    def table() -> Any:
        return spark.createDataFrame(values, "p string, n int")

    return table


def test_spark_frames_are_written_and_read(
    lake: assets.PaimonCatalogResource, spark: SparkSession
) -> None:
    seen: list[list[int]] = []

    @dg.asset(
        ins={"table": dg.AssetIn(KEY, metadata=assets.paimon_input(columns=["n"], where="n > 1"))},
        partitions_def=SHOPS,
    )
    def of_spark(table: DataFrame) -> dg.MaterializeResult[Any]:
        seen.append(sorted(row.n for row in table.collect()))
        return dg.MaterializeResult()

    def put(*numbers: int) -> dg.ExecuteInProcessResult:
        written = events(spark, [("it's", number) for number in numbers])
        result = io_run([written, of_spark], lake, partition_key="it's")
        assert result.success, failure_text(result)
        return result

    put(9)
    result = put(1, 2, 3)
    assert seen == [[9], [2, 3]]
    [event] = [e for e in result.get_asset_materialization_events() if e.asset_key == KEY]
    assert event.materialization.metadata["dagster/partition_row_count"].value == 3


@pytest.mark.parametrize("mode", ["append", "overwrite", "overwrite_partitions"])
def test_rows_outside_partition_are_refused(
    mode: str, lake: assets.PaimonCatalogResource, spark: SparkSession
) -> None:
    for outside in ("x", None):
        asset = events(spark, [("y", 1), (outside, 2)], mode=mode)
        text = failure_text(io_run(asset, lake, partition_key="y"))
        assert "partition" in text
        assert "log.events" in text
    assert lake.catalog().get_table("log.events").latest_snapshot() is None


def test_table_is_inferred_from_spark_frame(
    lake: assets.PaimonCatalogResource, spark: SparkSession
) -> None:
    @dg.asset(key=KEY)
    def table() -> Any:
        return spark.createDataFrame([(1, "a")], "id bigint, v string")

    @dg.asset(ins={"table": dg.AssetIn(KEY)})
    def copy(table: pa.Table) -> pa.Table:
        return table

    result = io_run([table, copy], lake)
    assert result.success, failure_text(result)
    assert rows_of(lake.catalog().get_table("default.copy")) == [{"id": 1, "v": "a"}]


def test_nested_columns_are_read(lake: assets.PaimonCatalogResource, spark: SparkSession) -> None:
    @dg.asset(key=["shop", "nested"])
    def table() -> Any:
        return spark.sql("SELECT 1 AS id, named_struct('a', 7, 'b', named_struct('c', 'x')) AS n")

    seen: list[Any] = []
    columns = assets.paimon_input(columns=["n.b.c", "id"])

    @dg.asset(ins={"table": dg.AssetIn(["shop", "nested"], metadata=columns)})
    def reader(table: DataFrame) -> None:
        seen.extend(row.asDict() for row in table.collect())

    result = io_run([table, reader], lake)
    assert result.success, failure_text(result)
    assert seen == [{"n.b.c": "x", "id": 1}]


def test_rows_are_deleted(lake: assets.PaimonCatalogResource, spark: SparkSession) -> None:
    def table(values: list[tuple[int, str]], mode: str) -> dg.AssetsDefinition:
        @dg.asset(key=["shop", "rows"], metadata=assets.paimon_output(mode=mode))
        def rows() -> Any:
            return spark.createDataFrame(values, "id int, v string")

        return rows

    for values, mode in (([(1, "a"), (2, "b")], "append"), ([(2, "b"), (2, "b")], "delete")):
        result = io_run(table(values, mode), lake)
        assert result.success, failure_text(result)
    assert rows_of(lake.catalog().get_table("shop.rows")) == [{"id": 1, "v": "a"}]
