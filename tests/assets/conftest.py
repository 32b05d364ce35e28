"""Fixtures of the asset tests."""

import pytest

from tests.testkit.asset_fixtures import mark_below, paimon, warehouse
from tests.testkit.asset_tables import lent_instance

__all__ = ["paimon", "warehouse"]


@pytest.fixture
def instance():
    """Return an empty instance in memory."""
    with lent_instance() as lent:
        yield lent


@pytest.fixture
def landing(tmp_path):
    """Return an empty folder for files that land."""
    folder = tmp_path / "landing"
    folder.mkdir()
    return folder


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Ignore a warning of Dagster's."""
    mark_below(items, "tests/assets/")
