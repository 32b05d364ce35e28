"""A batch of tasks as Spark jobs: each job is one Spark task that runs some of them in a row.

    tasks ─▶ slots, by cost ─▶ jobs, as many at a time as there are cores ─▶ answers as jobs end

One job for all would be cheaper by a tenth of a second a job, but its answers come when all are
done, without progress until then. It works through Connect too, which has no status tracker.
"""

import heapq
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pyarrow as pa
from pyspark.sql import Row, SparkSession
from pyspark.util import inheritable_thread_target

from paimon_assets.engine.contract.executor import TaskBatch, as_ended
from paimon_assets.engine.contract.wire import load_error
from paimon_assets.engine.fileio.base import FileIOSpec
from paimon_assets.spark.failure import typed_errors, with_renewal
from paimon_assets.spark.job_names import named_jobs
from paimon_assets.spark.packing import ddl
from paimon_assets.spark.preflight import check_workers
from paimon_assets.spark.python_rows import task_numbers
from paimon_assets.spark.worker import TASK_ANSWER_SCHEMA, TASK_SCHEMA, run_slots, run_tasks

_JOBS_A_CORE = 4
"""Small enough to end together, and to show progress."""
_SMALL_JOB = 32 * 1024 * 1024
"""Tasks that cost less than this (bytes) are not worth a job more than there are cores."""


def run_jobs(session: SparkSession, batch: TaskBatch, *, cores: int) -> Iterator[tuple[int, bytes]]:
    """Yield (number of a task, its result) as jobs end; see `contract.executor`."""
    check_workers(session)
    failure: Exception | None = None
    with ThreadPoolExecutor(cores, thread_name_prefix="spark-tasks") as pool:
        with named_jobs(session, f"{batch.name} {batch.subject}".strip()):
            run = inheritable_thread_target(session)(_answers)  # with the job name and group
        jobs = [pool.submit(run, session, batch, job) for job in _jobs(batch, cores)]
        try:
            for job in as_ended(jobs):
                if job.cancelled():
                    continue
                error = job.exception()
                if error is not None and not isinstance(error, Exception):
                    raise error
                for answer in () if error is not None else job.result():
                    if answer.error is None:
                        yield answer.number, bytes(answer.result)
                    else:
                        error = load_error(bytes(answer.error))
                if error is not None and failure is None:
                    failure = error
                    pool.shutdown(wait=False, cancel_futures=True)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
    if failure is not None:
        raise failure


def run_one_job(
    session: SparkSession, batch: TaskBatch, *, cores: int
) -> Iterator[tuple[int, bytes]]:
    """As `run_jobs`, by one job: the shared value may be large, and is sent once."""
    if not batch.payloads:
        return
    check_workers(session)
    slots = distribute(batch.costs, _JOBS_A_CORE * cores)
    count = max(slots) + 1
    numbers = task_numbers(session, count)

    def run(spec: FileIOSpec) -> list[Row]:
        run_one = partial(run_tasks, batch.name, batch.shared, spec)
        tasks = partial(run_slots, batch.payloads, slots, run_one)
        return numbers.mapInArrow(tasks, ddl(TASK_ANSWER_SCHEMA)).collect()

    with typed_errors(), named_jobs(session, f"{batch.name} {batch.subject}".strip()):
        answers = with_renewal(batch.file_io, run)
    for answer in answers:
        if answer.error is None:
            yield answer.number, bytes(answer.result)
    for answer in answers:
        if answer.error is not None:
            raise load_error(bytes(answer.error))


def _jobs(batch: TaskBatch, cores: int) -> list[list[int]]:
    """Return the numbers of each job's tasks, the costliest job first."""
    costs, most = batch.costs, _JOBS_A_CORE * cores
    if batch.weights:
        most = max(cores, min(most, sum(costs) // _SMALL_JOB))
    jobs: dict[int, list[int]] = {}
    for number, job in enumerate(distribute(costs, most)):
        jobs.setdefault(job, []).append(number)
    return sorted(jobs.values(), key=lambda numbers: -sum(costs[n] for n in numbers))


def _answers(session: SparkSession, batch: TaskBatch, numbers: Sequence[int]) -> list[Row]:
    columns = {"number": numbers, "payload": [batch.payloads[number] for number in numbers]}
    frame = session.createDataFrame(pa.table(columns, TASK_SCHEMA)).coalesce(1)

    def run(spec: FileIOSpec) -> list[Row]:
        tasks = partial(run_tasks, batch.name, batch.shared, spec)
        return frame.mapInArrow(tasks, ddl(TASK_ANSWER_SCHEMA)).collect()

    return with_renewal(batch.file_io, run)


def distribute(costs: Sequence[int], tasks: int) -> list[int]:
    """Distribute pieces of work over at most `tasks` slots: the costliest first, to the least busy.

    >>> distribute([1, 5, 1, 3], 2)
    [1, 0, 1, 1]
    """
    busy = [(0, task) for task in range(min(tasks, len(costs)))]
    slots = [0] * len(costs)
    for number in sorted(range(len(costs)), key=lambda number: -costs[number]):
        load, task = heapq.heappop(busy)
        slots[number] = task
        heapq.heappush(busy, (load + costs[number], task))
    return slots
