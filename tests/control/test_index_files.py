"""Index files of a commit onto those of the newest snapshot: pure."""

import pytest

from paimon_assets.engine.control.commit.checks import apply, check_vectors
from paimon_assets.engine.errors import CommitConflictError
from paimon_assets.engine.spec.metadata.index_file import (
    DELETION_VECTORS_INDEX,
    HASH_INDEX,
    DeletionVectorMeta,
    IndexFileMeta,
    IndexManifestEntry,
)
from paimon_assets.engine.spec.metadata.manifest import FileKind, ManifestEntry
from tests.testkit.builders import data_file, entry

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
