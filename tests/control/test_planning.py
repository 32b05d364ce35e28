"""Changes that are planned on a snapshot conflict with later changes of their buckets."""

from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_assets import CommitConflictError, EmbeddedExecutor, Schema
from paimon_assets.engine.contract.commit_message import CommitMessage, CompactIncrement
from paimon_assets.engine.contract.context import BucketState
from paimon_assets.engine.control import write_planning as planning
from paimon_assets.engine.control.commit.file_store_commit import FileStoreCommit
from paimon_assets.engine.control.commit.planned_on import PlannedOn
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.scan.file_store_scan import FileStoreScan
from paimon_assets.engine.control.write_planning import partition_buckets, writer_state
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.engine.spec.metadata.data_file import EMPTY_ROW
from paimon_assets.engine.spec.metadata.manifest import ManifestEntry
from paimon_assets.engine.spec.metadata.snapshot import CommitKind
from paimon_assets.engine.spec.predicate.predicate import equal
from tests.testkit import metadata_tables as kit
from tests.testkit.effort import often
from tests.testkit.faults.writers import fork_server
from tests.testkit.faulty_fileio import FaultyFileIO
from tests.testkit.rows import rows_to_arrow


def _largest(store: FileStore) -> dict[int, int]:
    state = writer_state(store, store.snapshots.latest())
    return {one.bucket: one.max_sequence_number for one in state.bucket_states}


def _write(store: FileStore, bucket: int, largest: int, **more):
    file = kit.keyed_file(0, 9, max_sequence_number=largest)
    kit.commit(
        store, kit.message(file, bucket=bucket, total_buckets=2, **more.pop("on", {})), **more
    )
    return file


def test_empty_table_has_no_state(keyed):
    assert writer_state(keyed, None).bucket_states == ()
    assert partition_buckets(keyed, None, [EMPTY_ROW]) == {}


def test_plans_of_padding_writers_have_live_files(tmp_path):
    padding = {"sequence.field": "n", "sequence.auto-padding": "second-to-micro", "bucket": "2"}
    columns = {"a": "BIGINT", "n": "INT"}
    store = kit.new_store(tmp_path, Schema.of(columns, primary_keys=["a"], options=padding))
    first, second = _write(store, 0, 5), _write(store, 0, 9)
    kit.commit(store, kit.message(deleted=[first], total_buckets=2), kind=CommitKind.OVERWRITE)
    (state,) = writer_state(store, kit.newest(store)).bucket_states
    assert [(file.location, file.max_sequence_number) for file in state.files] == [
        (second.file_name, 9)
    ]


def test_unaware_table_needs_no_state(tmp_path):
    store = kit.new_store(tmp_path, kit.APPEND)
    kit.commit(store, kit.message(kit.plain_file(), total_buckets=-1))
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


def test_bucket_without_files_starts_again(keyed):
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
        kit.commit(again, kit.message(deleted=[file], total_buckets=2), kind=CommitKind.OVERWRITE)
        before = file_io.count("read_bytes")
        assert _largest(again)[1] == 99
        assert file_io.count("read_bytes") - before < 6
    assert _largest(again) == {1: 99}


def test_recreated_table_starts_again(keyed, tmp_path):
    _write(keyed, 0, 50)
    assert _largest(keyed) == {0: 50}
    LocalFileIO().delete_directory(keyed.table_path)
    again = kit.new_store(tmp_path, kit.KEYED)
    _write(again, 1, 1)
    assert _largest(again) == {1: 1}


def test_rolled_back_table_forgets_undone_numbers(keyed):
    _write(keyed, 0, 1)
    _write(keyed, 0, 50)
    assert _largest(keyed) == {0: 50}
    LocalFileIO().delete_file(keyed.paths.snapshot(2))
    LocalFileIO().replace(f"{keyed.paths.snapshot_directory}/LATEST", b"1")
    assert _largest(keyed) == {0: 1}
    _write(keyed, 0, 3)
    assert _largest(keyed) == {0: 3}


def test_many_foreign_snapshots_are_read_at_once(keyed):
    _write(keyed, 0, 1)
    assert _largest(keyed) == {0: 1}
    for number in range(80):
        _write(keyed, number % 2, number)
    assert _largest(keyed) == {0: 78, 1: 79}


def test_partitions_with_another_bucket_count_are_reported(keyed):
    _write(keyed, 0, 1)
    state = writer_state(keyed, keyed.snapshots.latest())
    assert state.differing_from(2) == ()
    assert state.differing_from(4) == ((EMPTY_ROW, 2),)
    assert partition_buckets(keyed, keyed.snapshots.latest(), [EMPTY_ROW, b"x"]) == {EMPTY_ROW: 2}


def test_state_belongs_to_requested_snapshot(keyed):
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
def test_remembered_plan_equals_fresh_one(tmp_path_factory, steps):
    schema = Schema.of(
        {"p": "BIGINT", "a": "BIGINT"},
        primary_keys=["p", "a"],
        partition_keys=["p"],
        options={"bucket": "3"},
    )
    store = kit.new_store(tmp_path_factory.mktemp("kept"), schema)
    for kind, partition, bucket, largest in steps:
        row = kit.key(partition)
        file = kit.keyed_file(0, 9, max_sequence_number=largest)
        total = 3 + largest % 2 if kind == "overwrite" else _count_of(store, row)
        new = kit.message(file, partition=row, bucket=bucket, total_buckets=total)
        live = [] if store.snapshots.latest() is None else _live(store)
        if kind == "append":
            kit.commit(store, new)
        elif kind == "delete" and live:
            gone = live[largest % len(live)]
            where = {"partition": gone.partition, "bucket": gone.bucket}
            total = gone.total_buckets
            deleting = kit.message(deleted=[gone.file], total_buckets=total, **where)
            kit.commit(store, deleting, kind=CommitKind.OVERWRITE)
        else:
            replaced = frozenset({row}) if kind == "overwrite" else None
            FileStoreCommit(store, clock=kit.FixedClock()).overwrite(
                [new] if kind == "overwrite" else [],
                commit_user=str(uuid4()),
                commit_identifier=1,
                partitions=replaced,
            )
        kept = writer_state(store, kit.newest(store))
        planning._cached_buckets.cache_clear()
        fresh = writer_state(store, kit.newest(store))
        assert dict(kept.total_buckets) == dict(fresh.total_buckets)
        known = {(s.partition, s.bucket): s.max_sequence_number for s in kept.bucket_states}
        right = {(s.partition, s.bucket): s.max_sequence_number for s in fresh.bucket_states}
        assert known.keys() == right.keys()
        assert all(known[bucket] >= right[bucket] for bucket in right)


def _live(store: FileStore) -> list[ManifestEntry]:
    return FileStoreScan(store).live_files(kit.newest(store))


def _count_of(store: FileStore, partition: bytes) -> int:
    return planning.partition_buckets(store, store.snapshots.latest(), [partition]).get(
        partition, 3
    )


SCHEMA = Schema.of({"id": "BIGINT"}, primary_keys=["id"], options={"bucket": "2"})


def test_other_buckets_and_compactions_are_no_conflict(new_catalog):
    table = new_catalog.create_table("db.t", SCHEMA)

    def write(*ids):
        rows = rows_to_arrow([{"id": number} for number in ids], SCHEMA)
        table.new_write_builder().write(rows, EmbeddedExecutor(1))

    def check(planned_on):
        PlannedOn(snapshot_id=planned_on).check(table._store, table.latest_snapshot(), first)

    write(*range(8))
    buckets = {(entry.partition, entry.bucket) for entry in table.state.live_files()}
    first = frozenset(sorted(buckets)[:1])
    table.new_compaction_builder().with_strategy("full").run()
    check(1)
    check(2)
    write(*range(8))
    check(3)
    with pytest.raises(CommitConflictError) as caught:
        check(2)
    assert (caught.value.kind, caught.value.details["snapshot_id"]) == ("bucket-changed", 3)
    with pytest.raises(CommitConflictError, match="rolled back"):
        check(4)


def test_only_matching_appends_conflict(new_catalog):
    table = new_catalog.create_table("db.t", Schema.of({"id": "BIGINT"}))

    def write(*ids):
        rows = rows_to_arrow([{"id": number} for number in ids], table.schema)
        table.new_write_builder().write(rows, EmbeddedExecutor(1))

    def check(planned_on, wanted):
        guard = PlannedOn(snapshot_id=planned_on, predicate=equal("id", wanted))
        guard.check(table._store, table.latest_snapshot(), frozenset())

    write(1, 5)
    write(7, 9)
    check(0, 6)
    check(1, 3)
    with pytest.raises(CommitConflictError) as caught:
        check(1, 8)
    assert (caught.value.kind, caught.value.details["snapshot_id"]) == ("rows-added", 2)


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
            [kit.message(kit.plain_file(name, row_count=1))], commit_user=name, commit_identifier=1
        )
        acknowledged.append((name, made.id))
    answers.put(acknowledged)


def test_four_synchronised_processes_lose_nothing(tmp_path):
    table = kit.new_store(tmp_path)
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
    assert sorted(kit.live_names(table)) == sorted(name for name, _ in acknowledged)
    assert sorted(snapshot_id for _, snapshot_id in acknowledged) == list(range(1, total + 1))
    assert table.snapshots.list_ids() == list(range(1, total + 1))
    latest = table.snapshots.latest()
    assert latest is not None
    assert latest.total_record_count == total
    for name, snapshot_id in acknowledged:
        assert table.snapshots.snapshot(snapshot_id).commit_user == name
    assert kit.manifest_files(table) == kit.referenced_manifests(table)


STRICT = Schema.of(
    {"p": "BIGINT", "a": "BIGINT"},
    primary_keys=["p", "a"],
    partition_keys=["p"],
    options={"bucket": "2"},
)


def _strict(store: FileStore, safe: int) -> FileStore:
    options = {"commit.strict-mode.last-safe-snapshot": str(safe)}
    return FileStore.open(LocalFileIO(), store.table_path, options=options)


def _append_message(partition: int, *, bucket: int = 0) -> CommitMessage:
    total = 2 if bucket >= 0 else -2
    return kit.message(
        kit.keyed_file(0, 9), partition=kit.key(partition), bucket=bucket, total_buckets=total
    )


def _outcome(store: FileStore, partition: int, **more) -> str | None:
    try:
        kit.commit(store, _append_message(partition), **more)
    except CommitConflictError as error:
        return error.kind
    return None


@pytest.fixture
def rewritten(tmp_path) -> FileStore:
    """Snapshot 2 compacts partition 1."""
    store = kit.new_store(tmp_path, STRICT)
    old = kit.keyed_file(0, 9)
    kit.commit(store, kit.message(old, partition=kit.key(1), total_buckets=2))
    increment = CompactIncrement(
        compact_before=(old,), compact_after=(kit.keyed_file(0, 9, level=5),)
    )
    kit.commit(
        store,
        CommitMessage(partition=kit.key(1), bucket=0, total_buckets=2, compact_increment=increment),
        kind=CommitKind.COMPACT,
        user="compactor",
    )
    return store


@pytest.mark.parametrize(
    ("safe", "partition", "user", "outcome"),
    [
        (1, 1, "me", "strict-mode"),
        (1, 2, "me", None),
        (2, 1, "me", None),
        (-1, 1, "me", None),
        (1, 1, "compactor", None),
    ],
)
def test_rewrite_since_safe_snapshot_is_conflict(rewritten, safe, partition, user, outcome):
    assert _outcome(_strict(rewritten, safe), partition, user=user) == outcome


def test_strict_mode_is_off_by_default(rewritten):
    assert _outcome(rewritten, 1) is None


@pytest.mark.parametrize(("bucket", "outcome"), [(0, "strict-mode"), (-2, None)])
def test_overwrite_keeps_appends_to_real_buckets(tmp_path, bucket, outcome):
    store = kit.new_store(tmp_path, STRICT)
    kit.commit(store, _append_message(1, bucket=bucket))
    assert _outcome(_strict(store, 0), 1, kind=CommitKind.OVERWRITE) == outcome
    assert _outcome(_strict(store, 0), 2, kind=CommitKind.OVERWRITE) is None
    assert _outcome(_strict(store, 0), 3) is None


def test_rows_deleted_by_vectors_count_as_rewrite(tmp_path):
    store = kit.new_store(tmp_path, STRICT)
    kit.commit(store, _append_message(1))
    kit.commit(store, kind=CommitKind.OVERWRITE)
    kit.with_index(store, kit.vectors_of(partition=kit.key(1)))
    kit.commit(store, _append_message(3), kind=CommitKind.OVERWRITE)  # leaves the vectors
    assert _outcome(_strict(store, 1), 1) == "strict-mode"
    assert _outcome(_strict(store, 1), 2) is None
    assert _outcome(_strict(store, 2), 1) is None
