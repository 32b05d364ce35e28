"""How tasks are dealt to Spark jobs; no session is needed for that."""

import pytest

from paimon_assets.engine.contract.executor import TaskBatch
from paimon_assets.engine.fileio.base import FileIOSpec

jobs_of = pytest.importorskip("paimon_assets.spark.task_jobs")._jobs
MEGABYTE = 1 << 20


def batch(*weights, count=None, parallelism=None):
    return TaskBatch(
        name="t",
        payloads=(b"",) * (len(weights) if count is None else count),
        weights=weights,
        parallelism=parallelism,
        file_io=FileIOSpec(scheme="file"),
    )


@pytest.mark.parametrize(
    ("tasks", "expected"),
    [
        (batch(*[MEGABYTE] * 8), 2),
        (batch(*[40 * MEGABYTE] * 4), 4),
        (batch(*[400 * MEGABYTE] * 40), 8),
        (batch(MEGABYTE), 1),
        (batch(count=40), 8),
    ],
)
def test_small_tasks_share_a_job(tasks, expected):
    jobs = jobs_of(tasks, 2)
    assert len(jobs) == expected
    assert sorted(number for job in jobs for number in job) == list(range(len(tasks.payloads)))


@pytest.mark.parametrize(("parallelism", "cores", "expected"), [(None, 4, 4), (2, 4, 2), (9, 4, 4)])
def test_a_batch_may_ask_for_fewer_at_a_time(parallelism, cores, expected):
    assert batch(count=3, parallelism=parallelism).at_a_time(cores) == expected
