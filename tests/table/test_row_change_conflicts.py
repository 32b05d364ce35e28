"""Changes of rows beside others who commit, and on storage that fails."""

import pytest

from paimon_assets.engine.data.worker import run_task
from paimon_assets.engine.embedded import EmbeddedExecutor
from paimon_assets.engine.errors import CommitConflictError, StorageError
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.engine.table.table import Table
from tests.testkit.faulty_fileio import Fault, FaultyFileIO
from tests.testkit.row_changing import (
    EXECUTOR,
    FIRST,
    SECOND,
    Meddling,
    all_files,
    changing,
    create,
    data_files,
    read,
    write,
)


def test_others_append_meanwhile(row_table):
    def append():
        write(row_table, ("a", 100, 1), ("b", 101, 7))

    outcome = changing(row_table).delete("v = 7", Meddling(append))
    assert outcome.rows_matched in (1, 2)
    left = {row[1] for row in read(row_table)}
    assert 7 not in left
    assert 100 in left


def test_others_change_the_same_rows_meanwhile(row_table):
    names = data_files(row_table)

    def delete():
        changing(row_table).delete("id = 6")

    def update():
        changing(row_table).delete("id = 8")
        write(row_table, ("a", 8, 99))

    outcome = changing(row_table).delete("v BETWEEN 6 AND 8", Meddling(delete, update))
    assert outcome.plans == 3
    assert outcome.rows_matched == 1
    found = {row[1]: row[2] for row in read(row_table)}
    assert not {6, 7} & set(found)
    assert found[8] == 99
    live = {entry.file.file_name for entry in row_table.state.live_files()}
    # Files of older snapshots are left, no orphans of ours.
    assert len(data_files(row_table) - names - live) <= 10


def test_a_compaction_beside_a_delete(row_table):
    def compact():
        row_table.new_compaction_builder().with_strategy("full").run(EXECUTOR)

    changing(row_table).delete("id = 4")
    changing(row_table).delete("v BETWEEN 6 AND 8", Meddling(compact))
    left = {row[1] for row in read(row_table)}
    assert left == {0, 1, 2, 3, 5, 9, 10, 11, 20, 21, 22, 23}
    compact()
    assert {row[1] for row in read(row_table)} == left


def test_a_change_gives_up_in_the_end(catalog):
    table = create(catalog, "fixed")
    write(table, *FIRST)

    def meddle():
        write(table, ("a", 6, 6), ("b", 7, 7))

    with pytest.raises(CommitConflictError) as caught:
        changing(table).delete("id > 5", Meddling(*[meddle] * 5))
    assert caught.value.kind == "bucket-changed"
    assert {row[1] for row in read(table)} == set(range(12))


class Failing(EmbeddedExecutor):
    """Runs tasks on a storage whose i-th call fails."""

    def __init__(self, call):
        super().__init__(1)
        self.file_io = FaultyFileIO(LocalFileIO(), faults={call: Fault.FAIL})

    def map_tasks(self, batch):
        for number, payload in enumerate(batch.payloads):
            yield number, run_task(batch.name, batch.shared, payload, self.file_io)


@pytest.mark.parametrize("kind", ["vectors-64", "plain", "logged"])
def test_a_task_that_fails_leaves_no_files(catalog, kind):
    table = create(catalog, "vectors-64" if kind == "plain" else kind)
    if kind == "plain":
        table = table.copy({"deletion-vectors.enabled": "false"})
    write(table, *FIRST)
    write(table, *SECOND)
    if kind != "logged":
        changing(table).delete("id = 2")
    files, rows = all_files(table), read(table)
    for call in range(100):
        executor = Failing(call)
        try:
            changing(table).update({"p": "x"}, "id > 4", executor)
        except StorageError:
            assert read(table) == rows
            assert all_files(table) == files
            continue
        assert not executor.file_io.fired
        break
    assert call >= 4
    assert sum(row[0] == "x" for row in read(table)) == 11


def test_a_commit_that_fails_leaves_no_files(catalog):
    table = create(catalog, "vectors")
    write(table, *FIRST)
    files = all_files(table)
    for pattern in ("manifest-list-*", "index-manifest-*", "snapshot-*"):
        store = type(table._store)(
            file_io=FaultyFileIO(LocalFileIO(), fail_on=pattern),
            table_path=table.path,
            schema=table.schema,
        )
        with pytest.raises(StorageError):
            changing(Table(store)).delete("id = 4 OR id = 5")
        assert all_files(table) == files
