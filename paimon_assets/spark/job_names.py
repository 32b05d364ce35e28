"""Names of our jobs on Spark's pages, and lines in a run's log while they take long.

A job is called `write demo.flights, run 1a2b…`; its group, such as that of a run of an
orchestrator, is whatever was set on the calling thread. It gets a line after some seconds, and
another whenever it has taken half as long again: a job of a day has some twenty. Over Connect the
server counts tasks, and does not say of which table.
"""

import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from msgspec import Struct, field
from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # ships no types
from pyspark.errors import PySparkAttributeError
from pyspark.sql import SparkSession

from paimon_assets.engine.contract.split import Splits
from paimon_assets.engine.spec.values import Value

DESCRIPTION = "spark.job.description"
GROUP = "spark.jobGroup.id"

FIRST_SECONDS = 10.0
"""A job that ends sooner has no line."""
_GROWTH = 1.5


@contextmanager
def named_jobs(session: SparkSession, name: str) -> Iterator[None]:
    """Call the jobs that this thread starts meanwhile `name`; over Connect by a tag."""
    if is_connect(session):
        tag = tag_of(name)
        if tag in session.getTags():
            yield
            return
        session.addTag(tag)
        try:
            yield
        finally:
            session.removeTag(tag)
        return
    context = session.sparkContext
    before, group = context.getLocalProperty(DESCRIPTION), context.getLocalProperty(GROUP)
    context.setLocalProperty(DESCRIPTION, f"{name}, {group}" if group else name)
    try:
        yield
    finally:
        context.setLocalProperty(DESCRIPTION, before)  # type: ignore[arg-type]  # None removes it


def is_connect(session: SparkSession) -> bool:
    try:
        return session.sparkContext is None
    except PySparkAttributeError:
        return True


def tag_of(name: str) -> str:
    """Return a text as a tag of Connect, which takes no commas."""
    return re.sub(r"[,\s]+", " ", name)


def name_of_read(table: str, splits: Splits) -> str:
    """Return the name of a read, with its snapshot.

    >>> name_of_read("db.t", [])
    'read db.t'
    """
    newest = max((split.snapshot_id for split in splits), default=0)
    return f"read {table}, snapshot {newest}" if newest else f"read {table}"


class JobState(Value):
    """How far a running job is."""

    key: str
    name: str
    tasks: int
    tasks_done: int
    tasks_failed: int = 0

    def text(self) -> str:
        failed = f", {self.tasks_failed} failed and tried again" if self.tasks_failed else ""
        return f"{self.name}: {self.tasks_done} of {self.tasks} tasks done{failed}"


class Pace(Struct):
    """The times at which jobs get a line: rarer the longer they take."""

    first_seconds: float = FIRST_SECONDS
    _begun: dict[str, float] = field(default_factory=dict)
    _next: dict[str, float] = field(default_factory=dict)

    def due(self, jobs: Iterable[JobState], now: float) -> Iterator[JobState]:
        """Yield the jobs whose line is due; those that are not named have ended."""
        running = {job.key: job for job in jobs}
        self._begun = {key: self._begun.get(key, now) for key in running}
        self._next = {key: self._next.get(key, self.first_seconds) for key in running}
        for key, job in running.items():
            seconds = now - self._begun[key]
            if seconds >= self._next[key]:
                self._next[key] = seconds * _GROWTH
                yield job


class JobLog:
    """The group of a run's jobs, and the thread that logs how far they are."""

    def __init__(
        self,
        session: SparkSession,
        group: str,
        log: Callable[[str], None],
        *,
        first_seconds: float = FIRST_SECONDS,
    ) -> None:
        self._session, self._group, self._log = session, group, log
        self._pace = Pace(first_seconds)
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None
        if is_connect(session):
            session.registerProgressHandler(self._on_progress)  # type: ignore[arg-type]  # any callable will do
        else:
            context = session.sparkContext
            address, application = context.uiWebUrl, context.applicationId
            if address:
                log(f"Spark's pages are at {address} (application {application}).")
            arguments = (max(first_seconds / 2, 0.05),)
            self._thread = threading.Thread(target=self._watch, args=arguments, daemon=True)
            self._thread.start()

    def mark_thread(self) -> None:
        """Put the jobs that this thread starts from now on into the group."""
        if is_connect(self._session):
            self._session.addTag(tag_of(self._group))
        else:
            self._session.sparkContext.setLocalProperty(GROUP, self._group)

    def close(self) -> None:
        """End the lines, and the group of this thread."""
        self._closed.set()
        if self._thread is None:
            self._session.removeProgressHandler(self._on_progress)  # type: ignore[arg-type]  # any callable will do
            if tag_of(self._group) in self._session.getTags():
                self._session.removeTag(tag_of(self._group))
            return
        self._thread.join()
        try:
            self._session.sparkContext.setLocalProperty(GROUP, None)  # type: ignore[arg-type]
        except (Py4JError, OSError):
            return  # Spark has ended

    def _watch(self, seconds: float) -> None:
        while not self._closed.wait(seconds):
            try:
                jobs = list(running_jobs(self._session, self._group))
            except (Py4JError, OSError, AttributeError):
                return  # Spark has ended
            for job in self._pace.due(jobs, time.monotonic()):
                self._log(f"Spark: {job.text()}.")

    def _on_progress(
        self,
        stages: Any,
        inflight_tasks: int,
        operation_id: str | None,
        done: bool,  # noqa: FBT001 - Spark's order
    ) -> None:
        stages = list(stages or ())
        job = JobState(
            key=operation_id or "",
            name="an operation",
            tasks=sum(stage.num_tasks for stage in stages),
            tasks_done=sum(stage.num_completed_tasks for stage in stages),
        )
        for due in self._pace.due([] if done else [job], time.monotonic()):
            self._log(f"Spark: {due.text()}.")


def running_jobs(session: SparkSession, group: str) -> Iterator[JobState]:
    """Yield the jobs of a group that run now; not over Connect."""
    java: Any = session.sparkContext
    running = java._jvm.java.util.ArrayList()  # noqa: SLF001 - PySpark has no call for names
    running.add(java._jvm.org.apache.spark.JobExecutionStatus.RUNNING)  # noqa: SLF001
    jobs = java._jsc.sc().statusStore().jobsList(running)  # noqa: SLF001
    for number in range(jobs.size()):
        job = jobs.apply(number)
        if not job.jobGroup().contains(group):
            continue
        named = job.description()
        yield JobState(
            key=str(job.jobId()),
            name=named.get() if named.isDefined() else plain_name(job.name()),
            tasks=job.numTasks() - job.numSkippedTasks(),
            tasks_done=job.numCompletedTasks(),
            tasks_failed=job.numFailedTasks(),
        )


def plain_name(name: str) -> str:
    """Return the name that Spark gives to an unnamed job, without the call site inside Spark.

    >>> plain_name("save at NativeMethodAccessorImpl.java:0")
    'a save job'
    """
    call, _, place = name.partition(" at ")
    return f"a {call} job" if place.startswith("NativeMethodAccessorImpl") else name
