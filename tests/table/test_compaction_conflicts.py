"""A compaction beside other commits skips the buckets they changed, and loses no row."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_assets import StorageError, Table, open_table
from paimon_assets.engine.fileio.local import LocalFileIO
from tests.testkit.compacting import compact, create, index_files_of, rows_of, some_rows
from tests.testkit.faulty_fileio import FaultyFileIO
from tests.testkit.row_changing import Meddling, data_files
from tests.testkit.tables import EXECUTOR

COLUMNS = {"id": "BIGINT", "p": "STRING", "n": "BIGINT"}


def partitioned_table(catalog, writes=3):
    table = create(catalog, "t", columns=COLUMNS, partition_keys=("p",))
    for number in range(writes):
        write_both(table, number)
    return table


def write_both(table, number):
    rows = {"id": [1, 2, number + 3] * 2, "p": ["a"] * 3 + ["b"] * 3, "n": [number] * 6}
    table.new_write_builder().write(pa.table(rows), EXECUTOR)


def live_names(table):
    return {entry.file.file_name for entry in table.state.live_files()}


def test_append_does_not_conflict_with_compaction(catalog):
    table = partitioned_table(catalog)
    executor = Meddling(lambda: write_both(table, 9))
    outcome = table.new_compaction_builder().with_strategy("full").run(executor)
    assert executor.task_counts == [2]
    assert outcome.left_out == 0
    rows = rows_of(table)
    assert [row["n"] for row in rows if row["id"] == 1] == [9, 9]
    assert len(live_names(table)) == 4
    compact(table, "full")
    assert rows_of(table) == rows


def test_concurrent_compaction_repeats_only_its_partition(catalog):
    table = partitioned_table(catalog)
    before, kept = rows_of(table), {}

    def other():
        compact_a = table.new_compaction_builder().with_strategy("full").with_filter("p = 'a'")
        kept.update(a=compact_a.run(EXECUTOR))

    executor = Meddling(other)
    outcome = table.new_compaction_builder().with_strategy("full").run(executor)
    assert executor.task_counts == [2, 0]
    assert [table.state.partition_text(b.partition)["p"] for b in outcome.buckets] == ["b"]
    assert outcome.snapshot.id == kept["a"].snapshot.id + 1
    assert rows_of(table) == before
    assert data_files(table) - live_names(table) == {
        entry.file.file_name for entry in table.state.live_files(table.snapshot(3))
    }


def test_concurrent_changes_are_planned_again(catalog):
    table = partitioned_table(catalog)

    def other():
        builder = table.new_compaction_builder().with_strategy("full")
        builder.with_filter("p = 'a'").run(EXECUTOR)
        write_both(table, 7)

    executor = Meddling(other)
    outcome = table.new_compaction_builder().with_strategy("full").run(executor)
    assert executor.task_counts == [2, 1]
    assert sorted(bucket.files_before for bucket in outcome.buckets) == [2, 3]
    assert [row["n"] for row in rows_of(table) if row["id"] == 1] == [7, 7]


def test_constantly_changing_bucket_is_skipped(catalog):
    table = partitioned_table(catalog)

    def other():
        write_both(table, 8)
        builder = table.new_compaction_builder().with_strategy("full")
        builder.with_filter("p = 'a'").run(EXECUTOR)
        write_both(table, 9)

    executor = Meddling(*[other] * 4)
    outcome = table.new_compaction_builder().with_strategy("full").run(executor)
    assert executor.task_counts == [2, 1, 1, 1, 0]
    assert outcome.left_out == 1
    assert [table.state.partition_text(b.partition)["p"] for b in outcome.buckets] == ["b"]
    assert [row["n"] for row in rows_of(table) if row["id"] == 1] == [9, 9]


@pytest.mark.parametrize("bucket", [{"bucket": "-1"}, {"bucket": "1", "bucket-key": "id"}])
def test_conflict_repeats_one_unit_of_partition(catalog, bucket):
    sizes = {"target-file-size": "12 kb", "source.split.open-file-cost": "1 b"}
    rng = np.random.default_rng(0)
    table = create(catalog, "t", {**sizes, **bucket}, keyed=False)
    for number in range(20):
        large = number == 10 and table.schema.options["bucket"] == "1"
        table.new_write_builder().write(some_rows(rng, 900 if large else 60, 10**6), EXECUTOR)
    before = rows_of(table)
    first, _ = table.new_compaction_builder().with_strategy("full").plan().units
    file = next(entry for entry in table.state.live_files() if entry.file == first.files[0])
    gone = pq.read_table(table.state.file_path(file))["id"][0]

    def other():
        table.new_row_change_builder().delete(f"id = {gone}", EXECUTOR)

    executor = Meddling(other)
    outcome = table.new_compaction_builder().with_strategy("full").run(executor)
    assert executor.task_counts == [2, 1]
    assert outcome.left_out == 0
    assert rows_of(table) == [row for row in before if row["id"] != gone.as_py()]
    assert len(table.state.live_files()) < 12


def test_concurrently_deleted_rows_stay_deleted(catalog):
    table = create(catalog, "t", {"deletion-vectors.enabled": "true", "write-only": "true"})
    rows = some_rows(np.random.default_rng(0), 900, 5000)
    table.new_write_builder().write(rows, EXECUTOR)
    compact(table, "full")
    table.new_write_builder().write(rows.slice(0, 9), EXECUTOR)
    compact(table)
    assert len(index_files_of(table)) == 1

    def other():
        table.new_write_builder().write(rows.slice(20, 9), EXECUTOR)
        compact(table)

    expected = rows_of(table)
    outcome = table.new_compaction_builder().with_strategy("full").run(Meddling(other))
    assert outcome.left_out == 0
    assert len(rows_of(table)) == len(expected)
    assert index_files_of(table) == []


@pytest.mark.parametrize("options", [{}, {"changelog-producer": "full-compaction"}])
def test_failed_compaction_leaves_no_files(catalog, options):
    table = create(catalog, "t", options)
    for step in range(3):
        table.new_write_builder().write(some_rows(np.random.default_rng(step), 50, 90), EXECUTOR)
    before = sorted(Path(table.path).rglob("*"))
    broken = open_table_on(table, "manifest-list-*")
    with pytest.raises(StorageError):
        compact(broken, "full")
    assert sorted(Path(table.path).rglob("*")) == before
    damaged = next(Path(table.path).rglob("data-*"))
    damaged.write_bytes(damaged.read_bytes()[:-9])
    broken_files = sorted(Path(table.path).rglob("*"))
    with pytest.raises(Exception, match=damaged.name):
        compact(table, "full")
    assert sorted(Path(table.path).rglob("*")) == broken_files


def open_table_on(table, pattern):
    """Open a table on a storage that fails once to write such a file; workers have a good one."""
    store = type(table._store)(
        file_io=FaultyFileIO(LocalFileIO(), fail_on=pattern),
        table_path=table.path,
        schema=table.schema,
    )
    return Table(store)


def test_compaction_survives_reopening(catalog):
    table = partitioned_table(catalog, writes=5)
    compact(table)
    assert rows_of(open_table(table.path)) == rows_of(table)
