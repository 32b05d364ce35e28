"""Fixtures of the tests of SQL."""

import pytest

from tests.testkit.asset_fixtures import mark_below, paimon, warehouse
from tests.testkit.asset_tables import lent_instance
from tests.testkit.tables import new_catalog_in

__all__ = ["paimon", "warehouse"]


@pytest.fixture
def catalog(tmp_path):
    """The catalog of an empty warehouse."""
    return new_catalog_in(tmp_path / "warehouse")


@pytest.fixture
def instance():
    """Return an empty instance in memory."""
    with lent_instance() as lent:
        yield lent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Ignore a warning of Dagster's."""
    mark_below(items, "tests/sql/")
