"""Threads: who works beside a caller. An executor owns them and hands them down to all it runs.

    executor ─▶ Threads ─▶ reads, writes, tasks ─▶ submit(call) ─▶ Work
                                                                    ├─ a thread of the pool makes it
                                                                    └─ or who asks for its result

However many reads, writes and tasks share them, there are no more threads than `count`. Work may
submit work and wait for it: what no thread has begun is done by the one who waits.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from functools import partial
from threading import Lock
from typing import Any, Generic, TypeVar

import pyarrow as pa

T = TypeVar("T")


class Work(Generic[T]):
    """One call, made once; never, if nobody holds the work any more before it begins."""

    __slots__ = ("__weakref__", "_call", "_claim", "_done")

    def __init__(self, call: Callable[[], T]) -> None:
        self._call: Callable[[], T] | None = call
        self._claim = Lock()
        self._done: Future[T] = Future()

    def run(self) -> None:
        """Make the call here, unless it was begun already."""
        if not self._claim.acquire(blocking=False):
            return
        call, self._call = self._call, None
        try:
            if call is not None:
                self._done.set_result(call())
        except BaseException as error:  # noqa: BLE001 - `result` raises it
            self._done.set_exception(error)

    def result(self) -> T:
        """Return what the call returned, or raise what it raised; make it here if need be."""
        self.run()
        return self._done.result()

    def stop(self) -> None:
        """Give the call up if it was not begun, else wait for its end, whatever that is."""
        if self._claim.acquire(blocking=False):
            self._call = None
            self._done.set_exception(CancelledError())
        self._done.exception()


class Threads:
    """Threads shared by everything that one executor runs at once."""

    def __init__(self, count: int = 1) -> None:
        self.count = count
        self._pool = ThreadPoolExecutor(count, "paimon") if count > 1 else None

    def submit(self, call: Callable[..., T], *args: Any) -> Work[T]:
        """Have a call made by a thread that is free, or by whoever asks for its result."""
        work = Work(partial(call, *args))
        if self._pool is not None:
            self._pool.submit(_run, weakref.ref(work))
        return work


def _run(held: weakref.ref[Work[Any]]) -> None:
    work = held()
    if work is not None:
        work.run()


CALLER_ONLY = Threads()
"""The policy of whatever was handed none: all is done by its caller, on one core."""


def prefer_jemalloc() -> None:
    """Make jemalloc the process's pool, where it is built in and nobody chose another one."""
    chosen = os.environ.get("ARROW_DEFAULT_MEMORY_POOL")
    if chosen is None and "jemalloc" in pa.supported_memory_backends():
        pa.set_memory_pool(pa.jemalloc_memory_pool())
