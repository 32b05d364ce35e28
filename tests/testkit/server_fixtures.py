"""Fixtures of tests of the server: one a module, on a warehouse with one database `db`."""

import logging

import pytest

from paimon_assets.engine.table.api import open_catalog
from paimon_assets.server.serve import ServeSettings
from tests.testkit.rest_server import serving


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """Path of the warehouse that is served."""
    path = tmp_path_factory.mktemp("warehouse")
    open_catalog(str(path)).create_database("db")
    return str(path)


@pytest.fixture(scope="module")
def outside(tmp_path_factory):
    """A folder that external tables may lie below."""
    return tmp_path_factory.mktemp("outside")


@pytest.fixture(scope="module")
def client(served, outside):
    """Speaks with the server."""
    settings = ServeSettings(
        warehouse=served,
        insecure=True,
        roots=(str(outside),),
        client_options={"s3.endpoint": "http://e"},
    )
    with serving(settings) as found:
        yield found


@pytest.fixture
def catalog(served):
    """The same warehouse by the file system."""
    return open_catalog(served)


@pytest.fixture
def audit_lines(caplog):
    """Returns the lines of the audit log."""
    caplog.set_level(logging.INFO, logger="paimon_assets.server.audit_log")
    return lambda: [record.message for record in caplog.records if "audit" in record.name]


@pytest.fixture
def name(request):
    """Return a name for the items of one test."""
    return "t_" + "".join(c if c.isalnum() else "_" for c in request.node.name)[-60:]
