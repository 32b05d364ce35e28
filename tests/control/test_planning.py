from uuid import uuid4

from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_assets.engine.contract.context import BucketState
from paimon_assets.engine.control import write_planning as planning
from paimon_assets.engine.control.commit.file_store_commit import FileStoreCommit
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.scan.file_store_scan import FileStoreScan
from paimon_assets.engine.control.write_planning import partition_buckets, writer_state
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.engine.spec.metadata.manifest import ManifestEntry
from paimon_assets.engine.spec.metadata.simple_stats import EMPTY_ROW
from paimon_assets.engine.spec.metadata.snapshot import CommitKind
from paimon_assets.engine.spec.schema.schema import Schema
from tests.testkit.effort import often
from tests.testkit.faulty_fileio import FaultyFileIO
from tests.testkit.metadata_tables import (
    APPEND,
    KEYED,
    FixedClock,
    commit,
    key,
    keyed_file,
    message,
    new_store,
    newest,
    plain_file,
)


def _largest(store: FileStore) -> dict[int, int]:
    state = writer_state(store, store.snapshots.latest())
    return {one.bucket: one.max_sequence_number for one in state.bucket_states}


def _write(store: FileStore, bucket: int, largest: int, **more):
    file = keyed_file(0, 9, max_sequence_number=largest)
    commit(store, message(file, bucket=bucket, total_buckets=2, **more.pop("on", {})), **more)
    return file


def test_an_empty_table_has_no_state(keyed):
    assert writer_state(keyed, None).bucket_states == ()
    assert partition_buckets(keyed, None, [EMPTY_ROW]) == {}


def test_writers_that_pad_by_a_counter_get_the_live_files(tmp_path):
    padding = {"sequence.field": "n", "sequence.auto-padding": "second-to-micro", "bucket": "2"}
    columns = {"a": "BIGINT", "n": "INT"}
    store = new_store(tmp_path, Schema.of(columns, primary_keys=["a"], options=padding))
    first, second = _write(store, 0, 5), _write(store, 0, 9)
    commit(store, message(deleted=[first], total_buckets=2), kind=CommitKind.OVERWRITE)
    (state,) = writer_state(store, newest(store)).bucket_states
    assert [(file.location, file.max_sequence_number) for file in state.files] == [
        (second.file_name, 9)
    ]


def test_an_unaware_table_needs_no_state(tmp_path):
    store = new_store(tmp_path, APPEND)
    commit(store, message(plain_file(), total_buckets=-1))
    assert writer_state(store, store.snapshots.latest()).bucket_states == ()


def test_each_bucket_continues_at_its_largest_number(keyed):
    for bucket, largest in ((0, 5), (1, 9), (0, 3)):
        _write(keyed, bucket, largest)
    assert _largest(keyed) == {0: 5, 1: 9}
    state = writer_state(keyed, keyed.snapshots.latest())
    assert BucketState(partition=EMPTY_ROW, bucket=1, max_sequence_number=9) in state.bucket_states


def test_later_snapshots_are_added_without_reading_earlier_ones(keyed):
    for number in range(20):
        _write(keyed, 0, number)
        assert _largest(keyed) == {0: number}
    file_io = FaultyFileIO(LocalFileIO())
    again = FileStore.open(file_io, keyed.table_path)
    _write(again, 0, 99)
    assert _largest(again) == {0: 99}
    assert file_io.count("read_bytes") < 20


def test_a_bucket_whose_files_are_gone_starts_anew(keyed):
    old = _write(keyed, 0, 5)
    newer = _write(keyed, 0, 50)
    assert _largest(keyed) == {0: 50}
    third = _write(keyed, 0, 7, on={"deleted": [newer]}, kind=CommitKind.OVERWRITE)
    assert _largest(keyed) == {0: 50}  # a number of a file that went is not given again
    _write(keyed, 0, 8, on={"deleted": [old, third]}, kind=CommitKind.OVERWRITE)
    assert _largest(keyed) == {0: 8}


def test_later_deletes_are_applied_without_reading_earlier_snapshots(keyed):
    files = [_write(keyed, 0, number) for number in range(20)]
    _largest(keyed)
    file_io = FaultyFileIO(LocalFileIO())
    again = FileStore.open(file_io, keyed.table_path)
    for file in files:
        _write(again, 1, 99, on={"deleted": []})
        commit(again, message(deleted=[file], total_buckets=2), kind=CommitKind.OVERWRITE)
        before = file_io.count("read_bytes")
        assert _largest(again)[1] == 99
        assert file_io.count("read_bytes") - before < 6
    assert _largest(again) == {1: 99}


def test_a_table_made_again_starts_anew(keyed, tmp_path):
    _write(keyed, 0, 50)
    assert _largest(keyed) == {0: 50}
    LocalFileIO().delete_directory(keyed.table_path)
    again = new_store(tmp_path, KEYED)
    _write(again, 1, 1)
    assert _largest(again) == {1: 1}


def test_a_rolled_back_table_forgets_what_was_rolled_back(keyed):
    _write(keyed, 0, 1)
    _write(keyed, 0, 50)
    assert _largest(keyed) == {0: 50}
    LocalFileIO().delete_file(keyed.paths.snapshot(2))
    LocalFileIO().replace(f"{keyed.paths.snapshot_directory}/LATEST", b"1")
    assert _largest(keyed) == {0: 1}
    _write(keyed, 0, 3)
    assert _largest(keyed) == {0: 3}


def test_many_snapshots_by_others_are_read_at_once(keyed):
    _write(keyed, 0, 1)
    assert _largest(keyed) == {0: 1}
    for number in range(80):
        _write(keyed, number % 2, number)
    assert _largest(keyed) == {0: 78, 1: 79}


def test_partitions_with_another_bucket_count_are_told(keyed):
    _write(keyed, 0, 1)
    state = writer_state(keyed, keyed.snapshots.latest())
    assert state.differing_from(2) == ()
    assert state.differing_from(4) == ((EMPTY_ROW, 2),)
    assert partition_buckets(keyed, keyed.snapshots.latest(), [EMPTY_ROW, b"x"]) == {EMPTY_ROW: 2}


def test_the_state_is_of_the_snapshot_asked_for(keyed):
    _write(keyed, 0, 1)
    first = keyed.snapshots.latest()
    _write(keyed, 0, 9)
    assert _largest(keyed) == {0: 9}
    state = writer_state(keyed, first)
    assert [one.max_sequence_number for one in state.bucket_states] == [1]


_STEPS = st.lists(
    st.tuples(
        st.sampled_from(["append", "delete", "overwrite", "truncate"]),
        st.integers(0, 1),
        st.integers(0, 2),
        st.integers(0, 50),
    ),
    max_size=12,
)


@settings(max_examples=often(12), deadline=None)
@given(_STEPS)
def test_what_is_kept_is_what_a_fresh_look_finds(tmp_path_factory, steps):
    schema = Schema.of(
        {"p": "BIGINT", "a": "BIGINT"},
        primary_keys=["p", "a"],
        partition_keys=["p"],
        options={"bucket": "3"},
    )
    store = new_store(tmp_path_factory.mktemp("kept"), schema)
    for kind, partition, bucket, largest in steps:
        row = key(partition)
        file = keyed_file(0, 9, max_sequence_number=largest)
        total = 3 + largest % 2 if kind == "overwrite" else _count_of(store, row)
        new = message(file, partition=row, bucket=bucket, total_buckets=total)
        live = [] if store.snapshots.latest() is None else _live(store)
        if kind == "append":
            commit(store, new)
        elif kind == "delete" and live:
            gone = live[largest % len(live)]
            where = {"partition": gone.partition, "bucket": gone.bucket}
            total = gone.total_buckets
            deleting = message(deleted=[gone.file], total_buckets=total, **where)
            commit(store, deleting, kind=CommitKind.OVERWRITE)
        else:
            replaced = frozenset({row}) if kind == "overwrite" else None
            FileStoreCommit(store, clock=FixedClock()).overwrite(
                [new] if kind == "overwrite" else [],
                commit_user=str(uuid4()),
                commit_identifier=1,
                partitions=replaced,
            )
        kept = writer_state(store, newest(store))
        planning._cached.cache_clear()
        fresh = writer_state(store, newest(store))
        assert dict(kept.total_buckets) == dict(fresh.total_buckets)
        known = {(s.partition, s.bucket): s.max_sequence_number for s in kept.bucket_states}
        right = {(s.partition, s.bucket): s.max_sequence_number for s in fresh.bucket_states}
        assert known.keys() == right.keys()
        assert all(known[bucket] >= right[bucket] for bucket in right)


def _live(store: FileStore) -> list[ManifestEntry]:
    return FileStoreScan(store).live_files(newest(store))


def _count_of(store: FileStore, partition: bytes) -> int:
    return planning.partition_buckets(store, store.snapshots.latest(), [partition]).get(
        partition, 3
    )
