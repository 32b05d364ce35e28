"""Spark jobs that outlast the credentials they were planned with: they run again with new ones.

A task gets its table's credentials and their end, nothing that could renew them. Where the storage
refuses them, or they have ended, the whole job fails; here the catalog is asked for others, and the
job is run anew. Nothing of the first run counts: its files are named by no message.
"""

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from paimon_assets.engine.errors import ACCESS_DENIED, CREDENTIALS_OVER, StorageError
from paimon_assets.engine.fileio.base import FileIOSpec
from paimon_assets.engine.fileio.opening import current_spec
from paimon_assets.spark.failure import typed_errors

logger = logging.getLogger(__name__)

T = TypeVar("T")

_RUNS = 2
"""The second has all the life of a token; a job that outlives it needs some that live longer."""


class Renewal:
    """The credentials of one job, which may run again."""

    def __init__(self, spec: FileIOSpec) -> None:
        self.spec = current_spec(spec)
        self._runs = 1

    def after(self, error: StorageError) -> None:
        """Let the job run again, with another `spec`, if it failed because of this one."""
        if self._runs == _RUNS or not self._has_ended(error):
            raise error
        is_refused = error.kind == ACCESS_DENIED
        other = current_spec(self.spec, is_refused=is_refused)
        is_longer = other.expires_ms != self.spec.expires_ms
        if other.options == self.spec.options and (is_refused or not is_longer):
            raise error
        logger.warning("credentials of a storage ended while Spark used them: the job runs again")
        self.spec = other
        self._runs += 1

    def _has_ended(self, error: StorageError) -> bool:
        if error.kind in CREDENTIALS_OVER:
            return True
        return self.spec.expires_ms is not None and self.spec.expires_ms <= time.time() * 1000


def with_renewal(spec: FileIOSpec, run: Callable[[FileIOSpec], T]) -> T:
    """Run a Spark job with credentials that serve now, and again if they end in the middle."""
    renewal = Renewal(spec)
    while True:
        try:
            with typed_errors():
                return run(renewal.spec)
        except StorageError as error:
            renewal.after(error)
