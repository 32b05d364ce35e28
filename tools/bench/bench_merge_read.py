"""Merged read of one bucket's overlapping files, against only decoding the same files.

    python -m tools.bench.bench_merge_read [rows of the base run, default 1000000]

Prints median seconds and CPU seconds of five runs each, and ratios; the data is seeded. Four runs:
one base and three upserts of a quarter of it, 80% existing keys each.
"""

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from paimon_assets import DataSplit
from paimon_assets.engine.codec.rows.binary_row import serialize_row
from paimon_assets.engine.contract.context import ReadContext
from paimon_assets.engine.data.format.formats import open_writer
from paimon_assets.engine.data.read.split_read import read_split
from paimon_assets.engine.data.threads import Threads
from paimon_assets.engine.fileio.base import FileIOSpec
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.engine.spec.metadata.data_file import DataFileMeta
from paimon_assets.engine.spec.schema.schema import TableSchema
from tests.testkit.tables import table_schema
from tools.bench.workload import COLUMNS, columns_of

FILE_IO = LocalFileIO()
THREADS = Threads(os.cpu_count() or 1)


def rows(ids: np.ndarray, seed: int, first_number: int) -> pa.Table:
    """Rows in the layout of primary-key files, sorted by key."""
    ids = np.sort(ids)
    count = len(ids)
    system = {
        "_KEY_id": ids,
        "_SEQUENCE_NUMBER": first_number + np.random.default_rng(seed).permutation(count),
        "_VALUE_KIND": np.zeros(count, dtype=np.int8),
    }
    values = columns_of(ids, seed)
    return pa.table(system | dict(zip(values.column_names, values.columns, strict=True)))


def write_run(directory: Path, number: int, table: pa.Table, schema: TableSchema) -> DataFileMeta:
    """Write one run as a file and describe it as the table would."""
    path = directory / f"data-{number}.parquet"
    writer = open_writer(FILE_IO, str(path), table.schema)
    writer.write(table)
    size = writer.close()
    types = [field.type for field in schema.key_fields]
    numbers = table["_SEQUENCE_NUMBER"].to_numpy()
    return DataFileMeta(
        file_name=path.name,
        file_size=size,
        row_count=len(table),
        schema_id=schema.id,
        delete_row_count=0,
        min_key=serialize_row([table["id"][0].as_py()], types),
        max_key=serialize_row([table["id"][-1].as_py()], types),
        min_sequence_number=int(numbers.min()),
        max_sequence_number=int(numbers.max()),
    )


def measured(work: Callable[[], object]) -> tuple[float, float]:
    """Median wall and CPU seconds of five runs."""
    walls, cpus = [], []
    for _ in range(5):
        wall, cpu = time.perf_counter(), os.times()
        work()
        now = os.times()
        walls.append(time.perf_counter() - wall)
        cpus.append(now.user + now.system - cpu.user - cpu.system)
    return statistics.median(walls), statistics.median(cpus)


def _read_all(context: ReadContext, split: DataSplit) -> int:
    return sum(batch.num_rows for batch in list(read_split(context, split, FILE_IO, THREADS)))


def main(base_rows: int) -> None:
    """Generate, read, print."""
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary)
        schema = table_schema(COLUMNS, primary_keys=["id"])
        random = np.random.default_rng(7)
        delta = base_rows // 4
        runs = [np.arange(base_rows)]
        for upsert in range(3):
            old = random.choice(base_rows, delta * 4 // 5, replace=False)
            fresh = base_rows + upsert * delta + np.arange(delta - len(old))
            runs.append(np.concatenate([old, fresh]))
        files = [
            write_run(directory, number, rows(ids, number, number * base_rows), schema)
            for number, ids in enumerate(runs)
        ]
        split = DataSplit(
            snapshot_id=1,
            partition=serialize_row([], []),
            bucket=0,
            bucket_path=temporary,
            data_files=tuple(files),
        )
        paths = [split.path_of(file) for file in files]
        print(f"pyarrow {pa.__version__}, {split.row_count} rows in, {split.file_bytes} bytes")
        for options in ({}, {"sequence.field": "ts"}):
            context = ReadContext(
                table="bench",
                schema=schema.with_dynamic_options(options),
                file_schemas=(),
                columns=tuple(COLUMNS),
                file_io=FileIOSpec(),
            )
            decoded = measured(lambda: [pq.ParquetFile(path).read() for path in paths])
            merged = measured(partial(_read_all, context, split))
            print(
                f"{options or 'plain'}: decode {decoded[0]:.3f} s ({decoded[1]:.2f} cpu),"
                f" merged {merged[0]:.3f} s ({merged[1]:.2f} cpu),"
                f" ratio {merged[0] / decoded[0]:.2f} ({merged[1] / decoded[1]:.2f} cpu)"
            )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
