"""The datasets that dagster-openlineage names are those of Paimon's Flink and Spark lineage.

These take the path of the warehouse as namespace and `database.table` as name (apache/paimon
#7576): `CatalogUtils.warehouse` of a table's location, `file:/…` on a local disk.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pyarrow as pa
import pytest

from tests.interop.environment import ROOT, lineage_packages

pytestmark = pytest.mark.interop

_STORAGE = "dagster_openlineage.storage"


def emit(home: Path, warehouse: str) -> None:
    """Materialize a table and one made of it, where the emitter listens to Dagster's events."""
    from paimon_assets.assets import PaimonCatalogResource, PaimonTranslator, paimon_asset
    from paimon_assets.engine.spec.schema.schema import Schema
    from paimon_assets.sql import columns_of_sql

    class LineageNames(PaimonTranslator):
        def get_asset_key(self, table: object) -> dg.AssetKey:
            return dg.AssetKey([str(table)])

    names = LineageNames()
    orders = Schema.of({"id": "BIGINT", "amount": "DOUBLE"})

    @paimon_asset("shop.orders", orders, translator=names)
    def shop_orders() -> pa.Table:
        return pa.table({"id": [1], "amount": [2.0]})

    totals = Schema.of({"id": "BIGINT", "total": "DOUBLE"})
    query = "SELECT id, sum(amount) AS total FROM shop.orders GROUP BY id"
    columns = columns_of_sql(query, {"shop.orders": orders}, translator=names)

    @paimon_asset("shop.totals", totals, translator=names, deps=[shop_orders], pass_through=columns)
    def shop_totals() -> pa.Table:
        return pa.table({"id": [1], "total": [2.0]})

    wrapped = {
        "module": "dagster._core.storage.event_log",
        "class": "SqliteEventLogStorage",
        "config": {"base_dir": str(home / "events")},
    }
    storage = {
        "module": _STORAGE,
        "class": "OpenLineageEventLogStorage",
        "config": {"wrapped": wrapped, "namespace": warehouse},
    }
    paimon = PaimonCatalogResource(warehouse=warehouse.removeprefix("file:"))
    with dg.DagsterInstance.local_temp(str(home), {"event_log_storage": storage}) as instance:
        for asset in (shop_orders, shop_totals):
            dg.materialize([asset], resources={"paimon": paimon}, instance=instance)


def test_lineage_names_equal_paimon(tmp_path: Path) -> None:
    warehouse, log = f"file:{tmp_path}/warehouse", tmp_path / "events.jsonl"
    program = (
        "import sys, pathlib\n"
        "sys.path.append(sys.argv[3])\n"
        "from tests.interop.test_lineage_names import emit\n"
        "emit(pathlib.Path(sys.argv[1]), sys.argv[2])\n"
    )
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "OPENLINEAGE__TRANSPORT__TYPE": "file",
        "OPENLINEAGE__TRANSPORT__LOG_FILE_PATH": str(log),
        "OPENLINEAGE__TRANSPORT__APPEND": "true",
    }
    arguments = [str(tmp_path), warehouse, str(lineage_packages())]
    subprocess.run([sys.executable, "-c", program, *arguments], env=environment, check=True)
    events = [json.loads(line) for line in log.read_text().splitlines()]
    datasets = {
        (each["namespace"], each["name"]): each["facets"]
        for event in events
        if event["eventType"] == "COMPLETE"
        for each in event["outputs"]
    }
    assert set(datasets) == {(warehouse, "shop.orders"), (warehouse, "shop.totals")}
    facets = datasets[warehouse, "shop.totals"]
    assert [field["name"] for field in facets["schema"]["fields"]] == ["id", "total"]
    [source] = facets["columnLineage"]["fields"]["total"]["inputFields"]
    assert {name: source[name] for name in ("namespace", "name", "field")} == {
        "namespace": warehouse,
        "name": "shop.orders",
        "field": "amount",
    }
