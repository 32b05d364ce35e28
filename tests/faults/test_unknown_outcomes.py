"""Nothing is deleted where a storage does not answer whether a snapshot was made."""

import pytest

from paimon_assets import CommitUnknownError, StorageError, Table, open_table
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.fileio.local import LocalFileIO
from tests.testkit.faults.table_changes import CHANGES, COMMITS, prepare, read
from tests.testkit.faulty_fileio import FaultyFileIO


class _Silence(LocalFileIO):
    """Does not answer any more once a snapshot is to be published.

    Args:
        done: Whether the snapshot is published all the same.
        error: The error that is raised instead.
    """

    def __init__(self, *, done: bool, error: BaseException) -> None:
        self._done = done
        self._error = error
        self.began = False

    def publish(self, path: str, data: bytes) -> bool:
        if "/snapshot/snapshot-" not in path:
            return super().publish(path, data)
        if self._done:
            super().publish(path, data)
        self.began = True
        raise self._error

    def read_bytes(self, path: str) -> bytes:
        if self.began and "/snapshot/snapshot-" in path:
            raise StorageError("timeout")
        return super().read_bytes(path)

    def delete_file(self, path: str) -> None:
        assert not self.began, f"'{path}' was deleted"
        super().delete_file(path)

    def delete_directory(self, path: str) -> None:
        assert not self.began, f"'{path}' was deleted"
        super().delete_directory(path)

    def delete_empty_directory(self, path: str) -> bool:
        assert not self.began, f"'{path}' was deleted"
        return super().delete_empty_directory(path)


COMMITTING = [change for change in CHANGES if change.commits]


@pytest.mark.parametrize("error", [CommitUnknownError, KeyboardInterrupt])
@pytest.mark.parametrize("done", [False, True], ids=["not done", "done"])
@pytest.mark.parametrize("change", COMMITTING, ids=lambda change: change.name)
def test_unknown_outcome_deletes_nothing_and_rerun_finds_it(change, done, error, tmp_path):
    table = prepare(tmp_path, change)
    before = read(table)
    silence = _Silence(done=done, error=error("timeout"))
    with pytest.raises(error):
        change.perform(Table(FileStore.open(silence, table.path)))
    left = open_table(table.path)
    assert left.latest_snapshot().id == COMMITS + done
    assert read(left, COMMITS) == before
    after = read(left)
    change.perform(left)
    again = open_table(table.path)
    assert again.latest_snapshot().id == COMMITS + 1
    assert again.latest_snapshot().commit_user == change.user
    if done:
        assert read(again) == after
    change.perform(again)
    assert open_table(table.path).latest_snapshot() == again.latest_snapshot()


@pytest.mark.parametrize("change", COMMITTING, ids=lambda change: change.name)
def test_lost_answer_with_visible_commit_is_success(change, tmp_path):
    table = prepare(tmp_path, change)
    file_io = FaultyFileIO(LocalFileIO(), lose_answer_of="snapshot-*")
    change.perform(Table(FileStore.open(file_io, table.path)))
    assert file_io.fired
    assert table.latest_snapshot().id == COMMITS + 1
