"""Storages that stand in front of another, and pass every call on."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Concatenate, ParamSpec, TypeVar

from msgspec.structs import replace

from paimon_assets.engine.errors import ACCESS_DENIED, StorageError
from paimon_assets.engine.fileio.base import FileIO, FileIOSpec, FileStatus
from paimon_assets.engine.fileio.opening import renewing

P = ParamSpec("P")
T = TypeVar("T")


def _passing(method: Callable[Concatenate[FileIO, P], T]) -> Callable[Concatenate[Any, P], T]:
    """Return a method that passes its call on."""

    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        result: T = self._pass_on(method, *args, **kwargs)
        return result

    return call


class DelegatingFileIO(FileIO):
    """The base of storages in front of another one; all calls of `FileIO` use `_passed`.

    Calls that spare requests become single ones, unless a subclass passes them on.
    """

    @property
    @abstractmethod
    def spec(self) -> FileIOSpec:
        """See `FileIO`."""

    @abstractmethod
    def _pass_on(
        self,
        method: Callable[Concatenate[FileIO, P], T],
        *args: P.args,
        **kwargs: P.kwargs,  # there are none
    ) -> T:
        """Make a call of the storage behind; `make` does."""

    read_bytes = _passing(FileIO.read_bytes)
    open_input = _passing(FileIO.open_input)
    read_ranges = _passing(FileIO.read_ranges)
    open_output = _passing(FileIO.open_output)
    write_bytes = _passing(FileIO.write_bytes)
    publish = _passing(FileIO.publish)
    replace = _passing(FileIO.replace)
    write_hint = _passing(FileIO.write_hint)
    exists = _passing(FileIO.exists)
    file_size = _passing(FileIO.file_size)
    list_directory = _passing(FileIO.list_directory)
    make_directory = _passing(FileIO.make_directory)
    delete_file = _passing(FileIO.delete_file)
    delete_directory = _passing(FileIO.delete_directory)
    delete_empty_directory = _passing(FileIO.delete_empty_directory)
    rename_directory = _passing(FileIO.rename_directory)


def make(file_io: FileIO, method: Callable[Concatenate[FileIO, P], T], *args: Any) -> T:
    """Call a method of `FileIO` as this storage has it."""
    result: T = getattr(file_io, method.__name__)(*args)
    return result


class RenewedFileIO(DelegatingFileIO):
    """A storage whose credentials expire; it is opened again behind its users.

    Credentials that the storage refuses before their end are renewed, once a call.
    """

    def __init__(self, opened: Callable[[FileIOSpec | None], tuple[FileIO, int]]) -> None:
        self._opened = opened
        self._key = renewing(self)

    @property
    def spec(self) -> FileIOSpec:
        return self.renewed_spec(None)

    def renewed_spec(self, refused: FileIOSpec | None) -> FileIOSpec:
        file_io, expires_ms = self._opened(refused)
        return replace(file_io.spec, expires_ms=expires_ms, renewed_by=self._key)

    def _pass_on(
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

    def ahead(self, **asked: Any) -> AbstractContextManager[Callable[[], bool]]:
        """See `FileIO`; files opened with other credentials meanwhile send their own requests."""
        return self._opened(None)[0].ahead(**asked)

    def prepare_publish(self, path: str) -> None:
        self._opened(None)[0].prepare_publish(path)

    def write_hint_later(self, path: str, data: bytes) -> None:
        self._opened(None)[0].write_hint_later(path, data)

    def at_once(self) -> AbstractContextManager[None]:
        return self._opened(None)[0].at_once()

    def list_tree(self, path: str) -> Callable[[str], list[FileStatus]]:
        return self._pass_on(FileIO.list_tree, path)

    def delete_files(self, paths: Sequence[str]) -> None:
        self._pass_on(FileIO.delete_files, paths)

    def expect(self, tags: Mapping[str, str]) -> None:
        self._opened(None)[0].expect(tags)

    def open_ahead(self, files: Iterable[tuple[str, int]], *, fixed: bool = False) -> None:
        self._opened(None)[0].open_ahead(files, fixed=fixed)
