"""Rows of lazy frames are written while they are read: memory does not grow with them."""

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_assets import InvalidInputError
from tests.testkit.tables import new_catalog_in, new_table

pytestmark = pytest.mark.slow

ROWS = 24_000_000
"""Two columns of numbers: 366 MiB."""
GROWTH_MIB = 256
WRITE = """
import sys
from pathlib import Path

from paimon_assets import EmbeddedExecutor, open_catalog
from tools.bench.child import peak_mib

kind, warehouse, path = sys.argv[1:]
table, executor = open_catalog(warehouse).get_table("db.t"), EmbeddedExecutor()
match kind:
    case "polars":
        import polars
        frame = polars.scan_parquet(path).with_columns(polars.col("v") * 2)
    case "read":
        import polars
        source = open_catalog(warehouse).get_table("db.source")
        frame = source.new_read_builder().scan_polars().with_columns(polars.col("v") * 2)
    case "duckdb":
        import duckdb
        connection = duckdb.connect()
        connection.execute("set enable_progress_bar = false")
        frame = connection.sql(f"select id, v * 2 as v from read_parquet('{path}')")
    case "dataset":
        import pyarrow.dataset
        frame = pyarrow.dataset.dataset(path)
    case "asset" | "manager":
        import dagster as dg
        import polars
        from paimon_assets.assets import (
            PaimonCatalogResource, PaimonIOManager, paimon_asset, paimon_output
        )
        frame = polars.scan_parquet(path).with_columns(polars.col("v") * 2)
before = peak_mib()
if kind in ("asset", "manager"):
    def t():
        return frame
    paimon = PaimonCatalogResource(warehouse=warehouse)
    if kind == "asset":
        asset = paimon_asset("db.t", table.schema.declared)(t)
    else:
        asset = dg.asset(key=["db", "t"], metadata=paimon_output(mode="append"))(t)
    manager = PaimonIOManager(paimon=paimon)
    dg.materialize([asset], resources={"io_manager": manager, "paimon": paimon})
else:
    table.new_write_builder().write(frame, executor)
growth = round(peak_mib() - before)
print(open_catalog(warehouse).get_table("db.t").count(), growth)
"""


@pytest.fixture(scope="module")
def many_rows(tmp_path_factory) -> Path:
    """Write a small file of many rows; every group of it is the same."""
    path: Path = tmp_path_factory.mktemp("rows") / "rows.parquet"
    group = pa.table({"id": pa.array([7] * 100_000, pa.int64()), "v": [0.5] * 100_000})
    with pq.ParquetWriter(path, group.schema) as writer:
        for _ in range(ROWS // group.num_rows):
            writer.write_table(group)
    return path


@pytest.mark.parametrize("kind", ["polars", "read", "duckdb", "dataset", "asset", "manager"])
def test_lazy_frame_is_written_in_bounded_memory(tmp_path, many_rows, kind):
    pytest.importorskip("duckdb" if kind == "duckdb" else "polars")
    catalog = new_catalog_in(tmp_path / "w")
    columns, options = {"id": "BIGINT", "v": "DOUBLE"}, {"write-buffer-size": "16mb"}
    new_table(catalog, columns, options=options)
    if kind == "read":
        source = new_table(catalog, columns, name="db.source")
        rows = pq.ParquetFile(many_rows)
        reader = pa.RecordBatchReader.from_batches(rows.schema_arrow, rows.iter_batches())
        source.new_write_builder().write(reader)
    arguments = [kind, str(tmp_path / "w"), str(many_rows)]
    run = subprocess.run(
        [sys.executable, "-c", WRITE, *arguments], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    written, growth = map(int, run.stdout.splitlines()[-1].split())
    assert written == ROWS
    assert growth < GROWTH_MIB, kind


def test_lazy_frame_that_fails_midway_commits_nothing(tmp_path):
    polars = pytest.importorskip("polars")
    table = new_table(new_catalog_in(tmp_path / "w"), {"id": "BIGINT", "v": "INT"})

    def numbers(last: str) -> object:
        texts = ["1"] * 400_000 + [last]
        frame = polars.LazyFrame({"id": range(len(texts)), "v": texts})
        return frame.with_columns(polars.col("v").cast(polars.Int32))

    for _ in range(2):
        with pytest.raises(polars.exceptions.InvalidOperationError, match="conversion"):
            table.new_write_builder().write(numbers("x"))
        assert table.latest_snapshot() is None
    assert table.new_write_builder().write(numbers("2")).report.rows_written == 400_001


def test_write_that_refuses_rows_ends_query_of_lazy_frame(tmp_path):
    polars = pytest.importorskip("polars")
    table = new_table(new_catalog_in(tmp_path / "w"), {"id": "TINYINT"})
    frame = polars.LazyFrame({"id": range(3_000_000)})
    with pytest.raises(InvalidInputError, match="id"):
        table.new_write_builder().write(frame)
    assert table.latest_snapshot() is None
    empty = table.new_write_builder().write(frame.filter(polars.col("id") < 0).cast(polars.Int8))
    assert (empty.snapshot, empty.report.rows_written) == (None, 0)
