"""A job on Spark whose driver dies at a named step of it: its Python, or the JVM below.

python -m tests.testkit.faults.spark_steps DIRECTORY JOB STEP VICTIM SEED

Does the job once unharmed, to count the files that its tasks write, and then once on `COPY`.
A Python that outlives its JVM prints how the job ended, as one line of JSON.
"""

import json
import os
import random
import shutil
import signal
import sys
import threading
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path

from pyspark.sql import SparkSession

from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.engine.table.table import Table
from tests.testkit.faults.spark_jobs import JOBS, JVM, Job, below, new_session
from tests.testkit.faulty_fileio import FaultyFileIO

COPY = "copy"
_POLL_SECONDS = 0.001


class Step(StrEnum):
    """Steps of a driver or its tasks at which it dies."""

    PLAN = "plan"
    TASKS = "tasks"
    MANIFEST = "manifest"
    MANIFEST_LIST = "manifest list"
    PUBLISH = "publish"
    HINT = "hint"
    """The snapshot is published."""


class Victim(StrEnum):
    PYTHON = "Python"
    JVM = "JVM"


def _is_at(step: Step, method: str, path: str) -> bool:
    """Whether a call of the driver's storage is a step's."""
    name = path.rpartition("/")[2]
    is_list = name.startswith("manifest-list-")
    if step is Step.PLAN:
        return is_list and method in ("read_bytes", "open_input")
    if step in (Step.MANIFEST, Step.MANIFEST_LIST):
        writes = method in ("write_bytes", "open_output") and name.startswith("manifest-")
        return writes and is_list == (step is Step.MANIFEST_LIST)
    if step is Step.PUBLISH:
        return method == "publish" and name.startswith("snapshot-")
    return step is Step.HINT and method == "write_hint" and name == "LATEST"


def _kill(victim: Victim) -> None:
    pid = os.getpid()
    if victim is Victim.JVM:
        [pid] = [child for child, line in below(pid) if JVM in line]
    os.kill(pid, signal.SIGKILL)


def _data_files(copy: Path) -> int:
    return sum(1 for _ in (copy / "warehouse").rglob("data-*"))


class _TaskWatch:
    """Does something once the tasks of a job have begun so many files."""

    def __init__(self, copy: Path, files: int, strike: Callable[[], None]) -> None:
        self._copy, self._strike = copy, strike
        self._wanted = _data_files(copy) + files
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(_POLL_SECONDS):
            if _data_files(self._copy) >= self._wanted:
                self._strike()
                return


def count_files(template: Path, copy: Path, job: Job, session: SparkSession) -> int:
    """Return how many files a job's tasks write."""
    shutil.copytree(template, copy)
    before = _data_files(copy)
    job.perform(_table(copy, FaultyFileIO(LocalFileIO())), session)
    return _data_files(copy) - before


def _table(copy: Path, file_io: FaultyFileIO) -> Table:
    return Table(FileStore.open(file_io, str(copy / "warehouse" / "d.db" / "t")))


def main(directory: Path, name: str, step: Step, victim: Victim, rng: random.Random) -> None:
    job = JOBS[name]
    session = new_session(job)
    files = count_files(directory / "template", directory / "unharmed", job, session)
    copy, struck = directory / COPY, threading.Event()
    shutil.copytree(directory / "template", copy)

    def strike() -> None:
        struck.set()
        (directory / "struck").touch()
        _kill(victim)

    def before(_number: int, method: str, path: str) -> None:
        if not struck.is_set() and _is_at(step, method, path):
            strike()

    table = _table(copy, FaultyFileIO(LocalFileIO(), before=before))
    raised = None
    wanted = rng.randint(1, files) if step is Step.TASKS else sys.maxsize
    try:
        with _TaskWatch(copy, wanted, strike):
            job.perform(table, session)
    except Exception as error:  # noqa: BLE001  # a lost JVM may raise anything
        raised = f"{type(error).__name__}: {error}"
    sys.stdout.write(f"{json.dumps({'raised': raised, 'files': files, 'at': wanted})}\n")


if __name__ == "__main__":
    _, folder, job_name, at_step, killed, seed = sys.argv
    main(Path(folder), job_name, Step(at_step), Victim(killed), random.Random(seed))  # noqa: S311
