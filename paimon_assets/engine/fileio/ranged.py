"""RangedFile: an object that is read by ranges, and no byte beyond what a reader needs.

A reader that knows which ranges it needs says so (`plan`); each is fetched whole when its first
byte is read, and forgotten when its last one was. Other reads fetch a block that doubles as long as
they go on forward. The end of the file, where formats keep their footers, is fetched once; a small
file at once.
"""

import io
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from threading import Lock

import pyarrow as pa

from paimon_assets.engine.fileio.parallel_requests import send

Fetch = Callable[[int, int], bytes]
"""(start, end) → the bytes between, fewer where the object ends."""

_TAIL_BYTES = 64 * 1024
WHOLE_BYTES = 256 * 1024
"""Up to this size a file is fetched in one request."""
_GAP_BYTES = 256 * 1024
"""A gap between two ranges up to this is cheaper than a request."""
_LEAST_BLOCK = 256 * 1024
_MOST_BLOCK = 8 * 1024 * 1024
_BLOCKS_HELD = 8
"""Planned blocks whose bytes are held, though not all of them were read."""

_Plan = tuple[list[tuple[int, int]], int]
"""Sorted ranges, and the most bytes of a piece."""


def tail_start(size: int) -> int:
    """Return where the end of a file begins that is fetched in one request: all of a small one."""
    return 0 if size <= WHOLE_BYTES else size - _TAIL_BYTES


EndKey = tuple[tuple[tuple[str, str], ...], str, int]
"""(options of the storage, path, bytes of the file)."""


class KeptEnds:
    """The ends of files that this process asked for or wrote, the last ones, up to some bytes.

    Only of files whose names are never used again.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes, self._lock = most_bytes, Lock()
        self._ends: dict[EndKey, Future[bytes]] = {}
        self._bytes = 0

    def get(self, key: EndKey) -> Future[bytes] | None:
        """Return an end, perhaps on its way; None if there is none, or if it could not be had."""
        with self._lock:
            end = self._pop(key)
            if end is None or (end.done() and end.exception() is not None):
                return None
            self._add(key, end)
            return end

    def put(self, key: EndKey, end: Future[bytes]) -> None:
        """Keep an end, and drop those that were not asked for the longest."""
        with self._lock:
            self._pop(key)
            self._add(key, end)
            while self._bytes > self._most_bytes:
                self._pop(next(iter(self._ends)))

    def _add(self, key: EndKey, end: Future[bytes]) -> None:
        self._ends[key] = end
        self._bytes += key[2] - tail_start(key[2])

    def _pop(self, key: EndKey) -> Future[bytes] | None:
        end = self._ends.pop(key, None)
        if end is not None:
            self._bytes -= key[2] - tail_start(key[2])
        return end


class _Block:
    """Bytes of a file at a position."""

    def __init__(self, start: int, end: int, wanted: int) -> None:
        self.start, self.end = start, end
        self.wanted = wanted
        """Bytes of it that are still to be read."""
        self.data: bytes | None = None
        self.sent: Future[bytes] | None = None
        """Its bytes, on the way."""


class RangedFile(io.RawIOBase):
    """An object for random access by one reader at a time.

    Memory: some planned blocks of `most_bytes`, a block of 8 MiB and the end of the file.
    """

    def __init__(self, fetch: Fetch, size: int, tail: Callable[[], bytes] | None = None) -> None:
        """Take what fetches ranges, the bytes of the file, and perhaps its end on the way."""
        self._fetch, self._size, self._at = fetch, size, 0
        self._tail_start = tail_start(size)
        self._fetch_tail = tail or (lambda: fetch(self._tail_start, size))
        self._tail: bytes | None = None
        self._blocks: list[_Block] = []
        self._fetched: deque[_Block] = deque()
        self._most_bytes = _MOST_BLOCK
        self._plan: _Plan | None = None
        self._sent_plan: _Plan | None = None
        """The plan, if its first blocks were sent and nothing was read since."""
        self._other = _Block(0, 0, 0)
        self._block_bytes = _LEAST_BLOCK

    def plan(self, ranges: Iterable[tuple[int, int]], most_bytes: int = _MOST_BLOCK) -> None:
        """Say which ranges will be read, each once; near ones are fetched together."""
        planned = sorted(ranges), most_bytes
        if planned == self._sent_plan:
            self._sent_plan = None
            return
        self._sent_plan, self._plan = None, planned
        blocks: list[_Block] = []
        for planned_start, planned_end in planned[0]:
            stop = min(planned_end, self._tail_start)
            for start in range(planned_start, stop, most_bytes):
                end = min(start + most_bytes, stop)
                last = blocks[-1] if blocks else None
                if last and start - last.end <= _GAP_BYTES and end - last.start <= most_bytes:
                    last.end = max(last.end, end)
                    last.wanted += end - start
                else:
                    blocks.append(_Block(start, end, end - start))
        self._blocks, self._fetched, self._most_bytes = blocks, deque(), most_bytes

    def send_first(self) -> None:
        """Ask now for the first planned blocks, up to the bytes of a long one."""
        self._send(self._blocks, 0)
        self._sent_plan = self._plan

    def readable(self) -> bool:
        """Yes."""
        return True

    def seekable(self) -> bool:
        """Yes."""
        return True

    def size(self) -> int:
        """Return the bytes of the file."""
        return self._size

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Set the position."""
        self._at = offset + (0, self._at, self._size)[whence]
        return self._at

    def tell(self) -> int:
        """Return the position."""
        return self._at

    def read(self, size: int = -1) -> bytes:
        """Read from the position on; less than asked for only at the end of the object."""
        end = self._size if size < 0 else min(self._size, self._at + size)
        parts = []
        while self._at < end and (part := self._piece(self._at, end)):
            parts.append(part)
            self._at += len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _piece(self, start: int, end: int) -> bytes:
        """Return the bytes from `start` on that one request gives, none beyond the object's end."""
        if start >= self._tail_start:
            if self._tail is None:
                self._tail = self._fetch_tail()
            return self._tail[start - self._tail_start : end - self._tail_start]
        end = min(end, self._tail_start)
        for block in self._blocks:
            if block.start <= start < block.end:
                return self._of_plan(block, start, min(end, block.end))
        if not self._other.start <= start < self._other.end:
            is_next = start == self._other.end
            self._block_bytes = min(_MOST_BLOCK, 2 * self._block_bytes) if is_next else _LEAST_BLOCK
            self._other = _Block(start, min(self._size, max(end, start + self._block_bytes)), 0)
            self._other.data = self._fetch(self._other.start, self._other.end)
        return self._part(self._other, start, min(end, self._other.end))

    def _of_plan(self, block: _Block, start: int, end: int) -> bytes:
        if block.data is None:
            self._send_next(block)
            if len(self._fetched) >= _BLOCKS_HELD:
                self._fetched.popleft().data = None
            sent, block.sent = block.sent, None
            block.data = self._fetch(block.start, block.end) if sent is None else sent.result()
            self._fetched.append(block)
        data = self._part(block, start, end)
        block.wanted -= end - start
        if block.wanted <= 0:
            block.data = None
        return data

    def _send_next(self, block: _Block) -> None:
        """Ask for the planned blocks behind one, as far as the memory of a long block reaches."""
        self._send(self._blocks[self._blocks.index(block) + 1 :], block.end - block.start)

    def _send(self, blocks: list[_Block], ahead_bytes: int) -> None:
        for following in blocks[:_BLOCKS_HELD]:
            ahead_bytes += following.end - following.start
            if ahead_bytes > self._most_bytes:
                return
            if following.sent is None and following.data is None and following.wanted > 0:
                following.sent = send(self._fetch, following.start, following.end)

    @staticmethod
    def _part(block: _Block, start: int, end: int) -> bytes:
        return (block.data or b"")[start - block.start : end - block.start]


class RangedInput(pa.PythonFile):
    """A `RangedFile` as pyarrow takes it."""

    def __init__(self, file: RangedFile) -> None:
        self.ranged = file
