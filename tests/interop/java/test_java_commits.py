"""Java Paimon continues after our overwrites, and after every kind of our snapshots."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_assets import EmbeddedExecutor, Schema, Table, WriteBuilder, open_catalog
from paimon_assets.engine.control.commit.file_store_commit import FileStoreCommit
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.engine.spec.metadata.snapshot import ColumnStatistics, Statistics
from tests.testkit.faults.writers import AllKindsExecutor
from tests.testkit.oracle import Oracle

pytestmark = pytest.mark.interop

COLUMNS = {"day": "STRING", "id": "BIGINT", "v": "INT"}
SCHEMA = Schema.of(
    COLUMNS, primary_keys=["day", "id"], partition_keys=["day"], options={"bucket": "1"}
)

Row = tuple[str, int, int]


def _rows(*rows: Row) -> pa.Table:
    days, ids, values = zip(*rows, strict=True)
    return pa.table(
        {"day": list(days), "id": pa.array(ids, pa.int64()), "v": pa.array(values, pa.int32())}
    )


def _read(table: Table) -> list[Row]:
    rows = table.new_read_builder().to_arrow().to_pylist()
    return sorted(tuple(row[name] for name in COLUMNS) for row in rows)


def _java_read(java: Oracle, name: str) -> list[Any]:
    return sorted(tuple(row) for row in java.call("rows", table=name))


def test_java_continues_after_our_commits(java: Oracle, shared_warehouse: Path) -> None:
    catalog = open_catalog(str(shared_warehouse))
    catalog.create_database("java_commits", ignore_if_exists=True)
    table = catalog.create_table("java_commits.t", SCHEMA)

    def write(builder: WriteBuilder, *rows: Row) -> None:
        builder.write(_rows(*rows), EmbeddedExecutor())

    first = _rows(("a", 1, 1), ("a", 2, 1), ("b", 1, 1), ("c", 1, 1))
    table.new_write_builder().write(first, AllKindsExecutor(table.state.file_io))
    write(table.new_write_builder().with_overwrite(), ("a", 1, 2), ("a", 3, 2))
    table.drop_partitions([{"day": "c"}])
    write(table.new_write_builder(), ("b", 1, 3), ("a", 3, 3))
    store = FileStore.open(LocalFileIO(), table.path)
    known = Statistics(
        snapshot_id=4,
        schema_id=0,
        merged_record_count=3,
        columns={"v": ColumnStatistics(column_id=2, distinct_count=2, minimum="2", maximum="3")},
    )
    made = FileStoreCommit(store).commit_statistics(known, commit_user="s", commit_identifier=1)
    expected = [("a", 1, 2), ("a", 3, 3), ("b", 1, 3)]
    assert _java_read(java, "java_commits.t") == _read(table) == expected

    assert java.call("compact", table="java_commits.t") > 0  # reads the statistics to keep them
    latest = table.latest_snapshot()
    assert latest is not None
    assert (latest.commit_kind, latest.statistics) == ("COMPACT", made.statistics)
    assert _java_read(java, "java_commits.t") == _read(table) == expected

    write(table.new_write_builder().with_overwrite({"day": "b"}), ("b", 9, 9))
    assert _java_read(java, "java_commits.t") == _read(table) == [*expected[:2], ("b", 9, 9)]
    table.truncate()
    assert _java_read(java, "java_commits.t") == _read(table) == []
