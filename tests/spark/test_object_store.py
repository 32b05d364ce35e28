"""A warehouse on an S3 server: tasks read and write it themselves, without Hadoop's S3 classes."""

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as papq
import pytest

from paimon_assets.engine.spec.schema.schema import Schema
from tests.testkit.asset_tables import failure_text, run
from tests.testkit.s3_server import BUCKET, boto3_client, s3_server

assets = pytest.importorskip("paimon_assets.assets")
executors = pytest.importorskip("paimon_assets.spark.executor")
data_source = pytest.importorskip("paimon_assets.spark.data_source")
tables = pytest.importorskip("paimon_assets.spark.dataframes.tables")

pytestmark = pytest.mark.spark

WAREHOUSE = f"s3://{BUCKET}/warehouse"
KEYED = Schema.of({"id": "BIGINT", "what": "STRING"}, primary_keys=["id"], options={"bucket": "2"})


@pytest.fixture(scope="module")
def options():
    with s3_server() as found:
        yield found


def _land(options: dict[str, str], name: str, first: int, count: int) -> None:
    rows = pa.table({"id": range(first, first + count), "what": [name] * count})
    file = io.BytesIO()
    papq.write_table(rows, file)
    body = file.getvalue()
    boto3_client(options).put_object(Bucket=BUCKET, Key=f"landing/{name}.parquet", Body=body)


def _counts(frame: Any) -> dict[str, int]:
    return {row["what"]: row["count"] for row in frame.groupBy("what").count().collect()}


@pytest.mark.filterwarnings("ignore:InitResourceContext.dagster_run:DeprecationWarning")
def test_files_are_ingested_merged_and_compacted(spark, options):
    on_spark = assets.PaimonSparkResource(master="local[2]")
    lake = assets.PaimonCatalogResource(warehouse=WAREHOUSE, options=options, spark=on_spark)
    source = assets.FileSource(folder=f"s3://{BUCKET}/landing")
    events = assets.build_file_ingestion_asset("log.events", KEYED, source=source)
    for name, first, count in (("a", 0, 3000), ("b", 1000, 1000), ("c", 2500, 1000)):
        _land(options, name, first, count)
        result = run(events, lake)
        assert result.success, failure_text(result)
    table = lake.catalog().get_table("log.events")
    expected = {"a": 1500, "b": 1000, "c": 1000}
    read = table.new_read_builder()
    assert _counts(tables.to_spark(read, spark)) == expected
    table.new_compaction_builder().with_strategy("full").run(executors.SparkExecutor(spark))
    assert table.latest_snapshot().commit_kind == "COMPACT"
    assert _counts(tables.to_spark(read, spark)) == expected
    data_source.register(spark, warehouse=WAREHOUSE, options=options)
    try:
        frame = spark.read.format("paimon_assets").option("table", "log.events").load()
        assert _counts(frame) == expected
    finally:
        data_source.register(spark)


def test_append_needs_no_hadoop_file_system(spark, options):
    catalog = assets.PaimonCatalogResource(warehouse=WAREHOUSE, options=options).catalog()
    catalog.create_database("plain", ignore_if_exists=True)
    table = catalog.create_table("plain.t", Schema.of({"id": "BIGINT NOT NULL"}))
    assert tables.write_dataframe(table, spark.range(5000)).snapshot.total_record_count == 5000
    assert tables.to_spark(table.new_read_builder(), spark).count() == 5000
    with pytest.raises(Exception, match="S3AFileSystem"):
        spark.read.parquet(f"s3a://{BUCKET}/warehouse/plain.db/t/bucket-0").count()
