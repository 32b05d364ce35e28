"""RenewedFileIO: a storage whose credentials end; it is opened anew behind who uses it."""

from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa

from paimon_assets.engine.fileio.base import FileIO, FileIOSpec, FileStatus
from paimon_assets.engine.fileio.opening import renewing


class RenewedFileIO:
    """A storage that is asked for before each call.

    Args:
        opened: Returns the storage, opened with credentials that serve now, and when those end in
            epoch milliseconds.
    """

    def __init__(self, opened: Callable[[], tuple[FileIO, int]]) -> None:
        self._opened = opened
        self._key = renewing(self)

    def _current(self) -> FileIO:
        return self._opened()[0]

    @property
    def spec(self) -> FileIOSpec:
        """How to open it elsewhere, and until when."""
        file_io, expires_ms = self._opened()
        return replace(file_io.spec, expires_ms=expires_ms, renewed_by=self._key)

    def read_bytes(self, path: str) -> bytes:
        """See `FileIO`."""
        return self._current().read_bytes(path)

    def open_input(self, path: str) -> pa.NativeFile:
        """See `FileIO`."""
        return self._current().open_input(path)

    def open_output(self, path: str) -> pa.NativeFile:
        """See `FileIO`."""
        return self._current().open_output(path)

    def write_bytes(self, path: str, data: bytes) -> None:
        """See `FileIO`."""
        self._current().write_bytes(path, data)

    def publish(self, path: str, data: bytes) -> bool:
        """See `FileIO`."""
        return self._current().publish(path, data)

    def replace(self, path: str, data: bytes) -> None:
        """See `FileIO`."""
        self._current().replace(path, data)

    def write_hint(self, path: str, data: bytes) -> None:
        """See `FileIO`."""
        self._current().write_hint(path, data)

    def exists(self, path: str) -> bool:
        """See `FileIO`."""
        return self._current().exists(path)

    def file_size(self, path: str) -> int:
        """See `FileIO`."""
        return self._current().file_size(path)

    def list_directory(self, path: str) -> list[FileStatus]:
        """See `FileIO`."""
        return self._current().list_directory(path)

    def make_directory(self, path: str) -> None:
        """See `FileIO`."""
        self._current().make_directory(path)

    def delete_file(self, path: str) -> None:
        """See `FileIO`."""
        self._current().delete_file(path)

    def delete_directory(self, path: str) -> None:
        """See `FileIO`."""
        self._current().delete_directory(path)

    def delete_empty_directory(self, path: str) -> bool:
        """See `FileIO`."""
        return self._current().delete_empty_directory(path)

    def rename_directory(self, source: str, target: str) -> None:
        """See `FileIO`."""
        self._current().rename_directory(source, target)
