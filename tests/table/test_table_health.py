"""Health of tables: due work by metadata alone, of a table and of a catalog."""

import datetime as dt
from pathlib import Path

import numpy as np
import pytest

from paimon_assets.engine.errors import NotFoundError
from paimon_assets.engine.table.system.table_health import (
    DUE_SCORE,
    FileDebt,
    HealthLimits,
    table_health,
)
from tests.testkit import compacting
from tests.testkit.compacting import compact, create, delete_rows, some_rows
from tests.testkit.metadata_tables import ORPHAN
from tests.testkit.tables import write

DAY_MS = 86_400_000


class LaterClock:
    def __init__(self, table, days):
        self.now = table.latest_snapshot().time_millis + days * DAY_MS

    def now_millis(self):
        return self.now

    def sleep_millis(self, millis):
        raise AssertionError("health waits for nothing")


def table_with_rows(catalog, pieces, options=None, *, keyed=True, name="t"):
    shape = {"pieces": pieces, "rows": 100, "keys": 50, "keyed": keyed}
    return compacting.fill_table(catalog, name, options, **shape)


def test_empty_table_needs_no_maintenance(catalog):
    health = table_health(table_with_rows(catalog, 0).state.store)
    assert (health.score, health.reason, health.file_count) == (100, None, 0)
    assert (health.newest_snapshot_ms, health.snapshot_count) == (None, 0)


@pytest.mark.parametrize(("pieces", "score"), [(1, 90), (4, 60), (5, 50), (10, 25)])
def test_score_falls_with_runs_of_bucket(catalog, pieces, score):
    health = table_health(table_with_rows(catalog, pieces).state.store)
    assert health.score == score
    expected = f"{pieces} runs on level 0 of a bucket (limit 5): run compact"
    assert health.reason == (expected if score <= DUE_SCORE else None)
    assert (health.most_runs, health.level_0_files) == (pieces, pieces)


def test_compaction_restores_health(catalog):
    table = table_with_rows(catalog, 6)
    before = table_health(table.state.store)
    compact(table, "full")
    after = table_health(table.state.store)
    assert (before.last_compaction_ms, after.score, after.reason) == (None, 100, None)
    assert abs(after.last_compaction_ms - table.latest_snapshot().time_millis) < 60_000
    assert (after.file_count, after.small_file_count) == (1, 0)


def test_every_reason_is_named(catalog):
    table = table_with_rows(catalog, 6, keyed=False)
    delete_rows(table, {entry.file.file_name: [0, 1] for entry in table.state.live_files()})
    health = table_health(table.state.store)
    assert health.small_file_ratio == 1.0
    assert "small file" in health.reason
    strict = HealthLimits(debt=FileDebt(small_files=None, deleted_rows=0.001))
    assert "rows deleted" in table_health(table.state.store, strict).reason
    lax = HealthLimits(debt=FileDebt(small_files=None))
    assert table_health(table.state.store, lax).reason is None


def test_due_snapshots_are_reported(catalog):
    table = table_with_rows(catalog, 12, {"snapshot.time-retained": "1 h"}, keyed=False)
    limits = HealthLimits(debt=FileDebt(small_files=None))
    store = table._store
    assert table_health(store, limits, LaterClock(table, 0)).reason is None
    late = table_health(store, limits, LaterClock(table, 3))
    assert (late.score, late.snapshot_count) == (16, 12)
    assert late.reason == "12 snapshots, the oldest 3.0 days beyond its retention: run expire"
    never = HealthLimits(debt=FileDebt(small_files=None), late_expiry=None)
    assert table_health(store, never, LaterClock(table, 3)).reason is None
    assert HealthLimits().late_expiry == dt.timedelta(days=1)


def test_lagging_consumer_is_reported(catalog):
    table = table_with_rows(catalog, 4)
    table._store.consumers.reset("slow", 2)
    table._store.consumers.reset("done", 5)
    health = table_health(table.state.store, HealthLimits(consumer_lag=3))
    assert (health.consumer_count, health.consumer_lag) == (2, 3)
    assert health.reason == "a consumer is 3 snapshots behind"


def test_orphans_are_counted_only_with_limit(catalog):
    table = table_with_rows(catalog, 1)
    orphan = Path(table.path) / "bucket-0" / ORPHAN
    orphan.write_bytes(b"x" * 2000)
    assert table_health(table.state.store).orphan_bytes is None
    later = LaterClock(table, 3)
    limits = HealthLimits(orphan_bytes=1000, late_expiry=None)
    health = table_health(table._store, limits, later)
    assert (health.orphan_bytes, health.score) == (2000, 25)
    assert health.reason == "2,000 bytes of files that nothing names: run clean"
    # Younger than a day: a write may go on.
    assert table_health(table.state.store, limits).orphan_bytes == 0


def test_catalog_shows_all_its_tables(catalog):
    table_with_rows(catalog, 5, name="due")
    table_with_rows(catalog, 1, name="fine")
    rows = catalog.get_system_table("sys.table_health").to_arrow().to_pylist()
    shown = {row["table_name"]: (row["score"], row["reason"]) for row in rows}
    reason = "5 runs on level 0 of a bucket (limit 5): run compact"
    assert shown == {"due": (50, reason), "fine": (90, None)}


def test_patterns_select_tables_and_unknown_name_is_refused(catalog):
    for name in ("a", "b"):
        table_with_rows(catalog, 1, name=name)
    assert catalog.health("db.a")["table_name"].to_pylist() == ["a"]
    assert catalog.health("db.*")["table_name"].to_pylist() == ["a", "b"]
    with pytest.raises(NotFoundError, match=r"db\.c"):
        catalog.health("db.*", "db.c")


def test_unreadable_table_hides_no_other(catalog, caplog):
    table_with_rows(catalog, 1, name="fine")
    broken = table_with_rows(catalog, 1, name="broken")
    (Path(broken.path) / "snapshot" / "snapshot-1").write_text("{")
    rows = {row["table_name"]: row["score"] for row in catalog.health().to_pylist()}
    assert rows == {"broken": None, "fine": 90}
    assert "db.broken" in caplog.text


def test_health_history_is_table(catalog):
    table_with_rows(catalog, 5, name="due")
    for _ in range(2):
        history = catalog.record_health("db.history", catalog.health("db.due"))
    assert (
        history.to_arrow().select(["table_name", "score"]).to_pylist()
        == [{"table_name": "due", "score": 50}] * 2
    )
    assert history.to_arrow()["measured_at"].null_count == 0


def table_with_deletes(catalog, pieces, options=None, *, keyed=True, **settings):
    table = create(catalog, "t", options, keyed=keyed, **settings)
    rng = np.random.default_rng(0)
    for _ in range(pieces):
        write(table, some_rows(rng, 100, 50, deletes=0.3))
    return table


def test_empty_table_has_no_shape(catalog):
    shape = table_with_deletes(catalog, 0).state.shape()
    assert (shape.buckets, shape.total_bytes, shape.read_amplification) == ((), 0, 1.0)


def test_each_run_of_bucket_counts(catalog):
    table = table_with_deletes(catalog, 4, {"rowkind.field": "kind"})
    shape = table.state.shape()
    assert (shape.level_0_runs, shape.most_runs, shape.read_amplification) == (4, 4, 4.0)
    assert shape.deleted_rows == sum(e.file.delete_row_count for e in table.state.live_files()) > 0
    compact(table, "full")
    after = table.state.shape()
    assert (after.level_0_runs, after.most_runs, after.read_amplification) == (0, 1, 1.0)
    assert after.deleted_rows == 0
    assert after.total_bytes == sum(entry.file.file_size for entry in table.state.live_files())
    assert table.state.shape(table.snapshot(4)) == shape


def test_append_files_are_compared_with_filled_files(catalog):
    table = table_with_deletes(catalog, 6, keyed=False)
    shape = table.state.shape()
    assert (shape.small_files, shape.level_0_runs, shape.read_amplification) == (6, 0, 6.0)
    tiny = table.copy({"target-file-size": "1 b"}).state.shape()
    assert (tiny.small_files, tiny.read_amplification) == (0, 1.0)
    assert table.state.shape(table.snapshot(4)).small_files == 0


def test_marked_rows_are_deleted_rows(catalog):
    table = table_with_deletes(catalog, 2, {"deletion-vectors.enabled": "true"}, keyed=False)
    delete_rows(table, {entry.file.file_name: [1, 2, 3] for entry in table.state.live_files()})
    assert table.state.shape().deleted_rows == 6
