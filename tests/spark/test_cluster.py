"""A standalone cluster: executors of their own, blocks out of order, workers that have nothing.

They start without this package, and their Python and its packages come in an archive.
"""

import pytest

from tests.testkit.processes import answer_of

pytest.importorskip("pyspark")
standalone = pytest.importorskip("tests.testkit.standalone_cluster")

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    """Return the results of a client of the cluster."""
    home = tmp_path_factory.mktemp("cluster")
    with standalone.standalone_cluster(home) as master:
        return answer_of("tests.testkit.cluster_client", master, str(home))


def test_workers_run_packed_python_with_package_they_were_sent(outcome):
    python, package = outcome["worker"]
    assert python.endswith("/environment/bin/python")
    assert python.startswith("/")
    assert "paimon_assets-" in package
    assert ".zip" in package


def test_order_is_kept_over_blocks_that_arrive_out_of_order(outcome):
    assert outcome["values"] == list(range(60_000 - 50, 60_000))


def test_jobs_have_visible_names_and_pages(outcome):
    assert {"check workers", "write db.t", "read db.t, snapshot 1"} <= set(outcome["jobs"])
    assert outcome["pages"].startswith("http://")


@pytest.mark.parametrize(
    ("case", "parts"),
    [
        ("no_python", ["have no Python '/nowhere/bin/python'", "PYSPARK_PYTHON"]),
        ("no_packages", ["lacks a package of paimon_assets: ModuleNotFoundError"]),
        ("other_version", ["run Python 3.", "this process 3.1:"]),
        ("storage", ["does not see the table's storage: memory://nowhere", "does not exist there"]),
    ],
)
def test_missing_packages_of_workers_are_reported_before_first_job(outcome, case, parts):
    refused = outcome["refused"][case]
    assert refused["kind"] == "spark-worker"
    for part in [*parts, "docs/spark.md"]:
        assert part in refused["message"]
