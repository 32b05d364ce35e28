"""Planning: seconds, memory and manifests touched, on a table whose data files are names alone.

    python -m tools.bench.bench_planning [--files 100000] [--manifests 1000]

The limit beside a cold plan is fastavro decoding the same manifests and doing nothing else. Cold is
the first plan of a process, warm the best of five more; a point query gives the whole key.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table as Printed

from paimon_assets import Schema, Table
from paimon_assets.engine.codec.avro.avro import read_container
from paimon_assets.engine.codec.rows.binary_row import serialize_row
from paimon_assets.engine.contract.commit_message import CommitMessage, DataIncrement
from paimon_assets.engine.control.commit.file_store_commit import FileStoreCommit
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.managers.schema_manager import SchemaManager
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.engine.spec.metadata.data_file import DataFileMeta, SimpleStats
from paimon_assets.engine.spec.paths import TablePaths
from paimon_assets.engine.spec.types.data_types import bigint, integer
from tests.testkit.builders import data_file
from tools.bench.child import peak_mib

PARTITIONS, BUCKETS, KEYS_A_FILE = 20, 8, 1000
SCHEMA = Schema.of(
    {"p": "INT", "id": "BIGINT", "v": "DOUBLE"},
    primary_keys=["p", "id"],
    partition_keys=["p"],
    options={"bucket": str(BUCKETS), "manifest.merge-min-count": "1000000"},
)


def _file(number: int) -> DataFileMeta:
    """Return a top-level file; the files of a bucket follow each other in key order."""
    low = number // (PARTITIONS * BUCKETS) * KEYS_A_FILE
    smallest = serialize_row([low], [bigint()])
    largest = serialize_row([low + KEYS_A_FILE - 1], [bigint()])
    return data_file(
        file_name=f"data-11111111-2222-3333-4444-555555555555-{number}.parquet",
        level=5,
        row_count=KEYS_A_FILE,
        min_key=smallest,
        max_key=largest,
        key_stats=SimpleStats(min_values=smallest, max_values=largest, null_counts=(0,)),
        value_stats_cols=(),
    )


def build(table_path: str, files: int, manifests: int) -> None:
    """Commit file names, one manifest a commit."""
    SchemaManager(LocalFileIO(), TablePaths(table=table_path)).create(SCHEMA, time_millis=1)
    store = FileStore.open(LocalFileIO(), table_path)
    partitions = [serialize_row([p], [integer()]) for p in range(PARTITIONS)]
    for manifest in range(manifests):
        numbers = range(manifest * files // manifests, (manifest + 1) * files // manifests)
        messages = [
            CommitMessage(
                partition=partitions[number % PARTITIONS],
                bucket=number // PARTITIONS % BUCKETS,
                total_buckets=BUCKETS,
                data_increment=DataIncrement(new_files=(_file(number),)),
            )
            for number in numbers
        ]
        FileStoreCommit(store).commit(messages, commit_user="bench", commit_identifier=manifest)


def _time_call(call: Any) -> tuple[float, Any]:
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result


def measure(table_path: str, subject: str) -> dict[str, float]:
    """Measure one thing in this process."""
    store = FileStore.open(LocalFileIO(), table_path)
    if subject == "decode":
        snapshot = store.snapshots.latest()
        metas = () if snapshot is None else store.manifests.manifests_of(snapshot)
        paths = [store.paths.manifest(meta.file_name) for meta in metas]

        def decode() -> int:
            return sum(len(list(read_container(Path(path).read_bytes(), path))) for path in paths)

        cold, found = _time_call(decode)
        return {"cold": cold, "warm": cold, "found": found, "peak": peak_mib()}
    builder = Table(store).new_read_builder()
    if subject == "point query":
        builder = builder.with_filter(f"p = 7 AND id = {KEYS_A_FILE + 3}")
    cold, plan = _time_call(builder.plan)
    warm = min(_time_call(builder.plan)[0] for _ in range(5))
    found = sum(len(split.data_files) for split in plan.splits)
    return {"cold": cold, "warm": warm, "found": found, "peak": peak_mib()}


def main(arguments: list[str]) -> int:
    """Measure and print; never judges."""
    parser = argparse.ArgumentParser(prog="bench_planning")
    parser.add_argument("--files", type=int, nargs="*", default=[10_000, 100_000])
    parser.add_argument("--manifests", type=int, nargs="*", default=[100, 1_000])
    parser.add_argument("--measure", nargs=2, metavar=("TABLE", "WHAT"), help="in this process")
    options = parser.parse_args(arguments)
    if options.measure:
        sys.stdout.write(json.dumps(measure(*options.measure)))
        return 0
    printed = Printed(title="planning: seconds, data files found, peak MiB of the process")
    for heading in ("files", "manifests", "what", "cold s", "÷ decode", "warm s", "found", "MiB"):
        printed.add_column(heading, justify="left" if heading == "what" else "right")
    for files, manifests in zip(options.files, options.manifests, strict=True):
        with tempfile.TemporaryDirectory(prefix="bench-planning-") as home:
            build(f"{home}/table", files, manifests)
            limit = None
            for subject in ("decode", "whole table", "point query"):
                command = [sys.executable, "-m", "tools.bench.bench_planning"]
                done = subprocess.run(
                    [*command, "--measure", f"{home}/table", subject],
                    check=True, capture_output=True, text=True,
                )  # fmt: skip
                row = json.loads(done.stdout)
                limit = limit or row["cold"]
                printed.add_row(
                    f"{files:,}", f"{manifests:,}", subject, f"{row['cold']:.3f}",
                    f"{row['cold'] / limit:.2f}x", f"{row['warm']:.3f}", f"{row['found']:,.0f}",
                    f"{row['peak']:.0f}",
                )  # fmt: skip
    Console(width=110).print(printed)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
