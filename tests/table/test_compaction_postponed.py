"""Rows that wait for a bucket: a compaction gives them one, in the order they came."""

import numpy as np
import pyarrow as pa
import pytest

from paimon_assets.engine.contract.tasks.compact_task import POSTPONE_TASK
from paimon_assets.engine.embedded import EmbeddedExecutor
from paimon_assets.engine.errors import CommitConflictError
from paimon_assets.engine.spec.metadata.snapshot import CommitKind
from tests.testkit.compacting import COLUMNS, EXECUTOR, compact, create, rows_of, some_rows, write

WAITING = {"bucket": "-2", "postpone.batch-write-fixed-bucket": "false", "rowkind.field": "kind"}


def postponed(catalog, name="t", **options):
    return create(catalog, name, {**WAITING, **options})


def buckets_of(table):
    return sorted({entry.bucket for entry in table.state.live_files()})


def row(key, text, kind="+I"):
    columns = {"id": [key], "n": [1], "t": [text], "seq": [0], "kind": [kind]}
    return pa.table(columns)


def test_waiting_rows_are_seen_after_a_compaction(catalog):
    table = postponed(catalog, **{"postpone.default-bucket-num": "3"})
    write(table, pa.concat_tables([row(key, "a") for key in range(30)]))
    assert rows_of(table) == []
    outcome = compact(table)
    assert outcome.snapshot.commit_kind is CommitKind.COMPACT
    assert len(rows_of(table)) == 30
    assert buckets_of(table) == [0, 1, 2]
    assert {entry.total_buckets for entry in table.state.live_files()} == {3}


def test_rows_of_a_key_are_replayed_in_order(catalog):
    table = postponed(catalog)
    write(table, row(1, "first"))
    write(table, row(2, "x"))
    write(table, row(1, "second"))
    write(table, row(2, "x", "-D"))
    compact(table)
    assert [(found["id"], found["t"]) for found in rows_of(table)] == [(1, "second")]
    write(table, row(1, "third"))
    compact(table, "full")
    assert [(found["id"], found["t"]) for found in rows_of(table)] == [(1, "third")]
    assert [entry.file.level for entry in table.state.live_files()] == [5]


@pytest.mark.parametrize("seed", range(3))
def test_the_result_is_that_of_rows_that_never_waited(catalog, seed):
    rng = np.random.default_rng(seed)
    options = {"postpone.default-bucket-num": "2", "sequence.field": "seq"}
    waiting = postponed(catalog, **options)
    direct = create(catalog, "direct", {"rowkind.field": "kind", "sequence.field": "seq"})
    for _ in range(4):
        rows = some_rows(rng, 300, 80, deletes=0.2)
        write(waiting, rows)
        write(direct, rows)
        if rng.random() < 0.5:
            # Both: a deleted row that a compaction dropped no longer wins by its sequence.
            compact(waiting, "full")
            compact(direct, "full")
    compact(waiting)
    assert rows_of(waiting) == rows_of(direct)


def test_a_partition_keeps_its_bucket_count(catalog):
    table = postponed(catalog, **{"postpone.default-bucket-num": "2"})
    write(table, pa.concat_tables([row(key, "a") for key in range(20)]))
    compact(table)
    more = table.copy({"postpone.default-bucket-num": "5"})
    write(more, pa.concat_tables([row(key, "b") for key in range(20)]))
    compact(more)
    assert buckets_of(table) == [0, 1]
    assert {found["t"] for found in rows_of(table)} == {"b"}


def test_a_dry_plan_tells_who_waits(catalog):
    table = postponed(catalog)
    write(table, row(1, "a"))
    plan = table.new_compaction_builder().plan()
    assert [(unit.reason, unit.row_count) for unit in plan.waiting] == [("waiting-rows", 1)]
    assert table.state.shape().waiting_files == 1


def test_the_commit_is_found_again(catalog):
    table = postponed(catalog)
    write(table, row(1, "a"))
    builder = table.new_compaction_builder().with_strategy("full").with_commit_user("me")
    builder.run(EXECUTOR)
    latest = table.latest_snapshot()
    assert builder.run(EXECUTOR).was_already_committed
    assert table.latest_snapshot() == latest
    assert set(COLUMNS) == set(rows_of(table)[0])


def test_rows_are_placed_once_though_two_try(catalog):
    table = postponed(catalog)
    write(table, row(1, "a"))

    class Overtaken(EmbeddedExecutor):
        def map_tasks(self, batch):
            compact(table)
            return super().map_tasks(batch)

    with pytest.raises(CommitConflictError):
        table.new_compaction_builder().run(Overtaken(2))
    assert [found["t"] for found in rows_of(table)] == ["a"]
    assert not compact(table).buckets


def test_rows_that_come_while_others_are_placed_wait(catalog):
    table = postponed(catalog)
    write(table, row(1, "a"))

    class Busy(EmbeddedExecutor):
        def map_tasks(self, batch):
            if batch.name == POSTPONE_TASK:
                write(table, row(1, "b"))
            return super().map_tasks(batch)

    table.new_compaction_builder().run(Busy(2))
    assert [found["t"] for found in rows_of(table)] == ["a"]
    compact(table)
    assert [found["t"] for found in rows_of(table)] == ["b"]
