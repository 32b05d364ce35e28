"""Dates and timestamps in Parquet files of others: what Spark itself may read, and equality."""

import datetime as dt
from itertools import cycle

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from paimon_assets.engine.embedded import EmbeddedExecutor
from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.spec.types.data_types import ArrayType, AtomicType, TypeRoot, timestamp
from paimon_assets.engine.table.segments.segment_import import SegmentSource

native_read = pytest.importorskip("paimon_assets.spark.shortcuts.native_read")
executor_module = pytest.importorskip("paimon_assets.spark.executor")

MOMENTS = (
    -62_135_596_800_000_000,  # the first day of year 1
    -14_825_000_000_123_456,  # 1500, a day the two calendars call differently
    -12_219_292_800_000_001,  # the last moment before the calendars met
    -2_208_988_800_000_001,  # before 1900, when zones had odd minutes
    -1,
    0,
    1_709_251_199_999_999,
    253_402_300_799_999_999,  # the last of year 9999
    None,
)
"""Microseconds since 1970."""
COLUMNS = {"n": "INT", "local": "TIMESTAMP(6)", "instant": "TIMESTAMP(6) WITH LOCAL TIME ZONE"}


def as_unit(unit, part=slice(None)):
    """Return one row a moment, of both kinds, in a unit."""
    kept = list(enumerate(MOMENTS))[part]
    micros = pa.array([moment for _, moment in kept], pa.timestamp("us"))
    local = pc.cast(micros, pa.timestamp(unit), safe=False)
    instant = pc.cast(local.cast(pa.int64()), pa.timestamp(unit, tz="UTC"))
    numbers = pa.array([number for number, _ in kept], pa.int32())
    return pa.table({"n": numbers, "local": local, "instant": instant})


MICROS, MILLIS = as_unit("us"), as_unit("ms")
MIXED = MICROS.set_column(1, "local", MILLIS.column("local"))


def in_micros(rows):
    """Return the rows in order, moments as microseconds."""
    columns = [rows.column("n").to_pylist()]
    for name in ("local", "instant"):
        column = rows.column(name)
        micros = column.cast(pa.timestamp("us", tz=column.type.tz)).cast(pa.int64())
        columns.append(micros.to_pylist())
    return sorted(zip(*columns, strict=True))


def imported(catalog, folder, *files, columns=COLUMNS):
    """Return a table of files of others: (rows, how to write them)."""
    folder.mkdir()
    for number, (rows, how) in enumerate(files):
        pq.write_table(rows, folder / f"{number}.parquet", **how)
    options = {"source.split.target-size": "1 kb"}  # a split a file
    table = catalog.create_table("db.times", Schema.of(columns, options=options))
    table.segments().add(SegmentSource(path=str(folder)), EmbeddedExecutor(threads=1))
    return table


def left_over(table, columns=None):
    """Return how many files are not read by Spark itself."""
    plan = table.new_read_builder().with_columns(columns).plan()
    assert native_read.columns_fit(plan.context)
    schemas = native_read.PlainSchemas.of(plan.context)
    plain = [split for split in plan.splits if native_read.is_plain(plan.context, split, schemas)]
    taken = native_read.with_plain_times(plan.context, plain)
    files = sum(len(split.data_files) for split in plan.splits)
    return files - sum(len(split.data_files) for split in taken)


@pytest.fixture
def zoned(spark):
    """Return how to give the session a time zone; the old one comes back."""
    before = spark.conf.get("spark.sql.session.timeZone")
    yield lambda zone: spark.conf.set("spark.sql.session.timeZone", zone)
    spark.conf.set("spark.sql.session.timeZone", before)


FILTERS = (
    None,
    "local < TIMESTAMP '1582-10-15 00:00:00'",
    "instant >= TIMESTAMP '1899-12-31 23:59:59.999999'",
    "instant < TIMESTAMP '1970-01-01 00:00:00.000500'",
    "local < TIMESTAMP '1970-01-01 00:00:00.000500' AND local > TIMESTAMP '1969-12-31 23:59:59'",
)


@pytest.mark.spark
def test_moments_read_alike(spark, zoned, new_catalog, tmp_path):
    table = imported(
        new_catalog,
        tmp_path / "in",
        (MICROS, {}),
        (MICROS, {"store_schema": False}),
        (MIXED, {}),
        (MIXED.slice(5, 1), {}),  # a file whose statistics say that it holds one moment
    )
    for zone, where in zip(cycle(["America/Los_Angeles", "Asia/Kolkata"]), FILTERS, strict=False):
        zoned(zone)
        read = table.new_read_builder().with_filter(where)
        plan = read.plan()
        native, left = native_read.read_natively(spark, plan.context, plan.splits)
        assert left == []
        by_spark, by_engine = in_micros(native.toArrow()), in_micros(read.to_arrow())
        assert by_spark == by_engine, where
        assert by_spark


@pytest.mark.spark
def test_what_spark_would_read_otherwise_is_the_engines(spark, new_catalog, tmp_path):
    files = ((MILLIS, {}), (MICROS.slice(3, 4), {"use_deprecated_int96_timestamps": True}))
    table = imported(new_catalog, tmp_path / "in", *files)
    executor = executor_module.SparkExecutor(spark)
    for where in (None, "instant < TIMESTAMP '1970-01-01 00:00:00.000500'"):
        read = table.new_read_builder().with_filter(where)
        plan = read.plan()
        assert native_read.read_natively(spark, plan.context, plan.splits)[0] is None
        frame = executor.to_dataframe(plan.context, plan.splits)
        assert in_micros(frame.toArrow()) == in_micros(read.to_arrow())


SPARK_2 = MICROS.replace_schema_metadata({"org.apache.spark.version": "2.4.8"})
SPARK_3 = MICROS.replace_schema_metadata({"org.apache.spark.version": "3.5.1"})
OLD_DAYS = SPARK_3.replace_schema_metadata(
    {"org.apache.spark.version": "3.5.1", "org.apache.spark.legacyDateTime": ""}
)


@pytest.mark.parametrize(
    ("rows", "how", "left"),
    [
        (MICROS, {}, {"local": 0, "instant": 0}),
        (SPARK_3, {}, {"local": 0, "instant": 0}),
        (MILLIS, {}, {"local": 0, "instant": 1}),
        (MICROS.slice(3, 4), {"use_deprecated_int96_timestamps": True}, {"local": 1, "instant": 1}),
        (as_unit("ns", slice(3, 7)), {}, {"local": 1, "instant": 1}),
        (SPARK_2, {}, {"n": 0, "local": 1, "instant": 1}),
        (OLD_DAYS, {}, {"n": 0, "local": 1, "instant": 1}),
    ],
    ids=["micros", "spark-3", "millis", "int96", "nanos", "spark-2", "old-days"],
)
def test_the_footer_tells_what_spark_may_read(new_catalog, tmp_path, rows, how, left):
    table = imported(new_catalog, tmp_path / "in", (rows, how))
    assert {name: left_over(table, ["n", name]) for name in left} == left


def test_files_finer_than_their_column_are_the_engines(new_catalog, tmp_path):
    columns = {**COLUMNS, "local": "TIMESTAMP(3)"}
    files = ((MICROS, {}), (MIXED, {}))
    table = imported(new_catalog, tmp_path / "in", *files, columns=columns)
    assert left_over(table, ["n", "local"]) == 1
    assert left_over(table, ["n", "instant"]) == 0


def test_timestamps_inside_of_others_and_days_of_the_old_calendar(new_catalog, tmp_path):
    listed = pa.table(
        {
            "many": pa.array([[dt.datetime(2024, 1, 1)]], pa.list_(pa.timestamp("us"))),
            "days": pa.array([[dt.date(1500, 1, 1)]], pa.list_(pa.date32())),
            "n": pa.array([1], pa.int32()),
        }
    )
    columns = {
        "many": ArrayType(element=timestamp(6)),
        "days": ArrayType(element=AtomicType(root=TypeRoot.DATE)),
        "n": "INT",
    }
    old = listed.replace_schema_metadata({"org.apache.spark.version": "2.4.8"})
    table = imported(new_catalog, tmp_path / "in", (listed, {}), (old, {}), columns=columns)
    assert left_over(table, ["many", "n"]) == 2
    assert left_over(table, ["days", "n"]) == 1
    assert left_over(table, ["n"]) == 0


def test_a_file_that_is_gone_is_left_to_the_engine_which_says_so(new_catalog, tmp_path):
    table = imported(new_catalog, tmp_path / "in", (MICROS, {}))
    plan = table.new_read_builder().plan()
    (tmp_path / "in" / "0.parquet").unlink()
    assert native_read.with_plain_times(plan.context, plan.splits) == []
