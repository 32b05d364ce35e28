"""What all tests share: how much is drawn, what is left out, a warehouse, one SparkSession."""

import gc
import os

import pytest
from hypothesis import is_hypothesis_test

from tests.testkit import processes
from tests.testkit.doctests import WhereSomeAre
from tests.testkit.effort import is_hunt, register_profiles
from tests.testkit.jvm_classes import begin_archive, share_classes
from tests.testkit.tables import new_catalog_in

register_profiles()

NOT_IN_CHECK = ("e2e", "faults", "interop", "simulation", "spark", "stateful")
"""Below `tests`: what `make check` does not even import; nor does it run what is marked `slow`."""


def pytest_addoption(parser):
    """`--check` leaves out what is slow."""
    parser.addoption("--check", action="store_true", help="no JVM, no killed process, nothing slow")


def pytest_configure(config):
    """Give children default signals; let pass what Spark's own client leaves open.

    That is sockets to its JVM, noticed at any time.
    """
    processes.restore_signals()
    processes.keep_bytecode()
    processes.start_jvms_lightly()
    processes.start_workers_lightly()
    processes.keep_migrations()
    config.pluginmanager.register(WhereSomeAre())
    for ignored in (
        "ignore:unclosed <socket:ResourceWarning",
        "ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning",
    ):
        config.addinivalue_line("filterwarnings", ignored)
    leads = config.getoption("numprocesses", None) and not hasattr(config, "workerinput")
    if leads and not config.option.check:
        archiving = begin_archive()
        if archiving is not None:
            config.add_cleanup(archiving.wait)


def pytest_runtest_setup():
    """Let JVMs that start from now on be quicker, once it can be."""
    share_classes()


def pytest_ignore_collect(collection_path, config):
    """Leave out whole folders and files."""
    if not config.option.check:
        return None
    here = config.rootpath / "tests"
    return True if collection_path in {here / name for name in NOT_IN_CHECK} else None


@pytest.hookimpl(tryfirst=True)  # before `-m` selects
def pytest_collection_modifyitems(config, items):
    """Let everything that draws its input go on in a hunt; leave out what is for hunts alone.

    `--check` leaves out what starts Spark or takes long, too.
    """
    left_out = []
    for item in items:
        is_long = item.get_closest_marker("hunt_only")
        if is_long or is_hypothesis_test(getattr(item, "obj", None)):
            item.add_marker(pytest.mark.hunt)
        is_slow = item.get_closest_marker("spark") or item.get_closest_marker("slow")
        if (is_long and not is_hunt()) or (is_slow and config.option.check):
            left_out.append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        gone = set(left_out)
        items[:] = [item for item in items if item not in gone]


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Look for no garbage while tests are collected, nor later among what lives as long as they."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(10_000, 10, 10)  # a run of Dagster's makes objects by the ten thousand
        gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config):
    """One worker more than cores: many tests wait for a child, a lock or a clock."""
    return (os.cpu_count() or 1) + (not config.option.check)


@pytest.fixture
def warehouse(tmp_path):
    """Path of an empty warehouse directory."""
    path = tmp_path / "warehouse"
    path.mkdir()
    return str(path)


@pytest.fixture
def invoke(tmp_path):
    """Call a command on the warehouse `w` of the test, and return what it prints."""
    from click.testing import CliRunner

    from paimon_assets.cli.main import main

    def call(*arguments, code=0, output="output", **more):
        result = CliRunner().invoke(main, ["-w", str(tmp_path / "w"), *arguments], **more)
        assert result.exit_code == code, result.output
        return getattr(result, output)

    return call


@pytest.fixture
def new_catalog(warehouse):
    """Open a catalog over the warehouse, with one database `db`."""
    return new_catalog_in(warehouse)


@pytest.fixture(scope="session")
def spark():
    """Return the one session of all Spark tests, on two cores."""
    session_module = pytest.importorskip("paimon_assets.spark.session", exc_type=ImportError)
    settings_of_tests = session_module.SparkSettings(
        master="local[2]",
        app_name="paimon-assets tests",
        driver_memory="1g",
        extra={
            "spark.sql.shuffle.partitions": "3",
            # Small tables would all be read by the driver.
            "spark.paimon_assets.readHere": "0",
            # A plan that runs once does not repay its compilation; other sessions compile theirs.
            "spark.sql.codegen.wholeStage": "false",
            # A stream that waits would ask its source a hundred times a second.
            "spark.sql.streaming.pollingDelay": "200ms",
        },
    )
    session = session_module.get_session(settings_of_tests)
    yield session
    session_module.stop_session()
