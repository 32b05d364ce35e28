"""Doctests, looked for where there are some; and the names that examples use."""

import re
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from _pytest.doctest import DoctestModule

_PROMPT = ">>>"
_USED = re.compile(r"\b(catalog|table|orders|specs|compaction_job)\b")


class WhereSomeAre:
    """A plugin beside `--doctest-modules`."""

    @pytest.hookimpl(wrapper=True)
    def pytest_collect_file(
        self, file_path: Path
    ) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
        """Leave out the doctests of a module that has no prompt: it would be imported for them."""
        found = yield
        if file_path.suffix != ".py" or _PROMPT in file_path.read_text(encoding="utf-8"):
            return found
        return [collector for collector in found if not isinstance(collector, DoctestModule)]


@pytest.fixture
def doctest_namespace(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Return the catalog, table and asset that examples of tables and assets use."""
    text = "".join(each.source for each in request.node.dtest.examples)
    return _names() if _USED.search(text) else {}


def _names() -> dict[str, Any]:
    """Return a warehouse of one table of two rows, and definitions of Dagster for it."""
    import pyarrow as pa

    from paimon_assets import Schema, assets
    from paimon_assets.testing import MemoryWarehouse

    catalog = MemoryWarehouse().catalog
    schema = Schema.of({"id": "BIGINT", "n": "BIGINT"}, primary_keys=["id"])
    catalog.create_database("shop")
    table = catalog.create_table("shop.orders", schema)
    table.upsert(pa.table({"id": [1, 2], "n": [5, 6]}))

    @assets.paimon_asset("shop.orders", schema)
    def orders() -> Any: ...

    specs = assets.build_external_table_specs(assets.describe_tables(catalog))
    job = assets.build_compaction_job(["shop.orders"])
    return {**locals(), "compaction_job": job}
