"""Fixtures of the tests of the server."""

from tests.testkit.server_fixtures import audit_lines, catalog, client, name, outside, served

__all__ = ["audit_lines", "catalog", "client", "name", "outside", "served"]
