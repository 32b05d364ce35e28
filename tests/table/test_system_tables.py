"""System tables: their columns, and rows that agree with what lies in the table."""

import datetime as dt
import json
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_assets.engine.embedded import EmbeddedExecutor
from paimon_assets.engine.errors import InvalidInputError, NotFoundError
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.table.system import SYSTEM_TABLES
from paimon_assets.engine.table.system.metadata import duration_text

EXECUTOR = EmbeddedExecutor(threads=2)
OF_PAIMON = {
    "aggregation_fields", "audit_log", "binlog", "branches", "buckets", "consumers",
    "file_key_ranges", "files", "manifests", "options", "partitions", "ro", "row_tracking",
    "schemas", "snapshots", "statistics", "table_indexes", "tags",
}  # fmt: skip
"""Those of `org.apache.paimon.table.system.SystemTableLoader`, 1.4 and 2.0."""


@pytest.fixture
def table(catalog):
    made = catalog.create_table(
        "db.t",
        Schema.of(
            {"id": "BIGINT", "dt": "STRING", "day": "DATE", "v": "BIGINT"},
            primary_keys=["id", "dt"],
            partition_keys=["dt"],
            options={
                "bucket": "1",
                "merge-engine": "aggregation",
                "fields.v.aggregate-function": "sum",
                "fields.day.aggregate-function": "max",
            },
            comments={"v": "a sum"},
        ),
    )
    for ids, parts in (([1, 2], ["x", "y"]), ([3], ["y"])):
        days = [dt.date(2024, 1, number) for number in ids]
        rows = pa.table({"id": ids, "dt": parts, "day": days, "v": [None, *ids][: len(ids)]})
        made.new_write_builder().write(rows, EXECUTOR)
    return made


def test_there_are_all_of_paimon_and_one_of_our_own():
    assert set(SYSTEM_TABLES) == {*OF_PAIMON, "segments"}


def rows(table, kind):
    return table.system_table(kind).to_arrow(EXECUTOR).to_pylist()


@pytest.mark.parametrize("kind", [kind for kind in SYSTEM_TABLES if kind != "row_tracking"])
def test_schema_and_rows_agree_on_full_and_on_empty_tables(catalog, table, kind):
    empty = catalog.create_table("db.empty", Schema.of({"id": "BIGINT"}))
    for some in (table, empty):
        system = some.system_table(kind)
        assert system.to_arrow(EXECUTOR).schema == system.arrow_schema
        assert system.name == f"{some.name}${kind}"


def test_files_tell_where_they_lie_and_what_they_hold(table):
    files = sorted(rows(table, "files"), key=lambda row: (row["partition"], row["min_key"]))
    assert [row["partition"] for row in files] == ["{x}", "{y}", "{y}"]
    assert all(Path(row["file_path"]).stat().st_size == row["file_size_in_bytes"] for row in files)
    first = files[0]
    assert (first["min_key"], first["max_key"]) == ("[1]", "[1]")
    assert first["min_value_stats"] == "{day=2024-01-01, dt=x, id=1, v=null}"
    assert first["null_value_counts"] == "{day=0, dt=0, id=0, v=1}"
    assert (first["file_source"], first["level"], first["deleteRowCount"]) == ("APPEND", 0, 0)
    ranges = rows(table, "file_key_ranges")
    assert {row["file_path"] for row in ranges} == {row["file_path"] for row in files}


def test_sums_by_partition_and_bucket(table):
    partitions = rows(table, "partitions")
    assert [row["partition"] for row in partitions] == ["dt=x", "dt=y"]
    assert [row["record_count"] for row in partitions] == [1, 2]
    assert [row["file_count"] for row in partitions] == [1, 2]
    assert {row["total_buckets"] for row in partitions} == {1}
    buckets = rows(table, "buckets")
    assert [(row["partition"], row["bucket"], row["record_count"]) for row in buckets] == [
        ("{x}", 0, 1), ("{y}", 0, 2)
    ]  # fmt: skip
    manifests = rows(table, "manifests")
    assert sum(row["num_added_files"] for row in manifests) == 3
    assert (manifests[0]["min_partition_stats"], manifests[0]["max_partition_stats"]) == (
        "{x}", "{y}"
    )  # fmt: skip


def test_a_blank_partition_is_shown_as_null_is_and_a_time_as_a_time(catalog):
    schema = Schema.of({"p": "STRING", "t": "TIME(0)", "v": "INT"}, partition_keys=["p", "t"])
    made = catalog.create_table("db.blank", schema)
    values = {"p": ["", "x"], "t": pa.array([3_600_000] * 2, pa.time32("ms")), "v": [1, 2]}
    made.new_write_builder().write(pa.table(values), EXECUTOR)
    shown = sorted(row["partition"] for row in rows(made, "partitions"))
    assert shown == ["p=__DEFAULT_PARTITION__/t=01:00:00", "p=x/t=01:00:00"]


def test_partitions_are_shown_as_casts_write_them(catalog):
    made = catalog.create_table(
        "db.days", Schema.of({"v": "INT", "day": "DATE", "n": "INT"}, partition_keys=["day", "n"])
    )
    days = [dt.date(2024, 1, 2), None]
    made.new_write_builder().write(pa.table({"v": [1, 2], "day": days, "n": [None, 7]}))

    for kind in ("files", "file_key_ranges", "buckets"):
        assert {row["partition"] for row in rows(made, kind)} == {"{2024-01-02, null}", "{null, 7}"}
    assert [row["partition"] for row in rows(made, "partitions")] == [
        "day=2024-01-02/n=__DEFAULT_PARTITION__", "day=__DEFAULT_PARTITION__/n=7"
    ]  # fmt: skip


def test_a_moment_counts_for_system_tables_too(catalog, table):
    assert len(rows(table.copy({"scan.snapshot-id": "1"}), "files")) == 2
    system = catalog.get_system_table("db.t$partitions", options={"scan.snapshot-id": "1"})
    assert [row["record_count"] for row in system.to_arrow().to_pylist()] == [1, 1]


def test_names_and_progress(catalog, table):
    table.tags.create("v1", 1, time_retained=dt.timedelta(hours=36, milliseconds=5))
    table.tags.create("v2")
    table.branches.create("b", tag="v1")
    table.consumers.advance("etl", 3)
    tags = rows(table, "tags")
    assert [(row["tag_name"], row["snapshot_id"]) for row in tags] == [("v1", 1), ("v2", 2)]
    assert [row["time_retained"] for row in tags] == ["PT36H0.005S", None]
    assert tags[0]["create_time"] is not None
    assert [row["branch_name"] for row in rows(table, "branches")] == ["b"]
    assert rows(table, "consumers") == [{"consumer_id": "etl", "next_snapshot_id": 3}]
    on_branch = catalog.get_system_table("db.t$branch_b$snapshots").to_arrow()
    assert on_branch.column("snapshot_id").to_pylist() == [1]


def test_schemas_options_and_functions(table):
    schema = rows(table, "schemas")[0]
    assert schema["primary_keys"] == '["id", "dt"]'
    assert json.loads(schema["options"])["bucket"] == "1"
    assert {row["key"]: row["value"] for row in rows(table, "options")}["bucket"] == "1"
    functions = {row["field_name"]: row for row in rows(table, "aggregation_fields")}
    assert functions["v"] == {
        "field_name": "v",
        "field_type": "BIGINT",
        "function": "[sum]",
        "function_options": "[fields.v.aggregate-function]",
        "comment": "a sum",
    }
    assert functions["id"]["function"] == "[]"
    assert [row["commit_kind"] for row in rows(table, "snapshots")] == ["APPEND", "APPEND"]


def test_statistics_are_those_the_snapshot_names(table):
    path = f"{table.path}/snapshot/snapshot-2"
    data = LocalFileIO().read_bytes(path)
    LocalFileIO().replace(path, data[:-1] + b',"statistics":"stat-1"}')
    text = b'{"snapshotId":2,"schemaId":0,"mergedRecordCount":3,"colStats":{"v":{"colId":3}}}'
    LocalFileIO().write_bytes(f"{table.path}/statistics/stat-1", text)
    assert rows(table, "statistics") == [
        {
            "snapshot_id": 2,
            "schema_id": 0,
            "mergedRecordCount": 3,
            "mergedRecordSize": None,
            "colstat": '{"v": {"colId": 3}}',
        }
    ]


def test_read_optimized_shows_what_needs_no_merging(catalog, table):
    assert rows(table, "ro") == []
    plain = catalog.create_table("db.a", Schema.of({"id": "BIGINT"}))
    plain.new_write_builder().write(pa.table({"id": [1]}), EXECUTOR)
    assert rows(plain, "ro") == [{"id": 1}]
    # A table whose files of level 0 are the top level.
    assert len(rows(table.copy({"num-levels": "1"}), "ro")) == 3


def test_row_ids_need_row_tracking(table):
    with pytest.raises(NotFoundError, match=r"'row-tracking.enabled' is not set"):
        table.system_table("row_tracking").to_arrow()


def test_unknown_names_are_answered_with_those_there_are(catalog, table):
    with pytest.raises(NotFoundError, match="no system table 'file'; there are snapshots, "):
        table.system_table("file")
    with pytest.raises(NotFoundError, match=r"'db.x' does not exist"):
        catalog.get_system_table("db.x$files")
    with pytest.raises(InvalidInputError, match="names no system table"):
        catalog.get_system_table("db.t$branch_b")


@pytest.mark.parametrize(
    ("duration", "text"),
    [
        (dt.timedelta(), "PT0S"),
        (dt.timedelta(days=2), "PT48H"),
        (dt.timedelta(minutes=1, seconds=30), "PT1M30S"),
        (dt.timedelta(milliseconds=250), "PT0.25S"),
    ],
)
def test_durations_are_written_as_java_does(duration, text):
    assert duration_text(duration) == text
