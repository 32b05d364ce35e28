"""FaultyFileIO: real storage with bad days.

One fault is planned: on the i-th call, or on the first call that touches a file of a given name. It
either *fails* (nothing happens, `StorageError`), or *loses the answer* (it happens, but the caller
gets a `CommitUnknownError` from a publish, `StorageError` else), or *tears* a write (half of
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

from paimon_assets.engine.errors import CommitUnknownError, PaimonError, StorageError
from paimon_assets.engine.fileio.base import FileIO, FileIOSpec
from paimon_assets.engine.fileio.delegating import DelegatingFileIO, make

WRITES = frozenset(
    {
        "open_output", "write_bytes", "publish", "replace", "write_hint", "make_directory",
        "delete_file", "delete_directory", "delete_empty_directory", "rename_directory",
    }
)  # fmt: skip
"""Calls that change the storage; only they can lose an answer by file name."""


class Fault(StrEnum):
    FAIL = "fail"
    LOSE_ANSWER = "lose answer"
    TEAR = "tear"


class FaultyFileIO(DelegatingFileIO):
    """A FileIO that fails once, where it is planned."""

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
        self.fail_on = fail_on
        self._lose_answer_of = lose_answer_of
        self._before = before
        self.fired = False
        """Whether the planned fault has happened."""
        self.calls: list[tuple[str, str]] = []
        """(method, path) of every call so far."""

    def count(self, method: str) -> int:
        return sum(called == method for called, _ in self.calls)

    @property
    def spec(self) -> FileIOSpec:
        return self._inner.spec

    def _pass_on(self, method, *args, **_):
        number, name, path = len(self.calls), method.__name__, args[0]
        self.calls.append((name, path))
        if self._before is not None:
            self._before(number, name, path)
        fault = self._fault(number, name, path)
        if fault is None:
            return make(self._inner, method, *args)
        self.fired = True
        if fault is Fault.TEAR and name in ("write_bytes", "replace", "write_hint"):
            make(self._inner, method, path, args[1][: len(args[1]) // 2])
        if fault is Fault.LOSE_ANSWER:
            make(self._inner, method, *args)
        raise self._error(fault, name, path)

    def _fault(self, number: int, method: str, path: str) -> Fault | None:
        if self.fired:
            return None
        if number in self._faults:
            return self._faults[number]
        name = path.rstrip("/").rsplit("/", 1)[-1]
        if self.fail_on is not None and fnmatch(name, self.fail_on):
            return Fault.FAIL
        if self._lose_answer_of is not None and method in WRITES:
            return Fault.LOSE_ANSWER if fnmatch(name, self._lose_answer_of) else None
        return None

    def _error(self, fault: Fault, method: str, path: str) -> PaimonError:
        if fault is Fault.LOSE_ANSWER and method == "publish":
            return CommitUnknownError(f"Injected: the answer of {method} '{path}' was lost.")
        return StorageError(f"Injected: {fault} at {method} '{path}'.", kind="injected")
