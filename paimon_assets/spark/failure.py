"""Errors of the data plane on their way through Spark.

Lasting errors are returned as values, so that Spark does not repeat a task that cannot
succeed. Errors that may pass (`StorageError`), and any in a lazy DataFrame, are raised as Python
exceptions: Spark retries the task, and the driver reads the original error out of Spark's text.

A task gets its table's credentials and their end, nothing that could renew them. Where the storage
refuses them, or they have ended, the whole job fails; the catalog renews them, and the job
runs again (`with_renewal`). Nothing of the first run counts: its files are named by no message.
"""

import base64
import binascii
import contextlib
import logging
import re
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # ships no types
from pyspark.errors import PySparkException

from paimon_assets.engine import errors
from paimon_assets.engine.contract.wire import dump_error, load_error
from paimon_assets.engine.fileio.base import FileIOSpec
from paimon_assets.engine.fileio.opening import current_spec
from paimon_assets.engine.spec.options.all_options import READ_CUT_NANOSECONDS

logger = logging.getLogger(__name__)

T = TypeVar("T")

_MARK = re.compile(r"\[paimon-error:([A-Za-z0-9+/=]+)\]")

_MISSING_FILE = re.compile(
    r"\[FAILED_READ_FILE\.FILE_NOT_EXIST\] Encountered error while reading file (.+?)\. File does"
)
_FAR_TIME = re.compile(
    r"Encountered error while reading file (\S+?)\.\s.*?long overflow.*?millisToMicros", re.DOTALL
)


class WorkerError(Exception):
    """A PaimonError inside a Spark task; its text survives Spark and holds the whole error."""

    def __init__(self, error: errors.PaimonError) -> None:
        encoded = base64.b64encode(dump_error(error)).decode()
        super().__init__(f"{error.message} [paimon-error:{encoded}]")


@contextlib.contextmanager
def encoded_errors() -> Iterator[None]:
    """Let a PaimonError leave a task in the form that survives Spark."""
    try:
        yield
    except errors.PaimonError as error:
        raise WorkerError(error) from error


def error_inside(failure: BaseException) -> errors.PaimonError | None:
    """Return the PaimonError of a failed Spark job, None if it was something else.

    A data file that Spark's own reader finds missing, or with times it does not hold, is the
    engine's error, too.
    """
    text = str(failure)
    for encoded in _MARK.findall(text):
        try:
            return load_error(base64.b64decode(encoded, validate=True))
        except (errors.FormatError, binascii.Error):
            # Spark shortens long texts; another copy may be whole.
            continue
    if missing := _MISSING_FILE.search(text):
        path = missing.group(1)
        return errors.NotFoundError(
            f"File '{path}' does not exist.", kind="file-not-found", path=path
        )
    if far := _FAR_TIME.search(text):
        return times_error("A column", far.group(1))
    return None


def times_error(column: str, path: str) -> errors.UnsupportedFeatureError:
    """Return the error of timestamps that Spark's type does not hold; `path` may be empty."""
    place = f" of '{path}'" if path else ""
    message = (
        f"{column}{place} has timestamps that Spark does not hold: its have 6 digits and lie within"
        " 290,000 years of 1970. Leave the column out or read it by the embedded executor;"
        f" `{READ_CUT_NANOSECONDS.key}` = true cuts further digits."
    )
    return errors.UnsupportedFeatureError(message, kind="spark-timestamp", path=path)


@contextlib.contextmanager
def typed_errors() -> Iterator[None]:
    try:
        yield
    except (PySparkException, Py4JError) as failure:
        error = error_inside(failure)
        if error is None:
            raise
        raise error from failure


_RUNS = 2
"""The second has all the life of a token; a job that outlives it needs some that live longer."""


class Renewal:
    """The credentials of one job, which may run again."""

    def __init__(self, spec: FileIOSpec) -> None:
        self.spec = current_spec(spec)
        self._runs = 1

    def after(self, error: errors.StorageError) -> None:
        """Let the job run again, with another `spec`, if it failed because of this one."""
        end = self.spec.expires_ms
        has_ended = end is not None and end <= time.time() * 1000
        if self._runs == _RUNS or not (error.kind in errors.CREDENTIALS_OVER or has_ended):
            raise error
        is_refused = error.kind == errors.ACCESS_DENIED
        other = current_spec(self.spec, is_refused=is_refused)
        is_longer = other.expires_ms != end
        if other.options == self.spec.options and (is_refused or not is_longer):
            raise error
        logger.warning("credentials of a storage ended while Spark used them: the job runs again")
        self.spec = other
        self._runs += 1


def with_renewal(spec: FileIOSpec, run: Callable[[FileIOSpec], T]) -> T:
    """Run a Spark job with credentials that serve now, and again if they end in the middle."""
    renewal = Renewal(spec)
    while True:
        try:
            with typed_errors():
                return run(renewal.spec)
        except errors.StorageError as error:
            renewal.after(error)
