"""FaultyFileIO: real storage with bad days.

One fault is planned: on the i-th call, or on the first call that touches a file of a given name. It
either *fails* (nothing happens, `StorageError`), or *loses the answer* (it happens, but the caller
is not told: `CommitUnknownError` from a publish, `StorageError` else), or *tears* a write (half of
the bytes are there, `StorageError`). Calls are counted from 0 and recorded.

    for call in itertools.count():
        file_io = FaultyFileIO(LocalFileIO(), faults={call: Fault.FAIL})
        ...                        # the step under test
        if not file_io.fired:
            break                  # every call has failed once
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from fnmatch import fnmatch
from typing import Any, TypeVar

import pyarrow as pa

from paimon_assets.engine.errors import CommitUnknownError, PaimonError, StorageError
from paimon_assets.engine.fileio.base import FileIO, FileIOSpec, FileStatus

T = TypeVar("T")
WRITES = frozenset(
    {
        "open_output", "write_bytes", "publish", "replace", "write_hint", "make_directory",
        "delete_file", "delete_directory", "delete_empty_directory", "rename_directory",
    }
)  # fmt: skip
"""Calls that change the storage; only they can lose an answer by file name."""


class Fault(StrEnum):
    """What goes wrong."""

    FAIL = "fail"
    LOSE_ANSWER = "lose answer"
    TEAR = "tear"


class FaultyFileIO:
    """A FileIO that goes wrong once, where it is told to.

    Args:
        inner: The real storage.
        faults: Number of a call → what goes wrong there; only the first one happens. A torn call
            that writes nothing fails.
        fail_on: File name or pattern; the first call on such a file fails.
        lose_answer_of: File name or pattern; the first write of such a file loses its answer.
        before: Called before every call with its number, method and path: other writers' turn.
    """

    def __init__(
        self,
        inner: FileIO,
        *,
        faults: Mapping[int, Fault] | None = None,
        fail_on: str | None = None,
        lose_answer_of: str | None = None,
        before: Callable[[int, str, str], None] | None = None,
    ) -> None:
        self._inner = inner
        self._faults = dict(faults or {})
        self._fail_on = fail_on
        self._lose_answer_of = lose_answer_of
        self._before = before
        self.fired = False
        """Whether the planned fault has happened."""
        self.calls: list[tuple[str, str]] = []
        """(method, path) of every call so far."""

    def count(self, method: str) -> int:
        """Return how often a method was called."""
        return sum(called == method for called, _ in self.calls)

    @property
    def spec(self) -> FileIOSpec:
        """The spec of the real storage."""
        return self._inner.spec

    def read_bytes(self, path: str) -> bytes:
        """See `FileIO`."""
        return self._call("read_bytes", path, lambda: self._inner.read_bytes(path))

    def open_input(self, path: str) -> pa.NativeFile:
        """See `FileIO`."""
        return self._call("open_input", path, lambda: self._inner.open_input(path))

    def open_output(self, path: str) -> pa.NativeFile:
        """See `FileIO`."""
        return self._call("open_output", path, lambda: self._inner.open_output(path))

    def write_bytes(self, path: str, data: bytes) -> None:
        """See `FileIO`."""
        self._call(
            "write_bytes",
            path,
            lambda: self._inner.write_bytes(path, data),
            lambda: self._inner.write_bytes(path, data[: len(data) // 2]),
        )

    def publish(self, path: str, data: bytes) -> bool:
        """See `FileIO`."""
        return self._call("publish", path, lambda: self._inner.publish(path, data))

    def replace(self, path: str, data: bytes) -> None:
        """See `FileIO`."""
        self._call(
            "replace",
            path,
            lambda: self._inner.replace(path, data),
            lambda: self._inner.replace(path, data[: len(data) // 2]),
        )

    def write_hint(self, path: str, data: bytes) -> None:
        """See `FileIO`."""
        self._call(
            "write_hint",
            path,
            lambda: self._inner.write_hint(path, data),
            lambda: self._inner.write_hint(path, data[: len(data) // 2]),
        )

    def exists(self, path: str) -> bool:
        """See `FileIO`."""
        return self._call("exists", path, lambda: self._inner.exists(path))

    def file_size(self, path: str) -> int:
        """See `FileIO`."""
        return self._call("file_size", path, lambda: self._inner.file_size(path))

    def list_directory(self, path: str) -> list[FileStatus]:
        """See `FileIO`."""
        return self._call("list_directory", path, lambda: self._inner.list_directory(path))

    def make_directory(self, path: str) -> None:
        """See `FileIO`."""
        self._call("make_directory", path, lambda: self._inner.make_directory(path))

    def delete_file(self, path: str) -> None:
        """See `FileIO`."""
        self._call("delete_file", path, lambda: self._inner.delete_file(path))

    def delete_directory(self, path: str) -> None:
        """See `FileIO`."""
        self._call("delete_directory", path, lambda: self._inner.delete_directory(path))

    def delete_empty_directory(self, path: str) -> bool:
        """See `FileIO`."""
        return self._call(
            "delete_empty_directory", path, lambda: self._inner.delete_empty_directory(path)
        )

    def rename_directory(self, source: str, target: str) -> None:
        """See `FileIO`."""
        self._call("rename_directory", source, lambda: self._inner.rename_directory(source, target))

    def _call(
        self,
        method: str,
        path: str,
        run: Callable[[], T],
        tear: Callable[[], Any] | None = None,
    ) -> T:
        number = len(self.calls)
        self.calls.append((method, path))
        if self._before is not None:
            self._before(number, method, path)
        fault = self._fault(number, method, path)
        if fault is None:
            return run()
        self.fired = True
        if fault is Fault.TEAR and tear is not None:
            tear()
        if fault is Fault.LOSE_ANSWER:
            run()
        raise self._error(fault, method, path)

    def _fault(self, number: int, method: str, path: str) -> Fault | None:
        if self.fired:
            return None
        if number in self._faults:
            return self._faults[number]
        name = path.rstrip("/").rsplit("/", 1)[-1]
        if self._fail_on is not None and fnmatch(name, self._fail_on):
            return Fault.FAIL
        if self._lose_answer_of is not None and method in WRITES:
            return Fault.LOSE_ANSWER if fnmatch(name, self._lose_answer_of) else None
        return None

    def _error(self, fault: Fault, method: str, path: str) -> PaimonError:
        if fault is Fault.LOSE_ANSWER and method == "publish":
            return CommitUnknownError(f"Injected: the answer of {method} '{path}' was lost.")
        return StorageError(f"Injected: {fault} at {method} '{path}'.", kind="injected")
