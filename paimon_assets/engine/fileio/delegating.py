"""DelegatingFileIO: a storage that stands in front of another and passes every call on."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

import pyarrow as pa

from paimon_assets.engine.fileio.base import FileIO, FileIOSpec, FileStatus

P = ParamSpec("P")
T = TypeVar("T")


class DelegatingFileIO(FileIO):
    """The base of storages in front of another; what `FileIO` does goes through `_passed`.

    Calls that spare requests become single ones; who passes them on says so.
    """

    @property
    @abstractmethod
    def spec(self) -> FileIOSpec:
        """See `FileIO`."""

    @abstractmethod
    def _passed(
        self,
        method: Callable[Concatenate[FileIO, P], T],
        *args: P.args,
        **kwargs: P.kwargs,  # there are none
    ) -> T:
        """Make a call of the storage behind; `make` does."""

    def read_bytes(self, path: str) -> bytes:
        """See `FileIO`."""
        return self._passed(FileIO.read_bytes, path)

    def open_input(self, path: str, size: int | None = None) -> pa.NativeFile:
        """See `FileIO`."""
        return self._passed(FileIO.open_input, path, size)

    def open_output(self, path: str) -> pa.NativeFile:
        """See `FileIO`."""
        return self._passed(FileIO.open_output, path)

    def write_bytes(self, path: str, data: bytes) -> None:
        """See `FileIO`."""
        self._passed(FileIO.write_bytes, path, data)

    def publish(self, path: str, data: bytes) -> bool:
        """See `FileIO`."""
        return self._passed(FileIO.publish, path, data)

    def replace(self, path: str, data: bytes) -> None:
        """See `FileIO`."""
        self._passed(FileIO.replace, path, data)

    def write_hint(self, path: str, data: bytes) -> None:
        """See `FileIO`."""
        self._passed(FileIO.write_hint, path, data)

    def exists(self, path: str) -> bool:
        """See `FileIO`."""
        return self._passed(FileIO.exists, path)

    def file_size(self, path: str) -> int:
        """See `FileIO`."""
        return self._passed(FileIO.file_size, path)

    def list_directory(self, path: str) -> list[FileStatus]:
        """See `FileIO`."""
        return self._passed(FileIO.list_directory, path)

    def make_directory(self, path: str) -> None:
        """See `FileIO`."""
        self._passed(FileIO.make_directory, path)

    def delete_file(self, path: str) -> None:
        """See `FileIO`."""
        self._passed(FileIO.delete_file, path)

    def delete_directory(self, path: str) -> None:
        """See `FileIO`."""
        self._passed(FileIO.delete_directory, path)

    def delete_empty_directory(self, path: str) -> bool:
        """See `FileIO`."""
        return self._passed(FileIO.delete_empty_directory, path)

    def rename_directory(self, source: str, target: str) -> None:
        """See `FileIO`."""
        self._passed(FileIO.rename_directory, source, target)


def make(file_io: FileIO, method: Callable[Concatenate[FileIO, P], T], *args: Any) -> T:
    """Call a method of `FileIO` as this storage has it."""
    result: T = getattr(file_io, method.__name__)(*args)
    return result
