"""What all tests share: hypothesis profiles, a warehouse on disk, one SparkSession."""

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

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


_OWN_JVM = (
    "tests/e2e/",
    "tests/spark/test_cluster",
    "tests/spark/test_connect",
    "tests/spark/test_java",
)
"""What starts JVMs of its own beside the one SparkSession."""


class ByFile(LoadScopeScheduling):  # type: ignore[misc]
    """Keeps the tests of a file on one worker, and those of the one SparkSession.

    Groups made by marks are none to pytest 9.2 and xdist 3.8: each test went where there was room,
    fixtures of modules were made by every worker, and every worker started Spark.
    """

    def _split_scope(self, nodeid: str) -> str:
        uses_session = "spark" in nodeid or nodeid.startswith("tests/behaviour/")
        if uses_session and not nodeid.startswith(_OWN_JVM):
            return "spark"
        return nodeid.partition("::")[0]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Share the tests by file, in the order they are collected: the slow ones are not last."""
    if config.getvalue("dist") != "loadgroup":
        return None
    config.option.loadscopereorder = False
    return ByFile(config, log)


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
    session_module = pytest.importorskip(
        "paimon_assets.spark.session.session", exc_type=ImportError
    )
    settings_of_tests = session_module.SparkSettings(
        master="local[2]",
        app_name="paimon-assets tests",
        driver_memory="1g",
        extra={"spark.sql.shuffle.partitions": "3"},
    )
    session = session_module.get_session(settings_of_tests)
    yield session
    session_module.stop_session()
