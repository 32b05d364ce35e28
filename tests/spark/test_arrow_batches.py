"""The batches in which Spark hands rows to Python, by the types of the rows."""

import pyarrow as pa
import pytest

functions = pytest.importorskip("pyspark.sql.functions")
arrow_batches = pytest.importorskip("paimon_assets.spark.arrow_batches")
packing = pytest.importorskip("paimon_assets.spark.packing")

BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
MEGABYTE = 1024 * 1024


def batch_sizes(frame):
    """Return (rows, bytes) of each batch."""

    def measure(batches):
        for batch in batches:
            yield pa.RecordBatch.from_pydict({"rows": [batch.num_rows], "bytes": [batch.nbytes]})

    with arrow_batches.sized_batches(frame.sparkSession, frame.schema):
        return [
            tuple(row) for row in frame.mapInArrow(measure, "rows bigint, bytes bigint").collect()
        ]


def test_rows_of_numbers_and_texts_are_counted(spark):
    rows = spark.range(0, 9000, 1, 1).withColumn("text", functions.lit("x" * 20_000))
    assert [count for count, _ in batch_sizes(rows)] == [4096, 4096, 808]


def test_large_rows_are_measured(spark):
    large = functions.repeat(functions.lit("x"), MEGABYTE).cast("binary")
    sizes = batch_sizes(spark.range(0, 100, 1, 1).withColumn("data", large))
    assert sum(count for count, _ in sizes) == 100
    assert max(size for _, size in sizes) < 70 * MEGABYTE


@pytest.mark.parametrize(("key", "value"), [(BYTES, str(MEGABYTE)), (ROWS, "100")])
def test_smaller_setting_of_session_stays(spark, key, value):
    before = spark.conf.get(key)
    spark.conf.set(key, value)
    try:
        sizes = batch_sizes(
            spark.range(0, 1000, 1, 1).withColumn("text", functions.lit("x" * 5000))
        )
        assert spark.conf.get(key) == value
    finally:
        spark.conf.set(key, before)
    assert max(count for count, _ in sizes) < 300


def test_settings_are_restored_after_job(spark):
    before = spark.conf.get(BYTES), spark.conf.get(ROWS)
    with arrow_batches.sized_batches(spark, spark.range(1).schema):
        assert (spark.conf.get(BYTES), spark.conf.get(ROWS)) == (str(2**31 - 1), "4096")
    assert (spark.conf.get(BYTES), spark.conf.get(ROWS)) == before == (str(64 * MEGABYTE), "65536")


def test_large_rows_are_measured_beside_other_jobs(spark):
    large = spark.range(1).selectExpr("array(id) AS ids").schema
    sized = arrow_batches.sized_batches
    with sized(spark, spark.range(1).schema), sized(spark, large):
        assert spark.conf.get(BYTES) == arrow_batches.MOST_BATCH_BYTES
    assert spark.conf.get(BYTES) == arrow_batches.MOST_BATCH_BYTES


def test_rows_for_writers_come_in_small_pieces():
    batch = pa.RecordBatch.from_pydict({"text": ["x" * 1000] * 1000})
    sizes = [len(packing.pack(piece)) for piece in packing.pieces(batch)]
    assert len(sizes) > 10
    assert max(sizes) < 2 * packing.PACKED_BYTES


@pytest.mark.parametrize("limit", [1, 30, 10**9])
def test_pieces_are_joined_in_order(limit):
    batches = [pa.RecordBatch.from_pydict({"n": [10 * k, 10 * k + 1]}) for k in range(5)]
    packed = [packing.Packed(10 * k, batch) for k, batch in enumerate(batches)]
    joined = list(packing.join_pieces(packed, limit))
    assert [n for each in joined for n in each.batch["n"].to_pylist()] == [
        n for batch in batches for n in batch["n"].to_pylist()
    ]
    assert [each.position for each in joined] == [each.batch["n"][0].as_py() for each in joined]
    assert len(joined) == {1: 5, 30: 3, 10**9: 1}[limit]
