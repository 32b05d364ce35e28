"""RenewedFileIO: a storage whose credentials expire; it is opened again behind its users.

Credentials that the storage refuses before their end are asked for anew, once a call.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, Concatenate

from paimon_assets.engine.errors import ACCESS_DENIED, StorageError
from paimon_assets.engine.fileio.base import FileIO, FileIOSpec, FileStatus
from paimon_assets.engine.fileio.delegating import DelegatingFileIO, P, T, make
from paimon_assets.engine.fileio.opening import renewing


class RenewedFileIO(DelegatingFileIO):
    """A storage that is asked for before each call."""

    def __init__(self, opened: Callable[[FileIOSpec | None], tuple[FileIO, int]]) -> None:
        self._opened = opened
        self._key = renewing(self)

    @property
    def spec(self) -> FileIOSpec:
        return self.renewed_spec(None)

    def renewed_spec(self, refused: FileIOSpec | None) -> FileIOSpec:
        file_io, expires_ms = self._opened(refused)
        return replace(file_io.spec, expires_ms=expires_ms, renewed_by=self._key)

    def _passed(
        self, method: Callable[Concatenate[FileIO, P], T], *args: P.args, **_: P.kwargs
    ) -> T:
        file_io, _expires_ms = self._opened(None)
        try:
            return make(file_io, method, *args)
        except StorageError as error:
            if error.kind != ACCESS_DENIED:
                raise
            other, _expires_ms = self._opened(file_io.spec)
            if other is file_io:
                raise
        return make(other, method, *args)

    def ahead(self, **asked: Iterable[Any]) -> AbstractContextManager[None]:
        """See `FileIO`; what is opened with other credentials meanwhile asks for itself."""
        return self._opened(None)[0].ahead(**asked)

    def at_once(self) -> AbstractContextManager[None]:
        return self._opened(None)[0].at_once()

    def list_tree(self, path: str) -> Callable[[str], list[FileStatus]]:
        return self._passed(FileIO.list_tree, path)

    def delete_files(self, paths: Sequence[str]) -> None:
        self._passed(FileIO.delete_files, paths)

    def open_ahead(self, files: Iterable[tuple[str, int]], *, fixed: bool = False) -> None:
        self._opened(None)[0].open_ahead(files, fixed=fixed)
