"""Sorting the files of a table without key: rows stay, files become narrow, readers skip more."""

import numpy as np
import pyarrow as pa
import pytest

from paimon_assets.engine.contract.write_tasks import POSTPONE_TASK
from paimon_assets.engine.embedded import EmbeddedExecutor
from paimon_assets.engine.errors import CommitConflictError, InvalidInputError
from paimon_assets.engine.spec.evolution.schema_change import update_column_default_value
from paimon_assets.engine.spec.metadata.snapshot import CommitKind
from tests.testkit import compacting
from tests.testkit.errors import refused

CURVES = ["order", "zorder", "hilbert"]


def sort(table, columns=("n", "id"), curve="order", executor=compacting.EXECUTOR):
    builder = table.new_compaction_builder().with_strategy("sort")
    return builder.with_order(columns, curve).run(executor)


def table_with_rows(catalog, name="t", pieces=4, options=None, **settings):
    shape = {"pieces": pieces, "rows": 400, "keys": 300, "keyed": False}
    return compacting.fill_table(catalog, name, options, **shape, **settings)


@pytest.mark.parametrize("curve", CURVES)
@pytest.mark.parametrize("options", [{}, {"write-buffer-size": "20 kb"}])
def test_sort_keeps_rows_and_orders_files(catalog, curve, options):
    table = table_with_rows(catalog, options=options)
    before = compacting.rows_of(table)
    outcome = sort(table, curve=curve)
    assert outcome.snapshot.commit_kind is CommitKind.COMPACT
    assert compacting.rows_of(table) == before
    assert outcome.files_before == 4
    assert outcome.rows_after == 1600
    if curve == "order":
        read = table.to_arrow(["n", "id"]).to_pylist()
        keys = [(row["n"] is not None, row["n"] or 0, row["id"]) for row in read]
        assert keys == sorted(keys)


def test_readers_skip_files_afterwards(catalog):
    options = {"target-file-size": "4 kb", "write-buffer-size": "20 kb"}
    table = table_with_rows(catalog, options=options)
    wanted = table.new_read_builder().with_filter("n = 500")
    assert len(wanted.plan().splits[0].data_files) == 4
    sort(table)
    assert len(table.state.live_files()) > 4
    assert sum(len(split.data_files) for split in wanted.plan().splits) <= 2


def test_partitions_are_sorted_separately(catalog):
    shape = {"pieces": 3, "rows": 200, "keys": 100, "seed": 1, "deletes": 0.5}
    table = compacting.fill_table(catalog, "t", **shape, keyed=False, partition_keys=("kind",))
    before = compacting.rows_of(table)
    assert len(sort(table).buckets) == 2
    assert len(table.state.live_files()) == 2
    assert compacting.rows_of(table) == before


def test_concurrent_rows_survive_sort(catalog):
    table = table_with_rows(catalog)

    class Interrupted(EmbeddedExecutor):
        def cluster(self, *args):
            compacting.write(table, compacting.some_rows(np.random.default_rng(9), 50, 10))
            return super().cluster(*args)

    assert sort(table, executor=Interrupted(2)).files_before == 4
    assert len(compacting.rows_of(table)) == 1650


def test_sort_drops_deleted_rows_and_vectors(catalog):
    table = table_with_rows(catalog, options={"deletion-vectors.enabled": "true"})
    compacting.delete_rows(
        table, {entry.file.file_name: [0, 7] for entry in table.state.live_files()}
    )
    before = compacting.rows_of(table)
    assert len(before) == 1592
    sort(table)
    assert compacting.rows_of(table) == before
    assert compacting.index_files_of(table) == []


@pytest.mark.parametrize(
    ("columns", "keyed", "reason"),
    [
        (("nothing",), False, "no column 'nothing'"),
        ((), False, "name 1 to 16"),
        (("id", "id"), False, "different columns"),
        (("id",), True, "primary key"),
    ],
)
def test_unsortable_column_is_refused(catalog, columns, keyed, reason):
    table = compacting.create(catalog, "t", keyed=keyed)
    with refused(InvalidInputError, reason, kind="cluster-order"):
        sort(table, columns)


def test_repeated_sort_commits_once(catalog):
    table = table_with_rows(catalog)
    builder = table.new_compaction_builder().with_strategy("sort").with_order(["id"], "hilbert")
    builder = builder.with_commit_user("me")
    first = builder.run(compacting.EXECUTOR)
    assert builder.run(compacting.EXECUTOR).snapshot == first.snapshot
    assert builder.plan().units[0].reason == "clustering"


def test_sort_keeps_nulls_despite_new_default(catalog):
    table = table_with_rows(catalog).alter([update_column_default_value("n", "7")])
    before = compacting.rows_of(table)
    assert any(row["n"] is None for row in before)
    sort(table)
    assert compacting.rows_of(table) == before


def test_executor_that_only_runs_tasks_cannot_sort(catalog):
    class TasksOnly:
        map_tasks = compacting.EXECUTOR.map_tasks

    with pytest.raises(InvalidInputError, match="TasksOnly"):
        sort(table_with_rows(catalog), executor=TasksOnly())


WAITING = {"bucket": "-2", "postpone.batch-write-fixed-bucket": "false", "rowkind.field": "kind"}


def postponed_table(catalog, name="t", **options):
    return compacting.create(catalog, name, {**WAITING, **options})


def buckets_of(table):
    return sorted({entry.bucket for entry in table.state.live_files()})


def row(key, text, kind="+I"):
    return pa.table({"id": [key], "n": [1], "t": [text], "seq": [0], "kind": [kind]})


def test_waiting_rows_are_seen_after_compaction(catalog):
    table = postponed_table(catalog, **{"postpone.default-bucket-num": "3"})
    compacting.write(table, pa.concat_tables([row(key, "a") for key in range(30)]))
    assert compacting.rows_of(table) == []
    assert compacting.compact(table).snapshot.commit_kind is CommitKind.COMPACT
    assert len(compacting.rows_of(table)) == 30
    assert buckets_of(table) == [0, 1, 2]
    assert {entry.total_buckets for entry in table.state.live_files()} == {3}


def test_rows_of_key_are_replayed_in_order(catalog):
    table = postponed_table(catalog)
    compacting.write(table, row(1, "first"))
    compacting.write(table, row(2, "x"))
    compacting.write(table, row(1, "second"))
    compacting.write(table, row(2, "x", "-D"))
    compacting.compact(table)
    assert [(found["id"], found["t"]) for found in compacting.rows_of(table)] == [(1, "second")]
    compacting.write(table, row(1, "third"))
    compacting.compact(table, "full")
    assert [(found["id"], found["t"]) for found in compacting.rows_of(table)] == [(1, "third")]
    assert [entry.file.level for entry in table.state.live_files()] == [5]


@pytest.mark.parametrize("seed", range(3))
def test_postponed_rows_end_as_directly_written(catalog, seed):
    rng = np.random.default_rng(seed)
    options = {"postpone.default-bucket-num": "2", "sequence.field": "seq"}
    waiting = postponed_table(catalog, **options)
    direct = compacting.create(
        catalog, "direct", {"rowkind.field": "kind", "sequence.field": "seq"}
    )
    for _ in range(4):
        rows = compacting.some_rows(rng, 300, 80, deletes=0.2)
        compacting.write(waiting, rows)
        compacting.write(direct, rows)
        if rng.random() < 0.5:
            # Both: a deleted row that a compaction dropped no longer wins by its sequence.
            compacting.compact(waiting, "full")
            compacting.compact(direct, "full")
    compacting.compact(waiting)
    assert compacting.rows_of(waiting) == compacting.rows_of(direct)


def test_partition_keeps_its_bucket_count(catalog):
    table = postponed_table(catalog, **{"postpone.default-bucket-num": "2"})
    compacting.write(table, pa.concat_tables([row(key, "a") for key in range(20)]))
    compacting.compact(table)
    more = table.copy({"postpone.default-bucket-num": "5"})
    compacting.write(more, pa.concat_tables([row(key, "b") for key in range(20)]))
    compacting.compact(more)
    assert buckets_of(table) == [0, 1]
    assert {found["t"] for found in compacting.rows_of(table)} == {"b"}


def test_dry_plan_shows_waiting_rows(catalog):
    table = postponed_table(catalog)
    compacting.write(table, row(1, "a"))
    plan = table.new_compaction_builder().plan()
    assert [(unit.reason, unit.row_count) for unit in plan.waiting] == [("waiting-rows", 1)]
    assert table.state.shape().waiting_files == 1


def test_repeated_placement_commits_once(catalog):
    table = postponed_table(catalog)
    compacting.write(table, row(1, "a"))
    builder = table.new_compaction_builder().with_strategy("full").with_commit_user("me")
    builder.run(compacting.EXECUTOR)
    latest = table.latest_snapshot()
    assert builder.run(compacting.EXECUTOR).was_already_committed
    assert table.latest_snapshot() == latest
    assert set(compacting.COLUMNS) == set(compacting.rows_of(table)[0])


def test_concurrent_placements_place_rows_once(catalog):
    table = postponed_table(catalog)
    compacting.write(table, row(1, "a"))

    class Overtaken(EmbeddedExecutor):
        def map_tasks(self, batch):
            compacting.compact(table)
            return super().map_tasks(batch)

    with pytest.raises(CommitConflictError):
        table.new_compaction_builder().run(Overtaken(2))
    assert [found["t"] for found in compacting.rows_of(table)] == ["a"]
    assert not compacting.compact(table).buckets


def test_rows_that_arrive_during_placement_wait(catalog):
    table = postponed_table(catalog)
    compacting.write(table, row(1, "a"))

    class Busy(EmbeddedExecutor):
        def map_tasks(self, batch):
            if batch.name == POSTPONE_TASK:
                compacting.write(table, row(1, "b"))
            return super().map_tasks(batch)

    table.new_compaction_builder().run(Busy(2))
    assert [found["t"] for found in compacting.rows_of(table)] == ["a"]
    compacting.compact(table)
    assert [found["t"] for found in compacting.rows_of(table)] == ["b"]
