"""Rows that stay in Python: the same files as through Spark's rows, entry by entry."""

import datetime as dt

import pyarrow as pa
import pyarrow.parquet as papq
import pytest

from tests.testkit.job_names import names_of_jobs
from tests.testkit.retyped_keys import retype, write_on
from tests.testkit.tables import new_table, write

executor_module = pytest.importorskip("paimon_assets.spark.executor")
sources = pytest.importorskip("paimon_assets.spark.dataframes.sources")
python_rows = pytest.importorskip("paimon_assets.spark.python_rows").python_rows
write_dataframe = pytest.importorskip("paimon_assets.spark.dataframes.tables").write_dataframe

pytestmark = pytest.mark.spark

COLUMNS = {"id": "BIGINT", "part": "STRING", "text": "STRING", "price": "DOUBLE", "at": "DATE"}
TABLES = {
    "append": {},
    "partitions": {"partition_keys": ["part"]},
    "bucketed": {"options": {"bucket": "2", "bucket-key": "id"}},
    "keyed": {"primary_keys": ["id"], "options": {"bucket": "2"}},
    "dynamic": {"primary_keys": ["id", "part"], "partition_keys": ["part"]},
    "crossing": {"primary_keys": ["id"], "partition_keys": ["part"]},
}


def rows_of(number):
    """Return rows whose keys come in other files, too; later files hold later prices."""
    ids = range(0, 60, number + 1)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "part": pa.array([f"p{(each + number // 3) % 2}" for each in ids]),
            "text": pa.array([None if each % 7 == 0 else "t" * 30 + str(each) for each in ids]),
            "price": pa.array([number + each / 100 for each in ids]),
            "at": pa.array([dt.date(2024, 1, 1 + each % 28) for each in ids]),
        }
    )


@pytest.fixture
def paths(tmp_path):
    names = [str(tmp_path / f"{9 - number}.parquet") for number in range(5)]
    for number, name in enumerate(names):
        papq.write_table(rows_of(number), name)
    return names


def entries_of(table):
    """Return the manifest entries without file names and times."""
    return sorted(
        entry._replace(file=entry.file._replace(file_name="", creation_time=0))
        for entry in table.state.live_files()
    )


def plain_rows(table):
    return sorted(map(str, table.new_read_builder().to_arrow().to_pylist()))


@pytest.mark.parametrize("kind", TABLES)
def test_routing_in_read_tasks_makes_same_entries(spark, new_catalog, paths, kind):
    names = ("db.short", "db.long")
    short, long = (new_table(new_catalog, COLUMNS, name=name, **TABLES[kind]) for name in names)
    frame = sources.files_to_dataframe(spark, paths, "parquet")
    computed = frame.select("*")
    assert python_rows(frame) is not None
    assert python_rows(computed) is None
    write_dataframe(short, frame)
    write_dataframe(long, computed)
    assert entries_of(short) == entries_of(long)
    assert plain_rows(short) == plain_rows(long)


def test_rows_that_spark_keeps_are_not_read_again(spark, paths):
    frame = sources.files_to_dataframe(spark, paths, "parquet").persist()
    assert python_rows(frame) is None
    frame.unpersist()
    assert python_rows(frame) is not None


def test_rewritten_rows_keep_types_that_spark_does_not_have(spark, new_catalog):
    """Nanoseconds would be cut, and Spark before 4.1 has no time of day."""
    columns = {"id": "BIGINT", "at": "TIMESTAMP(9)", "time": "TIME(3)"}
    table = new_table(new_catalog, columns, primary_keys=["id"], options={"bucket": "1"})
    ids = pa.array(range(20), pa.int64())
    rows = pa.table(
        {
            "id": ids,
            "at": pa.array(range(1, 21), pa.timestamp("ns")),
            "time": pa.array(range(20), pa.time32("ms")),
        }
    )
    write(table, rows)
    before = plain_rows(table)
    table.rescale(executor_module.SparkExecutor(spark), buckets=3)
    assert {entry.bucket for entry in table.state.live_files()} == {0, 1, 2}
    assert plain_rows(table) == before


def test_keys_of_another_type_are_sorted_and_rewritten_by_tasks(spark, new_catalog):
    table = new_table(
        new_catalog, {"id": "INT", "n": "INT"}, primary_keys=["id"], options={"bucket": "3"}
    )
    for run in range(3):
        ids = range(-20 + run, 20 - run)
        values = pa.array([run] * len(ids), pa.int32())
        rows = pa.table({"id": pa.array(ids, pa.int32()), "n": values})
        write(table, rows)
    retype(table, "id", "STRING NOT NULL")
    table = new_catalog.get_table("db.t")
    write_on(table, pa.table({"id": ["-1", "7"], "n": pa.array([8, 9], pa.int32())}))
    expected = {str(key): min(key + 20, 19 - key, 2) for key in range(-20, 20)} | {"-1": 8, "7": 9}
    executor = executor_module.SparkExecutor(spark)
    for _ in range(2):
        found = table.new_read_builder().to_arrow(executor).to_pylist()
        assert sorted((row["id"], row["n"]) for row in found) == sorted(expected.items())
        table.rescale(executor)
    assert {entry.file.schema_id for entry in table.state.live_files()} == {1}


def test_sorted_rows_keep_nanoseconds(spark, new_catalog):
    columns = {"id": "INT", "at": "TIMESTAMP(9)", "all": "ARRAY<TIMESTAMP(9)>"}
    table = new_table(new_catalog, columns)
    nanoseconds = pa.array(range(1, 21), pa.timestamp("ns"))
    rows = pa.table(
        {
            "id": pa.array(range(20, 0, -1), pa.int32()),
            "at": nanoseconds,
            "all": pa.array([[each] for each in range(1, 21)], pa.list_(pa.timestamp("ns"))),
        }
    )
    write(table, rows)
    before = plain_rows(table)
    builder = table.new_compaction_builder().with_strategy("sort").with_order(["id"], "order")
    builder.run(executor_module.SparkExecutor(spark))
    assert table.new_read_builder().to_arrow()["id"].to_pylist() == [*range(1, 21)]
    assert plain_rows(table) == before


@pytest.mark.parametrize("curve", ["zorder", "hilbert"])
def test_curve_ranges_are_files_of_similar_size(spark, new_catalog, curve):
    """Values are dealt by a sample; a range that few rows reach is no reason for another pass."""
    options = {"target-file-size": "20 kb"}
    table = new_table(new_catalog, {"x": "INT", "y": "INT"}, options=options)
    numbers = range(20_000)
    rows = pa.table(
        {
            "x": pa.array([each * 7919 % 20_011 for each in numbers], pa.int32()),
            "y": pa.array([each * 104_729 % 20_011 for each in numbers], pa.int32()),
        }
    )
    write(table, rows)
    before = plain_rows(table)
    builder = table.new_compaction_builder().with_strategy("sort").with_order(["x", "y"], curve)
    builder.run(executor_module.SparkExecutor(spark))
    assert plain_rows(table) == before
    assert any(name.startswith("sample db.t") for name in names_of_jobs(spark))
    counts = [entry.file.row_count for entry in table.state.live_files()]
    assert len(counts) > 3
    assert max(counts) < len(rows) / 2
    found = table.new_read_builder().with_filter("x < 2000 AND y < 2000").plan()
    assert sum(len(split.data_files) for split in found.splits) < len(counts) / 2
