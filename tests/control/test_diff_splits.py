import pytest

from paimon_assets.engine.control.scan.file_store_scan import FileStoreScan
from paimon_assets.engine.control.scan.incremental import diff_splits
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.metadata.index_file import DeletionVectorMeta
from paimon_assets.engine.spec.metadata.snapshot import CommitKind
from tests.testkit.metadata_tables import (
    KEYED,
    commit,
    keyed_file,
    message,
    new_store,
    newest,
    vectors_of,
    with_index,
)


@pytest.fixture
def store(tmp_path):
    return new_store(tmp_path, KEYED)


def added(store, *files, **more):
    return commit(store, message(*files, total_buckets=2, **more))


def names(files):
    return sorted(file.file_name for file in files)


def test_sections_that_are_the_same_in_both_states_are_left_out(store):
    low, high = (keyed_file(0, 9, file_name="low"), keyed_file(10, 19, file_name="high"))
    before = added(store, low, high)
    after = added(store, keyed_file(12, 13, file_name="new"))
    (split,) = diff_splits(store, before, after, None, keeps_kinds=True)
    assert names(split.before_files) == ["high"]
    assert names(split.data_files) == ["high", "new"]
    assert split.is_difference
    assert not split.raw_convertible
    assert diff_splits(store, before, before, None, keeps_kinds=True) == []


def test_a_bucket_that_is_new_or_gone_is_told(store):
    before = added(store, keyed_file(0, 9, file_name="old"))
    after = added(store, keyed_file(0, 9, file_name="other"), bucket=1)
    (split,) = diff_splits(store, before, after, None, keeps_kinds=True)
    assert (split.bucket, names(split.before_files), names(split.data_files)) == (1, [], ["other"])
    (first,) = diff_splits(store, None, before, None, keeps_kinds=True)
    assert (first.before_files, first.is_difference) == ((), True)
    (gone,) = diff_splits(store, after, before, None, keeps_kinds=True)
    assert (names(gone.before_files), gone.data_files) == (["other"], ())


def test_another_deletion_vector_makes_another_file(store):
    before = added(store, keyed_file(0, 9, file_name="file"))
    added(store, keyed_file(20, 29, file_name="far"))
    vector = DeletionVectorMeta(data_file_name="file", offset=1, length=22, cardinality=3)
    after = with_index(store, vectors_of(vector))
    splits = diff_splits(store, before, after, None, keeps_kinds=True)
    old = [name for split in splits for name in names(split.before_files)]
    new = [name for split in splits for name in names(split.data_files)]
    assert (old, sorted(new)) == (["file"], ["far", "file"])
    vectors = [found for split in splits for found in split.deletion_files or ()]
    assert [found.cardinality for found in vectors if found is not None] == [3]


def test_rescaled_buckets_cannot_be_compared(store):
    before = added(store, keyed_file(0, 9))
    commit(
        store,
        message(deleted=[entry.file for entry in _live(store)], total_buckets=2),
        kind=CommitKind.OVERWRITE,
    )
    commit(store, message(keyed_file(0, 9), total_buckets=4))
    with pytest.raises(InvalidInputError, match="has 4 buckets now and had 2"):
        diff_splits(store, before, newest(store), None, keeps_kinds=True)


def _live(store):
    return FileStoreScan(store).live_files(newest(store))
