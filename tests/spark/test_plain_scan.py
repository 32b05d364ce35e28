"""Plain scans of Parquet files: tasks that read files write the same as Spark's rows would."""

import datetime as dt
import decimal
import logging

import pyarrow as pa
import pyarrow.parquet as papq
import pytest

from paimon_assets import FormatError, Schema
from paimon_assets.engine.fileio.base import FileIOSpec
from paimon_assets.engine.fileio.local import LocalFileIO
from tests.testkit.spark_settings import session_with

plain_scan_module = pytest.importorskip("paimon_assets.spark.shortcuts.plain_scan")
tables = pytest.importorskip("paimon_assets.spark.dataframes.tables")
fn = pytest.importorskip("pyspark.sql.functions")
types = pytest.importorskip("pyspark.sql.types")

pytestmark = pytest.mark.spark

SETTING = plain_scan_module.READ_BY_WRITERS
MICROS = (-62_135_596_800_000_000, -14_825_000_000_123_456, -1, 0, 1, 253_402_300_799_999_999)
"""From year 1, over a day the calendars call differently, to year 9999."""
TYPES = {
    "yes": ("BOOLEAN", pa.bool_(), [True, False]),
    "tiny": ("TINYINT", pa.int8(), [-128, 127, 0]),
    "small": ("SMALLINT", pa.int16(), [-32768, 32767]),
    "whole": ("INT", pa.int32(), [-(2**31), 2**31 - 1]),
    "long": ("BIGINT", pa.int64(), [-(2**63), 2**63 - 1]),
    "single": ("FLOAT", pa.float32(), [float("nan"), -0.0, 0.0, float("inf"), 1.5e-45]),
    "real": ("DOUBLE", pa.float64(), [float("nan"), -0.0, 5e-324, float("-inf")]),
    "text": ("STRING", pa.string(), ["", "é\0", "😀" * 9, " a ", "a"]),
    "raw": ("BYTES", pa.binary(), [b"", b"\xff\0"]),
    "cents": ("DECIMAL(9, 2)", pa.decimal128(9, 2), [decimal.Decimal("-9999999.99")]),
    "euros": ("DECIMAL(18, 4)", pa.decimal128(18, 4), [decimal.Decimal("12345678901234.5678")]),
    "debts": ("DECIMAL(38, 10)", pa.decimal128(38, 10), [decimal.Decimal("-" + "9" * 28 + ".1")]),
    "day": ("DATE", pa.date32(), [dt.date(1, 1, 1), dt.date(1500, 2, 28), dt.date(9999, 12, 31)]),
    "local": ("TIMESTAMP(6)", pa.timestamp("us"), MICROS),
    "instant": ("TIMESTAMP(6) WITH LOCAL TIME ZONE", pa.timestamp("us", tz="UTC"), MICROS),
}
HOW = {
    "plain": {"row_group_size": 100},
    "old": {"version": "1.0", "use_dictionary": False, "compression": "none"},
    "small pages": {"data_page_size": 200, "data_page_version": "2.0", "compression": "zstd"},
    "numbers": {"store_decimal_as_integer": True, "write_statistics": False, "store_schema": False},
    "other": {"column_encoding": {"long": "DELTA_BINARY_PACKED"}, "use_dictionary": ["text"]},
}


def rows_of(count):
    """Return rows of all types, every seventh value null."""
    columns = {"n": pa.array(range(count), pa.int64())}
    for place, (name, (_, kind, values)) in enumerate(TYPES.items()):
        found = [
            None if (number + place) % 7 == 0 else values[number % len(values)]
            for number in range(count)
        ]
        columns[name] = pa.array(found, kind)
    return pa.table(columns)


def scan_of(frame):
    return plain_scan_module.plain_scan(frame, "/warehouse/db.db/t", FileIOSpec())


def write_frame(spark, table, frame, *, by_writers):
    """Write a frame, and return the table."""
    with session_with(spark, **{SETTING: str(by_writers).lower()}):
        tables.write_dataframe(table, frame)
    return table


def rows_in(table):
    """Return the rows of a table, in the order of its files; NaN is equal to itself."""
    return str(table.new_read_builder().to_arrow().to_pylist())


def entries_of(table):
    """Return the manifest entries without file names and times."""
    return sorted(
        entry._replace(file=entry.file._replace(file_name="", creation_time=0))
        for entry in table.state.live_files()
    )


def both_ways(spark, catalog, frame, columns, **schema):
    """Write a frame by tasks that read and by Spark's rows."""
    scanned, made = (
        write_frame(
            spark,
            catalog.create_table(f"db.{name}", Schema.of(columns, **schema)),
            frame,
            by_writers=name == "scanned",
        )
        for name in ("scanned", "made")
    )
    return scanned, made


COLUMNS = {"n": "BIGINT", **{name: kind for name, (kind, _, _) in TYPES.items()}}


@pytest.fixture
def folder(tmp_path):
    """Files of all types, in a folder with a name that URIs escape."""
    path = tmp_path / "a b%20é+"
    path.mkdir()
    for number, how in enumerate(HOW.values()):
        papq.write_table(rows_of(150 + 50 * number), path / f"{number}.parquet", **how)
    return path


def test_types_are_written_same(spark, new_catalog, folder):
    frame = spark.read.parquet(str(folder))
    assert scan_of(frame) is not None
    with session_with(spark, **{"spark.sql.session.timeZone": "America/St_Johns"}):
        scanned, made = both_ways(spark, new_catalog, frame, COLUMNS)
    assert entries_of(scanned) == entries_of(made)
    assert rows_in(scanned) == rows_in(made)
    assert len(scanned.new_read_builder().to_arrow()) == sum(150 + 50 * n for n in range(len(HOW)))


def test_spark_files_are_written_same(spark, new_catalog, folder, tmp_path):
    path = str(tmp_path / "of spark")
    with session_with(spark, **{"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS"}):
        spark.read.parquet(str(folder)).write.parquet(path)
    with session_with(spark, **{"spark.sql.parquet.datetimeRebaseModeInRead": "LEGACY"}):
        frame = spark.read.parquet(path)
        assert scan_of(frame) is not None  # Spark notes that it wrote today's calendar
        scanned, made = both_ways(spark, new_catalog, frame, COLUMNS)
    assert rows_in(scanned) == rows_in(made)


def test_columns_are_left_out_reordered_and_renamed(spark, new_catalog, folder):
    spark.read.parquet(str(folder)).createOrReplaceTempView("plain_scan_rows")
    frame = spark.sql("SELECT text AS n, local, tiny AS text FROM (SELECT * FROM plain_scan_rows)")
    assert scan_of(frame).names == ("text", "local", "tiny")
    again = frame.toDF("a", "b", "c").select("c", fn.col("B"), fn.col("c").alias("twice"))
    assert scan_of(again).names == ("tiny", "local", "tiny")
    columns = {"B": "TIMESTAMP(6)", "c": "TINYINT", "twice": "TINYINT"}
    scanned, made = both_ways(spark, new_catalog, again, columns)
    assert rows_in(scanned) == rows_in(made)


@pytest.mark.parametrize("pieces", ["2000b", "1g"])
def test_equal_keys_keep_same_row(spark, new_catalog, tmp_path, pieces):
    """Files are cut into pieces and taken in Spark's order, the largest first."""
    for number, count in enumerate([300, 900, 600]):
        rows = {"id": [n % 200 for n in range(count)], "value": [*range(count)], "file": [number]}
        rows["file"] *= count
        papq.write_table(pa.table(rows), tmp_path / f"{number}.parquet", row_group_size=90)
    settings = {"spark.sql.files.maxPartitionBytes": pieces, "spark.sql.files.openCostInBytes": "0"}
    with session_with(spark, **settings):
        frame = spark.read.parquet(str(tmp_path / "*.parquet"))
        found = scan_of(frame)
        assert (sum(map(len, found.tasks)) > 3) is (pieces == "2000b")
        columns = {"id": "BIGINT NOT NULL", "value": "BIGINT", "file": "BIGINT"}
        how = {"primary_keys": ["id"], "options": {"bucket": "2"}}
        scanned, made = both_ways(spark, new_catalog, frame, columns, **how)
    assert rows_in(scanned) == rows_in(made)
    assert entries_of(scanned) == entries_of(made)


def test_inserts_from_files_and_from_tables_are_plain_scans(spark, new_catalog, folder, caplog):
    spark_sql = pytest.importorskip("paimon_assets.sql.spark.spark_sql").spark_sql
    one, two = (new_catalog.create_table(f"db.{n}", Schema.of(COLUMNS)) for n in ("one", "two"))
    named = ", ".join(COLUMNS)
    with caplog.at_level(logging.DEBUG, logger=plain_scan_module.__name__):
        spark_sql(spark, new_catalog, f"INSERT INTO db.one SELECT {named} FROM parquet.`{folder}`")
        spark_sql(spark, new_catalog, "INSERT INTO db.two SELECT * FROM db.one")
    messages = [record.message for record in caplog.records]
    assert [message.startswith("tasks read the files") for message in messages] == [True, True]
    assert sorted(rows_in(one)) == sorted(rows_in(two))


@pytest.mark.way_out("file-changed")
def test_file_that_changes_before_tasks_read_it_is_error(spark, tmp_path):
    path = tmp_path / "rows.parquet"
    papq.write_table(pa.table({"a": [1, 2, 3]}), path)
    planned = scan_of(spark.read.parquet(str(path)))
    assert [len(batch) for batch in planned.batches(0, LocalFileIO())] == [3]
    papq.write_table(pa.table({"a": ["x", "y", "z"]}), path)
    with pytest.raises(FormatError, match="replaced while its rows") as caught:
        list(planned.batches(0, LocalFileIO()))
    assert caught.value.kind == "file-changed"
    again = scan_of(spark.read.parquet(str(path)))
    assert [len(batch) for batch in again.batches(0, LocalFileIO())] == [3]


def test_session_setting_disables_plain_scan(spark, folder):
    frame = spark.read.parquet(str(folder))
    with session_with(spark, **{SETTING: "false"}):
        assert scan_of(frame) is None
    assert scan_of(frame) is not None


def small(path, **columns):
    papq.write_table(pa.table(columns or {"a": [1, 2], "b": ["x", "y"]}), path / "0.parquet")
    return str(path)


COMPUTED = {
    "filter": lambda f: f.where("a > 1"),
    "limit": lambda f: f.limit(1),
    "column": lambda f: f.select((f.a + 1).alias("a")),
    "cast": lambda f: f.select(f.a.cast("int").alias("a")),
    "constant": lambda f: f.select("a", fn.lit(1).alias("one")),
    "nothing": lambda f: f.select(),
    "union": lambda f: f.union(f),
    "join": lambda f: f.join(f, "a"),
    "distinct": lambda f: f.distinct(),
    "sort": lambda f: f.sort("a"),
    "repartition": lambda f: f.repartition(2),
    "sample": lambda f: f.sample(0.5),
    "file name": lambda f: f.select("a", "_metadata.file_path"),
    "metadata": lambda f: f.select("a", "_metadata"),
    "task": lambda f: f.withColumn("task", fn.spark_partition_id()),
    "commented": lambda f: f.select(f.a.alias("a", metadata={"comment": "c"})),
}


@pytest.mark.parametrize("kind", [kind for kind in COMPUTED if kind != "commented"])
def test_computed_rows_are_made_by_spark(spark, tmp_path, kind):
    assert scan_of(COMPUTED[kind](spark.read.parquet(small(tmp_path)))) is None


OPTIONS = {
    "mergeSchema": "true",
    "pathGlobFilter": "*.parquet",
    "modifiedAfter": "2000-01-01T00:00:00",
    "modifiedBefore": "2100-01-01T00:00:00",
    "recursiveFileLookup": "true",
    "ignoreCorruptFiles": "true",
    "ignoreMissingFiles": "true",
    "basePath": None,
    "anything": "else",
}


@pytest.mark.parametrize("name", OPTIONS)
def test_options_of_reader_leave_it_to_spark(spark, tmp_path, name):
    path = small(tmp_path)
    assert scan_of(spark.read.option(name, OPTIONS[name] or path).parquet(path)) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("spark.sql.files.ignoreCorruptFiles", "true"),
        ("spark.sql.files.ignoreMissingFiles", "true"),
        ("parquet.crypto.factory.class", "org.example.Keys"),
    ],
)
def test_settings_of_session_leave_it_to_spark(spark, tmp_path, name, value):
    frame = spark.read.parquet(small(tmp_path))
    with session_with(spark, **{name: value}):
        assert scan_of(frame) is None


def test_days_of_unknown_calendars_are_read_by_spark(spark, tmp_path):
    """A foreign file names no calendar; the session and the reader do."""
    path = small(tmp_path, a=[1], d=pa.array([0], pa.date32()))
    mode = "spark.sql.parquet.datetimeRebaseModeInRead"
    for other in ("LEGACY", "EXCEPTION"):
        with session_with(spark, **{mode: other}):
            assert scan_of(spark.read.parquet(path)) is None
            assert scan_of(spark.read.parquet(path).select("a")) is not None
        assert scan_of(spark.read.option("datetimeRebaseMode", other).parquet(path)) is None


def test_days_of_old_calendar_are_read_by_spark(spark, tmp_path):
    days = spark.sql("SELECT DATE'1500-02-28' AS d, TIMESTAMP'1500-02-28 00:00:00' AS t, 1 AS n")
    settings = {
        "spark.sql.parquet.datetimeRebaseModeInWrite": "LEGACY",
        "spark.sql.parquet.int96RebaseModeInWrite": "LEGACY",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    }
    with session_with(spark, **settings):
        days.write.parquet(str(tmp_path / "old"))
    frame = spark.read.parquet(str(tmp_path / "old"))
    for column in ("d", "t"):
        assert scan_of(frame.select(column)) is None
    assert scan_of(frame.select("n")) is not None


INSTANT = pa.timestamp("us", tz="UTC")
STORED = {
    "INT96": ({"a": pa.array([0], pa.timestamp("us"))}, {"use_deprecated_int96_timestamps": True}),
    "milliseconds": ({"a": pa.array([0], pa.timestamp("ms"))}, {}),
    "unsigned": ({"a": pa.array([1], pa.uint32())}, {}),
    "unsigned byte": ({"a": pa.array([200], pa.uint8())}, {}),
    "unsigned long": ({"a": pa.array([2**63], pa.uint64())}, {}),
    "list": ({"a": [[1]]}, {}),
    "struct": ({"a": [{"b": 1}]}, {}),
    "map": ({"a": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64()))}, {}),
    "fixed bytes": ({"a": pa.array([b"ab"], pa.binary(2))}, {}),
    "dictionary": ({"a": pa.array(["x"]).dictionary_encode()}, {}),
    "duration": ({"a": pa.array([1], pa.duration("us"))}, {}),
    "names with dots": ({"a.b": [1]}, {}),
    "nulls alone": ({"a": pa.nulls(1)}, {}),
    "other zone": ({"a": pa.array([0], pa.timestamp("us", tz="Asia/Tokyo"))}, {}),
}


@pytest.mark.parametrize("kind", STORED)
def test_types_that_readers_read_differently_are_read_by_spark(spark, tmp_path, kind):
    columns, how = STORED[kind]
    papq.write_table(pa.table(columns), tmp_path / "0.parquet", **how)
    assert scan_of(spark.read.parquet(str(tmp_path))) is None


def schema_with(kind, **notes):
    return types.StructType().add("a", kind, nullable=True, metadata=notes)


DECLARED = {
    "another type": ({"a": [1]}, "a INT"),
    "a wider type": ({"a": pa.array([1], pa.int32())}, "a BIGINT"),
    "a wider decimal": ({"a": pa.array([decimal.Decimal("1.1")])}, "a DECIMAL(9, 1)"),
    "no zone": ({"a": pa.array([0], INSTANT)}, "a TIMESTAMP_NTZ"),
    "a zone": ({"a": pa.array([0], pa.timestamp("us"))}, "a TIMESTAMP"),
    "text as bytes": ({"a": ["x"]}, "a BINARY"),
    "bytes as text": ({"a": [b"x"]}, "a STRING"),
    "a column more": ({"a": [1]}, "a BIGINT, b STRING"),
    "another case": ({"a": [1]}, "A BIGINT"),
    "a default": ({"a": [1]}, schema_with("long", EXISTS_DEFAULT="3", CURRENT_DEFAULT="3")),
    "a field id": ({"a": [1]}, schema_with("long", **{"parquet.field.id": 1})),
    "a collation": ({"a": ["x"]}, schema_with("string", __COLLATIONS={"a": "spark.UTF8_LCASE"})),
    "a comment": ({"a": [1]}, "a BIGINT COMMENT 'c'"),
    "padded text": ({"a": ["x"]}, schema_with("string", __CHAR_VARCHAR_TYPE_STRING="char(3)")),
}


@pytest.mark.parametrize("kind", DECLARED)
def test_columns_unlike_their_files_are_read_by_spark(spark, tmp_path, kind):
    columns, declared = DECLARED[kind]
    assert scan_of(spark.read.schema(declared).parquet(small(tmp_path, **columns))) is None


def test_one_file_that_differs_leaves_all_to_spark(spark, tmp_path):
    for number, name in enumerate(["a", "a", "A"]):
        papq.write_table(pa.table({name: [number]}), tmp_path / f"{number}.parquet")
    frame = spark.read.schema("a BIGINT").parquet(str(tmp_path))
    assert scan_of(frame) is None
    (tmp_path / "2.parquet").unlink()
    assert scan_of(spark.read.schema("a BIGINT").parquet(str(tmp_path))) is not None


def test_names_that_differ_in_case_are_read_by_spark(spark, tmp_path):
    with session_with(spark, **{"spark.sql.caseSensitive": "true"}):
        frame = spark.read.parquet(small(tmp_path, a=[1], A=[2], b=[3]))
        assert scan_of(frame.select("a")) is None


def test_folders_that_are_columns_are_read_by_spark(spark, tmp_path):
    (tmp_path / "dt=1").mkdir()
    small(tmp_path / "dt=1")
    frame = spark.read.parquet(str(tmp_path))
    assert scan_of(frame) is None
    assert scan_of(frame.select("a")) is None


def test_files_that_changed_since_they_were_listed_are_read_by_spark(spark, tmp_path):
    frame = spark.read.parquet(small(tmp_path))
    assert scan_of(frame) is not None
    small(tmp_path, a=[1, 2, 3], b=["x", "y", "z"])
    assert scan_of(frame) is None
    (tmp_path / "0.parquet").unlink()
    assert scan_of(frame) is None


def test_rows_that_spark_keeps_are_taken_from_there(spark, tmp_path):
    path = small(tmp_path)
    frame, same = spark.read.parquet(path), spark.read.parquet(path).select("b")
    assert scan_of(same) is not None  # plans, before anything is kept
    frame.persist()
    try:
        assert scan_of(frame) is None
        assert scan_of(same) is None
    finally:
        frame.unpersist(blocking=True)
    assert scan_of(frame) is not None


def test_other_sources_are_read_by_spark(spark, tmp_path):
    path = small(tmp_path)
    frame = spark.read.parquet(path)
    frame.write.orc(str(tmp_path / "orc"))
    assert scan_of(spark.read.orc(str(tmp_path / "orc"))) is None
    assert scan_of(spark.createDataFrame([(1,)], "a INT")) is None
    spark.sql("SELECT INTERVAL '1' DAY AS a").write.parquet(str(tmp_path / "spans"))
    assert scan_of(spark.read.parquet(str(tmp_path / "spans"))) is None
    assert scan_of(spark.range(3)) is None
    assert scan_of(spark.read.schema("a BIGINT").parquet(str(tmp_path / "orc"))) is None
    stream = spark.readStream.schema("a BIGINT").parquet(path)
    assert scan_of(stream) is None


def test_tables_of_sparks_catalog_are_read_by_spark(spark, tmp_path):
    path = small(tmp_path)
    spark.sql(f"CREATE TABLE plain_scan_table (a BIGINT, b STRING) USING parquet LOCATION '{path}'")
    try:
        assert scan_of(spark.table("plain_scan_table")) is None
    finally:
        spark.sql("DROP TABLE plain_scan_table")


@pytest.mark.parametrize(
    ("paths", "table", "served"),
    [
        (["file:/a/b", "file:///c"], "s3://bucket/t", True),
        (["hdfs://one:8020/a"], "hdfs://one:8020/warehouse/t", True),
        (["hdfs://one:8020/a"], "hdfs://two:8020/warehouse/t", False),
        (["hdfs://one:8020/a", "file:/a"], "hdfs://one:8020/warehouse/t", False),
        (["s3a://bucket/a", "s3a://bucket/b/c"], "s3://bucket/t", True),
        (["s3a://bucket/a", "s3a://other/b"], "s3://bucket/t", False),
        (["s3a://here/a"], "s3://here/t", False),
        (["gs://bucket/a"], "gs://bucket/t", True),
        (["gs://bucket/a"], "s3://bucket/t", False),
        (["abfss://c@account.dfs.core.windows.net/a"], "abfss://c@other/t", False),
        (["dbfs:/a"], "/warehouse/t", False),
    ],
)
def test_files_of_other_storages_are_read_by_spark(paths, table, served):
    settings = {"fs.s3a.endpoint": "s3.eu-west-1.amazonaws.com"}
    settings |= {"fs.s3a.bucket.here.endpoint": "http://127.0.0.1:9000"}
    storage = plain_scan_module.storage_of(paths, table, FileIOSpec(), settings.get)
    assert (storage is not None) is served


@pytest.mark.parametrize(
    ("of_spark", "of_table", "served"),
    [
        ("http://minio:9000/", "minio:9000", True),
        ("http://minio:9000", "http://minio:9001", False),
        ("http://minio:9000", "", False),
        (None, "http://minio:9000", False),
        ("https://s3.amazonaws.com", "", True),
    ],
)
def test_bucket_of_another_endpoint_is_read_by_spark(of_spark, of_table, served):
    spec = FileIOSpec(scheme="s3", options={"s3.endpoint": of_table})
    settings = {"fs.s3a.endpoint": of_spark}
    storage = plain_scan_module.storage_of(["s3a://b/a"], "s3://b/t", spec, settings.get)
    assert (storage is not None) is served


def test_long_arrow_strings_are_written_same(spark, new_catalog, tmp_path):
    text = pa.array(["é", None, ""], pa.large_string())
    frame = spark.read.parquet(small(tmp_path, a=text, b=text.cast(pa.large_binary())))
    assert scan_of(frame) is not None
    scanned, made = both_ways(spark, new_catalog, frame, {"a": "STRING", "b": "BYTES"})
    assert rows_in(scanned) == rows_in(made)


def test_too_many_files_are_read_by_spark(spark, tmp_path, monkeypatch):
    for number in range(3):
        papq.write_table(pa.table({"a": [number]}), tmp_path / f"{number}.parquet")
    frame = spark.read.parquet(str(tmp_path))
    assert scan_of(frame) is not None
    monkeypatch.setattr(plain_scan_module, "_MOST_FILES", 2)
    assert scan_of(frame) is None
