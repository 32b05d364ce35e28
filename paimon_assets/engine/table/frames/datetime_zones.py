"""Zones of datetimes, kept where a variable of the environment makes pyarrow drop them.

While `PYARROW_IGNORE_TIMEZONE` is set, pyarrow takes 23:00 in New York for 23:00 UTC. Importing
pandera sets it for good, and `SPARK_LOCAL_IP`, which binds a Spark driver to this machine.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock

_IGNORE = "PYARROW_IGNORE_TIMEZONE"
_SET_BY_PANDERA = (_IGNORE, "SPARK_LOCAL_IP")
_LOCK = RLock()


@contextmanager
def zones_kept() -> Iterator[None]:
    """Convert Python's datetimes inside; the variable is away meanwhile, for the whole process."""
    with _LOCK:
        value = os.environ.pop(_IGNORE, None)
        try:
            yield
        finally:
            if value is not None:
                os.environ[_IGNORE] = value


@contextmanager
def environment_kept() -> Iterator[None]:
    """Restore the environment variables that importing pandera sets."""
    before = {name: os.environ.get(name) for name in _SET_BY_PANDERA}
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
