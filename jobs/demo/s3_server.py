"""An S3 server of its own process on loopback, which holds all in memory and ends with its block.

One request at a time: a conditional put looks and writes without another in between, as S3 does.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from paimon_assets.engine.errors import StorageError

ROOT = Path(__file__).resolve().parents[2]
ACCESS_KEY, SECRET_KEY = "the-access-key", "the-secret-key"


def serve() -> None:
    """Serve on a free port, say which, and go on until killed."""
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    application = DomainDispatcherApplication(create_backend_app)
    server = make_server("127.0.0.1", 0, application, threaded=False)
    print(server.server_port, flush=True)  # noqa: T201 - whoever started it waits for it
    server.serve_forever()


@contextmanager
def s3_server(bucket: str) -> Iterator[dict[str, str]]:
    """Run a server with one empty bucket, and yield the catalog options to reach it."""
    with subprocess.Popen(  # noqa: S603 - our own
        [sys.executable, "-m", __name__],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        try:
            port = process.stdout.readline().decode().strip() if process.stdout else ""
            if not port:
                raise StorageError("The S3 server did not start; it needs moto, of `make setup`.")
            options = {
                "s3.endpoint": f"http://127.0.0.1:{port}",
                "s3.access-key": ACCESS_KEY,
                "s3.secret-key": SECRET_KEY,
                "s3.region": "us-east-1",
                "s3.path-style-access": "true",
            }
            client_of(options).create_bucket(Bucket=bucket)
            yield options
        finally:
            process.kill()


def client_of(options: dict[str, str]) -> Any:
    """Return another client of the same server."""
    import boto3

    return boto3.client(
        "s3",
        endpoint_url=options["s3.endpoint"],
        aws_access_key_id=options["s3.access-key"],
        aws_secret_access_key=options["s3.secret-key"],
        region_name=options["s3.region"],
    )


if __name__ == "__main__":
    serve()
