import gc

import pytest

from paimon_assets.engine.codec.rows.binary_row import serialize_row
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.manifests.manifest_store import ManifestStore
from paimon_assets.engine.control.scan.file_store_scan import FileStoreScan, without_collector
from paimon_assets.engine.errors import NotFoundError, UnsupportedFeatureError
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.engine.spec.metadata.snapshot import CommitKind
from paimon_assets.engine.spec.predicate.predicate import (
    CompareOp,
    Comparison,
    In,
    IsNull,
    Predicate,
    all_of,
    any_of,
    bind,
    equal,
)
from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.spec.types.data_types import string
from tests.testkit.metadata_tables import (
    commit,
    keyed_file,
    live_names,
    message,
    new_store,
    newest,
    plain_file,
)

PARTITIONED = Schema.of({"p": "STRING", "x": "INT"}, partition_keys=["p"])


def _partition(text: str | None) -> bytes:
    return serialize_row([text], [string()])


def _needed(store: FileStore, predicate: Predicate | None = None) -> list[str]:
    bound = None if predicate is None else bind(predicate, store.schema)
    needed = FileStoreScan(store).needed_files(newest(store), bound)
    return [entry.file.file_name for entry in needed]


def test_files_come_in_the_order_they_were_committed(store):
    for name in ("b", "a", "c"):
        commit(store, message(plain_file(name)))
    assert _needed(store) == ["b", "a", "c"]


def test_deleted_files_are_not_live(store):
    first, second = plain_file("first"), plain_file("second")
    commit(store, message(first, second))
    commit(store, message(plain_file("third"), deleted=[first]), kind=CommitKind.OVERWRITE)
    assert live_names(store) == ["second", "third"]
    assert _needed(store) == ["second", "third"]


@pytest.fixture
def partitioned(tmp_path):
    store = new_store(tmp_path, PARTITIONED)
    for text in ("a", "b", None, "c"):
        commit(store, message(plain_file(str(text)), partition=_partition(text)))
    return store


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        (equal("p", "b"), ["b"]),
        (Comparison("p", CompareOp.GE, "b"), ["b", "c"]),
        (In("p", ("a", "c", "z")), ["a", "c"]),
        (IsNull("p"), ["None"]),
        (IsNull("p", negated=True), ["a", "b", "c"]),
        (any_of([equal("p", "a"), IsNull("p")]), ["a", "None"]),
        (all_of([equal("p", "a"), equal("x", 1)]), ["a"]),
        (any_of([equal("p", "a"), equal("x", 1)]), ["a", "b", "None", "c"]),
        (equal("p", "z"), []),
    ],
)
def test_partitions_are_pruned(partitioned, predicate, expected):
    assert _needed(partitioned, predicate) == expected


def test_manifests_of_other_partitions_are_not_read(partitioned, monkeypatch):
    read: list[str] = []
    real = ManifestStore.read

    def counting(self, meta, keep=None):
        read.append(meta.file_name)
        return real(self, meta, keep)

    monkeypatch.setattr(ManifestStore, "read", counting)
    assert _needed(partitioned, equal("p", "b")) == ["b"]
    assert len(read) == 1


def test_a_bucket_is_found_by_the_count_its_entry_was_written_with(tmp_path):
    schema = Schema.of(
        {"p": "STRING", "k": "INT", "v": "INT"},
        partition_keys=["p"],
        primary_keys=["p", "k"],
        options={"bucket": "4"},
    )
    store = new_store(tmp_path, schema)
    for text, buckets in (("old", 10), ("new", 4)):
        for bucket in range(buckets):
            commit(
                store,
                message(
                    plain_file(f"{text}-{bucket}"),
                    partition=_partition(text),
                    bucket=bucket,
                    total_buckets=buckets,
                ),
            )
    # INT 1 hashes to bucket 8 of 10 and bucket 2 of 4, INT -3 to 5 and 3 (vectors by Java 2.0).
    assert _buckets(store, equal("k", 1)) == ["old-8", "new-2"]
    assert _buckets(store, In("k", (1, -3))) == ["old-5", "old-8", "new-2", "new-3"]
    assert _buckets(store, all_of([equal("k", 1), equal("p", "new")])) == ["new-2"]
    assert len(_buckets(store, Comparison("k", CompareOp.GT, 1))) == 14
    assert len(_buckets(store, any_of([equal("k", 1), equal("v", 1)]))) == 14
    assert _buckets(store, equal("k", 2**40)) == []


def _buckets(store: FileStore, predicate: Predicate | None) -> list[str]:
    assert predicate is not None
    # These files have no key statistics, so that only bucket pruning is seen.
    bound = bind(predicate, store.schema)
    scan = FileStoreScan(store)
    pruned = scan._filtered_entries(store.manifests.manifests_of(newest(store)), bound)
    return [entry.file.file_name for entry in pruned]


def test_a_delete_outlives_bucket_pruning(keyed):
    gone = keyed_file(1, 1, file_name="gone")
    commit(keyed, message(gone, bucket=1, total_buckets=2))
    # The DELETE tells another bucket count than the ADD, as after a rescale.
    commit(
        keyed,
        message(keyed_file(5, 5), bucket=1, total_buckets=7, deleted=[gone]),
        kind=CommitKind.OVERWRITE,
    )
    for key in range(20):
        assert "gone" not in _needed(keyed, equal("a", key))


def test_files_are_pruned_by_their_keys(keyed):
    for low, high in ((0, 9), (5, 14), (20, 29)):
        commit(keyed, message(keyed_file(low, high, file_name=f"{low}-{high}"), total_buckets=2))
    assert _needed(keyed, Comparison("a", CompareOp.LT, 5)) == ["0-9"]
    assert _needed(keyed, Comparison("a", CompareOp.GT, 9)) == ["5-14", "20-29"]
    assert _needed(keyed, Comparison("b", CompareOp.EQ, "x")) == ["0-9", "5-14", "20-29"]


def test_a_postpone_bucket_is_refused_by_name(store):
    commit(store, message(plain_file("waiting"), bucket=-2, total_buckets=-2))
    with pytest.raises(UnsupportedFeatureError, match=r"waiting.*bucket-postpone"):
        _needed(store)
    assert live_names(store) == ["waiting"]


def test_a_directory_without_a_table_cannot_be_opened(tmp_path):
    with pytest.raises(NotFoundError, match="no schema"):
        FileStore.open(LocalFileIO(), str(tmp_path))


def test_the_last_holder_lets_the_collector_run_again():
    assert gc.isenabled()
    first, second = without_collector(), without_collector()
    with first:
        with second:
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off():
    gc.disable()
    try:
        with without_collector():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()
