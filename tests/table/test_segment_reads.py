"""Reading foreign files: statistics, later schemas, files that changed, text formats."""

import datetime as dt
import gzip
import os
import uuid
from decimal import Decimal
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest

from paimon_assets import Schema
from paimon_assets.engine import errors
from paimon_assets.engine.contract.commit_message import CommitMessage, DataIncrement
from paimon_assets.engine.data.format.external_files import FileKind, open_external_file
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.engine.spec.evolution import schema_change as sc
from paimon_assets.engine.spec.metadata.data_file import EMPTY_ROW
from paimon_assets.engine.spec.types.data_types import bigint, string
from tests.testkit.builders import data_file
from tests.testkit.errors import refused
from tests.testkit.foreign import add_segment as add
from tests.testkit.foreign import rows, write
from tests.testkit.tables import new_table, read


@pytest.fixture
def table(catalog):
    return catalog.create_table("db.t", Schema.of({"a": "INT", "b": "STRING"}))


def files_read(table, where):
    splits = table.new_read_builder().with_filter(where).plan().splits
    return sum(len(split.data_files) for split in splits)


@pytest.mark.parametrize("name", ["parquet", "orc"])
def test_files_are_pruned_by_statistics_of_their_footers(table, tmp_path, name):
    for number in range(5):
        data = rows(*((10 * number + n, f"b{number}") for n in range(10)))
        write(tmp_path / "in" / f"{number}.{name}", data)
    add(table, tmp_path / "in", name)
    assert files_read(table, "a >= 13 AND a < 17") == 1
    assert files_read(table, "b = 'b3'") == 1
    assert files_read(table, "a IS NULL") == 0
    assert read(table, where="a = 23") == [(23, "b2")]


def test_bounds_of_every_type_lose_no_row(catalog, tmp_path):
    before_epoch = dt.datetime(1969, 12, 31, 23, 59, 59, 999_999)
    values = {
        "i": (pa.int8(), "TINYINT", [-5, None, 3]),
        "d": (pa.decimal128(20, 3), "DECIMAL(20, 3)", [Decimal("-1.5"), Decimal("9.125"), None]),
        "t": (pa.timestamp("ns"), "TIMESTAMP(3)", [before_epoch, None, dt.datetime(2020, 1, 1)]),
        "z": (pa.timestamp("us", "UTC"), "TIMESTAMP_LTZ(6)", [before_epoch, before_epoch, None]),
        "s": (pa.string(), "STRING", ["z" * 40, "a" * 40, None]),
        "y": (pa.binary(), "BYTES", [b"\xff" * 20, None, b""]),
        "f": (pa.float64(), "DOUBLE", [float("nan"), 1.0, None]),
        "x": (pa.date32(), "DATE", [dt.date(1950, 1, 1), None, dt.date(2050, 1, 1)]),
        "k": (pa.bool_(), "BOOLEAN", [True, None, False]),
    }
    schema = Schema.of({name: kind for name, (_, kind, _) in values.items()})
    data = pa.table({name: pa.array(items, kind) for name, (kind, _, items) in values.items()})
    table = catalog.create_table("db.types", schema)
    pq.write_table(data, _make_folder(tmp_path / "p") / "1.parquet")
    pq.write_table(
        data, _make_folder(tmp_path / "i") / "1.parquet", use_deprecated_int96_timestamps=True
    )
    orc.write_table(data.drop_columns(["z"]), _make_folder(tmp_path / "o") / "1.orc")
    add(table, tmp_path / "p")
    add(table, tmp_path / "i")
    with pytest.raises(errors.InvalidInputError, match="column 'z'"):
        add(table, tmp_path / "o", "orc")
    expected = [-1_000_000_000, 1_577_836_800_000_000_000]
    for where in (
        "i = -5", "i = 3", "d = 9.125", "s LIKE 'zzz%'", "y IS NOT NULL", "f = 1.0", "k = false",
        "x < '1960-01-01'", "x > '2040-01-01'", "t < '1970-01-01 00:00:00'",
        "t = '1969-12-31 23:59:59.999'",
    ):  # fmt: skip
        assert len(read(table, where=where)) in (2, 4), where
    times = table.to_arrow(["t"]).column("t").drop_null()
    assert times.type == pa.timestamp("ms")
    assert sorted(set(times.cast(pa.int64()).to_pylist())) == [-1, expected[1] // 1_000_000]


def _make_folder(folder):
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def test_schema_changes_apply_to_foreign_files(table, catalog, tmp_path):
    write(tmp_path / "p" / "1.parquet", rows((1, "x")))
    write(tmp_path / "o" / "1.orc", rows((2, "y")))
    write(tmp_path / "c" / "1.csv", rows((3, "z")))
    add(table, tmp_path / "p")
    add(table, tmp_path / "o", "orc")
    add(table, tmp_path / "c", "csv")
    newest = catalog.get_table("db.t").alter(
        [
            sc.RenameColumn(field_names=("a",), new_name="id"),
            sc.UpdateColumnType(field_names=("id",), new_data_type=bigint()),
            sc.AddColumn(field_names=("note",), data_type=string()),
            sc.AddColumn(field_names=("a",), data_type=string()),
        ]
    )
    assert read(newest) == [(1, "x", None, None), (2, "y", None, None), (3, "z", None, None)]
    assert read(newest, where="id > 1 AND note IS NULL") == [
        (2, "y", None, None),
        (3, "z", None, None),
    ]
    assert files_read(newest, "id > 1") == 2
    late = pa.table({"id": [4], "b": ["w"], "note": ["n"], "a": ["text"]})
    write(tmp_path / "late" / "1.parquet", late)
    add(newest, tmp_path / "late")
    assert read(newest, where="id = 4") == [(4, "w", "n", "text")]
    write(tmp_path / "p" / "2.parquet", rows((9, "more")))
    newest.segments().refresh([0])
    assert read(newest, where="id = 9") == [(9, "more", None, None)]


def test_wrong_field_ids_of_other_writers_swap_nothing(table, tmp_path):
    fields = [
        pa.field("b", pa.string(), metadata={"PARQUET:field_id": "0"}),
        pa.field("a", pa.int32(), metadata={"PARQUET:field_id": "1"}),
    ]
    data = pa.table({"b": ["x"], "a": [1]}, schema=pa.schema(fields))
    write(tmp_path / "in" / "1.parquet", data)
    add(table, tmp_path / "in")
    assert read(table) == [(1, "x")]


def test_changed_or_missing_file_is_named_before_read(table, tmp_path):
    folder = tmp_path / "in"
    write(folder / "1.parquet", rows((1, "x")))
    write(folder / "2.parquet", rows((2, "y")))
    add(table, folder)
    at = (folder / "1.parquet").stat().st_mtime_ns
    write(folder / "1.parquet", rows((1, "x"), (3, "z")))
    with pytest.raises(
        errors.InvalidInputError, match=r"external file changed.*1\.parquet' of segment 0"
    ):
        read(table)
    assert read(table, where="a = 2") == [(2, "y")]
    write(folder / "1.parquet", rows((7, "x")))
    os.utime(folder / "1.parquet", ns=(at + 10**9, at + 10**9))
    with pytest.raises(errors.InvalidInputError, match="written again since"):
        read(table)
    (folder / "1.parquet").unlink()
    with pytest.raises(errors.InvalidInputError, match="is gone") as caught:
        read(table)
    assert caught.value.kind == "segment-file-changed"
    assert caught.value.details["segment"] == 0


def test_refresh_reads_current_folder(table, tmp_path):
    folder = tmp_path / "in"
    write(folder / "1.parquet", rows((1, "x")))
    write(folder / "2.parquet", rows((2, "y")))
    write(tmp_path / "csv" / "1.csv", rows((5, "c")))
    add(table, folder)
    add(table, tmp_path / "csv", "csv")
    assert table.segments().refresh([]).snapshot is None
    write(folder / "1.parquet", rows((1, "x"), (3, "z")))
    (folder / "2.parquet").unlink()
    write(folder / "3.parquet", rows((4, "w")))
    write(tmp_path / "csv" / "1.csv", rows((6, "d"), (7, "e")))
    outcome = table.segments().refresh([])
    assert [segment.id for segment in outcome.segments] == [0, 1]
    assert read(table) == [(1, "x"), (3, "z"), (4, "w"), (6, "d"), (7, "e")]
    assert outcome.snapshot.total_record_count == 3
    write(folder / "1.parquet", rows((1, "x")).select(["a"]))
    with pytest.raises(errors.InvalidInputError, match="Schema is not same"):
        table.segments().refresh([0])
    with pytest.raises(errors.NotFoundError, match="no live segment 9"):
        table.segments().refresh([9])


def test_text_segments_follow_time_travel(table, tmp_path):
    write(tmp_path / "c" / "1.csv", rows((1, "x")))
    table.new_write_builder().write(rows((0, "own")))
    add(table, tmp_path / "c", "csv")
    table.segments().delete([1])
    assert read(table.new_read_builder().at_snapshot(1)) == [(0, "own")]
    assert read(table.new_read_builder().at_snapshot(2)) == [(0, "own"), (1, "x")]
    assert read(table) == [(0, "own")]


def test_csv_has_names_quotes_and_nulls(catalog, tmp_path):
    table = catalog.create_table(
        "db.csv", Schema.of({"a": "INT", "s": "STRING", "d": "DATE", "n": "DECIMAL(6, 2)"})
    )
    text = 'n,s,extra,d,a\n1.25,"two\nlines",q,2020-02-29,7\n,"",q,,\n'
    folder = _make_folder(tmp_path / "csv")
    (folder / "1.csv.gz").write_bytes(gzip.compress(text.encode()))
    add(table, folder, "csv")
    assert read(table) == [
        (None, "", None, None),
        (7, "two\nlines", dt.date(2020, 2, 29), Decimal("1.25")),
    ]
    (folder / "1.csv.gz").write_bytes(gzip.compress(text.replace("7\n", "seven\n").encode()))
    with pytest.raises(errors.FormatError, match=r"1\.csv\.gz"):
        table.segments().refresh([0])
    (_make_folder(tmp_path / "bad") / "1.csv").write_text("n,s,d\n1,x,\n")
    with pytest.raises(errors.InvalidInputError, match="column 'a' INT is missing"):
        add(table, tmp_path / "bad", "csv")


def test_json_members_may_be_absent_but_not_renamed(catalog, tmp_path):
    table = catalog.create_table("db.json", Schema.of({"a": "INT", "b": "STRING", "c": "DOUBLE"}))
    folder = _make_folder(tmp_path / "json")
    (folder / "1.json").write_text('{"a": 1, "more": [1]}\n{"b": "x", "a": null, "c": 2}\n')
    add(table, folder, "json")
    assert read(table) == [(None, "x", 2.0), (1, None, None)]
    (_make_folder(tmp_path / "other") / "1.json").write_text('{"id": 1}\n')
    with pytest.raises(errors.InvalidInputError, match="column 'a' INT is missing"):
        add(table, tmp_path / "other", "json")


def test_text_format_has_row_per_line(catalog, tmp_path):
    table = catalog.create_table("db.text", Schema.of({"value": "STRING"}))
    folder = _make_folder(tmp_path / "text")
    (folder / "1.txt").write_bytes('one\r\n\nthré,e"\n'.encode())
    (folder / "2.txt").write_bytes(b"")
    add(table, folder, "text")
    assert read(table) == [("",), ("one",), ('thré,e"',)]
    assert table.segments().listed()[0].row_count == 3


def test_names_without_extension_are_read(table, tmp_path):
    write(tmp_path / "in" / "1.parquet", rows((1, "x"))).rename(tmp_path / "in" / "000000_0")
    [segment] = add(table, tmp_path / "in").segments
    assert segment.readers == "paimon-assets, java"
    assert segment.files[0].file_name.endswith(".parquet")
    assert read(table) == [(1, "x")]


def test_empty_file_with_footer_is_accepted(table, tmp_path):
    write(tmp_path / "in" / "1.parquet", rows())
    write(tmp_path / "in" / "2.parquet", rows((1, "x")))
    add(table, tmp_path / "in")
    assert read(table) == [(1, "x")]


def test_text_file_outside_registry_is_refused(table, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("value\nsecret\n")
    file = data_file(
        file_name="x.text", file_size=secret.stat().st_size, external_path=f"file:{secret}"
    )
    message = CommitMessage(
        partition=EMPTY_ROW,
        bucket=0,
        total_buckets=-1,
        data_increment=DataIncrement(new_files=(file,)),
    )
    table.new_write_builder().commit([message])
    with pytest.raises(errors.UnsupportedFeatureError, match="no segment of the table"):
        read(table)


@pytest.mark.parametrize("name", ["csv", "json"])
def test_text_segment_rows_are_counted_everywhere(catalog, tmp_path, name):
    table = catalog.create_table("db.c", Schema.of({"a": "INT", "b": "STRING"}))
    table.new_write_builder().write(rows((0, "own")))
    before = table.latest_snapshot()
    write(tmp_path / "c" / f"1.{name}", rows(*((n, "x") for n in range(10))))
    add(table, tmp_path / "c", name)

    def sums(kind):
        found = table.system_table(kind).to_arrow()
        return (
            sum(found.column("record_count").to_pylist()),
            sum(found.column("file_count").to_pylist())
            if "file_count" in found.schema.names
            else 2,
        )

    assert (table.state.physical_rows(), table.state.physical_rows(before)) == (11, 1)
    assert len(table.state.live_files()) == 2
    assert [sums(kind) for kind in ("partitions", "buckets", "files", "file_key_ranges")] == (
        [(11, 2)] * 4
    )
    of_all = catalog.get_system_table("sys.tables").to_arrow().to_pylist()
    shown = [(row["record_count"], row["file_count"]) for row in of_all if row["table_name"] == "c"]
    assert shown == [(11, 2)]
    table.segments().delete([1])
    assert table.state.physical_rows() == 1


@pytest.mark.parametrize("name", ["parquet", "orc"])
def test_partition_filter_finds_rows_of_folder(catalog, tmp_path, name):
    polars = pytest.importorskip("polars")
    pytest.importorskip("duckdb")
    own = {"file.format": name}
    schema = Schema.of({"a": "INT", "p": "INT"}, partition_keys=["p"], options=own)
    table = catalog.create_table("db.p", schema)
    for value, held in ((1, 99), (2, None), (3, 1)):
        data = pa.table({"a": pa.array([value], pa.int32()), "p": pa.array([held], pa.int32())})
        write(tmp_path / "in" / f"p={value}" / f"1.{name}", data)
    add(table, tmp_path / "in", name, partition="p:int")
    table = catalog.get_table("db.p")
    builder = table.new_read_builder()
    assert builder.with_filter("p = 1").count() == 1
    assert builder.to_dataset().to_table(filter=ds.field("p") == 2).to_pylist() == [
        {"a": 2, "p": 2}
    ]
    assert builder.scan_polars().filter(polars.col("p") == 1).collect().rows() == [(1, 1)]
    assert builder.to_duckdb().filter("p = 3 OR p = 99").fetchall() == [(3, 3)]
    assert catalog.sql("SELECT a FROM db.p WHERE p IN (1, 2)").to_arrow().num_rows == 2
    changing = table.new_row_change_builder()
    assert changing.delete("p = 99 OR p IS NULL").rows_matched == 0
    assert changing.update({"a": "7"}, "p = 1").rows_matched == 1
    assert changing.delete("p = 2").rows_matched == 1
    assert read(catalog.get_table("db.p")) == [(3, 3), (7, 1)]


def test_local_timestamps_of_spark_orc_are_read(catalog, tmp_path):
    times = [None, *(dt.datetime(year, 2, 28, 10, 0, 0, 123456) for year in (1, 1969, 2024, 9999))]
    micros = pa.array(times, pa.timestamp("us")).cast(pa.int64())
    mark = {"spark.sql.catalyst.type": "timestamp_ntz"}
    schema = pa.schema([pa.field("n", pa.int64(), metadata=mark), pa.field("m", pa.int64())])
    (tmp_path / "in").mkdir()
    orc.write_table(pa.table([micros, micros], schema=schema), tmp_path / "in" / "1.orc")
    table = catalog.create_table("db.t", Schema.of({"n": "TIMESTAMP(6)", "m": "BIGINT"}))
    add(table, tmp_path / "in", "orc")
    read = table.to_arrow()
    assert read.column("n").to_pylist() == times
    assert read.column("m").to_pylist() == micros.to_pylist()
    for at in times[1:]:
        filtered = table.to_arrow(where=f"n = TIMESTAMP '{at.isoformat(sep=' ')}'")
        assert filtered.column("n").to_pylist() == [at]
    assert table.to_arrow(where="n IS NULL").num_rows == 1


def _parquet(path, *pairs):
    return write(path, rows(*pairs))


def _restore(table, folder):
    (folder / "1.parquet").unlink()
    (folder.parent / "aside").rename(folder / "1.parquet")


@pytest.mark.parametrize(
    ("way_out", "expected"),
    [
        (_restore, [(1, "x")]),
        (lambda table, _: table.segments().refresh([0]), [(5, "new")]),
        (lambda table, _: table.segments().delete([0]), []),
    ],
    ids=["restore", "refresh", "delete"],
)
def test_each_way_out_of_changed_segment_works(table, tmp_path, way_out, expected):
    file = _parquet(tmp_path / "in" / "1.parquet", (1, "x"))
    add(table, file.parent)
    file.rename(tmp_path / "aside")
    _parquet(file, (5, "new"))
    with pytest.raises(errors.InvalidInputError, match=r"Restore it, refresh the segment.*delete"):
        read(table)
    way_out(table, file.parent)
    assert read(table.refresh()) == expected


def test_each_way_out_of_files_of_live_segment_works(table, tmp_path):
    above = tmp_path / "home"
    _parquet(above / "in" / "1.parquet", (1, "x"))
    add(table, above / "in")
    _parquet(above / "2.parquet", (2, "y"))

    def refusal_kind():
        with pytest.raises(errors.AlreadyExistsError, match="only new files") as caught:
            add(table, above)
        return caught.value.kind

    assert refusal_kind() == "segment-path-overlap"
    add(table, above, only_new=True)
    assert read(table.refresh()) == [(1, "x"), (2, "y")]
    assert refusal_kind() == "segment-path-duplicate"
    table.segments().delete([0, 1])
    add(table, above)
    assert read(table.refresh()) == [(1, "x"), (2, "y")]


def test_rows_change_after_foreign_format_segment_is_deleted(catalog, table, tmp_path):
    table.append(rows((1, "x")))
    write(tmp_path / "in" / "1.orc", rows((2, "y")))
    add(table, tmp_path / "in", "orc")
    with pytest.raises(errors.UnsupportedFeatureError, match="delete these first"):
        catalog.execute("DELETE FROM db.t WHERE a = 1")
    table.segments().delete([1])  # 0 is the load
    catalog.execute("DELETE FROM db.t WHERE a = 1")
    assert read(table.refresh()) == []


def test_ways_back_to_schemas_and_snapshots_without_row_ids_work(catalog):
    table = catalog.create_table("db.r", Schema.of({"a": "INT"}))
    table.append(pa.table({"a": pa.array([1], pa.int32())}))
    table.alter([sc.add_column("b", string())])
    table.refresh().append(pa.table({"a": pa.array([2], pa.int32()), "b": ["y"]}))
    table = table.refresh()
    with pytest.raises(errors.InvalidInputError, match="Roll the table back to an earlier"):
        table.rollback_schema(0)
    table.rollback_to(1)
    assert read(table.rollback_schema(0)) == [(1,)]
    table = table.refresh().enable_row_ids()
    with pytest.raises(errors.InvalidInputError, match="Make a branch of it") as caught:
        table.rollback_to(1)
    assert caught.value.kind == "rollback-row-ids"
    table.branches.create("old", snapshot_id=1)
    assert read(table.at_branch("old")) == [(1,)]


@pytest.mark.parametrize("key", ["spark.version", "spark.sql.parquet.row.metadata", ""])
@pytest.mark.parametrize("nested", [False, True])
def test_int96_of_spark_or_of_6_digits_holds_range_of_microseconds(catalog, tmp_path, nested, key):
    """It is Spark's default for timestamps."""
    texts = ["1970-01-01T00:00:00", "9999-12-31T23:59:59.999999"]
    far = pa.array([None, *map(dt.datetime.fromisoformat, texts)], pa.timestamp("us"))
    column = pa.array([{"x": value} for value in far.to_pylist()]) if nested else far
    path = tmp_path / "in" / "1.parquet"
    path.parent.mkdir()
    options = {"store_schema": False, "use_deprecated_int96_timestamps": True}
    with pq.ParquetWriter(path, pa.schema({"t": column.type}), **options) as writer:
        writer.write_table(pa.table({"t": column}))
        writer.add_key_value_metadata({f"org.apache.{key}": "4.0.0"} if key else {})
    if not key:
        fine = {"t": "ROW<x TIMESTAMP(9)>" if nested else "TIMESTAMP(9)"}
        with refused(errors.FormatError, r"declare it as TIMESTAMP\(6\)", kind="timestamp-range"):
            add(new_table(catalog, fine, name="db.fine"), path.parent)
    table = new_table(catalog, {"t": "ROW<x TIMESTAMP(6)>" if nested else "TIMESTAMP(6)"})
    add(table, path.parent)
    assert table.to_arrow()["t"].to_pylist() == column.to_pylist()
    if key:  # else no type is declared, and nanoseconds are exact
        with open_external_file(LocalFileIO(), str(path), FileKind(format="parquet")) as opened:
            assert pa.Table.from_batches(opened.batches)["t"].to_pylist() == column.to_pylist()


@pytest.mark.parametrize("name", ["parquet", "orc"])
def test_column_with_dot_is_no_field(catalog, tmp_path, name):
    """Both have the path a.b in the footer."""
    texts, numbers = [{"b": number} for number in (5, 6, None)], [1, 2, 3]
    for order in (("a", "a.b"), ("a.b", "a")):
        folder = tmp_path / "-".join(order)
        write(folder / f"1.{name}", pa.table({"a": texts, "a.b": numbers}).select(order))
        table = new_table(catalog, {"a.b": "BIGINT", "a": "ROW<b BIGINT>"})
        add(table, folder, name)
        table.append(pa.table({"a": texts, "a.b": numbers}).select(table.schema.field_names))
        for where, count in (("= 1", 2), ("> 4", 0), ("is not null", 6), ("in (2, 5)", 2)):
            assert table.count(f"`a.b` {where}") == count, where
        assert table.to_arrow()["a.b"].to_pylist() == numbers * 2
        catalog.drop_table("db.t")


def test_uuids_are_bytes_and_json_is_text(catalog, tmp_path):
    (tmp_path / "in").mkdir()
    key = uuid.UUID(int=5)
    duckdb.sql(f"copy (select uuid '{key}' as u, json '[1]' as j) to '{tmp_path}/in/1.parquet'")
    table = new_table(catalog, {"u": "BINARY(16)", "j": "STRING"})
    add(table, tmp_path / "in")
    assert table.to_arrow().to_pylist() == [{"u": key.bytes, "j": "[1]"}]


def test_lists_of_fixed_length_are_arrays(catalog, tmp_path):
    vectors: Any = [[1.5, -0.0], None, [2.5, None]]
    inner: Any = [[[1, 2], None], [], None]
    data = pa.table(
        {
            "v": pa.array(vectors, pa.list_(pa.float32(), 2)),
            "w": pa.array(inner, pa.list_(pa.list_(pa.int64(), 2))),
        }
    )
    folder = _make_folder(tmp_path / "in")
    pq.write_table(data, folder / "1.parquet", row_group_size=2)
    pl.from_arrow(data).write_parquet(folder / "2.parquet")
    columns = {"v": "ARRAY<FLOAT>", "w": "ARRAY<ARRAY<BIGINT>>"}
    table = catalog.create_table("db.t", Schema.of(columns))
    add(table, folder)
    assert table.to_arrow().to_pylist() == data.to_pylist() * 2
    assert table.count("v IS NULL") == table.count("w IS NULL") == 2
    other = catalog.create_table("db.u", Schema.of({"v": "ARRAY<DOUBLE>"}))
    with refused(errors.InvalidInputError, "VECTOR<FLOAT, 2> in it", kind="segment-schema"):
        add(other, folder)


@pytest.mark.parametrize("kind", [pa.null(), pa.uint8(), pa.duration("us"), pa.decimal256(60, 2)])
def test_column_of_type_without_equivalent_is_left_out(catalog, tmp_path, kind):
    write(tmp_path / "in" / "1.parquet", pa.table({"a": [1], "b": pa.nulls(1, kind)}))
    table = new_table(catalog, {"a": "BIGINT", "b": "STRING"})
    way_out = "no table has: leave the column out, or write the file again"
    with refused(errors.InvalidInputError, way_out, kind="segment-schema"):
        add(table, tmp_path / "in")
    table.alter([sc.DropColumn(field_names=("b",))])
    table = catalog.get_table("db.t")
    add(table, tmp_path / "in")
    assert table.to_arrow().to_pylist() == [{"a": 1}]


@pytest.mark.parametrize("name", ["b", "a"])
def test_names_that_occur_twice_are_named(catalog, tmp_path, name):
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2]), pa.array([3])], ["a", "b", name])
    write(tmp_path / "in" / "1.parquet", twice)
    table = new_table(catalog, {"a": "BIGINT"})
    with refused(errors.FormatError, f"it has column '{name}' more than once", kind="format"):
        add(table, tmp_path / "in")
