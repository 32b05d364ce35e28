"""Write, audit, publish on bad days: any call fails, any answer is lost."""

from pathlib import Path

import pyarrow as pa
import pytest
from msgspec.structs import replace

from paimon_assets.engine.control.clock import SystemClock
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.maintenance.orphan_files import DAY_MS, staged_names
from paimon_assets.engine.errors import CommitUnknownError, InvalidInputError, StorageError
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.table.table import Table
from paimon_assets.engine.table.upkeep.maintenance import Maintenance, MaintenanceTask
from paimon_assets.engine.table.write.staged_batch import BatchRefusedError, StagedBatch
from tests.testkit.faults.writers import OneStorageExecutor
from tests.testkit.faulty_fileio import Fault, FaultyFileIO
from tests.testkit.tables import new_catalog_in

SCHEMA = Schema.of({"id": "INT", "n": "INT"}, primary_keys=["id"], options={"bucket": "1"})


def new_table(directory: Path) -> Table:
    catalog = new_catalog_in(directory, "d")
    table = catalog.create_table("d.t", SCHEMA)
    write(table, table.state.file_io, rows(0), lambda _: None)
    return table


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int32()), "n": pa.array(ids, pa.int32())})


def write(table, file_io, batch, audit, user="setup"):
    writer = table.new_write_builder().with_commit_user(user).with_audit(audit, branch=user)
    return writer.write(batch, OneStorageExecutor(file_io))


def write_on(file_io, table, batch, audit):
    write(Table(FileStore.open(file_io, table.path)), file_io, batch, audit, "me")


def ids_of(table: Table) -> list[int]:
    rows = table.new_read_builder().to_arrow().sort_by("id")
    return [row["id"] for row in rows.to_pylist()]


@pytest.mark.parametrize("fault", [Fault.FAIL, Fault.LOSE_ANSWER, Fault.TEAR])
def test_batch_is_committed_at_most_once_and_rerun_succeeds(tmp_path, fault):
    for call in range(300):
        table = new_table(tmp_path / f"{fault}-{call}")
        file_io = FaultyFileIO(LocalFileIO(), faults={call: fault})
        audited: list[int] = []

        def audit(batch: StagedBatch, seen: list[int] = audited) -> None:
            seen.append(batch.physical_rows)

        try:
            write_on(file_io, table, rows(1, 2), audit)
        except (StorageError, CommitUnknownError):
            assert ids_of(table) in ([0], [0, 1, 2])
        else:
            assert ids_of(table) == [0, 1, 2]
            assert audited == [2]
        write(table, table.state.file_io, rows(1, 2), audit, "me")
        assert ids_of(table) == [0, 1, 2]
        newest = table.latest_snapshot()
        assert newest is not None
        assert newest.id == 2
        if not file_io.fired:
            assert call > 30
            return
    raise AssertionError("the write never ended")


def test_rejection_during_any_fault_commits_nothing(tmp_path):
    def refuse(batch: StagedBatch) -> None:
        raise BatchRefusedError("These rows are bad.")

    for call in range(300):
        table = new_table(tmp_path / str(call))
        file_io = FaultyFileIO(LocalFileIO(), faults={call: Fault.LOSE_ANSWER})
        with pytest.raises((StorageError, CommitUnknownError, InvalidInputError)) as caught:
            write_on(file_io, table, rows(1, 2), refuse)
        assert ids_of(table) == [0]
        if caught.type is InvalidInputError:
            [branch] = staged_names(table.branches.list())
            assert ids_of(table.at_branch(branch)) == [1, 2]
        if not file_io.fired:
            return
    raise AssertionError("the write never ended")


def test_maintenance_deletes_old_rejected_batch(tmp_path):
    table = new_table(tmp_path)
    before = files_of(table)
    with pytest.raises(InvalidInputError):
        write(table, table.state.file_io, rows(1), refuse_all, "me")
    assert len(data_files(table)) == 2
    store = table.new_read_builder().store
    young = Maintenance(store=store).run(MaintenanceTask.DROP_REFUSED)
    assert (young.count, len(table.branches.list())) == (0, 1)
    orphans = Maintenance(store=store, clock=TwoDaysLater()).run(MaintenanceTask.CLEAN_ORPHANS)
    assert (orphans.count, len(table.branches.list())) == (0, 1)
    old = Maintenance(store=store, clock=TwoDaysLater(), refused_older_than_ms=DAY_MS)
    planned = replace(old, dry_run=True).run(MaintenanceTask.DROP_REFUSED)
    assert len(table.branches.list()) == 1
    report = old.run(MaintenanceTask.DROP_REFUSED)
    assert planned.note == f"{report.note}; refused more than 24 hours ago"
    assert report == replace(planned, note=report.note)
    assert (report.count, report.note) == (1, "audit_me")
    assert (report.files, report.total_bytes > 0) == (4, True)
    assert files_of(table) == before
    assert table.branches.list() == {}
    assert ids_of(table) == [0]


class _KeepsBranches(LocalFileIO):
    def delete_directory(self, path: str) -> None:
        if "/branch-audit_" not in path:
            return super().delete_directory(path)
        raise StorageError(f"'{path}' cannot be deleted.")


def test_batch_that_was_committed_keeps_its_files(tmp_path):
    """Its branch could not be dropped after the commit, and counts as refused."""
    table = new_table(tmp_path)
    write_on(_KeepsBranches(), table, rows(1), lambda _: None)
    assert list(table.branches.list()) == ["audit_me"]
    before, store = data_files(table), table.new_read_builder().store
    old = Maintenance(store=store, clock=TwoDaysLater(), refused_older_than_ms=DAY_MS)
    assert old.run(MaintenanceTask.DROP_REFUSED).count == 1
    assert (table.branches.list(), data_files(table)) == ({}, before)
    assert ids_of(table) == [0, 1]


class TwoDaysLater(SystemClock):
    def now_millis(self) -> int:
        return super().now_millis() + 2 * DAY_MS


def refuse_all(batch: StagedBatch) -> None:
    raise BatchRefusedError("These rows are bad.")


def files_of(table: Table) -> list[Path]:
    return sorted(path for path in Path(table.path).rglob("*") if path.is_file())


def data_files(table: Table) -> list[str]:
    return sorted(
        status.name for status in table.state.file_io.list_directory(f"{table.path}/bucket-0")
    )


def test_lost_race_leaves_no_branch(tmp_path):
    """Another writer commits while the batch is audited: both batches are there in the end."""
    table = new_table(tmp_path)

    def audit(batch: StagedBatch) -> None:
        write(table, table.state.file_io, rows(7), lambda _: None, "rival")

    write(table, table.state.file_io, rows(1), audit, "me")
    assert ids_of(table) == [0, 1, 7]
    assert table.branches.list() == {}


@pytest.mark.way_out("branch-audit")
def test_rejected_batch_never_becomes_current(tmp_path):
    table = new_table(tmp_path)
    with pytest.raises(InvalidInputError):
        write(table, table.state.file_io, rows(1), refuse_all, "me")
    with pytest.raises(InvalidInputError, match="main would lose all of its own"):
        table.branches.fast_forward("audit_me")
    assert ids_of(table) == [0]
    write(table, table.state.file_io, rows(2), lambda _: None, "me")
    assert ids_of(table) == [0, 2]
