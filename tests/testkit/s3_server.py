"""An S3 server of its own process on loopback: `python -m tests.testkit.s3_server PORT`.

One request at a time: a conditional put looks and writes without another in between, as S3 does.
"""

import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
BUCKET = "lake"
ACCESS_KEY, SECRET_KEY = "the-access-key", "the-secret-key"
_START_SECONDS = 60


def serve(port: int) -> None:
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import run_simple

    application = DomainDispatcherApplication(create_backend_app)
    run_simple("127.0.0.1", port, application, threaded=False)


def storage_options(port: int) -> dict[str, str]:
    return {
        "s3.endpoint": f"http://127.0.0.1:{port}",
        "s3.access-key": ACCESS_KEY,
        "s3.secret-key": SECRET_KEY,
        "s3.region": "us-east-1",
        "s3.path-style-access": "true",
    }


@contextlib.contextmanager
def s3_server() -> Iterator[dict[str, str]]:
    """Run a server with one empty bucket, and yield the catalog options to reach it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.testkit.s3_server", str(port)],
        cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        _wait_for(port, process)
        options = storage_options(port)
        boto3_client(options).create_bucket(Bucket=BUCKET)
        yield options
    finally:
        process.kill()
        process.wait()


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    for _ in range(10 * _START_SECONDS):
        if process.poll() is not None:
            raise RuntimeError(f"the S3 server ended with {process.returncode}")
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.1)
    raise RuntimeError("the S3 server did not start")


def boto3_client(options: dict[str, str]) -> Any:
    """Return another client of the same server."""
    import boto3

    return boto3.client(
        "s3",
        endpoint_url=options["s3.endpoint"],
        aws_access_key_id=ACCESS_KEY,
        aws_secret_access_key=SECRET_KEY,
        region_name=options["s3.region"],
    )


if __name__ == "__main__":
    serve(int(sys.argv[1]))
