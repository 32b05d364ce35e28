"""RenewedFileIO: a storage whose credentials end; it is opened anew behind who uses it.

Credentials that the storage refuses before their end are asked for anew, once a call.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import pyarrow as pa

from paimon_assets.engine.errors import ACCESS_DENIED, StorageError
from paimon_assets.engine.fileio.base import FileIO, FileIOSpec, FileStatus
from paimon_assets.engine.fileio.opening import renewing

T = TypeVar("T")


class RenewedFileIO:
    """A storage that is asked for before each call.

    Args:
        opened: Given credentials that were refused, None if none were, returns the storage, opened
            with others that serve now, and when those end in epoch milliseconds.
    """

    def __init__(self, opened: Callable[[FileIOSpec | None], tuple[FileIO, int]]) -> None:
        self._opened = opened
        self._key = renewing(self)

    @property
    def spec(self) -> FileIOSpec:
        """How to open it elsewhere, and until when."""
        return self.renewed_spec(None)

    def renewed_spec(self, refused: FileIOSpec | None) -> FileIOSpec:
        """Return how to open it elsewhere with others than refused credentials, if there are."""
        file_io, expires_ms = self._opened(refused)
        return replace(file_io.spec, expires_ms=expires_ms, renewed_by=self._key)

    def _done(self, call: Callable[[FileIO], T]) -> T:
        file_io, _ = self._opened(None)
        try:
            return call(file_io)
        except StorageError as error:
            if error.kind != ACCESS_DENIED:
                raise
            other, _ = self._opened(file_io.spec)
            if other is file_io:
                raise
        return call(other)

    def read_bytes(self, path: str) -> bytes:
        """See `FileIO`."""
        return self._done(lambda storage: storage.read_bytes(path))

    def open_input(self, path: str) -> pa.NativeFile:
        """See `FileIO`."""
        return self._done(lambda storage: storage.open_input(path))

    def open_output(self, path: str) -> pa.NativeFile:
        """See `FileIO`."""
        return self._done(lambda storage: storage.open_output(path))

    def write_bytes(self, path: str, data: bytes) -> None:
        """See `FileIO`."""
        self._done(lambda storage: storage.write_bytes(path, data))

    def publish(self, path: str, data: bytes) -> bool:
        """See `FileIO`."""
        return self._done(lambda storage: storage.publish(path, data))

    def replace(self, path: str, data: bytes) -> None:
        """See `FileIO`."""
        self._done(lambda storage: storage.replace(path, data))

    def write_hint(self, path: str, data: bytes) -> None:
        """See `FileIO`."""
        self._done(lambda storage: storage.write_hint(path, data))

    def exists(self, path: str) -> bool:
        """See `FileIO`."""
        return self._done(lambda storage: storage.exists(path))

    def file_size(self, path: str) -> int:
        """See `FileIO`."""
        return self._done(lambda storage: storage.file_size(path))

    def list_directory(self, path: str) -> list[FileStatus]:
        """See `FileIO`."""
        return self._done(lambda storage: storage.list_directory(path))

    def make_directory(self, path: str) -> None:
        """See `FileIO`."""
        self._done(lambda storage: storage.make_directory(path))

    def delete_file(self, path: str) -> None:
        """See `FileIO`."""
        self._done(lambda storage: storage.delete_file(path))

    def delete_directory(self, path: str) -> None:
        """See `FileIO`."""
        self._done(lambda storage: storage.delete_directory(path))

    def delete_empty_directory(self, path: str) -> bool:
        """See `FileIO`."""
        return self._done(lambda storage: storage.delete_empty_directory(path))

    def rename_directory(self, source: str, target: str) -> None:
        """See `FileIO`."""
        self._done(lambda storage: storage.rename_directory(source, target))
