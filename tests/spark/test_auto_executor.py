"""AutoExecutor: Spark for its own frames and large inputs, else this process."""

import pyarrow as pa
import pytest

from paimon_assets import Schema, executors, open_catalog
from paimon_assets.executors import AutoExecutor, new_executor

pytestmark = pytest.mark.spark

ROWS = pa.table({"id": pa.array(range(100), pa.int64())})


@pytest.fixture
def table(tmp_path):
    catalog = open_catalog(str(tmp_path))
    catalog.create_database("db")
    schema = Schema.of(ROWS.schema, primary_keys="id", options={"bucket": 2})
    return catalog.create_table("db.t", schema)


def no_session():
    raise AssertionError("Spark was started")


def test_small_inputs_stay_in_this_process(table):
    executor = new_executor("auto", no_session)
    assert isinstance(executor, AutoExecutor)
    table.upsert(ROWS, executor=executor)
    table.upsert(ROWS, executor=executor)
    read = table.scan()
    assert read.to_arrow(executor).num_rows == read.count(executor) == 100
    assert table.compact(full=True, executor=executor).snapshot is not None
    table.rescale(executor, buckets=4)
    assert table.delete("id < 10", executor).rows_matched == 10


def test_large_inputs_and_dataframes_go_to_spark(table, spark, monkeypatch):
    sessions = []

    def session():
        sessions.append(spark)
        return spark

    executor = new_executor("auto", session)
    table.upsert(spark.createDataFrame(ROWS.to_pandas()), executor=executor)
    assert sessions
    table.upsert(ROWS, executor=executor)
    monkeypatch.setattr(executors, "SPARK_FROM_BYTES", 1)
    sessions.clear()
    read = table.scan()
    assert read.to_arrow(executor).num_rows == read.count(executor) == 100
    assert table.compact(full=True, executor=executor).snapshot is not None
    table.rescale(executor, buckets=4)
    assert len(sessions) >= 4
    assert table.count() == 100
