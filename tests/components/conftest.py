"""Fixtures of the tests of components."""

import pytest

from tests.testkit.asset_fixtures import landing, mark_below, paimon, warehouse

__all__ = ["landing", "paimon", "warehouse"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Ignore a warning of Dagster's."""
    mark_below(items, "tests/components/")
