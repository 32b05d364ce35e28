"""The asset layer on Spark: the same rows, metadata and checks as in this process."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import dagster as dg
import pandera.pyarrow as pap
import pyarrow as pa
import pyarrow.parquet as papq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from paimon_assets import EmbeddedExecutor, Schema, assets
from paimon_assets.assets.jobs.compaction import StrategyChoice
from paimon_assets.columns import column_asset
from paimon_assets.engine.control.maintenance.orphan_files import staged_names
from tests.testkit.asset_tables import (
    PLANES,
    data_version_of,
    failure_text,
    metadata_of,
    planes,
    rows_of,
    run,
)
from tests.testkit.job_names import names_of_jobs

pytestmark = pytest.mark.spark

SPARK = assets.PaimonSparkResource(master="local[2]", extra={"spark.sql.shuffle.partitions": "2"})
ON_SPARK = assets.CheckOptions(executor="spark")
AUDIT_ON_SPARK = assets.CheckOptions(executor="spark", blocking=True)


LIFECYCLE = """
from pyspark.sql import SparkSession
from paimon_assets.assets import PaimonSparkResource

first, second = PaimonSparkResource(master="local[1]"), PaimonSparkResource(master="local[1]")
assert SparkSession.getActiveSession() is None, "started at first use only"
assert first.session() is second.session()
first.stop()
assert second.session().range(2).count() == 2, "the second resource uses it"
wrapped = second.as_dagster_pyspark()
assert wrapped.spark_session is second.session(), "dagster-pyspark takes the same session"
second.stop()
assert SparkSession.getActiveSession() is None, "stopped with its last user"
"""


@pytest.fixture
def lake(warehouse: str, spark: SparkSession) -> assets.PaimonCatalogResource:
    """The catalog on Spark; the session was there before and is not the resource's to stop."""
    assert spark.range(1).count() == 1
    return assets.PaimonCatalogResource(warehouse=warehouse, spark=SPARK)


def test_spark_frame_is_audited_before_it_is_committed(
    lake: assets.PaimonCatalogResource, spark: SparkSession
) -> None:
    frames = [planes(("N1", 1, None)), planes(("N2", -1, None))]
    seats = pap.DataFrameSchema({"seats": pap.Column(pa.int32(), pap.Check.gt(0))})
    audit = assets.build_pandera_checks(None, seats, when="before_commit", options=AUDIT_ON_SPARK)

    @assets.paimon_asset("air.planes", PLANES, before_commit=audit)
    def some_planes() -> Any:
        return spark.createDataFrame(frames.pop(0))

    assert run(some_planes, lake).success
    refused = run(some_planes, lake)
    assert "1 of 1 row of the batch failed greater_than(0)" in failure_text(refused)
    table = lake.catalog().get_table("air.planes")
    assert [row["tailnum"] for row in rows_of(table)] == ["N1"]
    branch = table.at_branch(*staged_names(table.branches.list()))
    assert [row["tailnum"] for row in rows_of(branch)] == ["N2"]


def test_frames_are_written_and_checked_by_spark(
    lake: assets.PaimonCatalogResource, spark: SparkSession
) -> None:
    first = planes(("N1", 1, "jet"), ("N2", 2, None))

    @assets.paimon_asset("air.planes", PLANES)
    def some_planes(paimon: assets.PaimonCatalogResource) -> Any:
        return paimon.spark.spark_session.createDataFrame(first)

    @assets.paimon_asset(
        "air.seats", Schema.of({"tailnum": "STRING", "seats": "INT"}), deps=[some_planes]
    )
    def seats(paimon: assets.PaimonCatalogResource) -> Any:
        read = paimon.catalog().get_table("air.planes").new_read_builder()
        return paimon.spark_dataframe(read.with_columns(["tailnum", "seats"]))

    checks = [
        assets.build_row_count_check(some_planes, 2, options=ON_SPARK),
        assets.build_unique_key_check(some_planes, options=ON_SPARK),
    ]
    result = run([some_planes, seats, *checks], lake)
    assert result.success, failure_text(result)
    assert [evaluation.passed for evaluation in result.get_asset_check_evaluations()] == [True] * 2
    shown = metadata_of(result, some_planes.key)
    assert (shown["paimon/rows_in"], shown["dagster/row_count"]) == (2, 2)
    assert data_version_of(result, seats.key).startswith("1-")
    written = lake.catalog().get_table("air.seats")
    assert rows_of(written) == first.select(["tailnum", "seats"]).to_pylist()
    run_name = f"Dagster run {result.run_id[:8]}"
    assert {f"write air.planes, {run_name}", f"write air.seats, {run_name}"} <= {
        *names_of_jobs(spark)
    }
    assert spark.range(1).count() == 1, "the session is not ours to stop"


def test_duplicates_are_found_by_spark(lake: assets.PaimonCatalogResource) -> None:
    @assets.paimon_asset("air.pairs", Schema.of({"a": "INT", "b": "STRING"}))
    def pairs() -> pa.Table:
        return pa.table({"a": pa.array([1, 1, 2], pa.int32()), "b": ["x", "x", None]})

    result = run([pairs, assets.build_unique_key_check(pairs, ["a", "b"], options=ON_SPARK)], lake)
    [evaluation] = result.get_asset_check_evaluations()
    found = {name: value.value for name, value in evaluation.metadata.items()}
    assert (found["paimon/rows"], found["paimon/duplicate_keys"]) == (3, 1)
    assert found["paimon/rows_with_duplicate_keys"] == 2
    records = evaluation.metadata["paimon/examples"]
    assert isinstance(records, dg.TableMetadataValue)
    assert dict(records.records[0].data) == {"a": 1, "b": "x", "rows": 2}


def test_files_are_ingested_by_spark_in_path_order(
    lake: assets.PaimonCatalogResource, landing: Path
) -> None:
    folder = landing
    for number, name in enumerate(["a", "b", "c"]):
        rows = pa.table({"id": pa.array([1], pa.int64()), "what": [f"state {number}"]})
        papq.write_table(rows, folder / f"{name}.parquet")
    schema = Schema.of(
        {"id": "BIGINT", "what": "STRING"}, primary_keys=["id"], options={"bucket": "2"}
    )
    asset = assets.build_file_ingestion_asset(
        "log.events", schema, source=assets.FileSource(folder=str(folder))
    )
    result = run(asset, lake)
    assert result.success, failure_text(result)
    assert rows_of(lake.catalog().get_table("log.events")) == [{"id": 1, "what": "state 2"}]
    again = run(asset, lake)
    assert metadata_of(again, asset.key)["paimon/files_ingested"] == 0


def test_spark_frame_is_refused_by_embedded_executor(lake: assets.PaimonCatalogResource) -> None:
    @assets.paimon_asset("air.planes", PLANES, executor="embedded")
    def some_planes(paimon: assets.PaimonCatalogResource) -> Any:
        return paimon.spark.session().createDataFrame(planes(("N1", 1, "jet")))

    assert "Choose the Spark executor (executor='spark'" in failure_text(run(some_planes, lake))


def test_rows_outside_partition_are_refused_on_spark(lake: assets.PaimonCatalogResource) -> None:
    keys = dg.StaticPartitionsDefinition(["jet", "prop"])

    @assets.paimon_asset("air.planes", PLANES, partitions_def=keys, partition_column="engine")
    def some_planes(paimon: assets.PaimonCatalogResource) -> Any:
        rows = planes(("N1", 1, "jet"), ("N2", 2, None))
        return paimon.spark.session().createDataFrame(rows)

    text = failure_text(run(some_planes, lake, partition_key="jet"))
    assert "column 'engine' holds null" in text


def test_running_session_with_other_settings_is_refused(
    warehouse: str, spark: SparkSession
) -> None:
    other = assets.PaimonSparkResource(master="local[2]", driver_memory="765m")
    lake = assets.PaimonCatalogResource(warehouse=warehouse, executor="spark", spark=other)

    @assets.paimon_asset("air.planes", PLANES)
    def some_planes() -> pa.Table:
        return planes(("N1", 1, None))

    text = failure_text(run(some_planes, lake))
    assert "already running with other settings" in text
    assert spark.range(1).count() == 1


def test_session_of_resource_stops_with_its_last_user() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LIFECYCLE], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr


def test_tables_are_compacted_by_spark(lake: assets.PaimonCatalogResource) -> None:
    catalog = lake.catalog()
    catalog.create_database("air")
    table = catalog.create_table("air.planes", PLANES)
    for seats in range(3):
        rows = planes(("N1", seats, None), ("N2", seats, "jet"))
        table.new_write_builder().write(rows, EmbeddedExecutor())
    before = rows_of(table)
    form = assets.CompactionConfig(tables=["air.planes"], strategy=StrategyChoice.full)
    result = assets.build_compaction_job().execute_in_process(
        run_config=dg.RunConfig(ops={"compact": form}), resources={"paimon": lake}
    )
    assert result.success
    assert {entry.file.level for entry in table.state.live_files()} == {5}
    assert rows_of(table) == before


def test_columns_are_computed_by_spark(lake, spark) -> None:
    options = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
    columns = {"id": "INT", "amount": "DOUBLE", "at": "TIMESTAMP(3)"}
    lake.catalog().create_database("shop")
    table = lake.catalog().create_table("shop.orders", Schema.of(columns, options=options))
    rows = pa.table(
        {
            "id": pa.array(range(6), "int32"),
            "amount": [1.5 * n for n in range(6)],
            "at": pa.array(range(6), pa.timestamp("ms")),
        }
    )
    table.append(rows.slice(0, 3))
    table.append(rows.slice(3))
    keeps = [True]

    def score(rows: DataFrame) -> DataFrame:
        made = rows.withColumn("score", sf.col("amount") * 2)
        return made if keeps[0] else made.select("score")

    asset = column_asset("shop.orders", {"score": "DOUBLE"}, reads=["amount", "at"])(score)
    key = dg.AssetKey(["shop", "orders", "score"])
    result = run(asset, lake)
    assert metadata_of(result, key)["paimon/rows_written"] == 6
    table = table.refresh()
    assert dict(zip(*table.to_arrow(["id", "score"]).to_pydict().values(), strict=True)) == {
        n: 3.0 * n for n in range(6)
    }
    assert metadata_of(run(asset, lake), key)["paimon/rows_written"] == 0
    in_process = table.new_column_write_builder(["score"], reads=["amount", "at"])
    assert in_process.rows_behind().behind == 0, "the embedded executor agrees"
    table.new_row_change_builder().update({"amount": 10.0}, "id = 4")
    keeps[0] = False
    assert "Return all columns it was given" in failure_text(run(asset, lake))
    keeps[0] = True
    written = metadata_of(run(asset, lake), key)["paimon/rows_written"]
    assert written == 3
    assert table.refresh().to_arrow(["score"], where="id = 4").to_pydict() == {"score": [20.0]}
