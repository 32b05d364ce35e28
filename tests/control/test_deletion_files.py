"""The version of a table's data: named by the commit that last changed a row, never used twice."""

import gc
import json
from pathlib import Path

import pyarrow as pa
import pytest
from msgspec.structs import replace

from paimon_assets.engine.codec.rows.binary_row import serialize_row
from paimon_assets.engine.contract.split import DeletionFile
from paimon_assets.engine.control.commit.changes import data_version
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.manifests import ManifestStore
from paimon_assets.engine.control.scan.file_store_scan import FileStoreScan, without_collector
from paimon_assets.engine.control.scan.split_generator import deletion_files
from paimon_assets.engine.control.scan.table_scan import scan_table
from paimon_assets.engine.errors import FormatError, NotFoundError, UnsupportedFeatureError
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.engine.spec.metadata.data_file import EMPTY_ROW
from paimon_assets.engine.spec.metadata.manifest import DeletionVectorMeta, FileKind
from paimon_assets.engine.spec.metadata.snapshot import DATA_VERSION_PROPERTY, CommitKind, Snapshot
from paimon_assets.engine.spec.predicate import predicate as pred
from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.spec.types.data_types import string
from paimon_assets.engine.table.api import open_catalog
from paimon_assets.engine.table.table import Table
from tests.testkit import metadata_tables as kit
from tests.testkit.metadata_tables import newest
from tests.testkit.tables import new_catalog_in, new_table

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


def test_split_has_offsets_of_vectors_of_its_files(store):
    kit.commit(store, kit.message(kit.plain_file("a"), kit.plain_file("b"), kit.plain_file("c")))
    entry = kit.vectors_of(vector("c", 1), vector("a", 31, 24, None), file_name="index-7")
    kit.with_index(store, entry)
    (split,) = splits_of(store)
    path = f"{store.table_path}/index/index-7"
    assert split.deletion_files == (
        DeletionFile(path=path, offset=31, length=24, cardinality=None),
        None,
        DeletionFile(path=path, offset=1, length=22, cardinality=1),
    )


def test_split_without_deletions_is_marked(store):
    kit.commit(store, kit.message(kit.plain_file("a")))
    kit.with_index(store, kit.vectors_of(vector("gone")), kit.vectors_of())
    (split,) = splits_of(store)
    assert split.deletion_files is None


def test_vector_is_for_file_of_its_own_bucket(tmp_path):
    store = kit.new_store(tmp_path, PARTITIONED)
    for text in ("x", "y"):
        kit.commit(store, kit.message(kit.plain_file("same"), partition=partition(text)))
    kit.with_index(store, kit.vectors_of(vector("same"), partition=partition("y")))
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
def test_index_files_have_three_possible_folders(tmp_path, external, in_data, expected):
    declared = replace(PARTITIONED, options={"index-file-in-data-file-dir": in_data})
    store = kit.new_store(tmp_path, declared)
    kit.commit(store, kit.message(kit.plain_file("a"), partition=partition("x")))
    entry = kit.vectors_of(
        vector("a"), partition=partition("x"), file_name="index-7", external_path=external
    )
    snapshot = kit.with_index(store, entry)
    (found,) = deletion_files(store, snapshot, {(partition("x"), 0)}).values()
    assert found.path == expected.format(table=store.table_path)


def test_vectors_apply_without_their_option(store):
    kit.commit(store, kit.message(kit.plain_file("a")))
    kit.with_index(store, kit.vectors_of(vector("a")))
    without = FileStore.open(
        store.file_io, store.table_path, options={"deletion-vectors.enabled": "false"}
    )
    (split,) = splits_of(without)
    assert split.deletion_files is not None


def test_other_indexes_are_ignored_by_readers_and_kept_by_commits(store):
    kit.commit(store, kit.message(kit.plain_file()))
    entry = kit.vectors_of()
    indexed = kit.with_index(
        store, replace(entry, file=replace(entry.file, index_type="HASH", deletion_vectors=None))
    )
    assert deletion_files(store, indexed, BUCKET) == {}
    assert len(FileStoreScan(store).needed_files(newest(store))) == 1
    assert kit.commit(store, kit.message(kit.plain_file())).index_manifest == indexed.index_manifest


def test_vector_of_deleted_index_file_does_not_count(store):
    kit.commit(store, kit.message(kit.plain_file("a")))
    old = kit.vectors_of(vector("a", 1), file_name="old")
    new = kit.vectors_of(vector("a", 31), file_name="new")
    snapshot = kit.with_index(store, old, replace(old, kind=FileKind.DELETE), new)
    assert deletion_files(store, snapshot, BUCKET)[EMPTY_ROW, 0, "a"].offset == 31


def test_two_vectors_for_one_file_are_error(store):
    kit.commit(store, kit.message(kit.plain_file("a")))
    snapshot = kit.with_index(store, kit.vectors_of(vector("a")), kit.vectors_of(vector("a")))
    with pytest.raises(FormatError, match="gives data file 'a' two deletion vectors"):
        deletion_files(store, snapshot, BUCKET)


def test_vectors_of_buckets_that_are_not_read_are_left_out(tmp_path):
    store = kit.new_store(tmp_path, PARTITIONED)
    kit.commit(store, kit.message(kit.plain_file("a"), partition=partition("x")))
    entries = [kit.vectors_of(vector("a"), partition=partition(text)) for text in ("x", "y")]
    snapshot = kit.with_index(store, *entries)
    assert list(deletion_files(store, snapshot, {(partition("y"), 0)})) == [
        (partition("y"), 0, "a")
    ]


SCHEMA = Schema.of({"id": "INT", "n": "INT"}, primary_keys=["id"], options={"bucket": "1"})


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return new_table(tmp_path, SCHEMA, name="d.t")


def write(table: Table, *numbers: int) -> Snapshot:
    column = pa.array(numbers, pa.int32())
    made = table.new_write_builder().write(pa.table({"id": column, "n": column})).snapshot
    assert made is not None
    return made


def version(table: Table) -> str:
    newest = table.latest_snapshot()
    assert newest is not None
    return table.state.data_version(newest)


def compact(table: Table) -> Snapshot:
    made = table.new_compaction_builder().with_strategy("full").run().snapshot
    assert made is not None
    return made


def forget(table: Table, snapshot_id: int) -> None:
    """A snapshot expires."""
    table.state.file_io.delete_file(f"{table.path}/snapshot/snapshot-{snapshot_id}")


def strip_own_properties(table: Table, snapshot_id: int, *, uuid: bool) -> None:
    """Remove from a snapshot the members that only this engine writes."""
    path = Path(table.path) / "snapshot" / f"snapshot-{snapshot_id}"
    members = json.loads(path.read_bytes())
    members.get("properties", {}).pop(DATA_VERSION_PROPERTY, None)
    if not uuid:
        del members["uuid"]
    path.write_text(json.dumps(members))


def test_every_snapshot_has_uuid_of_its_own(table: Table) -> None:
    first, second = write(table, 1), write(table, 2)
    assert first.uuid
    assert second.uuid
    assert first.uuid != second.uuid
    assert version(table) == f"2-{second.uuid}"


def test_commits_without_row_changes_keep_data_version(table: Table) -> None:
    write(table, 1)
    write(table, 1)
    before = version(table)
    compact(table)
    table.analyze()
    table.new_write_builder().with_empty_commits().write(SCHEMA_ROWS)
    newest = table.latest_snapshot()
    assert newest is not None
    assert newest.id == 5
    for expired in (1, 2, 3, 4):
        forget(table, expired)
    assert version(table) == before
    write(table, 2)
    assert version(table).startswith("6-")


def test_empty_overwrite_keeps_data_version(table: Table) -> None:
    write(table, 1)
    table.truncate()
    emptied = version(table)
    assert emptied.startswith("2-")
    table.truncate()
    assert version(table) == emptied


def test_data_version_is_never_reused(table: Table, tmp_path: Path) -> None:
    write(table, 1)
    first = version(table)
    write(table, 2)
    seen = {first, version(table)}
    table.rollback_to(1)
    assert version(table) == first, "the same rows again"
    write(table, 3)
    assert version(table) not in seen
    seen.add(version(table))
    catalog = open_catalog(str(tmp_path))
    catalog.drop_table("d.t")
    second = new_table(catalog, SCHEMA, name="d.t")
    write(second, 1)
    assert version(second) not in seen


@pytest.mark.parametrize("uuid", [True, False])
def test_foreign_compactions_do_not_hide_earlier_snapshots(table: Table, uuid: bool) -> None:
    write(table, 1)
    write(table, 1)
    strip_own_properties(table, 2, uuid=uuid)
    before = version(table)
    compact(table)
    strip_own_properties(table, 3, uuid=uuid)
    assert version(table) == before
    table.analyze()
    forget(table, 2)
    forget(table, 3)
    assert version(table) == before, "the statistics of this engine have taken it over"


def test_compaction_that_reveals_rows_changes_data_version(tmp_path: Path) -> None:
    """Of a table with deletion vectors, level 0 is not read before a compaction."""
    catalog = new_catalog_in(tmp_path, "d")
    options = {"bucket": "1", "deletion-vectors.enabled": "true"}
    columns = {"id": "INT", "n": "INT"}
    table = new_table(catalog, columns, name="d.t", primary_keys=["id"], options=options)
    write(table, 1)
    before = version(table)
    compact(table)
    assert version(table) != before
    assert data_version(table.new_read_builder().store, compact_again(table)) == version(table)


def compact_again(table: Table) -> Snapshot:
    """The newest snapshot after a compaction that found nothing to do."""
    table.new_compaction_builder().with_strategy("full").run()
    newest = table.latest_snapshot()
    assert newest is not None
    return newest


SCHEMA_ROWS = pa.table({"id": pa.array([], pa.int32()), "n": pa.array([], pa.int32())})


def _names(store: FileStore, predicate: pred.Predicate | None = None) -> list[str]:
    bound = None if predicate is None else pred.bind(predicate, store.schema)
    needed = FileStoreScan(store).needed_files(newest(store), bound)
    return [entry.file.file_name for entry in needed]


def test_files_are_in_commit_order(store):
    for name in ("b", "a", "c"):
        kit.commit(store, kit.message(kit.plain_file(name)))
    assert _names(store) == ["b", "a", "c"]


def test_deleted_files_are_not_live(store):
    first, second = kit.plain_file("first"), kit.plain_file("second")
    kit.commit(store, kit.message(first, second))
    kit.commit(
        store, kit.message(kit.plain_file("third"), deleted=[first]), kind=CommitKind.OVERWRITE
    )
    assert kit.live_names(store) == ["second", "third"]
    assert _names(store) == ["second", "third"]


@pytest.fixture
def partitioned_store(tmp_path):
    store = kit.new_store(tmp_path, PARTITIONED)
    for text in ("a", "b", None, "c"):
        kit.commit(store, kit.message(kit.plain_file(str(text)), partition=partition(text)))
    return store


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        (pred.equal("p", "b"), ["b"]),
        (pred.Comparison("p", pred.CompareOp.GE, "b"), ["b", "c"]),
        (pred.In("p", ("a", "c", "z")), ["a", "c"]),
        (pred.IsNull("p"), ["None"]),
        (pred.IsNull("p", negated=True), ["a", "b", "c"]),
        (pred.any_of([pred.equal("p", "a"), pred.IsNull("p")]), ["a", "None"]),
        (pred.all_of([pred.equal("p", "a"), pred.equal("x", 1)]), ["a"]),
        (pred.any_of([pred.equal("p", "a"), pred.equal("x", 1)]), ["a", "b", "None", "c"]),
        (pred.equal("p", "z"), []),
    ],
)
def test_partitions_are_pruned(partitioned_store, predicate, expected):
    assert _names(partitioned_store, predicate) == expected


def test_manifests_of_other_partitions_are_not_read(partitioned_store, monkeypatch):
    read: list[str] = []
    real = ManifestStore.read

    def counting(self, meta, *args, **options):
        read.append(meta.file_name)
        return real(self, meta, *args, **options)

    monkeypatch.setattr(ManifestStore, "read", counting)
    assert _names(partitioned_store, pred.equal("p", "b")) == ["b"]
    assert len(read) == 1


def test_bucket_is_found_by_bucket_count_of_entry(tmp_path):
    schema = Schema.of(
        {"p": "STRING", "k": "INT", "v": "INT"},
        partition_keys=["p"],
        primary_keys=["p", "k"],
        options={"bucket": "4"},
    )
    store = kit.new_store(tmp_path, schema)
    for text, buckets in (("old", 10), ("new", 4)):
        for bucket in range(buckets):
            kit.commit(
                store,
                kit.message(
                    kit.plain_file(f"{text}-{bucket}"),
                    partition=partition(text),
                    bucket=bucket,
                    total_buckets=buckets,
                ),
            )
    # INT 1 hashes to bucket 8 of 10 and bucket 2 of 4, INT -3 to 5 and 3 (vectors by Java 2.0).
    assert _buckets(store, pred.equal("k", 1)) == ["old-8", "new-2"]
    assert _buckets(store, pred.In("k", (1, -3))) == ["old-5", "old-8", "new-2", "new-3"]
    assert _buckets(store, pred.all_of([pred.equal("k", 1), pred.equal("p", "new")])) == ["new-2"]
    assert len(_buckets(store, pred.Comparison("k", pred.CompareOp.GT, 1))) == 14
    assert len(_buckets(store, pred.any_of([pred.equal("k", 1), pred.equal("v", 1)]))) == 14
    assert _buckets(store, pred.equal("k", 2**40)) == []


def _buckets(store: FileStore, predicate: pred.Predicate | None) -> list[str]:
    assert predicate is not None
    # These files have no key statistics, so that only bucket pruning is seen.
    bound = pred.bind(predicate, store.schema)
    scan = FileStoreScan(store)
    pruned = scan._filtered_entries(store.manifests.manifests_of(newest(store)), bound)
    return [entry.file.file_name for entry in pruned]


def test_delete_outlives_bucket_pruning(keyed):
    gone = kit.keyed_file(1, 1, file_name="gone")
    kit.commit(keyed, kit.message(gone, bucket=1, total_buckets=2))
    # The DELETE tells another bucket count than the ADD, as after a rescale.
    kit.commit(
        keyed,
        kit.message(kit.keyed_file(5, 5), bucket=1, total_buckets=7, deleted=[gone]),
        kind=CommitKind.OVERWRITE,
    )
    for key in range(20):
        assert "gone" not in _names(keyed, pred.equal("a", key))


def test_files_are_pruned_by_their_keys(keyed):
    for low, high in ((0, 9), (5, 14), (20, 29)):
        kit.commit(
            keyed,
            kit.message(kit.keyed_file(low, high, file_name=f"{low}-{high}"), total_buckets=2),
        )
    assert _names(keyed, pred.Comparison("a", pred.CompareOp.LT, 5)) == ["0-9"]
    assert _names(keyed, pred.Comparison("a", pred.CompareOp.GT, 9)) == ["5-14", "20-29"]
    assert _names(keyed, pred.Comparison("b", pred.CompareOp.EQ, "x")) == ["0-9", "5-14", "20-29"]


def test_postpone_bucket_is_refused_by_name(store):
    kit.commit(store, kit.message(kit.plain_file("waiting"), bucket=-2, total_buckets=-2))
    with pytest.raises(UnsupportedFeatureError, match=r"waiting.*bucket-postpone"):
        _names(store)
    assert kit.live_names(store) == ["waiting"]


def test_directory_without_table_cannot_be_opened(tmp_path):
    with pytest.raises(NotFoundError, match="no schema"):
        FileStore.open(LocalFileIO(), str(tmp_path))


def test_last_holder_restarts_garbage_collector():
    assert gc.isenabled()
    first, second = without_collector(), without_collector()
    with first:
        with second:
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_disabled_garbage_collector_stays_disabled():
    gc.disable()
    try:
        with without_collector():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()
