"""Calls that provoke the refusals of `docs/supported.md` on Spark, without a session."""

import importlib

import pyarrow as pa
import pytest

from tests.testkit.tables import table_schema


def write(at):
    source = pytest.importorskip("paimon_assets.spark.data_source")
    location = importlib.import_module("paimon_assets.spark.table_location").Location
    table = at.table(primary_keys=["k"])
    source.TableWriter.of(location(options={"path": table.path}), None, overwrite=False)


def create(_at):
    location = pytest.importorskip("paimon_assets.spark.table_location").Location
    location.of({"provider": "paimon_assets", "table": "db.t"}, {})


def stream_of_buckets(at):
    _stream({"path": at.table(primary_keys=["k"]).path, "checkpointlocation": str(at.path)})


def _stream(options):
    source = pytest.importorskip("paimon_assets.spark.data_source")
    failure = importlib.import_module("paimon_assets.spark.failure")
    with pytest.raises(failure.WorkerError) as caught:
        source.PaimonDataSource(options).streamWriter(None, overwrite=False)
    raise failure.error_inside(caught.value)


def time(at):
    types = pytest.importorskip("paimon_assets.spark.types")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(types, "_TIME", None)
        types.to_spark_schema(table_schema({"t": "TIME"}).fields)


def nanoseconds(_at):
    types = pytest.importorskip("paimon_assets.spark.types")
    batch = pa.RecordBatch.from_pydict({"t": pa.array([1], pa.timestamp("ns"))})
    types.to_spark_batch(batch, pa.schema({"t": pa.timestamp("us")}))


def stream_without_checkpoint(at):
    """Write a stream without a checkpoint."""
    _stream({"path": at.table().path})
