from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_assets.spark.shuffle import partition_slots, spark_hash, task_of, write_tasks

COUNTS = st.integers(1, 300)


@given(COUNTS)
def test_every_slot_hashes_to_its_own_partition(count):
    slots = np.array(partition_slots(count), dtype=np.int32)
    assert (spark_hash(slots).astype(np.int64) % count).tolist() == list(range(count))


@pytest.mark.spark
@pytest.mark.parametrize("count", [1, 2, 3, 8, 31])
def test_spark_sends_every_slot_to_its_own_partition(spark, count):
    functions = pytest.importorskip("pyspark.sql.functions")
    frame = spark.createDataFrame([(slot,) for slot in partition_slots(count)], "slot int")
    placed = frame.repartition(count, "slot").select(
        "slot", functions.spark_partition_id().alias("p")
    )
    found = {row.slot: row.p for row in placed.collect()}
    assert [found[slot] for slot in partition_slots(count)] == list(range(count))


@pytest.mark.spark
def test_our_hash_is_sparks(spark):
    values = [0, 1, -1, 42, 2**31 - 1, -(2**31)]
    frame = spark.createDataFrame([(value,) for value in values], "value int")
    expected = [row[0] for row in frame.selectExpr("hash(value)").collect()]
    assert spark_hash(np.array(values, dtype=np.int32)).tolist() == expected


@given(st.integers(1, 500), st.integers(1, 64), st.booleans())
def test_there_are_never_many_more_tasks_than_cores_or_buckets(buckets, parallelism, partitioned):
    tasks = write_tasks(buckets, parallelism=parallelism, partitioned=partitioned)
    assert 1 <= tasks <= max(4 * parallelism, 2 * parallelism + buckets)
    if not partitioned:
        assert tasks <= buckets


@given(st.integers(1, 64), st.integers(1, 16), st.binary(max_size=24))
def test_the_buckets_of_a_partition_spread_evenly(buckets, parallelism, partition):
    tasks = write_tasks(buckets, parallelism=parallelism, partitioned=True)
    owners = Counter(
        task_of(partition, bucket, buckets=buckets, tasks=tasks) for bucket in range(buckets)
    )
    assert set(owners) <= set(range(tasks))
    assert max(owners.values()) - min(owners.values()) <= 1
    assert len(owners) == min(buckets, tasks)


def test_many_partitions_of_one_bucket_use_every_task():
    tasks = write_tasks(1, parallelism=4, partitioned=True)
    owners = {task_of(bytes([n, 0, 1, n]), 0, buckets=1, tasks=tasks) for n in range(100)}
    assert owners == set(range(8))
