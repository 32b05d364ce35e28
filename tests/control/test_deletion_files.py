from dataclasses import replace

import pytest

from paimon_assets.engine.codec.rows.binary_row import serialize_row
from paimon_assets.engine.contract.split import DeletionFile
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.scan.deletion_files import deletion_files
from paimon_assets.engine.control.scan.file_store_scan import FileStoreScan
from paimon_assets.engine.control.scan.table_scan import scan_table
from paimon_assets.engine.errors import FormatError
from paimon_assets.engine.spec.metadata.index_file import DeletionVectorMeta
from paimon_assets.engine.spec.metadata.manifest import FileKind
from paimon_assets.engine.spec.metadata.simple_stats import EMPTY_ROW
from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.spec.types.data_types import string
from tests.testkit.metadata_tables import (
    commit,
    message,
    new_store,
    newest,
    plain_file,
    vectors_of,
    with_index,
)

BUCKET = {(EMPTY_ROW, 0)}
PARTITIONED = Schema.of({"p": "STRING", "x": "INT"}, partition_keys=["p"])


def partition(text):
    return serialize_row([text], [string()])


def vector(name, offset=1, length=22, cardinality: int | None = 1):
    return DeletionVectorMeta(
        data_file_name=name, offset=offset, length=length, cardinality=cardinality
    )


def splits_of(store):
    return scan_table(store, newest(store), None).splits


def test_a_split_says_where_the_vectors_of_its_files_lie(store):
    commit(store, message(plain_file("a"), plain_file("b"), plain_file("c")))
    entry = vectors_of(vector("c", 1), vector("a", 31, 24, None), file_name="index-7")
    with_index(store, entry)
    (split,) = splits_of(store)
    path = f"{store.table_path}/index/index-7"
    assert split.deletion_files == (
        DeletionFile(path=path, offset=31, length=24, cardinality=None),
        None,
        DeletionFile(path=path, offset=1, length=22, cardinality=1),
    )


def test_a_split_without_deletions_says_so(store):
    commit(store, message(plain_file("a")))
    with_index(store, vectors_of(vector("gone")), vectors_of())
    (split,) = splits_of(store)
    assert split.deletion_files is None


def test_a_vector_is_for_the_file_of_its_own_bucket(tmp_path):
    store = new_store(tmp_path, PARTITIONED)
    for text in ("x", "y"):
        commit(store, message(plain_file("same"), partition=partition(text)))
    with_index(store, vectors_of(vector("same"), partition=partition("y")))
    x, y = splits_of(store)
    assert x.deletion_files is None
    assert y.deletion_files is not None


@pytest.mark.parametrize(
    ("external", "in_data", "expected"),
    [
        (None, "false", "{table}/index/index-7"),
        (None, "true", "{table}/p=x/bucket-0/index-7"),
        ("s3://b/index-7", "false", "s3://b/index-7"),
        ("s3://b/index-7", "true", "s3://b/index-7"),
    ],
)
def test_index_files_lie_in_three_places(tmp_path, external, in_data, expected):
    declared = replace(PARTITIONED, options={"index-file-in-data-file-dir": in_data})
    store = new_store(tmp_path, declared)
    commit(store, message(plain_file("a"), partition=partition("x")))
    entry = vectors_of(
        vector("a"), partition=partition("x"), file_name="index-7", external_path=external
    )
    snapshot = with_index(store, entry)
    (found,) = deletion_files(store, snapshot, {(partition("x"), 0)}).values()
    assert found.path == expected.format(table=store.table_path)


def test_vectors_count_whatever_the_options_say(store):
    commit(store, message(plain_file("a")))
    with_index(store, vectors_of(vector("a")))
    without = FileStore.open(
        store.file_io, store.table_path, options={"deletion-vectors.enabled": "false"}
    )
    (split,) = splits_of(without)
    assert split.deletion_files is not None


def test_other_indexes_do_not_matter_to_readers_and_are_carried_by_commits(store):
    commit(store, message(plain_file()))
    entry = vectors_of()
    indexed = with_index(
        store, replace(entry, file=replace(entry.file, index_type="HASH", deletion_vectors=None))
    )
    assert deletion_files(store, indexed, BUCKET) == {}
    assert len(FileStoreScan(store).needed_files(newest(store))) == 1
    assert commit(store, message(plain_file())).index_manifest == indexed.index_manifest


def test_a_vector_of_a_deleted_index_file_does_not_count(store):
    commit(store, message(plain_file("a")))
    old = vectors_of(vector("a", 1), file_name="old")
    new = vectors_of(vector("a", 31), file_name="new")
    snapshot = with_index(store, old, replace(old, kind=FileKind.DELETE), new)
    assert deletion_files(store, snapshot, BUCKET)[EMPTY_ROW, 0, "a"].offset == 31


def test_two_vectors_for_one_file_are_an_error(store):
    commit(store, message(plain_file("a")))
    snapshot = with_index(store, vectors_of(vector("a")), vectors_of(vector("a")))
    with pytest.raises(FormatError, match="gives data file 'a' two deletion vectors"):
        deletion_files(store, snapshot, BUCKET)


def test_vectors_of_buckets_that_are_not_read_are_left_out(tmp_path):
    store = new_store(tmp_path, PARTITIONED)
    commit(store, message(plain_file("a"), partition=partition("x")))
    entries = [vectors_of(vector("a"), partition=partition(text)) for text in ("x", "y")]
    snapshot = with_index(store, *entries)
    assert list(deletion_files(store, snapshot, {(partition("y"), 0)})) == [
        (partition("y"), 0, "a")
    ]
