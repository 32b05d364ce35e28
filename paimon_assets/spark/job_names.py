"""Names of our jobs on Spark's pages and in logs: `write demo.flights, run 1a2b…`.

A group, such as that of a run of an orchestrator, is whatever was set on the calling thread.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from pyspark.errors import PySparkAttributeError
from pyspark.sql import SparkSession
from pyspark.util import inheritable_thread_target

from paimon_assets.engine.contract.split import DataSplit

DESCRIPTION = "spark.job.description"
GROUP = "spark.jobGroup.id"

ReturnedT = TypeVar("ReturnedT")


@contextmanager
def named_jobs(session: SparkSession, name: str) -> Iterator[None]:
    """Call the jobs that this thread starts meanwhile `name`, with the thread's group behind it.

    Over Connect, whose client names no jobs, it is a tag of theirs.
    """
    if is_connect(session):
        with tagged(session, name):
            yield
        return
    context = session.sparkContext
    before, group = context.getLocalProperty(DESCRIPTION), context.getLocalProperty(GROUP)
    context.setLocalProperty(DESCRIPTION, f"{name}, {group}" if group else name)
    try:
        yield
    finally:
        context.setLocalProperty(DESCRIPTION, before)  # type: ignore[arg-type]  # None removes it


@contextmanager
def tagged(session: SparkSession, name: str) -> Iterator[None]:
    """Tag the operations of this thread over Connect, unless it has the tag."""
    tag = tag_of(name)
    if tag in session.getTags():
        yield
        return
    session.addTag(tag)
    try:
        yield
    finally:
        session.removeTag(tag)


def is_connect(session: SparkSession) -> bool:
    """Whether a session is one of Connect, which has no SparkContext."""
    try:
        return session.sparkContext is None
    except PySparkAttributeError:
        return True


def tag_of(name: str) -> str:
    """Return a text as a tag of Connect, which takes no commas."""
    return re.sub(r"[,\s]+", " ", name)


def name_of_read(table: str, splits: Sequence[DataSplit]) -> str:
    """Return the name of a read, with its snapshot.

    >>> name_of_read("db.t", [])
    'read db.t'
    """
    newest = max((split.snapshot_id for split in splits), default=0)
    return f"read {table}, snapshot {newest}" if newest else f"read {table}"


def in_thread(session: SparkSession, run: Callable[..., ReturnedT]) -> Callable[..., ReturnedT]:
    """Return `run` for another thread, with the job name and group of this one."""
    inheriting: Callable[..., ReturnedT] = inheritable_thread_target(session)(run)
    return inheriting
