"""Jobs of Spark on a table, on a cluster whose executors, workers and driver may be killed.

python -m tests.testkit.faults.spark_jobs DIRECTORY JOB ROUNDS SEED    kills, checks, reports
python -m tests.testkit.faults.spark_jobs DIRECTORY JOB                does it, and may be killed
"""

import ctypes
import itertools
import json
import math
import os
import random
import select
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
from pyspark.sql import SparkSession

from paimon_assets import EmbeddedExecutor, SegmentSource, Table, open_table, update_column_type
from paimon_assets.spark.dataframes.merge import merge_dataframe
from paimon_assets.spark.executor import SparkExecutor
from paimon_assets.spark.session import SparkSettings, get_session, stop_session
from tests.testkit import foreign
from tests.testkit.faults.whole_tables import check_whole
from tests.testkit.processes import JVM_OPTIONS, LONGEST_SECONDS
from tests.testkit.tables import new_table, read

USER = "mortal"
ROWS = 4_000
_FILES = 12
_PARTS = 6
_COLUMNS = {"id": "BIGINT", "v": "BIGINT"}
BEGUN = "begun"
"""A file in each copy on which a driver began."""
_POLL_SECONDS = 0.001
_IN_OPEN = 0x20
_UNHARMED = 2
"""Times a job is done before the first kill: they say how long it takes."""
_EXECUTOR, _WORKER = b"CoarseGrainedExecutorBackend", b"pyspark.daemon"
JVM = b"org.apache.spark.deploy.SparkSubmit"
"""Part of the command lines of Spark's processes."""

Rows = dict[int, int]
"""id → v."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """One kind of work; the second argument is None where no Spark is."""

    perform: Callable[[Table, SparkSession | None], object]
    after: Callable[[Rows], Rows]
    keys: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    snapshots: int = 1
    is_local: bool = False
    """Whether tasks run in the driver's JVM, as they must for Spark's own writer."""


def numbers(first: int, count: int, factor: int = 1) -> pa.Table:
    ids = range(first, first + count)
    values = pa.array([number * factor for number in ids], pa.int64())
    return pa.table({"id": pa.array(ids, pa.int64()), "v": values})


def _executor(spark: SparkSession | None) -> Any:
    return EmbeddedExecutor(threads=1) if spark is None else SparkExecutor(spark)


def _ingest(table: Table, spark: SparkSession | None) -> object:
    rows = numbers(ROWS, ROWS).to_reader(max_chunksize=500)
    return table.new_write_builder().with_commit_user(USER).write(rows, _executor(spark))


def _store(table: Table, spark: SparkSession | None) -> object:
    rows: Any = numbers(ROWS, ROWS)
    if spark is not None:
        rows = spark.range(ROWS, 2 * ROWS, 1, _PARTS).selectExpr("id", "id as v")
    return table.new_write_builder().with_commit_user(USER).write(rows, _executor(spark))


def _compact(strategy: str) -> Callable[[Table, SparkSession | None], object]:
    def compact(table: Table, spark: SparkSession | None) -> object:
        builder = table.new_compaction_builder().with_commit_user(USER).with_strategy(strategy)
        if strategy == "sort":
            builder = builder.with_order(["v", "id"], "zorder")
        return builder.run(_executor(spark))

    return compact


def _import(table: Table, spark: SparkSession | None) -> object:
    source = SegmentSource(path=str(Path(table.path).parents[2] / "landing"))
    return table.segments().add(source, _executor(spark), commit_user=USER)


def _alter(table: Table, spark: SparkSession | None) -> object:
    if str(table.schema.by_name["v"].type) != "INT":
        table.alter_checked([update_column_type("v", "INT")], executor=_executor(spark))
    return None


def _delete(table: Table, spark: SparkSession | None) -> object:
    builder = table.new_row_change_builder().with_commit_user(USER)
    thirds = ", ".join(map(str, range(0, ROWS, 3)))  # some of each file
    return builder.delete(f"id IN ({thirds})", _executor(spark))


def _update(table: Table, spark: SparkSession | None) -> object:
    builder = table.new_row_change_builder().with_commit_user(USER)
    return builder.update({"v": 7}, "id < 1000", _executor(spark))


def _merge(table: Table, spark: SparkSession | None) -> object:
    builder = table.new_row_change_builder().with_commit_user(USER)
    first = ROWS // 2
    if spark is None:
        return builder.merge(numbers(first, ROWS, 3), on=["id"])
    frame = spark.range(first, first + ROWS, 1, _PARTS).selectExpr("id", "id * 3 as v")
    return merge_dataframe(builder, frame, on=["id"])


def _more(rows: Rows) -> Rows:
    return rows | {number: number for number in range(ROWS, 2 * ROWS)}


_KEYED: dict[str, Any] = {"keys": ("id",), "options": {"bucket": "3"}}
JOBS: dict[str, Job] = {
    "ingestion": Job(perform=_ingest, after=_more),
    "IO manager": Job(perform=_store, after=_more, **_KEYED),
    "append by Spark": Job(perform=_store, after=_more, is_local=True),
    "compaction": Job(perform=_compact("full"), after=lambda rows: rows, **_KEYED),
    "sort": Job(perform=_compact("sort"), after=lambda rows: rows),
    "segment import": Job(perform=_import, after=_more),
    "schema evolution": Job(  # without statistics, which would decide it, files are read
        perform=_alter,
        after=lambda rows: rows,
        options={"metadata.stats-mode": "none"},
        snapshots=0,
    ),
    "delete": Job(
        perform=_delete, after=lambda rows: {n: v for n, v in rows.items() if n % 3}
    ),
    "update": Job(
        perform=_update, after=lambda rows: {n: 7 if n < 1000 else v for n, v in rows.items()}
    ),
    "merge": Job(
        perform=_merge,
        after=lambda rows: rows | {n: n * 3 for n in range(ROWS // 2, ROWS // 2 + ROWS)},
    ),
}  # fmt: skip


def prepare(directory: Path, job: Job) -> Path:
    """Make a table of some commits, and a folder of files; return where the table is."""
    declared: dict[str, Any] = {"primary_keys": job.keys, "options": job.options}
    table = new_table(directory / "warehouse", _COLUMNS, name="d.t", **declared)
    each = ROWS // _FILES + 1
    for first in range(0, ROWS, each):
        rows = numbers(first, min(each, ROWS - first))
        table.new_write_builder().write(rows, EmbeddedExecutor(threads=1))
    for number in range(_FILES):
        rows = numbers(ROWS + number * each, min(each, ROWS - number * each))
        foreign.write(directory / "landing" / f"{number}.parquet", rows)
    return Path(table.path)


def before() -> Rows:
    return {number: number for number in range(ROWS)}


def end_and_check(directory: Path, job: Job) -> bool:
    """Look at the state, repeat the job, and check; return whether it had been committed."""
    table = open_table(str(directory / "warehouse" / "d.db" / "t"))
    made = len(table.snapshots())
    landing = foreign.states(directory / "landing")
    assert read(table) in (sorted(before().items()), sorted(job.after(before()).items()))
    check_whole(table._store)
    job.perform(table, None)
    again = open_table(table.path)
    assert read(again) == sorted(job.after(before()).items())
    assert len(again.snapshots()) == _FILES + job.snapshots
    check_whole(again._store)
    assert foreign.states(directory / "landing") == landing
    return made > _FILES


def below(root: int) -> Iterator[tuple[int, bytes]]:
    """Yield (pid, command line) of all that a process started, directly or not."""
    parents, commands = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
                commands[int(entry.name)] = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            parents[int(entry.name)] = int(parent)
    for pid, command in commands.items():
        ancestor: int | None = pid
        while ancestor is not None and ancestor != root:
            ancestor = parents.get(ancestor)
        if ancestor is not None and pid != root:
            yield pid, command


class Opened:
    """Waits, by inotify, until another process has opened so many data files below a directory."""

    def __init__(self, directory: Path) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._events = libc.inotify_init1(os.O_NONBLOCK)
        for folder in (directory, *(path for path in directory.rglob("*") if path.is_dir())):
            libc.inotify_add_watch(self._events, os.fsencode(folder), _IN_OPEN)

    def wait(self, files: int, over: threading.Event) -> bool:
        """Return whether it was so, False if something else was over before."""
        while files > 0:
            if select.select([self._events], [], [], _POLL_SECONDS)[0]:
                files -= os.read(self._events, 1 << 16).count(b".parquet")
            elif over.is_set():
                return False
        return True

    def close(self) -> None:
        os.close(self._events)


class Killer:
    """Kills, while a job runs: first whoever reads or writes its files, then one now and then."""

    def __init__(self, rng: random.Random, seconds: float, directory: Path) -> None:
        self.kills: list[str] = []
        self._rng = rng
        self._opened = Opened(directory)
        self._done = threading.Event()
        self._seconds = sorted(rng.uniform(0, seconds) for _ in range(rng.choice((0, 1, 2))))
        self._thread = threading.Thread(target=self._run, args=(_victims(rng), rng.randint(1, 6)))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
        self._opened.close()

    def _run(self, first: "_Victims", files: int) -> None:
        if not self._opened.wait(files, self._done):
            return
        self._kill(first)
        began = time.monotonic()
        for second in self._seconds:
            if self._done.wait(max(0.0, began + second - time.monotonic())):
                return
            name, pids = _victims(self._rng)
            self._kill((name, [self._rng.choice(pids)] if pids else []))

    def _kill(self, victims: "_Victims") -> None:
        name, pids = victims
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                self.kills.append(name)


_Victims = tuple[str, list[int]]


def _victims(rng: random.Random) -> _Victims:
    """Return the names of executors' or workers' processes, and a function that lists them."""
    name, wanted = rng.choice((("executor", _EXECUTOR), ("worker", _WORKER)))
    return name, [pid for pid, command in below(os.getpid()) if wanted in command]


def _failed_tasks(session: SparkSession) -> int:
    tracker = session.sparkContext.statusTracker()
    jobs = map(tracker.getJobInfo, tracker.getJobIdsForGroup())
    stages = {stage for job in jobs if job is not None for stage in job.stageIds}
    return sum(info.numFailedTasks for info in map(tracker.getStageInfo, stages) if info)


def new_session(job: Job) -> SparkSession:
    """Start a cluster of two executors, or a session of two cores."""
    extra = {
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": JVM_OPTIONS,
        "spark.deploy.maxExecutorRetries": "-1",
        "spark.task.maxFailures": "3",
        "spark.sql.shuffle.partitions": "3",
        "spark.ui.enabled": "false",
    }
    master = "local[2]" if job.is_local else "local-cluster[2,1,512]"
    settings = SparkSettings(master=master, driver_memory="512m", extra=extra)
    return get_session(settings)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(directory: Path, name: str, rounds: int, rng: random.Random) -> None:
    """Do a job, and kill its processes; print one line of JSON for each round."""
    job = JOBS[name]
    session = new_session(job)
    prepare(directory / "template", job)
    seconds = math.inf
    for number in range(-_UNHARMED, rounds):
        copy = directory / "copy"
        shutil.copytree(directory / "template", copy)
        table = open_table(str(copy / "warehouse" / "d.db" / "t"))
        began, raised = time.monotonic(), None
        killer = Killer(rng, min(seconds, LONGEST_SECONDS), copy)
        failed = _failed_tasks(session)
        with nullcontext() if number < 0 else killer:
            try:
                job.perform(table, session)
            except Exception as error:  # noqa: BLE001  # Spark gives up after some failures
                raised = type(error).__name__
        failed = _failed_tasks(session) - failed
        seconds = min(seconds, time.monotonic() - began)
        committed = end_and_check(copy, job)
        assert raised is None or number >= 0, raised
        assert raised is not None or committed == bool(job.snapshots)
        shutil.rmtree(copy)
        outcome = {
            "kills": killer.kills, "failed": failed, "raised": raised, "committed": committed
        }  # fmt: skip
        _say(json.dumps({"job": name, "round": number, "seconds": round(seconds, 2)} | outcome))
    stop_session()


def perform_and_die(directory: Path, name: str) -> None:
    """Do a job on one copy after the other, and say when, until killed."""
    job = JOBS[name]
    session = new_session(job)
    for number in itertools.count():
        copy = directory / str(number)
        shutil.copytree(directory / "template", copy)
        table = open_table(str(copy / "warehouse" / "d.db" / "t"))
        (copy / BEGUN).touch()
        _say("begin")
        job.perform(table, session)
        _say("end")


if __name__ == "__main__":
    if len(sys.argv) > 3:
        main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), random.Random(sys.argv[4]))  # noqa: S311
    else:
        perform_and_die(Path(sys.argv[1]), sys.argv[2])
