"""A storage that kills its own process, as `kill -9` does, at the n-th thing it does to files."""

import io
import os
import resource
import signal
import sys
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from paimon_assets.engine.fileio.base import FileIO, FileIOSpec
from paimon_assets.engine.fileio.delegating import DelegatingFileIO, make
from paimon_assets.engine.fileio.local import local_path

_AUDITED = frozenset(
    {"open", "os.link", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.scandir"}
)
"""Events that Python itself reports before it asks the operating system."""

TORN_BYTES = 1
"""How much of a file the last write of a process leaves."""


class Countdown:
    """Kills this process when `tick` is called for the n-th time."""

    def __init__(self, steps: int) -> None:
        self._left = steps
        # Python ignores this signal; here it shall kill. Only the main thread may say so.
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        self.is_over = False
        """Whether the end has come: the process is dying, or will at its next write."""

    def tick(self, last_act: Callable[[], object] | None = None) -> None:
        """Count one step; on the last one do `last_act` and die."""
        if self._reaches_end():
            if last_act is not None:
                last_act()
            os.kill(os.getpid(), signal.SIGKILL)

    def tick_before_torn_write(self) -> None:
        """Count one step; after the last one the kernel kills within the next write to a file."""
        if self._reaches_end():
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_FSIZE, (TORN_BYTES, TORN_BYTES))

    def _reaches_end(self) -> bool:
        self._left -= 1
        if self._left == -1:
            self.is_over = True
            return True
        return False

    def watch(self, directory: str) -> None:
        """Count every system call that Python reports below `directory` too."""

        def hook(event: str, arguments: tuple[Any, ...]) -> None:
            if event in _AUDITED and any(
                isinstance(argument, str) and argument.startswith(directory)
                for argument in map(_text, arguments)
            ):
                self.tick()
                if event == "open":
                    self.tick_before_torn_write()

        sys.addaudithook(hook)


def _text(argument: object) -> object:
    return os.fspath(argument) if isinstance(argument, os.PathLike) else argument


class _DyingStream(io.RawIOBase):
    """An output that may die before, in the middle of, and after each write."""

    def __init__(self, inner: pa.NativeFile, countdown: Countdown) -> None:
        super().__init__()
        self._inner = inner
        self._countdown = countdown

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        half = len(data) // 2
        self._countdown.tick()
        self._inner.write(data[:half])
        self._countdown.tick(self._inner.flush)
        self._inner.write(data[half:])
        return len(data)

    def flush(self) -> None:
        if not self._inner.closed:
            self._inner.flush()

    def close(self) -> None:
        if not self.closed:
            self._countdown.tick()
            self._inner.close()
        super().close()


class KillingFileIO(DelegatingFileIO):
    """Real storage; every call first ticks the countdown."""

    def __init__(self, inner: FileIO, countdown: Countdown) -> None:
        self._inner = inner
        self._countdown = countdown

    @property
    def spec(self) -> FileIOSpec:
        return self._inner.spec

    def _pass_on(self, method, *args, **_):
        self._countdown.tick()
        return make(self._inner, method, *args)

    def open_output(self, path: str) -> pa.NativeFile:
        self._countdown.tick()
        stream = _DyingStream(self._inner.open_output(path), self._countdown)
        return pa.PythonFile(stream, mode="w")

    def write_bytes(self, path: str, data: bytes) -> None:
        self._countdown.tick()
        self._countdown.tick(lambda: self._inner.write_bytes(path, data[: len(data) // 2]))
        self._inner.write_bytes(path, data)

    def publish(self, path: str, data: bytes) -> bool:
        self._countdown.tick()
        published = self._inner.publish(path, data)
        self._countdown.tick()
        return published

    def replace(self, path: str, data: bytes) -> None:
        self._countdown.tick()
        self._inner.replace(path, data)
        self._countdown.tick()

    def write_hint(self, path: str, data: bytes) -> None:
        self._countdown.tick()
        self._countdown.tick(lambda: self._inner.write_hint(path, data[: len(data) // 2]))
        self._inner.write_hint(path, data)


def plain_directory(path: str) -> str:
    """Return a table's directory as the operating system names it."""
    return local_path(path)
