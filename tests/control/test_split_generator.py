from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_assets.engine.codec.rows.binary_row import serialize_row
from paimon_assets.engine.contract.split import DataSplit
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.scan.split_generator import SplitGenerator, pack
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.engine.spec.metadata.data_file import DataFileMeta
from paimon_assets.engine.spec.metadata.manifest import ManifestEntry
from paimon_assets.engine.spec.schema.schema import Schema, first_table_schema
from paimon_assets.engine.spec.types.data_types import string
from tests.testkit.builders import entry
from tests.testkit.metadata_tables import APPEND, KEYED, keyed_file, plain_file

_SMALL = {"source.split.target-size": "100 b", "source.split.open-file-cost": "10 b"}


def _splits(schema: Schema, entries: list[ManifestEntry], **options: str) -> list[DataSplit]:
    table_schema = first_table_schema(schema, time_millis=0)
    store = FileStore(
        file_io=LocalFileIO(),
        table_path="/w/db.db/t",
        schema=table_schema.with_dynamic_options({**_SMALL, **options}),
    )
    return SplitGenerator(store).splits(7, entries)


def _names(splits: list[DataSplit]) -> list[list[str]]:
    return [[file.file_name for file in split.data_files] for split in splits]


def _plain(name: str, size: int, **more: Any) -> ManifestEntry:
    return entry(file=plain_file(name, file_size=size, **more))


def _keyed(low: int, high: int, **more: Any) -> ManifestEntry:
    name = f"{low}-{high}"
    return entry(file=keyed_file(low, high, **{"file_name": name, "file_size": 40, **more}))


@given(st.lists(st.integers(0, 60)), st.integers(1, 100))
def test_packing_loses_nothing_and_closes_no_pack_early(weights, target):
    packs = list(pack(weights, lambda weight: weight, target))
    assert [weight for one in packs for weight in one] == weights
    assert all(len(one) == 1 or sum(one) <= target for one in packs)
    for one, following in pairwise(packs):
        assert sum(one) + following[0] > target


def test_append_files_are_packed_in_manifest_order_and_never_merged():
    splits = _splits(APPEND, [_plain(n, s) for n, s in zip("dcba", (60, 30, 20, 200), strict=True)])
    assert _names(splits) == [["d", "c"], ["b"], ["a"]]
    assert all(split.raw_convertible for split in splits)


def test_a_small_file_counts_what_opening_it_costs():
    entries = [_plain(str(number), 1) for number in range(25)]
    assert [len(group) for group in _names(_splits(APPEND, entries))] == [10, 10, 5]


def test_files_of_a_bucketed_append_table_come_in_sequence_order():
    schema = Schema.of({"a": "INT"}, options={"bucket": "1", "bucket-key": "a"})
    entries = [
        _plain("second", 40, min_sequence_number=10),
        _plain("first", 40, min_sequence_number=0),
    ]
    assert _names(_splits(schema, entries)) == [["first", "second"]]


def test_a_split_is_of_one_bucket_and_knows_its_directory():
    schema = Schema.of({"p": "STRING", "a": "INT"}, partition_keys=["p"])
    partition = serialize_row(["x/y"], [string()])
    (split,) = _splits(schema, [entry(partition=partition, bucket=3, total_buckets=4)])
    assert split.bucket_path == "/w/db.db/t/p=x%2Fy/bucket-3"
    assert (split.snapshot_id, split.partition, split.bucket) == (7, partition, 3)
    assert split.total_buckets == 4
    directory = {"data-file.path-directory": "data"}
    (split,) = _splits(schema, [entry(partition=partition)], **directory)
    assert split.bucket_path == "/w/db.db/t/data/p=x%2Fy/bucket-0"


def test_buckets_come_in_the_order_of_their_first_file():
    entries = [
        entry(bucket=bucket, file=plain_file(name))
        for bucket, name in ((1, "a"), (0, "b"), (1, "c"))
    ]
    big = {"source.split.target-size": "1 gb"}
    assert _names(_splits(APPEND, entries, **big)) == [["a", "c"], ["b"]]


def test_overlapping_files_are_merged_together():
    (split,) = _splits(KEYED, [_keyed(0, 9), _keyed(5, 14)])
    assert not split.raw_convertible
    assert len(split.data_files) == 2


def test_whole_sections_are_packed():
    entries = [_keyed(0, 9), _keyed(5, 14), _keyed(20, 29), _keyed(30, 39)]
    splits = _splits(KEYED, entries)
    assert _names(splits) == [["0-9", "5-14"], ["20-29", "30-39"]]
    # Two sections in one split: merged, although they share no key.
    assert [split.raw_convertible for split in splits] == [False, False]


def test_a_section_is_never_cut_however_large():
    entries = [_keyed(0, 9), _keyed(5, 14), _keyed(10, 20), _keyed(20, 29)]
    assert len(_splits(KEYED, entries)) == 1


@pytest.mark.parametrize(("deletes", "raw"), [(0, True), (None, True), (3, False)])
def test_one_file_without_deletes_is_read_as_it_is_even_on_level_0(deletes, raw):
    (split,) = _splits(KEYED, [_keyed(0, 9, delete_row_count=deletes)])
    assert split.raw_convertible is raw


def test_files_of_one_level_above_0_are_packed_without_merging():
    entries = [_keyed(0, 9, level=5), _keyed(10, 19, level=5), _keyed(20, 29, level=5)]
    splits = _splits(KEYED, entries)
    assert _names(splits) == [["0-9", "10-19"], ["20-29"]]
    assert all(split.raw_convertible for split in splits)


@pytest.mark.parametrize("change", [{"level": 4}, {"level": 5, "delete_row_count": 1}])
def test_another_level_or_a_delete_means_merging(change):
    entries = [_keyed(0, 9, level=5), _keyed(5, 15, **change)]
    (split,) = _splits(KEYED, entries)
    assert not split.raw_convertible


def test_keys_are_compared_as_values_not_as_bytes():
    # In little-endian bytes 256 sorts before 2.
    entries = [_keyed(255, 257, file_size=90), _keyed(-5, 2, file_size=90)]
    assert _names(_splits(KEYED, entries)) == [["-5-2"], ["255-257"]]


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 9)), min_size=1, max_size=30))
def test_files_that_share_a_key_are_always_in_one_split(ranges):
    entries = [
        _keyed(low, low + length, file_name=str(number))
        for number, (low, length) in enumerate(ranges)
    ]
    where: dict[str, int] = {}
    for number, split in enumerate(_splits(KEYED, entries)):
        for file in split.data_files:
            assert where.setdefault(file.file_name, number) == number
    assert len(where) == len(entries)
    for left, (low, length) in enumerate(ranges):
        for right, (other, other_length) in enumerate(ranges):
            if low <= other + other_length and other <= low + length:
                assert where[str(left)] == where[str(right)]


def test_a_file_elsewhere_keeps_its_own_path():
    file: DataFileMeta = plain_file("f", external_path="s3://b/f")
    (split,) = _splits(APPEND, [entry(file=file)])
    assert split.path_of(file) == "s3://b/f"


def test_files_that_hold_columns_of_the_same_rows_are_in_one_split():
    entries = [
        _plain("a", 90, first_row_id=0),
        _plain("b", 90, first_row_id=10),
        _plain("a2", 90, first_row_id=0),
        _plain("c", 1),
    ]
    splits = _splits(APPEND, entries)
    assert _names(splits) == [["a", "a2"], ["b", "c"]]
    assert [split.raw_convertible for split in splits] == [False, True]
