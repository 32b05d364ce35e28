"""Fixtures of the tests of Iceberg's metadata and its REST catalog: those of the server."""

import pytest

from tests.testkit.server_fixtures import audit_lines, client, name, outside, served
from tests.testkit.tables import new_catalog_in

__all__ = ["audit_lines", "client", "name", "outside", "served"]


@pytest.fixture
def catalog(tmp_path):
    return new_catalog_in(tmp_path / "warehouse")
