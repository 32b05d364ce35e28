"""`sys.tables` and its neighbours: what a catalog knows of all its tables."""

import logging
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner

from paimon_assets.cli.main import main
from paimon_assets.engine.control.catalog.catalog import Identifier
from paimon_assets.engine.embedded import EmbeddedExecutor
from paimon_assets.engine.errors import InvalidInputError, NotFoundError
from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.table.api import open_catalog
from paimon_assets.engine.table.system import GLOBAL_SYSTEM_TABLES

EXECUTOR = EmbeddedExecutor(threads=2)


@pytest.fixture
def warehouse(tmp_path):
    return str(tmp_path / "warehouse")


@pytest.fixture
def catalog(warehouse):
    """Two databases, four tables: partitioned and written, empty, not partitioned, another's."""
    catalog = open_catalog(warehouse)
    for database in ("a", "b", "empty"):
        catalog.create_database(database)
    days = Schema.of(
        {"id": "BIGINT", "dt": "STRING", "hour": "INT"},
        primary_keys=["id", "dt", "hour"],
        partition_keys=["dt", "hour"],
        options={"bucket": "1", "s3.secret-key": "abc", "fields.id.default-value": "1"},
    )
    table = catalog.create_table("a.days", days)
    catalog.create_table("a.empty", days)
    hours = pa.array([3, 4, 4], pa.int32())
    for _ in range(2):
        rows = pa.table({"id": [1, 2, 3], "dt": ["x", "y", "y"], "hour": hours})
        table.new_write_builder().write(rows, EXECUTOR)
    catalog.create_table("b.plain", Schema.of({"id": "BIGINT"}))
    files = Schema.of({"id": "BIGINT"}, options={"type": "format-table"})
    catalog._catalog.create_table(Identifier("b", "files"), files)  # as other engines do
    return catalog


def rows(catalog, kind):
    system = catalog.get_system_table(f"sys.{kind}")
    read = system.to_arrow()
    assert read.schema == system.arrow_schema
    return read.to_pylist()


def test_tables_of_all_databases_with_what_their_lists_know(catalog):
    found = {f"{row['database_name']}.{row['table_name']}": row for row in rows(catalog, "tables")}
    assert list(found) == ["a.days", "a.empty", "b.files", "b.plain"]
    days = found["a.days"]
    assert (days["table_type"], days["partitioned"], days["primary_key"]) == ("table", True, True)
    assert (days["record_count"], days["file_count"], days["owner"]) == (6, 4, None)
    assert found["a.empty"]["record_count"] is None
    assert found["b.files"]["table_type"] == "format-table"
    assert (found["b.plain"]["partitioned"], found["b.plain"]["primary_key"]) == (False, False)


def test_partitions_of_all_tables(catalog):
    found = rows(catalog, "partitions")
    names = [(row["database_name"], row["table_name"], row["partition_name"]) for row in found]
    assert names == [("a", "days", "dt=x/hour=3"), ("a", "days", "dt=y/hour=4")]
    own = catalog.get_system_table("a.days$partitions").to_arrow()
    for column in ("record_count", "file_size_in_bytes", "file_count"):
        assert [row[column] for row in found] == own.column(column).to_pylist()
    times = own.column("last_update_time").cast(pa.int64()).to_pylist()
    assert [row["last_file_creation_time"] for row in found] == times
    assert [row["done"] for row in found] == [False, False]


def test_options_of_all_tables_without_their_secrets(catalog, warehouse):
    found = [tuple(row.values()) for row in rows(catalog, "all_table_options")]
    assert [row[1:] for row in found if row[:2] == ("a", "days")] == [
        ("days", "bucket", "1"),
        ("days", "fields.id.default-value", "1"),
        ("days", "path", f"{warehouse}/a.db/days"),
        ("days", "s3.secret-key", "******"),
    ]
    assert ("b", "files", "type", "format-table") in found
    for kind in ("options", "schemas"):
        own = catalog.get_system_table(f"a.days${kind}").to_arrow()
        assert "******" in str(own.to_pylist())
        assert "abc" not in str(own.to_pylist())


def test_options_of_the_catalog_without_their_secrets(warehouse):
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
        row["key"]: row["value"] for row in rows(open_catalog(warehouse, given), "catalog_options")
    }
    assert found == {
        **dict.fromkeys(given, "******"),
        "warehouse": warehouse,
        "lock.enabled": "false",
        "s3.endpoint": "http://******@host",
    }
    assert "abc" not in repr(open_catalog(warehouse, given).get_system_table("sys.tables"))


@pytest.mark.parametrize("damaged", ["schema/schema-0", "snapshot/snapshot-2"])
def test_a_broken_table_hides_no_other(catalog, warehouse, caplog, damaged):
    (Path(warehouse) / "a.db" / "days" / damaged).write_bytes(b"{")
    with caplog.at_level(logging.WARNING):
        found = {row["table_name"]: row for row in rows(catalog, "tables")}
    assert list(found) == ["days", "empty", "files", "plain"]
    assert found["days"]["table_type"] is None
    assert "a.days cannot be shown in the system tables" in caplog.text
    assert rows(catalog, "partitions") == []
    names = {row["table_name"] for row in rows(catalog, "all_table_options")}
    assert names >= {"empty", "files", "plain"}


def test_more_tables_than_are_opened_in_one_step(catalog):
    for number in range(70):
        catalog.create_table(f"empty.t{number:02}", Schema.of({"id": "BIGINT"}))
    found = [row["table_name"] for row in rows(catalog, "tables")]
    assert found == ["days", "empty", "files", "plain", *(f"t{n:02}" for n in range(70))]


def test_names(catalog):
    assert catalog.list_tables("sys") == sorted(GLOBAL_SYSTEM_TABLES)
    assert "sys" not in catalog.list_databases()
    assert catalog.get_system_table("sys.ALL_TABLE_OPTIONS").name == "sys.all_table_options"
    assert not catalog.table_exists("sys.tables")
    with pytest.raises(NotFoundError, match=r"there are sys\.tables") as caught:
        catalog.get_system_table("sys.absent")
    assert caught.value.kind == "system-table-not-found"
    for call in (
        lambda: catalog.get_table("sys.tables"),
        lambda: catalog.get_system_table("sys.tables", options={"scan.snapshot-id": "1"}),
    ):
        with pytest.raises(InvalidInputError) as refused:
            call()
        assert refused.value.kind == "system-table"


def test_the_database_of_system_tables_takes_no_others(catalog):
    for call in (
        lambda: catalog.create_database("sys"),
        lambda: catalog.drop_database("sys"),
        lambda: catalog.create_table("sys.t", Schema.of({"id": "BIGINT"})),
        lambda: catalog.drop_table("sys.tables"),
        lambda: catalog.rename_table("a.days", "sys.days"),
        lambda: catalog.alter_table("sys.tables", []),
    ):
        with pytest.raises(InvalidInputError) as refused:
            call()
        assert refused.value.kind == "system-database"


def test_the_command_line_reads_them_by_name(catalog, warehouse, tmp_path):
    out = tmp_path / "tables.json"
    arguments = ["--warehouse", warehouse, "read", "sys.tables", "--out", str(out)]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    assert "a.days" not in result.output
    assert out.read_text(encoding="utf-8").count("database_name") == 4
