"""Sorting the files of a table without key: rows stay, files become narrow, readers skip more."""

import numpy as np
import pytest

from paimon_assets.engine.embedded import EmbeddedExecutor
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.evolution.schema_change import update_column_default_value
from paimon_assets.engine.spec.metadata.snapshot import CommitKind
from tests.testkit.compacting import (
    EXECUTOR,
    create,
    delete_rows,
    index_files_of,
    rows_of,
    some_rows,
    write,
)

CURVES = ["order", "zorder", "hilbert"]


def sort(table, columns=("n", "id"), curve="order", executor=EXECUTOR):
    builder = table.new_compaction_builder().with_strategy("sort")
    return builder.with_order(columns, curve).run(executor)


def written(catalog, name="t", pieces=4, options=None, **settings):
    table = create(catalog, name, options, keyed=False, **settings)
    rng = np.random.default_rng(0)
    for _ in range(pieces):
        write(table, some_rows(rng, 400, 300))
    return table


@pytest.mark.parametrize("curve", CURVES)
@pytest.mark.parametrize("options", [{}, {"write-buffer-size": "20 kb"}])
def test_rows_stay_and_files_are_sorted(catalog, curve, options):
    table = written(catalog, options=options)
    before = rows_of(table)
    outcome = sort(table, curve=curve)
    assert outcome.snapshot.commit_kind is CommitKind.COMPACT
    assert rows_of(table) == before
    assert outcome.files_before == 4
    assert outcome.rows_after == 1600
    if curve == "order":
        read = table.new_read_builder().with_columns(["n", "id"]).to_arrow().to_pylist()
        keys = [(row["n"] is not None, row["n"] or 0, row["id"]) for row in read]
        assert keys == sorted(keys)


def test_readers_skip_files_afterwards(catalog):
    options = {"target-file-size": "4 kb", "write-buffer-size": "20 kb"}
    table = written(catalog, options=options)
    wanted = table.new_read_builder().with_filter("n = 500")
    assert len(wanted.plan().splits[0].data_files) == 4
    sort(table)
    assert len(table.state.live_files()) > 4
    assert sum(len(split.data_files) for split in wanted.plan().splits) <= 2


def test_partitions_are_sorted_by_themselves(catalog):
    table = create(catalog, "t", keyed=False, partition_keys=("kind",))
    rng = np.random.default_rng(1)
    for _ in range(3):
        write(table, some_rows(rng, 200, 100, deletes=0.5))
    before = rows_of(table)
    outcome = sort(table)
    assert len(outcome.buckets) == 2
    assert len(table.state.live_files()) == 2
    assert rows_of(table) == before


def test_rows_that_come_meanwhile_stay(catalog):
    table = written(catalog)

    class Interrupted(EmbeddedExecutor):
        def cluster(self, *args):
            write(table, some_rows(np.random.default_rng(9), 50, 10))
            return super().cluster(*args)

    outcome = sort(table, executor=Interrupted(2))
    assert outcome.files_before == 4
    assert len(rows_of(table)) == 1650


def test_deleted_rows_and_their_vectors_go(catalog):
    table = written(catalog, options={"deletion-vectors.enabled": "true"})
    delete_rows(table, {entry.file.file_name: [0, 7] for entry in table.state.live_files()})
    before = rows_of(table)
    assert len(before) == 1592
    sort(table)
    assert rows_of(table) == before
    assert index_files_of(table) == []


@pytest.mark.parametrize(
    ("columns", "keyed", "reason"),
    [
        (("nothing",), False, "no column 'nothing'"),
        ((), False, "name 1 to 16"),
        (("id", "id"), False, "different columns"),
        (("id",), True, "primary key"),
    ],
)
def test_what_cannot_be_sorted_is_refused(catalog, columns, keyed, reason):
    table = create(catalog, "t", keyed=keyed)
    with pytest.raises(InvalidInputError, match=reason) as caught:
        sort(table, columns)
    assert caught.value.kind == "cluster-order"


def test_sorting_again_is_found(catalog):
    table = written(catalog)
    builder = table.new_compaction_builder().with_strategy("sort").with_order(["id"], "hilbert")
    builder = builder.with_commit_user("me")
    first = builder.run(EXECUTOR)
    assert builder.run(EXECUTOR).snapshot == first.snapshot
    assert builder.plan().units[0].reason == "clustering"


def test_nulls_stay_though_the_column_has_a_default_now(catalog):
    table = written(catalog).alter([update_column_default_value("n", "7")])
    before = rows_of(table)
    assert any(row["n"] is None for row in before)
    sort(table)
    assert rows_of(table) == before


def test_an_executor_that_only_runs_tasks_cannot_sort(catalog):
    class TasksOnly:
        map_tasks = EXECUTOR.map_tasks

    with pytest.raises(InvalidInputError, match="TasksOnly"):
        sort(written(catalog), executor=TasksOnly())
