"""Appends by Spark's own writer: files, their metadata and errors are those of tasks of ours."""

import datetime as dt
import decimal
import logging
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as papq
import pytest

from paimon_assets import open_catalog
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.evolution.schema_change import update_column_default_value
from paimon_assets.engine.spec.schema.schema import Schema
from tests.testkit.spark_settings import session_with

types_module = pytest.importorskip("paimon_assets.spark.types")
native = pytest.importorskip("paimon_assets.spark.shortcuts.native_write")
tables = pytest.importorskip("paimon_assets.spark.dataframes.tables")
merge = pytest.importorskip("paimon_assets.spark.dataframes.merge")
errors = pytest.importorskip("pyspark.errors")
fn = pytest.importorskip("pyspark.sql.functions")
types = pytest.importorskip("pyspark.sql.types")
sql = pytest.importorskip("pyspark.sql")

pytestmark = pytest.mark.spark

MICROS = (-62_135_596_800_000_000, -14_825_000_000_123_456, -1, 0, 1, 253_402_300_799_999_999)
"""From year 1, over a day the calendars call differently, to year 9999."""
TYPES = {
    "yes": ("BOOLEAN", pa.bool_(), [True, False]),
    "tiny": ("TINYINT", pa.int8(), [-128, 127, 0]),
    "small": ("SMALLINT", pa.int16(), [-32768, 32767]),
    "whole": ("INT", pa.int32(), [-(2**31), 2**31 - 1]),
    "long": ("BIGINT", pa.int64(), [-(2**63), 2**63 - 1]),
    "single": ("FLOAT", pa.float32(), [-0.0, 0.0, float("inf"), 1.5e-45]),
    "real": ("DOUBLE", pa.float64(), [0.0, -0.0, 5e-324, float("-inf")]),
    "unreal": ("DOUBLE", pa.float64(), [1.0, float("nan"), -0.0]),
    "zero": ("DOUBLE", pa.float64(), [0.0, 0.0]),
    "text": ("STRING", pa.string(), ["", "é\0", "😀" * 19, " a ", "a"]),
    "short": ("VARCHAR(3)", pa.string(), ["", "é😀é", "a "]),
    "fixed": ("CHAR(3)", pa.string(), ["abc", "é  ", "a"]),
    "raw": ("BYTES", pa.binary(), [b"", b"\xff\0"]),
    "few": ("VARBINARY(2)", pa.binary(), [b"", b"\xff\0"]),
    "cents": ("DECIMAL(9, 2)", pa.decimal128(9, 2), [decimal.Decimal("-9999999.99")]),
    "euros": ("DECIMAL(18, 4)", pa.decimal128(18, 4), [decimal.Decimal("12345678901234.5678")]),
    "debts": (
        "DECIMAL(38, 10)",
        pa.decimal128(38, 10),
        [decimal.Decimal("-" + "9" * 28 + ".1"), decimal.Decimal("7.1")],
    ),
    "day": ("DATE", pa.date32(), [dt.date(1, 1, 1), dt.date(1500, 2, 28), dt.date(9999, 12, 31)]),
    "local": ("TIMESTAMP(6)", pa.timestamp("us"), MICROS),
    "instant": ("TIMESTAMP(6) WITH LOCAL TIME ZONE", pa.timestamp("us", tz="UTC"), MICROS),
    "nothing": ("STRING", pa.string(), [None]),
}
COLUMNS = {"n": "BIGINT NOT NULL", **{name: kind for name, (kind, _, _) in TYPES.items()}}


def rows_of(count):
    """Return rows of all types, every seventh value null."""
    columns = {"n": pa.array(range(count), pa.int64())}
    for place, (name, (_, kind, values)) in enumerate(TYPES.items()):
        found = [
            None if (number + place) % 7 == 0 and name != "zero" else values[number % len(values)]
            for number in range(count)
        ]
        columns[name] = pa.array(found, kind)
    return pa.table(columns)


def frame_of(spark, rows, columns):
    """Return rows of Arrow as a DataFrame of a table's types."""
    schema = types_module.to_spark_schema(Schema.of(columns).fields)
    return spark.createDataFrame(rows, schema)


def written(spark, table, frame, *, by_spark):
    with session_with(spark, **{native.WRITE_BY_SPARK: str(by_spark).lower()}):
        return tables.write_dataframe(table, frame)


def rows_in(table):
    """Return the rows of a table; NaN is equal to itself."""
    return str(table.new_read_builder().to_arrow().sort_by("n").to_pylist())


def entries_of(table):
    """Return what the manifests say, without what two writers never share."""
    return sorted(
        entry._replace(file=entry.file._replace(file_name="", creation_time=0, file_size=0))
        for entry in table.state.live_files()
    )


def files_of(table):
    return sorted(Path(table.path).rglob("*.parquet"))


def left_of(table):
    """Return what a write left in the table's folder beside buckets and metadata."""
    return [path for path in Path(table.path).iterdir() if path.name.startswith(".")]


def is_of_spark(path):
    return b"org.apache.spark.version" in papq.read_metadata(path).metadata


def both_ways(spark, catalog, frame, columns, **schema):
    """Write a frame by Spark's writer and by tasks of ours; return the two tables."""
    made = []
    for name in ("native", "tasks"):
        table = catalog.create_table(f"db.{name}", Schema.of(columns, **schema))
        outcome = written(spark, table, frame, by_spark=name == "native")
        assert outcome.report.rows_written == outcome.report.rows_in == frame.count()
        assert {is_of_spark(path) for path in files_of(table)} == {name == "native"}
        assert not left_of(table)
        made.append(table)
    return made


@pytest.mark.parametrize("zone", ["UTC", "America/St_Johns", "Asia/Kathmandu"])
def test_all_types_are_stored_alike(spark, new_catalog, zone):
    with session_with(spark, **{"spark.sql.session.timeZone": zone}):
        frame = frame_of(spark, rows_of(200), COLUMNS).coalesce(1)
        by_spark, by_tasks = both_ways(spark, new_catalog, frame, COLUMNS)
    assert rows_in(by_spark) == rows_in(by_tasks)
    assert entries_of(by_spark) == entries_of(by_tasks)
    (mine,), (theirs,) = files_of(by_spark), files_of(by_tasks)
    ours, spark_s = papq.ParquetFile(theirs), papq.ParquetFile(mine)
    for leaf in range(len(ours.schema)):
        one, other = ours.schema.column(leaf), spark_s.schema.column(leaf)
        assert (one.name, one.physical_type, one.length) == (
            other.name,
            other.physical_type,
            other.length,
        )
        assert str(one.logical_type) == str(other.logical_type)
    debts = spark_s.schema.names.index("debts")
    assert not spark_s.metadata.row_group(0).column(debts).has_dictionary_page


WRONG = {
    "null": ("BIGINT NOT NULL", "if(n = 7, null, n)", "input-null"),
    "no text": ("STRING NOT NULL", "if(n = 7, null, repeat('a', 5000))", "input-null"),
    "long text": ("VARCHAR(3)", "if(n = 7, 'abcd', 'abc')", "input-length"),
    "long bytes": ("BINARY(3)", "cast(if(n = 7, 'abcd', 'abc') as binary)", "input-length"),
    "far day": ("DATE", "date_add(date'9999-12-31', if(n = 7, 1, 0))", "input-range"),
    "early day": ("DATE", "date_add(date'0000-01-01', if(n = 7, -1, 0))", "input-range"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_the_table_refuses_is_the_same_error(spark, new_catalog, name):
    kind, text, error_kind = WRONG[name]
    table = new_catalog.create_table("db.t", Schema.of({"n": "BIGINT", "v": kind}))
    rows = spark.range(20).withColumnRenamed("id", "n")
    with pytest.raises(InvalidInputError) as raised:
        tables.write_dataframe(table, rows.withColumn("v", fn.expr(text)))
    assert raised.value.kind == error_kind
    assert not files_of(table)
    assert not left_of(table)
    assert table.refresh().latest_snapshot() is None
    tables.write_dataframe(table, rows.where("n <> 7").withColumn("v", fn.expr(text)))
    assert all(map(is_of_spark, files_of(table)))


def test_invalid_texts_are_stored_alike(spark, new_catalog):
    """Spark makes them of bytes; no statistics can tell them."""
    frame = spark.range(9).selectExpr("id AS n", "cast(unhex('FF61') as string) AS v").coalesce(1)
    by_spark, by_tasks = both_ways(spark, new_catalog, frame, {"n": "BIGINT", "v": "STRING"})
    stored = [
        papq.read_table(files_of(each)[0])["v"].cast(pa.binary()) for each in (by_spark, by_tasks)
    ]
    assert stored[0] == stored[1]
    assert entries_of(by_spark) == entries_of(by_tasks)


def test_days_that_the_table_lets_pass_are_written(spark, new_catalog):
    options = {"write.check-times": "false"}
    table = new_catalog.create_table("db.t", Schema.of({"v": "DATE"}, options=options))
    days = "date_add(date'9999-12-31', cast(id as int)) v"
    tables.write_dataframe(table, spark.range(3).selectExpr(days))
    assert all(map(is_of_spark, files_of(table)))
    assert table.new_read_builder().to_arrow()["v"].cast(pa.int32()).to_pylist() == [
        2_932_896,
        2_932_897,
        2_932_898,
    ]


def test_rows_that_cannot_be_computed_leave_nothing(spark, new_catalog):
    table = new_catalog.create_table("db.t", Schema.of({"v": "BIGINT"}))
    frame = spark.range(0, 100, 1, 4).selectExpr("if(id = 99, raise_error('no such row'), id) as v")
    with pytest.raises(errors.PySparkException, match="no such row"):
        tables.write_dataframe(table, frame)
    assert not files_of(table)
    assert not left_of(table)


def test_an_overwrite_replaces_the_rows(spark, new_catalog):
    table = new_catalog.create_table("db.t", Schema.of({"v": "BIGINT"}))
    tables.write_dataframe(table, spark.range(10).selectExpr("id + 1 AS v"))
    rows = spark.range(3).selectExpr("id * 2 AS v")
    tables.write_dataframe(table.refresh().new_write_builder().with_overwrite(), rows)
    assert sorted(table.refresh().new_read_builder().to_arrow()["v"].to_pylist()) == [0, 2, 4]
    assert all(map(is_of_spark, files_of(table)))


PARTS = {
    "INT": "if(n % 5 = 0, null, cast(n % 5 - 2 as int))",
    "BOOLEAN": "if(n % 5 = 0, null, n % 5 = 1)",
    "BIGINT": "(n % 3 - 1) * 9223372036854775807",
    "STRING": "element_at(array(null, 'a/b=c%', 'é', ' a', '__NO_NAME__'), cast(n % 5 + 1 as int))",
    "VARCHAR(2)": "if(n % 2 = 0, 'a', 'éé')",
    "DATE": "if(n % 5 = 0, null, date_add(date'1969-12-31', cast(n % 5 as int)))",
    "DECIMAL(9, 2)": "cast(if(n % 5 = 0, null, (n % 5 - 2) / 4) as decimal(9, 2))",
    "DECIMAL(30, 2)": "cast(if(n % 5 = 0, null, (n % 5 - 2) / 4) as decimal(30, 2))",
    "TIMESTAMP(6)": "timestamp_ntz'1969-12-31 23:59:59.999999' + make_dt_interval(0, n % 3)",
    "TIMESTAMP_LTZ(6)": "timestamp'1969-12-31 23:59:59.999999' + make_dt_interval(0, n % 3)",
}


@pytest.mark.parametrize("kind", PARTS)
def test_partitions_hold_the_same_rows(spark, new_catalog, kind):
    frame = spark.range(30).selectExpr("id AS n").withColumn("p", fn.expr(PARTS[kind])).coalesce(1)
    columns = {"n": "BIGINT", "p": kind}
    by_spark, by_tasks = both_ways(spark, new_catalog, frame, columns, partition_keys=["p"])
    assert rows_in(by_spark) == rows_in(by_tasks)
    assert entries_of(by_spark) == entries_of(by_tasks)


def test_partitions_of_two_columns_and_nulls(spark, new_catalog):
    parts = ("if(id % 3 = 0, null, id % 3) AS p", "if(id % 2 = 0, null, id % 2) AS q")
    frame = spark.range(30).selectExpr("id AS n", *parts, "'x' AS partition").coalesce(1)
    columns = {"n": "BIGINT", "p": "BIGINT", "partition": "STRING", "q": "BIGINT"}
    by_spark, by_tasks = both_ways(spark, new_catalog, frame, columns, partition_keys=["q", "p"])
    assert rows_in(by_spark) == rows_in(by_tasks)
    assert entries_of(by_spark) == entries_of(by_tasks)
    assert len(entries_of(by_spark)) == 6


def test_more_partitions_than_open_files(spark, new_catalog):
    frame = spark.range(3000).selectExpr("id AS n", "cast(id % 150 as int) AS p").coalesce(1)
    columns = {"n": "BIGINT", "p": "INT"}
    by_spark, by_tasks = both_ways(spark, new_catalog, frame, columns, partition_keys=["p"])
    assert rows_in(by_spark) == rows_in(by_tasks)
    assert {entry.partition for entry in entries_of(by_spark)} == {
        entry.partition for entry in entries_of(by_tasks)
    }


@pytest.mark.parametrize("kind", ["FLOAT", "BYTES"])
def test_partitions_whose_statistics_are_vague_are_written_by_tasks(spark, new_catalog, kind):
    options = {"partition.legacy-name": "false"}
    schema = Schema.of({"n": "BIGINT", "p": kind}, partition_keys=["p"], options=options)
    table = new_catalog.create_table("db.t", schema)
    rows = spark.range(10).selectExpr("id AS n", "cast(id % 2 as string) AS p")
    rows = rows.withColumn("p", fn.expr("cast(p as float)" if kind == "FLOAT" else "binary(p)"))
    tables.write_dataframe(table, rows)
    assert table.refresh().new_read_builder().to_arrow().num_rows == 10
    assert not any(is_of_spark(path) for path in files_of(table))


def test_empty_texts_and_nulls_are_two_partitions(spark, new_catalog):
    frame = spark.range(9).selectExpr("id AS n", "element_at(array('', null, 'a'), 1) AS p")
    frame = frame.withColumn("p", fn.expr("if(n % 3 = 0, null, if(n % 3 = 1, 'b', p))"))
    columns = {"n": "BIGINT", "p": "STRING"}
    made = []
    for by_spark in (True, False):
        table = new_catalog.create_table(f"db.{by_spark}", Schema.of(columns, partition_keys=["p"]))
        written(spark, table, frame.coalesce(1), by_spark=by_spark)
        made.append(entries_of(table))
    assert made[0] == made[1]


UNWANTED = {
    "other partition": ({"p": "1"}, "cast(id as string)", "overwrite-partition"),
    "long name": (None, "repeat(cast(id as string), 300)", "partition-value"),
}


@pytest.mark.parametrize("name", UNWANTED)
def test_partitions_that_may_not_be_written_leave_nothing(spark, new_catalog, name):
    overwritten, text, kind = UNWANTED[name]
    schema = Schema.of({"n": "BIGINT", "p": "STRING"}, partition_keys=["p"])
    table = new_catalog.create_table("db.t", schema)
    builder = table.new_write_builder()
    builder = builder if overwritten is None else builder.with_overwrite(overwritten)
    rows = spark.range(9).selectExpr("id AS n", f"{text} AS p")
    with pytest.raises(InvalidInputError) as raised:
        tables.write_dataframe(builder, rows)
    assert raised.value.kind == kind
    assert not files_of(table)
    assert not left_of(table)


ODD_NAMES = ["a.b", "A b", "a`b", "a,b=c;{}()", "é😀", "-", "a\tb", "1", "a%2Fb", "partition", "_c"]


def test_odd_names_of_columns_are_stored_alike(spark, new_catalog):
    odd = [fn.col("id").alias(name) for name in ODD_NAMES]
    frame = spark.range(3).select(fn.col("id").alias("n"), *odd)
    columns = dict.fromkeys(["n", *ODD_NAMES], "BIGINT")
    by_spark, by_tasks = both_ways(spark, new_catalog, frame.coalesce(1), columns)
    assert rows_in(by_spark) == rows_in(by_tasks)
    assert entries_of(by_spark) == entries_of(by_tasks)


def test_tables_with_keys_have_odd_names_of_columns_too(spark, new_catalog):
    columns = {"k.y": "BIGINT NOT NULL", **dict.fromkeys(ODD_NAMES, "BIGINT")}
    schema = Schema.of(columns, primary_keys=["k.y"], options={"bucket": "2"})
    table = new_catalog.create_table("db.t", schema)
    rows = spark.range(0, 9000, 1, 3).select(*(fn.col("id").alias(name) for name in columns))
    tables.write_dataframe(table, rows)
    merge.merge_dataframe(table.refresh(), rows.limit(10), on=["k.y"])
    found = table.refresh().new_read_builder().to_arrow()
    assert found.num_rows == 9000
    assert all(found[name].equals(found["k.y"]) for name in ODD_NAMES)


@pytest.mark.parametrize("name", ["a.b", "Debts", "a b"])
def test_long_decimals_have_no_dictionary(spark, new_catalog, name):
    table = new_catalog.create_table("db.t", Schema.of({name: "DECIMAL(38, 10)"}))
    tables.write_dataframe(
        table, spark.range(10).selectExpr(f"cast(id % 2 as decimal(38, 10)) AS `{name}`")
    )
    (path,) = [each for each in files_of(table) if papq.read_metadata(each).num_rows > 0][:1]
    chunk = papq.read_metadata(path).row_group(0).column(0)
    assert is_of_spark(path) is (name != "a.b")
    assert not is_of_spark(path) or not chunk.has_dictionary_page


def test_no_rows_make_no_file(spark, new_catalog):
    table = new_catalog.create_table("db.t", Schema.of({"v": "BIGINT"}))
    outcome = tables.write_dataframe(table, spark.range(10).selectExpr("id AS v").where("v > 9"))
    assert outcome.report.rows_in == 0
    assert not files_of(table)


def test_files_end_near_the_target_size(spark, new_catalog):
    options = {"target-file-size": "16 kb", "data-file.prefix": "made-"}
    table = new_catalog.create_table("db.t", Schema.of({"v": "BIGINT"}, options=options))
    tables.write_dataframe(table, spark.range(0, 5000, 1, 1).selectExpr("id * 2 AS v"))
    sizes = [path.stat().st_size for path in files_of(table)]
    assert len(sizes) > 2
    assert max(sizes) < 2 * 16 * 1024
    assert all(path.name.startswith("made-") for path in files_of(table))
    found = table.refresh().new_read_builder().to_arrow()["v"].to_pylist()
    assert sorted(found) == [2 * number for number in range(5000)]


WIDER = {
    "tiny": ("BIGINT", "cast(id as tinyint)"),
    "number": ("SMALLINT", "cast(id - 3 as tinyint)"),
    "real": ("DOUBLE", "cast(id / 3 as float)"),
    "money": ("DECIMAL(20, 4)", "cast(id / 3 as decimal(10, 2))"),
}


def test_narrower_types_are_widened_alike(spark, new_catalog):
    texts = [f"{text} AS {name}" for name, (_, text) in WIDER.items()]
    frame = spark.range(10).selectExpr("id AS n", *texts).coalesce(1)
    columns = {"n": "BIGINT", **{name: kind for name, (kind, _) in WIDER.items()}}
    by_spark, by_tasks = both_ways(spark, new_catalog, frame, columns)
    assert rows_in(by_spark) == rows_in(by_tasks)
    assert entries_of(by_spark) == entries_of(by_tasks)


REFUSED = {
    "wider": ({"v": "INT"}, {}, "id AS v"),
    "more digits": ({"v": "DECIMAL(9, 1)"}, {}, "cast(id as decimal(9, 2)) AS v"),
    "larger": ({"v": "DECIMAL(9, 4)"}, {}, "cast(id as decimal(8, 2)) AS v"),
    "whole": ({"v": "DECIMAL(9, 0)"}, {}, "id AS v"),
    "nested": ({"v": "ARRAY<BIGINT>"}, {}, "array(id) AS v"),
    "milliseconds": ({"v": "TIMESTAMP(3)"}, {}, "timestamp_ntz'2024-01-01 00:00:00' AS v"),
    "buckets": ({"v": "BIGINT"}, {"bucket": "2", "bucket-key": "v"}, "id AS v"),
    "orc": ({"v": "BIGINT"}, {"file.format": "orc"}, "id AS v"),
    "codec": ({"v": "BIGINT"}, {"file.compression": "brotli"}, "id AS v"),
    "codec of a level": ({"v": "BIGINT"}, {"file.compression.per.level": "0:gzip"}, "id AS v"),
    "index": ({"v": "BIGINT"}, {"file-index.bloom-filter.columns": "v"}, "id AS v"),
    "missing column": ({"v": "BIGINT", "w": "INT"}, {"write.fill-missing": "true"}, "id AS v"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_tables_are_written_by_tasks(spark, new_catalog, caplog, name):
    columns, options, text = REFUSED[name]
    table = new_catalog.create_table("db.t", Schema.of(columns, options=options))
    with caplog.at_level(logging.DEBUG, logger=native.__name__):
        tables.write_dataframe(table, spark.range(10).selectExpr(text))
    assert "tasks write the rows of db.t" in caplog.text
    assert table.refresh().new_read_builder().to_arrow().num_rows == 10
    assert not any(is_of_spark(path) for path in files_of(table))


def test_files_that_are_flushed_are_written_by_tasks(spark, tmp_path):
    catalog = open_catalog(str(tmp_path / "flushed"), {"file.fsync": "true"})
    catalog.create_database("db")
    table = catalog.create_table("db.t", Schema.of({"v": "BIGINT"}))
    tables.write_dataframe(table, spark.range(10).selectExpr("id + 1 AS v"))
    assert files_of(table)
    assert not any(is_of_spark(path) for path in files_of(table))


def test_a_default_value_replaces_nulls(spark, new_catalog):
    table = new_catalog.create_table("db.t", Schema.of({"n": "BIGINT", "v": "BIGINT"}))
    table = table.alter([update_column_default_value("v", "5")])
    tables.write_dataframe(table, spark.range(3).selectExpr("id AS n", "nullif(id, 1) AS v"))
    assert sorted(table.new_read_builder().to_arrow()["v"].to_pylist()) == [0, 2, 5]


@pytest.mark.parametrize("codec", ["zstd", "snappy", "gzip", "none"])
def test_codecs_are_those_of_the_table(spark, new_catalog, codec):
    options = {"file.compression": codec}
    table = new_catalog.create_table("db.t", Schema.of({"v": "BIGINT"}, options=options))
    tables.write_dataframe(table, spark.range(10).selectExpr("id + 1 AS v"))
    found = {
        papq.read_metadata(path).row_group(0).column(0).compression for path in files_of(table)
    }
    assert found == {"UNCOMPRESSED" if codec == "none" else codec.upper()}
    assert all(map(is_of_spark, files_of(table)))


def test_settings_of_the_session_stay_and_do_not_count(spark, new_catalog):
    table = new_catalog.create_table(
        "db.t", Schema.of({"v": "TIMESTAMP(6)", "l": "TIMESTAMP_LTZ(6)"})
    )
    settings = {
        "spark.sql.parquet.outputTimestampType": "INT96",
        "spark.sql.parquet.writeLegacyFormat": "true",
        "spark.sql.parquet.fieldId.write.enabled": "false",
        "spark.sql.parquet.datetimeRebaseModeInWrite": "LEGACY",
    }
    text = ("timestamp_ntz'1500-01-01 01:02:03.5' AS v", "timestamp'1500-01-01 01:02:03.5' AS l")
    with session_with(spark, **settings, **{"spark.sql.session.timeZone": "Asia/Kathmandu"}):
        tables.write_dataframe(table, spark.range(1).selectExpr(*text))
        assert {name: spark.conf.get(name) for name in settings} == settings
    assert all(map(is_of_spark, files_of(table)))
    (row,) = table.new_read_builder().to_arrow().to_pylist()
    assert row["v"] == dt.datetime(1500, 1, 1, 1, 2, 3, 500_000)


COMMITTER = "org.apache.hadoop.mapreduce.lib.output.committer.manifest.ManifestCommitter"
STRANGE = {
    "elsewhere": {"fs.defaultFS": "hdfs://localhost:1"},
    "encrypted": {"parquet.crypto.factory.class": "no.such.Factory"},
    "committer": {"spark.sql.parquet.output.committer.class": COMMITTER},
    "rows in a file": {"spark.sql.files.maxRecordsPerFile": "3"},
    "left attempts": {"mapreduce.fileoutputcommitter.cleanup.skipped": "true"},
    "newer pages": {"parquet.writer.version": "PARQUET_2_0"},
    "short statistics": {"parquet.statistics.truncate.length": "2"},
    "summary": {"parquet.summary.metadata.level": "ALL"},
    "bloom filter": {"parquet.bloom.filter.enabled": "true"},
    "overwriting": {"spark.sql.sources.partitionOverwriteMode": "dynamic"},
    "one after another": {"spark.sql.adaptive.enabled": "false"},
    "at once": {"spark.sql.optimizer.plannedWrite.enabled": "false"},
}


@pytest.mark.parametrize("name", STRANGE)
def test_settings_of_a_user_change_no_row(spark, new_catalog, name):
    schema = Schema.of({"n": "BIGINT", "p": "STRING"}, partition_keys=["p"])
    table = new_catalog.create_table("db.t", schema)
    rows = spark.range(0, 20, 1, 3).selectExpr("id AS n", "concat('part-', id % 2) AS p")
    with session_with(spark, **STRANGE[name]):
        tables.write_dataframe(table, rows)
    found = table.refresh().new_read_builder().to_arrow().sort_by("n").to_pylist()
    assert found == [{"n": n, "p": f"part-{n % 2}"} for n in range(20)]
    assert {is_of_spark(path) for path in files_of(table)} == {name != "encrypted"}
    assert not left_of(table)


def test_an_observation_is_told(spark, new_catalog):
    table = new_catalog.create_table("db.t", Schema.of({"v": "BIGINT"}))
    seen = sql.Observation("seen")
    tables.write_dataframe(
        table, spark.range(10).selectExpr("id + 1 AS v").observe(seen, fn.count("*").alias("rows"))
    )
    assert seen.get == {"rows": 10}


FAILING_ONCE = """
import pathlib, sys
from paimon_assets import Schema, open_catalog
from paimon_assets.spark import SparkSettings, get_session, write_dataframe
from pyspark.sql import functions as fn

home = sys.argv[1]

def once(number):
    mark = pathlib.Path(home, "failed")
    if number == 19_999 and not mark.exists():
        mark.touch()
        raise RuntimeError("the first time")
    return number

catalog = open_catalog(home)
catalog.create_database("db")
small = {"target-file-size": "16 kb"}
table = catalog.create_table("db.t", Schema.of({"v": "BIGINT"}, options=small))
spark = get_session(SparkSettings(master="local[2,3]", extra={"spark.ui.enabled": "false"}))
write_dataframe(table, spark.range(0, 20_000, 1, 2).select(fn.udf(once, "bigint")("id").alias("v")))
"""


def test_a_task_that_is_run_again_writes_its_rows_once(tmp_path):
    command = [sys.executable, "-c", FAILING_ONCE, str(tmp_path)]
    subprocess.run(command, check=True, capture_output=True, text=True)
    assert (tmp_path / "failed").exists()
    table = open_catalog(str(tmp_path)).get_table("db.t")
    assert sorted(table.new_read_builder().to_arrow()["v"].to_pylist()) == [*range(20_000)]
    assert all(map(is_of_spark, files_of(table)))
    assert len(files_of(table)) == len(table.state.live_files()) > 4
    assert not left_of(table)
