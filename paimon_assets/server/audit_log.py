"""Audit lines of requests that change something, fail to, get a data token, or are rejected.

They hold no content of requests or answers.
"""

import json
import logging
import time
from threading import Lock
from typing import ClassVar

from paimon_assets.server.request import Request

logger = logging.getLogger(__name__)


_LONGEST = 256


def write_audit_line(request: Request, status: int) -> None:
    """Log one line of JSON: principal, operation, names, outcome."""
    line = {
        "request": request.id,
        "principal": request.principal.name,
        "operation": request.operation,
        **{name: _cut(value) for name, value in {**request.names, **request.noted}.items()},
        "status": status,
    }
    logger.info("%s", json.dumps(line))


class Strangers:
    """Lines of requests that were not let in: so many a minute, then their number."""

    most: ClassVar[int] = 60

    def __init__(self) -> None:
        self._lock = Lock()
        self._minute, self._lines = 0, 0

    def write(self, client: str, operation: str, request_id: str) -> None:
        minute = int(time.monotonic() // 60)
        with self._lock:
            before = self._lines
            if minute != self._minute:
                self._minute, self._lines = minute, 0
            self._lines += 1
            has_room = self._lines <= self.most
            left_out = before - self.most if self._lines == 1 else 0
        if left_out > 0:
            logger.warning("%s", json.dumps({"status": 401, "lines left out": left_out}))
        if has_room:
            line = {"request": request_id, "client": client, "operation": operation, "status": 401}
            logger.warning("%s", json.dumps(line))


def _cut(value: object) -> object:
    return value[:_LONGEST] if isinstance(value, str) else value
