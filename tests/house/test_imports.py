"""Modules that small steps load are few, since every process pays for each.

A module above a limit is imported where it is used, or the limit has a reason to grow.
"""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
_TABLE = """
import pyarrow as pa, paimon_assets as pw
declared = dict(primary_keys=["id"], options={"bucket": "1"}) if KEYED else {}
catalog = pw.open_catalog(FOLDER)
catalog.create_database("db")
table = catalog.create_table("db.t", pw.Schema.of({"id": "BIGINT"}, **declared))
"""
_ROWS = """
longs = pa.Array.from_buffers(pa.int64(), 10, [None, pa.py_buffer(bytes(80))])
rows = pa.table([longs], names=["id"])  # of a list pyarrow makes rows with pandas
"""
_LS = """
from paimon_assets.cli.main import main
main(["-w", FOLDER, "ls"], standalone_mode=False)
"""
_HEAVY = {
    *("pandas", "sqlglot", "obstore", "botocore", "requests", "urllib3", "fsspec", "rich"),
    *("click", "xml", "pyspark", "dagster", "polars", "duckdb", "starlette", "pydantic", "tomllib"),
    *("email", "pyroaring", "pyarrow.csv", "pyarrow.json", "pyarrow.orc", "numpy.ma", "fastavro"),
}
_ARROW = {"pyarrow", "numpy", "fastavro", "concurrent.futures", "ssl"}
STEPS = {
    "append and read": (
        f"KEYED = False{_TABLE}{_ROWS}table.append(rows)\ntable.to_arrow()",
        (160, _HEAVY | {"difflib"}),
    ),
    "upsert and read": (
        f"KEYED = True{_TABLE}{_ROWS}table.upsert(rows)\ntable.to_arrow()",
        (164, _HEAVY),
    ),
    "ls": (_LS, (70, (_HEAVY | _ARROW) - {"click"})),
    "task of Spark": (
        "import paimon_assets.spark.worker",
        (107, _HEAVY - {"pyspark", "pandas", "email", "xml"}),
    ),
}
"""Step → modules of ours at most, and modules that are not loaded."""


@pytest.mark.parametrize("step", STEPS)
def test_step_loads_only_its_modules(step, tmp_path):
    code, (most, absent) = STEPS[step]
    names = "import sys; print(*sys.modules, file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", f"FOLDER = {str(tmp_path)!r}\n{code}\n{names}"],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        timeout=120,
    )
    loaded = done.stderr.splitlines()[-1].split()
    assert absent & set(loaded) == set()
    own = [name for name in loaded if name.split(".")[0] == "paimon_assets"]
    assert len(own) <= most, own
