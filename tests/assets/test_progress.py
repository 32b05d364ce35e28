"""Long work of this process reports its progress in the log of the run."""

import dagster as dg
import pyarrow as pa

from paimon_assets import EmbeddedExecutor, Schema
from paimon_assets.engine import embedded
from tests.testkit.asset_tables import asset_of, lent_instance, run

LOG = Schema.of({"id": "BIGINT"})


def batches(count: int, rows: int):
    for number in range(count):
        yield pa.RecordBatch.from_pydict({"id": [number] * rows})


def lines_of(instance: dg.DagsterInstance, result: dg.ExecuteInProcessResult) -> list[str]:
    records = instance.all_logs(result.run_id)
    return [entry.user_message for entry in records if "Writing table" in entry.user_message]


def test_write_reports_its_rows_in_log_of_run(paimon, monkeypatch):
    monkeypatch.setattr(embedded, "_FIRST_SECONDS", 0.0)
    monkeypatch.setattr(embedded, "_SECONDS_BETWEEN", 0.0)
    stream = asset_of(
        "db.stream",
        LOG,
        pa.RecordBatchReader.from_batches(pa.schema({"id": pa.int64()}), batches(3, 1000)),
    )
    with lent_instance() as instance:
        lines = lines_of(instance, run(stream, paimon, instance=instance))
    assert lines[-1].startswith("Writing table db.stream: 3,000 rows, ")


def test_short_work_reports_nothing(paimon):
    short = asset_of("db.short", LOG, pa.table({"id": [1]}))
    with lent_instance() as instance:
        assert lines_of(instance, run(short, paimon, instance=instance)) == []


def test_tasks_report_their_number_and_time_left(paimon, monkeypatch):
    monkeypatch.setattr(embedded, "_FIRST_SECONDS", 0.0)
    monkeypatch.setattr(embedded, "_SECONDS_BETWEEN", 0.0)
    catalog = paimon.catalog()
    catalog.create_database("db")
    keyed = Schema.of({"id": "BIGINT"}, primary_keys=["id"], options={"bucket": "4"})
    table = catalog.create_table("db.keyed", keyed)
    for _ in range(2):
        table.upsert(pa.table({"id": list(range(100))}))
    lines: list[str] = []
    table.new_compaction_builder().with_strategy("full").run(EmbeddedExecutor(1, log=lines.append))
    assert len(lines) == 4
    assert "1 of 4 tasks" in lines[0]
    assert "s left." in lines[0]
    assert "4 of 4 tasks" in lines[-1]
    assert "left" not in lines[-1]
