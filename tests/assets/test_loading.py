"""Definitions load neither Spark nor a frame library."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

CODE = """
import sys
import dagster as dg
from paimon_assets.assets import (
    FileSource, PaimonCatalogResource, PaimonIOManager, PaimonSparkResource,
    build_file_ingestion_asset, build_new_files_sensor, paimon_asset, paimon_input, paimon_output,
    build_row_count_check, build_unique_key_check,
)
from paimon_assets.assets import (
    BatchCheck, build_external_table_specs, build_freshness_check, build_new_snapshots_sensor,
    on_new_data,
    build_sequence_check, build_small_files_check,
)
from paimon_assets.engine.spec.schema.schema import Schema

schema = Schema.of({"id": "BIGINT"}, primary_keys=["id"], options={"bucket": "1"})
source = FileSource(folder=dg.EnvVar("NOT_SET"))
events = build_file_ingestion_asset("log.events", schema, source=source)

@paimon_asset("log.copies", schema, deps=[events])
def copies(): ...

@dg.asset(
    metadata=paimon_output(schema=schema),
    ins={"copies": dg.AssetIn(["log", "copies"], metadata=paimon_input(columns=["id"]))},
)
def more(copies): ...

paimon = PaimonCatalogResource(
    warehouse=dg.EnvVar("NOT_SET"), spark=PaimonSparkResource(driver_memory="1g"))
defs = dg.Definitions(
    assets=[events, copies, more],
    asset_checks=[build_row_count_check(events, 1), build_unique_key_check(copies)],
    sensors=[build_new_files_sensor(events, source=source)],
    resources={"paimon": paimon, "io_manager": PaimonIOManager(paimon=paimon)},
)
dg.Definitions.validate_loadable(defs)
loaded = {name.split(".")[0] for name in sys.modules}
print(sorted(loaded & {"pyspark", "py4j", "pandas", "polars", "dagster_pyspark"}))
"""


def test_definitions_load_without_spark_frames_warehouse_or_variables() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CODE], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


def test_importing_package_loads_no_module_of_it() -> None:
    code = "import sys, paimon_assets.assets; print('dagster' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "False"


def test_importing_pandera_checks_keeps_environment() -> None:
    code = """
import os
for name in ("PYARROW_IGNORE_TIMEZONE", "SPARK_LOCAL_IP"):
    os.environ.pop(name, None)
before = dict(os.environ)
import paimon_assets.assets.pandera_checks
print(sorted(set(os.environ.items()) ^ set(before.items())))
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.strip() == "[]"
