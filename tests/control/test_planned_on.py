"""A change that holds only if nobody changed its buckets since it was planned."""

import pytest

from paimon_assets.engine.contract.commit_message import CommitMessage, CompactIncrement
from paimon_assets.engine.control.commit.file_store_commit import FileStoreCommit
from paimon_assets.engine.control.commit.planned_on import PlannedOn
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.embedded import EmbeddedExecutor
from paimon_assets.engine.errors import CommitConflictError
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.engine.spec.metadata.snapshot import CommitKind
from paimon_assets.engine.spec.predicate.predicate import equal
from paimon_assets.engine.spec.schema.schema import Schema
from tests.testkit.faults.writers import fork_server
from tests.testkit.metadata_tables import (
    commit,
    key,
    keyed_file,
    live_names,
    manifest_files,
    message,
    new_store,
    plain_file,
    referenced_manifests,
    vectors_of,
    with_index,
)
from tests.testkit.rows import rows_to_arrow

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


def test_of_appended_files_only_those_that_may_match_conflict(new_catalog):
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


STRICT = Schema.of(
    {"p": "BIGINT", "a": "BIGINT"},
    primary_keys=["p", "a"],
    partition_keys=["p"],
    options={"bucket": "2"},
)


def _strict(store: FileStore, safe: int) -> FileStore:
    options = {"commit.strict-mode.last-safe-snapshot": str(safe)}
    return FileStore.open(LocalFileIO(), store.table_path, options=options)


def _appended(partition: int, *, bucket: int = 0) -> CommitMessage:
    total = 2 if bucket >= 0 else -2
    return message(keyed_file(0, 9), partition=key(partition), bucket=bucket, total_buckets=total)


def _outcome(store: FileStore, partition: int, **more) -> str | None:
    try:
        commit(store, _appended(partition), **more)
    except CommitConflictError as error:
        return error.kind
    return None


@pytest.fixture
def rewritten(tmp_path) -> FileStore:
    """Snapshot 2 is somebody's compaction of partition 1."""
    store = new_store(tmp_path, STRICT)
    old = keyed_file(0, 9)
    commit(store, message(old, partition=key(1), total_buckets=2))
    increment = CompactIncrement(compact_before=(old,), compact_after=(keyed_file(0, 9, level=5),))
    commit(
        store,
        CommitMessage(partition=key(1), bucket=0, total_buckets=2, compact_increment=increment),
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
def test_a_rewrite_since_the_safe_snapshot_is_a_conflict(rewritten, safe, partition, user, outcome):
    assert _outcome(_strict(rewritten, safe), partition, user=user) == outcome


def test_without_the_option_nothing_is_strict(rewritten):
    assert _outcome(rewritten, 1) is None


@pytest.mark.parametrize(("bucket", "outcome"), [(0, "strict-mode"), (-2, None)])
def test_an_overwrite_minds_what_was_appended_to_real_buckets(tmp_path, bucket, outcome):
    store = new_store(tmp_path, STRICT)
    commit(store, _appended(1, bucket=bucket))
    assert _outcome(_strict(store, 0), 1, kind=CommitKind.OVERWRITE) == outcome
    assert _outcome(_strict(store, 0), 2, kind=CommitKind.OVERWRITE) is None
    assert _outcome(_strict(store, 0), 3) is None


def test_rows_deleted_by_vectors_count_as_a_rewrite(tmp_path):
    store = new_store(tmp_path, STRICT)
    commit(store, _appended(1))
    commit(store, kind=CommitKind.OVERWRITE)
    with_index(store, vectors_of(partition=key(1)))
    assert _outcome(_strict(store, 1), 1) == "strict-mode"
    assert _outcome(_strict(store, 1), 2) is None
