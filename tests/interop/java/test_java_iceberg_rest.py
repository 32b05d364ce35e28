"""Our catalog server, read by Spark through Iceberg's own catalog, on an S3 server."""

import json
import os
import subprocess

import pytest

from tests.iceberg.kit.served import ROWS, served_lake, token_of
from tests.interop.environment import HOME, ICEBERG_JARS, ROOT, iceberg_python, java_jar

pytestmark = pytest.mark.interop


def test_spark_reads_and_changes_nothing(tmp_path):
    if not HOME.exists():
        pytest.skip("Java Paimon is absent; `make interop-java` fetches it")
    jars = ",".join(str(java_jar(each)) for each in ICEBERG_JARS)
    own = {key: value for key, value in os.environ.items() if not key.startswith("AWS_")}
    command = [str(iceberg_python()), "-m", "tests.interop.peers.iceberg_spark"]
    with served_lake(tmp_path) as lake:
        done = subprocess.run(
            [*command, jars, lake.uri, "lake"],
            input=token_of("outsider"),
            capture_output=True,
            text=True,
            cwd=ROOT,
            env=own,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-4000:]
        assert lake.reads > 0
    seen = json.loads(done.stdout)
    for change in ("append", "create", "drop"):
        assert "Server does not support endpoint" in seen.pop(change)
    assert "TABLE_OR_VIEW_NOT_FOUND" in seen.pop("plain")
    assert seen == {
        "databases": [["lake"]],
        "tables": ["elsewhere", "keyed", "t"],
        "t": ROWS,
        "filtered": [["x2"]],
        "elsewhere": ROWS,
        "keyed": [[1, "x1"], [2, "x2"], [3, "y3"]],
        "as of 1": ROWS[:2],
        "snapshots": [[1], [2]],
    }
