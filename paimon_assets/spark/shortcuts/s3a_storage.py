"""Tables on S3 that Spark's own reader opens: a whole read in 1.8 s of CPU, 2.8 by our tasks.

Spark opens S3 by Hadoop's client S3A, whose jar its user brings, with the credentials of its own
configuration (`spark.hadoop.fs.s3a.…`, a role of the machine). None of the catalog's is handed to
it, so that no plan, log or page of Spark has any. It is not asked where it would reach another
store, or where the catalog hands out credentials of its own, which say more than those what may be
read.

It is asked where the session says so. S3A asks seven times a file, one after the other, where our
tasks ask three times, and once a row group where columns are left out: an append table read whole
takes 0.7 of the time, one column of it twice.
"""

import logging
import os
from collections.abc import Sequence
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # ships no types
from pyspark.sql import SparkSession

from paimon_assets.engine.contract.context import ReadContext
from paimon_assets.engine.contract.split import DataSplit
from paimon_assets.engine.fileio.object_clients import S3_SCHEMES
from paimon_assets.engine.fileio.opening import scheme_of
from paimon_assets.spark.job_names import is_connect
from paimon_assets.spark.plans import class_of
from paimon_assets.spark.python_rows import row_bytes
from paimon_assets.spark.session_cache import SessionCache

logger = logging.getLogger(__name__)

_LARGE_BYTES = 32 * 1024 * 1024
"""Of the rows of a file, as Spark estimates them."""
_CLIENT = "org.apache.hadoop.fs.s3a.S3AFileSystem"
_reached = SessionCache(64)
"""(table, bucket) → whether S3A has found a file of it."""


def splits_of_s3a(
    session: SparkSession, context: ReadContext, splits: Sequence[DataSplit]
) -> list[DataSplit]:
    """Return the splits on S3 that Spark is to read itself: all of large files, if any is.

    Cost:
        One request for a table, the first time that a session reads it.
    """
    width = row_bytes(context.fields)
    large = [
        split
        for split in splits
        if all(
            scheme_of(split.path_of(file)) in S3_SCHEMES
            and file.external_path is None
            and file.row_count * width >= _LARGE_BYTES
            for file in split.data_files
        )
    ]
    if not large or context.predicate is not None or is_connect(session):
        return []
    spec = context.file_io
    if spec.renewed_by or spec.expires_ms or any("token" in name for name in spec.options):
        return []
    file = large[0].data_files[0]
    path = large[0].path_of(file)
    key = context.table, path.split("/")[2]
    is_reached = _reached.get(session, key)
    if is_reached is None:
        is_reached = _reaches(session, context, path, file.file_size)
        _reached.keep(session, key, is_reached)
    return large if is_reached else []


def s3a_path(path: str) -> str:
    """Return a path as S3A takes it.

    >>> s3a_path("s3://bucket/a"), s3a_path("/a")
    ('s3a://bucket/a', '/a')
    """
    return f"s3a://{path.partition('://')[2]}" if scheme_of(path) in S3_SCHEMES else path


def _reaches(session: SparkSession, context: ReadContext, path: str, size: int) -> bool:
    """Whether S3A, as the session has it, finds the file that the catalog's client does."""
    spec, bucket = context.file_io, path.split("/")[2]
    java: Any = session._jsparkSession  # noqa: SLF001 - PySpark has no call for it
    jvm: Any = session.sparkContext._jvm  # noqa: SLF001
    hadoop = java.sessionState().newHadoopConf()
    of_hadoop = hadoop.get(f"fs.s3a.bucket.{bucket}.endpoint") or hadoop.get("fs.s3a.endpoint")
    ours = [value for name, value in spec.options.items() if "endpoint" in name]
    ours += filter(None, map(os.environ.get, ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")))
    if _host(of_hadoop) != _host(next(iter(ours), None)):
        logger.debug("S3A of this session has another endpoint than %s", context.table)
        return False
    try:
        file = jvm.org.apache.hadoop.fs.Path(s3a_path(path))
        storage = file.getFileSystem(hadoop)
        return class_of(storage) == _CLIENT and storage.getFileStatus(file).getLen() == size
    except Py4JError as error:  # there is no such class, or it may not read
        logger.debug("S3A does not read %s: %s", context.table, type(error).__name__)
        return False


def _host(endpoint: str | None) -> str:
    """Return the host and port of an endpoint; none is that of Amazon.

    >>> _host("http://localhost:9000/"), _host("localhost:9000"), _host(None)
    ('localhost:9000', 'localhost:9000', '')
    """
    host = (endpoint or "").rpartition("://")[2].rstrip("/").lower()
    return "" if host == "s3.amazonaws.com" else host
