"""Partitions that main lacks come from the fallback branch."""

import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from paimon_assets import DataSplit, InvalidInputError, NotFoundError, UnsupportedFeatureError
from paimon_assets.engine.codec.json.metadata_json import schema_to_json, snapshot_to_json
from paimon_assets.engine.codec.rows.binary_row import serialize_row
from paimon_assets.engine.control.commit.file_store_commit import FileStoreCommit
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.scan import split_generator
from paimon_assets.engine.control.scan.file_store_scan import FileStoreScan
from paimon_assets.engine.control.scan.incremental import diff_splits
from paimon_assets.engine.control.scan.table_scan import scan_table
from paimon_assets.engine.control.scan.time_travel import schema_at, travel_to
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.engine.spec.metadata.data_file import DataFileMeta
from paimon_assets.engine.spec.metadata.manifest import DeletionVectorMeta, ManifestEntry
from paimon_assets.engine.spec.metadata.snapshot import CommitKind
from paimon_assets.engine.spec.predicate.predicate import bind, equal
from paimon_assets.engine.spec.schema.schema import Schema, first_table_schema
from paimon_assets.engine.spec.types.data_types import bigint, string
from tests.testkit import metadata_tables as kit
from tests.testkit.builders import entry
from tests.testkit.errors import refused

_SMALL = {"source.split.target-size": "100 b", "source.split.open-file-cost": "10 b"}


def _splits(schema: Schema, entries: list[ManifestEntry], **options: str) -> list[DataSplit]:
    table_schema = first_table_schema(schema, time_millis=0)
    store = FileStore(
        file_io=LocalFileIO(),
        table_path="/w/db.db/t",
        schema=table_schema.with_dynamic_options({**_SMALL, **options}),
    )
    return split_generator.SplitGenerator(store).splits(7, entries)


def _names(splits: list[DataSplit]) -> list[list[str]]:
    return [[file.file_name for file in split.data_files] for split in splits]


def _plain(name: str, size: int, **more: Any) -> ManifestEntry:
    return entry(file=kit.plain_file(name, file_size=size, **more))


def _keyed_entry(low: int, high: int, **more: Any) -> ManifestEntry:
    name = f"{low}-{high}"
    return entry(file=kit.keyed_file(low, high, **{"file_name": name, "file_size": 40, **more}))


@given(st.lists(st.integers(0, 60)), st.integers(1, 100))
def test_packing_is_complete_and_dense(weights, target):
    packs = list(split_generator.pack(weights, lambda weight: weight, target))
    assert [weight for one in packs for weight in one] == weights
    assert all(len(one) == 1 or sum(one) <= target for one in packs)
    for one, following in pairwise(packs):
        assert sum(one) + following[0] > target


def test_append_files_are_packed_in_manifest_order_and_never_merged():
    splits = _splits(
        kit.APPEND, [_plain(n, s) for n, s in zip("dcba", (60, 30, 20, 200), strict=True)]
    )
    assert _names(splits) == [["d", "c"], ["b"], ["a"]]
    assert all(split.raw_convertible for split in splits)


def test_small_file_counts_its_cost_of_opening():
    entries = [_plain(str(number), 1) for number in range(25)]
    assert [len(group) for group in _names(_splits(kit.APPEND, entries))] == [10, 10, 5]


def test_files_of_bucketed_append_table_come_in_sequence_order():
    schema = Schema.of({"a": "INT"}, options={"bucket": "1", "bucket-key": "a"})
    entries = [
        _plain("second", 40, min_sequence_number=10),
        _plain("first", 40, min_sequence_number=0),
    ]
    assert _names(_splits(schema, entries)) == [["first", "second"]]


def test_split_has_one_bucket_and_its_directory():
    schema = Schema.of({"p": "STRING", "a": "INT"}, partition_keys=["p"])
    partition = serialize_row(["x/y"], [string()])
    (split,) = _splits(schema, [entry(partition=partition, bucket=3, total_buckets=4)])
    assert split.bucket_path == "/w/db.db/t/p=x%2Fy/bucket-3"
    assert (split.snapshot_id, split.partition, split.bucket) == (7, partition, 3)
    assert split.total_buckets == 4
    directory = {"data-file.path-directory": "data"}
    (split,) = _splits(schema, [entry(partition=partition)], **directory)
    assert split.bucket_path == "/w/db.db/t/data/p=x%2Fy/bucket-0"


def test_buckets_come_in_order_of_their_first_file():
    entries = [
        entry(bucket=bucket, file=kit.plain_file(name))
        for bucket, name in ((1, "a"), (0, "b"), (1, "c"))
    ]
    big = {"source.split.target-size": "1 gb"}
    assert _names(_splits(kit.APPEND, entries, **big)) == [["a", "c"], ["b"]]


def test_overlapping_files_are_merged_together():
    (split,) = _splits(kit.KEYED, [_keyed_entry(0, 9), _keyed_entry(5, 14)])
    assert not split.raw_convertible
    assert len(split.data_files) == 2


def test_whole_sections_are_packed():
    splits = _splits(
        kit.KEYED,
        [_keyed_entry(0, 9), _keyed_entry(5, 14), _keyed_entry(20, 29), _keyed_entry(30, 39)],
    )
    assert _names(splits) == [["0-9", "5-14"], ["20-29", "30-39"]]
    # Two sections in one split: merged, although they share no key.
    assert [split.raw_convertible for split in splits] == [False, False]


def test_sections_are_never_cut():
    entries = [_keyed_entry(0, 9), _keyed_entry(5, 14), _keyed_entry(10, 20), _keyed_entry(20, 29)]
    assert len(_splits(kit.KEYED, entries)) == 1


@pytest.mark.parametrize(("deletes", "raw"), [(0, True), (None, True), (3, False)])
def test_single_file_without_deletes_needs_no_merge(deletes, raw):
    (split,) = _splits(kit.KEYED, [_keyed_entry(0, 9, delete_row_count=deletes)])
    assert split.raw_convertible is raw


def test_files_of_one_level_above_0_are_packed_without_merging():
    entries = [
        _keyed_entry(0, 9, level=5),
        _keyed_entry(10, 19, level=5),
        _keyed_entry(20, 29, level=5),
    ]
    splits = _splits(kit.KEYED, entries)
    assert _names(splits) == [["0-9", "10-19"], ["20-29"]]
    assert all(split.raw_convertible for split in splits)


@pytest.mark.parametrize("change", [{"level": 4}, {"level": 5, "delete_row_count": 1}])
def test_second_level_or_delete_needs_merge(change):
    (split,) = _splits(kit.KEYED, [_keyed_entry(0, 9, level=5), _keyed_entry(5, 15, **change)])
    assert not split.raw_convertible


def test_keys_compare_as_values():
    # In little-endian bytes 256 sorts before 2.
    entries = [_keyed_entry(255, 257, file_size=90), _keyed_entry(-5, 2, file_size=90)]
    assert _names(_splits(kit.KEYED, entries)) == [["-5-2"], ["255-257"]]


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 9)), min_size=1, max_size=30))
def test_files_that_share_key_are_always_in_one_split(ranges):
    entries = [
        _keyed_entry(low, low + length, file_name=str(number))
        for number, (low, length) in enumerate(ranges)
    ]
    where: dict[str, int] = {}
    for number, split in enumerate(_splits(kit.KEYED, entries)):
        for file in split.data_files:
            assert where.setdefault(file.file_name, number) == number
    assert len(where) == len(entries)
    for left, (low, length) in enumerate(ranges):
        for right, (other, other_length) in enumerate(ranges):
            if low <= other + other_length and other <= low + length:
                assert where[str(left)] == where[str(right)]


def test_external_file_keeps_its_path():
    file: DataFileMeta = kit.plain_file("f", external_path="s3://b/f")
    (split,) = _splits(kit.APPEND, [entry(file=file)])
    assert split.path_of(file) == "s3://b/f"


def test_files_that_hold_columns_of_same_rows_are_in_one_split():
    entries = [
        _plain("a", 90, first_row_id=0),
        _plain("b", 90, first_row_id=10),
        _plain("a2", 90, first_row_id=0),
        _plain("c", 1),
    ]
    splits = _splits(kit.APPEND, entries)
    assert _names(splits) == [["a", "a2"], ["b", "c"]]
    assert [split.raw_convertible for split in splits] == [False, True]


VECTORS = {"deletion-vectors.enabled": "true"}
BOTH = {**VECTORS, "deletion-vectors.merge-on-read": "true"}
FIRST_ROW = {"merge-engine": "first-row"}


def schema_of(declared: Schema, **options: str):
    return first_table_schema(declared, time_millis=0).with_dynamic_options(options)


@pytest.mark.parametrize(
    ("declared", "options", "expected"),
    [
        (kit.KEYED, {}, False),
        (kit.KEYED, VECTORS, True),
        (kit.KEYED, BOTH, False),
        (kit.KEYED, FIRST_ROW, True),
        (kit.KEYED, {**FIRST_ROW, "deletion-vectors.merge-on-read": "true"}, True),
        (kit.APPEND, VECTORS, False),
    ],
)
def test_level_0_is_hidden_until_compaction(declared, options, expected):
    assert split_generator.skips_level_0(schema_of(declared, **options)) is expected


@pytest.mark.parametrize(
    ("options", "files", "expected"),
    [
        ({}, [{"level": 5}, {"level": 5}], True),
        ({}, [{"level": 5}, {"level": 4}], False),
        (VECTORS, [{"level": 5}, {"level": 4}], True),
        (FIRST_ROW, [{"level": 5}, {"level": 4}], True),
        (VECTORS, [{"level": 5}, {"level": 4, "delete_row_count": 1}], False),
        (VECTORS, [{"level": 5}, {"level": 4, "delete_row_count": None}], True),
        (BOTH, [{"level": 5}, {"level": 0}], False),
        ({}, [{"level": 0}], False),
    ],
)
def test_higher_levels_need_no_merge_if_keys_are_unique(options, files, expected):
    metas = [kit.keyed_file(0, 9, **changes) for changes in files]
    assert split_generator.needs_no_merge(schema_of(kit.KEYED, **options), metas) is expected


def read_names(store, **options: str):
    seen = store.with_schema(store.schema.with_dynamic_options(options))
    splits = scan_table(seen, kit.newest(store), None).splits
    return sorted(file.file_name for split in splits for file in split.data_files)


def test_batch_read_sees_compacted_levels(keyed):
    files = [
        kit.keyed_file(0, 9, file_name="top", level=5),
        kit.keyed_file(0, 9, file_name="middle", level=3),
        kit.keyed_file(0, 9, file_name="fresh"),
    ]
    kit.commit(keyed, kit.message(*files, total_buckets=2))
    assert read_names(keyed) == ["fresh", "middle", "top"]
    assert read_names(keyed, **VECTORS) == ["middle", "top"]
    assert read_names(keyed, **BOTH) == ["fresh", "middle", "top"]
    assert kit.live_names(keyed) == ["top", "middle", "fresh"]


def test_splits_of_settled_levels_are_read_without_merging(keyed):
    files = [kit.keyed_file(0, 9, level=5), kit.keyed_file(0, 9, level=3), kit.keyed_file(0, 9)]
    kit.commit(keyed, kit.message(*files, total_buckets=2))
    seen = keyed.with_schema(keyed.schema.with_dynamic_options(VECTORS))
    (split,) = scan_table(seen, kit.newest(keyed), None).splits
    assert split.raw_convertible
    (merged,) = scan_table(keyed, kit.newest(keyed), None).splits
    assert not merged.raw_convertible


def test_uncompacted_table_shows_no_rows(keyed):
    kit.commit(keyed, kit.message(kit.keyed_file(0, 9), total_buckets=2))
    seen = keyed.with_schema(keyed.schema.with_dynamic_options(VECTORS))
    assert scan_table(seen, kit.newest(keyed), None).splits == ()
    assert FileStoreScan(seen).partitions(kit.newest(keyed))


def commit_files(keyed, *files, **more):
    return kit.commit(keyed, kit.message(*files, total_buckets=2, **more))


def names(files):
    return sorted(file.file_name for file in files)


def test_diff_skips_equal_sections(keyed):
    low, high = (kit.keyed_file(0, 9, file_name="low"), kit.keyed_file(10, 19, file_name="high"))
    before = commit_files(keyed, low, high)
    after = commit_files(keyed, kit.keyed_file(12, 13, file_name="new"))
    (split,) = diff_splits(keyed, before, after, None, keeps_kinds=True)
    assert names(split.before_files) == ["high"]
    assert names(split.data_files) == ["high", "new"]
    assert split.is_difference
    assert not split.raw_convertible
    assert diff_splits(keyed, before, before, None, keeps_kinds=True) == []


def test_new_or_missing_bucket_is_reported(keyed):
    before = commit_files(keyed, kit.keyed_file(0, 9, file_name="old"))
    after = commit_files(keyed, kit.keyed_file(0, 9, file_name="other"), bucket=1)
    (split,) = diff_splits(keyed, before, after, None, keeps_kinds=True)
    assert (split.bucket, names(split.before_files), names(split.data_files)) == (1, [], ["other"])
    (first,) = diff_splits(keyed, None, before, None, keeps_kinds=True)
    assert (first.before_files, first.is_difference) == ((), True)
    (gone,) = diff_splits(keyed, after, before, None, keeps_kinds=True)
    assert (names(gone.before_files), gone.data_files) == (["other"], ())


def test_another_deletion_vector_makes_another_file(keyed):
    before = commit_files(keyed, kit.keyed_file(0, 9, file_name="file"))
    commit_files(keyed, kit.keyed_file(20, 29, file_name="far"))
    vector = DeletionVectorMeta(data_file_name="file", offset=1, length=22, cardinality=3)
    after = kit.with_index(keyed, kit.vectors_of(vector))
    splits = diff_splits(keyed, before, after, None, keeps_kinds=True)
    old = [name for split in splits for name in names(split.before_files)]
    new = [name for split in splits for name in names(split.data_files)]
    assert (old, sorted(new)) == (["file"], ["far", "file"])
    vectors = [found for split in splits for found in split.deletion_files or ()]
    assert [found.cardinality for found in vectors if found is not None] == [3]


def test_rescaled_buckets_cannot_be_compared(keyed):
    before = commit_files(keyed, kit.keyed_file(0, 9))
    kit.commit(
        keyed,
        kit.message(deleted=[entry.file for entry in _live(keyed)], total_buckets=2),
        kind=CommitKind.OVERWRITE,
    )
    kit.commit(keyed, kit.message(kit.keyed_file(0, 9), total_buckets=4))
    with pytest.raises(InvalidInputError, match="has 4 buckets now and had 2"):
        diff_splits(keyed, before, kit.newest(keyed), None, keeps_kinds=True)


def _live(keyed):
    return FileStoreScan(keyed).live_files(kit.newest(keyed))


@pytest.fixture
def timed_store(tmp_path):
    timed = kit.new_store(tmp_path)
    for second in (10, 20, 30):
        FileStoreCommit(timed, clock=kit.FixedClock(now=second * 1000)).commit(
            [kit.message(kit.plain_file())], commit_user=f"u{second}", commit_identifier=1
        )
    return timed


def test_travels_by_id_and_by_time(timed_store):
    assert travel_to(timed_store, snapshot_id=2).id == 2
    assert travel_to(timed_store, timestamp_ms=20_000).id == 2
    assert travel_to(timed_store, timestamp_ms=29_999).id == 2
    assert travel_to(timed_store, timestamp_ms=99_999).id == 3


def test_time_before_first_snapshot_names_its_time(timed_store):
    with pytest.raises(
        NotFoundError, match="oldest snapshot, 1, was committed at 1970-01-01 00:00:10"
    ):
        travel_to(timed_store, timestamp_ms=9_999)


def test_tag_outlives_its_snapshot(timed_store):
    tagged = timed_store.snapshots.snapshot(1)
    text = snapshot_to_json(tagged)[:-1] + b',"tagCreateTime":[2024,1,1,0,0,0,0]}'
    LocalFileIO().write_bytes(timed_store.paths.tag("v1"), text)
    LocalFileIO().delete_file(timed_store.paths.snapshot(1))
    assert travel_to(timed_store, tag="v1").delta_manifest_list == tagged.delta_manifest_list
    with pytest.raises(NotFoundError, match="no tag 'v2'"):
        travel_to(timed_store, tag="v2")
    with pytest.raises(InvalidInputError, match="tag"):
        travel_to(timed_store, tag="../x")


def test_exactly_one_way_is_chosen(timed_store):
    for ways in ({}, {"snapshot_id": 1, "tag": "v1"}, {"snapshot_id": 1, "timestamp_ms": 0}):
        with pytest.raises(InvalidInputError, match="exactly one"):
            travel_to(timed_store, **ways)


def test_time_travel_uses_old_schema_and_current_options(timed_store):
    newer = Schema.of({"a": "BIGINT", "b": "STRING", "c": "INT"})
    data = schema_to_json(first_table_schema(newer, time_millis=2))
    LocalFileIO().write_bytes(timed_store.paths.schema(1), data.replace(b'"id":0', b'"id":1', 1))
    opened = FileStore.open(LocalFileIO(), timed_store.table_path, options={"read.batch-size": "7"})
    assert opened.schema.field_names == ("a", "b", "c")
    past = schema_at(opened, travel_to(opened, snapshot_id=1))
    assert past.field_names == ("a", "b")
    assert past.options["read.batch-size"] == "7"


FALLBACK = {"scan.fallback-branch": "test"}
PARTITIONED = Schema.of({"p": "STRING", "x": "INT"}, partition_keys=["p"])
KEYED_PARTS = Schema.of(
    {"p": "STRING", "x": "INT"},
    partition_keys=["p"],
    primary_keys=["p", "x"],
    options={"bucket": "1"},
)


def partition(text):
    return serialize_row([text], [string()])


def store_and_branch(tmp_path, schema=PARTITIONED):
    """Return an empty table, and another that `publish` makes its branch `test`."""
    return kit.new_store(tmp_path / "main", schema), kit.new_store(tmp_path / "branch", schema)


def publish(main, branch):
    """Copy schemas and snapshots of the branch into its directory, its manifests beside main's."""
    root, source = Path(main.table_path), Path(branch.table_path)
    own = root / "branch" / "branch-test"
    for name, target in (("schema", own), ("snapshot", own), ("manifest", root)):
        if (source / name).exists():
            shutil.copytree(source / name, target / name, dirs_exist_ok=True)
    return FileStore.open(main.file_io, main.table_path, options={"branch": "test"})


def reopen(store):
    return FileStore.open(store.file_io, store.table_path)


def add(store, name, text, **changes):
    return kit.commit(
        store, kit.message(kit.plain_file(name, **changes), partition=partition(text))
    )


def alter(store, columns):
    """Publish a further schema of a branch, with these columns of (id, name, type)."""
    fields = tuple(
        replace(store.schema.fields[0], id=number, name=name, type=data_type)
        for number, name, data_type in columns
    )
    altered = replace(store.schema, id=store.schema.id + 1, fields=fields, options={})
    LocalFileIO().write_bytes(store.paths.schema(altered.id), schema_to_json(altered))


def scan_with_branch(main, branch, predicate=None, **more):
    publish(main, branch)
    seen = main.with_schema(main.schema.with_dynamic_options(FALLBACK))
    bound = None if predicate is None else bind(predicate, seen.schema)
    return scan_table(seen, seen.snapshots.latest(), bound, **more)


def needed_names(scan):
    return sorted(file.file_name for split in scan.splits for file in split.data_files)


def test_branch_has_own_snapshots_and_shared_data(tmp_path):
    main, branch = store_and_branch(tmp_path)
    add(branch, "branch-1", "b")
    opened = publish(main, branch)
    assert opened.snapshots.list_ids() == [1]
    assert main.snapshots.list_ids() == []
    (split,) = scan_table(opened, opened.snapshots.latest(), None).splits
    assert split.bucket_path == f"{main.table_path}/p=b/bucket-0"


def test_partitions_that_main_lacks_come_from_fallback_branch(tmp_path):
    main, branch = store_and_branch(tmp_path)
    add(main, "main-a", "a")
    for text in ("a", "b"):
        add(branch, f"branch-{text}", text)
    assert needed_names(scan_with_branch(main, branch)) == ["branch-b", "main-a"]
    assert needed_names(scan_table(main, main.snapshots.latest(), None)) == ["main-a"]


def test_filtered_main_partition_is_not_read_from_fallback(tmp_path):
    main, branch = store_and_branch(tmp_path)
    add(main, "main-a", "a")
    add(branch, "branch-a", "a")
    assert needed_names(scan_with_branch(main, branch, equal("p", "a"))) == ["main-a"]
    assert needed_names(scan_with_branch(main, branch, equal("p", "b"))) == []


def test_branch_is_read_while_main_has_no_snapshot(tmp_path):
    main, branch = store_and_branch(tmp_path)
    add(branch, "branch-a", "a")
    assert needed_names(scan_with_branch(main, branch)) == ["branch-a"]


def test_branch_without_snapshots_adds_nothing(tmp_path):
    main, branch = store_and_branch(tmp_path)
    add(main, "main-a", "a")
    assert needed_names(scan_with_branch(main, branch)) == ["main-a"]


def test_schemas_of_both_branches_are_distinguished(tmp_path):
    main, branch = store_and_branch(tmp_path)
    alter(branch, [(0, "p", string()), (1, "x", bigint())])
    add(main, "main-a", "a")
    add(reopen(branch), "branch-b", "b", schema_id=1)
    add(reopen(branch), "branch-c", "c", schema_id=0)
    scan = scan_with_branch(main, branch)
    schemas = {schema.id: schema for schema in scan.file_schemas}
    assert len(schemas) == len(scan.file_schemas)
    found = {
        file.file_name: str(schemas[file.schema_id].by_name["x"].type)
        for split in scan.splits
        for file in split.data_files
    }
    assert found == {"main-a": "INT", "branch-b": "BIGINT", "branch-c": "INT"}


def test_time_travel_reads_branch_as_it_was(tmp_path):
    main, branch = store_and_branch(tmp_path)
    made = add(branch, "branch-b", "b")
    assert needed_names(scan_with_branch(main, branch, instant_ms=made.time_millis)) == ["branch-b"]
    assert needed_names(scan_with_branch(main, branch, instant_ms=made.time_millis - 1)) == []


@pytest.mark.parametrize(
    ("columns", "difference"),
    [
        ([(0, "p", string()), (1, "y", bigint())], "another column 'x'"),
        ([(0, "p", string()), (2, "x", bigint())], "another column 'x'"),
        ([(0, "p", bigint()), (1, "x", bigint())], "the type BIGINT for column 'p'"),
    ],
)
def test_branch_with_other_columns_is_refused(tmp_path, columns, difference):
    main, branch = store_and_branch(tmp_path)
    alter(branch, columns)
    add(reopen(branch), "branch-b", "b")
    with refused(UnsupportedFeatureError, difference, kind="unsupported-branch"):
        scan_with_branch(main, branch)


@pytest.mark.parametrize(
    ("declared", "changes", "difference"),
    [
        (KEYED_PARTS, {"primary_keys": ()}, r"the primary key \(\)"),
        (PARTITIONED, {"partition_keys": ()}, "the partition keys"),
    ],
)
def test_branch_with_different_read_options_is_refused(tmp_path, declared, changes, difference):
    main, branch = store_and_branch(tmp_path, declared)
    add(branch, "branch-b", "b", level=5)
    other = replace(branch.schema, id=1, **{"options": {"bucket": "1"}, **changes})
    LocalFileIO().write_bytes(branch.paths.schema(1), schema_to_json(other))
    with pytest.raises(UnsupportedFeatureError, match=difference):
        scan_with_branch(main, branch)


def test_branch_that_does_not_exist_is_named(tmp_path):
    store = kit.new_store(tmp_path, PARTITIONED)
    seen = store.with_schema(store.schema.with_dynamic_options(FALLBACK))
    with refused(NotFoundError, "has no branch 'test'", kind="branch-not-found"):
        scan_table(seen, None, None)
