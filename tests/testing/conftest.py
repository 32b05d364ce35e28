"""Fixtures of the tests of the warehouse in memory."""

import pytest

from tests.testkit.asset_fixtures import mark_below, paimon, warehouse

__all__ = ["paimon", "warehouse"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Ignore a warning of Dagster's."""
    mark_below(items, "tests/testing/")
