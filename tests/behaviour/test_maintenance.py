"""Maintenance with either executor: the same statistics, and the same files go."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from paimon_assets import EmbeddedExecutor, open_table
from paimon_assets.engine.control.clock import SystemClock
from paimon_assets.engine.control.maintenance.orphan_files import DAY_MS
from paimon_assets.engine.table.upkeep.maintenance import Maintenance, MaintenanceTask
from tests.testkit.compacting import create, rows_of, some_rows
from tests.testkit.metadata_tables import ORPHAN
from tests.testkit.tables import write

pytestmark = pytest.mark.spark


class TwoDaysLater(SystemClock):
    def now_millis(self):
        return super().now_millis() + 2 * DAY_MS


def run_tasks(home, executor):
    """Compact a copy of a table and run every task; return the reports and the remaining files."""
    table = open_table(str(home))
    done = table.new_compaction_builder().with_strategy("full").run(executor)
    store = table.refresh().new_read_builder().store
    care = Maintenance(store=store, executor=executor, clock=TwoDaysLater())
    reports = {task: care.run(task) for task in MaintenanceTask}
    [statistics] = table.system_table("statistics").to_arrow().select(["colstat"]).to_pylist()
    counts = {task: (report.count, report.files) for task, report in reports.items()}
    return {
        "compaction": done.snapshot.total_record_count,
        "counts": counts,
        "statistics": statistics,
        "rows": rows_of(table),
        "data files": len(list(home.glob("bucket-*/*"))),
        "snapshots": [snapshot.id for snapshot in table.snapshots()],
    }


def test_maintenance_is_same_on_both_executors(new_catalog, spark, tmp_path):
    executor = pytest.importorskip("paimon_assets.spark.executor").SparkExecutor(spark)
    expiring = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"}
    table = create(new_catalog, "t", {"bucket": "2", "rowkind.field": "kind", **expiring})
    rng = np.random.default_rng(0)
    for _ in range(3):
        write(table, some_rows(rng, 200, 80, deletes=0.2))
    home = Path(table.path.removeprefix("file:"))
    (home / "bucket-0" / ORPHAN).write_bytes(b"orphan")
    outcomes = []
    for name, chosen in (("embedded", EmbeddedExecutor(2)), ("spark", executor)):
        copy = tmp_path / name
        shutil.copytree(home, copy)
        outcomes.append(run_tasks(copy, chosen))
    assert outcomes[0] == outcomes[1]
    counts = outcomes[0]["counts"]
    assert counts[MaintenanceTask.ANALYZE][0] == len(outcomes[0]["rows"])
    assert counts[MaintenanceTask.EXPIRE_SNAPSHOTS][0] >= 3
    assert counts[MaintenanceTask.CLEAN_ORPHANS] == (1, 1)
    assert outcomes[0]["data files"] == 2
