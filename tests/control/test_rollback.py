import itertools
from contextlib import suppress

import pytest

from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.rollback import rollback_to_snapshot, rollback_to_tag
from paimon_assets.engine.errors import NotFoundError, PaimonError
from paimon_assets.engine.fileio.local import LocalFileIO
from tests.testkit.faulty_fileio import Fault, FaultyFileIO
from tests.testkit.metadata_tables import commit, live_names, message, new_store, newest, plain_file


@pytest.fixture
def store(tmp_path):
    made = new_store(tmp_path)
    for name in "abcd":
        commit(made, message(plain_file(name)))
    for number in (1, 3):
        made.tags.create(f"v{number}", made.snapshots.snapshot(number))
    return made


def hint(store, name):
    return LocalFileIO().read_bytes(f"{store.paths.snapshot_directory}/{name}")


def test_what_came_later_is_undone(store):
    LocalFileIO().write_bytes(store.paths.changelog(4), b"{}")
    done = rollback_to_snapshot(store, 2)
    assert (done.snapshots, done.tags, done.changelogs) == ((4, 3), ("v3",), (4,))
    assert store.snapshots.list_ids() == [1, 2]
    assert live_names(store) == ["a", "b"]
    assert hint(store, "LATEST") == b"2"
    assert [tag.name for tag in store.tags.list()] == ["v1"]
    assert commit(store, message(plain_file("e"))).id == 3
    assert live_names(store) == ["a", "b", "e"]


def test_to_the_newest_nothing_changes(store):
    done = rollback_to_snapshot(store, 4)
    assert (done.snapshots, done.tags) == ((), ())
    assert newest(store).id == 4


def test_a_tag_brings_its_expired_snapshot_back(store):
    for number in (1, 2):
        LocalFileIO().delete_file(store.paths.snapshot(number))
    LocalFileIO().replace(f"{store.paths.snapshot_directory}/EARLIEST", b"3")
    assert rollback_to_tag(store, "v1").snapshots == (4, 3)
    assert store.snapshots.list_ids() == [1]
    assert (hint(store, "EARLIEST"), hint(store, "LATEST")) == (b"1", b"1")
    assert live_names(store) == ["a"]


def test_what_does_not_exist_changes_nothing(store):
    with pytest.raises(NotFoundError, match="Snapshot 9 "):
        rollback_to_snapshot(store, 9)
    with pytest.raises(NotFoundError, match="no tag 'v9'"):
        rollback_to_tag(store, "v9")
    assert newest(store).id == 4


@pytest.mark.parametrize("fault", [Fault.FAIL, Fault.LOSE_ANSWER])
def test_a_crash_leaves_a_state_there_was_and_the_next_call_finishes(tmp_path, fault):
    for call in itertools.count():
        store = new_store(tmp_path / str(call))
        for name in "abcd":
            commit(store, message(plain_file(name)))
        calls = FaultyFileIO(LocalFileIO(), faults={call: fault})
        with suppress(PaimonError):
            rollback_to_snapshot(FileStore.open(calls, store.table_path), 1)
        assert "".join(live_names(store)) in ("a", "ab", "abc", "abcd")
        rollback_to_snapshot(store, 1)
        assert live_names(store) == ["a"]
        if not calls.fired:
            break
