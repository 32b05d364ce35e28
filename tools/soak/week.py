"""A week of a table that follows a log: a commit every five minutes, compacted hourly.

python -m tools.soak.week [--commits 2016] [--into .soak-week]

By a clock that goes on with each commit. A line a day: CPU of runs and of compactions, files and
bytes. It ends with an error if a row of the table is wrong.
"""

import argparse
import datetime as dt
import json
import logging
import shutil
import time
import warnings
from pathlib import Path
from typing import Any

import dagster as dg
import numpy as np

from paimon_assets import Schema, Table, assets
from paimon_assets.cdc import build_change_log_asset
from paimon_assets.engine.control.clock import SystemClock

_START_MS = int(dt.datetime(2026, 1, 1, tzinfo=dt.UTC).timestamp() * 1000)
_MINUTES, _COMMITS_A_COMPACTION, _COMMITS_A_DAY = 5, 12, 288
_ROWS, _CHANGES = 20_000, 200
FOLLOWED = {
    "bucket": "1",
    "deletion-vectors.enabled": "true",
    "deletion-vectors.merge-on-read": "true",
}
"""The options of docs/cdc/change-data-capture.md."""


class Week:
    def __init__(self, home: Path) -> None:
        self.folder, self.warehouse = home / "landing", home / "warehouse"
        self.folder.mkdir(parents=True)
        self.rows: dict[int, str] = {}
        self.random = np.random.default_rng(0)
        self.next_key = self.lsn = 0
        self.seen: set[Path] = set()
        self.written = 0
        source = assets.FileSource(
            folder=str(self.folder), format="debezium-json", remembered_files=_COMMITS_A_DAY
        )
        self.asset = build_change_log_asset(
            "soak.followed",
            Schema.of(
                {"id": "BIGINT", "state": "STRING", "note": "STRING"},
                primary_keys=["id"], options=FOLLOWED,
            ),
            source=source,
        )  # fmt: skip
        self.compaction = assets.build_compaction_job([self.asset])
        self.maintenance = assets.build_maintenance_job([self.asset])
        self.resources = {
            "paimon": assets.PaimonCatalogResource(
                warehouse=str(self.warehouse), executor="embedded"
            )
        }
        self.instance = dg.DagsterInstance.ephemeral()

    def land(self, number: int, *, inserts: int, updates: int, deletes: int) -> None:
        lines = []
        for _ in range(inserts):
            self.rows[self.next_key] = f"note {self.next_key}"
            lines.append(self._line("c", self.next_key, self.rows[self.next_key]))
            self.next_key += 1
        known = self.random.permutation([*self.rows])[: updates + deletes].tolist()
        for key in known[:updates]:
            self.rows[key] = f"note {self.lsn} of {key}"
            lines.append(self._line("u", key, self.rows[key]))
        for key in known[updates:]:
            del self.rows[key]
            lines.append(self._line("d", key, ""))
        hidden = self.folder / f".{number:06}"
        hidden.write_text("\n".join(lines) + "\n", encoding="utf-8")
        hidden.rename(self.folder / f"{number:06}.json")

    def _line(self, op: str, key: int, note: str) -> str:
        self.lsn += 1
        row = {"id": key, "state": f"s{self.lsn % 7}", "note": note}
        source = {"connector": "postgresql", "name": "pg", "db": "shop", "schema": "public",
                  "table": "followed", "lsn": self.lsn, "ts_ms": _START_MS}  # fmt: skip
        sides = {"before": row if op == "d" else None, "after": None if op == "d" else row}
        return json.dumps({"op": op, **sides, "source": source})

    def seconds(self, subject: Any) -> float:
        """Run an asset or a job; return its seconds of CPU."""
        begun = time.process_time()
        done: Any
        if isinstance(subject, dg.AssetsDefinition):
            done = dg.materialize([subject], resources=self.resources, instance=self.instance)
        else:
            done = subject.execute_in_process(resources=self.resources, instance=self.instance)
        assert done.success
        seconds = time.process_time() - begun
        new = {path for path in self.warehouse.rglob("*") if path.is_file()} - self.seen
        self.written += sum(path.stat().st_size for path in new)
        self.seen |= new
        return seconds

    @property
    def table(self) -> Table:
        return self.resources["paimon"].catalog().get_table("soak.followed")

    def check(self) -> None:
        found = self.table.to_arrow().select(["id", "note"]).to_pydict()
        assert dict(zip(found["id"], found["note"], strict=True)) == self.rows


def _line_of(day: int, week: Week, commits: list[float], compactions: list[float]) -> str:
    files = [path for path in week.warehouse.rglob("*") if path.is_file()]
    metadata = [path for path in files if not path.parent.name.startswith("bucket-")]
    parts = {
        "day": day,
        "commit_p50": np.percentile(commits, 50),
        "commit_p95": np.percentile(commits, 95),
        "compaction_p50": np.percentile(compactions, 50) if compactions else 0.0,
        "files": len(files),
        "mb": sum(path.stat().st_size for path in files) / 1e6,
        "manifests": sum(path.name.startswith("manifest-") for path in metadata),
        "metadata_mb": sum(path.stat().st_size for path in metadata) / 1e6,
        "snapshots": len(week.table.snapshots()),
        "written_mb": week.written / 1e6,
    }
    return " ".join(f"{name}={value:.4g}" for name, value in parts.items())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commits", type=int, default=7 * _COMMITS_A_DAY)
    parser.add_argument("--into", type=Path, default=Path(".soak-week"))
    choices = parser.parse_args()
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    shutil.rmtree(choices.into, ignore_errors=True)
    week, now = Week(choices.into), [_START_MS]
    setattr(SystemClock, "now_millis", lambda _: now[0])  # noqa: B010  # the soak's clock
    week.land(0, inserts=_ROWS, updates=0, deletes=0)
    week.seconds(week.asset)
    week.written = 0
    commits: list[float] = []
    compactions: list[float] = []
    for number in range(1, choices.commits + 1):
        now[0] += _MINUTES * 60_000
        week.land(number, inserts=_CHANGES // 4, updates=_CHANGES // 2, deletes=_CHANGES // 4)
        commits.append(week.seconds(week.asset))
        if number % _COMMITS_A_COMPACTION == 0:
            compactions.append(week.seconds(week.compaction))
        if number % _COMMITS_A_DAY == 0 or number == choices.commits:
            line = _line_of(-(-number // _COMMITS_A_DAY), week, commits, compactions)
            maintenance = week.seconds(week.maintenance)
            print(f"{line} maintenance={maintenance:.3g}", flush=True)  # noqa: T201
            week.check()
            commits, compactions, week.written = [], [], 0
            week.seen = {path for path in week.warehouse.rglob("*") if path.is_file()}
            week.instance = dg.DagsterInstance.ephemeral()
    week.check()


if __name__ == "__main__":
    main()
