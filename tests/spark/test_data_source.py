"""`format("paimon_assets")`: tables in Spark's own reader and writer API."""

import datetime as dt

import pyarrow as pa
import pytest

from paimon_assets import InvalidInputError, NotFoundError, Schema, UnsupportedFeatureError
from tests.behaviour.test_executors import A_ROW, ALL_TYPES, NOTHING
from tests.testkit.rows import plain_rows
from tests.testkit.spark_settings import session_with
from tests.testkit.tables import new_table, write

pyspark_types = pytest.importorskip("pyspark.sql.types")
data_source = pytest.importorskip("paimon_assets.spark.data_source")
tables = pytest.importorskip("paimon_assets.spark.dataframes.tables")
error_inside = pytest.importorskip("paimon_assets.spark.failure").error_inside
PySparkException = pytest.importorskip("pyspark.errors").PySparkException
Py4JJavaError = pytest.importorskip("py4j.protocol").Py4JJavaError

pytestmark = pytest.mark.spark

COLUMNS = {"id": "BIGINT", "part": "STRING", "value": "INT"}
KEYED = {"primary_keys": ["id"], "options": {"bucket": "2"}}


@pytest.fixture
def load(spark, warehouse):
    """Return a function that loads a table of the warehouse."""

    def load_table(table="db.t", **options):
        named = {"warehouse": warehouse, "table": table, **options}
        return spark.read.format("paimon_assets").options(**named).load()

    return load_table


@pytest.fixture
def save(spark, warehouse):
    """Return a function that saves a frame into a table of the warehouse."""

    def save_frame(frame, mode="append"):
        writer = frame.write.format("paimon_assets").mode(mode)
        writer.options(warehouse=warehouse, table="db.t").save()

    return save_frame


def some_rows(start=0, count=9):
    numbers = range(start, start + count)
    return [{"id": n, "part": "ab"[n % 2], "value": n or None} for n in numbers]


def test_types_and_merges_equal_engine_reads(load, new_catalog):
    lacks_times = not hasattr(pyspark_types, "TimeType")
    types = {name: kind for name, kind in ALL_TYPES.items() if name != "time" or not lacks_times}
    row = {name: A_ROW[name] for name in types}
    table = new_table(new_catalog, types, primary_keys=["big"], options={"bucket": "2"})
    write(table, row, {**{name: NOTHING[name] for name in types}, "big": 1})
    write(table, {**row, "text": "newer"})
    expected = plain_rows(table.new_read_builder().to_arrow(), types)
    assert plain_rows(load().toArrow(), types) == expected


def test_columns_filters_and_time_travel(load, new_catalog, spark):
    table = new_table(new_catalog, COLUMNS, partition_keys=["part"])
    write(table, *some_rows())
    write(table, *some_rows(start=100))
    older = load(**{"scan.snapshot-id": "1", "columns": "value, id"})
    assert older.columns == ["value", "id"]
    assert older.count() == 9
    chosen = load().where("part = 'a' AND value > 4 AND (id < 7 OR id IN (100, 101))")
    assert sorted(row.id for row in chosen.collect()) == [6, 100]
    path = spark.read.format("paimon_assets").schema("value int").load(table.path)
    assert path.columns == ["value"]
    assert path.where("value IS NULL").count() == 1


@pytest.mark.parametrize(
    ("kind", "unit", "value"),
    [("TIMESTAMP(9)", "ns", 1_001), ("TIMESTAMP(3)", "ms", 2**54), ("TIMESTAMP(0)", "s", 2**44)],
)
@pytest.mark.parametrize("way", ["format", "here", "tasks", "native"])
def test_times_that_spark_does_not_hold_are_refused(
    load, new_catalog, spark, kind, unit, value, way
):
    """They are not cut, and not wrapped into other years."""
    unchecked = {"write.check-times": "false"}  # which refuses such years
    table = new_table(new_catalog, {"at": kind}, options=unchecked)
    rows = pa.table({"at": pa.array([0, value], pa.timestamp(unit))})
    write(table, rows)
    settings = {
        "spark.paimon_assets.readHere": "16 mb" if way == "here" else "0",
        "spark.paimon_assets.nativeRead": str(way == "native").lower(),
    }
    with session_with(spark, **settings):
        frame = load() if way == "format" else tables.to_spark(table.new_read_builder(), spark)
        with pytest.raises((PySparkException, Py4JJavaError)) as caught:
            frame.toArrow()
    error = error_inside(caught.value)
    assert error.kind == "spark-timestamp"
    assert way == "native" or "Column 'at'" in error.message
    assert error.details["path"].endswith(".parquet")
    assert table.path in error.details["path"]


@pytest.mark.way_out("spark-timestamp")
def test_nanoseconds_are_truncated_on_request(load, new_catalog, spark):
    table = new_table(new_catalog, {"at": "TIMESTAMP(9)"})
    rows = pa.table({"at": pa.array([1_999, -1], pa.timestamp("ns"))})
    write(table, rows)
    with pytest.raises((PySparkException, Py4JJavaError), match="= true cuts further digits"):
        load().toArrow()
    for frame in (
        load(**{"read.cut-nanoseconds": "true"}),
        tables.to_spark(table.copy({"read.cut-nanoseconds": "true"}).new_read_builder(), spark),
    ):
        assert sorted(frame.toArrow()["at"].cast("int64").to_pylist()) == [-1, 1]


def test_time_travel_takes_spark_options(load, new_catalog):
    table = new_table(new_catalog, COLUMNS)
    write(table, *some_rows())
    table.tags.create("nine", 1)
    time = dt.datetime.fromtimestamp(table.latest_snapshot().time_millis / 1000, dt.UTC)
    write(table, *some_rows(start=100))
    for target in ({"versionAsOf": "1"}, {"versionAsOf": "nine"}, {"timestampAsOf": f"{time}"}):
        assert load(**target).count() == 9
    assert load("db.t$files", versionAsOf="1").count() == 1
    assert load().count() == 18


def test_view_keeps_its_snapshot_until_recreated(spark, warehouse, new_catalog):
    if spark.version < "4.1":
        pytest.skip("a view of Spark before 4.1 plans its read for each query")
    table = new_table(new_catalog, COLUMNS)
    write(table, *some_rows())
    view = "CREATE OR REPLACE TEMPORARY VIEW seen USING paimon_assets"
    view = f"{view} OPTIONS (warehouse '{warehouse}', table 'db.t')"
    spark.sql(view)
    assert spark.table("seen").count() == 9
    write(table, *some_rows(start=100))
    assert spark.table("seen").count() == 9
    spark.sql(view)
    assert spark.table("seen").count() == 18


@pytest.mark.way_out("spark-format-create")
def test_creation_of_spark_catalog_table_is_refused(spark, warehouse, new_catalog):
    new_catalog.create_table("db.t", Schema.of(COLUMNS))
    with pytest.raises(Exception, match="paimon-error") as caught:
        spark.sql(
            f"CREATE TABLE made USING paimon_assets OPTIONS (warehouse '{warehouse}', table 'db.t')"
        )
    error = error_inside(caught.value)
    assert (type(error), error.kind) == (UnsupportedFeatureError, "spark-format-create")
    assert not spark.catalog.tableExists("made")
    options = f"OPTIONS (warehouse '{warehouse}', table 'db.t')"
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW made USING paimon_assets {options}")
    assert spark.table("made").count() == 0
    spark.catalog.dropTempView("made")


@pytest.mark.parametrize(
    ("keys", "by_option", "kind"),
    [(["value"], True, "spark-format-write"), ([], False, "spark-format-stream")],
)
@pytest.mark.way_out("spark-format-stream", "spark-format-write")
def test_unwritable_stream_names_sink(
    spark, warehouse, new_catalog, tmp_path, keys, by_option, kind
):
    options = {"bucket": "1"} if keys else {}
    table = new_table(new_catalog, {"value": "BIGINT"}, primary_keys=keys, options=options)
    rows = spark.readStream.format("rate").load().select("value")
    writer = rows.writeStream.format("paimon_assets").options(warehouse=warehouse, table="db.t")
    key = "spark.sql.streaming.checkpointLocation"
    if by_option:
        writer = writer.option("checkpointLocation", str(tmp_path / "c"))
    else:
        spark.conf.set(key, str(tmp_path / "c"))
    query = writer.start()
    spark.conf.unset(key)
    with pytest.raises(Exception, match=r"foreachBatch\(streaming_sink") as caught:
        query.awaitTermination()
    assert error_inside(caught.value).kind == kind
    assert table.latest_snapshot() is None
    sink = tables.streaming_sink(table)
    writer = rows.writeStream.foreachBatch(sink).trigger(availableNow=True)
    writer.option("checkpointLocation", str(tmp_path / "sink")).start().awaitTermination()


def test_frame_can_be_reused_with_other_queries(load, new_catalog):
    table = new_table(new_catalog, COLUMNS, partition_keys=["part"])
    write(table, *some_rows())
    frame = load()
    assert frame.where("id < 3").count() == 3
    assert frame.count() == 9
    assert frame.where("part = 'a' OR length(part) > 7").count() == 5
    chosen = load(where="part = 'b' AND id > 1")
    assert [chosen.count(), chosen.where("id > 5").count(), chosen.count()] == [3, 1, 3]


def test_system_tables_are_tables(load, new_catalog, spark):
    table = new_table(new_catalog, COLUMNS, **KEYED)
    write(table, *some_rows())
    write(table, *some_rows(count=1))
    snapshots = load("db.t$snapshots")
    assert [row.snapshot_id for row in snapshots.orderBy("snapshot_id").collect()] == [1, 2]
    assert load("db.t$audit_log", columns="rowkind,id").count() == 9
    files = tables.system_to_spark(table.system_table("files"), spark)
    assert files.count() == len(table.state.live_files())
    [one] = load("sys.tables").collect()
    assert (one.table_name, one.record_count) == ("t", 10)
    all_tables = tables.system_to_spark(new_catalog.get_system_table("sys.tables"), spark)
    assert all_tables.collect() == [one]


def test_no_secret_shows_in_plan(spark, new_catalog, warehouse):
    table = new_table(new_catalog, COLUMNS)
    write(table, *some_rows())
    hidden = "only-for-the-storage"
    data_source.register(spark, warehouse=warehouse, options={"s3.secret-key": hidden})
    try:
        frame = spark.read.format("paimon_assets").option("table", "db.t").load()
        assert frame.count() == 9
        assert hidden not in frame._jdf.queryExecution().toString()
    finally:
        data_source.register(spark)


@pytest.mark.way_out("spark-options")
def test_errors_name_fault(load, new_catalog, spark):
    new_catalog.create_table("db.t", Schema.of(COLUMNS))
    cases = [
        (lambda: load("db.absent"), NotFoundError, "table-not-found"),
        (lambda: load(columns="id,absent"), NotFoundError, "column-not-found"),
        (lambda: load(**{"scan.snapshot-id": "7"}), NotFoundError, None),
        (lambda: load(nonsense="1"), InvalidInputError, "spark-options"),
        (lambda: load(**{"scan.snapshotid": "1"}), InvalidInputError, "spark-options"),
        (lambda: load(versionAsOf="7"), NotFoundError, None),
        (lambda: load("db.t$files", where="level > 1").count(), InvalidInputError, "spark-options"),
        (
            lambda: spark.read.format("paimon_assets").load().count(),
            InvalidInputError,
            "spark-options",
        ),
    ]
    for work, kind_of_error, kind in cases:
        with pytest.raises(Exception, match="paimon-error") as caught:
            work()
        error = error_inside(caught.value)
        assert isinstance(error, kind_of_error)
        assert kind in (None, error.kind)
    assert load().count() == load("db.t$files").where("level > 1").count() == 0


def test_save_is_one_snapshot(save, load, new_catalog, spark):
    table = new_table(new_catalog, COLUMNS, partition_keys=["part"])
    frame = spark.range(0, 50, 1, 3).selectExpr(
        "cast(id as int) value", "concat('p', id % 2) part", "id"
    )
    save(frame)
    save(frame.where("id = 7"))
    assert [snapshot.id for snapshot in table.snapshots()] == [1, 2]
    ids = sorted(row.id for row in load().select("id").collect())
    assert ids == sorted([*range(50), 7])
    save(frame.where("id < 2"), mode="overwrite")
    assert sorted(row.id for row in load().collect()) == [0, 1]


def test_unwritable_type_is_refused(save, new_catalog, spark, warehouse):
    table = new_table(new_catalog, COLUMNS, **KEYED)
    frame = spark.range(3).selectExpr("id", "'p' part", "cast(id as int) value")
    with pytest.raises(Exception, match="write_dataframe") as caught:
        save(frame)
    assert isinstance(error_inside(caught.value), UnsupportedFeatureError)
    assert table.latest_snapshot() is None


def test_row_that_does_not_fit_undoes_write(save, new_catalog, spark):
    declared = {**COLUMNS, "value": "INT NOT NULL"}
    table = new_table(new_catalog, declared)
    frame = spark.range(0, 40, 1, 4).selectExpr(
        "id", "'p' part", "cast(nullif(id, 35) as int) value"
    )
    with pytest.raises(Exception, match="value") as caught:
        save(frame)
    assert error_inside(caught.value).kind == "input-null"
    assert table.latest_snapshot() is None
