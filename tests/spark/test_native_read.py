"""Spark's own reader beside the engine's: which files it may read, and that rows are equal."""

import datetime as dt
from decimal import Decimal
from itertools import cycle
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_schema
from paimon_assets.engine.contract.split import DeletionFile
from paimon_assets.engine.embedded import EmbeddedExecutor
from paimon_assets.engine.errors import NotFoundError
from paimon_assets.engine.spec.evolution import schema_change as sc
from paimon_assets.engine.spec.predicate.predicate import And, CompareOp, Comparison, Or, bind
from paimon_assets.engine.spec.schema.schema import Schema, first_table_schema
from paimon_assets.engine.spec.types import data_types
from paimon_assets.engine.spec.types.type_text import parse_type
from paimon_assets.engine.table.read.where import parse_where
from paimon_assets.engine.table.segments.segment_import import SegmentSource
from tests.behaviour.test_executors import A_ROW, ALL_TYPES, NOTHING
from tests.testkit import foreign
from tests.testkit.predicate_truth import truth
from tests.testkit.rows import plain_rows
from tests.testkit.spark_settings import session_with
from tests.testkit.tables import new_table, write

INSTANT = parse_type("TIMESTAMP(3) WITH LOCAL TIME ZONE")
condition = pytest.importorskip("paimon_assets.spark.shortcuts.native_read.condition")
plain_files = pytest.importorskip("paimon_assets.spark.shortcuts.native_read.plain_files")
native_scans = pytest.importorskip("paimon_assets.spark.shortcuts.native_read.scans")
sql = pytest.importorskip("paimon_assets.sql.spark.spark_sql")
executor_module = pytest.importorskip("paimon_assets.spark.executor")
error_inside = pytest.importorskip("paimon_assets.spark.failure").error_inside

COLUMNS = {"id": "BIGINT", "part": "STRING", "value": "INT"}
PLAIN_TYPES = {name: kind for name, kind in ALL_TYPES.items() if name != "time"}
ORC_NAMES = ("flag", "tiny", "small", "number", "big", "real", "double", "price", "text", "raw")
ORC_TYPES = {name: ALL_TYPES[name] for name in ORC_NAMES}


def some_rows(count=9):
    return [{"id": n, "part": "ab"[n % 2], "value": n or None} for n in range(count)]


def ways(session, read):
    """Return the rows of a read as Spark's reader, and as the engine gives them."""
    plan = read.plan()
    native, left = native_scans.read_natively(session, plan.context, plan.splits)
    assert native is not None
    assert left == []
    assert native.columns == list(plan.context.columns)
    return (
        plain_rows(native.toArrow(), plan.context.columns),
        plain_rows(read.to_arrow(), plan.context.columns),
    )


@pytest.mark.spark
def test_types_read_same(spark, new_catalog):
    early = {**A_ROW, "day": dt.date(1500, 2, 28), "local": dt.datetime(1700, 1, 1)}
    rows = [A_ROW, NOTHING, early]
    listed = [{name: row[name] for name in PLAIN_TYPES} for row in rows]
    table = new_table(new_catalog, PLAIN_TYPES, *listed)
    by_spark, by_engine = ways(spark, table.new_read_builder())
    assert by_spark == by_engine


@pytest.mark.spark
def test_orc_files_read_same(spark, new_catalog):
    listed = [{name: row[name] for name in ORC_TYPES} for row in (A_ROW, NOTHING)]
    table = new_table(new_catalog, ORC_TYPES, *listed, options={"file.format": "orc"})
    table = table.alter(
        [
            sc.RenameColumn(field_names=("number",), new_name="whole"),
            sc.AddColumn(field_names=("late",), data_type=data_types.bigint()),
        ]
    )
    for where in (None, "whole IS NULL", "whole > -1000 AND late IS NULL"):
        by_spark, by_engine = ways(spark, table.new_read_builder().with_filter(where))
        assert by_spark == by_engine
        assert by_engine


@pytest.mark.spark
def test_filter_between_two_milliseconds_loses_no_row(spark, new_catalog):
    columns = {**COLUMNS, "local": "TIMESTAMP(3)", "instant": "TIMESTAMP(3) WITH LOCAL TIME ZONE"}
    start = {"local": dt.datetime(1970, 1, 1), "instant": dt.datetime(1970, 1, 1, tzinfo=dt.UTC)}
    table = new_table(new_catalog, columns, *({**row, **start} for row in some_rows()))
    session_reads = spark.read.format("paimon_assets").load(table.path)
    frame = executor_module.SparkExecutor(spark).to_dataframe
    for name, literal in (("local", "TIMESTAMP_NTZ"), ("instant", "TIMESTAMP_LTZ")):
        plan = table.new_read_builder().with_columns(["id", name]).plan()
        for rows in (frame(plan.context, plan.splits), session_reads):
            assert rows.where(f"{name} < {literal} '1970-01-01 00:00:00.0005Z'").count() == 9
        assert (
            table.new_read_builder()
            .with_filter(f"{name} < TIMESTAMP '1970-01-01 00:00:00.0005'")
            .to_arrow()
            .num_rows
            == 9
        )
        native = native_scans.read_natively(spark, plan.context, plan.splits)[0]
        assert (native is not None) is (name == "local")


@pytest.mark.parametrize(
    "fine", ["DATE", "TIMESTAMP(3)", "CHAR(3)", data_types.ArrayType(element=data_types.integer())]
)
def test_engine_reads_types_that_orc_writers_differ_on(new_catalog, fine):
    options = {"file.format": "orc"}
    table = new_table(new_catalog, {**COLUMNS, "fine": fine}, *some_rows(), options=options)
    for columns, plain in ((None, False), (["id", "part"], True)):
        plan = table.new_read_builder().with_columns(columns).plan()
        schemas = plain_files.PlainSchemas.of(plan.context)
        assert plain_files.is_plain(plan.context, plan.splits[0], schemas) is plain


@pytest.mark.parametrize("fine", [INSTANT, data_types.ArrayType(element=INSTANT)])
def test_engine_reads_orc_files_with_instants(new_catalog, fine):
    options = {"file.format": "orc", "orc.timestamp-ltz.legacy.type": "false"}
    table = new_table(new_catalog, {**COLUMNS, "fine": fine}, *some_rows(), options=options)
    plan = table.new_read_builder().with_columns(["id", "part"]).plan()
    schemas = plain_files.PlainSchemas.of(plan.context)
    assert not plain_files.is_plain(plan.context, plan.splits[0], schemas)


def test_column_that_spark_fills_with_row_numbers_is_left_to_engine(spark, new_catalog):
    columns = {"id": "BIGINT", "_tmp_metadata_row_index": "BIGINT"}
    rows = [{"id": 1, "_tmp_metadata_row_index": 70}, {"id": 2, "_tmp_metadata_row_index": 80}]
    table = new_table(new_catalog, columns, *rows, options={"file.format": "parquet"})
    plan = table.new_read_builder().plan()
    assert native_scans.read_natively(spark, plan.context, plan.splits)[0] is None
    frame = executor_module.SparkExecutor(spark).to_dataframe(plan.context, plan.splits)
    assert plain_rows(frame.toArrow(), list(columns)) == plain_rows(
        table.new_read_builder().to_arrow(), list(columns)
    )


@pytest.mark.spark
@pytest.mark.parametrize(
    "keys",
    [
        {"part": "STRING"},
        {"day": "DATE", "small": "SMALLINT"},
        {"flag": "BOOLEAN", "text": "STRING"},
    ],
)
def test_partition_columns_come_from_metadata(spark, new_catalog, keys):
    values = {
        "part": ["b/ä =%", " ", None],
        "text": ["x", "__DEFAULT_PARTITION__", "{a}*?"],
        "day": [dt.date(2024, 2, 29), None, dt.date(1, 1, 1)],
        "small": [1, -2, None],
        "flag": [True, False, None],
    }
    rows = [{"id": n, **{name: values[name][n] for name in keys}} for n in range(3)]
    table = new_table(new_catalog, {"id": "BIGINT", **keys}, *rows, partition_keys=list(keys))
    plan = table.new_read_builder().plan()
    assert len(plan.splits) == 3
    for columns in (None, [*keys, "id"]):
        by_spark, by_engine = ways(spark, table.new_read_builder().with_columns(columns))
        assert by_spark == by_engine


WHERE = [
    "id > 3 AND value IN (4, 5, 100)",
    "value IS NULL OR part = 'b'",
    "part LIKE 'a%' AND value <> 4",
    "part NOT LIKE '%b_' AND part LIKE '_%'",
    r"part LIKE '\%' OR part LIKE 'a%'",
    "value NOT IN (1, 2)",
    "price < 1.255 AND price >= -1",
    "day BETWEEN '1969-12-31' AND '1970-01-02'",
    "local > '1969-12-31 23:59:59.999999' AND instant <= '1970-01-01 00:00:04'",
    "flag = true",
]


@pytest.mark.spark
@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_predicates_pass_same_rows(spark, new_catalog, zone):
    types = {
        **COLUMNS,
        "price": "DECIMAL(10, 2)",
        "day": "DATE",
        "local": "TIMESTAMP(6)",
        "instant": "TIMESTAMP(6) WITH LOCAL TIME ZONE",
        "flag": "BOOLEAN",
    }
    epoch = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    rows = [
        {
            **row,
            "price": Decimal(row["id"]) / 4 - 1,
            "day": dt.date(1969, 12, 28) + dt.timedelta(days=row["id"]),
            "local": epoch.replace(tzinfo=None) + dt.timedelta(microseconds=row["id"] - 3),
            "instant": epoch + dt.timedelta(seconds=row["id"]),
            "flag": row["id"] % 3 == 0,
        }
        for row in some_rows()
    ]
    table = new_table(new_catalog, types, *rows, dict.fromkeys(types))
    with session_with(spark, **{"spark.sql.session.timeZone": zone}):
        for text in WHERE:
            read = table.new_read_builder().with_columns(["id", "flag"]).with_filter(text)
            by_spark, by_engine = ways(spark, read)
            assert (by_spark, bool(by_engine)) == (by_engine, True), text


@pytest.mark.spark
def test_engine_reads_older_schemas_and_merges(spark, new_catalog):
    table = new_table(new_catalog, COLUMNS, *some_rows(), options={"file.format": "parquet"})
    table = table.alter(
        [
            sc.RenameColumn(field_names=("value",), new_name="amount"),
            sc.UpdateColumnType(field_names=("amount",), new_data_type=data_types.bigint()),
            sc.AddColumn(field_names=("extra",), data_type=data_types.string()),
        ]
    )
    write(table, {"id": 50, "part": "c", "amount": 2**40, "extra": "new"})
    executor = executor_module.SparkExecutor(spark)
    plan = table.new_read_builder().plan()
    native, left = native_scans.read_natively(spark, plan.context, plan.splits)
    assert (native is None) == (len(left) == len(plan.splits))
    frame = executor.to_dataframe(plan.context, plan.splits)
    expected = plain_rows(table.new_read_builder().to_arrow(), plan.context.columns)
    assert plain_rows(frame.toArrow(), plan.context.columns) == expected
    kept = table.new_read_builder().with_columns(["part", "id"])
    by_spark, by_engine = ways(spark, kept)
    assert (by_spark, len(by_engine)) == (by_engine, 10)


def foreign_folder(home, days=20):
    """Write foreign files: a folder a day, and one of no day."""
    for day in [*range(days), "__HIVE_DEFAULT_PARTITION__"]:
        at = home / f"part=b%2F {day}" / f"day={day}"
        for part in range(2):
            rows = {"amount": pa.array([part, None], pa.int32()), "id": pa.array([part, 7])}
            foreign.write(at / f"{part}.parquet", pa.table(rows))
    return SegmentSource(path=str(home), partition="part:string,day:int")


@pytest.mark.spark
def test_partition_folder_with_renamed_columns_is_one_scan(spark, new_catalog, tmp_path):
    columns = {"id": "BIGINT", "amount": "INT", "part": "STRING", "day": "INT"}
    table = new_table(new_catalog, columns, partition_keys=["part", "day"])
    table.segments().add(foreign_folder(tmp_path / "home"), EmbeddedExecutor())
    table = table.alter(
        [
            sc.RenameColumn(field_names=("amount",), new_name="x"),
            sc.RenameColumn(field_names=("id",), new_name="amount"),
            sc.RenameColumn(field_names=("x",), new_name="id"),
            sc.AddColumn(field_names=("extra",), data_type=data_types.string()),
        ]
    )
    write(table, {"amount": 9, "id": 1, "extra": "e", "part": "own", "day": 3})
    everything = table.new_read_builder()
    by_spark, by_engine = ways(spark, everything)
    assert (by_spark, len(by_engine)) == (by_engine, 85)
    plan = everything.plan()
    scans = native_scans.plan_scans(plan.context, plan.splits)
    assert sorted(len(paths) for paths in scans.values()) == [1, 42]
    assert {scan.base is None for scan in scans} == {False}
    for columns in (["extra", "day"], ["id"], ["day", "amount", "part"]):
        read = table.new_read_builder().with_columns(columns)
        read = read.with_filter("amount = 7 AND day > 17 OR extra = 'e'")
        by_spark, by_engine = ways(spark, read)
        assert (by_spark, len(by_engine)) == (by_engine, 5)


@pytest.mark.spark
def test_partitions_without_folders_are_scans_up_to_limit(spark, new_catalog):
    rows = [{"id": n, "day": dt.date(2024, 1, 1 + n)} for n in range(18)]
    # Folders of dates are called by day numbers, which Spark would not take for dates.
    table = new_table(new_catalog, {"id": "BIGINT", "day": "DATE"}, *rows, partition_keys=["day"])
    plan = table.new_read_builder().plan()
    native, left = native_scans.read_natively(spark, plan.context, plan.splits)
    assert (native.count(), len(left)) == (16, 2)
    frame = executor_module.SparkExecutor(spark).to_dataframe(plan.context, plan.splits)
    expected = plain_rows(table.new_read_builder().to_arrow(), ("id", "day"))
    assert plain_rows(frame.toArrow(), ("id", "day")) == expected
    by_spark, by_engine = ways(spark, table.new_read_builder().with_columns(["id"]))
    assert by_spark == by_engine


@pytest.mark.spark
def test_session_keeps_its_listing_setting(spark, new_catalog):
    setting = "spark.sql.sources.parallelPartitionDiscovery.threshold"
    before = spark.conf.get(setting)
    ways(spark, new_table(new_catalog, COLUMNS, *some_rows()).new_read_builder())
    assert spark.conf.get(setting) == before


@pytest.mark.parametrize(
    ("folder", "base"),
    [
        ("/t/n=x/d=1", "/t"),
        ("hdfs://h/t/n=x/d=1/bucket-0", "hdfs://h/t"),
        ("/a=b/n=x/d=1", "/a=b"),
        ("/t/n=%78/d=1", "/t"),
        ("/t/n=x/d=01", None),
        ("/t/d=1/n=x", None),
        ("/t/n=x/d=1/e=2", None),
        ("/t/n=x/d=1/more/bucket-0", None),
        ("/t/N=x/d=1", None),
        ("d=1", None),
    ],
)
def test_folders_name_partitions_as_spark(folder, base):
    assert native_scans.base_of(folder, {"n": "x", "d": "1"}) == base


@pytest.mark.spark
def test_missing_file_raises_same_error(spark, new_catalog, warehouse):
    table = new_table(new_catalog, COLUMNS, *some_rows())
    plan = table.new_read_builder().plan()
    executor = executor_module.SparkExecutor(spark)
    planned = executor.to_dataframe(plan.context, plan.splits)
    assert planned.count() == 9
    next(Path(warehouse).rglob("data-*.parquet")).unlink()
    for frame in (planned, executor.to_dataframe(plan.context, plan.splits)):
        with pytest.raises(Exception, match=r"data-") as caught:
            frame.collect()
        error = error_inside(caught.value)
        assert isinstance(error, NotFoundError)
        assert error.kind == "file-not-found"


@pytest.mark.spark
def test_second_read_reuses_relation_and_joins(spark, new_catalog):
    table = new_table(new_catalog, COLUMNS, *some_rows())

    def frame(where):
        plan = table.new_read_builder().with_filter(where).plan()
        return native_scans.read_natively(spark, plan.context, plan.splits)[0]

    def relation_of(rows):
        plan = rows._jdf.queryExecution().analyzed().collectLeaves().head()
        return plan.relation()

    first, second = frame("id < 4"), frame("id > 1")
    of_jvm = spark._jvm.java.lang.System.identityHashCode
    assert of_jvm(relation_of(first)) == of_jvm(relation_of(second))
    joined = first.join(second, first.id == second.id + 1)
    assert sorted(row[0] for row in joined.select(first.id).collect()) == [3]
    write(table, {"id": 9, "part": "a", "value": 1})
    assert sorted(row.id for row in frame("id > 7").collect()) == [8, 9]


@pytest.mark.spark
def test_least_recently_used_relations_are_dropped(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(native_scans, "_relations", native_scans.SessionCache(2))
    made = []

    def read(key):
        def load():
            made.append(key)
            return spark.read.schema("a BIGINT").parquet(str(tmp_path))

        native_scans.cached_relation(spark, key, load)

    for key in ("a", "b", "a", "c", "a", "b"):
        read(key)
    assert made == ["a", "b", "c", "b"]


@pytest.mark.spark
def test_refreshed_files_of_segment_are_read_again(spark, new_catalog, tmp_path):
    folder = tmp_path / "segment"
    folder.mkdir()

    def replace(values):
        pq.write_table(pa.table({"value": values}), folder / "1.parquet")

    replace([1, 2, 3])
    table = new_table(new_catalog, {"value": "BIGINT"})
    table.segments().add(SegmentSource(path=str(folder)), EmbeddedExecutor())

    def values():
        plan = table.new_read_builder().plan()
        native, left = native_scans.read_natively(spark, plan.context, plan.splits)
        assert left == []
        return sorted(row.value for row in native.collect())

    assert values() == [1, 2, 3]
    replace(list(range(1000)))
    table.segments().refresh([0], EmbeddedExecutor())
    assert values() == list(range(1000))


@pytest.mark.spark
def test_file_replaced_after_planning_is_refused_by_tasks(spark, new_catalog, tmp_path):
    """The way out of docs/guarantees.md; Spark's own reader takes the other file's rows."""
    folder = tmp_path / "segment"
    folder.mkdir()

    def replace(values):
        pq.write_table(pa.table({"value": values}), folder / "new", compression="none")
        (folder / "new").rename(folder / "1.parquet")

    replace([1, 2, 3])
    table = new_table(new_catalog, {"value": "BIGINT"})
    table.segments().add(SegmentSource(path=str(folder)), EmbeddedExecutor())
    plan, executor = table.new_read_builder().plan(), executor_module.SparkExecutor(spark)
    with session_with(spark, **{native_scans.NATIVE_READ: "false"}):
        by_tasks = executor.to_dataframe(plan.context, plan.splits)
    natively = executor.to_dataframe(plan.context, plan.splits)
    replace([4, 5, 6])
    with pytest.raises(Exception, match="was replaced while it was read") as caught:
        by_tasks.collect()
    assert error_inside(caught.value).kind == "file-replaced"
    assert sorted(row.value for row in natively.collect()) == [4, 5, 6]


@pytest.mark.spark
def test_setting_disables_native_reads(spark, new_catalog):
    plan = new_table(new_catalog, COLUMNS, *some_rows()).new_read_builder().plan()
    with session_with(spark, **{native_scans.NATIVE_READ: "false"}):
        native, left = native_scans.read_natively(spark, plan.context, plan.splits)
    assert (native, left) == (None, list(plan.splits))


def context_and_split(catalog, **kwargs):
    plan = new_table(catalog, COLUMNS, *some_rows(), **kwargs).new_read_builder().plan()
    return plan.context, plan.splits[0]


DELETIONS = DeletionFile(path="/w/index-1", offset=1, length=30)


@pytest.mark.parametrize(
    ("of_split", "of_file"),
    [
        ({"deletion_files": (DELETIONS,)}, {}),
        ({"is_streaming": True}, {}),
        ({"bucket_path": "/w/dt={a}/bucket-0"}, {}),
        ({"bucket_path": "gs://bucket/t/bucket-0"}, {}),
        ({}, {"file_name": "data-1.avro"}),
        ({}, {"file_name": "_data-1.parquet"}),
        ({}, {"write_cols": ("id",)}),
        ({}, {"schema_id": 7}),
    ],
)
def test_engine_reads_files_unlike_schema(new_catalog, of_split, of_file):
    context, split = context_and_split(new_catalog)
    schemas = plain_files.PlainSchemas.of(context)
    assert plain_files.is_plain(context, split, schemas)
    files = tuple(file._replace(**of_file) for file in split.data_files)
    assert not plain_files.is_plain(
        context, msgspec.structs.replace(split, data_files=files, **of_split), schemas
    )


@pytest.mark.parametrize(("deleted", "raw"), [(None, True), (1, True), (0, False)])
def test_engine_reads_buckets_to_merge(new_catalog, deleted, raw):
    context, split = context_and_split(new_catalog, primary_keys=["id"], options={"bucket": "1"})
    rewritten = [
        msgspec.structs.replace(
            split,
            raw_convertible=is_raw,
            data_files=tuple(file._replace(delete_row_count=count) for file in split.data_files),
        )
        for is_raw, count in ((True, 0), (raw, deleted))
    ]
    schemas = plain_files.PlainSchemas.of(context)
    assert [plain_files.is_plain(context, each, schemas) for each in rewritten] == [True, False]


@pytest.mark.parametrize(
    ("extra", "alike"),
    [
        ("TIMESTAMP(9)", False),
        ("TIMESTAMP(3) WITH LOCAL TIME ZONE", False),
        ("TIMESTAMP(3)", True),
        (data_types.ArrayType(element=data_types.integer()), True),
        ("TIME(3)", False),
        ("DOUBLE", True),
    ],
)
def test_engine_reads_types_that_readers_differ_on(new_catalog, extra, alike):
    table = new_table(new_catalog, {**COLUMNS, "extra": extra})
    fits = plain_files.columns_fit(table.new_read_builder().plan().context)
    assert fits is alike
    assert plain_files.columns_fit(table.new_read_builder().with_columns(["id"]).plan().context)


TIMES_OF_NOTE = (
    -62_135_596_800_000_000,  # the first day of year 1
    -14_825_000_000_123_456,  # 1500, a day the two calendars call differently
    -12_219_292_800_000_001,  # the last microsecond before the calendars agree
    -2_208_988_800_000_001,  # before 1900, when zones had odd minutes
    -1,
    0,
    1_709_251_199_999_999,
    253_402_300_799_999_999,  # the last of year 9999
    None,
)
"""Microseconds since 1970."""
TIMES = {"n": "INT", "local": "TIMESTAMP(6)", "instant": "TIMESTAMP(6) WITH LOCAL TIME ZONE"}


def as_unit(unit, part=slice(None)):
    """Return one row a time, of both kinds, in a unit."""
    kept = list(enumerate(TIMES_OF_NOTE))[part]
    micros = pa.array([time for _, time in kept], pa.timestamp("us"))
    local = pc.cast(micros, pa.timestamp(unit), safe=False)
    instant = pc.cast(local.cast(pa.int64()), pa.timestamp(unit, tz="UTC"))
    numbers = pa.array([number for number, _ in kept], pa.int32())
    return pa.table({"n": numbers, "local": local, "instant": instant})


MICROS, MILLIS = as_unit("us"), as_unit("ms")
MIXED = MICROS.set_column(1, "local", MILLIS.column("local"))


def in_micros(rows):
    """Return the rows in order, times as microseconds."""
    columns = [rows.column("n").to_pylist()]
    for name in ("local", "instant"):
        column = rows.column(name)
        micros = column.cast(pa.timestamp("us", tz=column.type.tz)).cast(pa.int64())
        columns.append(micros.to_pylist())
    return sorted(zip(*columns, strict=True))


def import_files(catalog, folder, *files, columns=TIMES):
    """Return a table of foreign files: (rows, options of their writer)."""
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
    assert plain_files.columns_fit(plan.context)
    schemas = plain_files.PlainSchemas.of(plan.context)
    plain = [split for split in plan.splits if plain_files.is_plain(plan.context, split, schemas)]
    taken = plain_files.with_plain_footers(plan.context, plain)
    files = sum(len(split.data_files) for split in plan.splits)
    return files - sum(len(split.data_files) for split in taken)


FILTERS = (
    None,
    "local < TIMESTAMP '1582-10-15 00:00:00'",
    "instant >= TIMESTAMP '1899-12-31 23:59:59.999999'",
    "instant < TIMESTAMP '1970-01-01 00:00:00.000500'",
    "local < TIMESTAMP '1970-01-01 00:00:00.000500' AND local > TIMESTAMP '1969-12-31 23:59:59'",
)


@pytest.mark.spark
def test_times_read_same(spark, new_catalog, tmp_path):
    table = import_files(
        new_catalog,
        tmp_path / "in",
        (MICROS, {}),
        (MICROS, {"store_schema": False}),
        (MIXED, {}),
        (MIXED.slice(5, 1), {}),  # a file whose statistics bound one time
    )
    for zone, where in zip(cycle(["America/Los_Angeles", "Asia/Kolkata"]), FILTERS, strict=False):
        read = table.new_read_builder().with_filter(where)
        plan = read.plan()
        with session_with(spark, **{"spark.sql.session.timeZone": zone}):
            native, left = native_scans.read_natively(spark, plan.context, plan.splits)
            assert left == []
            by_spark, by_engine = in_micros(native.toArrow()), in_micros(read.to_arrow())
        assert by_spark == by_engine, where
        assert by_spark


@pytest.mark.spark
def test_engine_reads_types_spark_differs_on(spark, new_catalog, tmp_path):
    files = ((MILLIS, {}), (MICROS.slice(3, 4), {"use_deprecated_int96_timestamps": True}))
    table = import_files(new_catalog, tmp_path / "in", *files)
    executor = executor_module.SparkExecutor(spark)
    for where in (None, "instant < TIMESTAMP '1970-01-01 00:00:00.000500'"):
        read = table.new_read_builder().with_filter(where)
        plan = read.plan()
        assert native_scans.read_natively(spark, plan.context, plan.splits)[0] is None
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
def test_footer_decides_about_spark(new_catalog, tmp_path, rows, how, left):
    table = import_files(new_catalog, tmp_path / "in", (rows, how))
    assert {name: left_over(table, ["n", name]) for name in left} == left


def test_engine_reads_files_finer_than_column(new_catalog, tmp_path):
    columns = {**TIMES, "local": "TIMESTAMP(3)"}
    files = ((MICROS, {}), (MIXED, {}))
    table = import_files(new_catalog, tmp_path / "in", *files, columns=columns)
    assert left_over(table, ["n", "local"]) == 1
    assert left_over(table, ["n", "instant"]) == 0


def test_nested_timestamps_and_days_of_old_calendar(new_catalog, tmp_path):
    listed = pa.table(
        {
            "many": pa.array([[dt.datetime(2024, 1, 1)]], pa.list_(pa.timestamp("us"))),
            "days": pa.array([[dt.date(1500, 1, 1)]], pa.list_(pa.date32())),
            "n": pa.array([1], pa.int32()),
        }
    )
    columns = {
        "many": data_types.ArrayType(element=data_types.timestamp(6)),
        "days": data_types.ArrayType(element=data_types.AtomicType(root=data_types.TypeRoot.DATE)),
        "n": "INT",
    }
    old = listed.replace_schema_metadata({"org.apache.spark.version": "2.4.8"})
    table = import_files(new_catalog, tmp_path / "in", (listed, {}), (old, {}), columns=columns)
    assert left_over(table, ["many", "n"]) == 2
    assert left_over(table, ["days", "n"]) == 1
    assert left_over(table, ["n"]) == 0


def test_engine_raises_for_missing_file(new_catalog, tmp_path):
    table = import_files(new_catalog, tmp_path / "in", (MICROS, {}))
    plan = table.new_read_builder().plan()
    (tmp_path / "in" / "0.parquet").unlink()
    assert plain_files.with_plain_footers(plan.context, plan.splits) == []


fn = pytest.importorskip("pyspark.sql.functions")

VALUES = {
    "DATE": [dt.date(1, 1, 1), dt.date(1500, 2, 28), dt.date(1582, 10, 10), dt.date(9999, 12, 31)],
    "DECIMAL(38, 18)": [
        Decimal("31220790540110890334.307305486952057721"),
        Decimal("31220790540110890334.307305486952057722"),
        Decimal("-0.000000000000000001"),
    ],
    "TIMESTAMP(6)": [dt.datetime(1, 1, 1), dt.datetime(1582, 10, 10, 1, 2, 3, 4)],
    "BIGINT": [2**63 - 1, -(2**63)],
    "STRING": ["", "a'b\\n", "\U0010ffff"],
}
SCHEMA = first_table_schema(
    Schema.of({f"c{number}": text for number, text in enumerate(VALUES)}), time_millis=0
)


@pytest.mark.parametrize("join", [And, Or])
def test_engine_applies_wide_filters(join):
    wide = join(tuple(Comparison("c4", CompareOp.NE, str(number)) for number in range(5_000)))
    assert condition.to_condition(bind(wide, SCHEMA), SCHEMA) is None


@pytest.mark.parametrize("text", ["lower(c4) = 'x'", "c4 = 'x' OR NOT CAST(c4 AS INT) = 1"])
def test_engine_applies_functions(text):
    assert condition.to_condition(bind(parse_where(text), SCHEMA), SCHEMA) is None


@pytest.mark.spark
def test_same_rows_pass_filter(spark):
    most = max(map(len, VALUES.values()))
    columns = [[*values, *[None] * (most - len(values))] for values in VALUES.values()]
    names = SCHEMA.field_names
    rows = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
    arrow = pa.Table.from_pylist(rows, schema=to_arrow_schema(SCHEMA.fields))
    frame = spark.createDataFrame(arrow).persist()
    questions = [
        Comparison(name, op, value)
        for name, values in zip(names, VALUES.values(), strict=True)
        for value in values
        for op in (CompareOp.EQ, CompareOp.LT, CompareOp.GE)
    ]
    conditions = [condition.to_condition(bind(question, SCHEMA), SCHEMA) for question in questions]
    assert all(condition is not None for condition in conditions)
    (counts,) = frame.select(
        *(fn.expr(f"count_if({condition})") for condition in conditions)
    ).collect()
    expected = [sum(truth(question, row) is True for row in rows) for question in questions]
    assert list(counts) == expected
    frame.unpersist()
