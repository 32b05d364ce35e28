"""`make soak`: sixty days of a small deployment in minutes; figures per day, as a table and a plot.

python -m tools.soak [--days 60] [--rounds 2] [--into .soak]

In the days all runs, schedules, sensors and automation conditions are Dagster's, in this process,
by a clock that goes a day on after each day. Whoever asks for the time is answered by it; files are
of its age. The rounds before are minutes of the same deployment under `dagster-daemon`
(`daemon.py`). It ends with an error if a row is wrong, a run failed or orphans are left.

Files on disk beside live data are of two kinds, and the figures show both. `data_over_live` is
above one by the files that only kept snapshots name: a day of them, here, so that on a day that
compacts all of a small table it is nearly two. `metadata_bytes` are a day's commits to ten tables:
on day 5 a quarter of a megabyte, beside half a megabyte of data. From there they grow with the
live files: the list of segments has three copies, and a row for each file, foreign or its own.
"""

import argparse
import datetime as dt
import json
import logging
import os
import shutil
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import dagster as dg

from paimon_assets.engine.control.clock import SystemClock
from tools.soak.daemon import live_with_daemon
from tools.soak.deployment import KEPT_DAYS, KEPT_WEEKS, Deployment
from tools.soak.figures import Day, plot, table_text

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
_FILES_A_DAY = 8
_CHANGES_A_DAY = 3


class Soak:
    def __init__(self, home: Path) -> None:
        self.home = home
        self.now_ms = 0
        self.deployment = Deployment(home)
        self.deployment.begin()
        self.nightly = self.deployment.schedules("0 4 * * *", "0 5 * * *")
        self.instance = dg.DagsterInstance.ephemeral(tempdir=str(home))
        self.cursors: dict[str, str | None] = {}
        self.automation: Any = None
        self.versions: set[str] = set()
        self.rewritten = 0
        self.seconds: list[float] = []
        self.failed: list[str] = []
        self.requested_below = 0
        self.orphans = 0
        self._automate()
        setattr(SystemClock, "now_millis", lambda _: self._tick())  # noqa: B010  # the soak's clock

    def live(self, day: int) -> Day:
        made, date = self.deployment, (START + dt.timedelta(days=day)).date()
        self.now_ms = int((START + dt.timedelta(days=day)).timestamp() * 1000)
        self.seconds, self.orphans = [], 0
        before = self._newest_log()
        for part in range(_CHANGES_A_DAY):
            made.change(day, part)
            self._materialize("changes")
        for name in made.fill(day, date):
            self._materialize(name)
        made.refuse()
        self._materialize("audited", succeeds=False)
        made.widen(day)
        made.land(day, _FILES_A_DAY)
        self._sense(made.new_files, made.assets["files"])
        made.archive(day)
        self._sense(made.new_segments, made.assets["archive"])
        if day % 7 == 1:
            made.keep_own(day)
            made.drop(day // 7 - KEPT_WEEKS)
        self._automate()
        self._sense(made.file_debt, made.compaction)
        self._age()
        for number, schedule in enumerate(self.nightly):
            self.now_ms += 3_600_000
            self._follow(schedule, number)
        self._age()
        self._automate()
        self.rewritten += self._compacted_since(before)
        made.forget(date - dt.timedelta(days=KEPT_DAYS - 1))
        return self._figures(day)

    def _tick(self) -> int:
        self.now_ms += 1
        return self.now_ms

    def _materialize(self, name: str, *, succeeds: bool = True) -> None:
        made, began = self.deployment, time.monotonic()
        asset = made.assets[name]
        checks = [check for check in made.checks if asset.key in check.keys_by_input_name.values()]
        result = dg.materialize(
            [asset, *checks],
            resources={"paimon": made.paimon},
            instance=self.instance,
            raise_on_error=False,
        )
        self.seconds.append(time.monotonic() - began)
        if result.success != succeeds:
            self._note(f"{name} on day {self._day}", result)
        for evaluation in result.get_asset_check_evaluations():
            if succeeds and not evaluation.passed and evaluation.check_name == "small_files":
                plan = made.paimon.catalog().get_table(f"soak.{name}").new_compaction_builder()
                if not plan.plan().units:
                    self.failed.append(f"small_files of {name} on day {self._day}")
        for event in result.get_asset_materialization_events() if name == "still" else ():
            tags = event.step_materialization_data.materialization.tags or {}
            self.versions.add(tags["dagster/data_version"])

    def _note(self, subject: str, result: dg.ExecuteInProcessResult) -> None:
        """Note that a run ended otherwise than it should, and why."""
        ends = [event for event in result.all_events if event.is_failure]
        self.failed.append(
            f"{subject}: " + " ".join(str(each.event_specific_data) for each in ends)
        )

    @property
    def _day(self) -> int:
        return int((self.now_ms / 1000 - START.timestamp()) // 86_400)

    def _sense(self, sensor: dg.SensorDefinition, target: Any) -> None:
        with dg.build_sensor_context(
            instance=self.instance,
            cursor=self.cursors.get(sensor.name),
            resources={"paimon": self.deployment.paimon},
        ) as context:
            ticked: Any = sensor(context)
        if isinstance(ticked, dg.SkipReason):
            return
        self.cursors[sensor.name] = ticked.cursor or self.cursors.get(sensor.name)
        for request in ticked.run_requests or ():
            self._run(target, request.run_config, request.tags)

    def _follow(self, schedule: dg.ScheduleDefinition, number: int) -> None:
        at = START + dt.timedelta(days=self._day, hours=4 + number)
        with dg.build_schedule_context(
            instance=self.instance, scheduled_execution_time=at
        ) as context:
            requests = schedule.evaluate_tick(context).run_requests or ()
        jobs = (self.deployment.compaction, self.deployment.maintenance)
        for request in requests:
            self._run(jobs[number], request.run_config, request.tags)

    def _run(self, target: Any, run_config: Any, tags: Any) -> None:
        began, resources = time.monotonic(), {"paimon": self.deployment.paimon}
        settings = {"run_config": run_config, "instance": self.instance, "tags": dict(tags or {})}
        if isinstance(target, dg.JobDefinition):
            result = target.execute_in_process(
                resources=resources, raise_on_error=False, **settings
            )
        else:
            result = dg.materialize([target], resources=resources, raise_on_error=False, **settings)
        self.seconds.append(time.monotonic() - began)
        if not result.success:
            self._note(f"a run on day {self._day}", result)
        for event in result.all_events:
            if event.event_type_value == "ASSET_OBSERVATION":
                found = event.asset_observation_data.asset_observation.metadata
                if "paimon/clean_orphans" in found:
                    self.orphans += int(str(found["paimon/clean_orphans"].value))

    def _automate(self) -> None:
        """Let the daemon's automation look once: assets below a table run for new data only."""
        ticked = dg.evaluate_automation_conditions(
            defs=self.deployment.definitions,
            instance=self.instance,
            cursor=None if self.automation is None else self.automation.cursor,
            asset_selection=dg.AssetSelection.assets(self.deployment.below.key),
        )
        self.automation = ticked
        if ticked.total_requested:
            self.requested_below += 1
            dg.materialize([self.deployment.below], instance=self.instance)

    def _log(self) -> Any:
        return self.deployment.paimon.catalog().get_table("soak.log")

    def _newest_log(self) -> int:
        catalog = self.deployment.paimon.catalog()
        newest = catalog.table_exists("soak.log") and self._log().latest_snapshot()
        return newest.id if newest else 0

    def _compacted_since(self, before: int) -> int:
        """Return the bytes that compactions of the log wrote."""
        table, written = self._log(), 0
        for number in range(before + 1, self._newest_log() + 1):
            if table.snapshot(number).commit_kind == "COMPACT":
                at = {
                    entry.file.file_name
                    for entry in table.state.live_files(table.snapshot(number - 1))
                }
                for entry in table.state.live_files(table.snapshot(number)):
                    written += entry.file.file_size * (entry.file.file_name not in at)
        return written

    def _age(self) -> None:
        """Set the age of files by the clock."""
        for folder, _, names in os.walk(self.home / "warehouse"):
            for path in (folder, *(f"{folder}/{name}" for name in names)):
                if Path(path).stat().st_mtime * 1000 > self.now_ms:
                    os.utime(path, (self.now_ms / 1000, self.now_ms / 1000))

    def _figures(self, day: int) -> Day:
        catalog = self.deployment.paimon.catalog()
        tables = {name: catalog.get_table(f"soak.{name}") for name in self.deployment.truth}
        live = sum(e.file.file_size for t in tables.values() for e in t.state.live_files())
        log = sum(entry.file.file_size for entry in tables["log"].state.live_files())
        listed = [*os.walk(self.home / "warehouse"), *os.walk(self.home / "archive")]
        sizes = [Path(f"{at}/{name}").stat().st_size for at, _, names in listed for name in names]
        data = [
            Path(f"{at}/{name}").stat().st_size
            for at, _, names in listed
            for name in names
            if "/bucket-" in at or "/archive/week=" in at
        ]
        version = tables["still"].latest_snapshot()
        return Day(
            day=day,
            runs=len(self.seconds),
            seconds_a_run=sum(self.seconds) / len(self.seconds),
            live_bytes=live,
            data_over_live=sum(data) / live,
            disk_over_live=sum(sizes) / live,
            metadata_bytes=sum(sizes) - sum(data),
            files=len(sizes),
            live_files=sum(len(table.state.live_files()) for table in tables.values()),
            directories=len(listed),
            snapshots=sum(
                len(list(Path(t.path, "snapshot").glob("snapshot-*"))) for t in tables.values()
            ),
            branches=sum(len(table.branches.list()) for table in tables.values()),
            log_rewritten=self.rewritten / log,
            versions=len(self.versions),
            requested_below=self.requested_below,
            orphans=self.orphans,
            newest_still=version.id if version else 0,
        )


def live_days(home: Path, count: int) -> list[str]:
    """Live through so many days, and show their figures; return the faults."""
    soak, days, wrong = Soak(home), [], set[str]()
    for day in range(1, count + 1):
        days.append(soak.live(day))
        if day % 5 == 0 or day in (1, count):
            wrong |= {f"{name} on day {day}" for name in soak.deployment.wrong_tables()}
            print(days[-1].line(), *sorted(wrong), *soak.failed, flush=True)  # noqa: T201
    (home / "figures.json").write_text(json.dumps([vars(day) for day in days], indent=1))
    (home / "figures.svg").write_text(plot(days))
    print(table_text(days), flush=True)  # noqa: T201
    return [*sorted(wrong), *soak.failed, *([f"{soak.orphans} orphans"] * bool(soak.orphans))]


def main() -> int:
    """Run it; return 1 if something is wrong."""
    parser = argparse.ArgumentParser(prog="make soak")
    parser.add_argument("--days", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=2, help="minutes with a daemon; 0: none")
    parser.add_argument("--into", type=Path, default=Path(".soak"))
    given = parser.parse_args()
    shutil.rmtree(given.into, ignore_errors=True)
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    home, found = given.into.resolve(), []
    if given.rounds:
        found += live_with_daemon(home / "daemon", given.rounds)
    if given.days:
        found += live_days(home / "days", given.days)
    print("\n".join(found) or "All rows are right, and no run failed.")  # noqa: T201
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
