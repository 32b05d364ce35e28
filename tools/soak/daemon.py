"""Minutes of the deployment under `dagster-daemon`: its schedules, sensors, queue and launcher.

Files and records from outside are written here, a round a minute. Every run is asked for, queued,
launched as a process of its own and recorded by Dagster; nothing here runs one. The tables' pools
let one run write a table at a time. At the end the rows must be those of the model.
"""

import contextlib
import datetime as dt
import os
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
from dagster._core.scheduler.instigation import TickStatus

from tests.testkit.processes import LONGEST_SECONDS, end
from tools.soak.deployment import Deployment
from tools.soak.location import HOME, RETAINED

ROOT = Path(__file__).resolve().parents[2]
_ROUND_SECONDS = 60
_CHANGES = 2
_FILES = 4
_SMALL_FILES = 6
"""From five on there is file debt."""
_SETTINGS = """
telemetry: {enabled: false}
concurrency: {runs: {max_concurrent_runs: 3}, pools: {default_limit: 1, granularity: op}}
"""
_WORKSPACE = """
load_from:
  - python_module: {module_name: tools.soak.location, working_directory: "%s"}
"""
_ASKERS = {"dagster/sensor_name", "dagster/schedule_name"}
_EXPECTED = {
    "batches", "soak__files_new_files", "soak__archive_new_segments", "file_debt", "automation",
    "writers_schedule", "compaction_job_schedule", "maintenance_job_schedule",
}  # fmt: skip


_UNFINISHED = [
    dg.DagsterRunStatus.QUEUED, dg.DagsterRunStatus.NOT_STARTED, dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.CANCELING,
]  # fmt: skip


def live_with_daemon(home: Path, rounds: int) -> list[str]:
    """Live through so many minutes; show the runs by their triggers, and return the faults."""
    settings = home / "dagster_home"
    settings.mkdir(parents=True)
    (settings / "dagster.yaml").write_text(_SETTINGS)
    (settings / "workspace.yaml").write_text(_WORKSPACE % ROOT)
    made, began = Deployment(home, RETAINED), time.monotonic()
    made.begin()
    with _daemon(home) as process, dg.DagsterInstance.from_config(str(settings)) as instance:
        for number in range(1, rounds + 1):
            _lay_down(made, number)
            _wait(process, lambda: False, _ROUND_SECONDS)
        _wait(process, lambda: _is_done(made, instance), LONGEST_SECONDS)
        made.drop(0)
        _wait(process, lambda: False, _ROUND_SECONDS)  # whoever asks again asks now
        _wait(process, lambda: not _count_unfinished(instance), LONGEST_SECONDS)
        found = [f"{name} with a daemon" for name in made.wrong_tables()]
        found += [*_failures(instance, rounds), *_show_runs(instance)]
    print(f"{time.monotonic() - began:.0f} seconds with a daemon", *found, flush=True)  # noqa: T201
    return found


def _lay_down(made: Deployment, number: int) -> None:
    """Let a round's changes, rows, files and segments come."""
    for part in range(_CHANGES):
        made.change(number, part)
    made.fill(number, dt.datetime.now(dt.UTC).date())
    made.refuse()
    made.land(number, _FILES)
    made.archive(number)
    for again in range(_SMALL_FILES):
        made.widen(number * 10 + again)


@contextmanager
def _daemon(home: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start all schedules and sensors, and the daemon that follows them."""
    environment = {**os.environ, HOME: str(home), "DAGSTER_HOME": str(home / "dagster_home")}
    workspace = ["-w", str(home / "dagster_home" / "workspace.yaml")]
    programs = Path(sys.executable).parent
    for kind in ("schedule", "sensor"):
        command = [str(programs / "dagster"), kind, "start", "--start-all", *workspace]
        subprocess.run(command, cwd=ROOT, env=environment, check=True, stdout=subprocess.DEVNULL)
    with (home / "daemon.log").open("wb") as log:
        process = subprocess.Popen(
            [str(programs / "dagster-daemon"), "run", *workspace],
            cwd=ROOT,
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            end(process)


def _wait(process: subprocess.Popen[bytes], until: Callable[[], bool], seconds: int) -> None:
    """Wait until something is so, at most so long; the daemon must live."""
    last = time.monotonic() + seconds
    while time.monotonic() < last and not until():
        with contextlib.suppress(subprocess.TimeoutExpired):
            raise RuntimeError(f"The daemon ended with {process.wait(timeout=1)}; see daemon.log.")


def _count_unfinished(instance: dg.DagsterInstance) -> int:
    return instance.get_runs_count(dg.RunsFilter(statuses=_UNFINISHED))


def _is_done(made: Deployment, instance: dg.DagsterInstance) -> bool:
    """Whether all that was laid down is in the tables."""
    return (
        not made.batches.waiting() and not _count_unfinished(instance) and not made.wrong_tables()
    )


def _failures(instance: dg.DagsterInstance, refused: int) -> list[str]:
    """Return which runs and ticks failed, but for the runs whose batch is refused."""
    failed = instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.FAILURE]))
    audited = {dg.AssetKey(["soak", "audited"])}
    found = [
        f"run {run.run_id} of {run.job_name} failed"
        for run in failed
        if set(run.asset_selection or ()) != audited
    ]
    if len(failed) - len(found) != refused:
        found.append(f"{len(failed) - len(found)} batches are refused instead of {refused}")
    for state in instance.all_instigator_state():
        ticks = instance.get_ticks(
            state.instigator_origin_id, state.selector_id, statuses=[TickStatus.FAILURE]
        )
        found += [f"a tick of {state.name} failed: {tick.error}" for tick in ticks]
    return found


def _show_runs(instance: dg.DagsterInstance) -> list[str]:
    """Show runs and seconds by trigger; return the triggers without runs."""
    runs: Counter[str] = Counter()
    waited: defaultdict[str, float] = defaultdict(float)
    ran: defaultdict[str, float] = defaultdict(float)
    for record in instance.get_run_records():
        tags = record.dagster_run.tags
        asker = next((tags[tag] for tag in _ASKERS if tag in tags), "nobody")
        runs[asker] += 1
        if record.start_time and record.end_time:
            waited[asker] += record.start_time - record.create_timestamp.timestamp()
            ran[asker] += record.end_time - record.start_time
    print(f"{'asked by':28}{'runs':>6}{'seconds before':>16}{'in it':>8}")  # noqa: T201
    for asker, count in sorted(runs.items()):
        mean = f"{waited[asker] / count:>16.1f}{ran[asker] / count:>8.1f}"
        print(f"{asker:28}{count:>6}{mean}")  # noqa: T201
    return [f"{asker} asked for no run" for asker in sorted(_EXPECTED - set(runs))]
