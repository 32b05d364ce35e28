"""Jobs have names and groups, and long ones lines in a log."""

import os

import pyarrow as pa
import pytest

from paimon_assets.engine.spec.schema.schema import Schema
from tests.testkit.job_names import names_of_jobs

job_names = pytest.importorskip("paimon_assets.spark.job_names")
executors = pytest.importorskip("paimon_assets.spark.executor")


def state(key):
    return job_names.JobState(key=key, name=f"job {key}", tasks=10, tasks_done=3)


def test_long_job_is_logged_at_growing_intervals():
    pace = job_names.Pace()
    lines = []
    for second in range(0, 24 * 60 * 60, 5):
        jobs = [state("long")] if second % 60 else [state("long"), state(f"short {second}")]
        lines += [(second, job.key) for job in pace.due(jobs, float(second))]
    assert [second for second, _ in lines[:4]] == [10, 15, 25, 40]
    assert len(lines) < 30
    assert {key for _, key in lines} == {"long"}


def test_ended_job_starts_again():
    pace = job_names.Pace(first_seconds=1.0)
    assert not list(pace.due([state("a")], 0.0))
    assert not list(pace.due([], 5.0))
    assert not list(pace.due([state("a")], 6.0))
    assert [job.text() for job in pace.due([state("a")], 7.0)] == ["job a: 3 of 10 tasks done"]


@pytest.mark.spark
def test_running_job_of_group_is_logged_by_its_name(spark, tmp_path):
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    lines = []

    def wait(batches):
        gate.read_bytes()
        yield from batches

    def log(line):
        lines.append(line)
        if len(lines) == 1:
            gate.write_bytes(b"")

    log_of_run = job_names.JobLog(spark, "the group", log, first_seconds=0.0)
    log_of_run.mark_thread()
    with job_names.named_jobs(spark, "write db.t"):
        spark.range(0, 1, 1, 1).mapInArrow(wait, "id bigint").collect()
    log_of_run.close()
    assert lines[0] == "Spark: write db.t, the group: 0 of 1 tasks done."
    assert spark.sparkContext.getLocalProperty(job_names.GROUP) is None
    assert spark.sparkContext.getLocalProperty(job_names.DESCRIPTION) is None


@pytest.mark.spark
def test_each_operation_names_its_jobs(spark, new_catalog):
    schema = Schema.of({"id": "BIGINT"}, primary_keys=["id"], options={"bucket": "1"})
    table = new_catalog.create_table("db.named", schema)
    executor = executors.SparkExecutor(spark)
    for _ in range(2):
        table.new_write_builder().write(pa.table({"id": [1, 2]}), executor)
    table.new_read_builder().to_arrow(executor)
    table.new_read_builder().count(executor)
    table.new_compaction_builder().with_strategy("full").run(executor)
    assert {
        "write db.named",
        "read db.named, snapshot 2",
        "count, read db.named, snapshot 2",
        "compact db.named, snapshot 2",
    } <= set(names_of_jobs(spark))
