"""An S3 server on loopback, with one bucket: the demo's own."""

from contextlib import AbstractContextManager

from jobs.demo.s3_server import ACCESS_KEY, SECRET_KEY
from jobs.demo.s3_server import client_of as boto3_client
from jobs.demo.s3_server import s3_server as serving

BUCKET = "lake"


def s3_server() -> AbstractContextManager[dict[str, str]]:
    """Run a server with one empty bucket, and yield the catalog options to reach it."""
    return serving(BUCKET)


__all__ = ["ACCESS_KEY", "BUCKET", "SECRET_KEY", "boto3_client", "s3_server"]
