"""What all tests share: hypothesis profiles, a warehouse on disk, one SparkSession."""

import pytest
from hypothesis import HealthCheck, settings

from paimon_assets.engine.table.api import open_catalog

# The suite repeats itself; --hypothesis-profile=hunt draws anew each time.
_BASE = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("suite", _BASE, derandomize=True, database=None)
settings.register_profile("hunt", _BASE, print_blob=True)
settings.load_profile("suite")


def pytest_configure(config):
    """Let pass what Spark's own client leaves open: sockets to its JVM, noticed at any time."""
    for ignored in (
        "ignore:unclosed <socket:ResourceWarning",
        "ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning",
    ):
        config.addinivalue_line("filterwarnings", ignored)


def pytest_collection_modifyitems(items):
    """Keep the tests of a file together, and those of the one SparkSession, where workers share."""
    for item in items:
        group = "spark" if item.get_closest_marker("spark") else str(item.path)
        item.add_marker(pytest.mark.xdist_group(group))


@pytest.fixture
def warehouse(tmp_path):
    """Path of an empty warehouse directory."""
    path = tmp_path / "warehouse"
    path.mkdir()
    return str(path)


@pytest.fixture
def new_catalog(warehouse):
    """Open a catalog over the warehouse, with one database `db`."""
    catalog = open_catalog(warehouse)
    catalog.create_database("db")
    return catalog


@pytest.fixture(scope="session")
def spark():
    """Return the one session of all Spark tests, on two cores."""
    session_module = pytest.importorskip("paimon_assets.spark.session", exc_type=ImportError)
    settings_of_tests = session_module.SparkSettings(
        master="local[2]",
        app_name="paimon-assets tests",
        driver_memory="1g",
        extra={"spark.sql.shuffle.partitions": "3"},
    )
    session = session_module.get_session(settings_of_tests)
    yield session
    session_module.stop_session()
