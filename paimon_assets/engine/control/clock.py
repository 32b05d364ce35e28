"""Clock: time as an argument, so that rules can be tested without waiting."""

import time
from threading import Event
from typing import Protocol


class Clock(Protocol):
    def now_millis(self) -> int:
        """Return epoch milliseconds."""

    def sleep_millis(self, millis: float) -> None: ...


class SystemClock:
    def now_millis(self) -> int:
        return time.time_ns() // 1_000_000

    def sleep_millis(self, millis: float) -> None:
        Event().wait(millis / 1000)
