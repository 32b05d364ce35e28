"""Fixtures of the asset tests."""

import pytest

from tests.testkit.asset_fixtures import landing, mark_below, paimon, warehouse
from tests.testkit.asset_tables import lent_instance

__all__ = ["landing", "paimon", "warehouse"]


@pytest.fixture
def instance():
    """Return an empty instance in memory."""
    with lent_instance() as lent:
        yield lent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Ignore a warning of Dagster's."""
    mark_below(items, "tests/assets/")
