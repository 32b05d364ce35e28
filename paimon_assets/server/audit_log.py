"""Audit lines: one a request that changes something, or tried to, or got a data token.

None holds what the request or its answer carried.
"""

import json
import logging

from paimon_assets.server.request import Request

logger = logging.getLogger(__name__)


_LONGEST = 256
"""Characters of a name."""


def write_audit_line(request: Request, status: int) -> None:
    """Log one line of JSON: who, what, on which names, with what outcome."""
    line = {
        "request": request.id,
        "principal": request.principal.name,
        "operation": request.operation,
        **{name: _cut(value) for name, value in {**request.names, **request.noted}.items()},
        "status": status,
    }
    logger.info("%s", json.dumps(line))


def _cut(value: object) -> object:
    return value[:_LONGEST] if isinstance(value, str) else value
