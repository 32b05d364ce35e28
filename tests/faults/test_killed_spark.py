"""Executors, workers and drivers of Spark killed at any call of a job; a rerun completes it."""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.testkit.processes import LONGEST_SECONDS

spark_jobs = pytest.importorskip("tests.testkit.faults.spark_jobs")
spark_steps = pytest.importorskip("tests.testkit.faults.spark_steps")

ROUNDS = 6
"""Times each job is done while executors and workers are killed."""
DRIVERS = 3
"""Drivers of each job that are killed; each is a cluster of its own."""
STEPPED = ["IO manager", "delete", "update", "merge"]
"""The jobs whose drivers die at every step."""
SEED = os.environ.get("PAIMON_FUZZ_SEED", "1")


def begin(*arguments: str, module: Any = spark_jobs) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", module.__name__, *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)


def end_process(process: "subprocess.Popen[str]") -> None:
    """Leave nothing of a cluster behind."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


@pytest.mark.parametrize("job", spark_jobs.JOBS)
def test_job_repeated_without_spark_commits_once(job: str, tmp_path: Path) -> None:
    """The jobs, and the facts that show whether they are done."""
    work = spark_jobs.JOBS[job]
    spark_jobs.prepare(tmp_path, work)
    assert not spark_jobs.end_and_check(tmp_path, work)
    assert spark_jobs.end_and_check(tmp_path, work) == bool(work.snapshots)


@pytest.mark.hunt_only
@pytest.mark.spark
@pytest.mark.parametrize("job", [n for n, job in spark_jobs.JOBS.items() if not job.is_local])
def test_job_survives_killed_executors_and_workers(job: str, tmp_path: Path) -> None:
    process = begin(str(tmp_path), job, str(ROUNDS), f"{SEED} {job}")
    try:
        output, _ = process.communicate(timeout=LONGEST_SECONDS * ROUNDS)
    finally:
        end_process(process)
    assert process.returncode == 0, output
    sys.stdout.write(output)  # the steps of a hunt; `-rP` shows them
    rounds: list[dict[str, Any]] = [json.loads(line) for line in output.splitlines()]
    assert any(each["failed"] for each in rounds), "no task died"


@pytest.mark.hunt_only
@pytest.mark.spark
@pytest.mark.parametrize("number", range(DRIVERS))
@pytest.mark.parametrize("job", spark_jobs.JOBS)
def test_job_survives_killed_driver(job: str, number: int, tmp_path: Path) -> None:
    """Its Python or its JVM dies: each commit is whole, and the same user completes the rest."""
    rng = random.Random(f"{SEED} {job} {number}")  # noqa: S311
    work = spark_jobs.JOBS[job]
    spark_jobs.prepare(tmp_path / "template", work)
    process = begin(str(tmp_path), job)
    try:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(3)] == ["begin\n", "end\n", "begin\n"]
        began = time.monotonic()
        assert [process.stdout.readline() for _ in range(2)] == ["end\n", "begin\n"]
        seconds = rng.uniform(0, time.monotonic() - began)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(seconds)
        victims = [pid for pid, line in spark_jobs.below(process.pid) if spark_jobs.JVM in line]
        killed = rng.choice([process.pid, *victims[:1]])
        os.kill(killed, signal.SIGKILL)
        begun_on = [int(at.parent.name) for at in tmp_path.glob(f"*/{spark_jobs.BEGUN}")]
        copy = tmp_path / str(max(begun_on))
        committed = spark_jobs.end_and_check(copy, work)
    finally:
        end_process(process)
    spark_jobs.end_and_check(copy, work)
    victim = "Python" if killed == process.pid else "JVM"
    report = {"job": job, "copy": copy.name, "killed": victim, "committed": committed}
    sys.stdout.write(f"{json.dumps(report)}\n")


@pytest.mark.hunt_only
@pytest.mark.spark
@pytest.mark.parametrize("victim", spark_steps.Victim)
@pytest.mark.parametrize("step", spark_steps.Step)
@pytest.mark.parametrize("job", STEPPED)
def test_job_survives_killed_driver_at_every_step(
    job: str, step: Any, victim: Any, tmp_path: Path
) -> None:
    """Only published snapshots are committed; a commit that began needs no JVM."""
    work = spark_jobs.JOBS[job]
    spark_jobs.prepare(tmp_path / "template", work)
    process = begin(str(tmp_path), job, step, victim, SEED, module=spark_steps)
    dies = victim is spark_steps.Victim.PYTHON
    try:
        output, _ = process.communicate(timeout=LONGEST_SECONDS)
        assert process.returncode == (-signal.SIGKILL if dies else 0), output
        assert (tmp_path / "struck").exists(), output
        copy = tmp_path / spark_steps.COPY
        committed = spark_jobs.end_and_check(copy, work)  # while tasks may still run
    finally:
        end_process(process)
    spark_jobs.end_and_check(copy, work)
    needs_jvm = step in (spark_steps.Step.PLAN, spark_steps.Step.TASKS)
    assert committed == (step is spark_steps.Step.HINT if dies else not needs_jvm)
    if not dies:
        [report] = map(json.loads, output.splitlines())
        assert (report["raised"] is None) == committed, report
        sys.stdout.write(output)
