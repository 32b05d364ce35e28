"""Tools for users' tests: calls of an asset, and a warehouse in memory."""

import re
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from paimon_assets import NotFoundError, Schema
from paimon_assets.assets import PaimonIOManager, paimon_asset
from paimon_assets.testing import MemoryWarehouse
from tests.testkit.asset_tables import asset_of, stored_asset

PAGE = Path(__file__).resolve().parents[2] / "docs" / "testing" / "testing.md"
DAYS = Schema.of({"id": "BIGINT", "day": "DATE"}, partition_keys="day")

pytestmark = pytest.mark.filterwarnings("ignore:InitResourceContext.dagster_run")


def test_page_on_testing_is_test_file(tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "test_orders.py").write_text("\n".join(blocks))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_orders.py"]
    done = subprocess.run(command, check=False, cwd=tmp_path, capture_output=True, text=True)
    assert "4 passed" in done.stdout, done.stdout


@paimon_asset("a.upper", Schema.of({"name": "STRING"}))
def upper(context: dg.AssetExecutionContext, names: pa.Table) -> pa.Table:
    context.log.info("%s names", names.num_rows)
    return pa.table({"name": pc.utf8_upper(names["name"])})


def test_asset_is_called_with_its_context_and_inputs() -> None:
    names = pa.table({"name": ["a", "b"]})
    assert upper(dg.build_asset_context(), names)["name"].to_pylist() == ["A", "B"]
    assert upper(dg.build_asset_context(), names=names).num_rows == 2
    [mapped] = dg.map_asset_specs(lambda spec: spec.replace_attributes(owners=["team:a"]), [upper])
    assert mapped.key == upper.key


def test_partitions_are_materialized() -> None:
    days = dg.DailyPartitionsDefinition("2026-01-01", end_date="2026-01-04")

    @paimon_asset("a.days", DAYS, partitions_def=days, partition_column="day")
    def by_day(context: dg.AssetExecutionContext) -> pa.Table:
        day = pa.array([context.partition_key]).cast(pa.date32())
        return pa.table({"id": [1], "day": day})

    with MemoryWarehouse() as lake:
        for key in ("2026-01-01", "2026-01-02", "2026-01-02"):
            assert lake.materialize([by_day], partition_key=key).success
        assert len(lake.rows("a.days")) == 2
        assert len(lake.rows("a.days", "day = DATE '2026-01-02'")) == 1


def test_io_manager_and_another_resource_key() -> None:
    numbers = stored_asset(pa.table({"n": [1, 2]}), key=["b", "numbers"], io_manager_key="io")
    sums = asset_of("b.sums", Schema.of({"n": "BIGINT"}), pa.table({"n": [3]}), resource_key="lake")
    with MemoryWarehouse() as lake:
        io_manager = PaimonIOManager(paimon=lake.resource)
        assert lake.materialize([numbers, sums], resources={"io": io_manager}).success
        assert lake.rows("b.numbers") == [{"n": 1}, {"n": 2}]
        assert lake.rows("b.sums") == [{"n": 3}]


def test_warehouse_ends_with_its_block() -> None:
    with MemoryWarehouse() as lake:
        lake.write("a.t", pa.table({"id": [2, 1]}), primary_keys="id", options={"bucket": 1})
        assert lake.rows("a.t") == [{"id": 1}, {"id": 2}]
    with pytest.raises(NotFoundError):
        lake.rows("a.t")


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow", "duckdb"])
def test_rows_of_every_library_make_table(library: str) -> None:
    module = pytest.importorskip(library)
    rows = pa.table({"id": [1, 2]})
    frame = {
        "pandas": rows.to_pandas,
        "polars": lambda: module.from_arrow(rows),
        "pyarrow": rows.to_reader,
        "duckdb": lambda: module.from_arrow(rows),
    }[library]()
    with MemoryWarehouse() as lake:
        lake.write("a.t", frame)
        assert lake.rows("a.t") == [{"id": 1}, {"id": 2}]
