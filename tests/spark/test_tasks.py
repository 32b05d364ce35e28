"""How rows are packed for tasks, and which task gets which bucket or job; no session."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_assets.engine.contract.executor import TaskBatch
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.fileio.base import FileIOSpec
from paimon_assets.spark import packing
from paimon_assets.spark.shuffle import partition_slots, spark_hash, task_of, write_tasks


def numbered_batch(positions):
    values = [f"row {position}" for position in positions]
    return pa.RecordBatch.from_pydict(
        {"value": values, packing.POSITION_COLUMN: pa.array(positions, pa.int64())}
    )


def test_packed_batch_is_equal_with_any_type():
    batch = pa.RecordBatch.from_pydict(
        {
            "nanos": pa.array([1, None], pa.timestamp("ns")),
            "time": pa.array([1, None], pa.time32("ms")),
            "nested": [{"a": [1, 2]}, None],
        }
    )
    assert packing.unpack(packing.pack(batch), batch.schema).equals(batch)
    assert packing.unpack(packing.pack(batch.slice(1)), batch.schema).equals(batch.slice(1))


@given(st.integers(0, 300), st.integers(1, 500))
def test_pieces_join_to_batch_and_keep_limit(rows, limit):
    batch = pa.RecordBatch.from_pydict({"n": pa.array(range(rows), pa.int64())})
    cut = list(packing.pieces(batch, limit))
    assert [n for piece in cut for n in piece["n"].to_pylist()] == list(range(rows))
    assert all(piece.nbytes <= max(limit, 8) + 8 for piece in cut)


@given(st.lists(st.integers(0, 50), max_size=20), st.integers(1, 400))
def test_chunks_keep_every_batch_in_order(sizes, limit):
    batches = [pa.RecordBatch.from_pydict({"n": pa.array([n] * n, pa.int64())}) for n in sizes]
    collected = list(packing.chunks(batches, limit))
    assert [batch.num_rows for chunk in collected for batch in chunk] == sizes
    assert all(sum(batch.nbytes for batch in chunk[:-1]) < limit for chunk in collected)


@given(st.lists(st.lists(st.integers(0, 60), min_size=1, max_size=12), max_size=12))
def test_rows_are_ordered_by_position_over_batches(groups):
    batches = [numbered_batch(sorted(group)) for group in groups]
    packed = sorted(
        (
            packing.Packed(int(batch[packing.POSITION_COLUMN][0].as_py()), batch)
            for batch in batches
        ),
        key=lambda piece: piece.position,
    )
    merged = [
        value for batch in packing.in_position_order(packed) for value in batch["value"].to_pylist()
    ]
    assert merged == [f"row {n}" for n in sorted(n for group in groups for n in group)]


def test_batches_that_do_not_overlap_pass_without_copy():
    first, second = numbered_batch([1, 2]), numbered_batch([3, 4])
    merged = list(packing.in_position_order([packing.Packed(1, first), packing.Packed(3, second)]))
    assert [batch["value"].buffers()[2].address for batch in merged] == [
        batch["value"].buffers()[2].address for batch in (first, second)
    ]


@pytest.mark.way_out("row-position")
def test_row_without_position_is_refused():
    batch = pa.RecordBatch.from_pydict({packing.POSITION_COLUMN: pa.array([1, None], pa.int64())})
    with pytest.raises(InvalidInputError) as caught:
        packing.take_positions(batch)
    assert caught.value.kind == "row-position"
    assert packing.take_positions(batch.slice(0, 1))


def test_positions_are_split_off():
    rest, positions = packing.take_positions(numbered_batch([5, 7]))
    assert rest.schema.names == ["value"]
    assert positions.dtype == np.int64
    assert positions.tolist() == [5, 7]


def test_dictionaries_become_plain_columns():
    schema = pa.schema([("a", pa.dictionary(pa.int8(), pa.string())), ("b", pa.int8())])
    assert packing.without_dictionaries(schema).types == [pa.string(), pa.int8()]


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
def test_tasks_are_bounded_by_cores_and_buckets(buckets, parallelism, partitioned):
    tasks = write_tasks(buckets, parallelism=parallelism, partitioned=partitioned)
    assert 1 <= tasks <= max(4 * parallelism, 2 * parallelism + buckets)
    if not partitioned:
        assert tasks <= buckets


@given(st.integers(1, 64), st.integers(1, 16), st.binary(max_size=24))
def test_buckets_of_partition_spread_evenly(buckets, parallelism, partition):
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


jobs_of = pytest.importorskip("paimon_assets.spark.task_jobs")._jobs
MEGABYTE = 1 << 20


def batch(*weights, count=None, parallelism=None):
    return TaskBatch(
        name="t",
        payloads=(b"",) * (len(weights) if count is None else count),
        weights=weights,
        parallelism=parallelism,
        file_io=FileIOSpec(scheme="file"),
    )


@pytest.mark.parametrize(
    ("tasks", "expected"),
    [
        (batch(*[MEGABYTE] * 8), 2),
        (batch(*[40 * MEGABYTE] * 4), 4),
        (batch(*[400 * MEGABYTE] * 40), 8),
        (batch(MEGABYTE), 1),
        (batch(count=40), 8),
    ],
)
def test_small_tasks_share_job(tasks, expected):
    jobs = jobs_of(tasks, 2)
    assert len(jobs) == expected
    assert sorted(number for job in jobs for number in job) == list(range(len(tasks.payloads)))


@pytest.mark.parametrize(("parallelism", "cores", "expected"), [(None, 4, 4), (2, 4, 2), (9, 4, 4)])
def test_batch_limits_concurrent_tasks(parallelism, cores, expected):
    assert batch(count=3, parallelism=parallelism).at_a_time(cores) == expected
