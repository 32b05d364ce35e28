"""Another process writes the table, and its snapshot is the asset's materialization."""

import sys
from pathlib import Path

import dagster as dg
import pytest

from paimon_assets.assets import PaimonCatalogResource, PaimonPipesClient, paimon_output
from paimon_assets.engine.spec.schema.schema import Schema
from tests.testkit import asset_tables

# Dagster 1.13 calls its own deprecated attribute when it opens a session.
pytestmark = [
    pytest.mark.filterwarnings("ignore:AssetExecutionContext.run_id:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::dagster.PreviewWarning"),
]

KEY = dg.AssetKey(["shop", "orders"])
ORDERS = Schema.of({"id": "BIGINT"})
PROGRAM = """
import pyarrow as pa
from dagster_pipes import open_dagster_pipes
from paimon_assets.engine.table.api import open_catalog

with open_dagster_pipes() as pipes:
    table = open_catalog(pipes.get_extra("warehouse")).get_table("shop.orders")
    writer = (
        table.new_write_builder()
        .with_commit_user(pipes.get_extra("paimon/commit_user"))
        .with_properties(pipes.get_extra("paimon/properties"))
    )
    outcome = writer.write(pa.table({"id": [1, 2, 3]}))
    pipes.report_custom_message(
        {"paimon/table": "shop.orders", "paimon/snapshot_id": outcome.snapshot.id, "seconds": 1.5}
    )
    pipes.report_asset_check("sane", passed=True)
"""
SAYS = """
from dagster_pipes import open_dagster_pipes
with open_dagster_pipes() as pipes:
    pipes.report_custom_message({message})
"""


@pytest.fixture
def lake(paimon: PaimonCatalogResource) -> PaimonCatalogResource:
    paimon.catalog().create_database("shop")
    paimon.catalog().create_table("shop.orders", ORDERS)
    return paimon


def materialized(
    program: str, paimon: PaimonCatalogResource, tmp_path: Path
) -> dg.ExecuteInProcessResult:
    file = tmp_path / "program.py"
    file.write_text(program)

    @dg.asset(
        key=KEY,
        metadata=paimon_output(table="shop.orders"),
        check_specs=[dg.AssetCheckSpec("sane", asset=KEY)] if "sane" in program else None,
        code_version="3",
    )
    def orders(context: dg.AssetExecutionContext, pipes: PaimonPipesClient):
        command = [sys.executable, str(file)]
        extras = {"warehouse": paimon.warehouse}
        return pipes.run(context=context, command=command, extras=extras).get_result()

    resources = {"pipes": PaimonPipesClient(paimon=paimon)}
    with asset_tables.lent_instance() as instance:
        return dg.materialize(
            [orders], resources=resources, instance=instance, raise_on_error=False
        )


def test_a_snapshot_of_another_process_is_the_materialization(
    lake: PaimonCatalogResource, tmp_path: Path
) -> None:
    result = materialized(PROGRAM, lake, tmp_path)
    assert result.success, asset_tables.failure_text(result)
    table = lake.catalog().get_table("shop.orders")
    assert len(asset_tables.rows_of(table)) == 3
    snapshot = table.latest_snapshot()
    assert snapshot is not None
    properties = snapshot.properties
    assert properties["dagster.run-id"] == result.run_id
    assert (properties["dagster.asset-key"], properties["dagster.code-version"]) == (
        "shop/orders",
        "3",
    )
    metadata = asset_tables.metadata_of(result, KEY)
    assert metadata["paimon/snapshot_id"] == 1
    assert metadata["dagster/row_count"] == metadata["paimon/added_records"] == 3
    assert metadata["seconds"] == 1.5
    assert asset_tables.data_version_of(result, KEY).startswith("1-")
    [check] = result.get_asset_check_evaluations()
    assert check.passed


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ('{"other": 1}', "reported no snapshot of table 'shop.orders'"),
        ('{"paimon/table": "shop.others"}', "none of the step's"),
        ('{"paimon/table": "shop.orders", "paimon/snapshot_id": 7}', "reported snapshot 7"),
    ],
)
def test_a_report_that_does_not_fit_is_named(
    message: str, said: str, lake: PaimonCatalogResource, tmp_path: Path
) -> None:
    result = materialized(SAYS.replace("{message}", message), lake, tmp_path)
    assert said in asset_tables.failure_text(result)


def test_a_process_that_wrote_nothing_says_so(lake: PaimonCatalogResource, tmp_path: Path) -> None:
    message = '{"paimon/table": "shop.orders", "paimon/snapshot_id": None}'
    result = materialized(SAYS.replace("{message}", message), lake, tmp_path)
    assert result.success, asset_tables.failure_text(result)
    assert asset_tables.metadata_of(result, KEY)["paimon/rows_written"] == 0
