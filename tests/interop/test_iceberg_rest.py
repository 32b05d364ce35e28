"""Our catalog server, read by Iceberg's clients on an S3 server, with the keys it hands out."""

import json
import os
import subprocess

import pytest

from tests.iceberg.kit.served import ROWS, served_lake, token_of
from tests.interop.environment import ROOT, iceberg_home, iceberg_python

pytestmark = pytest.mark.interop
READS = {
    "t": ROWS,
    "filtered": [["x2"]],
    "elsewhere": ROWS,
    "keyed": [[1, "x1"], [2, "x2"], [3, "y3"]],
}
TABLES = ["elsewhere", "keyed", "t"]


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    if not iceberg_home().exists():
        pytest.skip("the peers' environment is absent; `make interop` creates it")
    with served_lake(tmp_path_factory.mktemp("lake")) as found:
        yield found


def walk(lake, reader):
    """Return the results of a reader without a key of its own."""
    before = lake.reads
    own = {key: value for key, value in os.environ.items() if not key.startswith("AWS_")}
    done = subprocess.run(
        [str(iceberg_python()), "-m", "tests.interop.peers.iceberg_rest", reader, lake.uri, "lake"],
        input=token_of("outsider"),
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=own,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert lake.reads > before
    return json.loads(done.stdout)


def test_pyiceberg_lists_loads_and_scans(lake):
    seen = walk(lake, "pyiceberg")
    not_served = "NotImplementedError: Server does not support endpoint: "
    for change, endpoint in (
        ("append", "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}"),
        ("create", "POST /v1/{prefix}/namespaces/{namespace}/tables"),
        ("drop", "DELETE /v1/{prefix}/namespaces/{namespace}/tables/{table}"),
    ):
        assert seen.pop(change) == not_served + endpoint
    assert "Set its option 'metadata.iceberg.storage'" in seen.pop("plain")
    assert "unsupported_grant_type" in seen.pop("oauth")
    assert seen.pop("stranger").startswith("UnauthorizedError: NotAuthorizedException")
    assert seen == {
        **READS,
        "databases": [["lake"]],
        "tables": TABLES,
        "pages": TABLES,
        "views": [],
        "exists": [True, False, False],
        "as of 1": ROWS[:2],
    }


def test_duckdb_attaches_it(lake):
    seen = walk(lake, "duckdb")
    for change in ("append", "create", "drop"):
        assert "read only" in seen.pop(change)
    assert "Set its option 'metadata.iceberg.storage'" in seen.pop("plain")
    assert seen == {**READS, "tables": TABLES}
