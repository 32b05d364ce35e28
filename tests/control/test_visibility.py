import pytest

from paimon_assets.engine.control.scan.file_store_scan import FileStoreScan
from paimon_assets.engine.control.scan.split_generator import needs_no_merge, skips_level_0
from paimon_assets.engine.control.scan.table_scan import scan_table
from paimon_assets.engine.spec.schema.schema import Schema, first_table_schema
from tests.testkit.metadata_tables import (
    APPEND,
    KEYED,
    commit,
    keyed_file,
    live_names,
    message,
    newest,
)

VECTORS = {"deletion-vectors.enabled": "true"}
BOTH = {**VECTORS, "deletion-vectors.merge-on-read": "true"}
FIRST_ROW = {"merge-engine": "first-row"}


def schema_of(declared: Schema, **options: str):
    return first_table_schema(declared, time_millis=0).with_dynamic_options(options)


@pytest.mark.parametrize(
    ("declared", "options", "expected"),
    [
        (KEYED, {}, False),
        (KEYED, VECTORS, True),
        (KEYED, BOTH, False),
        (KEYED, FIRST_ROW, True),
        (KEYED, {**FIRST_ROW, "deletion-vectors.merge-on-read": "true"}, True),
        (APPEND, VECTORS, False),
    ],
)
def test_level_0_waits_for_a_compaction_where_keys_are_settled_there(declared, options, expected):
    assert skips_level_0(schema_of(declared, **options)) is expected


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
def test_files_above_level_0_need_no_merge_where_no_key_is_live_twice(options, files, expected):
    metas = [keyed_file(0, 9, **changes) for changes in files]
    assert needs_no_merge(schema_of(KEYED, **options), metas) is expected


def read_names(store, **options: str):
    seen = store.with_schema(store.schema.with_dynamic_options(options))
    splits = scan_table(seen, newest(store), None).splits
    return sorted(file.file_name for split in splits for file in split.data_files)


def test_a_batch_read_sees_what_compactions_have_settled(keyed):
    files = [
        keyed_file(0, 9, file_name="top", level=5),
        keyed_file(0, 9, file_name="middle", level=3),
        keyed_file(0, 9, file_name="fresh"),
    ]
    commit(keyed, message(*files, total_buckets=2))
    assert read_names(keyed) == ["fresh", "middle", "top"]
    assert read_names(keyed, **VECTORS) == ["middle", "top"]
    assert read_names(keyed, **BOTH) == ["fresh", "middle", "top"]
    assert live_names(keyed) == ["top", "middle", "fresh"]


def test_splits_of_settled_levels_are_read_without_merging(keyed):
    files = [keyed_file(0, 9, level=5), keyed_file(0, 9, level=3), keyed_file(0, 9)]
    commit(keyed, message(*files, total_buckets=2))
    seen = keyed.with_schema(keyed.schema.with_dynamic_options(VECTORS))
    (split,) = scan_table(seen, newest(keyed), None).splits
    assert split.raw_convertible
    (merged,) = scan_table(keyed, newest(keyed), None).splits
    assert not merged.raw_convertible


def test_a_table_of_fresh_files_alone_shows_nothing_yet(keyed):
    commit(keyed, message(keyed_file(0, 9), total_buckets=2))
    seen = keyed.with_schema(keyed.schema.with_dynamic_options(VECTORS))
    assert scan_table(seen, newest(keyed), None).splits == ()
    assert FileStoreScan(seen).partitions(newest(keyed))
