from paimon_assets.engine.contract.context import BucketState
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.planning import partition_buckets, writer_state
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.engine.spec.snapshot import CommitKind
from paimon_assets.engine.spec.stats import EMPTY_ROW
from tests.control.tables import (
    APPEND,
    KEYED,
    commit,
    keyed_file,
    message,
    new_store,
    plain_file,
)
from tests.testkit.faulty_fileio import FaultyFileIO


def _largest(store: FileStore) -> dict[int, int]:
    state = writer_state(store, store.snapshots.latest())
    return {one.bucket: one.max_sequence_number for one in state.bucket_states}


def _write(store: FileStore, bucket: int, largest: int, **more):
    file = keyed_file(0, 9, max_sequence_number=largest)
    commit(store, message(file, bucket=bucket, total_buckets=2, **more.pop("on", {})), **more)
    return file


def test_an_empty_table_has_no_state(tmp_path):
    store = new_store(tmp_path, KEYED)
    assert writer_state(store, None).bucket_states == ()
    assert partition_buckets(store, None, [EMPTY_ROW]) == {}


def test_an_unaware_table_needs_no_state(tmp_path):
    store = new_store(tmp_path, APPEND)
    commit(store, message(plain_file(), total_buckets=-1))
    assert writer_state(store, store.snapshots.latest()).bucket_states == ()


def test_each_bucket_continues_at_its_largest_number(tmp_path):
    store = new_store(tmp_path, KEYED)
    for bucket, largest in ((0, 5), (1, 9), (0, 3)):
        _write(store, bucket, largest)
    assert _largest(store) == {0: 5, 1: 9}
    state = writer_state(store, store.snapshots.latest())
    assert BucketState(partition=EMPTY_ROW, bucket=1, max_sequence_number=9) in state.bucket_states


def test_later_snapshots_are_added_without_reading_earlier_ones(tmp_path):
    store = new_store(tmp_path, KEYED)
    for number in range(20):
        _write(store, 0, number)
        assert _largest(store) == {0: number}
    file_io = FaultyFileIO(LocalFileIO())
    again = FileStore.open(file_io, store.table_path)
    _write(again, 0, 99)
    assert _largest(again) == {0: 99}
    assert file_io.count("read_bytes") < 20


def test_deleted_files_count_no_more(tmp_path):
    store = new_store(tmp_path, KEYED)
    _write(store, 0, 5)
    newest = _write(store, 0, 50)
    assert _largest(store) == {0: 50}
    _write(store, 0, 7, on={"deleted": [newest]}, kind=CommitKind.OVERWRITE)
    assert _largest(store) == {0: 7}


def test_a_table_made_again_starts_anew(tmp_path):
    store = new_store(tmp_path, KEYED)
    _write(store, 0, 50)
    assert _largest(store) == {0: 50}
    LocalFileIO().delete_directory(store.table_path)
    again = new_store(tmp_path, KEYED)
    _write(again, 1, 1)
    assert _largest(again) == {1: 1}


def test_a_rolled_back_table_forgets_what_was_rolled_back(tmp_path):
    store = new_store(tmp_path, KEYED)
    _write(store, 0, 1)
    _write(store, 0, 50)
    assert _largest(store) == {0: 50}
    LocalFileIO().delete_file(store.paths.snapshot(2))
    LocalFileIO().replace(f"{store.paths.snapshot_directory}/LATEST", b"1")
    assert _largest(store) == {0: 1}
    _write(store, 0, 3)
    assert _largest(store) == {0: 3}


def test_many_snapshots_by_others_are_read_at_once(tmp_path):
    store = new_store(tmp_path, KEYED)
    _write(store, 0, 1)
    assert _largest(store) == {0: 1}
    for number in range(80):
        _write(store, number % 2, number)
    assert _largest(store) == {0: 78, 1: 79}


def test_partitions_with_another_bucket_count_are_told(tmp_path):
    store = new_store(tmp_path, KEYED)
    _write(store, 0, 1)
    state = writer_state(store, store.snapshots.latest())
    assert state.differing_from(2) == ()
    assert state.differing_from(4) == ((EMPTY_ROW, 2),)
    assert partition_buckets(store, store.snapshots.latest(), [EMPTY_ROW, b"x"]) == {EMPTY_ROW: 2}


def test_the_state_is_of_the_snapshot_asked_for(tmp_path):
    store = new_store(tmp_path, KEYED)
    _write(store, 0, 1)
    first = store.snapshots.latest()
    _write(store, 0, 9)
    assert _largest(store) == {0: 9}
    state = writer_state(store, first)
    assert [one.max_sequence_number for one in state.bucket_states] == [1]
