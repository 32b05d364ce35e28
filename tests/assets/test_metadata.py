"""Metadata of a snapshot: data versions that survive compaction, and exact counts."""

import pytest

from paimon_assets import EmbeddedExecutor, Identifier, Schema, Table
from paimon_assets.assets import PaimonCatalogResource, metadata
from paimon_assets.assets.metadata import column_schema, data_version_of, snapshot_metadata
from paimon_assets.assets.tables.declared_table import ensure_table
from paimon_assets.engine.control.commit.file_store_commit import FileStoreCommit
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.spec.metadata.snapshot import CommitKind, Snapshot
from tests.testkit.asset_tables import PLANES, planes


@pytest.fixture
def table(paimon: PaimonCatalogResource) -> Table:
    """Return a table of two overlapping upserts: four physical rows, three rows."""
    made = ensure_table(paimon.catalog(), Identifier("air", "planes"), PLANES).table
    for rows in (
        planes(("N1", 1, None), ("N2", 2, None)),
        planes(("N2", 3, None), ("N3", 4, None)),
    ):
        made.new_write_builder().write(rows, EmbeddedExecutor())
    return made


def newest(table: Table) -> Snapshot:
    snapshot = table.latest_snapshot()
    assert snapshot is not None
    return snapshot


def test_compaction_keeps_data_version(table: Table) -> None:
    store = FileStore.open(table.state.file_io, table.path)
    for number in range(2):
        FileStoreCommit(store).commit(
            [], commit_user="compactor", commit_identifier=number, kind=CommitKind.COMPACT
        )
    assert newest(table).id == 4
    assert data_version_of(table, newest(table)).value.startswith("2-")


def test_rows_are_counted_merged(table: Table) -> None:
    shown = snapshot_metadata(table, newest(table))
    assert (shown["dagster/row_count"], shown["paimon/stored_rows"]) == (3, 4)


def test_older_snapshot_shows_its_own_rows(table: Table) -> None:
    first = table.snapshot(1)
    assert first is not None
    shown = snapshot_metadata(table, first)
    assert (shown["dagster/row_count"], shown["paimon/stored_rows"]) == (2, 2)
    assert shown["paimon/added_files"] == shown["paimon/total_files"]


def test_large_overlap_shows_no_row_count(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "COUNT_LIMIT_ROWS", 1)
    shown = snapshot_metadata(table, newest(table))
    assert "dagster/row_count" not in shown
    assert shown["paimon/stored_rows"] == 4


def test_columns_show_types_keys_and_nullability() -> None:
    schema = Schema.of(
        {"dt": "DATE", "id": "BIGINT", "price": "DECIMAL(10, 2) NOT NULL", "note": "STRING"},
        primary_keys=["dt", "id"],
        partition_keys=["dt"],
    )
    shown = column_schema(schema)
    assert [
        (c.name, c.type, c.constraints.nullable, c.constraints.other) for c in shown.columns
    ] == [
        ("dt", "DATE", False, ["primary key", "partition key"]),
        ("id", "BIGINT", False, ["primary key"]),
        ("price", "DECIMAL(10, 2)", False, []),
        ("note", "STRING", True, []),
    ]
    assert shown.constraints.other == ["primary key (dt, id)", "partitioned by (dt)"]
