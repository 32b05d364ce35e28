"""Small batches of a stream are told apart, and written without a shuffle to the same rows."""

import pytest

from paimon_assets.engine.spec.schema.schema import Schema

streaming = pytest.importorskip("paimon_assets.spark.dataframes.tables")
micro_batch = pytest.importorskip("paimon_assets.spark.shortcuts.micro_batch")

pytestmark = pytest.mark.spark

SCHEMA = "id bigint, p string, n bigint"
COLUMNS = {"id": "BIGINT", "p": "STRING", "n": "BIGINT"}


def run(spark, home, sink):
    """Run a query over one file of a hundred rows, twenty keys, the last of each the newest."""
    rows = spark.range(0, 100, 1, 1).selectExpr("id % 20 as id", "string(id % 2) as p", "id as n")
    rows.write.mode("overwrite").parquet(str(home / "in"))
    source = spark.readStream.schema(SCHEMA).parquet(str(home / "in"))
    query = (
        source.writeStream.foreachBatch(sink)
        .option("checkpointLocation", str(home / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def test_which_batches_are_small(spark, tmp_path, monkeypatch):
    found = {}

    def sink(batch, _number):
        narrow = batch.where("n > 3").selectExpr("id", "n + 1 as n")
        frames = {
            "as it came": batch,
            "narrow": narrow,
            "of two tasks": batch.repartition(2),
            "grouped": batch.groupBy("id").count(),
        }
        found.update({name: micro_batch.is_small_batch(f, tasks=4) for name, f in frames.items()})
        monkeypatch.setattr(micro_batch, "_SMALL_BYTES", 1)
        found["large"] = micro_batch.is_small_batch(batch, tasks=4)
        found["large, of one task"] = micro_batch.is_small_batch(batch, tasks=1)

    run(spark, tmp_path, sink)
    assert found == {
        "as it came": True,
        "narrow": True,
        "of two tasks": False,
        "grouped": False,
        "large": False,
        "large, of one task": True,
    }


def test_what_is_no_batch_of_a_stream_is_not_small(spark):
    assert not micro_batch.is_small_batch(spark.range(3), tasks=1)
    assert not micro_batch.is_small_batch(object(), tasks=1)


@pytest.mark.parametrize(
    ("keys", "partitions", "bucket"),
    [(["id"], [], "1"), (["p", "id"], ["p"], "2"), (["id"], [], "-1"), (["id"], ["p"], "-1")],
    ids=["one bucket", "partitions", "dynamic", "crossing partitions"],
)
def test_a_small_batch_is_written_as_any_other(
    spark, new_catalog, tmp_path, monkeypatch, keys, partitions, bucket
):
    schema = Schema.of(
        COLUMNS, primary_keys=keys, partition_keys=partitions, options={"bucket": bucket}
    )
    table = new_catalog.create_table("db.t", schema)
    asked = []
    executor = pytest.importorskip("paimon_assets.spark.executor")
    monkeypatch.setattr(
        executor,
        "is_small_batch",
        lambda *frame, **how: asked.append(micro_batch.is_small_batch(*frame, **how)) or asked[-1],
    )
    run(spark, tmp_path, streaming.streaming_sink(table))
    assert asked == [True]
    rows = table.new_read_builder().to_arrow().to_pylist()
    assert sorted((row["id"], row["n"]) for row in rows) == [(n, 80 + n) for n in range(20)]
    for entry in table.state.live_files():
        assert entry.file.row_count > 0
