"""Several processes on one table: nothing acknowledged is lost."""

from paimon_assets.engine.control.commit.file_store_commit import FileStoreCommit
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.fileio.local import LocalFileIO
from tests.testkit.faults.writers import fork_server
from tests.testkit.metadata_tables import (
    live_names,
    manifest_files,
    message,
    new_store,
    plain_file,
    referenced_manifests,
)

_FORKED = fork_server()
_PROCESSES = 4
_COMMITS = 15


def _commit_many(path: str, writer: int, barrier, answers) -> None:
    store = FileStore.open(LocalFileIO(), path)
    acknowledged = []
    for number in range(_COMMITS):
        name = f"{writer}-{number}"
        barrier.wait(timeout=60)
        made = FileStoreCommit(store).commit(
            [message(plain_file(name, row_count=1))], commit_user=name, commit_identifier=1
        )
        acknowledged.append((name, made.id))
    answers.put(acknowledged)


def test_four_processes_that_meet_before_every_commit_lose_nothing(tmp_path):
    table = new_store(tmp_path)
    barrier, answers = _FORKED.Barrier(_PROCESSES), _FORKED.Queue()
    processes = [
        _FORKED.Process(target=_commit_many, args=(table.table_path, writer, barrier, answers))
        for writer in range(_PROCESSES)
    ]
    for process in processes:
        process.start()
    acknowledged = [pair for _ in processes for pair in answers.get(timeout=60)]
    for process in processes:
        process.join()
    total = _PROCESSES * _COMMITS
    assert sorted(live_names(table)) == sorted(name for name, _ in acknowledged)
    assert sorted(snapshot_id for _, snapshot_id in acknowledged) == list(range(1, total + 1))
    assert table.snapshots.list_ids() == list(range(1, total + 1))
    latest = table.snapshots.latest()
    assert latest is not None
    assert latest.total_record_count == total
    for name, snapshot_id in acknowledged:
        assert table.snapshots.snapshot(snapshot_id).commit_user == name
    assert manifest_files(table) == referenced_manifests(table)
