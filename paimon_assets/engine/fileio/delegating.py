"""DelegatingFileIO: a storage that stands in front of another and passes every call on."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

from paimon_assets.engine.fileio.base import FileIO, FileIOSpec

P = ParamSpec("P")
T = TypeVar("T")


def _passing(method: Callable[Concatenate[FileIO, P], T]) -> Callable[Concatenate[Any, P], T]:
    """Return a method that passes its call on."""

    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        result: T = self._passed(method, *args, **kwargs)
        return result

    return call


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
