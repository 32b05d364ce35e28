"""`--s3`: the demo on an object store: an S3 server that is started for it, and ends with it.

s3://demo/warehouse    the tables
s3://demo/landing      files that "arrive", and the archive: uploaded as they are made
.demo/s3               the local side, made again: Dagster's runs, and files to upload

No Spark setting names the store: the engine's own tasks read and write it.
"""

import os
import shutil
import subprocess
import sys

from jobs.demo.home import DEMO, ROOT
from jobs.demo.s3_server import s3_server
from paimon_assets.engine.spec.options.catalog_options import VARIABLES

BUCKET = "demo"


def run_on_s3(arguments: list[str]) -> int:
    """Run the demo in a process whose storage is an S3 server; return its exit code."""
    if "PAIMON_URI" in os.environ:
        sys.exit("PAIMON_URI names a REST catalog, whose server has its own storage: unset it.")
    home = DEMO / "s3"
    shutil.rmtree(home, ignore_errors=True)
    with s3_server(BUCKET) as options:
        environment = {
            **os.environ,
            **{VARIABLES[key]: value for key, value in options.items()},
            "PAIMON_DEMO_HOME": str(home),
            "PAIMON_DEMO_STORE": f"s3://{BUCKET}/landing",
            "PAIMON_WAREHOUSE": f"s3://{BUCKET}/warehouse",
        }
        command = [sys.executable, "-m", "jobs.demo.run", *arguments]
        done = subprocess.run(command, cwd=ROOT, env=environment, check=False)  # noqa: S603 - our own
        return done.returncode
