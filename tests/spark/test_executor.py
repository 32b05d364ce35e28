"""Risks of Spark alone: order after a shuffle, tasks, types, failures."""

import datetime as dt
import random
from itertools import chain, pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_assets import open_catalog
from paimon_assets.engine import executors
from paimon_assets.engine.contract.split import DataSplit
from paimon_assets.engine.contract.wire import dump
from paimon_assets.engine.embedded import EmbeddedExecutor
from paimon_assets.engine.errors import InvalidInputError, NotFoundError
from paimon_assets.engine.executors import AutoExecutor, new_executor
from paimon_assets.engine.spec.evolution.schema_change import add_column
from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.table.api import TableCatalog
from paimon_assets.engine.table.read.where import parse_expression
from tests.testkit.builders import data_file
from tests.testkit.key_shapes import NAMES, SHAPES, drawn_rows, merge_rows
from tests.testkit.rows import plain_rows, rows_to_arrow
from tests.testkit.served_catalog import Answer, ServedCatalog
from tests.testkit.spark_settings import session_with
from tests.testkit.tables import new_table

executor_module = pytest.importorskip("paimon_assets.spark.executor")
split_tasks = pytest.importorskip("paimon_assets.spark.python_rows")
fn = pytest.importorskip("pyspark.sql.functions")
PySparkException = pytest.importorskip("pyspark.errors").PySparkException
NATIVE_READ = pytest.importorskip("paimon_assets.spark.shortcuts.native_read.scans").NATIVE_READ
error_inside = pytest.importorskip("paimon_assets.spark.failure").error_inside
POSITION = pytest.importorskip("paimon_assets.spark.packing").POSITION_COLUMN
sources = pytest.importorskip("paimon_assets.spark.dataframes.sources")

pytestmark = pytest.mark.spark

COLUMNS = {"id": "BIGINT", "part": "STRING", "value": "BIGINT"}


@pytest.fixture
def executor(spark):
    return executor_module.SparkExecutor(spark)


@pytest.fixture
def engine_reads(spark):
    """Let the engine read files that Spark could read itself."""
    with session_with(spark, **{NATIVE_READ: "false"}):
        yield


def create(catalog, *, buckets="3", partition_keys=(), columns=None, **options):
    schema = Schema.of(
        columns or COLUMNS,
        partition_keys=partition_keys,
        primary_keys=[*partition_keys, "id"],
        options={"bucket": buckets, **options},
    )
    return catalog.create_table("db.t", schema)


def changes(spark, rows, *, keys, partitions):
    """Return many versions of few keys; `value` counts up in the order of the DataFrame."""
    return spark.range(0, rows, 1, partitions).selectExpr(
        f"id % {keys} as id", f"concat('p', id % {keys} % 3) as part", "id as value"
    )


@pytest.mark.parametrize("partition_keys", [[], ["part"]])
@pytest.mark.parametrize("buckets", ["1", "5"])
def test_equal_sequences_merge_in_input_order(
    executor, spark, new_catalog, partition_keys, buckets
):
    columns = {**COLUMNS, "second": "BIGINT"}
    table = create(
        new_catalog,
        buckets=buckets,
        partition_keys=partition_keys,
        columns=columns,
        **{"sequence.field": "second"},
    )
    rows = changes(spark, 100_000, keys=70, partitions=13).withColumn("second", fn.lit(7))
    table.new_write_builder().write(rows, executor)
    result = table.new_read_builder().to_arrow()
    assert sorted(result["value"].to_pylist()) == list(range(100_000 - 70, 100_000))


def test_positions_restore_input_order(executor, spark, new_catalog):
    table = create(new_catalog, buckets="2")
    rows = changes(spark, 50_000, keys=40, partitions=4)
    positioned = rows.withColumn(POSITION, fn.col("value") * 3)
    shuffled = positioned.repartition(7).sortWithinPartitions(fn.hash("value"))
    table.new_write_builder().write(shuffled, executor)
    result = table.new_read_builder().to_arrow()
    assert result.schema.names == list(COLUMNS)
    assert sorted(result["value"].to_pylist()) == list(range(50_000 - 40, 50_000))


@pytest.mark.parametrize("rows_of_a_key", [1, 100])
def test_arrow_rows_keep_their_order_over_batches(
    executor, new_catalog, monkeypatch, rows_of_a_key
):
    monkeypatch.setattr(executor_module.packing, "PACKED_BYTES", 1)
    table = create(new_catalog, buckets="3")
    keys = [key for key in range(30) for _ in range(rows_of_a_key)]
    ids = [*keys, *reversed(keys), *keys]
    rows = pa.table(
        {
            "id": ids,
            "part": pa.array(["p"] * len(ids)).dictionary_encode(),
            "value": range(len(ids)),
        }
    )
    batches = rows.to_batches(max_chunksize=len(keys))
    assert len(batches) == 3
    table.new_write_builder().write(pa.Table.from_batches(batches).to_reader(), executor)
    result = table.new_read_builder().to_arrow()
    last = dict(zip(ids, range(len(ids)), strict=True))
    assert dict(zip(result["id"].to_pylist(), result["value"].to_pylist(), strict=True)) == last


def test_every_task_gets_its_own_bucket(executor, spark, new_catalog):
    table = create(new_catalog, buckets="6")
    context = table.new_write_builder().prepare()
    frame, source = executor._source(changes(spark, 500, keys=500, partitions=2), context)
    written = executor._route_rows(frame, source, context, dump(context))
    tasks = [row.task for row in written.select(fn.spark_partition_id().alias("task")).collect()]
    assert tasks == [0, 1, 2, 3, 4, 5]


def test_spark_frame_for_this_process_is_refused(spark, new_catalog):
    table = create(new_catalog, buckets="1")
    with pytest.raises(InvalidInputError, match="Choose the Spark executor"):
        table.upsert(changes(spark, 5, keys=5, partitions=1), executor=EmbeddedExecutor())


def test_every_bucket_is_written_by_one_task(executor, spark, new_catalog):
    table = create(new_catalog, buckets="5", partition_keys=["part"])
    table.new_write_builder().write(changes(spark, 3_000, keys=900, partitions=6), executor)
    buckets = [(entry.partition, entry.bucket) for entry in table.state.live_files()]
    assert len(buckets) == len(set(buckets)) == 15


def test_spark_and_embedded_assign_same_buckets(executor, spark, new_catalog):
    table = create(new_catalog, buckets="4", partition_keys=["part"])
    rows = changes(spark, 2_000, keys=2_000, partitions=3)
    table.new_write_builder().write(rows, executor)
    spark_files = {(e.partition, e.bucket): e.file.row_count for e in table.state.live_files()}
    new_catalog.drop_table("db.t")
    table = create(new_catalog, buckets="4", partition_keys=["part"])
    table.new_write_builder().write(rows.toArrow(), EmbeddedExecutor())
    assert spark_files == {
        (e.partition, e.bucket): e.file.row_count for e in table.state.live_files()
    }


def test_keys_with_some_partition_columns_keep_rows(executor, spark, new_catalog):
    shape = next(each for each in SHAPES if each.is_partial)
    schema = shape.schema({"bucket": "-1", "dynamic-bucket.assigner-parallelism": "2"})
    table = new_catalog.create_table("db.t", schema)
    draw = random.Random(1)  # noqa: S311 - test data
    batches = [drawn_rows(draw) + drawn_rows(draw) for _ in range(3)]
    for rows in batches:
        frame = spark.createDataFrame(rows_to_arrow(rows, table.schema)).repartition(1)
        table.new_write_builder().write(frame, executor)
    expected = merge_rows(schema, chain.from_iterable(batches))
    found = table.new_read_builder().to_arrow()
    assert plain_rows(found, NAMES) == plain_rows(expected, NAMES)


def test_append_needs_no_shuffle(executor, spark, new_catalog):
    table = new_table(new_catalog, COLUMNS)
    rows = changes(spark, 1_000, keys=1_000, partitions=4)
    table.new_write_builder().write(rows, executor)
    assert [entry.file.row_count for entry in table.state.live_files()] == [250] * 4


def test_task_without_rows_writes_nothing(executor, spark, new_catalog):
    table = new_table(new_catalog, COLUMNS)
    rows = changes(spark, 10, keys=10, partitions=2).where("value < 3")
    outcome = table.new_write_builder().write(rows, executor)
    assert outcome.report.rows_written == 3
    assert len(table.state.live_files()) == 1


def test_lists_of_maps_that_are_all_null_are_written(executor, spark, new_catalog):
    table = create(new_catalog, columns={"id": "BIGINT", "maps": "ARRAY<MAP<STRING, INT>>"})
    rows = spark.range(2).selectExpr("id", "CAST(null AS array<map<string, int>>) maps")
    table.new_write_builder().write(rows, executor)
    assert table.to_arrow()["maps"].to_pylist() == [None, None]


@pytest.mark.usefixtures("engine_reads")
@pytest.mark.parametrize(("local_read_bytes", "sent_bytes"), [(1, 0), (1, 2**18), (2**20, 2**18)])
def test_dataframe_keeps_split_order(
    executor, spark, new_catalog, monkeypatch, local_read_bytes, sent_bytes
):
    monkeypatch.setattr(executor_module, "_LOCAL_READ_BYTES", local_read_bytes)
    monkeypatch.setattr(split_tasks, "_SENT_TO_ALL_BYTES", sent_bytes)
    table = create(new_catalog, buckets="4", partition_keys=["part"])
    table.new_write_builder().write(changes(spark, 600, keys=600, partitions=2), executor)
    plan = table.new_read_builder().plan()
    frame = executor.to_dataframe(plan.context, plan.splits)
    counted = frame.groupBy(fn.spark_partition_id().alias("task")).count().orderBy("task")
    expected = {}
    tasks = split_tasks.tasks_by_cost(plan.splits, executor_module.parallelism(spark))
    for task, split in zip(tasks, plan.splits, strict=True):
        expected[task] = expected.get(task, 0) + split.row_count
    assert [row["count"] for row in counted.collect()] == list(expected.values())
    here = pa.Table.from_batches(executor.map_splits(plan.context, plan.splits))
    assert here["value"].to_pylist() == [row.value for row in frame.collect()]
    assert here.equals(table.new_read_builder().to_arrow())


@given(st.lists(st.integers(0, 50), min_size=1, max_size=40), st.integers(1, 100))
def test_neighbouring_splits_share_task_up_to_limit(sizes, limit):
    tasks = split_tasks.tasks_by_bytes(sizes, limit)
    assert tasks[0] == 0
    assert all(after - before in (0, 1) for before, after in pairwise(tasks))
    for task in set(tasks):
        shared = [size for size, owner in zip(sizes, tasks, strict=True) if owner == task]
        assert sum(shared) <= limit or sum(shared[:-1]) == 0


@pytest.mark.parametrize(
    ("sizes", "cores", "expected"),
    [
        ([0] * 8, 2, [0, 0, 0, 0, 1, 1, 1, 1]),
        ([0] * 3, 4, [0, 1, 2]),
        ([200 << 20, 100 << 20, 1 << 20, 60 << 20], 2, [0, 1, 1, 1]),
        ([1000 << 20] * 2 + [1] * 3, 1, [0, 1, 2, 2, 2]),
    ],
)
def test_small_splits_share_tasks_while_every_core_has_one(sizes, cores, expected):
    splits = [
        DataSplit(
            snapshot_id=1,
            partition=b"",
            bucket=0,
            bucket_path="",
            data_files=(data_file(file_size=size),),
        )
        for size in sizes
    ]
    assert split_tasks.tasks_by_cost(splits, cores) == expected


def test_dataframe_has_spark_types_of_table(executor, spark, new_catalog):
    if spark.version < "4.1":
        pytest.skip("Spark before 4.1 has no TIME")
    columns = {
        "id": "BIGINT NOT NULL",
        "local": "TIMESTAMP(9)",
        "instant": "TIMESTAMP(3) WITH LOCAL TIME ZONE",
        "price": "DECIMAL(9, 2)",
        "code": "VARCHAR(3)",
        "time": "TIME(3)",
    }
    table = create(new_catalog, columns=columns)
    rows = pa.table(
        {
            "id": [1, 2],
            "local": pa.array([1_500, -1], pa.timestamp("ns")),
            "instant": pa.array([dt.datetime(2024, 1, 1, tzinfo=dt.UTC), None]),
            "price": pa.array([None, None], pa.decimal128(9, 2)),
            "code": ["abc", None],
            "time": pa.array([dt.time(1, 2, 3), None], pa.time32("ms")),
        }
    )
    table.new_write_builder().write(rows, executor)
    exact = table.new_read_builder().to_arrow(executor)
    assert plain_rows(exact, ["id", "local"]) == [(1, 1_500), (2, -1)]

    plan = table.new_read_builder().with_options({"read.cut-nanoseconds": "true"}).plan()
    frame = executor.to_dataframe(plan.context, plan.splits)
    assert frame.schema.simpleString() == (
        "struct<id:bigint,local:timestamp_ntz,instant:timestamp,price:decimal(9,2),code:string,"
        "time:time(6)>"
    )
    assert [field.nullable for field in frame.schema.fields] == [False, *[True] * 5]
    micros = frame.orderBy("id").toArrow()["local"].cast(pa.int64()).to_pylist()
    assert micros == [1, -1]


def test_empty_plan_is_empty_dataframe_with_schema(executor, new_catalog):
    plan = create(new_catalog).new_read_builder().with_columns(["value", "id"]).plan()
    frame = executor.to_dataframe(plan.context, plan.splits)
    assert (frame.columns, frame.count()) == (["value", "id"], 0)


def test_failed_write_leaves_no_files_of_any_task(executor, spark, new_catalog, warehouse):
    table = new_table(new_catalog, {**COLUMNS, "value": "BIGINT NOT NULL"})
    rows = changes(spark, 400, keys=400, partitions=4).withColumn(
        "value", fn.when(fn.col("value") != 350, fn.col("value"))
    )
    with pytest.raises(InvalidInputError, match="value") as caught:
        table.new_write_builder().write(rows, executor)
    assert caught.value.kind == "input-null"
    assert [path for path in Path(warehouse).rglob("data-*") if path.is_file()] == []


def test_error_of_lazy_read_is_found_in_sparks_failure(executor, spark, new_catalog, warehouse):
    table = new_table(new_catalog, COLUMNS)
    table.new_write_builder().write(changes(spark, 5, keys=5, partitions=1), executor)
    plan = table.new_read_builder().plan()
    for path in Path(warehouse).rglob("data-*"):
        path.unlink()
    frame = executor.to_dataframe(plan.context, plan.splits)
    with pytest.raises(PySparkException) as caught:
        frame.collect()
    assert isinstance(error_inside(caught.value), NotFoundError)
    with pytest.raises(NotFoundError):
        table.new_write_builder().write(frame, executor)


@pytest.mark.way_out("spark-type")
def test_spark_type_that_paimon_lacks_is_named_with_its_column(executor, spark, new_catalog):
    table = create(new_catalog)
    rows = spark.sql("select 1L as id, 'p' as part, interval '1' day as value")
    with pytest.raises(InvalidInputError, match=r"'value'.*interval day") as caught:
        table.new_write_builder().write(rows, executor)
    assert caught.value.kind == "spark-type"
    table.new_write_builder().write(rows.selectExpr("id", "part", "1L as value"), executor)


def test_large_types_and_zones_change_no_values(executor, spark, new_catalog):
    columns = {"id": "BIGINT", "name": "STRING", "at": "TIMESTAMP(3) WITH LOCAL TIME ZONE"}
    table = create(new_catalog, columns=columns)
    settings = {
        "spark.sql.session.timeZone": "America/New_York",
        "spark.sql.execution.arrow.useLargeVarTypes": "true",
    }
    before = {key: spark.conf.get(key) for key in settings}
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        rows = spark.sql("select 1L as id, 'ä' as name, timestamp'2024-06-01 00:00:00Z' as at")
        table.new_write_builder().write(rows, executor)
        plan = table.new_read_builder().plan()
        frame = executor.to_dataframe(plan.context, plan.splits)
        assert frame.selectExpr("unix_millis(at)", "name").first()[:] == (1_717_200_000_000, "ä")
    finally:
        for key, value in before.items():
            spark.conf.set(key, value)
    result = table.new_read_builder().to_arrow()
    assert plain_rows(result, ["at", "name"]) == [(1_717_200_000_000_000_000, "ä")]


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


SERVED_COLUMNS = {"part": "STRING", "id": "INT", "value": "INT"}
SCHEMA = Schema.of(
    SERVED_COLUMNS, primary_keys=["part", "id"], partition_keys=["part"], options={"bucket": "-1"}
)


def rows(start, value):
    named = [{"part": "ab"[n % 2], "id": n, "value": value} for n in range(start, start + 6)]
    return rows_to_arrow(named, SCHEMA)


def test_spark_writes_compacts_changes_and_reads_tables_of_server(executor, spark, tmp_path):
    server = ServedCatalog(str(tmp_path / "warehouse"))
    catalog = TableCatalog(server)
    catalog.create_database("db")
    table = catalog.create_table("db.t", SCHEMA)
    server.answers.append(Answer.LOST_AFTER)
    for start, value in ((0, 1), (3, 2)):
        table.new_write_builder().write(spark.createDataFrame(rows(start, value)), executor)
    table.new_compaction_builder().with_strategy("full").run(executor)
    table.alter([add_column("more", "INT")])
    table = catalog.get_table("db.t")
    change = table.new_row_change_builder()
    assert change.update({"value": parse_expression("value * 10")}, "id = 8", executor)
    assert change.delete("id < 2", executor).rows_matched == 2
    plan = table.new_read_builder().with_columns(list(SERVED_COLUMNS)).plan()
    found = executor.to_dataframe(plan.context, plan.splits).toArrow()
    expected = [("ab"[n % 2], n, 1 if n < 3 else 20 if n == 8 else 2) for n in range(2, 9)]
    assert plain_rows(found, SERVED_COLUMNS) == sorted(expected, key=repr)
    assert [snapshot.id for snapshot in table.snapshots()] == list(range(1, 6))
    assert server.bypassed == []
