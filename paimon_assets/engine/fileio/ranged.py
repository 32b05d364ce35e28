"""RangedFile: an object that is read by ranges, without bytes beyond those that a reader needs.

    plan (ranges) ─▶ blocks ─▶ sent ahead, as far as the window has room ─▶ read ─▶ forgotten

A reader that knows its ranges declares them (`plan`), or that it needs all (`read_through`).
Other reads fetch a block that doubles as long as they move forward. The end of the file, where
formats keep their footers, is fetched once; a small file at once.
"""

import io
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from threading import Lock

import pyarrow as pa

from paimon_assets.engine.fileio.parallel_requests import send

Fetch = Callable[[int, int], pa.Buffer]
"""(start, end) → the bytes between, fewer where the object ends."""

_TAIL_BYTES = 64 * 1024
WHOLE_BYTES = 256 * 1024
"""Up to this size a file is fetched in one request."""
GAP_BYTES = 256 * 1024
"""A gap between two ranges up to this is cheaper than a request."""
_LEAST_BLOCK = 256 * 1024
MOST_BLOCK = 8 * 1024 * 1024
_BLOCKS_HELD = 8
"""So many planned blocks are held though not all of their bytes were read."""
_DEFAULT_WINDOW = 64 * 1024 * 1024

_Range = tuple[int, int]


def tail_start(size: int) -> int:
    """Return where the end of a file begins that is fetched in one request: all of a small one."""
    return 0 if size <= WHOLE_BYTES else size - _TAIL_BYTES


class Window:
    """The bytes that the readers of this process asked for, and did not read yet."""

    def __init__(self) -> None:
        self._lock, self._bytes = Lock(), 0

    def take(self, count: int, most_bytes: int | None = None) -> bool:
        """Add bytes, unless there are more than `most_bytes` then; return whether it did."""
        with self._lock:
            fits = most_bytes is None or self._bytes + count <= most_bytes
            self._bytes += count if fits else 0
        return fits

    def give_back(self, count: int) -> None:
        with self._lock:
            self._bytes -= count


WINDOW = Window()

EndKey = tuple[tuple[tuple[str, str], ...], str, int]
"""(options of the storage, path, bytes of the file)."""


class KeptEnds:
    """The ends of files that this process asked for or wrote, the last ones, up to some bytes.

    Only of files whose names are never used again.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes, self._lock = most_bytes, Lock()
        self._ends: dict[EndKey, Future[pa.Buffer]] = {}
        self._bytes = 0

    def get(self, key: EndKey) -> Future[pa.Buffer] | None:
        """Return an end, perhaps on its way; None if there is none, or if it could not be had."""
        with self._lock:
            end = self._pop(key)
            if end is None or (end.done() and end.exception() is not None):
                return None
            self._add(key, end)
            return end

    def put(self, key: EndKey, end: Future[pa.Buffer]) -> None:
        """Keep an end, and drop those that were not asked for the longest."""
        with self._lock:
            self._pop(key)
            self._add(key, end)
            while self._bytes > self._most_bytes:
                self._pop(next(iter(self._ends)))

    def _add(self, key: EndKey, end: Future[pa.Buffer]) -> None:
        self._ends[key] = end
        self._bytes += key[2] - tail_start(key[2])

    def _pop(self, key: EndKey) -> Future[pa.Buffer] | None:
        end = self._ends.pop(key, None)
        if end is not None:
            self._bytes -= key[2] - tail_start(key[2])
        return end


class _Block:
    """Bytes of a file at a position."""

    def __init__(self, start: int, end: int, wanted: int | None) -> None:
        self.start, self.end = start, end
        self.wanted = wanted
        """Bytes of it that are still to be read; None if it is read to its end."""
        self.data: pa.Buffer | None = None
        self.sent: Future[pa.Buffer] | None = None
        """Its bytes, on the way."""
        self.in_window = False

    @property
    def size(self) -> int:
        return self.end - self.start

    def part(self, start: int, end: int) -> pa.Buffer:
        data = self.data or pa.py_buffer(b"")
        first = min(start - self.start, data.size)
        return data.slice(first, min(end - self.start, data.size) - first)


class RangedFile(io.RawIOBase):
    """An object for random access by one reader at a time.

    Memory: its part of the window, a block of 8 MiB and the end of the file.
    """

    def __init__(self, fetch: Fetch, size: int, end: Future[pa.Buffer] | None = None) -> None:
        """Take a fetcher of ranges, the size of the file, and perhaps its end on the way."""
        self._fetch, self._size, self._at = fetch, size, 0
        self._end = _Block(tail_start(size), size, None)
        self._end.sent = end
        self._kept = [self._end]
        self._blocks: list[_Block] = []
        self._partly_read: deque[_Block] = deque()
        self._plan: tuple[list[_Range], int] | None = None
        """The planned ranges, as long as none was read."""
        self._reads_through = False
        self._window_bytes = self._own_bytes = _DEFAULT_WINDOW
        self._in_window = 0
        self._other = _Block(0, 0, None)
        self._block_bytes = _LEAST_BLOCK
        self.failure: OSError | None = None
        """The storage's last one, for those whose libraries hide it."""

    def limit(self, window_bytes: int, own_bytes: int) -> None:
        """Limit the requests ahead: of all files of the process, and of this one."""
        self._window_bytes, self._own_bytes = window_bytes, own_bytes

    def plan(self, ranges: Iterable[_Range], most_bytes: int = MOST_BLOCK) -> None:
        """Say which ranges `(start, end)` will be read, each once.

        Near ones are fetched together, long ones in pieces of `most_bytes`.
        """
        planned = sorted(ranges), most_bytes
        if planned == self._plan:
            return
        most_bytes = min(most_bytes, max(self._own_bytes, _LEAST_BLOCK))
        blocks: list[_Block] = []
        for planned_start, planned_end in planned[0]:
            stop = min(planned_end, self._end.start)
            for start in range(planned_start, stop, most_bytes):
                end = min(start + most_bytes, stop)
                last = blocks[-1] if blocks else None
                if last and start - last.end <= GAP_BYTES and end - last.start <= most_bytes:
                    last.end = max(last.end, end)
                    last.wanted = (last.wanted or 0) + end - start
                else:
                    blocks.append(_Block(start, end, end - start))
        self._set_blocks(blocks)
        self._plan = planned

    def read_through(self) -> None:
        """Say that the file will be read from its start to its end."""
        if self._end.start and self._end.sent is None and self._end.data is None:
            self._kept.remove(self._end)  # one request reads it with the bytes before it
            self._end = _Block(self._size, self._size, None)
        starts = range(0, self._end.start, MOST_BLOCK)
        ends = (min(start + MOST_BLOCK, self._end.start) for start in starts)
        self._set_blocks([_Block(*each, None) for each in zip(starts, ends, strict=True)])
        self._reads_through = True

    def keep(self, ranges: Iterable[_Range]) -> None:
        """Fetch short ranges side by side, and keep their bytes."""
        for start, end in ranges:
            if end <= self._end.start:
                self._kept.append(_Block(start, end, None))
                self._kept[-1].sent = send(self._fetch, start, end)

    def send_first(self) -> None:
        """Ask now for the first planned blocks, as far as there is room."""
        self._send(self._blocks)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def size(self) -> int:
        return self._size

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + (0, self._at, self._size)[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, size: int = -1) -> bytes:
        """Read from the position on; less than asked for only at the end of the object."""
        return self.read_buffer(size).to_pybytes()

    def read_buffer(self, size: int = -1) -> pa.Buffer:
        """Read as `read` does, without a copy of the answer of a request; pyarrow prefers it."""
        end = self._size if size < 0 else min(self._size, self._at + size)
        parts: list[pa.Buffer] = []
        while self._at < end and (part := self._piece(self._at, end)).size:
            parts.append(part)
            self._at += part.size
        return parts[0] if len(parts) == 1 else pa.py_buffer(b"".join(parts))

    def close(self) -> None:
        self._set_blocks([])
        super().close()

    def _piece(self, start: int, end: int) -> pa.Buffer:
        """Return the bytes from `start` on that one request gives, none beyond the object's end."""
        for block in self._kept:
            if block.start <= start < block.end:
                self._load(block)
                return block.part(start, end)
            if start < block.start:
                end = min(end, block.start)
        number = bisect_right(self._blocks, start, key=lambda block: block.start) - 1
        if number >= 0 and start < self._blocks[number].end:
            return self._of_plan(number, start, end)
        if not self._other.start <= start < self._other.end:
            is_next = start == self._other.end
            self._block_bytes = min(MOST_BLOCK, 2 * self._block_bytes) if is_next else _LEAST_BLOCK
            stop = min(self._end.start, max(end, start + self._block_bytes))
            self._other = _Block(start, stop, None)
            self._load(self._other)
        return self._other.part(start, end)

    def _of_plan(self, number: int, start: int, end: int) -> pa.Buffer:
        block, self._plan = self._blocks[number], None
        if block.data is None:
            while len(self._partly_read) >= _BLOCKS_HELD and self._in_window > self._own_bytes:
                self._forget(self._partly_read[0])
            self._count(block)
            if number or not self._reads_through:  # of some files only the beginning is read
                self._send(self._blocks[number + 1 :])
            self._load(block)
            self._partly_read.append(block)
        part = block.part(start, min(end, block.end))
        if block.wanted is not None:
            block.wanted -= part.size
        is_read = start + part.size >= block.end if block.wanted is None else block.wanted <= 0
        if is_read or not part.size:
            self._forget(block)
        return part

    def _send(self, blocks: Sequence[_Block]) -> None:
        for block in blocks:
            if block.in_window or (block.wanted or 1) <= 0:
                continue
            is_too_much = self._in_window and self._in_window + block.size > self._own_bytes
            if is_too_much or not self._count(block, self._window_bytes):
                return
            block.sent = send(self._fetch, block.start, block.end)

    def _load(self, block: _Block) -> None:
        """Wait for the bytes of a block, and request them if that was not done."""
        if block.data is not None:
            return
        sent, block.sent = block.sent, None
        try:
            fetched = self._fetch(block.start, block.end) if sent is None else sent.result()
        except OSError as error:
            self.failure = error
            raise
        block.data = fetched

    def _set_blocks(self, blocks: list[_Block]) -> None:
        for block in self._blocks:
            self._forget(block)
        self._blocks, self._plan, self._reads_through = blocks, None, False
        self._partly_read.clear()

    def _count(self, block: _Block, most_bytes: int | None = None) -> bool:
        """Put a block into the window, if it has room; return whether it is there."""
        if not block.in_window:
            block.in_window = WINDOW.take(block.size, most_bytes)
            self._in_window += block.size if block.in_window else 0
        return block.in_window

    def _forget(self, block: _Block) -> None:
        block.data = block.sent = None
        if block in self._partly_read:
            self._partly_read.remove(block)
        if block.in_window:
            block.in_window = False
            self._in_window -= block.size
            WINDOW.give_back(block.size)


class RangedInput(pa.PythonFile):
    """A `RangedFile` as pyarrow takes it."""

    def __init__(self, file: RangedFile) -> None:
        self.ranged = file


def read_through(source: pa.NativeFile, *, ahead_bytes: tuple[int, int] | None = None) -> None:
    """Say that a file will be read from its start to its end; with limits (`limit`), soon."""
    if isinstance(source, RangedInput):
        source.ranged.read_through()
        if ahead_bytes is not None:
            source.ranged.limit(*ahead_bytes)
            source.ranged.send_first()
