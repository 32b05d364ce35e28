"""Files that go up to an object store in parts while they are written."""

import io
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pyarrow as pa

from paimon_assets.engine.fileio import ranged
from paimon_assets.engine.fileio.object_clients import os_error

PART_BYTES = 8 * 1024 * 1024
PARTS_AT_ONCE = 4


class Upload:
    """A file that is uploaded in parts while it is written; a failed one leaves no parts."""

    mode = "wb"

    def __init__(
        self,
        opening: Callable[[], Any],
        put: Callable[[bytes], object],
        keep_end: Callable[[int, bytes], None],
    ) -> None:
        self._opening, self._put, self._keep_end = opening, put, keep_end
        self._writer: Any = None
        self._whole = io.BytesIO()
        """A file that is too small for parts; the answer to its put decides about it."""
        self._at = self._held = 0
        self._last = deque[bytes]()
        self.closed = False

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        with self._abort_on_error():
            if self._writer is None and self._at + len(view) < PART_BYTES:
                written = self._whole.write(view)
            else:
                if self._writer is None:
                    self._writer = self._opening()
                    self._writer.write(self._whole.getvalue())
                    self._whole = io.BytesIO()
                written = self._writer.write(view)
        self._at += written
        self._last.append(bytes(view[-ranged.WHOLE_BYTES :]))
        self._held += len(self._last[-1])
        while self._held - len(self._last[0]) >= ranged.WHOLE_BYTES:
            self._held -= len(self._last.popleft())
        return written

    def tell(self) -> int:
        return self._at

    def flush(self) -> None:
        """Nothing: parts go when they are full."""

    def close(self) -> None:
        if not self.closed:
            with self._abort_on_error():
                self.closed = True
                if self._writer is None:
                    self._put(self._whole.getvalue())
                else:
                    self._writer.close()
            self._keep_end(self._at, b"".join(self._last))

    def discard(self) -> None:
        """Forget the written bytes; the object never appears."""
        if not self.closed:
            self.closed = True
            with suppress(Exception):
                self._writer.__exit__(InterruptedError, InterruptedError(), None)

    @contextmanager
    def _abort_on_error(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # noqa: BLE001 - it is raised again
            failure = os_error(error)
            self.discard()
            raise failure from None


class UploadStream(pa.PythonFile):
    """An `Upload` as pyarrow takes it."""

    def __init__(self, upload: Upload) -> None:
        self.discard = upload.discard
