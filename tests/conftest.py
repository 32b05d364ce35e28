"""What all tests share: how much is drawn, what is left out, a warehouse, one SparkSession."""

import gc
import os

import pytest
from hypothesis import is_hypothesis_test

from tests.testkit import processes
from tests.testkit.doctests import WhereSomeAre
from tests.testkit.effort import is_hunt, register_profiles
from tests.testkit.jvm_classes import begin_archive, share_classes
from tests.testkit.sharing import ByWeight
from tests.testkit.tables import new_catalog_in

register_profiles()

NOT_IN_CHECK = (
    # starts a JVM or a server, kills processes, goes through long histories
    *("e2e", "faults", "interop", "spark", "stateful"),
    *("assets/test_io_on_spark.py", "assets/test_on_spark.py"),
    *("fileio/test_s3.py", "fileio/test_s3_faults.py"),
    *("server/test_killed_server.py", "server/test_on_s3.py"),
    *(
        "server/test_concurrency.py",
        "iceberg/test_iceberg_on_s3.py",
        "cdc/test_killed_change_logs.py",
    ),
    # takes long: runs of Dagster by the dozen, a year of flights, compactions of every kind
    *("assets/test_audit.py", "assets/test_compaction.py", "assets/test_ingestion.py"),
    *("assets/test_io_audit.py", "assets/test_io_frames.py", "assets/test_io_inputs.py"),
    *("assets/test_io_modes.py", "assets/test_io_partitions.py", "assets/test_schema_evolution.py"),
    *("assets/test_loading.py", "assets/test_partitions.py", "assets/test_table_asset.py"),
    *("assets/test_show_values.py", "assets/test_io_secrets.py", "assets/test_consumption.py"),
    *("data/test_bounded_merge.py", "jobs/test_change_log.py", "table/test_compaction.py"),
    *("assets/test_landing.py", "assets/test_reexecution.py", "assets/test_run_modes.py"),
    *(
        "assets/test_schema_policy.py",
        "assets/test_two_catalogs.py",
        "server/test_issued_tokens.py",
    ),
    *("table/test_catalog_kinds.py", "table/test_row_merges.py"),
)
"""Below `tests`: what `make check` does not even import; nor does it run what is marked `spark`."""


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

    `--check` leaves out what starts Spark, too.
    """
    left_out = []
    for item in items:
        is_long = item.get_closest_marker("hunt_only")
        if is_long or is_hypothesis_test(getattr(item, "obj", None)):
            item.add_marker(pytest.mark.hunt)
        starts_spark = item.get_closest_marker("spark")
        if (is_long and not is_hunt()) or (starts_spark and config.option.check):
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


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Share the tests by weight."""
    if config.getvalue("dist") != "loadgroup":
        return None
    config.option.loadscopereorder = False
    return ByWeight(config, log)


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
