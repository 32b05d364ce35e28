"""Two code locations of one warehouse: production on main, a pull request on its branch."""

import json
from concurrent.futures import ThreadPoolExecutor

import dagster as dg
import pyarrow as pa
import pytest

from paimon_assets import EmbeddedExecutor, NotFoundError, Schema, assets
from paimon_assets.assets.resource import branch_of_environment
from paimon_assets.engine.table.upkeep.maintenance import MaintenanceTask
from paimon_assets.review import build_diff_check, promote
from tests.testkit.asset_tables import lent_instance
from tests.testkit.errors import refused
from tests.testkit.tables import compact, new_catalog_in, new_table, read, write

PRICES = Schema.of({"id": "BIGINT NOT NULL", "price": "DOUBLE"}, primary_keys="id")
TOTALS = Schema.of({"total": "DOUBLE"})


def location(warehouse: str, factor: float, branch: str = "") -> dg.Definitions:
    """Return the definitions of a code location; a pull request changes the factor."""

    @assets.paimon_asset("shop.prices", PRICES)
    def prices() -> pa.Table:
        return pa.table({"id": [1, 2], "price": [1.0 * factor, 2.0]})

    @assets.paimon_asset("shop.totals", TOTALS, mode="overwrite", deps=[prices])
    def totals(paimon: assets.PaimonCatalogResource) -> pa.Table:
        prices = paimon.catalog().get_table("shop.prices").to_pandas()
        return pa.table({"total": [float(prices["price"].sum())]})

    paimon = assets.PaimonCatalogResource(warehouse=warehouse, executor="embedded", branch=branch)
    check = build_diff_check(prices, 0.6, before="main@latest")
    return dg.Definitions(
        assets=[prices, totals], asset_checks=[check], resources={"paimon": paimon}
    )


def run(definitions):
    with lent_instance() as instance:
        job = definitions.resolve_implicit_global_asset_job_def()
        assert job.execute_in_process(instance=instance).success


def rows(warehouse, name, branch=""):
    suffix = f"$branch_{branch}" if branch else ""
    return read(new_catalog_in(warehouse, "shop").get_table(f"shop.{name}{suffix}"))


@pytest.fixture
def warehouse(tmp_path):
    """Return a warehouse that the production location has filled."""
    path = str(tmp_path / "w")
    run(location(path, 1))
    return path


def test_pull_request_is_previewed_and_promoted(warehouse, invoke):
    run(location(warehouse, 3, "feature/new"))
    main, preview = [(1, 1.0), (2, 2.0)], [(1, 3.0), (2, 2.0)]
    assert (rows(warehouse, "prices"), rows(warehouse, "prices", "feature-new")) == (main, preview)
    assert rows(warehouse, "totals") == [(3.0,)]
    assert rows(warehouse, "totals", "feature-new") == [(5.0,)]

    shown = invoke("promote", "feature/new", "--dry-run", "--markdown")
    assert "### `shop.prices`: `main@latest` → `feature-new@latest`" in shown
    assert "| price | 1 |" in shown
    assert rows(warehouse, "prices") == main

    report = json.loads(invoke("promote", "feature/new", "--yes", "--json"))
    assert [one["is_promoted"] for one in report] == [True, True]
    assert (rows(warehouse, "prices"), rows(warehouse, "totals")) == (preview, [(5.0,)])
    table = new_catalog_in(warehouse, "shop").get_table("shop.prices")
    assert (table.branches.list(), table.tags.list()) == ({}, [])
    run(location(warehouse, 1))
    assert rows(warehouse, "prices") == main


def test_discarded_pull_request_leaves_nothing(warehouse, invoke):
    run(location(warehouse, 3, "pr"))
    assert "shop.prices, shop.totals" in invoke("discard", "pr", "--yes")
    assert rows(warehouse, "prices") == [(1, 1.0), (2, 2.0)]
    table = new_catalog_in(warehouse, "shop").get_table("shop.prices")
    assert (table.branches.list(), table.tags.list()) == ({}, [])
    with refused(NotFoundError, kind="branch-not-found"):
        rows(warehouse, "prices", "pr")


def test_changed_main_is_not_replaced_in_any_table(warehouse, invoke):
    run(location(warehouse, 3, "pr"))
    catalog = new_catalog_in(warehouse, "shop")
    write(catalog.get_table("shop.prices"), (7, 7.0))
    text = invoke("promote", "pr", "--yes", code=6)
    assert "refused: main has moved from snapshot 1 to snapshot 2 since the branch began" in text
    assert "0 added, 1 removed, 1 changed" in text
    assert rows(warehouse, "prices") == [(1, 1.0), (2, 2.0), (7, 7.0)]
    assert rows(warehouse, "totals") == [(3.0,)]
    catalog.get_table("shop.totals").alter(
        [{"action": "addColumn", "fieldNames": ["n"], "dataType": "INT"}]
    )
    assert "main has the schema 1, which the branch lacks" in invoke(
        "promote", "pr", "shop.totals", "--yes", code=6
    )


def test_branch_keeps_its_rows_when_main_compacts_and_expires(tmp_path):
    table = new_table(tmp_path, PRICES, (1, 1.0), name="shop.prices")
    write(table, (2, 2.0))
    preview = assets.PaimonCatalogResource(warehouse=str(tmp_path), branch="pr").catalog()
    assert read(preview.get_table("shop.prices")) == [(1, 1.0), (2, 2.0)]
    assert table.branches.list() == {}
    write(preview.get_table("shop.prices"), (1, 5.0))
    write(table, (3, 3.0))
    compact(table)
    options = {"snapshot.num-retained.max": "1", "snapshot.num-retained.min": "1"}
    table.copy(options).maintenance().run(MaintenanceTask.EXPIRE_SNAPSHOTS)
    assert [snapshot.id for snapshot in table.snapshots()] == [4]
    assert read(preview.get_table("shop.prices")) == [(1, 5.0), (2, 2.0)]
    branch = preview.get_table("shop.prices")
    compact(branch)
    branch.copy(options).maintenance().run(MaintenanceTask.EXPIRE_SNAPSHOTS)
    assert read(table.refresh()) == [(1, 1.0), (2, 2.0), (3, 3.0)]
    assert read(preview.get_table("shop.prices")) == [(1, 5.0), (2, 2.0)]


def test_concurrent_writers_create_one_branch(tmp_path):
    new_table(tmp_path, PRICES, (0, 0.0), name="shop.prices")

    def add(number):
        preview = assets.PaimonCatalogResource(warehouse=str(tmp_path), branch="pr").catalog()
        write(preview.get_table("shop.prices"), (number, 1.0))

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(add, range(1, 7)))
    table = new_catalog_in(tmp_path, "shop").get_table("shop.prices")
    assert len(read(table.at_branch("pr"))) == 7
    assert read(table) == [(0, 0.0)]


@pytest.mark.parametrize(
    ("environment", "branch"),
    [
        ({}, ""),
        ({"PAIMON_BRANCH": "main"}, ""),
        ({"PAIMON_BRANCH": "17"}, "branch-17"),
        ({"DAGSTER_CLOUD_IS_BRANCH_DEPLOYMENT": "1", "DAGSTER_CLOUD_GIT_BRANCH": "a/b"}, "a-b"),
        ({"DAGSTER_CLOUD_IS_BRANCH_DEPLOYMENT": "1", "DAGSTER_CLOUD_DEPLOYMENT_NAME": "x"}, "x"),
        ({"DAGSTER_CLOUD_IS_BRANCH_DEPLOYMENT": "0", "DAGSTER_CLOUD_GIT_BRANCH": "a"}, ""),
        ({"DAGSTER_CLOUD_DEPLOYMENT_NAME": "prod"}, ""),
    ],
)
def test_branch_follows_deployment(environment, branch):
    assert branch_of_environment(environment) == branch


class RenamingExecutor(EmbeddedExecutor):
    """Renames a table while the difference of the next one is computed."""

    def __init__(self, catalog):
        super().__init__()
        self._catalog = catalog

    def map_tasks(self, batch):
        answers = list(super().map_tasks(batch))
        if batch.subject.startswith("shop.totals"):
            self._catalog.rename_table("shop.prices", "shop.moved")
        return iter(answers)


def test_table_renamed_during_promotion_is_not_reported_as_promoted(warehouse):
    run(location(warehouse, 3, "pr"))
    catalog = new_catalog_in(warehouse, "shop")
    executor = RenamingExecutor(catalog)
    report = promote(catalog, "pr", executor=executor)
    assert [one.is_promoted for one in report] == [False, True]
    assert "renamed meanwhile" in report[0].refusal
    assert catalog.get_table("shop.moved").branches.exists("pr")
