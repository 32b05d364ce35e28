"""A long life: very many small commits, with compaction and maintenance every so often.

    python -m tools.bench.bench_maintenance [--commits 5000] [--each 100]

Prints, for each tenth of the commits, the CPU milliseconds of a commit and of a maintenance (with
its compaction), and how many files the table has at its end. Nothing may be lost: rows count.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import pyarrow as pa
from rich.console import Console
from rich.table import Table as Printed

from paimon_assets import EmbeddedExecutor, Schema, Table, open_catalog
from paimon_assets.engine.table.upkeep.maintenance import CHEAP_TASKS

ROWS = 10
KEYS = 1000
TENTHS = 10
SCHEMA = Schema.of(
    {"id": "BIGINT", "v": "BIGINT"},
    primary_keys=["id"],
    options={"bucket": "1", "snapshot.time-retained": "0 s", "snapshot.expire.limit": "1000"},
)


def commit(table: Table, number: int) -> float:
    """Upsert ten rows; return CPU milliseconds."""
    first = number * ROWS
    ids = pa.array([(first + each) % KEYS for each in range(ROWS)], pa.int64())
    rows = pa.table({"id": ids, "v": pa.array([number] * ROWS, pa.int64())})
    began = time.process_time()
    table.new_write_builder().write(rows, EmbeddedExecutor(threads=1))
    return (time.process_time() - began) * 1000


def maintain(table: Table) -> float:
    """Compact and maintain a table; return CPU milliseconds."""
    began = time.process_time()
    table.new_compaction_builder().with_strategy("full").run(EmbeddedExecutor(threads=1))
    for task in CHEAP_TASKS:
        table.maintenance().run(task)
    return (time.process_time() - began) * 1000


def live(home: str, commits: int, each: int) -> Printed:
    """Run a table's life; return what to print."""
    catalog = open_catalog(home)
    catalog.create_database("d")
    table = catalog.create_table("d.t", SCHEMA)
    printed = Printed("commits", "commit CPU ms", "maintenance CPU ms", "files", "snapshots")
    for tenth in range(TENTHS):
        spans, cares = [], []
        for number in range(tenth * commits // TENTHS, (tenth + 1) * commits // TENTHS):
            spans.append(commit(table, number))
            if number % each == each - 1:
                cares.append(maintain(table))
        files = sum(path.is_file() for path in Path(table.path).rglob("*"))
        printed.add_row(
            f"{number + 1:,}",
            f"{statistics.median(spans):.1f}",
            f"{statistics.median(cares):.0f}" if cares else "-",
            f"{files:,}",
            str(len(table.snapshots())),
        )
    rows = table.new_read_builder().to_arrow().to_pylist()
    newest = {(n * ROWS + each) % KEYS: n for n in range(commits) for each in range(ROWS)}
    if {row["id"]: row["v"] for row in rows} != newest or len(rows) != len(newest):
        raise AssertionError("rows were lost")
    return printed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commits", type=int, default=5000)
    parser.add_argument("--each", type=int, default=100, help="commits between two maintenances")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-maintenance-") as home:
        Console().print(live(home, options.commits, options.each))


if __name__ == "__main__":
    main()
