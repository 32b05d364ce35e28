"""Bucket modes: concurrent writers, and rows that wait for a compaction."""

import pyarrow as pa
import pytest

from paimon_assets import EmbeddedExecutor, Schema
from paimon_assets.engine import errors
from tests.testkit.errors import refused
from tests.testkit.tables import EXECUTOR, arrow, new_table, read, write

ORDERS = {"id": "BIGINT", "day": "STRING", "amount": "INT"}


def key_schema(**options):
    return Schema.of(ORDERS, primary_keys=["id"], options=options)


def test_two_first_writers_of_dynamic_bucket_conflict(catalog):
    table = new_table(catalog, key_schema(bucket="-1"))
    first, second = table.new_write_builder(), table.new_write_builder()
    rows = [arrow(ORDERS, (n, "a", n)) for n in (1, 2)]
    results = [
        EXECUTOR.map_rows(builder.prepare(), part)
        for builder, part in zip((first, second), rows, strict=True)
    ]
    first.commit(results[0].messages)
    with refused(errors.CommitConflictError, kind="index-changed"):
        second.commit(results[1].messages)
    assert read(table) == [(1, "a", 1)]


def test_writer_that_planned_before_new_keys_conflicts(catalog):
    table = new_table(catalog, key_schema(bucket="-1"), (0, "a", 0))
    late = table.new_write_builder()
    rows = arrow(ORDERS, (2, "a", 2))
    result = EXECUTOR.map_rows(late.prepare(), rows)
    write(table, (1, "a", 1))
    with refused(errors.CommitConflictError, kind="index-gone"):
        late.commit(result.messages)


def _write_late(table, row, meanwhile):
    """Write a row that is planned before and committed after `meanwhile` is called."""
    builder = table.new_write_builder()
    result = EXECUTOR.map_rows(builder.prepare(), arrow(ORDERS, row))
    meanwhile()
    return builder.commit(result.messages)


def test_writers_of_different_buckets_for_key_conflict(catalog):
    table = new_table(catalog, key_schema(bucket="-1"), (0, "a", 0))
    # Bucket 0 is full for this one, so it touches no index that the other replaces.
    filled = catalog.get_table("db.t", options={"dynamic-bucket.target-row-num": "1"})
    with refused(errors.CommitConflictError, "snapshot 2", kind="keys-changed"):
        _write_late(filled, (1, "b", 1), lambda: write(table, (1, "a", 0)))
    assert read(table) == [(0, "a", 0), (1, "a", 0)]


def test_known_keys_allow_concurrent_dynamic_bucket_writes(catalog):
    table = new_table(catalog, key_schema(bucket="-1"), (1, "a", 1), (2, "a", 2))
    _write_late(table, (1, "a", 3), lambda: write(table, (2, "a", 4), (3, "a", 5)))
    assert read(table) == [(1, "a", 3), (2, "a", 4), (3, "a", 5)]


def test_new_keys_of_another_partition_are_no_conflict(catalog):
    keys = {"primary_keys": ["day", "id"], "partition_keys": ["day"]}
    table = new_table(catalog, ORDERS, (0, "a", 0), **keys, options={"bucket": "-1"})
    _write_late(table, (1, "a", 1), lambda: write(table, (1, "b", 2)))
    assert read(table) == [(0, "a", 0), (1, "a", 1), (1, "b", 2)]


def _crossing(catalog):
    return new_table(
        catalog, ORDERS, primary_keys=["id"], partition_keys=["day"], options={"bucket": "-1"}
    )


def test_two_writers_of_keys_that_change_partition_conflict(catalog):
    table = _crossing(catalog)
    with refused(errors.CommitConflictError, kind="keys-changed"):
        _write_late(table, (1, "a", 1), lambda: write(table, (1, "b", 2)))
    with pytest.raises(errors.CommitConflictError) as raised:
        _write_late(table, (2, "a", 1), lambda: write(table, (2, "b", 2)))
    assert raised.value.details["snapshot_id"] == 2
    before = table.latest_snapshot().id
    _write_late(table, (1, "a", 1), table.new_compaction_builder().with_strategy("full").run)
    assert table.latest_snapshot().id == before + 2  # the compaction is no conflict
    assert read(table) == [(1, "a", 1), (2, "b", 2)]


class _Overtaken(EmbeddedExecutor):
    """Commits one of `rows` before each task result."""

    def __init__(self, table, rows):
        super().__init__(threads=1)
        self.table, self.rows = table, list(rows)

    def map_rows(self, context, rows):
        result = super().map_rows(context, rows)
        if self.rows:
            write(self.table, self.rows.pop())
        return result


def test_rows_are_written_again_after_concurrent_key_assignment(catalog):
    table = _crossing(catalog)
    rows = arrow(ORDERS, (1, "a", 1))
    faster = _Overtaken(table, [(1, "b", number) for number in range(2)])
    assert table.new_write_builder().write(rows, faster).snapshot.id == 3
    assert read(table) == [(1, "a", 1)]
    stream = pa.RecordBatchReader.from_batches(rows.schema, rows.to_batches())
    with refused(errors.CommitConflictError, kind="keys-changed"):
        table.new_write_builder().write(stream, _Overtaken(table, [(1, "c", 9)]))
    many = [(1, "d", number) for number in range(9)]
    hasty = table.copy({"commit.max-retries": "4"})
    with pytest.raises(errors.CommitConflictError, match="Plan again"):
        hasty.new_write_builder().write(rows, _Overtaken(table, many))
    assert read(table) == [(1, "d", 4)]
    table.new_write_builder().write(rows, _Overtaken(table, many))
    assert read(table) == [(1, "a", 1)]


def test_postponed_buckets_are_assigned_on_write_by_default(catalog):
    table = new_table(catalog, key_schema(bucket="-2"), (1, "a", 1), (2, "a", 2))
    assert read(table) == [(1, "a", 1), (2, "a", 2)]
    assert {entry.total_buckets for entry in table.state.live_files()} == {1}


@pytest.mark.parametrize(
    "options", [{"deletion-vectors.enabled": "true"}, {"merge-engine": "first-row"}]
)
def test_level_0_is_visible_after_compaction(catalog, options):
    table = new_table(catalog, key_schema(bucket="1", **options), (1, "a", 1), name="db.b")
    assert [entry.file.level for entry in table.state.live_files()] == [0]
    assert read(table) == []
    with pytest.raises(errors.InvalidInputError, match="compact it first"):
        table.rescale(EXECUTOR, buckets=3)
    table.compact()
    assert read(table) == [(1, "a", 1)]
    assert table.rescale(EXECUTOR, buckets=3) is not None


def test_deletion_vectors_merged_on_read_show_all_rows(catalog):
    options = {"deletion-vectors.enabled": "true", "deletion-vectors.merge-on-read": "true"}
    table = new_table(catalog, key_schema(bucket="1", **options), (1, "a", 1))
    write(table, (1, "a", 2))
    assert read(table) == [(1, "a", 2)]


def test_input_is_kept_as_changelog(catalog):
    table = new_table(catalog, key_schema(**{"bucket": "1", "changelog-producer": "input"}))
    snapshot = write(table, (1, "a", 1), (1, "a", 2))
    assert snapshot.changelog_manifest_list is not None
    assert snapshot.changelog_record_count == 2
    assert read(table) == [(1, "a", 2)]
    assert table.rescale(EXECUTOR, buckets=2).changelog_manifest_list is None


@pytest.mark.way_out("bucket-count")
def test_rescaling_reports_concurrent_writes(catalog):
    table = new_table(catalog, key_schema(bucket="2"), *((n, "a", n) for n in range(20)))

    class Late(EmbeddedExecutor):
        def rewrite(self, *how):
            write(table, (100, "late", 1))
            return super().rewrite(*how)

    with refused(errors.CommitConflictError, kind="bucket-count"):
        table.rescale(Late(), buckets=3)
    assert len(read(table)) == 21
    assert table.rescale(EXECUTOR, buckets=3, commit_user="me").id == 3
    assert table.rescale(EXECUTOR, buckets=3, commit_user="me").id == 3
    assert table.rescale(EXECUTOR, buckets=3) is None
    assert len(read(table)) == 21


@pytest.mark.parametrize("bucket", ["-1", "-2"])
def test_only_fixed_buckets_are_rescaled(catalog, bucket):
    table = new_table(catalog, key_schema(bucket=bucket))
    with refused(errors.InvalidInputError, kind="rescale"):
        table.rescale(EXECUTOR, buckets=2)


def test_cross_partition_tables_refuse_partial_overwrite(catalog):
    table = new_table(
        catalog, ORDERS, partition_keys=["day"], primary_keys=["id"], options={"bucket": "-1"}
    )
    write(table, (1, "a", 1))
    builder = table.new_write_builder()
    rows = arrow(ORDERS, (1, "b", 2))
    with refused(errors.UnsupportedFeatureError, kind="overwrite-cross-partition"):
        builder.with_overwrite({"day": "b"}).write(rows)
    builder.with_overwrite({}).write(rows)
    assert read(table) == [(1, "b", 2)]
    write(table, (1, "a", 3))
    assert read(table) == [(1, "a", 3)]


def test_overwrite_restarts_indexes_of_dynamic_buckets(catalog):
    table = new_table(
        catalog,
        key_schema(**{"bucket": "-1", "dynamic-bucket.target-row-num": "2"}),
        *((n, "a", n) for n in range(6)),
    )
    table.new_write_builder().with_overwrite({}).write(arrow(ORDERS, (5, "b", 5)))
    write(table, (5, "b", 6), (0, "b", 0))
    assert {entry.bucket for entry in table.state.live_files()} == {0}
    assert read(table) == [(0, "b", 0), (5, "b", 6)]


@pytest.mark.parametrize("engine", ["partial-update", "first-row"])
def test_key_stays_in_its_first_partition(catalog, engine):
    options = {"bucket": "-1", "merge-engine": engine, "write-only": "true"}
    table = new_table(catalog, ORDERS, partition_keys=["day"], primary_keys=["id"], options=options)
    write(table, (1, "a", 1), (2, "a", 2))
    write(table, (1, "b", 3), (2, "a", 4))
    if engine == "partial-update":
        assert read(table) == [(1, "a", 3), (2, "a", 4)]
    else:
        assert [entry.file.row_count for entry in table.state.live_files()] == [2, 1]


@pytest.mark.parametrize(
    ("options", "buckets"),
    [({}, 3), ({"dynamic-bucket.max-buckets": "2", "dynamic-bucket.initial-buckets": "5"}, 2)],
)
def test_dynamic_buckets_fill_in_order(catalog, options, buckets):
    dynamic = {"bucket": "-1", "dynamic-bucket.target-row-num": "10", **options}
    table = new_table(catalog, key_schema(**dynamic))
    for step in range(3):
        write(table, *((n, "a", step) for n in range(5 + 10 * step)))
    assert len({entry.bucket for entry in table.state.live_files()}) == buckets
    assert read(table) == [(n, "a", 2) for n in range(25)]
