"""A large table that is upserted each hour, by names of files alone: what metadata costs.

    python -m tools.bench.bench_year [--days 365] [--partitions 400] [--hourly 100]

80,000 files of 128 MB are 10 TB: `--partitions` of 25 buckets of eight files, with statistics of 20
columns. Each hour brings `--hourly` buckets one small file, those of four partitions in turn; each
night a compaction joins these into as many large ones as before, and all but 24 snapshots expire.
Commits, plans and expirations are the engine's; what they say about a file is invented, so that no
data file is deleted. Seconds are of CPU, so that other work on the machine hardly shows.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table as Printed

from paimon_assets import Schema, Table
from paimon_assets.engine.codec.rows.binary_row import serialize_row
from paimon_assets.engine.contract.commit_message import (
    CommitMessage,
    CompactIncrement,
    DataIncrement,
)
from paimon_assets.engine.control.commit.file_store_commit import FileStoreCommit
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.maintenance.expire_snapshots import expire_snapshots
from paimon_assets.engine.control.managers.schema_manager import SchemaManager
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.engine.spec.metadata.data_file import DataFileMeta, SimpleStats
from paimon_assets.engine.spec.metadata.snapshot import CommitKind
from paimon_assets.engine.spec.paths import TablePaths
from paimon_assets.engine.spec.types.data_types import bigint, integer
from tests.testkit.builders import data_file
from tools.bench.child import peak_mib

BUCKETS, LARGE_FILES, AT_ONCE = 25, 8, 4
KEYS_A_FILE = 1_000_000
COLUMNS = 20
HOURS, KEPT = 24, 24
_LINES = 12
SCHEMA = Schema.of(
    {"p": "INT", "id": "BIGINT", **{f"v{number}": "BIGINT" for number in range(COLUMNS - 2)}},
    primary_keys=["p", "id"],
    partition_keys=["p"],
    options={
        "bucket": str(BUCKETS),
        "snapshot.num-retained.min": str(KEPT),
        "snapshot.num-retained.max": str(KEPT),
    },
)


class Year:
    """The table, and which files its buckets have."""

    def __init__(self, table_path: str, partitions: int) -> None:
        SchemaManager(LocalFileIO(), TablePaths(table=table_path)).create(SCHEMA, time_millis=1)
        self.store = FileStore.open(LocalFileIO(), table_path)
        self.partitions = [serialize_row([p], [integer()]) for p in range(partitions)]
        self.files: dict[tuple[int, int], list[DataFileMeta]] = {}
        self._made, self._commits = 0, 0
        self._draw = np.random.default_rng(1)

    def _file(self, place: int, *, level: int) -> DataFileMeta:
        self._made += 1
        keys = [place * KEYS_A_FILE, (place + 1) * KEYS_A_FILE - 1]
        smallest, largest = (serialize_row([key], [bigint()]) for key in keys)
        key_stats = SimpleStats(min_values=smallest, max_values=largest, null_counts=(0,))
        low, high = (
            serialize_row(self._draw.integers(0, 2**60, COLUMNS).tolist(), [bigint()] * COLUMNS)
            for _ in range(2)
        )
        return data_file(
            file_name=f"data-11111111-2222-3333-4444-555555555555-{self._made}.parquet",
            level=level,
            row_count=KEYS_A_FILE,
            min_key=smallest,
            max_key=largest,
            key_stats=key_stats,
            value_stats=SimpleStats(low, high, (0,) * COLUMNS),
        )

    def _commit(self, messages: list[CommitMessage], kind: CommitKind) -> float:
        self._commits += 1
        begun = time.process_time()
        commit = FileStoreCommit(self.store)
        commit.commit(messages, commit_user="bench", commit_identifier=self._commits, kind=kind)
        return time.process_time() - begun

    def add(self, buckets: list[tuple[int, int]], *, large: bool = False) -> float:
        """Commit files of buckets; return seconds."""
        messages = []
        for bucket in buckets:
            places = range(LARGE_FILES if large else 1)
            files = [self._file(place, level=5 if large else 0) for place in places]
            self.files.setdefault(bucket, []).extend(files)
            messages.append(self._message(bucket, DataIncrement(new_files=tuple(files))))
        return self._commit(messages, CommitKind.APPEND)

    def compact(self, buckets: list[tuple[int, int]]) -> float:
        """Join the files of buckets; return seconds."""
        messages = []
        for bucket in buckets:
            before = tuple(self.files[bucket])
            after = tuple(self._file(place, level=5) for place in range(LARGE_FILES))
            self.files[bucket] = list(after)
            change = CompactIncrement(compact_before=before, compact_after=after)
            messages.append(self._message(bucket, DataIncrement(), change))
        return self._commit(messages, CommitKind.COMPACT)

    def _message(
        self,
        bucket: tuple[int, int],
        added: DataIncrement,
        compacted: CompactIncrement = CompactIncrement(),  # noqa: B008 - it is frozen
    ) -> CommitMessage:
        return CommitMessage(
            partition=self.partitions[bucket[0]],
            bucket=bucket[1],
            total_buckets=BUCKETS,
            data_increment=added,
            compact_increment=compacted,
        )

    def plan(self, where: str | None = None) -> tuple[float, int, int]:
        """Plan by a table opened anew; return seconds, splits and files."""
        begun = time.process_time()
        table = Table(FileStore.open(LocalFileIO(), self.store.paths.table))
        builder = table.new_read_builder()
        plan = (builder if where is None else builder.with_filter(where)).plan()
        seconds = time.process_time() - begun
        return seconds, len(plan.splits), sum(len(split.data_files) for split in plan.splits)

    def expire(self) -> float:
        begun = time.process_time()
        while expire_snapshots(self.store).goes_on:
            pass
        return time.process_time() - begun


def days(year: Year, count: int, hourly: int) -> Iterator[tuple[list[float], float, float]]:
    """Live through days; yield the seconds of each commit, of the compaction, of the expiration."""
    for day in range(count):
        first = day * AT_ONCE % len(year.partitions)
        touched = [(first + number // BUCKETS, number % BUCKETS) for number in range(hourly)]
        commits = [year.add(touched) for _ in range(HOURS)]
        yield commits, year.compact(touched), year.expire()


def main(arguments: list[str] | None = None) -> int:
    """Measure and print; never judges."""
    parser = argparse.ArgumentParser(prog="bench_year")
    parser.add_argument("--days", type=int, default=365)
    parser.add_argument("--partitions", type=int, default=400)
    parser.add_argument("--hourly", type=int, default=AT_ONCE * BUCKETS, help="buckets an hour")
    options = parser.parse_args(arguments or [])
    headings = ("day", "files", "manifests", "metadata MB", "commit s: median", "worst", "night: s",
                "expire s", "plan all s", "a partition s", "a key s", "MB of memory")  # fmt: skip
    printed = Printed(*headings)
    with tempfile.TemporaryDirectory(prefix="bench-year-") as home:
        year = Year(f"{home}/table", options.partitions)
        for partition in range(options.partitions):
            year.add([(partition, bucket) for bucket in range(BUCKETS)], large=True)
        year.expire()
        for day, (commits, night, expired) in enumerate(days(year, options.days, options.hourly)):
            if day and (day + 1) % max(1, options.days // _LINES):
                continue
            snapshot = year.store.snapshots.latest()
            manifests = year.store.manifests.manifests_of(snapshot) if snapshot else ()
            size = sum(manifest.file_size for manifest in manifests) / 1e6
            whole = year.plan()
            row = (day + 1, f"{whole[2]:,}", len(manifests), f"{size:.1f}",
                   f"{statistics.median(commits):.3f}", f"{max(commits):.3f}", f"{night:.3f}",
                   f"{expired:.3f}", f"{whole[0]:.2f}", f"{year.plan('p = 7')[0]:.3f}",
                   f"{year.plan('p = 7 AND id = 5')[0]:.3f}", f"{peak_mib():.0f}")  # fmt: skip
            sys.stderr.write(f"{row}\n")
            printed.add_row(*map(str, row))
        entries = len(list(Path(home, "table", "manifest").iterdir()))
    console = Console(width=150)
    console.print(printed)
    console.print(f"{entries} files in the folder of manifests at the end")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
