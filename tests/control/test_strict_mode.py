"""With `commit.strict-mode.last-safe-snapshot`, what others rewrote is a conflict."""

import pytest

from paimon_assets.engine.contract.commit_message import CommitMessage, CompactIncrement
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.errors import CommitConflictError
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.engine.spec.metadata.snapshot import CommitKind
from paimon_assets.engine.spec.schema.schema import Schema
from tests.testkit.metadata_tables import (
    commit,
    key,
    keyed_file,
    message,
    new_store,
    vectors_of,
    with_index,
)

SCHEMA = Schema.of(
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
    store = new_store(tmp_path, SCHEMA)
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
    store = new_store(tmp_path, SCHEMA)
    commit(store, _appended(1, bucket=bucket))
    assert _outcome(_strict(store, 0), 1, kind=CommitKind.OVERWRITE) == outcome
    assert _outcome(_strict(store, 0), 2, kind=CommitKind.OVERWRITE) is None
    assert _outcome(_strict(store, 0), 3) is None


def test_rows_deleted_by_vectors_count_as_a_rewrite(tmp_path):
    store = new_store(tmp_path, SCHEMA)
    commit(store, _appended(1))
    commit(store, kind=CommitKind.OVERWRITE)
    with_index(store, vectors_of(partition=key(1)))
    assert _outcome(_strict(store, 1), 1) == "strict-mode"
    assert _outcome(_strict(store, 1), 2) is None
