"""HTTP/1.1 for clients that send their heads in time, and leave room for others.

uvicorn waits for ever for the first byte, and a connection counts among those the server holds at
once: silent ones would keep everybody out. Where there are too many, in all or of one client, idle
ones are closed: those that never sent a byte first, then those that have been idle longest.
"""

import asyncio
from typing import ClassVar

from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle


class PunctualProtocol(H11Protocol):
    """A connection that is closed if the head of a request does not come, or not to its end."""

    head_seconds: ClassVar[float] = 60.0
    most_connections: ClassVar[int] = 1000
    most_of_client: ClassVar[int] = 512
    """Connections from one address; a proxy has one, too."""

    _late: asyncio.TimerHandle | None = None
    heard_at: float = 0.0
    """When bytes came last; 0 if none ever did."""
    made_at: float = 0.0

    def connection_made(  # type: ignore[override]  # as in the base
        self, transport: asyncio.Transport
    ) -> None:
        """Wait for a head."""
        super().connection_made(transport)
        self.made_at = self.loop.time()
        self._make_room()
        self._late = self.loop.call_later(self.head_seconds, transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._wait_no_more()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Wait for the rest of a head; between requests uvicorn waits by itself."""
        self.heard_at = self.loop.time()
        super().data_received(data)
        asked: RequestResponseCycle | None = self.cycle
        if asked is not None and not asked.response_complete:
            self._wait_no_more()
        elif self._late is None:
            self._late = self.loop.call_later(self.head_seconds, self.transport.close)

    def _make_room(self) -> None:
        """Close the idlest connection if there are too many; of one client, its own or this one."""
        everyone = [each for each in self.connections if isinstance(each, PunctualProtocol)]
        host = self.client and self.client[0]
        own = [each for each in everyone if each.client and each.client[0] == host]
        if len(own) > self.most_of_client:
            crowd = own
        elif len(everyone) > self.most_connections:
            crowd = everyone
        else:
            return
        idle = [each for each in crowd if each is not self and each.is_idle]
        if idle:
            min(idle, key=lambda each: (each.heard_at, each.made_at)).transport.close()
        elif crowd is own:
            self.transport.close()

    @property
    def is_idle(self) -> bool:
        """Whether no request is being answered."""
        asked: RequestResponseCycle | None = self.cycle
        return not self.transport.is_closing() and (asked is None or asked.response_complete)

    def _wait_no_more(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None
