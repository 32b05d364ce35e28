"""ADD, SHOW, DELETE and CLEAN of segments: CarbonData's rules, in their order."""

import os
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from paimon_assets.engine.control.commit.file_store_commit import FileStoreCommit
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.maintenance.expire_snapshots import Retention, expire_snapshots
from paimon_assets.engine.control.scan.file_store_scan import FileStoreScan
from paimon_assets.engine.control.segments import check_row_changes
from paimon_assets.engine.embedded import EmbeddedExecutor
from paimon_assets.engine.errors import (
    AlreadyExistsError,
    FormatError,
    InvalidInputError,
    NotFoundError,
    UnsupportedFeatureError,
)
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.engine.spec.evolution.schema_change import set_option
from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.spec.segments.segment import SegmentStatus
from paimon_assets.engine.table.segments.segment_import import SegmentSource
from paimon_assets.engine.table.segments.segment_status import segment_rows, show_segments
from tests.testkit.foreign import add_segment as add
from tests.testkit.foreign import rows, states, write
from tests.testkit.tables import new_table, read

EXECUTOR = EmbeddedExecutor(threads=2)
OPTION = "name:string,age:int"


@pytest.fixture
def table(catalog):
    return catalog.create_table("db.t", Schema.of({"a": "INT", "b": "STRING"}))


@pytest.fixture
def partitioned_table(catalog):
    columns = {"v": "INT", "name": "STRING", "age": "INT"}
    return catalog.create_table("db.p", Schema.of(columns, partition_keys=["name", "age"]))


@pytest.fixture
def landing(tmp_path):
    folder = tmp_path / "landing"
    folder.mkdir()
    return folder


def check_refused(table, path, message, kind=None, error=InvalidInputError, **more):
    before = table.latest_snapshot()
    with pytest.raises(error, match=message) as caught:
        add(table, path, **more)
    assert kind is None or caught.value.kind == kind
    assert table.latest_snapshot() == before
    assert table.segments().live() == []
    return caught.value


def people(landing, *partitions):
    for number, (name, age) in enumerate(partitions):
        data = pa.table({"v": pa.array([number], pa.int32())})
        write(landing / f"name={name}" / f"age={age}" / "part-0.parquet", data)
    return landing


def test_s1_columns_are_read_in_place(table, landing):
    write(landing / "x" / "1.parquet", rows((1, "x"), (2, None)))
    before = states(landing)
    outcome = add(table, landing / "x")
    assert read(table) == [(1, "x"), (2, None)]
    assert outcome.snapshot.total_record_count == 2
    assert outcome.snapshot.properties["segment.ids"] == "0"
    [file] = [entry.file for entry in table.state.live_files()]
    assert file.external_path == f"file:{landing}/x/1.parquet"
    assert file.value_stats_cols == ("a", "b")
    assert file.value_stats.null_counts == (0, 1)
    assert states(landing) == before
    assert not list(Path(table.path).rglob("*.parquet"))


def test_s2_missing_column_is_refused(table, landing):
    write(landing / "1.parquet", rows((1, "x")).select(["a"]))
    check_refused(
        table, landing, "Schema is not same.*column 'b' STRING is missing", "segment-schema"
    )


def test_s3_s4_extra_columns_and_order_are_ignored(table, landing):
    wide = rows((1, "x")).append_column("c", pa.array(["c"])).select(["c", "b", "a"])
    write(landing / "1.parquet", wide)
    add(table, landing)
    assert read(table) == [(1, "x")]


def test_s5_another_letter_case_is_refused(table, landing):
    write(landing / "1.parquet", rows((1, "x")).rename_columns(["A", "B"]))
    check_refused(table, landing, "column 'a' is called 'A'.*letter case")


@pytest.mark.parametrize(
    ("column", "shown"),
    [
        (pa.array([1], pa.int64()), "BIGINT in it"),
        (pa.array([1], pa.uint32()), "uint32 in it"),
        (pa.array(["1"]), "STRING in it"),
    ],
)
def test_s6_another_type_is_refused(table, landing, column, shown):
    write(landing / "1.parquet", pa.table({"a": column, "b": ["x"]}))
    check_refused(table, landing, f"Schema is not same.*column 'a' is INT in the table and {shown}")


def test_bytes_without_annotation_of_texts_are_refused_with_hint(table, landing):
    data = pa.table({"a": pa.array([1], pa.int32()), "b": [b"x"]})
    write(landing / "1.parquet", data)
    check_refused(table, landing, "a text without its annotation")


def test_every_file_is_checked(table, landing):
    write(landing / "1.parquet", rows((1, "x")))
    write(landing / "deep" / "er" / "2.parquet", rows((1, "x")).select(["b"]))
    error = check_refused(table, landing, "Schema is not same.*2.parquet")
    assert error.details["path"].endswith("deep/er/2.parquet")


def test_s7_formats_are_read_as_one_table(table, landing):
    for name in ("parquet", "orc", "avro", "csv", "json"):
        write(landing / name / f"1.{name}", rows((len(name), name), (None, "null")))
        add(table, landing / name, name)
    table.new_write_builder().write(rows((99, "own")))
    expected = [(len(n), n) for n in ("avro", "csv", "json", "orc", "parquet")]
    assert read(table, where="a IS NOT NULL") == sorted([*expected, (99, "own")], key=str)
    assert read(table, where="a = 3") == [(3, "csv"), (3, "orc")]
    only = table.to_arrow(["b"], "a > 6")
    assert sorted(only.column("b").to_pylist()) == ["own", "parquet"]
    readers = [row["readers"] for row in segment_rows(table.segments().listed())]
    assert readers == ["all", "all", "all", "paimon-assets", "paimon-assets", "all"]
    system = table.system_table("segments").to_arrow()
    assert system.column("format").to_pylist() == [
        "parquet", "orc", "avro", "csv", "json", "parquet",
    ]  # fmt: skip


def test_s8_path_is_added_once(table, landing):
    write(landing / "Data" / "1.parquet", rows((1, "x")))
    add(table, landing / "Data")
    for again in (landing / "Data", f"{landing}/Data/", landing / "data", landing / "x/../Data"):
        with pytest.raises(AlreadyExistsError, match="path already exists"):
            add(table, again)
    with pytest.raises(AlreadyExistsError, match="part of a live segment"):
        add(table, landing)
    assert read(table) == [(1, "x")]


def test_link_to_segment_is_same_path(table, landing):
    write(landing / "data" / "1.parquet", rows((1, "x")))
    (landing / "link").symlink_to(landing / "data")
    add(table, landing / "link")
    with pytest.raises(AlreadyExistsError, match="path already exists"):
        add(table, landing / "data")


def test_s9_deleted_segment_can_be_added_again(table, landing):
    write(landing / "1.parquet", rows((1, "x")))
    add(table, landing)
    table.segments().delete([0])
    assert read(table) == []
    [again] = add(table, landing).segments
    assert (again.id, read(table)) == (1, [(1, "x")])


def test_s10_path_must_name_folder_with_files(table, landing, tmp_path):
    check_refused(table, None, "PATH is mandatory")
    check_refused(table, "", "PATH cannot be empty")
    check_refused(
        table, tmp_path / "gone", "does not exist", "segment-path-not-found", NotFoundError
    )
    (landing / "_SUCCESS").touch()
    (landing / ".part.crc").touch()
    check_refused(table, landing, "no partition data is found", "segment-no-data")


def test_s11_unknown_format_is_refused_before_listing(table, landing):
    check_refused(
        table, landing, "Format not supported: 'foo'", error=UnsupportedFeatureError,
        format_name="foo",
    )  # fmt: skip
    write(landing / "1.parquet", rows((1, "x")))
    check_refused(table, landing, "1.parquet", error=FormatError, format_name="orc")


def test_s12_option_of_partitions_needs_partitions(table, landing):
    write(landing / "1.parquet", rows((1, "x")))
    check_refused(table, landing, "Invalid option: partition", partition="a:int")


def test_s13_each_partition_folder_is_segment(partitioned_table, landing):
    people(landing, ("amy", 12), ("bob", 12), ("bob", 30))
    outcome = add(partitioned_table, landing, partition=OPTION)
    assert [segment.partition_text for segment in outcome.segments] == [
        "name=amy,age=12",
        "name=bob,age=12",
        "name=bob,age=30",
    ]
    assert len(partitioned_table.snapshots()) == 1
    assert read(partitioned_table, where="age = 12") == [(0, "amy", 12), (1, "bob", 12)]
    plan = partitioned_table.new_read_builder().with_filter("name = 'amy'").plan()
    assert sum(len(split.data_files) for split in plan.splits) == 1
    partitioned_table.segments().delete([1])
    assert read(partitioned_table) == [(0, "amy", 12), (2, "bob", 30)]


@pytest.mark.parametrize("name", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("held", [99, None], ids=["another", "null"])
def test_folder_decides_about_partition_of_its_files(catalog, landing, held, name):
    table = catalog.create_table("db.h", Schema.of({"v": "INT", "p": "INT"}, partition_keys=["p"]))
    data = pa.table({"v": pa.array([1, 2], pa.int32()), "p": pa.array([held] * 2, pa.int32())})
    write(landing / "p=1" / f"part-0.{name}", data)
    add(table, landing, name, partition="p:int")
    expected = [(1, 1), (2, 1)]
    assert read(table) == expected
    for where in ("p = 1", "p IS NOT NULL", "p < 50 AND v < 3", "p = 1 OR v = 7", "p IN (1, 2)"):
        assert read(table, where=where) == expected, where
        assert table.count(where) == 2, where
    for where in ("p = 99", "p IS NULL", "p > 50 OR v = 7"):
        assert read(table, where=where) == [], where
    dataset = table.new_read_builder().to_dataset()
    assert dataset.to_table(filter=pc.field("p") == 1).num_rows == 2
    assert dataset.to_table(filter=pc.field("p") == 99).num_rows == 0
    assert catalog.sql("SELECT v FROM db.h WHERE p = 1").to_arrow().num_rows == 2
    lazy = table.new_read_builder().scan_polars()
    assert lazy.filter(pl.col("p") == 1).collect().height == 2


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (None, "partition option is required"),
        ("name:string", "Partition is not same"),
        ("age:int,name:string", "Partition is not same"),
        ("name=amy and age=12", "invalid partition option"),
        ("name=amy,age=12", "invalid partition option"),
        ("name:string,age:integr", "unsupported data type: integr"),
    ],
)
def test_s14_to_s17_option_names_partition_columns(partitioned_table, landing, option, message):
    people(landing, ("amy", 12))
    check_refused(partitioned_table, landing, message, partition=option)


def test_s18_to_s20_folders_give_partition_columns(partitioned_table, landing):
    people(landing / "good", ("amy", 12))
    leaf = landing / "good" / "name=amy" / "age=12"
    check_refused(partitioned_table, leaf, "invalid partition path", partition=OPTION)
    data = pa.table({"v": pa.array([1], pa.int32())})
    write(landing / "half" / "name=amy" / "1.parquet", data)
    check_refused(
        partitioned_table, landing / "half", "does not comply to partitions", partition=OPTION
    )
    write(landing / "flat" / "1.parquet", data)
    check_refused(partitioned_table, landing / "flat", "invalid partition path", partition=OPTION)
    write(landing / "turned" / "age=12" / "name=amy" / "1.parquet", data)
    check_refused(
        partitioned_table, landing / "turned", "does not comply to partitions", partition=OPTION
    )
    write(landing / "bad" / "name=amy" / "age=x" / "1.parquet", data)
    check_refused(partitioned_table, landing / "bad", "'x' is not a value", partition=OPTION)


def test_missing_columns_are_reported_first(partitioned_table, landing):
    write(landing / "1.parquet", pa.table({"v": ["no int"]}))
    check_refused(partitioned_table, landing, "Schema is not same", partition=OPTION)


def test_s21_option_ignores_letter_case_and_blanks(partitioned_table, landing):
    people(landing, ("amy", 12))
    add(partitioned_table, landing, partition=" NAME : STRING , Age:INT ")
    assert read(partitioned_table) == [(0, "amy", 12)]


def test_s22_rows_cannot_change_beside_another_format(table, landing):
    store = FileStore.open(table.state.file_io, table.path)
    write(landing / "o" / "1.orc", rows((1, "x")))
    add(table, landing / "o", "orc")
    with pytest.raises(UnsupportedFeatureError, match="Unsupported update operation on table"):
        check_row_changes(store, table.state.live_files(), "update")
    table.segments().delete([0])
    check_row_changes(store, table.state.live_files(), "update")
    write(landing / "p" / "1.parquet", rows((1, "x")))
    add(table, landing / "p")
    check_row_changes(store, table.state.live_files(), "delete")
    write(landing / "c" / "1.csv", rows((1, "x")))
    add(table, landing / "c", "csv")
    with pytest.raises(UnsupportedFeatureError, match=r"Unsupported delete operation.*csv"):
        check_row_changes(store, table.state.live_files(), "delete")


def test_s24_delete_and_clean_remove_only_metadata(table, landing):
    write(landing / "1.parquet", rows((1, "x")))
    write(landing / "csv" / "1.csv", rows((2, "y")))
    before = states(landing)
    add(table, landing / "csv", "csv")
    (landing / "p").mkdir()
    (landing / "1.parquet").rename(landing / "p" / "1.parquet")
    before = states(landing)
    add(table, landing / "p")
    segments = table.segments()
    segments.delete(before_ms=2**62)
    assert [segment.status for segment in segments.listed()] == ["Marked for Delete"] * 2
    assert segments.clean() == []
    assert len(segments.clean(force=True)) == 2
    assert segments.listed() == []
    assert states(landing) == before
    [tag] = list((Path(table.path) / "tag").iterdir())
    assert tag.name == "tag-__segment_hold_1_2"


def test_s26_s27_folder_names_are_hives(partitioned_table, landing):
    people(landing, ("__HIVE_DEFAULT_PARTITION__", 1), ("a%2Fb", 2), ("__DEFAULT_PARTITION__", 3))
    add(partitioned_table, landing, partition=OPTION)
    assert read(partitioned_table) == [(0, None, 1), (1, "a/b", 2), (2, None, 3)]


def test_show_has_columns_and_words_of_carbon(partitioned_table, table, landing):
    people(landing / "p", ("amy", 12), ("bob", 3))
    add(partitioned_table, landing / "p", partition=OPTION)
    shown = show_segments(partitioned_table.segments().listed())
    assert shown.column_names == [
        "ID", "Status", "Load Start Time", "Load Time Taken", "Partition", "Data Size",
        "Index Size", "File Format", "Path", "Options",
    ]  # fmt: skip
    assert shown.column("ID").to_pylist() == ["1", "0"]
    newest = shown.slice(0, 1).to_pylist()[0]
    assert newest["Status"] == "Success"
    assert newest["Partition"] == "{name=bob,age=3}"
    assert newest["Load Time Taken"].endswith("S")
    assert (newest["Index Size"], newest["File Format"]) == ("NA", "parquet")
    assert show_segments(partitioned_table.segments().listed(), limit=1).num_rows == 1
    write(landing / "u" / "1.parquet", rows((1, "x")))
    add(table, landing / "u")
    assert show_segments(table.segments().listed()).column("Partition").to_pylist() == ["NA"]


@pytest.mark.parametrize(
    "schema",
    [
        Schema.of({"a": "INT", "b": "STRING"}, primary_keys=["a"], options={"bucket": "1"}),
        Schema.of({"a": "INT", "b": "STRING"}, options={"bucket": "2", "bucket-key": "a"}),
        Schema.of({"a": "INT", "b": "STRING"}, options={"row-tracking.enabled": "true"}),
    ],
)
def test_only_plain_append_tables_have_segments(catalog, landing, schema):
    write(landing / "1.parquet", rows((1, "x")))
    other = catalog.create_table("db.other", schema)
    with pytest.raises(UnsupportedFeatureError):
        add(other, landing)


def test_folders_that_tables_own_are_refused(catalog, table, landing, tmp_path):
    inside = Path(table.path) / "landing"
    write(inside / "1.parquet", rows((1, "x")))
    message = "cannot become a segment"
    check_refused(table, inside, "in the directory of table", "segment-path-owned")
    beside = Path(table.path).parent / "files"
    write(beside / "1.parquet", rows((1, "x")))
    check_refused(table, beside, "database of the warehouse")
    check_refused(table, tmp_path, "holds table")
    other = landing / "paimon"
    write(other / "data" / "1.parquet", rows((1, "x")))
    (other / "schema").mkdir()
    (other / "schema" / "schema-0").write_text("{}")
    check_refused(table, other / "data", message)
    write(landing / "delta" / "1.parquet", rows((1, "x")))
    (landing / "delta" / "_delta_log").mkdir()
    check_refused(table, landing / "delta", "a Delta table", error=UnsupportedFeatureError)
    check_refused(table, "s3://bucket/x", "must be on the table's", error=UnsupportedFeatureError)


def test_not_null_column_accepts_required_file_column(catalog, landing):
    strict = catalog.create_table("db.strict", Schema.of({"a": "INT NOT NULL", "b": "STRING"}))
    write(landing / "ok" / "1.parquet", rows((1, None)))
    write(landing / "orc" / "1.orc", rows((1, None)))
    add(strict, landing / "ok")
    add(strict, landing / "orc", "orc")
    write(landing / "null" / "1.parquet", rows((None, "x")))
    with pytest.raises(InvalidInputError, match="column 'a' is NOT NULL"):
        add(strict, landing / "null")
    assert read(strict) == [(1, None), (1, None)]


def test_dry_run_shows_files_columns_and_differences(table, landing):
    write(landing / "1.parquet", rows((1, "x")).rename_columns(["a", "c"]))
    source = SegmentSource(path=str(landing))
    plan = table.segments().plan(source)
    assert [(column.name, column.type_text) for column in plan.columns] == [
        ("a", "INT"),
        ("c", "STRING"),
    ]
    assert list(plan.differences) == ["1.parquet"]
    assert plan.problem.kind == "segment-schema"
    assert table.latest_snapshot() is None
    assert table.segments().listed() == []


def test_only_new_files_are_added_on_request(partitioned_table, landing):
    people(landing, ("amy", 12))
    add(partitioned_table, landing, partition=OPTION)
    assert add(partitioned_table, landing, partition=OPTION, only_new=True).snapshot is None
    people(landing, ("amy", 13), ("bob", 1))
    (landing / "name=amy" / "age=12" / "part-9.parquet").write_bytes(
        (landing / "name=bob" / "age=1" / "part-0.parquet").read_bytes()
    )
    outcome = add(partitioned_table, landing, partition=OPTION, only_new=True)
    assert [segment.id for segment in outcome.segments] == [1, 2, 3]
    assert len(read(partitioned_table)) == 4


def test_repeated_add_commits_once(table, landing):
    write(landing / "1.parquet", rows((1, "x")))
    source = SegmentSource(path=str(landing))
    first = table.segments().add(source, EXECUTOR, commit_user="run-1")
    second = table.segments().add(source, EXECUTOR, commit_user="run-1")
    assert (first.was_already_committed, second.was_already_committed) == (False, True)
    assert second.snapshot == first.snapshot
    assert second.segments == first.segments
    assert read(table) == [(1, "x")]


def test_foreign_writers_are_stopped_from_compacting(catalog, table, landing):
    write(landing / "1.parquet", rows((1, "x")))
    add(table, landing)
    assert catalog.get_table("db.t").schema.options["write-only"] == "true"
    os.utime(landing / "1.parquet")


def test_statuses_follow_snapshot(table, landing):
    write(landing / "1.parquet", rows((1, "x")))
    add(table, landing)
    table.truncate()
    [segment] = table.segments().listed()
    assert segment.status is SegmentStatus.MARKED_FOR_DELETE
    assert (Path(table.path) / "tag" / "tag-__segment_hold_0_1").exists()
    add(table, landing)
    assert read(table) == [(1, "x")]


def test_crash_between_registry_and_commit_is_atomic(table, landing, monkeypatch):
    write(landing / "1.parquet", rows((1, "x")))
    source = SegmentSource(path=str(landing))

    def crash(*_args, **_kwargs):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(FileStoreCommit, "commit", crash)
        with pytest.raises(KeyboardInterrupt):
            table.segments().add(source, EXECUTOR, commit_user="run-1")
    assert read(table) == []
    assert [item.status for item in table.segments().listed()] == ["Insert In Progress"]
    table.segments().add(source, EXECUTOR, commit_user="run-1")
    assert read(table) == [(1, "x")]

    with monkeypatch.context() as patched:
        patched.setattr("paimon_assets.engine.table.segments.segments.Segments._finish", crash)
        write(landing.parent / "more" / "2.csv", rows((2, "y")))
        with pytest.raises(KeyboardInterrupt):
            add(table, landing.parent / "more", "csv")
    assert [item.status for item in table.segments().listed()] == ["Success", "Success"]
    assert read(table) == [(1, "x"), (2, "y")]


def test_live_files_of_snapshot_do_not_name_text_files(table, landing):
    write(landing / "1.csv", rows((1, "x")))
    outcome = add(table, landing, "csv")
    store = FileStore.open(table.state.file_io, table.path)
    assert FileStoreScan(store).live_files(outcome.snapshot) == []
    assert outcome.snapshot.total_record_count == 0


def test_columns_that_differ_in_letter_case_alone_are_refused(table, landing):
    data = pa.table({"a": pa.array([1], pa.int32()), "b": ["x"], "A": ["y"]})
    write(landing / "1.parquet", data)
    with pytest.raises(InvalidInputError, match="'a' is beside one that differs in letter"):
        add(table, landing)
    write(landing / "1.parquet", data.rename_columns(["a", "b", "C"]))
    add(table, landing)
    assert read(table) == [(1, "x")]


@pytest.mark.parametrize("has_vectors", ["false", "true"])
def test_no_operation_changes_rows_beside_another_format(catalog, landing, has_vectors):
    options = {"deletion-vectors.enabled": has_vectors}
    table = new_table(catalog, {"a": "INT", "b": "STRING"}, options=options, name="db.changed")
    table.new_write_builder().write(rows((1, "own"), (2, "own")))
    write(landing / "o" / "1.orc", rows((1, "orc")))
    write(landing / "p" / "1.parquet", rows((1, "parquet")))
    before = states(landing)
    add(table, landing / "p")
    add(table, landing / "o", "orc")
    changes = table.new_row_change_builder()
    verbs = (
        lambda: changes.delete("a = 1"),
        lambda: changes.delete(None),
        lambda: catalog.execute("DELETE FROM db.changed"),
        lambda: changes.update({"b": "x"}, "a = 1"),
        lambda: changes.update({"b": "x"}, None),
        lambda: changes.merge(rows((1, "m")), on=["a"]),
    )
    snapshot = table.latest_snapshot()
    for verb in verbs:
        with pytest.raises(UnsupportedFeatureError, match="mixed format segments") as caught:
            verb()
        assert caught.value.kind == "segment-mixed-formats"
    assert table.latest_snapshot() == snapshot
    table.segments().delete([2])
    changes.update({"b": "x"}, "a = 1")
    changes.delete("a = 2")
    assert read(table) == [(1, "x"), (1, "x")]
    assert states(landing) == before


@pytest.mark.parametrize("is_partitioned", [False, True])
@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_tables_are_emptied_with_any_segment_format(catalog, landing, file_format, is_partitioned):
    columns = {"a": "INT", "b": "STRING"} | ({"p": "INT"} if is_partitioned else {})
    keys, spec = (["p"], {"partition": "p:int"}) if is_partitioned else ([], {})
    table = catalog.create_table("db.e", Schema.of(columns, partition_keys=keys))
    folder = landing / "l" / ("p=1" if is_partitioned else "")
    write(folder / f"1.{file_format}", rows((1, "x"), (2, "y")))
    before = states(landing)
    for empty in (table.truncate, lambda: table.overwrite(table.to_arrow()[:0], partition={})):
        add(table, landing / "l", file_format, **spec)
        assert table.count() == 2
        if file_format != "parquet":
            with pytest.raises(UnsupportedFeatureError, match="mixed format segments"):
                catalog.execute("DELETE FROM db.e")
        assert table.count() == 2
        empty()
        assert table.count() == 0
    assert states(landing) == before


def test_linked_files_stay_in_allowed_folders(table, landing, tmp_path):
    write(landing / "a" / "1.parquet", rows((1, "x")))
    write(tmp_path / "secret" / "1.parquet", rows((2, "y")))
    (landing / "link").symlink_to(tmp_path / "secret")
    (landing / "b").mkdir()
    (landing / "b" / "2.parquet").symlink_to(tmp_path / "secret" / "1.parquet")
    (landing / "c" / "deep").mkdir(parents=True)
    (landing / "c" / "deep" / "link").symlink_to(tmp_path / "secret")
    (tmp_path / "alias").symlink_to(landing)
    allowed = table.segments(roots=[f"{tmp_path}/alias/", "s3://bucket/landing"])
    outside = ("link", "b", "c", "a/../../secret", "../landing-2", "../no/such")
    for path in [f"{landing}/{name}" for name in outside] + ["s3://bucket/landing-2/x"]:
        with pytest.raises(InvalidInputError, match=r"is in none of the folders.*landing") as e:
            allowed.add(SegmentSource(path=path))
        assert e.value.kind == "segment-path-outside", path
    assert table.latest_snapshot() is None
    allowed.add(SegmentSource(path=f"{landing}/b/../a"))
    assert read(table) == [(1, "x")]
    write(landing / "a" / "2.parquet", rows((3, "z")))
    with pytest.raises(InvalidInputError, match="there are none"):
        table.segments(roots=[]).refresh([])
    allowed.refresh([])
    assert read(table) == [(1, "x"), (3, "z")]
    with pytest.raises(InvalidInputError, match="blank"):
        table.segments(roots=["/a", " "])


def test_options_do_not_make_segment_files_own(catalog, table, landing):
    write(landing / "sales" / "1.parquet", rows((1, "x")))
    before = states(landing)
    add(table, landing / "sales")
    root = {"data-file.external-paths": f"file:{landing}"}
    for change in (table.alter, table.alter_checked, table.plan_alter):
        with pytest.raises(InvalidInputError, match="segment 0 is in") as caught:
            change([set_option(*next(iter(root.items())))])
        assert caught.value.kind == "segment-path-owned"
    with pytest.raises(InvalidInputError, match="segment 0 is in"):
        catalog.alter_table("db.t", [set_option(*next(iter(root.items())))])
    opened = table.copy(root)
    opened.new_write_builder().with_overwrite().write(rows((2, "y")))
    assert any(tag.name.startswith("__segment_hold_") for tag in table.tags.list())
    newest = Retention(min_count=1, max_count=1, time_ms=0, limit=9)
    expired = expire_snapshots(
        FileStore.open(LocalFileIO(), table.path, options=root), retention=newest
    )
    assert expired.snapshot_ids == (1,)
    assert states(landing) == before
    with pytest.raises(InvalidInputError, match="folder of the table's own files"):
        add(opened, landing / "sales")


def test_segment_file_linked_outside_roots_is_not_read(table, landing, tmp_path):
    file = landing / "a" / "1.parquet"
    write(file, rows((1, "x")))
    table.segments(roots=[str(landing)]).add(SegmentSource(path=str(landing / "a")))
    assert read(table) == [(1, "x")]
    secret = tmp_path / "secret.parquet"
    file.rename(secret)
    file.symlink_to(secret)
    with pytest.raises(InvalidInputError, match="is in none of the folders"):
        read(table)


@pytest.mark.parametrize("format_name", ["parquet", "csv"])
def test_killed_import_is_finished_by_next_with_new_files(table, landing, monkeypatch, format_name):
    def die(*_args, **_kwargs):
        raise KeyboardInterrupt

    write(landing / f"1.{format_name}", rows((1, "x")))
    with monkeypatch.context() as patched:
        patched.setattr(FileStoreCommit, "commit", die)
        with pytest.raises(KeyboardInterrupt):
            add(table, landing, format_name)
    write(landing / f"2.{format_name}", rows((2, "y")))
    add(table, landing, format_name, only_new=True)
    assert read(table) == [(1, "x"), (2, "y")]
    assert [item.status for item in table.segments().listed()] == ["Success"]


@pytest.mark.parametrize("format_name", ["parquet", "csv"])
def test_one_of_two_concurrent_imports_commits(table, landing, monkeypatch, format_name):
    write(landing / f"1.{format_name}", rows((1, "x")))
    commit = FileStoreCommit.commit

    def overtaken(self, *args, **kwargs):
        monkeypatch.setattr(FileStoreCommit, "commit", commit)
        add(table, landing, format_name)
        return commit(self, *args, **kwargs)

    monkeypatch.setattr(FileStoreCommit, "commit", overtaken)
    with pytest.raises(AlreadyExistsError, match="another command added it as segment 1"):
        add(table, landing, format_name)
    assert read(table) == [(1, "x")]
    assert [item.status for item in table.segments().listed()] == ["Success"]


def test_segments_are_queried_by_carbon_names(catalog, partitioned_table, landing):
    people(landing, ("amy", 12), ("bob", 3))
    add(partitioned_table, landing, partition=OPTION)
    show = f"SHOW SEGMENTS FOR TABLE {partitioned_table.name}"
    view = f"{partitioned_table.name.rpartition('.')[2]}_segments"
    query = f"{show} AS SELECT id, dataSize > 0 AS has, partitions[1] AS p FROM {view} WHERE id < 9"
    found = catalog.execute(f"{query} ORDER BY id").to_pylist()
    assert [row["id"] for row in found] == [0, 1]
    assert {row["p"] for row in found} == {"name=amy,age=12", "name=bob,age=3"}
    everything = catalog.execute(f"{show} LIMIT 1 AS (SELECT * FROM {view});")
    assert everything.column_names == [
        "id", "status", "loadStartTime", "timeTakenMs", "partitions", "dataSize", "indexSize",
        "mergedToId", "format", "path", "loadEndTime", "segmentFileName",
    ]  # fmt: skip
    assert everything.column("id").to_pylist() == [1]
    [times] = catalog.execute(f"{show} AS SELECT max(timeTakenMs) AS t FROM {view}").to_pylist()
    assert times["t"] >= 0
    for wrong in ("SELECT * FROM other", "SELECT nothing FROM " + view, "SELECT", ""):
        with pytest.raises(InvalidInputError):
            catalog.execute(f"{show} AS {wrong}")
