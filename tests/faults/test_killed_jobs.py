"""Steps and runs of Dagster's multiprocess executor are killed at any call of any job, and resumed.

Whatever died, and however it is executed again: every row once, one snapshot, every file there.
"""

import itertools
import os
import select
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from paimon_assets.engine.table.api import open_catalog
from tests.testkit import foreign
from tests.testkit.faults import asset_jobs as jobs
from tests.testkit.faults.whole_tables import check_whole
from tests.testkit.faults.writers import fork_server
from tests.testkit.processes import LONGEST_SECONDS

STRIDE = 29
"""Calls between two deaths in a hunt; each job and fate begins at another call."""
SHIFT = int(os.environ.get("PAIMON_FUZZ_SEED", "1"))
CASES = list(itertools.product(jobs.Kind, jobs.Fate))
FEW = [
    (jobs.Kind.IO_MANAGER, jobs.Fate.STEP),
    (jobs.Kind.COMPACTION, jobs.Fate.POLICY),
    (jobs.Kind.INGESTION, jobs.Fate.RUN),
    (jobs.Kind.AUDIT, jobs.Fate.RUN),
    (jobs.Kind.SEGMENTS, jobs.Fate.BOTH),
]
"""The jobs that the suite kills, once each."""
IN_THE_MIDDLE = 45


def execute(home: Path, kind: jobs.Kind, fate: jobs.Fate) -> int:
    """Execute the job in a process of its own; return how it ended."""
    process = fork_server().Process(target=jobs.run, args=(str(home), kind.value, fate.value))
    process.start()
    process.join(LONGEST_SECONDS)
    assert process.exitcode is not None, "the run hangs"
    return process.exitcode


def let_go_on(pid: int) -> None:
    """Let a process that stands still go on, and wait for its end; it is no child of this one."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        os.kill(pid, signal.SIGCONT)
        assert select.select([process], [], [], LONGEST_SECONDS)[0], "the step hangs"
    finally:
        os.close(process)


def is_resumed_after_kill(home: Path, kind: jobs.Kind, fate: jobs.Fate, steps: int) -> bool:
    """Let someone die, execute again, and check; False if the job had ended before."""
    (home / "steps").write_text(str(steps))
    landing = foreign.states(home / "landing")
    ended = execute(home, kind, fate)
    taken = home / "taken"
    if taken.exists():
        assert ended == {jobs.Fate.STEP: 1, jobs.Fate.POLICY: 0}.get(fate, -signal.SIGKILL)
        try:
            if fate in (jobs.Fate.RUN, jobs.Fate.BOTH):
                with jobs.instance_of(home) as instance:
                    [died] = instance.get_runs()
                    instance.report_run_failed(died)  # as the daemon does that looks for dead runs
            if fate is not jobs.Fate.POLICY:
                assert execute(home, kind, fate) == 0, "executed again"
        finally:
            let_go_on(int(taken.read_text()))
    else:
        assert ended == 0
    table = open_catalog(str(home / "warehouse")).get_table(jobs.NAME)
    rows: list[Any] = table.new_read_builder().to_arrow()["n"].to_pylist()
    assert sorted(rows) == jobs.expected_rows(kind)
    assert [snapshot.id for snapshot in table.snapshots()] == list(range(1, len(jobs.BEFORE) + 2))
    check_whole(table._store)
    assert foreign.states(home / "landing") == landing
    return taken.exists()


def home_of(tmp_path: Path, kind: jobs.Kind) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    jobs.prepare(home, kind)
    jobs.instance_of(home).dispose()
    return home


@pytest.mark.parametrize(("kind", "fate"), FEW)
def test_killed_job_is_resumed(kind: jobs.Kind, fate: jobs.Fate, tmp_path: Path) -> None:
    assert is_resumed_after_kill(home_of(tmp_path, kind), kind, fate, IN_THE_MIDDLE)


@pytest.mark.hunt_only
@pytest.mark.parametrize(("kind", "fate"), CASES)
def test_job_survives_kill_at_any_call(kind: jobs.Kind, fate: jobs.Fate, tmp_path: Path) -> None:
    home, template = home_of(tmp_path, kind), tmp_path / "template"
    shutil.copytree(home, template)
    deaths = 0
    for steps in itertools.count((SHIFT * 7 + CASES.index((kind, fate))) % STRIDE, STRIDE):
        try:
            if not is_resumed_after_kill(home, kind, fate, steps):
                break
        except BaseException as error:
            error.add_note(f"{kind}, {fate}, moment {steps}")
            raise
        deaths += 1
        shutil.rmtree(home)
        shutil.copytree(template, home)
    assert deaths
    sys.stdout.write(f"{deaths} deaths\n")  # `-rP` shows it
