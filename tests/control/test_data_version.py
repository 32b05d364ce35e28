"""The version of a table's data: named by the commit that last changed a row, never used twice."""

import json
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_assets.engine.control.commit.data_version import data_version
from paimon_assets.engine.spec.metadata.snapshot import DATA_VERSION_PROPERTY, Snapshot
from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.table.api import open_catalog
from paimon_assets.engine.table.table import Table

SCHEMA = Schema.of({"id": "INT", "n": "INT"}, primary_keys=["id"], options={"bucket": "1"})


@pytest.fixture
def table(tmp_path: Path) -> Table:
    catalog = open_catalog(str(tmp_path))
    catalog.create_database("d")
    return catalog.create_table("d.t", SCHEMA)


def write(table: Table, *numbers: int) -> Snapshot:
    column = pa.array(numbers, pa.int32())
    made = table.new_write_builder().write(pa.table({"id": column, "n": column})).snapshot
    assert made is not None
    return made


def version(table: Table) -> str:
    newest = table.latest_snapshot()
    assert newest is not None
    return table.state.data_version(newest)


def compact(table: Table) -> Snapshot:
    made = table.new_compaction_builder().with_strategy("full").run().snapshot
    assert made is not None
    return made


def forget(table: Table, snapshot_id: int) -> None:
    """A snapshot expires."""
    table.state.file_io.delete_file(f"{table.path}/snapshot/snapshot-{snapshot_id}")


def as_others_write_it(table: Table, snapshot_id: int, *, uuid: bool) -> None:
    """Take from a snapshot what only this engine says."""
    path = Path(table.path) / "snapshot" / f"snapshot-{snapshot_id}"
    members = json.loads(path.read_bytes())
    members.get("properties", {}).pop(DATA_VERSION_PROPERTY, None)
    if not uuid:
        del members["uuid"]
    path.write_text(json.dumps(members))


def test_every_snapshot_has_a_uuid_of_its_own(table: Table) -> None:
    first, second = write(table, 1), write(table, 2)
    assert first.uuid
    assert second.uuid
    assert first.uuid != second.uuid
    assert version(table) == f"2-{second.uuid}"


def test_commits_that_change_no_row_take_the_version_over(table: Table) -> None:
    write(table, 1)
    write(table, 1)
    before = version(table)
    compact(table)
    table.analyze()
    table.new_write_builder().with_empty_commits().write(SCHEMA_ROWS)
    newest = table.latest_snapshot()
    assert newest is not None
    assert newest.id == 5
    for expired in (1, 2, 3, 4):
        forget(table, expired)
    assert version(table) == before
    write(table, 2)
    assert version(table).startswith("6-")


def test_an_overwrite_of_nothing_takes_the_version_over_and_one_of_rows_does_not(
    table: Table,
) -> None:
    write(table, 1)
    table.truncate()
    emptied = version(table)
    assert emptied.startswith("2-")
    table.truncate()
    assert version(table) == emptied


def test_a_version_does_not_come_again_for_other_rows(table: Table, tmp_path: Path) -> None:
    write(table, 1)
    first = version(table)
    write(table, 2)
    seen = {first, version(table)}
    table.rollback_to(1)
    assert version(table) == first, "the same rows again"
    write(table, 3)
    assert version(table) not in seen
    seen.add(version(table))
    catalog = open_catalog(str(tmp_path))
    catalog.drop_table("d.t")
    anew = catalog.create_table("d.t", SCHEMA)
    write(anew, 1)
    assert version(anew) not in seen


@pytest.mark.parametrize("uuid", [True, False])
def test_compactions_of_others_are_looked_behind(table: Table, uuid: bool) -> None:
    write(table, 1)
    write(table, 1)
    as_others_write_it(table, 2, uuid=uuid)
    before = version(table)
    compact(table)
    as_others_write_it(table, 3, uuid=uuid)
    assert version(table) == before
    table.analyze()
    forget(table, 2)
    forget(table, 3)
    assert version(table) == before, "the statistics of this engine have taken it over"


def test_a_compaction_that_shows_rows_changes_the_version(tmp_path: Path) -> None:
    """Of a table with deletion vectors, level 0 is not read before a compaction."""
    catalog = open_catalog(str(tmp_path))
    catalog.create_database("d")
    options = {"bucket": "1", "deletion-vectors.enabled": "true"}
    columns = {"id": "INT", "n": "INT"}
    table = catalog.create_table("d.t", Schema.of(columns, primary_keys=["id"], options=options))
    write(table, 1)
    before = version(table)
    compact(table)
    assert version(table) != before
    assert data_version(table.new_read_builder().store, compact_again(table)) == version(table)


def compact_again(table: Table) -> Snapshot:
    """The newest snapshot after a compaction that found nothing to do."""
    table.new_compaction_builder().with_strategy("full").run()
    newest = table.latest_snapshot()
    assert newest is not None
    return newest


SCHEMA_ROWS = pa.table({"id": pa.array([], pa.int32()), "n": pa.array([], pa.int32())})
