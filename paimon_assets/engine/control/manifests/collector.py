"""Python's cycle collector, held back while very many small objects are made.

Entries of manifests hold no cycles; looking for some each time their number has grown costs as much
as decoding them.
"""

import contextlib
import gc
from collections.abc import Iterator
from threading import Lock

_LOCK = Lock()
_HOLDERS: set[object] = set()


@contextlib.contextmanager
def without_collector() -> Iterator[None]:
    """Hold the collector back until the last holder is done; one that was off stays off."""
    holder = object()
    with _LOCK:
        if _HOLDERS or gc.isenabled():
            _HOLDERS.add(holder)
            gc.disable()
    try:
        yield
    finally:
        with _LOCK:
            if holder in _HOLDERS:
                _HOLDERS.remove(holder)
                if not _HOLDERS:
                    gc.enable()
