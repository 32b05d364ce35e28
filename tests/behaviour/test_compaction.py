"""Compactions on both executors: merged, moved out of the waiting room, sorted."""

import numpy as np
import pytest

from paimon_assets.engine.embedded import EmbeddedExecutor
from tests.testkit.compacting import create, rows_of, some_rows
from tests.testkit.tables import write

WAITING = {"bucket": "-2", "postpone.batch-write-fixed-bucket": "false", "rowkind.field": "kind"}


def fill_table(catalog, name, options, pieces=3, **settings):
    table = create(catalog, name, options, **settings)
    rng = np.random.default_rng(0)
    for _ in range(pieces):
        write(table, some_rows(rng, 200, 80, deletes=0.2))
    return table


@pytest.mark.parametrize("executor", ["embedded", pytest.param("spark", marks=pytest.mark.spark)])
def test_every_kind_of_compaction(new_catalog, request, executor):
    chosen = (
        EmbeddedExecutor(2)
        if executor == "embedded"
        else pytest.importorskip("paimon_assets.spark.executor").SparkExecutor(
            request.getfixturevalue("spark")
        )
    )
    keyed = fill_table(new_catalog, "keyed", {"bucket": "2", "rowkind.field": "kind"})
    waiting = fill_table(new_catalog, "waiting", {**WAITING, "postpone.default-bucket-num": "2"})
    sorted_ = fill_table(new_catalog, "sorted", {}, keyed=False)
    plain, merged = rows_of(sorted_), rows_of(keyed)
    for table in (keyed, waiting):
        table.new_compaction_builder().with_strategy("full").with_parallelism(1).run(chosen)
        assert rows_of(table) == merged
        assert {entry.file.level for entry in table.state.live_files()} == {5}
    builder = sorted_.new_compaction_builder().with_strategy("sort")
    for curve in ("order", "hilbert"):
        builder.with_order(["n", "t"], curve).run(chosen)
        assert rows_of(sorted_) == plain
        assert len(sorted_.state.live_files()) == 1
