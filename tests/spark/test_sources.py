"""Files as DataFrames: their order, their schemas, and the texts of text files."""

import datetime as dt
import json

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.orc as paorc
import pyarrow.parquet as papq
import pytest

from paimon_assets import FormatError, InvalidInputError, NotFoundError, Schema, SegmentSource
from tests.testkit.spark_settings import session_with
from tests.testkit.tables import new_table

sources = pytest.importorskip("paimon_assets.spark.dataframes.sources")
executor_module = pytest.importorskip("paimon_assets.spark.executor")
error_inside = pytest.importorskip("paimon_assets.spark.failure").error_inside
PySparkException = pytest.importorskip("pyspark.errors").PySparkException

_REBASED = ("datetime", "int96")
FORMATS = ["parquet", "csv", "json", "orc"]

pytestmark = pytest.mark.spark


def rows_of(number, count):
    return pa.table(
        {
            "file": pa.array([number] * count, pa.int64()),
            "row": pa.array(range(count), pa.int64()),
            "text": pa.array([f"{number}/{row}" for row in range(count)], pa.string()),
            "at": pa.array([dt.date(2024, 1, 1 + number % 28)] * count, pa.date32()),
        }
    )


def write_file(path, table, file_format):
    match file_format:
        case "parquet":
            papq.write_table(table, path, row_group_size=20)
        case "csv":
            pacsv.write_csv(table, path)
        case "json":
            lines = (json.dumps(row, default=str) for row in table.to_pylist())
            path.write_text("\n".join(lines))
        case _:
            paorc.write_table(table, str(path))
    return str(path)


@pytest.fixture
def files(tmp_path):
    def write(file_format, counts):
        return [
            write_file(tmp_path / f"{len(counts) - n}.{file_format}", rows_of(n, c), file_format)
            for n, c in enumerate(counts)
        ]

    return write


def collect(frame):
    return [(row.file, row.row, row.text) for row in frame.collect()]


def computed_error(frame):
    with pytest.raises(PySparkException) as caught:
        frame.collect()
    return error_inside(caught.value)


@pytest.mark.parametrize("file_format", FORMATS)
def test_rows_keep_order_of_paths_and_files(spark, files, file_format):
    counts = [50, 1, 30, 7, 90, 3, 3, 3, 3, 3, 3, 3]
    frame = sources.files_to_dataframe(spark, files(file_format, counts), file_format)
    expected = [(n, row, f"{n}/{row}") for n, count in enumerate(counts) for row in range(count)]
    assert collect(frame) == expected
    shuffled = frame.repartition(5).orderBy(sources.POSITION_COLUMN)
    assert collect(shuffled) == expected


@pytest.mark.parametrize("file_format", FORMATS)
def test_given_schema_decides_types(spark, files, file_format):
    wanted = pa.schema(
        [("row", pa.int32()), ("file", pa.int64()), ("text", pa.string()), ("at", pa.date32())]
    )
    if file_format in ("csv", "json"):
        wanted = wanted.set(3, pa.field("at", pa.string()))
    paths = files(file_format, [2, 2])
    if file_format in ("csv", "json"):
        wanted = pa.schema([wanted.field(name) for name in ("file", "row", "text", "at")])
    frame = sources.files_to_dataframe(spark, paths, file_format, wanted)
    assert frame.columns == [*wanted.names, sources.POSITION_COLUMN]
    assert dict(frame.dtypes)["row"] == "int"
    assert [row.row for row in frame.collect()] == [0, 1, 0, 1]


def test_change_log_order_survives_shuffle(spark, files, new_catalog):
    schema = Schema.of(
        {"file": "BIGINT", "row": "BIGINT"}, primary_keys=["row"], options={"bucket": "3"}
    )
    table = new_catalog.create_table("db.t", schema)
    frame = sources.files_to_dataframe(spark, files("csv", [40] * 9), "csv")
    shuffled = frame.drop("text", "at").repartition(4, "text")
    table.new_write_builder().write(shuffled, executor_module.SparkExecutor(spark))
    result = table.new_read_builder().to_arrow()
    assert set(result["file"].to_pylist()) == {8}
    assert result.num_rows == 40


@pytest.mark.way_out("file-schema")
def test_file_with_other_columns_is_named(spark, files, tmp_path):
    paths = files("parquet", [2, 2])
    odd = tmp_path / "odd.parquet"
    papq.write_table(pa.table({"file": ["one"], "other": [1]}), odd)
    error = computed_error(sources.files_to_dataframe(spark, [*paths, str(odd)], "parquet"))
    assert isinstance(error, InvalidInputError)
    assert error.kind == "file-schema"
    assert error.details["path"] == str(odd)
    assert "other int64" in error.message
    assert sources.files_to_dataframe(spark, [str(odd)], "parquet").count() == 1


def test_value_that_does_not_parse_names_file(spark, tmp_path):
    (tmp_path / "a.csv").write_text("id\n1\n")
    (tmp_path / "b.csv").write_text("id\nx\n")
    paths = [str(tmp_path / "a.csv"), str(tmp_path / "b.csv")]
    error = computed_error(sources.files_to_dataframe(spark, paths, "csv"))
    assert isinstance(error, FormatError)
    assert error.details["path"] == paths[1]


def test_missing_file_is_named(spark, files, tmp_path):
    with pytest.raises(NotFoundError, match=r"absent\.csv"):
        sources.files_to_dataframe(spark, [str(tmp_path / "absent.csv")], "csv")
    paths = [*files("csv", [1]), str(tmp_path / "absent.csv")]
    assert isinstance(
        computed_error(sources.files_to_dataframe(spark, paths, "csv")), NotFoundError
    )


def test_damaged_file_is_named(spark, tmp_path):
    (tmp_path / "a.parquet").write_bytes(b"PAR1 not really")
    with pytest.raises(FormatError, match=r"a\.parquet"):
        sources.files_to_dataframe(spark, [str(tmp_path / "a.parquet")], "parquet")


def test_files_of_no_rows_are_read_as_no_rows(spark, files):
    frame = sources.files_to_dataframe(spark, files("parquet", [0, 2, 0]), "parquet")
    assert collect(frame) == [(1, 0, "1/0"), (1, 1, "1/1")]


@pytest.mark.parametrize(
    ("paths", "file_format", "kind"), [([], "csv", "no-files"), (["a.xls"], "xls", "file-format")]
)
def test_invalid_calls_are_refused(spark, paths, file_format, kind):
    with pytest.raises(InvalidInputError) as caught:
        sources.files_to_dataframe(spark, paths, file_format)
    assert caught.value.kind == kind


JSON = {
    "BYTES": ['"YWI="', '"YQ=="', '""', "null"],
    "DATE": ['"2024-02-29"', '"1950-01-01"', "null"],
    "STRING": [
        "5", "1.10", "-1e10", "12345678901234567890123", "true", "false", "null", '"x"', '""',
        '{"a": 1, "b": [1, 2.50, "x\\"y\\u00e9"]}', "[1,  2]", "[]", "{}", '"a,b: {"',
    ],
    "MAP<STRING NOT NULL, INT>": ['{"a": 1, "b": null}', "{}", "null", '{"k,\\"{:": 2}'],
    "DECIMAL(10, 2)": ['"5.25"', "5", "5.25", "null"],
    "TIMESTAMP(6)": ['"2024-02-29T10:00:00"', '"2024-02-29 10:00:00.123456"', '"2024-02-29"'],
    "TIMESTAMP(6) WITH LOCAL TIME ZONE": [
        '"2024-02-29T10:00:00"', '"2024-02-29 10:00:00.5"', '"2024-07-01T10:00:00Z"',
        '"2024-02-29T10:00:00.25+02:00"', "null",
    ],
}  # fmt: skip
CSV = {
    "TIMESTAMP(6)": ["2024-02-29T10:00:00", "2024-02-29 10:00:00.123456"],
    "TIMESTAMP(6) WITH LOCAL TIME ZONE": [
        "2024-02-29T10:00:00Z", "2024-02-29T10:00:00.5+02:00", "2024-02-29 10:00:00",
    ],
}  # fmt: skip
SPARK = {
    "BYTES": "BINARY",
    "MAP<STRING NOT NULL, INT>": "MAP<STRING, INT>",
    "TIMESTAMP(6)": "TIMESTAMP_NTZ",
    "TIMESTAMP(6) WITH LOCAL TIME ZONE": "TIMESTAMP",
}
CASES = [("json", kind, JSON[kind]) for kind in JSON] + [("csv", kind, CSV[kind]) for kind in CSV]


def _plain(value):
    if isinstance(value, bytearray):
        return bytes(value)
    return dict(value) if isinstance(value, list) else value


@pytest.mark.parametrize(("name", "kind", "values"), CASES)
def test_values_equal_spark_reader(spark, new_catalog, tmp_path, name, kind, values):
    lines = [f'{{"c": {value}}}' for value in values] if name == "json" else ["c", *values]
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / f"1.{name}").write_text("\n".join(lines))
    zone = {"timeZone": "Europe/Berlin"} if "TIMESTAMP" in kind else {}
    table = new_table(new_catalog, {"c": kind})
    source = SegmentSource(path=str(tmp_path / "in"), format=name, options=zone)
    table.segments().add(source)
    ours = table.new_read_builder().to_arrow().column("c").to_pylist()
    reader = spark.read.format(name).options(header="true", mode="FAILFAST", **zone)
    frame = reader.schema(f"c {SPARK.get(kind, kind)}").load(str(tmp_path / "in"))
    theirs = frame.toArrow().column("c").to_pylist()
    instants = [each.astimezone(dt.UTC) if isinstance(each, dt.datetime) and each.tzinfo else each
                for each in theirs]  # fmt: skip
    assert [_plain(value) for value in ours] == [_plain(value) for value in instants]


@pytest.mark.parametrize("file_format", ["parquet", "orc"])
@pytest.mark.way_out("timestamp-calendar")
def test_old_times_equal_spark_or_name_way_out(spark, tmp_path, file_format):
    """Spark counted them in the Julian calendar; of zones, only instants since 1900 are read."""
    rebase = {f"spark.sql.parquet.{each}RebaseModeInWrite": "LEGACY" for each in _REBASED}
    micros = {"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS"}
    statement = "SELECT 1 AS id, DATE '1000-02-03' d, TIMESTAMP '1000-02-03 04:05:06' t"
    for zone in ("UTC", "Asia/Tokyo"):
        folder = tmp_path / f"{file_format}-{zone.replace('/', '-')}"
        with session_with(spark, **{**micros, **rebase, "spark.sql.session.timeZone": zone}):
            columns = ["id", "d"] if file_format == "orc" else ["id", "d", "t"]
            spark.sql(statement).select(columns).write.format(file_format).save(str(folder))
        (path,) = folder.glob(f"part-*.{file_format}")
        if zone != "UTC" and file_format == "parquet":
            with pytest.raises(PySparkException) as caught:
                sources.files_to_dataframe(spark, [str(path)], file_format).collect()
            assert error_inside(caught.value).kind == "timestamp-calendar"
            again = tmp_path / "again"
            with session_with(spark, **{**micros, **dict.fromkeys(rebase, "CORRECTED")}):
                spark.read.parquet(str(folder)).write.parquet(str(again))
            (path,) = again.glob("part-*.parquet")
        expected = spark.read.format(file_format).load(str(path)).select(columns).collect()
        rows = sources.files_to_dataframe(spark, [str(path)], file_format)
        assert rows.select(columns).collect() == expected
        assert expected[0].d == dt.date(1000, 2, 3)
