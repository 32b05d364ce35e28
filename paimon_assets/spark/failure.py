"""Errors of the data plane on their way through Spark.

What a person must mend comes back as a value, so that Spark does not repeat a task that cannot
succeed. What may pass (`StorageError`), and anything inside a lazy DataFrame, is raised as a Python
exception: Spark retries the task, and the driver reads the original error out of Spark's text.
"""

import base64
import binascii
import contextlib
import re
from collections.abc import Iterator

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # ships no types
from pyspark.errors import PySparkException

from paimon_assets.engine.contract.wire import dump_error, load_error
from paimon_assets.engine.errors import (
    FormatError,
    NotFoundError,
    PaimonError,
    UnsupportedFeatureError,
)
from paimon_assets.engine.spec.options.scan_options import READ_CUT_NANOSECONDS

_MARK = re.compile(r"\[paimon-error:([A-Za-z0-9+/=]+)\]")

_MISSING_FILE = re.compile(
    r"\[FAILED_READ_FILE\.FILE_NOT_EXIST\] Encountered error while reading file (.+?)\. File does"
)
_FAR_TIME = re.compile(
    r"Encountered error while reading file (\S+?)\.\s.*?long overflow.*?millisToMicros", re.DOTALL
)


class WorkerError(Exception):
    """A PaimonError inside a Spark task; its text survives Spark and holds the whole error."""

    def __init__(self, error: PaimonError) -> None:
        encoded = base64.b64encode(dump_error(error)).decode()
        super().__init__(f"{error.message} [paimon-error:{encoded}]")


@contextlib.contextmanager
def encoded_errors() -> Iterator[None]:
    """Let a PaimonError leave a task in the form that survives Spark."""
    try:
        yield
    except PaimonError as error:
        raise WorkerError(error) from error


def error_inside(failure: BaseException) -> PaimonError | None:
    """Return the PaimonError of a failed Spark job, None if it was something else.

    A data file that Spark's own reader finds missing, or with times it does not hold, is the
    engine's error, too.
    """
    text = str(failure)
    for encoded in _MARK.findall(text):
        try:
            return load_error(base64.b64decode(encoded, validate=True))
        except (FormatError, binascii.Error):
            # Spark shortens long texts; another copy may be whole.
            continue
    if missing := _MISSING_FILE.search(text):
        path = missing.group(1)
        return NotFoundError(
            f"File '{path}' does not exist.", kind="file-not-found", details={"path": path}
        )
    if far := _FAR_TIME.search(text):
        return times_error("A column", far.group(1))
    return None


def times_error(column: str, path: str) -> UnsupportedFeatureError:
    """Return the error of timestamps that Spark's type does not hold.

    Args:
        column: Its name in quotes, if it is known.
        path: Where the rows lie; empty is unknown.
    """
    place = f" of '{path}'" if path else ""
    return UnsupportedFeatureError(
        f"{column}{place} has timestamps that Spark does not hold: its have 6 digits and lie within"
        " 290,000 years of 1970. Leave the column out or read it by the embedded executor;"
        f" `{READ_CUT_NANOSECONDS.key}` = true cuts further digits.",
        kind="spark-timestamp",
        details={"path": path},
    )


@contextlib.contextmanager
def typed_errors() -> Iterator[None]:
    """Turn the failure of a Spark job back into the PaimonError that caused it, if one did."""
    try:
        yield
    except (PySparkException, Py4JError) as failure:
        error = error_inside(failure)
        if error is None:
            raise
        raise error from failure
