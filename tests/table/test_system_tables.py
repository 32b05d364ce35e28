"""System tables: their columns, and rows that agree with the table's files."""

import datetime as dt
import json
import logging
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner

from paimon_assets import Identifier, InvalidInputError, NotFoundError, Schema, open_catalog
from paimon_assets.cli.main import main
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.engine.spec.words import duration_text
from paimon_assets.engine.table.system.system_table import GLOBAL_SYSTEM_TABLES, SYSTEM_TABLES
from tests.testkit.errors import refused
from tests.testkit.tables import new_table

OF_PAIMON = {
    "aggregation_fields", "audit_log", "binlog", "branches", "buckets", "consumers",
    "file_key_ranges", "files", "manifests", "options", "partitions", "ro", "row_tracking",
    "schemas", "snapshots", "statistics", "table_indexes", "tags",
}  # fmt: skip
"""Those of `org.apache.paimon.table.system.SystemTableLoader`, 1.4 and 2.0."""


@pytest.fixture
def table(catalog):
    made = new_table(
        catalog,
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
    )
    for ids, parts in (([1, 2], ["x", "y"]), ([3], ["y"])):
        days = [dt.date(2024, 1, number) for number in ids]
        rows = pa.table({"id": ids, "dt": parts, "day": days, "v": [None, *ids][: len(ids)]})
        made.new_write_builder().write(rows)
    return made


def test_system_tables_are_those_of_paimon_and_one_more():
    assert set(SYSTEM_TABLES) == {*OF_PAIMON, "segments"}


def rows(table, kind):
    return table.system_table(kind).to_arrow().to_pylist()


@pytest.mark.parametrize("kind", [kind for kind in SYSTEM_TABLES if kind != "row_tracking"])
def test_schema_and_rows_agree_on_full_and_on_empty_tables(catalog, table, kind):
    for some in (table, catalog.create_table("db.empty", Schema.of({"id": "BIGINT"}))):
        system = some.system_table(kind)
        assert system.to_arrow().schema == system.arrow_schema
        assert system.name == f"{some.name}${kind}"


def test_files_show_their_paths_and_key_ranges(table):
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


def test_blank_and_time_partitions_are_shown(catalog):
    schema = Schema.of({"p": "STRING", "t": "TIME(0)", "v": "INT"}, partition_keys=["p", "t"])
    made = catalog.create_table("db.blank", schema)
    values = {"p": ["", "x"], "t": pa.array([3_600_000] * 2, pa.time32("ms")), "v": [1, 2]}
    made.new_write_builder().write(pa.table(values))
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


def test_system_tables_obey_time_travel(catalog, table):
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


def test_statistics_belong_to_snapshot(table):
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


def test_read_optimized_shows_rows_without_merging(catalog, table):
    assert rows(table, "ro") == []
    plain = catalog.create_table("db.a", Schema.of({"id": "BIGINT"}))
    plain.new_write_builder().write(pa.table({"id": [1]}))
    assert rows(plain, "ro") == [{"id": 1}]
    # A table whose files of level 0 are the top level.
    assert len(rows(table.copy({"num-levels": "1"}), "ro")) == 3


def test_row_ids_need_row_tracking(table):
    with pytest.raises(NotFoundError, match=r"'row-tracking.enabled' is not set"):
        table.system_table("row_tracking").to_arrow()


def test_unknown_name_lists_existing_ones(catalog, table):
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


@pytest.fixture
def warehouse(tmp_path):
    return str(tmp_path / "warehouse")


@pytest.fixture
def databases(warehouse):
    """Two databases, four tables: partitioned and written, empty, not partitioned, another's."""
    databases = open_catalog(warehouse)
    for database in ("a", "b", "empty"):
        databases.create_database(database)
    days = Schema.of(
        {"id": "BIGINT", "dt": "STRING", "hour": "INT"},
        primary_keys=["id", "dt", "hour"],
        partition_keys=["dt", "hour"],
        options={"bucket": "1", "s3.secret-key": "abc", "fields.id.default-value": "1"},
    )
    table = databases.create_table("a.days", days)
    databases.create_table("a.empty", days)
    hours = pa.array([3, 4, 4], pa.int32())
    for _ in range(2):
        listed = pa.table({"id": [1, 2, 3], "dt": ["x", "y", "y"], "hour": hours})
        table.new_write_builder().write(listed)
    databases.create_table("b.plain", Schema.of({"id": "BIGINT"}))
    files = Schema.of({"id": "BIGINT"}, options={"type": "format-table"})
    databases._catalog.create_table(Identifier("b", "files"), files)  # as other engines do
    return databases


def list_rows(databases, kind):
    system = databases.get_system_table(f"sys.{kind}")
    read = system.to_arrow()
    assert read.schema == system.arrow_schema
    return read.to_pylist()


def test_tables_of_all_databases_with_facts_of_their_lists(databases):
    found = {
        f"{row['database_name']}.{row['table_name']}": row for row in list_rows(databases, "tables")
    }
    assert list(found) == ["a.days", "a.empty", "b.files", "b.plain"]
    days = found["a.days"]
    assert (days["table_type"], days["partitioned"], days["primary_key"]) == ("table", True, True)
    assert (days["record_count"], days["file_count"], days["owner"]) == (6, 4, None)
    own = databases.get_system_table("a.days$files").to_arrow()
    assert days["file_size_in_bytes"] == sum(own.column("file_size_in_bytes").to_pylist()) > 0
    assert days["last_file_creation_time"] is not None
    assert found["a.empty"]["record_count"] is None
    assert found["a.empty"]["file_size_in_bytes"] is None
    assert found["b.files"]["table_type"] == "format-table"
    assert (found["b.plain"]["partitioned"], found["b.plain"]["primary_key"]) == (False, False)


def test_partitions_of_all_tables(databases):
    found = list_rows(databases, "partitions")
    names = [(row["database_name"], row["table_name"], row["partition_name"]) for row in found]
    assert names == [("a", "days", "dt=x/hour=3"), ("a", "days", "dt=y/hour=4")]
    own = databases.get_system_table("a.days$partitions").to_arrow()
    for column in ("record_count", "file_size_in_bytes", "file_count"):
        assert [row[column] for row in found] == own.column(column).to_pylist()
    times = own.column("last_update_time").cast(pa.int64()).to_pylist()
    assert [row["last_file_creation_time"] for row in found] == times
    assert [row["done"] for row in found] == [False, False]


def test_options_of_all_tables_without_their_secrets(databases, warehouse):
    found = [tuple(row.values()) for row in list_rows(databases, "all_table_options")]
    assert [row[1:] for row in found if row[:2] == ("a", "days")] == [
        ("days", "bucket", "1"),
        ("days", "fields.id.default-value", "1"),
        ("days", "path", f"{warehouse}/a.db/days"),
        ("days", "s3.secret-key", "******"),
    ]
    assert ("b", "files", "type", "format-table") in found
    for kind in ("options", "schemas"):
        own = databases.get_system_table(f"a.days${kind}").to_arrow()
        assert "******" in str(own.to_pylist())
        assert "abc" not in str(own.to_pylist())


def test_options_of_catalog_without_their_secrets(warehouse):
    given = {
        "lock.enabled": "false",
        "lock.type": "jdbc",
        "uri": "jdbc:sqlite:/l.db?password=abc",
        "s3.endpoint": "http://me:abc@host",
        "s3.access-key": "abc",
        "gs.token": "abc",
        "anything": "abc",
    }
    found = {
        row["key"]: row["value"]
        for row in list_rows(open_catalog(warehouse, given), "catalog_options")
    }
    assert found == {
        **dict.fromkeys(given, "******"),
        "warehouse": warehouse,
        "lock.enabled": "false",
        "s3.endpoint": "http://******@host",
    }
    assert "abc" not in repr(open_catalog(warehouse, given).get_system_table("sys.tables"))


@pytest.mark.parametrize("damaged", ["schema/schema-0", "snapshot/snapshot-2"])
def test_broken_table_hides_no_other(databases, warehouse, caplog, damaged):
    (Path(warehouse) / "a.db" / "days" / damaged).write_bytes(b"{")
    with caplog.at_level(logging.WARNING):
        found = {row["table_name"]: row for row in list_rows(databases, "tables")}
    assert list(found) == ["days", "empty", "files", "plain"]
    assert found["days"]["table_type"] is None
    assert "a.days cannot be shown in the system tables" in caplog.text
    assert list_rows(databases, "partitions") == []
    names = {row["table_name"] for row in list_rows(databases, "all_table_options")}
    assert names >= {"empty", "files", "plain"}


def test_many_tables_are_opened_in_steps(databases):
    for number in range(70):
        databases.create_table(f"empty.t{number:02}", Schema.of({"id": "BIGINT"}))
    found = [row["table_name"] for row in list_rows(databases, "tables")]
    assert found == ["days", "empty", "files", "plain", *(f"t{n:02}" for n in range(70))]


def test_names(databases):
    assert databases.list_tables("sys") == sorted(GLOBAL_SYSTEM_TABLES)
    assert "sys" not in databases.list_databases()
    assert databases.get_system_table("sys.ALL_TABLE_OPTIONS").name == "sys.all_table_options"
    assert not databases.table_exists("sys.tables")
    with refused(NotFoundError, r"there are sys\.tables", kind="system-table-not-found"):
        databases.get_system_table("sys.absent")
    for call in (
        lambda: databases.get_table("sys.tables"),
        lambda: databases.get_system_table("sys.tables", options={"scan.snapshot-id": "1"}),
    ):
        with refused(InvalidInputError, kind="system-table"):
            call()


def test_database_of_system_tables_takes_no_tables(databases):
    for call in (
        lambda: databases.create_database("sys"),
        lambda: databases.drop_database("sys"),
        lambda: databases.create_table("sys.t", Schema.of({"id": "BIGINT"})),
        lambda: databases.drop_table("sys.tables"),
        lambda: databases.rename_table("a.days", "sys.days"),
        lambda: databases.alter_table("sys.tables", []),
    ):
        with refused(InvalidInputError, kind="system-database"):
            call()


def test_command_line_reads_them_by_name(databases, warehouse, tmp_path):
    out = tmp_path / "tables.json"
    arguments = ["--warehouse", warehouse, "read", "sys.tables", "--out", str(out)]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    assert "a.days" not in result.output
    assert out.read_text(encoding="utf-8").count("database_name") == 4
