"""Pure checks over entries; and retry waits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_assets.engine.contract.commit_message import (
    CommitMessage,
    CompactIncrement,
    DataIncrement,
)
from paimon_assets.engine.control.commit.changes import changes_of
from paimon_assets.engine.control.commit.checks import (
    apply,
    check_bucket_counts,
    check_conflicts,
    check_delta,
    check_vectors,
)
from paimon_assets.engine.control.commit.request import RetryPolicy
from paimon_assets.engine.errors import CommitConflictError, InvalidInputError
from paimon_assets.engine.spec.metadata.data_file import DataFileMeta
from paimon_assets.engine.spec.metadata.index_file import (
    DELETION_VECTORS_INDEX,
    HASH_INDEX,
    DeletionVectorMeta,
    IndexFileMeta,
    IndexManifestEntry,
)
from paimon_assets.engine.spec.metadata.manifest import FileKind, ManifestEntry
from paimon_assets.engine.spec.metadata.snapshot import CommitKind
from paimon_assets.engine.spec.options.all_options import Options
from tests.testkit.builders import data_file, entry


def _add(name: str, **file) -> ManifestEntry:
    return entry(file=data_file(file_name=name, **file))


def _delete(name: str, **file) -> ManifestEntry:
    return entry(kind=FileKind.DELETE, file=data_file(file_name=name, **file))


def _range(file: DataFileMeta) -> tuple[bytes, bytes]:
    return file.min_key, file.max_key


def _kind_of_conflict(base, delta, key_range=None) -> str | None:
    try:
        check_conflicts(base, delta, key_range)
    except CommitConflictError as error:
        return error.kind
    return None


def test_a_partition_keeps_its_bucket_count():
    check_bucket_counts({b"p": 4}, [entry(partition=b"p", total_buckets=4)])
    check_bucket_counts({b"p": 4}, [entry(partition=b"q", total_buckets=8)])
    check_bucket_counts({b"p": 4}, [entry(partition=b"p", total_buckets=-1)])
    with pytest.raises(CommitConflictError, match="written for 8 buckets") as caught:
        check_bucket_counts({b"p": 4}, [entry(partition=b"p", total_buckets=8)])
    assert caught.value.kind == "bucket-count"


def test_one_commit_agrees_with_itself_on_the_bucket_count():
    with pytest.raises(CommitConflictError):
        check_bucket_counts({}, [entry(total_buckets=4), entry(total_buckets=8)])


def test_what_is_deleted_must_be_live():
    assert _kind_of_conflict([_add("a")], [_delete("a")]) is None
    assert _kind_of_conflict([_add("b")], [_delete("a")]) == "file-gone"
    assert _kind_of_conflict([_add("a", level=1)], [_delete("a", level=0)]) == "file-gone"


def test_what_is_added_must_not_be_live():
    assert _kind_of_conflict([_add("a")], [_add("b")]) is None
    assert _kind_of_conflict([_add("a")], [_add("a")]) == "file-added-twice"


def test_a_commit_is_consistent_in_itself():
    check_delta([_add("a"), _delete("b"), _delete("a", level=1)])
    for delta in ([_delete("a"), _add("a")], [_add("a")] * 2, [_delete("a")] * 2):
        with pytest.raises(InvalidInputError, match="'a'") as caught:
            check_delta(delta)
        assert caught.value.kind == "delta-inconsistent"


def test_moving_a_file_to_another_level_is_no_conflict():
    delta = [_delete("a", level=0), _add("a", level=5)]
    assert _kind_of_conflict([_add("a", level=0)], delta) is None


def _on_level(name: str, low: bytes, high: bytes, level: int = 5) -> ManifestEntry:
    return _add(name, level=level, min_key=low, max_key=high)


def test_files_of_one_level_share_no_key():
    live = [_on_level("a", b"a", b"f")]
    assert _kind_of_conflict(live, [_on_level("b", b"g", b"z")], _range) is None
    assert _kind_of_conflict(live, [_on_level("b", b"f", b"z")], _range) == "key-range"
    assert _kind_of_conflict(live, [_on_level("b", b"b", b"c")], _range) == "key-range"
    assert _kind_of_conflict(live, [_on_level("b", b"b", b"c", level=4)], _range) is None
    assert _kind_of_conflict([], [_on_level("b", b"b", b"c", level=0)], _range) is None
    level_0 = [_on_level("a", b"a", b"f", level=0)]
    assert _kind_of_conflict(level_0, [_on_level("b", b"b", b"c", level=0)], _range) is None


def test_a_replaced_file_is_not_in_the_way():
    live = [_on_level("a", b"a", b"f")]
    gone = _delete("a", level=5, min_key=b"a", max_key=b"f")
    assert _kind_of_conflict(live, [gone, _on_level("b", b"b", b"z")], _range) is None


def test_append_tables_have_no_key_ranges():
    live = [_on_level("a", b"a", b"f")]
    assert _kind_of_conflict(live, [_on_level("b", b"b", b"z")], None) is None


FILE = data_file()
_CHANGES = {
    "new": CommitMessage(
        partition=b"p", bucket=1, total_buckets=4, data_increment=DataIncrement(new_files=(FILE,))
    ),
    "deleted": CommitMessage(
        partition=b"p",
        bucket=1,
        total_buckets=None,
        data_increment=DataIncrement(deleted_files=(FILE,)),
    ),
    "compact": CommitMessage(
        partition=b"p",
        bucket=1,
        total_buckets=4,
        compact_increment=CompactIncrement(
            compact_before=(FILE,), compact_after=(data_file(file_name="x"),)
        ),
    ),
}


@pytest.mark.parametrize(
    ("change", "kind", "kinds"),
    [
        ("new", CommitKind.APPEND, [FileKind.ADD]),
        ("new", CommitKind.OVERWRITE, [FileKind.ADD]),
        ("deleted", CommitKind.OVERWRITE, [FileKind.DELETE]),
        ("compact", CommitKind.COMPACT, [FileKind.DELETE, FileKind.ADD]),
    ],
)
def test_a_snapshot_s_kind_says_which_changes_it_holds(change, kind, kinds):
    entries = changes_of([_CHANGES[change]], kind, default_buckets=7).entries
    assert [one.kind for one in entries] == kinds
    assert {(one.partition, one.bucket) for one in entries} == {(b"p", 1)}
    assert {one.total_buckets for one in entries} == {7 if change == "deleted" else 4}


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ("deleted", CommitKind.APPEND),
        ("compact", CommitKind.APPEND),
        ("compact", CommitKind.OVERWRITE),
        ("new", CommitKind.COMPACT),
    ],
)
def test_changes_a_snapshot_would_drop_are_refused(change, kind):
    with pytest.raises(InvalidInputError, match="would drop"):
        changes_of([_CHANGES[change]], kind, default_buckets=7)


def test_statistics_are_no_messages():
    with pytest.raises(InvalidInputError, match="statistics"):
        changes_of([_CHANGES["new"]], CommitKind.ANALYZE, default_buckets=1)


@given(st.integers(1, 200), st.floats(0, 1, exclude_max=True))
def test_waits_double_up_to_a_ceiling_and_are_never_nothing(lost, fraction):
    policy = RetryPolicy(max_retries=10, min_wait_ms=10, max_wait_ms=10_000)
    wait = policy.wait_ms(lost, lambda: fraction)
    ceiling = min(10_000, 10 * 2 ** (lost - 1))
    assert ceiling / 2 <= wait <= ceiling


def test_patience_ends_by_number_or_by_time():
    policy = RetryPolicy(max_retries=2, min_wait_ms=1, max_wait_ms=1, timeout_ms=500)
    assert [policy.is_over(lost, 499) for lost in (1, 2, 3)] == [False, False, True]
    assert policy.is_over(1, 500)


def test_the_policy_comes_from_the_table_options():
    options = {"commit.max-retries": "3", "commit.min-retry-wait": "2 s", "commit.timeout": "1 min"}
    assert RetryPolicy.of(Options(options)) == RetryPolicy(
        max_retries=3, min_wait_ms=2000, max_wait_ms=10_000, timeout_ms=60_000
    )


ADD, DELETE = FileKind.ADD, FileKind.DELETE


def _index(
    name: str,
    *data_files: str,
    kind: FileKind = ADD,
    index_type: str = DELETION_VECTORS_INDEX,
    bucket: int = 0,
) -> IndexManifestEntry:
    vectors = tuple(
        DeletionVectorMeta(data_file_name=data_file, offset=1, length=22)
        for data_file in data_files
    )
    meta = IndexFileMeta(
        index_type=index_type,
        file_name=name,
        file_size=10,
        row_count=len(vectors),
        deletion_vectors=vectors if index_type == DELETION_VECTORS_INDEX else None,
    )
    return IndexManifestEntry(kind=kind, partition=b"p", bucket=bucket, file=meta)


def _hash(name: str, *, kind: FileKind = ADD, bucket: int = 0) -> IndexManifestEntry:
    return _index(name, kind=kind, index_type=HASH_INDEX, bucket=bucket)


def _names(live, changes, *, has_buckets=True) -> list[str]:
    return [each.file.file_name for each in apply(live, changes, has_buckets=has_buckets)]


def _conflict(live, changes, *, has_buckets=True) -> str:
    with pytest.raises(CommitConflictError, match="Plan again") as caught:
        apply(live, changes, has_buckets=has_buckets)
    assert caught.value.details["file"] == changes[-1].file.file_name
    return caught.value.kind


def test_what_is_named_goes_and_what_is_new_comes_last():
    live = [_hash("h0"), _hash("h1", bucket=1), _index("v0", "a"), _index("g", index_type="btree")]
    changes = [_hash("h0", kind=DELETE), _hash("h0b"), _index("v1", "c", bucket=1)]
    assert _names(live, changes) == ["h1", "v0", "g", "h0b", "v1"]
    assert _names(live, [_index("v0", "a", kind=DELETE)]) == ["h0", "h1", "g"]


@pytest.mark.parametrize("one", [_hash, lambda name, **more: _index(name, "a", **more)])
def test_a_bucket_has_one_file_of_a_kind(one):
    assert _names([one("old")], [one("old", kind=DELETE), one("new")]) == ["new"]
    assert _names([one("old")], [one("new", bucket=1)]) == ["old", "new"]
    assert _conflict([one("old")], [one("new")]) == "index-changed"
    assert _conflict([], [one("new"), one("newer")]) == "index-changed"
    assert _conflict([one("other")], [one("new"), one("old", kind=DELETE)]) == "index-gone"


def test_without_buckets_a_data_file_has_one_vector():
    live = [_index("v0", "a", "b"), _index("v1", "c")]
    assert _names(live, [_index("v2", "d")], has_buckets=False) == ["v0", "v1", "v2"]
    replaced = [_index("v1", "c", kind=DELETE), _index("v2", "c", "d")]
    assert _names(live, replaced, has_buckets=False) == ["v0", "v2"]
    assert _conflict(live, [_index("v2", "b")], has_buckets=False) == "index-changed"


def test_a_name_is_live_once():
    assert _conflict([_index("g", index_type="btree")], [_index("g", index_type="btree")]) == (
        "index-changed"
    )


def _file(name: str, kind: FileKind = ADD, level: int = 0) -> ManifestEntry:
    return entry(kind=kind, partition=b"p", file=data_file(file_name=name, level=level))


def _vector_conflict(before, after, base, delta) -> str | None:
    try:
        check_vectors(before, after, base, delta)
    except CommitConflictError as error:
        return error.kind
    return None


def test_a_new_vector_needs_its_data_file():
    after = [_index("v", "a")]
    assert _vector_conflict([], after, [_file("a")], []) is None
    assert _vector_conflict([], after, [], [_file("a")]) is None
    assert _vector_conflict([], after, [_file("b")], []) == "vector-without-file"
    # What another engine left behind is none of this commit's business.
    assert _vector_conflict(after, [_index("v2", "a")], [], []) is None


def test_a_file_that_goes_takes_its_vector_along():
    before = [_index("v", "a", "b")]
    gone = [_file("a", DELETE)]
    assert _vector_conflict(before, [_index("v2", "b")], [_file("a"), _file("b")], gone) is None
    assert _vector_conflict(before, before, [_file("a"), _file("b")], gone) == "vector-left"


def test_a_file_that_changes_its_level_keeps_its_vector():
    moved = [_file("a", DELETE), _file("a", level=5)]
    before = [_index("v", "a")]
    assert _vector_conflict(before, before, [_file("a")], moved) is None
