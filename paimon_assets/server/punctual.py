"""HTTP/1.1 for clients that send their heads in time; uvicorn waits for ever for the first byte.

A connection counts among those the server holds at once: silent ones would keep everybody out.
"""

import asyncio
from typing import ClassVar

from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle


class PunctualProtocol(H11Protocol):
    """A connection that is closed if the head of a request does not come, or not to its end."""

    head_seconds: ClassVar[float] = 60.0

    _late: asyncio.TimerHandle | None = None

    def connection_made(  # type: ignore[override]  # as in the base
        self, transport: asyncio.Transport
    ) -> None:
        """Wait for a head."""
        super().connection_made(transport)
        self._late = self.loop.call_later(self.head_seconds, transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._wait_no_more()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Wait for the rest of a head; between requests uvicorn waits by itself."""
        super().data_received(data)
        asked: RequestResponseCycle | None = self.cycle
        if asked is not None and not asked.response_complete:
            self._wait_no_more()
        elif self._late is None:
            self._late = self.loop.call_later(self.head_seconds, self.transport.close)

    def _wait_no_more(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None
