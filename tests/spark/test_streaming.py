"""Structured Streaming into tables, through real checkpoints."""

from pathlib import Path

import pytest

from paimon_assets import InvalidInputError, Schema
from tests.testkit.tables import new_table

streaming = pytest.importorskip("paimon_assets.spark.dataframes.tables")
tables = pytest.importorskip("paimon_assets.spark.dataframes.tables")
error_inside = pytest.importorskip("paimon_assets.spark.failure").error_inside

pytestmark = pytest.mark.spark

COLUMNS = {"id": "BIGINT", "value": "BIGINT"}
ROWS = 10


class Source:
    """A folder of files that a query takes one by one."""

    def __init__(self, spark, home):
        self.spark = spark
        self.folder, self.checkpoint = str(home / "in"), str(home / "checkpoint")

    def add(self, start):
        rows = self.spark.range(start, start + ROWS, 1, 1).selectExpr("id", "id as value")
        rows.write.mode("append").parquet(self.folder)

    def run(self, sink):
        self.write(lambda writer: writer.foreachBatch(sink))

    def write(self, described):
        rows = self.spark.readStream.schema("id bigint, value bigint").parquet(self.folder)
        query = (
            described(rows.writeStream)
            .option("checkpointLocation", self.checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()


@pytest.fixture
def source(spark, tmp_path):
    return Source(spark, tmp_path)


def version_of(spark):
    return tuple(map(int, spark.version.split(".")[:2]))


def ids(table):
    return sorted(table.new_read_builder().to_arrow()["id"].to_pylist())


@pytest.mark.parametrize("keys", [[], ["id"]])
def test_crash_before_checkpoint_commits_once(source, new_catalog, keys):
    options = {"bucket": "1"} if keys else {}
    table = new_table(new_catalog, COLUMNS, primary_keys=keys, options=options)
    sink = streaming.streaming_sink(table)

    def committing_then_crashing(batch, number):
        sink(batch, number)
        raise RuntimeError("the machine stops here")

    source.add(0)
    source.run(sink)
    source.add(ROWS)
    with pytest.raises(Exception, match="the machine stops here"):
        source.run(committing_then_crashing)
    source.add(2 * ROWS)
    source.run(sink)
    assert ids(table) == list(range(3 * ROWS))
    snapshots = table.snapshots()
    assert [snapshot.commit_identifier for snapshot in snapshots] == [0, 1, 2]
    assert len({snapshot.commit_user for snapshot in snapshots}) == 1


def test_format_commits_each_batch_once_and_continues_after_sink(
    spark, source, new_catalog, warehouse, tmp_path
):
    table = new_table(new_catalog, COLUMNS)

    def write():
        options = {"warehouse": warehouse, "table": "db.t"}
        source.write(lambda writer: writer.format("paimon_assets").options(**options))

    source.add(0)
    source.run(streaming.streaming_sink(table))
    source.add(ROWS)
    if version_of(spark) < (4, 1):
        with pytest.raises(Exception, match="streaming_sink"):
            write()
        return
    write()
    # Spark died before it noted the end of the batch: the batch is repeated.
    (tmp_path / "checkpoint" / "commits" / "1").unlink()
    (tmp_path / "checkpoint" / "commits" / ".1.crc").unlink(missing_ok=True)
    source.add(2 * ROWS)
    write()
    assert ids(table) == list(range(3 * ROWS))
    assert [snapshot.commit_identifier for snapshot in table.snapshots()] == [0, 1, 2]
    assert len({snapshot.commit_user for snapshot in table.snapshots()}) == 1
    named = {entry.file.file_name for entry in table.state.live_files()}
    written = {path.name for path in Path(table.path.removeprefix("file:")).rglob("*.parquet")}
    assert written == named


def test_new_checkpoint_is_another_writer(source, new_catalog):
    table = new_table(new_catalog, COLUMNS)
    source.add(0)
    source.run(streaming.streaming_sink(table))
    source.checkpoint += "-2"
    source.run(streaming.streaming_sink(table))
    assert ids(table) == sorted([*range(ROWS), *range(ROWS)])


@pytest.mark.parametrize(("commit_empty", "snapshots"), [(False, 0), (True, 1)])
def test_empty_batch_commits_on_request(spark, new_catalog, commit_empty, snapshots):
    table = new_table(new_catalog, COLUMNS)
    sink = streaming.streaming_sink(table, commit_user="me", commit_empty=commit_empty)
    nothing = spark.range(0).selectExpr("id", "id as value")
    sink(nothing, 3)
    sink(nothing, 3)
    assert len(table.snapshots()) == snapshots


def test_unfit_batch_ends_query_with_reason(source, new_catalog):
    table = new_table(new_catalog, COLUMNS)
    source.add(0)
    sink = streaming.streaming_sink(table)
    with pytest.raises(Exception, match="value") as caught:
        source.run(lambda batch, number: sink(batch.drop("value"), number))
    assert isinstance(error_inside(caught.value), InvalidInputError)
    assert table.latest_snapshot() is None


@pytest.mark.way_out("streaming-query")
def test_committer_is_required_outside_query(spark, new_catalog):
    table = new_table(new_catalog, COLUMNS)
    rows = spark.range(1).selectExpr("id", "id as value")
    with pytest.raises(Exception, match="commit_user"):
        streaming.streaming_sink(table)(rows, 0)
    streaming.streaming_sink(table, commit_user="me")(rows, 0)
    assert len(table.snapshots()) == 1


def test_stream_reads_state_then_changes(spark, new_catalog, warehouse, tmp_path):
    table = new_table(new_catalog, COLUMNS, primary_keys=["id"], options={"bucket": "1"})
    target = new_catalog.create_table("db.copy", Schema.of(COLUMNS))
    rows = spark.readStream.format("paimon_assets").options(warehouse=warehouse, table="db.t")

    def follow():
        query = (
            rows.load()
            .writeStream.foreachBatch(streaming.streaming_sink(target))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    def write(ids, value):
        frame = spark.createDataFrame([(number, value) for number in ids], "id long, value long")
        tables.write_dataframe(table, frame)

    write([1, 2], 0)
    write([2], 1)
    follow()
    write([3], 2)
    write([2, 3], 3)
    follow()
    found = target.new_read_builder().to_arrow().to_pylist()
    assert sorted((row["id"], row["value"]) for row in found) == [(1, 0), (2, 1), (2, 3), (3, 3)]


def test_limit_of_rows_cuts_batches_between_snapshots(spark, new_catalog, warehouse, tmp_path):
    table = new_table(new_catalog, COLUMNS)
    rows = spark.readStream.format("paimon_assets").options(warehouse=warehouse, table="db.t")
    sizes = []

    def follow(limit):
        query = (
            rows.option("read.stream.maxRowsPerTrigger", limit)
            .load()
            .writeStream.foreachBatch(lambda batch, _: sizes.append(batch.count()))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    def write(count):
        tables.write_dataframe(table, spark.range(count).selectExpr("id", "id as value"))

    write(4)
    if version_of(spark) < (4, 2):
        with pytest.raises(Exception, match=r"needs Spark 4\.2 or later"):
            follow("5")
        return
    with pytest.raises(Exception, match="expected a number of rows above 0"):
        follow("none")
    follow("5")
    for count in (3, 2, 9, 1, 4):
        write(count)
    follow("5")
    assert sizes == [4, 5, 9, 5]
